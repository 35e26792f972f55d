"""The lifetime of a source: closed at the end, on leaving, on failure and on misuse."""

from __future__ import annotations

import gc
from collections.abc import Coroutine
from typing import Any

import anyio
import pytest
from support.http.byte_source import AsyncBytes, AsyncResponse, Cut
from support.openai_chat.chunks import DONE, content
from support.streams.kinds import Open, each_kind, open_events

import streamnorm
from streamnorm import (
    Abandoned,
    Completed,
    LocalProtocolError,
    Outcome,
    TextDelta,
    TruncatedStream,
    UpstreamError,
    Usage,
)

pytestmark = pytest.mark.anyio

COMPLETED = Completed("end_turn", Usage())


@each_kind
async def test_end_closes_the_source_once(kind: Open) -> None:
    source, outcomes = AsyncBytes([content("a", "stop"), DONE]), []
    stream = kind(source, outcomes)
    async with stream:
        assert [item async for item in stream]
        assert source.closed == 1
    await stream.aclose()
    assert source.closed == 1
    assert outcomes == [stream.outcome] == [COMPLETED]


@each_kind
async def test_ended_stream_keeps_raising_stop_async_iteration(kind: Open) -> None:
    stream = kind(AsyncBytes([content("a", "stop"), DONE]), [])
    assert [item async for item in stream]
    for _ in range(2):
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
    await stream.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


@each_kind
async def test_leaving_the_loop_closes_the_source_and_abandons_the_stream(kind: Open) -> None:
    source, outcomes = AsyncBytes([content("a"), content("b"), DONE]), []
    async with kind(source, outcomes) as stream:
        async for _ in stream:
            break
        assert source.closed == 0
        assert outcomes == []
    assert source.closed == 1
    assert outcomes == [stream.outcome] == [Abandoned()]


@each_kind
async def test_exception_of_the_consumer_closes_the_source(kind: Open) -> None:
    source, outcomes = AsyncBytes([content("a"), DONE]), []
    with pytest.raises(ZeroDivisionError):
        async with kind(source, outcomes):
            raise ZeroDivisionError
    assert source.closed == 1
    assert outcomes == [Abandoned()]


@each_kind
async def test_stream_that_was_never_read_closes_its_source(kind: Open) -> None:
    source, outcomes = AsyncBytes([content("a"), DONE]), []
    stream = kind(source, outcomes)
    await stream.aclose()
    await stream.aclose()
    assert (source.reads, source.closed) == (0, 1)
    assert outcomes == [Abandoned()]


@each_kind
async def test_closed_stream_refuses_to_be_read(kind: Open) -> None:
    stream = kind(AsyncBytes([content("a"), DONE]), [])
    await stream.aclose()
    for _ in range(2):
        with pytest.raises(LocalProtocolError, match="closed or broke"):
            await anext(stream)
    assert stream.outcome == Abandoned()


async def test_undelivered_events_make_the_outcome_abandoned() -> None:
    """The terminal was read, but the consumer never saw it."""
    outcomes: list[Outcome] = []
    stream = open_events(AsyncBytes([content("a", "stop") + DONE]), outcomes)
    await anext(stream)
    await stream.aclose()
    assert outcomes == [stream.outcome] == [Abandoned()]


async def test_leaving_after_the_last_event_keeps_the_outcome_completed() -> None:
    source, outcomes = AsyncBytes([content("a", "stop"), DONE]), []
    async with open_events(source, outcomes) as stream:
        async for event in stream:
            if isinstance(event, streamnorm.MessageStop):
                break
    assert source.closed == 1
    assert outcomes == [stream.outcome] == [COMPLETED]


@each_kind
async def test_dropped_stream_calls_on_end(kind: Open) -> None:
    """A plain `break` within the caller's own `async with` closes nothing here."""
    gc.freeze()  # only what this test makes is collected
    source, outcomes = AsyncBytes([content("a"), content("b"), DONE]), []
    async for _ in kind(source, outcomes):
        break
    gc.collect()
    assert source.closed == 0
    assert outcomes == [Abandoned()]


async def test_dropped_stream_is_freed_without_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        outcomes: list[Outcome] = []
        async for _ in open_events(AsyncBytes([content("a"), DONE]), outcomes):
            break
        assert outcomes == [Abandoned()]
    finally:
        gc.enable()


@each_kind
async def test_failed_stream_closes_the_source_and_stays_failed(kind: Open) -> None:
    source, outcomes = AsyncBytes([], error=Cut()), []
    stream = kind(source, outcomes)
    with pytest.raises(TruncatedStream):
        await anext(stream)
    assert source.closed == 1
    with pytest.raises(LocalProtocolError):
        await anext(stream)
    await stream.aclose()
    assert source.closed == 1
    assert outcomes == [stream.outcome]


@each_kind
async def test_body_that_the_gate_refuses_is_read_up_to_its_bound(kind: Open) -> None:
    body = [b"x" * 1024] * 100
    source, outcomes = AsyncResponse(body, 500, "text/html"), []
    with pytest.raises(UpstreamError, match="HTTP 500"):
        await anext(kind(source, outcomes))
    assert source.reads == 65
    assert source.closed == 1


@each_kind
async def test_error_of_closing_does_not_change_the_outcome(kind: Open) -> None:
    source, outcomes = AsyncBytes([content("a", "stop"), DONE], close_error=Cut()), []
    assert [item async for item in kind(source, outcomes)]
    assert outcomes == [COMPLETED]


@each_kind
async def test_error_of_closing_is_raised_to_the_caller(kind: Open) -> None:
    source, outcomes = AsyncBytes([content("a"), DONE], close_error=Cut()), []
    stream = kind(source, outcomes)
    with pytest.raises(Cut):
        await stream.aclose()
    await stream.aclose()
    assert source.closed == 1
    assert outcomes == [Abandoned()]


@each_kind
async def test_error_of_on_end_is_raised_after_the_source_was_closed(kind: Open) -> None:
    def fail(_: Outcome) -> None:
        raise ZeroDivisionError

    source = AsyncBytes([content("a", "stop"), DONE])
    stream = streamnorm.events(source, on_end=fail)
    with pytest.raises(ZeroDivisionError):
        async for _ in stream:
            pass
    assert source.closed == 1
    with pytest.raises(LocalProtocolError):
        await anext(stream)


# Misuse


@each_kind
async def test_two_readers_at_once_are_refused_and_the_first_goes_on(kind: Open) -> None:
    source, outcomes = AsyncBytes([], stays_open=True), []
    stream = kind(source, outcomes)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anext, stream)
        await source.silent.wait()
        with pytest.raises(LocalProtocolError, match="second read at the same time"):
            await anext(stream)
        with pytest.raises(LocalProtocolError, match="close during a read"):
            await stream.aclose()
        assert source.closed == 0
        assert outcomes == []
        tasks.cancel_scope.cancel()
    assert source.closed == 1


async def test_discarded_read_breaks_the_stream() -> None:
    """A coroutine that is closed may not await, so closing is left to `aclose`."""
    source, outcomes = AsyncBytes([content("a")], waits=True), []
    stream = open_events(source, outcomes)
    step: Coroutine[Any, Any, Any] = stream.__anext__()
    step.send(None)
    step.close()
    assert source.closed == 0
    assert outcomes == [Abandoned()]
    with pytest.raises(LocalProtocolError, match="closed or broke"):
        await anext(stream)
    await stream.aclose()
    assert source.closed == 1
    assert outcomes == [Abandoned()]


# The last bytes of a connection


async def test_body_is_read_to_its_end_after_the_terminal() -> None:
    """So that the connection can be used again."""
    source = AsyncBytes([content("a", "stop"), DONE, b"\n", b": bye\n\n"])
    async with streamnorm.events(source) as stream:
        assert [event async for event in stream][-1].reason == "end_turn"
    assert source.reads == 4
    assert source.closed == 1


async def test_draining_after_the_terminal_is_bounded_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("streamnorm.aio.stream._DRAIN_S", 0.01)
    source, outcomes = AsyncBytes([content("a", "stop"), DONE], stays_open=True), []
    assert [event async for event in open_events(source, outcomes)]
    assert source.silent.is_set()
    assert source.closed == 1
    assert outcomes == [COMPLETED]


async def test_draining_after_the_terminal_is_bounded_in_bytes() -> None:
    source = AsyncBytes([content("a", "stop"), DONE] + [b"x" * 1024] * 100)
    assert [event async for event in streamnorm.events(source)]
    assert source.reads == 2 + 65
    assert source.closed == 1


async def test_abandoned_tap_does_not_drain_its_source() -> None:
    """Its bytes are not over yet, so nobody knows how near the end is."""
    source, outcomes = AsyncBytes([content("a", "stop"), DONE, b"\n"]), []
    async with streamnorm.tap(source, lambda _: None, on_end=outcomes.append) as stream:
        assert [await anext(stream), await anext(stream)]
    assert source.reads == 2
    assert outcomes == [COMPLETED]


async def test_unfinished_stream_does_not_drain_its_source() -> None:
    source = AsyncBytes([content("a"), content("b")])
    async with streamnorm.events(source) as stream:
        assert await anext(stream)
    assert source.reads == 1


async def test_stream_can_be_read_piece_by_piece_by_one_task_after_another() -> None:
    stream = streamnorm.events(AsyncBytes([content("a"), content("b"), DONE], waits=True))
    texts: list[str] = []

    async def read() -> None:
        event = await anext(stream, None)
        if isinstance(event, TextDelta):
            texts.append(event.text)

    for _ in range(6):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
    assert texts == ["a", "b"]
