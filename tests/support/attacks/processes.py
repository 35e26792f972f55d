"""Attacks on a gateway's processes: signals, an unread log, dying workers."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import statistics
import time
from contextlib import suppress
from pathlib import Path

import httpx

from support.attacks.bench import TENANTS, Attack, Bench, Setup
from support.gateway.upstreams import REQUESTS
from support.http.echo_upstream import endless_steps

__all__ = ["ATTACKS"]

_RELEASE_S = 20.0  # of a stream whose pings come after a minute
_ROUND_TRIPS = 25
_MAX_RATIO = 4.0
_NAGLE_S = 0.04
_PROCESS_FILES = "PROMETHEUS_MULTIPROC_DIR"
_OPEN = re.compile(r"^streamnorm_open_streams (\S+)", re.MULTILINE)
# Before the gateway starts, its stdout becomes a pipe of one page that nobody reads.
_UNREAD_LOG = """
import fcntl, os
read, write = os.pipe()
fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
os.dup2(write, 1)
os.dup2(write, 2)
"""


async def _unread_log(bench: Bench) -> str:
    count = 200
    for number in range(count):
        await bench.ask(stream=number % 2 == 0)
    return f"{count} requests, whose log fills a pipe of 4 KiB many times"


async def _no_delay(bench: Bench) -> str:
    """Check that a whole answer's body does not wait for an acknowledgement."""
    body = {**REQUESTS["openai_chat"].body, "stream": False}
    headers = {"authorization": f"Bearer {TENANTS[0]}"}
    took: list[float] = []
    async with httpx.AsyncClient(trust_env=False) as kept:
        for _ in range(_ROUND_TRIPS):
            begin = time.perf_counter()
            answer = await kept.post(
                bench.url + REQUESTS["openai_chat"].path, json=body, headers=headers
            )
            took.append(time.perf_counter() - begin)
            assert answer.status_code == 200, f"status {answer.status_code}"
    new: list[float] = []
    for _ in range(_ROUND_TRIPS):
        begin = time.perf_counter()
        await bench.send()
        new.append(time.perf_counter() - begin)
    kept_s, new_s = statistics.median(took), statistics.median(new)
    most = max(_MAX_RATIO * new_s, _NAGLE_S / 2)
    assert kept_s < most, (
        f"{kept_s * 1000:.1f} ms on a kept connection, {new_s * 1000:.1f} on a new"
    )
    return f"{kept_s * 1000:.1f} ms on a kept connection, {new_s * 1000:.1f} ms on a new one"


async def _begin(bench: Bench) -> tuple[asyncio.Task[bytes], asyncio.Event]:
    """Open an endless stream; return the task that reads it, when it has begun."""
    begun = asyncio.Event()

    async def read() -> bytes:
        data = b""
        url = bench.url + REQUESTS["anthropic"].path
        headers = {"authorization": f"Bearer {TENANTS[0]}"}
        body = REQUESTS["anthropic"].body
        with suppress(httpx.TransportError):
            async with bench.http.stream("POST", url, json=body, headers=headers) as answer:
                async for piece in answer.aiter_raw():
                    data += piece
                    begun.set()
        return data

    return asyncio.create_task(read()), begun


async def _second_signal(bench: Bench) -> str:
    bench.upstream.plan = endless_steps
    task, begun = await _begin(bench)
    await begun.wait()
    process = bench.gateway.process
    process.send_signal(signal.SIGTERM)
    await asyncio.sleep(0.5)
    assert process.returncode is None, "the first signal ended a stream within its grace"
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(20):
        status = await process.wait()
        data = await task
    assert b"event: error" in data, "the stream ends like a complete one"
    bench.watch.expect_end()
    return f"exit status {status}, and an error event"


async def _hangup(bench: Bench) -> str:
    bench.gateway.process.send_signal(signal.SIGHUP)
    await asyncio.sleep(0.3)
    for client in REQUESTS:
        await bench.ask(client)
    return "the gateway goes on"


async def _dead_worker(bench: Bench) -> str:
    """Attack by killing a worker with open streams."""
    bench.upstream.plan = endless_steps
    begun = [await _begin(bench) for _ in range(6)]
    for _, event in begun:
        await event.wait()
    own = bench.gateway.process.pid
    workers = _workers(own)
    before = await _open_streams(bench)
    assert before == len(begun), f"{before} open streams, expected {len(begun)}"
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    await asyncio.gather(*(task for task, _ in begun))
    bench.upstream.plan = lambda _: None
    async with asyncio.timeout(60):
        while True:
            with suppress(httpx.TransportError, AssertionError):
                await bench.ask()
                break
            await asyncio.sleep(0.2)
    after = await _open_streams(bench)
    assert after == 0, f"{after} open streams, of workers that are dead"
    return f"{len(workers)} workers killed, no stream is open"


def _workers(parent: int) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    commands = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
    return [pid for pid, command in commands.items() if b"spawn_main" in command]


async def _open_streams(bench: Bench) -> float:
    answer = await bench.ask_for("GET", "/metrics")
    found = _OPEN.search(answer.text)
    assert found is not None, "no number of open streams"
    return float(found[1])


async def _pipelined_client(bench: Bench) -> str:
    """Attack by a client that pipelines a second request, then disconnects."""
    bench.upstream.plan = endless_steps
    body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"Hello"}]}'
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
    head += f"content-type: application/json\r\nauthorization: Bearer {TENANTS[0]}\r\n"
    request = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
    port = int(bench.url.rpartition(":")[2])
    count = 5
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request * 2)
        await reader.read(200)
        writer.transport.abort()
    # The next ping would find the connection closed, too.
    async with asyncio.timeout(_RELEASE_S):
        while bench.upstream.writers:  # noqa: ASYNC110 - it has no event for it
            await asyncio.sleep(0.05)
    bench.upstream.plan = lambda _: None
    await bench.ask()
    return f"{count} clients left, each upstream was released"


ATTACKS = (
    Attack("a log nobody reads", _unread_log, Setup(patch=_UNREAD_LOG)),
    Attack("a body that waits for its head", _no_delay),
    Attack(
        "a second SIGTERM",
        _second_signal,
        Setup("drain_grace_s = 50\n"),
        ("serve", "uvicorn_h11", "uvicorn_httptools", "hypercorn"),
    ),
    Attack("SIGHUP", _hangup, servers=("serve",)),
    Attack(
        "workers that die in their streams",
        _dead_worker,
        Setup(environ={_PROCESS_FILES: "{directory}/metrics"}),
        ("uvicorn_workers",),
    ),
    # uvicorn with httptools reports the disconnect to the last request alone, and hypercorn reads
    # nothing while an answer runs that another request waits for.
    Attack(
        "a client that leaves two requests",
        _pipelined_client,
        Setup("keepalive_s = 60\n"),
        ("serve", "uvicorn_h11"),
    ),
)
