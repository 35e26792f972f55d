"""Cost of an event through a `TranscodingTransport`, beside the same client without it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType
from typing import Any

import httpx
import httpx2
from timing import Figure, Run, decode_json, fastest
from workloads import chat

import streamnorm.transports.httpx
import streamnorm.transports.httpx2

__all__ = ["report"]

_EVENTS = 5000
# Two decodings of the payload, the writing of it, and the transport.
_BAR_U = 2 + 1.2 + 1
_REQUEST = {
    "model": "m",
    "max_tokens": 9,
    "stream": True,
    "messages": [{"role": "user", "content": "Hi."}],
}
_FAMILIES = (
    (httpx, streamnorm.transports.httpx.TranscodingTransport),
    (httpx2, streamnorm.transports.httpx2.TranscodingTransport),
)


def report(rounds: int) -> list[Figure]:
    """Print the costs of an event in U; return those that the transport adds."""
    payloads = chat.text(_EVENTS)
    frames = chat.frames(payloads)
    body = b"".join(frames)
    reads = {
        "one event a read": frames,
        "1,400 bytes a read": [body[at : at + 1400] for at in range(0, len(body), 1400)],
    }
    runs: dict[tuple[str, ...], Run] = {("U",): decode_json(payloads)}
    for size, chunks in reads.items():
        for http, kind in _FAMILIES:
            bare = _provider(http, chunks)
            transport: Any = kind(
                bare, client="anthropic", upstream="openai_chat", base_url="https://h"
            )
            name = http.__name__
            runs[size, name, "async", "bare"] = _async_run(http, bare)
            runs[size, name, "async", "through"] = _async_run(http, transport)
            runs[size, name, "sync", "bare"] = _sync_run(http, bare)
            runs[size, name, "sync", "through"] = _sync_run(http, transport)
    best = fastest(runs, rounds)
    figures: list[Figure] = []
    print()
    for key in runs:
        if key[-1] == "through":
            bare_s, through_s = best[*key[:-1], "bare"], best[key]
            name = f"TranscodingTransport, {', '.join(key[:-1])}"
            figure = Figure(name, (through_s - bare_s) / best["U",], _BAR_U)
            print(f"{name:56}{figure.value:6.2f}{figure.mark} U (bar {figure.bar:.1f})")
            figures.append(figure)
    return figures


def _provider(http: ModuleType, chunks: list[bytes]) -> Any:
    """Return a transport whose response has all its chunks ready."""

    class Body(http.SyncByteStream, http.AsyncByteStream):  # type: ignore[misc,name-defined]  # of either package
        def __iter__(self) -> Iterator[bytes]:
            return iter(chunks)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for chunk in chunks:
                yield chunk

    headers = {"content-type": "text/event-stream"}
    return http.MockTransport(lambda _: http.Response(200, headers=headers, stream=Body()))


def _async_run(http: ModuleType, transport: Any) -> Run:
    async def read() -> None:
        client = http.AsyncClient(transport=transport)
        async with client.stream("POST", "https://h/v1/messages", json=_REQUEST) as response:
            async for _ in response.aiter_raw():
                pass

    loop = asyncio.new_event_loop()
    return lambda: loop.run_until_complete(read())


def _sync_run(http: ModuleType, transport: Any) -> Callable[[], object]:
    def read() -> None:
        client = http.Client(transport=transport)
        with client.stream("POST", "https://h/v1/messages", json=_REQUEST) as response:
            for _ in response.iter_raw():
                pass

    return read
