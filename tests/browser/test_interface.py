"""H34: requests that skip the page get a sentence, not a crash, and change nothing for anybody."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from explorer.fields import TRAINING
from explorer.session import Session
from transformer_core import load_preset

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.conftest import Server, Visitor

MASKS = {"encoder_self": ["padding"], "decoder_self": ["padding", "causal"], "cross": ["padding"]}
# The controls of Explore in the order in which the page sends them, at their first values.
CONTROLS: dict[str, Any] = {
    "preset": "first_look", "architecture": "encoder_decoder", "d_model": 64, "n_heads": 4, "d_ff": 128,
    "n_encoder_layers": 2, "n_decoder_layers": 2, "norm_order": "post", "activation": "relu", "positions": "sinusoidal",
    "tokens": "random", "split": "word", "src_text": "a b", "tgt_text": "c", "src_len": 7, "tgt_len": 5,
    "batch_size": 2, "padding": "last", "pad_side": "right", "masks": MASKS, "fill": "exclude", "weights": "fresh",
    "mode": "eval", "dropout": 0, "dtype": "float32", "device": "cpu", "seed": 7,
}  # fmt: skip
NAN = float("nan")


def send(url: str, body: bytes, kind: str = "application/json") -> tuple[int, str]:
    request = urllib.request.Request(url, body, {"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def call(server: Server, name: str, *data: Any) -> tuple[str, Any]:
    """A function of the interface: how it ended ("complete" or "error"), and with what."""
    status, text = send(f"{server.address}/gradio_api/call/{name}", json.dumps({"data": data}).encode())
    assert status == 200, text
    address = f"{server.address}/gradio_api/call/{name}/{json.loads(text)['event_id']}"
    with urllib.request.urlopen(address, timeout=60) as answer:
        event, data = answer.read().decode().strip().split("\n")[:2]
    return event.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_the_ledger_and_the_checks_come_over_http(server: Server) -> None:
    ended, (rows,) = call(server, "ledger", "first_look", ["n_heads=8"], 7)
    assert ended == "complete"
    shapes = {f"{row['path']}/{row['name']}": row["shape"] for row in rows}
    assert shapes["decoder.layers.1.cross_attention/weights"] == [2, 8, 5, 7]
    ended, (results,) = call(server, "check", "minimal_encoder", None, 7)
    assert ended == "complete"
    assert results and all(result["passed"] for result in results)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("first_look", ["d_model=100000"], 7), "d_model is 100000; it must lie between"),
        (("first_look", ["n_heads=7"], 7), "d_model 64 is not divisible by 7 heads; 4 and 8 are the nearest"),
        (("first_look", ["src_len=100000"], 7), "src"),
        (("nowhere", [], 7), 'preset is "nowhere"; it can be first_look'),
        (("../../etc/passwd", [], 7), "it can be first_look"),
        (("first_look", ["d_modle=64"], 7), "there is no setting"),
        (("first_look", {"d_model": 64}, 7), "settings is a list"),
        (("first_look", ["x" * 500], 7), "settings is a list"),
        (("first_look", [], NAN), "seed must be a finite number"),
        (("first_look", [], True), "seed must be a whole number"),
    ],
)
def test_the_interface_refuses_in_a_sentence(server: Server, arguments: tuple[Any, ...], sentence: str) -> None:
    for name in ("ledger", "check"):
        ended, said = call(server, name, *arguments)
        assert ended == "error"
        assert sentence in said["error"]
        assert "Traceback" not in said["error"]


def test_values_that_no_control_could_have_are_refused_by_the_page_itself(
    server: Server, newcomer: Callable[..., Visitor]
) -> None:
    """The same events that the page sends, with what its sliders and menus would never let through."""
    wrong: list[tuple[dict[str, Any], str, str]] = [
        ({"d_model": 1_000_000}, "d_model", "1024"),
        ({"d_model": NAN}, "d_model", "finite"),
        ({"d_model": None}, "d_model", "d_model"),
        ({"d_model": "64"}, "d_model", "whole number"),
        ({"batch_size": 10**9}, "batch_size", "32"),
        ({"src_len": 129}, "src_len", "128"),
        ({"norm_order": ["post"]}, "norm_order", "text"),
        ({"fill": "zero"}, "fill", "exclude"),
        ({"masks": "none"}, "masks", "lists of rules"),
        ({"masks": MASKS | {"cross": ["window:0"]}}, "masks", "window"),
        ({"tokens": "text", "src_text": "x" * 3000}, "src_text", "2000"),
        ({"seed": -1}, "seed", "0"),
        ({"dropout": True}, "dropout", "number"),
    ]
    for changes, field, part in wrong:
        ended, updates = call(server, "refresh", None, None, None, *(CONTROLS | changes).values())
        assert ended == "complete", changes
        refusal = json.loads(updates[2]["value"])["refusal"]
        assert refusal["field"] == field
        assert part in refusal["text"]["en"], changes
        assert refusal["text"]["zh"] != refusal["text"]["en"]
        assert len(updates[3].get("value") or "") == 0, "nothing was run"
    # Nothing of it stays: the next person finds the first preset.
    visitor = newcomer().open()
    assert visitor.query() == {}
    preset = load_preset("first_look")
    assert visitor.cell("decoder.layers.1.cross_attention/q", "shape").inner_text() == f"2×4×{preset.data.tgt_len}×16"


def test_a_training_that_no_control_could_ask_for_is_refused(server: Server, newcomer: Callable[..., Visitor]) -> None:
    visitor = newcomer()  # for the watch over the server's log
    with urllib.request.urlopen(f"{server.address}/config", timeout=60) as answer:
        number = next(each["id"] for each in json.load(answer)["dependencies"] if each["api_name"] == "command")
    usual = {name: getattr(Session.of_preset(), name) for name in TRAINING}
    for field, value, part in (
        ("steps", 10**9, "5000"),
        ("steps", NAN, "finite"),
        ("train_batch", -5, "1"),
        ("lr", 1e9, "10"),
        ("task", "sorting", "copy"),
        ("train_seed", None, "seed"),
        ("schedule", "linear", "cosine"),
        ("smoothing", 1.5, "0.9"),
        ("lesson", "none.such", "none"),
    ):
        data = [None, None, *(usual | {field: value}).values()]
        event = {"data": data, "fn_index": number, "event_data": {"do": "play"}, "session_hash": "stranger"}
        status, said = send(f"{server.address}/gradio_api/run/predict", json.dumps(event).encode())
        assert status == 200, f"{field} {value}: {said}"
        refusal = json.loads(json.loads(said)["data"][1]["value"])["refusal"]
        assert refusal["field"] == field
        assert part in refusal["text"]["en"]
    visitor.open()
    visitor.tab("Train")
    expect(visitor.state).to_contain_text("No step taken")


def test_no_files_and_no_floods_are_taken(server: Server) -> None:
    status, said = send(f"{server.address}/gradio_api/upload", b"--x--", "multipart/form-data; boundary=x")
    assert (status, "takes no files" in said) == (403, True)
    status, said = send(f"{server.address}/gradio_api/call/ledger", json.dumps({"data": ["x" * 300_000]}).encode())
    assert (status, "KB" in said) == (413, True)
    for path in ("/gradio_api/file=app.py", "/gradio_api/file=/etc/passwd", "/monitoring/summary"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(server.address + path, timeout=60)
        with refused.value as error:
            assert error.code in (403, 404)
