"""Attacks by an upstream whose answer never ends and has no content."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from streamnorm.codec import encoder
from support.attacks.bench import Attack, Bench, Setup
from support.faults.upstream import Act, Endless, Step
from support.gateway.upstreams import REQUESTS
from support.http.echo_upstream import EchoedRequest, head_of, honest_steps
from support.http.loopback import chunked

__all__ = ["ATTACKS"]

_HASTY = Setup("first_byte_s = 1\nidle_s = 1\nprogress_s = 1\nmax_event_bytes = 262_144\n")
_MAX_GROWTH_BYTES = 64 * 1024 * 1024
_PAUSE_S = 0.001
_MOST = 1_000_000  # the gateway ends the answer long before
_FLOODS = {
    "comments": b": x\n\n" * 50,
    "a comment that never ends": b"x" * 500,
    "pings": encoder("openai_chat").ping() * 20,
    "empty frames": b"data:\n\n" * 20,
    "frames without data": b"event: x\n\n" * 20,
    "blank lines": b"\n" * 200,
    "ids": b"id: 1\n\n" * 20,
    "a data line that never ends": b"y" * 500,
}
_STARTS = {"a comment that never ends": b": ", "a data line that never ends": b"data: "}


def _attack(name: str) -> Attack:
    async def run(bench: Bench) -> str:
        begin = bench.watch.resident_bytes()
        for is_started in (False, True):
            bench.upstream.plan = _flooding(name, is_started=is_started)
            sent = [bench.send(client, stream=True) for client in REQUESTS]
            for client, answer in zip(REQUESTS, await asyncio.gather(*sent), strict=True):
                is_error = answer.status_code >= 500 or '"error"' in answer.text
                is_error |= "response.failed" in answer.text
                assert is_error, f"{client}: status {answer.status_code} without an error"
        bench.upstream.plan = lambda _: None
        await bench.ask(stream=True)
        growth = bench.watch.resident_bytes() - begin
        assert growth < _MAX_GROWTH_BYTES, f"{growth:,} bytes more memory"
        return f"8 streams end with an error, {max(growth, 0) // 1024:,} KiB more memory"

    return Attack(f"a flood of {name}", run, _HASTY)


def _flooding(name: str, *, is_started: bool) -> Callable[[EchoedRequest], Sequence[Step]]:
    def plan(request: EchoedRequest) -> Sequence[Step]:
        steps = honest_steps(request)
        start = steps[:3] if is_started else [head_of(request.playback)]
        begin = _STARTS.get(name, b"")
        return [
            *start,
            *([chunked(begin)] if begin else []),
            Endless(chunked(_FLOODS[name]), _PAUSE_S, _MOST),
            Act.CLOSE,
        ]

    return plan


ATTACKS = tuple(_attack(name) for name in _FLOODS)
