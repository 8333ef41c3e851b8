"""What reaches the app: no uploads, no large bodies, whether their length is declared or not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from explorer.guard import HEADERS, MAX_QUERY, Guard


def ask(
    path: str,
    pieces: list[bytes],
    declared: int | None = None,
    kind: str = "http",
    limit: int = 100,
    query: bytes = b"",
) -> list[dict[str, Any]]:
    """What a client sees of an app that reads its whole body and answers 200 with its length."""
    sent: list[dict[str, Any]] = []
    waiting = [
        {"type": "http.request", "body": piece, "more_body": number < len(pieces) - 1}
        for number, piece in enumerate(pieces)
    ]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        length, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                await send({"type": "http.response.start", "status": 400, "headers": []})
                return
            length, more = length + len(message.get("body", b"")), message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"referrer-policy", b"no-referrer")]})
        await send({"type": "http.response.body", "body": str(length).encode()})

    async def receive() -> Any:
        return waiting.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [] if declared is None else [(b"content-length", str(declared).encode())]
    scope = {"type": kind, "path": path, "query_string": query, "headers": headers}
    asyncio.run(Guard(app, limit)(scope, receive, send))
    return sent


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/upload",
        "/upload",
        "/space/gradio_api/upload",
        "/gradio_api/upload_progress",
        "/gradio_api/deep_link",
    ],
)
def test_uploads_are_closed(path):
    start, body = ask(path, [b""])
    assert start["status"] == 403
    assert b"takes no files" in body["body"]


def test_an_address_that_is_too_long_is_refused_before_gradio_reads_it():
    assert ask("/", [b""], query=b"x" * MAX_QUERY)[0]["status"] == 200
    start, body = ask("/", [], query=b"x" * (MAX_QUERY + 1))
    assert start["status"] == 414 and b"60 KB" in body["body"]


def test_a_declared_body_that_is_too_long_is_never_read():
    start, body = ask("/gradio_api/run/predict", [], declared=10**9)
    assert start["status"] == 413
    assert b"976562 KB" in body["body"]


def test_a_body_without_a_length_is_counted_and_cut():
    assert ask("/x", [b"a" * 60, b"a" * 60])[0]["status"] == 400
    assert ask("/x", [b"a" * 60, b"a" * 40])[1]["body"] == b"100"


def test_nonsense_as_length_does_not_break_the_guard():
    assert ask("/x", [b"abc"], declared="many")[0]["status"] == 200


def test_every_answer_carries_the_headers_once():
    headers = dict(ask("/", [b""])[0]["headers"])
    assert headers[b"referrer-policy"] == b"no-referrer"  # what the app says itself stands
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert b"default-src 'self'" in headers[b"content-security-policy"]
    assert b"x-frame-options" not in headers  # a Space shows the page in a frame
    assert {name for name, _ in HEADERS} <= headers.keys()


def test_other_kinds_of_connection_pass():
    assert ask("/upload", [b"x"], kind="websocket")[0]["status"] == 200
