"""Torture test: each await of a stream fails once, in eight ways.

    python tests/stress/torture.py [--every N] [--backend asyncio]

Every read of the source, its close, and every send to the client of a gateway fails at each
of its turns with each exception, and is cancelled.  Whatever fails: the source is closed once,
there is one outcome, what was returned is the beginning of what would have come, and only a
message whose end was read is complete.
"""

from __future__ import annotations

import argparse
import ssl
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.http.asgi_client import Client
from support.http.byte_source import AsyncBytes
from support.streams.content import DIALECTS
from support.streams.corpus import pieces, recordings
from support.streams.kinds import open_events, open_tap, open_to_chat, open_transcode

import streamnorm
from streamnorm import Abandoned, Completed, Outcome, StreamnormError
from streamnorm.recording import Recording

_CANCELLED = "cancelled"
_FAILURES: dict[str, Callable[[], Exception]] = {
    "reset": lambda: ConnectionResetError(104, "reset"),
    "time out": lambda: TimeoutError("late"),
    "tls": lambda: ssl.SSLError(1, "bad record"),
    "read time-out": lambda: httpx.ReadTimeout("late"),
    "cut body": lambda: httpx.RemoteProtocolError("incomplete chunked read"),
    "broken pipe": lambda: anyio.BrokenResourceError(),
    "bug": lambda: ValueError("a mistake of the source"),
}
_KINDS = (open_events, open_tap, open_transcode, open_to_chat)
_PIECES = 6


class Strike:
    """Makes one of the awaits that pass through it fail.

    Attributes:
        awaits: Awaits so far.
        raised: The exception that it raised, if it has.
        is_client: Whether that was where bytes went to the client.
    """

    def __init__(self, at: int, failure: str, scope: anyio.CancelScope) -> None:
        self.awaits = 0
        self.raised: Exception | None = None
        self.is_client = False
        self._at = at
        self._failure = failure
        self._scope = scope

    async def wait(self, *, is_client: bool = False) -> None:
        """Await, or fail if this await is the one to fail."""
        self.awaits += 1
        if self.awaits == self._at:
            self.is_client = is_client
            if self._failure == _CANCELLED:
                self._scope.cancel()
            else:
                self.raised = _FAILURES[self._failure]()
                raise self.raised
        await anyio.lowlevel.checkpoint()


class Source(AsyncBytes):
    """A source whose awaits all pass through a `Strike`."""

    def __init__(self, chunks: list[bytes], strike: Strike) -> None:
        super().__init__(chunks)
        self._strike = strike

    async def __anext__(self) -> object:
        await self._strike.wait()
        return await super().__anext__()

    async def aclose(self) -> None:
        self.closed += 1
        await self._strike.wait()


class Run:
    """Result of one run.

    Attributes:
        items: What the stream returned, or the bodies that the client got.
        outcome: The outcome of the stream.
        awaits: Number of awaits.
        problems: What must not be.
        is_refused: Whether the client got an error in place of a stream.
        lost_client: Whether the connection to the client failed.
    """

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.outcome: Outcome | None = None
        self.awaits = 0
        self.problems: list[str] = []
        self.is_refused = False
        self.lost_client = False


async def _iterate(kind: Any, chunks: list[bytes], at: int, failure: str) -> Run:
    """Read a stream to its end."""
    run, outcomes = Run(), []
    with anyio.CancelScope() as scope:
        strike = Strike(at, failure, scope)
        source = Source(chunks, strike)
        stream = kind(source, outcomes)
        try:
            async for item in stream:
                run.items.append(item)
        except StreamnormError:
            pass
        except Exception as exc:  # noqa: BLE001 - none may come
            run.problems.append(f"{type(exc).__name__} reached the consumer")
    _judge(run, source, outcomes, stream, strike)
    return run


async def _respond(kind: Any, chunks: list[bytes], at: int, failure: str) -> Run:
    """Send a stream to a client whose connection may fail."""
    run, outcomes = Run(), []
    with anyio.CancelScope() as scope:
        strike = Strike(at, failure, scope)

        async def sent(_message: object) -> None:
            await strike.wait(is_client=True)

        source, client = Source(chunks, strike), Client(sent)
        stream = kind(source, outcomes)
        try:
            await client.request(streamnorm.asgi.EventStreamResponse(stream))
        except StreamnormError:
            pass
        except Exception as exc:  # noqa: BLE001 - none may come
            if exc is not strike.raised:  # the server knows that its own connection failed
                run.problems.append(f"{type(exc).__name__} reached the server")
    run.items = [message["body"] for message in client.messages if "body" in message]
    run.is_refused = bool(client.messages) and client.status >= 400
    starts = [message["type"] for message in client.messages].count("http.response.start")
    ends = sum(message.get("more_body") is False for message in client.messages)
    if starts > 1 or ends > 1:
        run.problems.append(f"{starts} starts and {ends} ends of one response")
    _judge(run, source, outcomes, stream, strike)
    return run


def _judge(run: Run, source: Source, outcomes: list[Outcome], stream: Any, strike: Strike) -> None:
    run.awaits, run.outcome, run.lost_client = strike.awaits, stream.outcome, strike.is_client
    if source.closed != 1:
        run.problems.append(f"source closed {source.closed} times")
    if outcomes != [stream.outcome] or stream.outcome is None:
        run.problems.append(f"{len(outcomes)} outcomes reported")


def _compare(run: Run, whole: Run, *, writes: bool, failure: str) -> list[str]:
    """Return the violations of a run, compared to the run without failures."""
    problems = list(run.problems)
    if run.is_refused:
        return problems + ["complete, and refused"] * isinstance(run.outcome, Completed)
    if writes:  # an error may stand behind the beginning
        written, expected = b"".join(run.items), b"".join(whole.items)
        is_beginning, is_whole = _is_beginning(written, expected), written == expected
    else:
        is_beginning, is_whole = (
            run.items == whole.items[: len(run.items)],
            run.items == whole.items,
        )
    if not is_beginning:
        problems.append("something else than the beginning was returned")
    is_complete = isinstance(run.outcome, Completed)
    if is_complete and run.outcome != whole.outcome:
        problems.append("complete, otherwise than without a failure")
    if is_complete and not is_whole and not run.lost_client and failure != _CANCELLED:
        problems.append("complete, without all of it")
    if failure == _CANCELLED and run.outcome not in (Abandoned(), whole.outcome):
        problems.append(f"cancelled, and {type(run.outcome).__name__}")
    return problems


def _is_beginning(written: bytes, whole: bytes) -> bool:
    """Return whether bytes are a stream's first events, with at most an error after them."""
    events, expected = (data.replace(b"\r", b"").split(b"\n\n") for data in (written, whole))
    same = 0
    while same < len(events) and same < len(expected) and events[same] == expected[same]:
        same += 1
    rest = b"".join(events[same:])
    return not rest or b"error" in rest or b"failed" in rest


Play = Callable[[Any, list[bytes], int, str], Awaitable[Run]]


async def _torture(recording: Recording, found: list[str]) -> int:
    """Test all failures with one recording; return the number of runs."""
    chunks = pieces(recording.body, -(-len(recording.body) // _PIECES))
    count = 0
    plays: list[tuple[Play, Any]] = [(_iterate, kind) for kind in _KINDS]
    plays += [(_respond, kind) for kind in _KINDS[1:]]
    for play, kind in plays:
        whole = await play(kind, chunks, 0, _CANCELLED)
        found += [f"{recording.dialect}/{recording.name}: {text}" for text in whole.problems]
        for failure in (*_FAILURES, _CANCELLED):
            for at in range(1, whole.awaits + 1):
                run = await play(kind, chunks, at, failure)
                writes = kind in (open_transcode, open_to_chat)
                found += [
                    f"{recording.dialect}/{recording.name}: {play.__name__} {kind.__name__}, "
                    f"{failure} at await {at} of {whole.awaits}: {problem}"
                    for problem in _compare(run, whole, writes=writes, failure=failure)
                ]
                count += 1
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=4, help="of the recordings (default 4)")
    parser.add_argument("--backend", choices=("asyncio", "trio"), action="append")
    options = parser.parse_args()
    chosen = [
        recording for dialect in DIALECTS for recording in recordings(dialect)[:: options.every]
    ]
    found: list[str] = []
    count = 0
    for backend in options.backend or ("asyncio", "trio"):
        for number, recording in enumerate(chosen, 1):
            count += anyio.run(_torture, recording, found, backend=backend)
            if number % 20 == 0 or number == len(chosen):
                done = f"{backend}: {number} of {len(chosen)} recordings"
                print(f"{done}, {count:,} runs, {len(found)} finds", flush=True)
    for line in found[:40]:
        print(line)
    print(f"{count:,} runs, {len(found)} finds")
    return bool(found)


if __name__ == "__main__":
    raise SystemExit(main())
