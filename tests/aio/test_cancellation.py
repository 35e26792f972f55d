"""A cancelled read: the source is closed once, and no end is invented."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import anyio
import pytest
from support.http.byte_source import AsyncBytes, Cut
from support.openai_chat.chunks import DONE, content
from support.streams.corpus import pieces, recordings
from support.streams.kinds import (
    Open,
    each_kind,
    open_events,
    open_tap,
    open_to_chat,
    open_transcode,
)

import streamnorm
from streamnorm import Abandoned, Completed, LocalProtocolError, Outcome, Stream, Usage
from streamnorm.recording import Recording

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a machine under load the time to close, which a user would not wait for."""
    monkeypatch.setattr("streamnorm.aio.stream._CLOSE_S", 60.0)


async def cancelled_read(stream: Stream[Any], source: AsyncBytes) -> None:
    """Read until the source is silent, then cancel the read."""
    async with anyio.create_task_group() as tasks:

        async def read() -> None:
            async for _ in stream:
                pass

        tasks.start_soon(read)
        await source.silent.wait()
        tasks.cancel_scope.cancel()


@each_kind
async def test_cancelled_read_ends_the_stream_without_a_false_eof(kind: Open) -> None:
    source, outcomes = AsyncBytes([content("a")], stays_open=True), []
    stream = kind(source, outcomes)
    await cancelled_read(stream, source)
    assert source.closed == 1
    assert outcomes == [stream.outcome] == [Abandoned()]
    for _ in range(2):
        with pytest.raises(LocalProtocolError, match="closed or broke"):
            await anext(stream)
    await stream.aclose()
    assert source.closed == 1


async def test_error_of_closing_after_a_cancelled_read_is_suppressed() -> None:
    source, outcomes = AsyncBytes([], stays_open=True, close_error=Cut()), []
    await cancelled_read(open_events(source, outcomes), source)
    assert outcomes == [Abandoned()]


async def test_close_that_never_returns_does_not_hold_up_a_cancelled_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("streamnorm.aio.stream._CLOSE_S", 0.01)

    class Stuck(AsyncBytes):
        async def aclose(self) -> None:
            self.closed += 1
            await anyio.sleep_forever()

    source, outcomes = Stuck([], stays_open=True), []
    await cancelled_read(open_events(source, outcomes), source)
    assert source.closed == 1
    assert outcomes == [Abandoned()]


async def test_cancelled_consumer_closes_shielded() -> None:
    """`async with` in a scope that is cancelled already."""
    source, outcomes = AsyncBytes([content("a")], stays_open=True), []
    with anyio.CancelScope() as scope:
        async with open_events(source, outcomes) as stream:
            await anext(stream)
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    assert source.closed == 1
    assert outcomes == [Abandoned()]


@pytest.mark.on_asyncio
async def test_cancelled_task_of_asyncio_is_a_cancelled_read() -> None:
    """Not every cancellation comes from a scope of anyio."""
    source, outcomes = AsyncBytes([], stays_open=True), []
    stream = open_events(source, outcomes)
    task = asyncio.ensure_future(anext(stream))
    await source.silent.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert source.closed == 1
    assert outcomes == [Abandoned()]


class Torture(AsyncBytes):
    """Cancels at one of its awaits: the reads, those behind the terminal, and the close."""

    def __init__(self, chunks: list[bytes], scope: anyio.CancelScope, strike: int) -> None:
        super().__init__(chunks)
        self.awaits = 0
        self.released = 0
        self._scope = scope
        self._strike = strike

    async def _await(self) -> None:
        self.awaits += 1
        if self.awaits == self._strike:
            self._scope.cancel()
        await anyio.lowlevel.checkpoint()

    async def __anext__(self) -> object:
        await self._await()
        return await super().__anext__()

    async def aclose(self) -> None:
        self.closed += 1
        await self._await()
        self.released += 1


async def torture(kind: Open, chunks: list[bytes], strike: int) -> tuple[Torture, list[Any], Any]:
    """Iterate over a stream that is cancelled at one await; return source, items and outcome."""
    outcomes: list[Outcome] = []
    items: list[Any] = []
    with anyio.CancelScope() as scope:
        source = Torture(chunks, scope, strike)
        stream = kind(source, outcomes)
        with suppress(streamnorm.StreamnormError):
            async for item in stream:
                items.append(item)  # noqa: PERF401 - those before the cancellation count
    assert (source.closed, source.released) == (1, 1)
    assert outcomes == [stream.outcome]
    if scope.cancelled_caught:
        with pytest.raises(LocalProtocolError):
            await anext(stream)
    return source, items, stream.outcome


KINDS = (open_events, open_transcode, open_to_chat, open_tap)
TORTURED = [*recordings("anthropic")[::6], *recordings("openai_chat")]


@pytest.mark.parametrize(
    ("kind", "recording"),
    # Each recording is read in one way, each way with a quarter of them.
    [(KINDS[number % len(KINDS)], recording) for number, recording in enumerate(TORTURED)],
    ids=[f"{recording.dialect}/{recording.name}" for recording in TORTURED],
)
async def test_cancelling_at_any_await_never_completes_the_stream(
    kind: Open, recording: Recording
) -> None:
    """The items are a prefix of all items; the outcome is a success only if all were returned."""
    chunks = pieces(recording.body, -(-len(recording.body) // 8))
    source, whole, outcome = await torture(kind, chunks, 0)
    for strike in range(1, source.awaits + 1):
        _, items, cancelled = await torture(kind, chunks, strike)
        assert items == whole[: len(items)]
        assert cancelled in (Abandoned(), outcome)
        assert cancelled == Abandoned() or items == whole or kind is open_tap


async def test_cancelling_after_the_terminal_keeps_the_outcome_completed() -> None:
    source, outcomes = AsyncBytes([content("a", "stop"), DONE], stays_open=True), []
    stream = open_events(source, outcomes)
    await cancelled_read(stream, source)
    assert source.closed == 1
    assert outcomes == [stream.outcome] == [Completed("end_turn", Usage())]
    with pytest.raises(LocalProtocolError):
        await anext(stream)
