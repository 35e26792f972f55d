"""Cost of an event over a WebSocket, compared with HTTP: to a client, and from an upstream."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from timing import Figure, Run, fastest
from workloads import chat, responses

from streamnorm import Transcoder
from streamnorm.gateway import Config, Gateway, UpstreamConfig
from streamnorm.gateway.websocket_messages import MessageWriter

__all__ = ["report"]

_DELTAS = 2000
_BAR_US = 2.0  # an event, one a read, without compression
_TO = "openai_responses"

_SSE = [(b"content-type", b"text/event-stream")]

_UPSTREAM_DELTAS = 600
_UPSTREAM_ROUNDS = 12
_PAUSE_S = 0.0004  # in which the gateway has read
# A second task is woken for each read: of the connection, and of the answer.
_UPSTREAM_BARS_US = {1: 5.0, 8: 2.0, 50: 2.0}  # by events a read
_ACCEPT = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
_HTTP_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
_SOCKET_HEAD = (
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-accept: %b\r\n\r\n"
)

_Transport = Literal["http", "websocket"]


def report(rounds: int) -> list[Figure]:
    """Print and return the extra cost of an event over a WebSocket, compared with HTTP."""
    return [*_report_messages(rounds), *_report_upstreams(min(rounds, _UPSTREAM_ROUNDS))]


def _report_messages(rounds: int) -> list[Figure]:
    """Print and return the extra cost of an event to a client as a WebSocket message."""
    transcoder = Transcoder("openai_chat", _TO)
    reads = [b"".join(transcoder.feed(chunk)) for chunk in chat.frames(chat.text(_DELTAS))]
    chunks = [chunk for chunk in reads if chunk]

    async def ignore(message: Any) -> None:
        """Do nothing, in place of the server."""

    async def send(text: str) -> None:
        await ignore({"type": "websocket.send", "text": text})

    runs: dict[str, Run] = {
        "http": _run(lambda: ignore, chunks),
        "message": _run(lambda: MessageWriter(send, None), chunks),
        "message of a lane": _run(lambda: MessageWriter(send, "lane"), chunks),
    }
    best = fastest(runs, rounds)
    print("\nan event over a WebSocket, more than over HTTP, in µs")
    figures: list[Figure] = []
    for name in ("message", "message of a lane"):
        added = (best[name] - best["http"]) / len(chunks) * 1e6
        figures.append(Figure(f"websocket, {name}", added, _BAR_US))
        print(f"{name:20}{added:8.2f}{figures[-1].mark}")
    return figures


def _run(make: Callable[[], Callable[[Any], Awaitable[None]]], chunks: list[bytes]) -> Run:
    async def send_all() -> None:
        send = make()
        await send({"type": "http.response.start", "status": 200, "headers": _SSE})
        for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

    return lambda: asyncio.run(send_all())


# Upstreams


def _report_upstreams(rounds: int) -> list[Figure]:
    """Print and return the extra cost of an upstream's event over a WebSocket."""
    print("\nan event of an upstream over a WebSocket, more than over HTTP, in µs (and over HTTP)")
    figures: list[Figure] = []
    clients = {
        "responses": ("/v1/responses", {"model": "m", "input": "Hi.", "store": False}),
        "anthropic": (
            "/v1/messages",
            {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi."}]},
        ),
    }
    for number, bar in _UPSTREAM_BARS_US.items():
        for client, (path, body) in clients.items():
            best = _answer_seconds(path, {**body, "stream": True}, number, rounds)
            http = best["http"] / _UPSTREAM_DELTAS * 1e6
            added = best["websocket"] / _UPSTREAM_DELTAS * 1e6 - http
            name = f"{number} a read, to {client}"
            figures.append(Figure(f"websocket, upstream, {name}", added, bar))
            print(f"{name:26}{added:8.2f}{figures[-1].mark}{http:8.2f}")
    return figures


def _answer_seconds(
    path: str, body: dict[str, Any], number: int, rounds: int
) -> dict[_Transport, float]:
    """Return the gateway's least CPU seconds for an answer, by transport.

    Args:
        path: Path of the request.
        body: Its body.
        number: Events of the upstream in one read.
        rounds: Number of rounds, of both transports in turn.
    """
    best: dict[_Transport, float] = {"http": float("inf"), "websocket": float("inf")}
    with _upstream(number) as url:
        for _ in range(rounds):
            for transport in best:
                config = UpstreamConfig(dialect=_TO, base_url=url, transport=transport)
                app = Gateway(Config(upstreams={"local": config}), environ={})
                best[transport] = min(best[transport], asyncio.run(_ask(app, path, body)))
    return best


async def _ask(app: Gateway, path: str, body: dict[str, Any]) -> float:
    """Return the CPU seconds for an answer, without those for the connection."""
    messages = [{"type": "http.request", "body": json.dumps(body).encode()}]
    received = bytearray()
    start = 0.0

    async def receive() -> dict[str, Any]:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop()

    async def send(message: dict[str, Any]) -> None:
        nonlocal start
        received.extend(message.get("body", b""))
        start = start or time.thread_time()

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": headers,
    }
    await app(scope, receive, send)
    taken = time.thread_time() - start
    assert received.count(b".delta") + received.count(b"_delta") >= _UPSTREAM_DELTAS, received[:200]
    events = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

    async def next_event() -> dict[str, Any]:
        return next(events)

    async def ignore(message: dict[str, Any]) -> None:
        """Ignore the messages of the lifespan."""

    await app({"type": "lifespan"}, next_event, ignore)
    return taken


@contextmanager
def _upstream(number: int) -> Iterator[str]:
    """Serve one answer on each connection, over HTTP or a WebSocket, in a thread.

    Args:
        number: Events that are sent at once.
    """
    payloads = responses.text(_UPSTREAM_DELTAS)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, payloads, number), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def _serve(listener: socket.socket, payloads: list[bytes], number: int) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(65536)
            fields = dict(
                line.lower().split(b": ", 1)[:1] + line.split(b": ", 1)[1:]
                for line in data.split(b"\r\n\r\n")[0].split(b"\r\n")[1:]
            )
            key = fields.get(b"sec-websocket-key")
            if key is None:
                head, pieces, end = (
                    _HTTP_HEAD,
                    map(_chunk, _groups(responses.frames(payloads), number)),
                    b"0\r\n\r\n",
                )
            else:
                accept = base64.b64encode(hashlib.sha1(key + _ACCEPT).digest())  # noqa: S324 - of the protocol
                head, pieces, end = (
                    _SOCKET_HEAD % accept,
                    _groups([*map(_frame, payloads)], number),
                    b"",
                )
            connection.sendall(head)
            if key is not None:
                connection.recv(65536)  # the create
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(_PAUSE_S)
            connection.sendall(end)
            connection.recv(65536)  # the end


def _groups(parts: list[bytes], number: int) -> Iterator[bytes]:
    return (b"".join(parts[at : at + number]) for at in range(0, len(parts), number))


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _frame(data: bytes) -> bytes:
    """Return a WebSocket frame with a server's text message (RFC 6455, section 5.2)."""
    size = len(data)
    if size < 126:
        return bytes([0x81, size]) + data
    if size < 65536:
        return b"\x81\x7e" + size.to_bytes(2, "big") + data
    return b"\x81\x7f" + size.to_bytes(8, "big") + data
