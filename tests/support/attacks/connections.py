"""Attacks by an upstream on connections that clients share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from support.attacks.bench import Attack, Bench, Setup
from support.faults.upstream import Act, Pause, Step
from support.gateway.upstreams import REQUESTS
from support.http.echo_upstream import EchoedRequest, honest_steps, new_marker
from support.http.raw_upstream import json_response, stream_pieces

__all__ = ["ATTACKS"]

_Plan: TypeAlias = Callable[[EchoedRequest], Sequence[Step]]

_LATE = new_marker()
_LATE_ANSWER = json_response(_LATE)
# What an upstream may send without a request.
_UNREQUESTED = (
    _LATE_ANSWER,
    b"".join(stream_pieces(_LATE)),
    _LATE_ANSWER * 2,
    b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" + _LATE_ANSWER,
    _LATE_ANSWER[:30],
    b"H",
    b"\0\1\2",
    b"\r\n",
)
_EACH = 3  # so that each worker has a connection
_REPEATS = 40


async def _late_answers(bench: Bench) -> str:
    """Attack by bytes on each idle connection before the next request."""
    for data in _UNREQUESTED:
        for stream in (False, True):
            for _ in range(_EACH):
                await bench.ask(stream=stream)
            for writer in [*bench.upstream.writers.values()]:
                writer.write(data)
            for client in REQUESTS:
                await bench.ask(client, stream=stream)
    return f"{len(_UNREQUESTED)} kinds of bytes, on {bench.upstream.connections} connections"


async def _second_answers(bench: Bench) -> str:
    """Attack by bytes after an answer, in the same segment."""
    for data in _UNREQUESTED[:-2]:  # a segment that ends in no HTTP is none
        for stream in (False, True):
            bench.upstream.plan = _with_bytes(data)
            for _ in range(_EACH):
                answer = await bench.send(stream=stream)
                assert _LATE not in answer.text, "the second answer reached the client"
            bench.upstream.plan = lambda _: None
            for client in REQUESTS:
                await bench.ask(client, stream=stream)
    return f"{len(_UNREQUESTED[:-2])} kinds of bytes"


def _with_bytes(data: bytes) -> _Plan:
    def plan(request: EchoedRequest) -> Sequence[Step]:
        steps = honest_steps(request)
        whole = b"".join(step for step in steps if isinstance(step, bytes))
        return [whole + data]

    return plan


async def _late_timeout(bench: Bench) -> str:
    """Attack by a 408 answer that is followed by another answer."""
    for _ in range(_EACH):
        bench.upstream.plan = lambda request: [
            b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n",
            Pause(0.05),
            *honest_steps(request),
        ]
        await bench.send()
        bench.upstream.plan = lambda _: None
        await asyncio.sleep(0.1)
        await bench.ask()
    return f"{_EACH} late answers reached nobody"


async def _no_reuse(bench: Bench) -> str:
    for number in range(_EACH):
        await bench.ask(stream=number % 2 == 0)
    count = bench.upstream.connections
    assert count == _EACH, f"{count} connections for {_EACH} requests"
    return f"{count} connections for {_EACH} requests"


async def _closed_connections(bench: Bench) -> str:
    """Attack by an upstream that closes connections without announcement."""
    bench.upstream.plan = lambda request: [*honest_steps(request), Act.CLOSE]
    for number in range(_REPEATS):
        await bench.ask(stream=number % 2 == 0)
    return f"{_REPEATS} requests, none lost"


async def _odd_statuses(bench: Bench) -> str:
    statuses = ("600", "999", "600 OK", "700 X", "099 X", "000 X")
    for status in statuses:
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n"
        bench.upstream.plan = _always([head.encode() + b"{}", Act.CLOSE])
        for client in REQUESTS:
            answer = await bench.send(client)
            assert answer.status_code == 502, f"status {answer.status_code} for {status}"
    return f"{len(statuses)} statuses are 502"


async def _tls(bench: Bench) -> str:
    """Attack by broken TLS: within an answer, at its end, or between answers."""
    await bench.ask()
    for end in (Act.RESET, Act.CLOSE):
        for stream in (False, True):
            bench.upstream.plan = _cut(end)
            answer = await bench.send("anthropic", stream=stream)
            is_error = answer.status_code == 502 or '"type":"error"' in answer.text
            assert is_error, f"{end}: the answer that was cut has no error"
            bench.upstream.plan = lambda _: None
            await bench.ask(stream=stream)
    for writer in [*bench.upstream.writers.values()]:
        writer.write(_LATE_ANSWER)
    for _ in range(_EACH):
        await bench.ask()
    for writer in [*bench.upstream.writers.values()]:
        writer.transport.abort()
    for _ in range(_EACH):
        await bench.ask()
    return "resets, ends without close_notify, late answers"


def _cut(end: Act) -> _Plan:
    def plan(request: EchoedRequest) -> Sequence[Step]:
        whole = b"".join(step for step in honest_steps(request) if isinstance(step, bytes))
        return [whole[: len(whole) - 20], Pause(0.02), end]

    return plan


def _always(steps: Sequence[Step]) -> _Plan:
    return lambda _request: steps


ATTACKS = (
    Attack("late answers on idle connections", _late_answers),
    Attack("second answers in one segment", _second_answers),
    Attack("late answer behind a 408", _late_timeout),
    Attack("no connection is used again", _no_reuse, Setup(upstream="reuse = false\n")),
    Attack("connections closed behind the answer", _closed_connections),
    Attack("statuses above 599", _odd_statuses),
    Attack("TLS breaks", _tls, Setup(tls=True)),
)
