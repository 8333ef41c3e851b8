"""The page as it is served: what a program can send it, what it answers, and that nobody sees another's run."""

from __future__ import annotations

import json
import logging
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from explorer import changes
from explorer.changes import CONTROLS
from explorer.fields import ATTENTIONS
from explorer.session import Session
from explorer.views import page


class Client:
    """One browser tab, without the browser: it sends what gradio's page would send, or whatever else a test likes."""

    def __init__(self, url: str, tab: str) -> None:
        self.url, self.tab = url, tab
        self.config = json.loads(self.fetch("/config")[1])
        self.endpoints = {each["api_name"]: each for each in self.config["dependencies"] if each["api_name"]}

    def fetch(self, path: str, body: bytes | None = None, **headers: str) -> tuple[int, str, dict[str, str]]:
        request = urllib.request.Request(self.url + path, body, {"Content-Type": "application/json", **headers})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode(), dict(answer.headers)
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), dict(error.headers)

    def send(self, name: str, data: list[Any], event: Any = None, query: str = "") -> tuple[int, Any]:
        """An event of the page, by the name of its handler."""
        endpoint = self.endpoints[name]
        trigger = next((target for target, _ in endpoint["targets"] if target is not None), None)
        body = {
            "data": data,
            "fn_index": endpoint["id"],
            "session_hash": self.tab,
            "event_data": event,
            "trigger_id": trigger,
        }
        status, text, _ = self.fetch(f"/gradio_api/run/predict{query}", json.dumps(body).encode())
        return status, json.loads(text)

    def open(self, query: str = "", hint: str = "") -> dict[str, Any]:
        """The page is opened: the frame's payload."""
        status, answer = self.send("restore", [None, None, None, hint], query=query)
        assert status == 200, answer
        return shown(answer)

    def refresh(self, **moved: Any) -> dict[str, Any]:
        """Controls are moved: the frame's payload."""
        status, answer = self.send("refresh", [None, None, None, *controls(**moved)])
        assert status == 200, answer
        return shown(answer)


def controls(**moved: Any) -> list[Any]:
    session = Session.of_preset()
    masks = {name: list(getattr(session, name)) for name in ATTENTIONS}
    values = {name: masks if name == "masks" else getattr(session, name) for name in CONTROLS}
    return list((values | moved).values())


def shown(answer: dict[str, Any]) -> dict[str, Any]:
    """The frame's payload in an answer: session, run, frame, ledger, ..."""
    return json.loads(answer["data"][2]["value"])


def looked_at(answer: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """The address and the panes in an answer to look."""
    return tuple(json.loads(answer["data"][index]["props"][name]) for index, name in ((2, "address"), (3, "detail")))


def ledger(answer: dict[str, Any]) -> dict[str, Any]:
    return json.loads(answer["data"][3]["value"])


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    demo = page.build()
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, **page.launch_options())
    yield url.rstrip("/")
    demo.close(verbose=False)


@pytest.fixture
def client(served: str, request: pytest.FixtureRequest) -> Client:
    return Client(served, f"tab-{request.node.name}"[:60])


# ------------------------------------------------------------------------------------------------------------ serving


def test_it_serves_this_machine_alone(served):
    assert served.startswith("http://127.0.0.1:")


def test_what_a_closed_tab_held_is_let_go_and_nobody_elses():
    holder = {name: SimpleNamespace(state_data={1: "session", 2: "run", 9: "other"}) for name in ("gone", "here")}
    blocks = SimpleNamespace(state_holder=SimpleNamespace(session_data=holder))
    closed = page.TabClosed(blocks, [1, 2])
    closed(SimpleNamespace(session_hash="gone"))
    closed(SimpleNamespace(session_hash="nobody"))
    assert holder["gone"].state_data == {1: None, 2: None, 9: "other"}
    assert holder["here"].state_data == {1: "session", 2: "run", 9: "other"}


def test_on_a_space_it_serves_everyone(monkeypatch):
    monkeypatch.delenv("GRADIO_SERVER_NAME", raising=False)
    monkeypatch.setenv("SPACE_ID", "someone/ledger")
    assert page.launch_options()["server_name"] == "0.0.0.0"


def test_the_page_names_no_other_host_as_a_source(client):
    _, html, headers = client.fetch("/")
    sources = re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"([^\"]+)\"", html)
    assert sources and not [source for source in sources if re.match(r"(https?:)?//", source)]
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "x-frame-options" not in {name.lower() for name in headers}


def test_uploads_oversized_bodies_and_the_monitor_are_closed(client):
    assert client.fetch("/gradio_api/upload", b"--x")[0] == 403
    assert client.fetch("/gradio_api/run/predict", b"x" * 300_000)[0] == 413
    assert client.fetch("/monitoring/summary")[0] in (403, 404)
    assert client.fetch("/gradio_api/file=app.py")[0] in (403, 404)


def test_every_event_of_the_page_is_private_and_three_functions_are_not(client):
    public = {name for name, each in client.endpoints.items() if each["api_visibility"] == "public"}
    assert public == {"ledger", "check", "check_levels"}


def test_every_control_has_a_label_in_both_languages(client):
    labels = {each["props"]["elem_id"]: each["props"].get("label") for each in client.config["components"]
              if str(each["props"].get("elem_id", "")).startswith("tl-f-") and each["type"] != "html"}  # fmt: skip
    assert len(labels) > 25 and all(labels.values())


# ----------------------------------------------------------------------------------------------------------- requests


def test_a_change_is_answered_with_the_new_ledger(client):
    assert client.open()["strip"]["sentence"].endswith("checks hold")
    _, answer = client.send("refresh", [None, None, None, *controls(d_model=96)])
    rows = {row["key"]: row["shape"] for row in ledger(answer)["rows"]}
    assert rows["memory"] == [2, 7, 96]
    assert shown(answer)["query"] == {"d_model": "96"}


BAD: list[dict[str, Any]] = [
    {"d_model": 10000}, {"d_model": 66}, {"d_model": None}, {"d_model": "64"}, {"d_model": [64]}, {"n_heads": 7},
    {"n_heads": None}, {"mode": "false"}, {"mode": None}, {"mode": ["eval"]}, {"dtype": "int8"}, {"seed": -1},
    {"seed": 1.5}, {"masks": None}, {"masks": "padding"}, {"masks": {"cross": ["padding"]}},
    {"masks": {name: ["window:0"] for name in ATTENTIONS}},
    {"src_text": "x" * 3000, "tokens": "text"}, {"preset": "/etc/passwd"}, {"n_encoder_layers": 10**6},
    {"batch_size": 0},
]  # fmt: skip


@pytest.mark.parametrize("moved", BAD, ids=lambda moved: json.dumps(moved)[:40])
def test_a_bad_value_is_refused_readably_and_the_run_stays(client, moved):
    client.open("?seed=11")
    status, answer = client.send("refresh", [None, None, None, *controls(**{"seed": 11} | moved)])
    assert status == 200, answer
    said = shown(answer)["refusal"]["text"]["en"]
    assert 10 < len(said) < 1000 and "Traceback" not in said
    address, detail = looked_at(client.send("look", [None, None, None], {"key": "memory", "sample": 0, "head": 0})[1])
    assert detail["key"] == "memory" and address["seed"] == "11"


def test_not_a_number_is_refused(client):
    client.open()
    data = json.dumps([None, None, None, *controls(d_model=float("nan"))])  # NaN, as JavaScript would not write it
    endpoint = client.endpoints["refresh"]
    body = f'{{"data": {data}, "fn_index": {endpoint["id"]}, "session_hash": "{client.tab}"}}'
    status, text, _ = client.fetch("/gradio_api/run/predict", body.encode())
    assert status == 200, text
    assert "finite" in shown(json.loads(text))["refusal"]["text"]["en"]


def test_too_few_values_break_nothing(client):
    client.open()
    status, answer = client.send("refresh", [None, None, None, 64])
    assert status >= 400 and "Traceback" not in str(answer)
    assert client.refresh(d_model=96)["query"] == {"d_model": "96"}


def test_a_bad_link_gives_a_page_and_notices(client):
    opened = client.open("?d_model=abc&nonsense=1&n_heads=3&tab=nowhere&lang=zh&src_text=" + "y" * 3000)
    assert opened["strip"] is not None and opened["lang"] == "zh"
    assert len(opened["link_notices"]) == 5
    assert all(each["text"]["en"] and each["text"]["zh"] for each in opened["link_notices"])


def test_an_unexpected_error_is_one_sentence_on_the_page(client, monkeypatch, caplog):
    client.open()
    monkeypatch.setattr(changes.running, "run", lambda *_: 1 / 0)
    with caplog.at_level(logging.ERROR):
        said = client.refresh(d_model=96)["refusal"]["text"]["en"]
    assert said.startswith("Something went wrong") and "division" not in said
    assert "ZeroDivisionError" in caplog.text


# --------------------------------------------------------------------------------------------------------- two people


def test_two_people_do_not_see_each_other(served):
    one, other = Client(served, "one"), Client(served, "other")
    one.open("?d_model=128&seed=3")
    assert one.refresh(d_model=128, seed=3, n_heads=8)["query"] == {"d_model": "128", "n_heads": "8", "seed": "3"}
    assert other.open()["query"] == {}
    look = ("look", [None, None, None], {"key": "memory", "sample": 0, "head": 0})
    assert looked_at(other.send(*look)[1])[0] == {"selected": "memory"}
    assert looked_at(one.send(*look)[1])[0]["d_model"] == "128"


def test_a_state_sent_by_a_stranger_is_not_taken(client):
    """The states live on the server; what a request puts in their place is not looked at."""
    client.open()
    status, answer = client.send("refresh", [{"d_model": 1}, "live", {"model": "x"}, *controls(d_model=96)])
    assert status == 200 and shown(answer)["query"] == {"d_model": "96"}


# ----------------------------------------------------------------------------------------------------------- language


def test_the_language_is_switched_without_a_new_page(client):
    client.open()
    status, answer = client.send("speak", [None, None, None, *controls()], {"lang": "zh"})
    assert status == 200
    assert shown(answer)["lang"] == "zh"
    labels = [each["label"] for each in answer["data"] if isinstance(each, dict) and "label" in each]
    assert "头数" in labels and "训练" in labels


# --------------------------------------------------------------------------------------------------------- public API


def test_a_program_gets_the_same_rows_as_the_library():
    from transformer_core import build, load_preset, trace

    preset = load_preset("first_look")
    model, batch = build(preset.model, preset.masks, 7), preset.batch(7)
    with trace(model) as entries:
        model(batch.src, batch.tgt)
    assert page.api.ledger("first_look", None, 7) == entries.to_rows()
    assert all(each["passed"] for each in page.api.check("minimal_encoder"))


def test_the_api_is_served(client):
    _, answer, _ = client.fetch(
        "/gradio_api/call/ledger", json.dumps({"data": ["hand_computed", ["seed=3"][:0], 3]}).encode()
    )
    event = json.loads(answer)["event_id"]
    _, stream, _ = client.fetch(f"/gradio_api/call/ledger/{event}")
    rows = json.loads(re.search(r"event: complete\ndata: (.*)", stream)[1])[0]
    assert {"index", "path", "name", "axes", "shape", "formula", "paper", "source", "mean"} <= rows[0].keys()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("no_such", None, 7), "first_look"),
        (("/etc/passwd", None, 7), "preset"),
        (("first_look", ["d_model=66"], 7), "not divisible"),
        (("first_look", ["d_model=8192", "n_heads=8"], 7), "1024"),
        (("first_look", ["data.batch_size=4000"], 7), "32"),
        (("first_look", ["src_len=500", "max_seq_len=1000000"], 7), "8192"),
        (("first_look", ["n_layers=400"], 7), "24"),
        (("first_look", "d_model=64", 7), "list"),
        (("first_look", [3], 7), "list"),
        (("first_look", ["x" * 500], 7), "list"),
        (("first_look", ["d_modle=64"], 7), "d_model"),
        (("first_look", None, None), "seed"),
        (("first_look", None, float("nan")), "seed"),
        (([], None, 7), "preset"),
    ],
)
def test_the_api_refuses_in_a_sentence(arguments, said):
    for function in (page.api.ledger, page.api.check):
        with pytest.raises(Exception, match=said) as caught:
            function(*arguments)
        assert type(caught.value).__name__ == "Error" and not caught.value.print_exception


def test_the_api_runs_the_levels_that_are_asked_for():
    found = page.api.check_levels("hand_computed", None, 7, [3, 1])
    assert {each["level"] for each in found} == {1, 3} and all(each["passed"] for each in found)
    assert page.api.check("hand_computed", None, 7) == page.api.check_levels("hand_computed", None, 7, [1, 2])


@pytest.mark.parametrize("levels", [[0], [6], ["3"], [True], [3.0], 7, "all", [1] * 11, [[1]], {"level": 1}])
def test_the_api_refuses_levels_that_are_none(levels):
    with pytest.raises(Exception, match="1, 2, 3, 4, 5") as caught:
        page.api.check_levels("hand_computed", None, 7, levels)
    assert type(caught.value).__name__ == "Error"


def test_the_api_lays_out_what_is_too_large():
    rows = page.api.ledger("paper_big")
    assert rows[-1]["shape"] == [2, 11, 37000] and rows[-1]["mean"] is None
