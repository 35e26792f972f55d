"""Cost of a compressed 2 MB request at the gateway, compared to an uncompressed one.

The gateway estimates the tokens of the request, so that no upstream is asked.  A server hands
the body over in chunks of 64 KiB.  The longest step is the CPU time for which no other
request is answered while the body is inflated.
"""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import random
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any

import brotli
from timing import Figure, Run, fastest

from streamnorm.gateway import Config, Gateway, UpstreamConfig
from streamnorm.http.codings import CodingDecoder

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    import backports.zstd as zstd

__all__ = ["report"]

_BODY_BYTES = 2_000_000
_CHUNK_BYTES = 64 * 1024
_PATH = "/v1/messages/count_tokens"
_CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "zstd": zstd.compress,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda data: brotli.compress(data, quality=5),
}
# What a coding may add to the request, in ms; zstd is what Codex sends.
_BARS = {"zstd": 6.0, "gzip": 12.0, "deflate": 12.0, "br": 14.0}
_LONGEST_STEP_MS = 2.0


def report(rounds: int) -> list[Figure]:
    """Print and return each coding's added cost and longest step, in ms."""
    plain = _body()
    upstream = UpstreamConfig(dialect="openai_chat", base_url="http://127.0.0.1:9")
    app = Gateway(Config(upstreams={"local": upstream}), environ={})
    bodies = {coding: compress(plain) for coding, compress in _CODINGS.items()}
    costs = fastest({coding: _asking(app, coding, data) for coding, data in bodies.items()}, rounds)
    whole_ms = costs[""] * 1000
    print(f"\nms of CPU for a request of {len(plain) / 1e6:.1f} MB; as it is: {whole_ms:.1f}")
    figures: list[Figure] = []
    for coding, bar in _BARS.items():
        data = bodies[coding]
        added = Figure(f"ms, {coding} body", costs[coding] * 1000 - whole_ms, bar)
        step = Figure(
            f"ms, longest step of {coding}",
            _longest_step_ms(coding, data, rounds),
            _LONGEST_STEP_MS,
        )
        print(
            f"{coding:10}{len(data) / 1e6:6.2f} MB  +{added.value:5.1f}{added.mark} (bar {bar:.0f})"
            f"  longest step {step.value:5.2f}{step.mark} (bar {_LONGEST_STEP_MS:.0f})"
        )
        figures += [added, step]
    return figures


def _body() -> bytes:
    """Return a request of a long conversation, with realistic text."""
    draw = random.Random(1)  # noqa: S311 - no secret
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(2, 9))) for _ in range(4000)]
    messages: list[dict[str, Any]] = []
    size = 0
    while size < _BODY_BYTES:
        role = "assistant" if len(messages) % 2 else "user"
        text = " ".join(draw.choices(words, k=400))
        messages.append({"role": role, "content": text})
        size += len(text) + 40
    return json.dumps({"model": "m", "messages": messages}).encode()


def _asking(app: Gateway, coding: str, data: bytes) -> Run:
    headers = [(b"host", b"h"), (b"content-type", b"application/json")]
    if coding:
        headers.append((b"content-encoding", coding.encode()))
    scope = {"type": "http", "method": "POST", "path": _PATH, "headers": headers}
    chunks = [data[at : at + _CHUNK_BYTES] for at in range(0, len(data), _CHUNK_BYTES)]

    async def ask() -> None:
        waiting, statuses = iter(chunks), []

        async def receive() -> dict[str, Any]:
            chunk = next(waiting, None)
            if chunk is None:
                await asyncio.Event().wait()  # the client stays
            return {"type": "http.request", "body": chunk, "more_body": chunk is not chunks[-1]}

        async def send(message: Any) -> None:
            statuses.append(message.get("status"))

        await app(scope, receive, send)
        assert statuses[0] == 200

    return lambda: asyncio.run(ask())


def _longest_step_ms(coding: str, data: bytes, rounds: int) -> float:
    """Return the longest step of a decoder, in its fastest round."""
    return min(_longest_step(coding, data) for _ in range(rounds)) * 1000


def _longest_step(coding: str, data: bytes) -> float:
    decoder = CodingDecoder(coding, 2 * _BODY_BYTES)
    gc.disable()  # as in all other measurements
    longest, before = 0.0, time.thread_time()
    for at in range(0, len(data), _CHUNK_BYTES):
        for _ in decoder.feed(data[at : at + _CHUNK_BYTES]):
            now = time.thread_time()
            longest, before = max(longest, now - before), now
    gc.enable()
    decoder.close()
    return longest
