"""The synchronous twins: the same items, outcomes and errors as the asynchronous ones."""

from __future__ import annotations

import gc
from typing import Any

import anyio
import pytest
from support.http.byte_source import AsyncBytes, Bytes, Cut
from support.openai_chat.chunks import DONE, content
from support.streams.corpus import each_recording, pieces

import streamnorm
from streamnorm import (
    Abandoned,
    Completed,
    LocalProtocolError,
    LossyEncoding,
    Outcome,
    StreamnormError,
    SyncStream,
    TextDelta,
    TruncatedStream,
    UnknownDialect,
    Usage,
)
from streamnorm.recording import Recording

COMPLETED = Completed("end_turn", Usage())


def open_events(source: Bytes, outcomes: list[Outcome]) -> SyncStream[Any]:
    return streamnorm.iter_events(source, on_end=outcomes.append)


def open_transcode(source: Bytes, outcomes: list[Outcome]) -> SyncStream[Any]:
    return streamnorm.iter_transcode(source, to="anthropic", on_end=outcomes.append)


each_kind = pytest.mark.parametrize("kind", [open_events, open_transcode])


def observable_state(stream: Any, items: list[Any], exc: Exception | None) -> tuple[Any, ...]:
    return (
        items,
        type(exc),
        str(exc),
        exc.__cause__ if exc is not None else None,
        stream.outcome,
        stream.message,
        stream.usage,
        stream.notes,
        stream.losses,
        stream.dialect,
        stream.ping(),
    )


@each_recording
@pytest.mark.parametrize("twins", ["events", "transcode"])
def test_sync_stream_equals_its_asynchronous_twin(recording: Recording, twins: str) -> None:
    chunks = pieces(recording.body, 97)
    options = {"to": "anthropic"} if twins == "transcode" else {}
    errors = (None, Cut())

    def run_sync(error: Exception | None) -> tuple[Any, ...]:
        stream = getattr(streamnorm, f"iter_{twins}")(Bytes(chunks, error=error), **options)
        items: list[Any] = []
        try:
            for item in stream:
                items.append(item)  # noqa: PERF402 - those before an exception count
        except StreamnormError as exc:
            return observable_state(stream, items, exc)
        return observable_state(stream, items, None)

    async def run_async() -> list[tuple[Any, ...]]:
        states: list[tuple[Any, ...]] = []
        for error in errors:
            stream = getattr(streamnorm, twins)(AsyncBytes(chunks, error=error), **options)
            items: list[Any] = []
            raised = None
            try:
                async for item in stream:
                    items.append(item)  # noqa: PERF401 - those before an exception count
            except StreamnormError as exc:
                raised = exc
            states.append(observable_state(stream, items, raised))
        return states

    assert [run_sync(error) for error in errors] == anyio.run(run_async)


@each_kind
def test_end_closes_the_source_once(kind: Any) -> None:
    source, outcomes = Bytes([content("a", "stop"), DONE, content("b")]), []
    with kind(source, outcomes) as stream:
        assert list(stream)
        assert source.closed == 1
        assert list(stream) == []
    stream.close()
    assert (source.closed, source.reads) == (1, 2)
    assert outcomes == [stream.outcome] == [COMPLETED]


@each_kind
def test_leaving_the_loop_closes_the_source_and_abandons_the_stream(kind: Any) -> None:
    source, outcomes = Bytes([content("a"), DONE]), []
    with kind(source, outcomes) as stream:
        assert next(stream)
    assert source.closed == 1
    assert outcomes == [stream.outcome] == [Abandoned()]
    with pytest.raises(LocalProtocolError, match="closed or broke"):
        next(stream)


@each_kind
def test_dropped_stream_calls_on_end(kind: Any) -> None:
    gc.freeze()  # only what this test makes is collected
    source, outcomes = Bytes([content("a"), DONE]), []
    for _ in kind(source, outcomes):
        break
    gc.collect()
    assert outcomes == [Abandoned()]


@each_kind
def test_failed_stream_closes_the_source_and_stays_failed(kind: Any) -> None:
    cut = Cut()
    source, outcomes = Bytes([], error=cut, close_error=Cut()), []
    stream = kind(source, outcomes)
    with pytest.raises(TruncatedStream) as raised:
        next(stream)
    assert raised.value.__cause__ is cut
    assert source.closed == 1
    with pytest.raises(LocalProtocolError):
        next(stream)
    assert outcomes == [stream.outcome]


@each_kind
def test_interrupt_closes_the_source_and_breaks_the_stream(kind: Any) -> None:
    source, outcomes = Bytes([content("a")], error=KeyboardInterrupt()), []
    stream = kind(source, outcomes)
    with pytest.raises(KeyboardInterrupt):
        for _ in stream:
            pass
    assert source.closed == 1
    assert outcomes == [stream.outcome] == [Abandoned()]
    with pytest.raises(LocalProtocolError):
        next(stream)


def test_strict_loss_closes_the_source() -> None:
    source = Bytes([content("a"), content("b", choice=1)], close_error=Cut())
    stream = streamnorm.iter_transcode(source, to="anthropic", strict=True)
    with pytest.raises(LossyEncoding):
        list(stream)
    assert source.closed == 1
    assert stream.outcome == Abandoned()


def test_error_of_closing_is_raised_to_the_caller() -> None:
    source, outcomes = Bytes([content("a")], close_error=Cut()), []
    stream = open_events(source, outcomes)
    with pytest.raises(Cut):
        stream.close()
    stream.close()
    assert source.closed == 1
    assert outcomes == [Abandoned()]


def test_reading_and_closing_within_a_read_are_refused() -> None:
    problems: list[str] = []

    class Reentrant(Bytes):
        stream: SyncStream[Any]

        def __next__(self) -> object:
            for misuse in (self.stream.__next__, self.stream.close):
                try:
                    misuse()
                except LocalProtocolError as exc:
                    problems.append(str(exc))
            return super().__next__()

    source = Reentrant([content("a"), DONE])
    source.stream = streamnorm.iter_events(source)
    assert isinstance(next(source.stream), streamnorm.MessageStart)
    assert problems == [
        "second read at the same time, expected one reader",
        "close during a read, expected none under way",
    ]
    source.stream.close()


def test_options_reach_the_core() -> None:
    notes: list[Any] = []
    losses: list[Any] = []
    chunks = [content("<think>why</think>so"), content("x", "stop").rstrip()]
    options: dict[str, Any] = {
        "dialect": "chat",
        "server": "deepseek",
        "think_tags": True,
        "on_note": notes.append,
        "limits": streamnorm.Limits(max_blocks=2),
    }
    events = list(streamnorm.iter_events(Bytes(chunks), errors="yield", **options))
    assert any(isinstance(event, streamnorm.ReasoningDelta) for event in events)
    assert TextDelta(1, "so") in events
    assert len(notes) == 1
    stream = streamnorm.iter_transcode(
        Bytes(chunks),
        to="anthropic",
        model="mine",
        ordering="interleaved",
        on_loss=losses.append,
        **options,
    )
    assert b'"model":"mine"' in b"".join(stream)
    assert len(notes) == 2


def test_unknown_dialects_are_reported_at_once() -> None:
    with pytest.raises(UnknownDialect):
        streamnorm.iter_events([], dialect="klingon")
    with pytest.raises(UnknownDialect):
        streamnorm.iter_transcode([], to="klingon")
    with pytest.raises(UnknownDialect):
        streamnorm.iter_transcode([], to="anthropic", dialect="klingon")


def test_message_need_not_be_accumulated() -> None:
    body = [content("a"), content("b", "stop"), DONE]
    stream = streamnorm.iter_transcode(Bytes(body), to="anthropic", keep_message=False)
    kept = streamnorm.iter_transcode(Bytes(body), to="anthropic")
    assert list(stream) == list(kept)
    assert isinstance(stream.outcome, Completed)
    with pytest.raises(LocalProtocolError, match="keep_message=False"):
        stream.message  # noqa: B018 - the access is the test
