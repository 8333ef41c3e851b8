"""What reaches the app at all: no uploads, no oversized bodies; and the headers every answer carries."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MAX_QUERY = 60 * 1024  # bytes; two full text boxes of Chinese are some 40 kilobytes in an address
MAX_BODY = 256 * 1024  # a request carries one set of controls; the longest text boxes are a few kilobytes

# Everything comes from this host. Gradio compiles the scripts of its HTML components at run time, hence 'unsafe-eval'.
# No frame-ancestors and no X-Frame-Options: on a Space the page is shown inside a frame.
POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self' data: blob:",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'self'",
    )
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)


class Guard:
    """ASGI middleware around the whole app: ``Middleware(Guard)``.

    Gradio leaves its upload route open even where no component takes files, and sets no limit on a JSON body.
    """

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], max_body: int = MAX_BODY) -> None:
        self.app = app
        self.max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if is_closed(scope.get("path", "")):
            await _answer(send, 403, "This page takes no files and writes none.")
            return
        if len(scope.get("query_string", b"")) > MAX_QUERY:
            await _answer(send, 414, f"An address may carry {MAX_QUERY // 1024} KB after its question mark.")
            return
        length = _declared_length(scope)
        if length is not None and length > self.max_body:
            await _answer(
                send, 413, f"A request may carry {self.max_body // 1024} KB; this one carries {length // 1024} KB."
            )
            return

        seen = 0

        async def counted() -> Message:
            """A body sent in pieces has no declared length: count it, and hang up when it grows too long."""
            nonlocal seen
            message = await receive()
            if message["type"] == "http.request":
                seen += len(message.get("body", b""))
                if seen > self.max_body:
                    return {"type": "http.disconnect"}
            return message

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message.get("headers", ())}
                message["headers"] = [
                    *message.get("headers", ()),
                    *(pair for pair in HEADERS if pair[0] not in present),
                ]
            await send(message)

        await self.app(scope, counted, headed)


def is_closed(path: str) -> bool:
    """Whether a path is one of gradio's routes that write files on the host, wherever the app is mounted.

    >>> is_closed("/gradio_api/upload"), is_closed("/gradio_api/deep_link"), is_closed("/gradio_api/info")
    (True, True, False)
    """
    return any(part in ("upload", "upload_progress", "deep_link") for part in path.split("/"))


def _declared_length(scope: Scope) -> int | None:
    for name, value in scope.get("headers", ()):
        if name == b"content-length":
            return int(value) if value.isdigit() else None
    return None


async def _answer(send: Send, status: int, sentence: str) -> None:
    body = json.dumps({"error": sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
