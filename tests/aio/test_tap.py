"""`tap`: bytes pass unchanged, whatever their events are."""

from __future__ import annotations

from typing import Any

import pytest
from support.http.byte_source import AsyncBytes, AsyncResponse, Cut
from support.openai_chat.chunks import DONE, content, frame
from support.streams.corpus import each_recording, pieces

import streamnorm
from streamnorm import (
    Abandoned,
    Completed,
    Event,
    Failed,
    LimitExceeded,
    Limits,
    LocalProtocolError,
    NotAStream,
    Outcome,
    StreamError,
    Truncated,
    TruncatedStream,
    UpstreamError,
    Usage,
    accumulate,
)
from streamnorm.codec import decoder
from streamnorm.recording import Recording

pytestmark = pytest.mark.anyio

ERROR = frame({"error": {"message": "slow down", "type": "rate_limit_error"}})


@each_recording
async def test_bytes_are_untouched_and_events_are_those_of_the_decoder(
    recording: Recording,
) -> None:
    reader = decoder()
    expected = reader.feed(recording.body) + reader.close()
    message = accumulate(expected)
    for size in (97, 1 << 20):
        chunks = pieces(recording.body, size)
        events: list[Event] = []
        outcomes: list[Outcome] = []
        stream = streamnorm.tap(AsyncBytes(chunks), events.append, on_end=outcomes.append)
        assert [chunk async for chunk in stream] == chunks
        assert events == expected
        assert stream.message == message
        assert stream.usage == message.usage
        assert stream.notes == reader.notes
        assert stream.dialect == "openai_chat"
        assert outcomes == [stream.outcome] == [reader.outcome]


async def test_observer_is_called_before_the_bytes_are_returned() -> None:
    events: list[Event] = []
    stream = streamnorm.tap(AsyncBytes([content("a"), DONE]), events.append)
    await anext(stream)
    assert events[-1] == streamnorm.TextDelta(0, "a")


async def test_bytes_behind_an_error_and_behind_the_terminal_pass() -> None:
    chunks = [content("a", "stop"), DONE, b": bye\n\n", content("b")]
    stream = streamnorm.tap(AsyncBytes(chunks), lambda _: None)
    assert [chunk async for chunk in stream] == chunks
    assert stream.outcome == Completed("end_turn", Usage())
    chunks = [content("a"), ERROR, b"data: {\n\n", DONE]
    stream = streamnorm.tap(AsyncBytes(chunks), lambda _: None)
    assert [chunk async for chunk in stream] == chunks
    assert isinstance(stream.outcome, Failed)


async def test_truncated_bytes_pass_unchanged_without_an_exception() -> None:
    stream = streamnorm.tap(AsyncBytes([content("a")]), lambda _: None)
    assert [chunk async for chunk in stream] == [content("a")]
    assert isinstance(stream.outcome, Truncated)


async def test_body_that_passes_the_gate_passes_even_if_no_stream() -> None:
    events: list[Event] = []
    body = b'{"error":{"message":"no"}}'
    stream = streamnorm.tap(AsyncBytes([body]), events.append)
    assert [chunk async for chunk in stream] == [body]
    assert [type(event) for event in events] == [StreamError]


async def test_broken_connection_breaks_the_bytes_too() -> None:
    events: list[Event] = []
    cut = Cut()
    stream = streamnorm.tap(AsyncBytes([content("a")], error=cut), events.append)
    assert await anext(stream) == content("a")
    with pytest.raises(TruncatedStream, match="connection lost after 1 event") as raised:
        await anext(stream)
    assert raised.value.__cause__ is cut
    assert raised.value.partial == stream.message
    assert isinstance(events[-1], StreamError)
    assert events[-1].kind == "transport"
    assert isinstance(stream.outcome, Truncated)


async def test_connection_that_breaks_behind_an_error_breaks_the_bytes() -> None:
    stream = streamnorm.tap(AsyncBytes([content("a"), ERROR], error=Cut()), lambda _: None)
    with pytest.raises(TruncatedStream):
        async for _ in stream:
            pass
    assert isinstance(stream.outcome, Failed)


async def test_connection_that_breaks_behind_the_terminal_changes_nothing() -> None:
    chunks = [content("a", "stop"), DONE]
    stream = streamnorm.tap(AsyncBytes(chunks, error=Cut()), lambda _: None)
    assert [chunk async for chunk in stream] == chunks
    assert stream.outcome == Completed("end_turn", Usage())


async def test_empty_stream_raises() -> None:
    events: list[Event] = []
    stream = streamnorm.tap(AsyncBytes([b""]), events.append)
    with pytest.raises(TruncatedStream):
        await anext(stream)
    assert [type(event) for event in events] == [StreamError]


@pytest.mark.parametrize(
    ("head", "raised"), [((503, None), UpstreamError), ((200, "text/html"), NotAStream)]
)
async def test_gate_refuses_before_the_first_byte(
    head: tuple[int, str | None], raised: type[Exception]
) -> None:
    events: list[Event] = []
    stream = streamnorm.tap(AsyncResponse([b"<html>"], *head), events.append)
    with pytest.raises(raised):
        await anext(stream)
    assert isinstance(stream.outcome, Failed)
    assert events == [stream.outcome.error]


async def test_bytes_held_by_the_gate_pass_unchanged() -> None:
    chunks = [b"\n", b"da", content("a")[2:], DONE]
    stream = streamnorm.tap(AsyncResponse(chunks, 200, "application/json"), lambda _: None)
    assert b"".join([chunk async for chunk in stream]) == b"".join(chunks)


async def test_error_of_the_observer_ends_the_stream() -> None:
    source, outcomes = AsyncBytes([content("a"), DONE]), []

    def observe(_: Event) -> None:
        raise ZeroDivisionError

    stream = streamnorm.tap(source, observe, on_end=outcomes.append)
    with pytest.raises(ZeroDivisionError):
        await anext(stream)
    assert source.closed == 1
    assert outcomes == [Abandoned()]
    with pytest.raises(streamnorm.LocalProtocolError):
        await anext(stream)


async def test_message_beyond_its_bound_does_not_stop_the_bytes() -> None:
    chunks = [content("x" * 10)] * 300 + [content("", "stop"), DONE]
    events: list[Event] = []
    limits = Limits(max_accumulated_bytes=1000)
    stream = streamnorm.tap(AsyncBytes(chunks), events.append, limits=limits)
    assert [chunk async for chunk in stream] == chunks
    assert len(events) == 300 + 4
    assert isinstance(stream.outcome, Completed)
    with pytest.raises(LimitExceeded):
        _ = stream.message


async def test_truncated_stream_beyond_the_message_bound_has_no_partial() -> None:
    limits = Limits(max_accumulated_bytes=1000)
    source = AsyncBytes([content("x" * 10)] * 300, error=Cut())
    with pytest.raises(TruncatedStream) as raised:
        async for _ in streamnorm.tap(source, lambda _: None, limits=limits):
            pass
    assert raised.value.partial is None


async def test_options_reach_the_decoder() -> None:
    events: list[Event] = []
    notes: list[Any] = []
    stream = streamnorm.tap(
        AsyncBytes([content("<think>why</think>so"), content("", "stop").rstrip()]),
        events.append,
        dialect="chat",
        server="deepseek",
        think_tags=True,
        on_note=notes.append,
    )
    assert [chunk async for chunk in stream]
    assert any(isinstance(event, streamnorm.ReasoningDelta) for event in events)
    assert tuple(notes) == stream.notes != ()


async def test_message_need_not_be_accumulated() -> None:
    body = [content("a"), content("b", usage={"prompt_tokens": 9}), content("", "stop"), DONE]
    events: list[Event] = []
    outcomes: list[Outcome] = []
    stream = streamnorm.tap(
        AsyncBytes(body),
        events.append,
        dialect="openai_chat",
        keep_message=False,
        limits=Limits(max_accumulated_bytes=1),
        on_end=outcomes.append,
    )
    assert [chunk async for chunk in stream] == body
    assert accumulate(events).text == "ab"
    assert stream.usage == Usage(9)
    assert outcomes == [stream.outcome] == [Completed("end_turn", Usage(9))]
    with pytest.raises(LocalProtocolError, match="keep_message=False"):
        stream.message  # noqa: B018 - the access is the test


async def test_failure_without_keep_message_has_no_partial() -> None:
    source = AsyncBytes([content("a"), content("b")], error=Cut("gone"))
    stream = streamnorm.tap(source, lambda _: None, keep_message=False)
    with pytest.raises(TruncatedStream) as caught:
        [chunk async for chunk in stream]
    assert caught.value.partial is None
