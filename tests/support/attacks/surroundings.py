"""Attacks by a gateway's environment: its clock, its resolver, readers of its traces."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from support.attacks.bench import KEY, PROMPT, TENANTS, Attack, Bench, Setup
from support.gateway.upstreams import REQUESTS
from support.http.echo_upstream import slow_steps

__all__ = ["ATTACKS"]

_YEARS_S = 10 * 365 * 86_400
# Whoever asks for the time of day gets that of a file.
_CLOCK = """
import os, time
real, path = time.time, os.environ["ATTACK_DIRECTORY"] + "/offset"
def moved():
    try:
        with open(path) as file:
            return real() + float(file.read() or "0")
    except OSError:
        return real()
time.time = moved
"""
_STALL_S = 20.0
# The names below `stalled.example` have a server that does not answer.
_RESOLVER = f"""
import socket, time
real = socket.getaddrinfo
def stalled(host, *args, **kwargs):
    if "stalled" in str(host):
        time.sleep({_STALL_S})
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")
    return real(host, *args, **kwargs)
socket.getaddrinfo = stalled
"""
_STALLED_UPSTREAM = """
[upstreams.stalled]
dialect = "openai_chat"
base_url = "https://stalled.example/v1"

[[models]]
match = "stalled"
to = ["stalled"]

[[models]]
match = "*"
to = ["local"]
"""
_MAX_HONEST_S = 8.0
# Spans as they are exported, with all that they say.
_TRACER = """
import os
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
out = open(os.environ["ATTACK_DIRECTORY"] + "/spans", "a", buffering=1)
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=out)))
trace.set_tracer_provider(provider)
"""


async def _clock(bench: Bench) -> str:
    """Attack by a clock that jumps back and forth during a stream."""
    offset = bench.directory / "offset"
    bench.upstream.plan = partial(slow_steps, pause_s=0.03)
    first = await bench.send("openai_responses")
    for jump in (_YEARS_S, -_YEARS_S, 0):
        stream = asyncio.create_task(bench.send("anthropic", stream=True))
        await asyncio.sleep(0.1)
        _write(offset, str(jump))
        answer = await stream
        assert "message_stop" in answer.text, f"a jump of {jump:,} s ends a stream"
        await bench.ask("openai_responses")
    stored = await bench.send("openai_responses")
    _write(offset, str(_YEARS_S))
    lost = await bench.ask_for("GET", f"/v1/responses/{stored.json()['id']}")
    assert lost.status_code in (200, 404), f"status {lost.status_code} for an old answer"
    _write(offset, str(-_YEARS_S))
    found = await bench.ask_for("GET", f"/v1/responses/{first.json()['id']}")
    assert found.status_code in (200, 404), f"status {found.status_code} for an answer to come"
    _write(offset, "0")
    await bench.ask("openai_responses")
    return "ten years forth and back, no stream ended, no error"


def _read(path: Path) -> str:
    return path.read_text()


def _write(path: Path, text: str) -> None:
    path.write_text(text)


async def _resolver(bench: Bench) -> str:
    """Attack by one upstream whose host name does not resolve."""
    waiting = [
        asyncio.create_task(bench.send(client, model="stalled", stream=stream))
        for client in REQUESTS
        for stream in (False, True)
        for _ in range(6)
    ]
    await asyncio.sleep(0.5)
    slowest = 0.0
    loop = asyncio.get_running_loop()
    for _ in range(3):
        for client in REQUESTS:
            begin = loop.time()
            async with asyncio.timeout(_STALL_S * 3):
                await bench.ask(client)
            slowest = max(slowest, loop.time() - begin)
    statuses = {answer.status_code for answer in await asyncio.gather(*waiting)}
    assert statuses <= {502, 504}, f"statuses {statuses} for a name that does not resolve"
    assert slowest < _MAX_HONEST_S, f"an honest request took {slowest:.1f} s"
    return f"{len(waiting)} requests wait, honest ones take {slowest * 1000:.0f} ms at most"


async def _traces(bench: Bench) -> str:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    headers = {"traceparent": trace, "tracestate": "a=b", "baggage": f"secret={TENANTS[0]}"}
    for key in TENANTS:
        for client in REQUESTS:
            for stream in (False, True):
                await bench.ask(client, key=key, stream=stream, headers=headers)
    error = b'{"error":{"message":"%s %s","code":"%s"}}' % ((PROMPT.encode(), KEY.encode()) * 2)[:3]
    head = b"HTTP/1.1 400 Bad\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    bench.upstream.plan = lambda _: [head % len(error) + error]
    for client in REQUESTS:
        await bench.send(client)
    await asyncio.sleep(0.5)  # a span ends behind its answer
    spans = _read(bench.directory / "spans")
    assert spans.count("gen_ai.operation.name") >= 20, "there are no spans"
    for secret in (KEY, PROMPT, *TENANTS):
        assert secret not in spans, "a span has a secret"
    return f"{spans.count('gen_ai.operation.name')} spans without a secret"


ATTACKS = (
    Attack(
        "the clock jumps",
        _clock,
        Setup('state = "sqlite:{directory}/state.db"\n', patch=_CLOCK),
    ),
    Attack(
        "names that do not resolve",
        _resolver,
        Setup(
            'state = "sqlite:{directory}/state.db"\nfirst_byte_s = 5\n',
            _STALLED_UPSTREAM,
            patch=_RESOLVER,
        ),
        ("hypercorn",),  # others have uvloop, which does not resolve in Python
    ),
    Attack("secrets in spans", _traces, Setup(patch=_TRACER)),
)
