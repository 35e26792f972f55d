"""`events`: the items it delivers, its outcome, and the exceptions it raises."""

from __future__ import annotations

from typing import Any

import httpx
import httpx2
import pytest
from support.http.byte_source import AsyncBytes, AsyncResponse, Cut
from support.openai_chat.chunks import DONE, chunk, content, frame
from support.streams.corpus import each_recording, pieces

import streamnorm
from streamnorm import (
    Abandoned,
    BlockStart,
    Completed,
    Failed,
    LimitExceeded,
    Limits,
    MessageStart,
    MessageStop,
    NotAStream,
    Note,
    Outcome,
    RemoteProtocolError,
    StreamError,
    StreamnormError,
    TextDelta,
    Truncated,
    TruncatedStream,
    UnknownDialect,
    UpstreamError,
    Usage,
    accumulate,
)
from streamnorm.codec import decoder
from streamnorm.recording import Recording

pytestmark = pytest.mark.anyio

ERROR = frame({"error": {"message": "slow down", "type": "rate_limit_error", "code": "rl"}})


async def collect(stream: streamnorm.Stream[Any]) -> tuple[list[Any], Exception | None]:
    """Return the items of a stream, and the exception after them."""
    items: list[Any] = []
    try:
        async for item in stream:
            items.append(item)  # noqa: PERF401 - those before an exception count
    except StreamnormError as exc:
        return items, exc
    return items, None


@each_recording
async def test_events_are_those_of_the_decoder_whatever_the_chunks(recording: Recording) -> None:
    reader = decoder()
    expected = reader.feed(recording.body) + reader.close()
    message = accumulate(expected)
    for size in (1, 97, 1 << 20):
        outcomes: list[Outcome] = []
        stream = streamnorm.events(
            AsyncBytes(pieces(recording.body, size)), errors="yield", on_end=outcomes.append
        )
        assert [event async for event in stream] == expected
        assert stream.outcome == reader.outcome
        assert outcomes == [reader.outcome]
        assert stream.message == message
        assert stream.usage == message.usage
        assert stream.notes == reader.notes
        assert stream.dialect == "openai_chat"
        assert stream.losses == ()


@each_recording
async def test_events_before_an_error_are_delivered_before_it_is_raised(
    recording: Recording,
) -> None:
    reader = decoder()
    expected = reader.feed(recording.body) + reader.close()
    stream = streamnorm.events(AsyncBytes([recording.body]))
    items, raised = await collect(stream)
    assert items == [event for event in expected if not isinstance(event, StreamError)]
    assert (raised is not None) == isinstance(expected[-1], StreamError)
    assert stream.outcome == reader.outcome


async def test_each_event_is_there_with_the_chunk_that_completes_it() -> None:
    source = AsyncBytes([content("a"), content("b") + content("c"), DONE])
    stream = streamnorm.events(source)
    assert [(type(event), source.reads) async for event in stream] == [
        (MessageStart, 1),
        (BlockStart, 1),
        (TextDelta, 1),
        (TextDelta, 2),
        (TextDelta, 2),
        (streamnorm.BlockStop, 3),
        (MessageStop, 3),
    ]


async def test_message_and_usage_grow_with_the_events() -> None:
    source = AsyncBytes([content("one ", usage={"prompt_tokens": 3}), content("two"), DONE])
    stream = streamnorm.events(source)
    assert stream.message == streamnorm.Message()
    texts = [stream.message.text async for event in stream if isinstance(event, TextDelta)]
    assert texts == ["one ", "one two"]
    assert stream.usage == Usage(input_tokens=3)


async def test_outcome_is_none_until_the_last_event_is_returned() -> None:
    stream = streamnorm.events(AsyncBytes([content("a", "stop") + DONE]))
    outcomes = [stream.outcome async for _ in stream]
    assert outcomes == [None] * 4 + [Completed("end_turn", Usage())]


async def test_empty_chunk_does_not_end_the_stream() -> None:
    stream = streamnorm.events(AsyncBytes([b"", content("a"), b"", DONE, b""]))
    assert sum(isinstance(event, TextDelta) for event in [e async for e in stream]) == 1


async def test_notes_are_reported_as_they_happen() -> None:
    notes: list[Note] = []
    body = content("a", "stop").rstrip(b"\n")
    stream = streamnorm.events(AsyncBytes([body]), on_note=notes.append)
    assert await collect(stream)
    assert stream.notes == tuple(notes) == (Note("unterminated", "last frame"),)


async def test_options_reach_the_decoder() -> None:
    stream = streamnorm.events(
        AsyncBytes([content("<think>why</think>"), content("so"), DONE]),
        dialect="openai",
        server="deepseek",
        think_tags=True,
    )
    events, _ = await collect(stream)
    assert any(isinstance(event, streamnorm.ReasoningDelta) for event in events)
    assert stream.dialect == "openai_chat"


@pytest.mark.parametrize(
    ("chunks", "kind", "raised"),
    [
        ([content("a"), ERROR], "upstream", UpstreamError),
        ([content("a"), b"data: {\n\n"], "malformed", RemoteProtocolError),
        ([b'{"choices":[{"message":{}}]}'], "malformed", NotAStream),
        ([content("a"), b"data: " + b"x" * 400], "too_large", LimitExceeded),
        ([content("a")], "truncated", TruncatedStream),
        ([], "truncated", TruncatedStream),
    ],
)
async def test_each_kind_of_error_has_its_exception(
    chunks: list[bytes], kind: str, raised: type[StreamnormError]
) -> None:
    limits = Limits(max_event_bytes=300)
    yielding = streamnorm.events(AsyncBytes(chunks), errors="yield", limits=limits)
    events, nothing = await collect(yielding)
    assert nothing is None
    error = events[-1]
    assert isinstance(error, StreamError)
    assert error.kind == kind
    assert yielding.outcome in (Failed(error), Truncated(error))

    outcomes: list[Outcome] = []
    raising = streamnorm.events(AsyncBytes(chunks), limits=limits, on_end=outcomes.append)
    before, exc = await collect(raising)
    assert before == events[:-1]
    assert type(exc) is raised
    assert str(exc) == error.message
    assert exc.__cause__ is None
    assert [raising.outcome] == outcomes == [yielding.outcome]


async def test_upstream_error_has_the_message_of_the_provider() -> None:
    _, exc = await collect(streamnorm.events(AsyncBytes([content("a"), ERROR])))
    assert isinstance(exc, UpstreamError)
    assert (exc.message, exc.code, exc.status, exc.retryable) == ("slow down", "rl", 429, True)


async def test_exceeded_limit_is_named() -> None:
    limits = Limits(max_event_bytes=300)
    _, exc = await collect(streamnorm.events(AsyncBytes([b"data: " + b"x" * 400]), limits=limits))
    assert isinstance(exc, LimitExceeded)
    assert exc.limit == "max_event_bytes"


async def test_malformed_stream_names_its_dialect() -> None:
    _, exc = await collect(streamnorm.events(AsyncBytes([content("a"), b"data: {\n\n"])))
    assert isinstance(exc, RemoteProtocolError)
    assert exc.dialect == "openai_chat"


async def test_not_a_stream_error_quotes_no_text_of_the_body() -> None:
    stream = streamnorm.events(AsyncResponse([b'{"secret":1}'], 200, None))
    _, exc = await collect(stream)
    assert isinstance(exc, NotAStream)
    assert exc.status == 200
    assert exc.snippet == "a JSON body"
    assert "secret" not in str(exc)


async def test_truncated_stream_has_the_partial_message() -> None:
    stream = streamnorm.events(AsyncBytes([content("half "), content("an answer")]))
    _, exc = await collect(stream)
    assert isinstance(exc, TruncatedStream)
    assert exc.partial is not None
    assert exc.partial == stream.message
    assert exc.partial.text == "half an answer"
    assert exc.partial.stop_reason is None
    assert (exc.dialect, exc.frame) == ("openai_chat", 2)


async def test_connection_that_breaks_is_the_cause_of_a_truncated_stream() -> None:
    cut = Cut("reset by sk-secret")
    stream = streamnorm.events(AsyncBytes([content("half")], error=cut))
    events, exc = await collect(stream)
    assert events[-1] == TextDelta(0, "half")
    assert isinstance(exc, TruncatedStream)
    assert exc.__cause__ is cut
    assert exc.partial is not None
    assert exc.partial.text == "half"
    assert str(exc) == "connection lost after 1 event, before the message was complete"
    assert isinstance(stream.outcome, Truncated)
    assert stream.outcome.error.kind == "transport"


@pytest.mark.parametrize("silence", [TimeoutError(), httpx.ReadTimeout(""), httpx2.PoolTimeout("")])
async def test_timeout_of_the_source_is_a_stall(silence: Exception) -> None:
    stream = streamnorm.events(AsyncBytes([content("a")], error=silence))
    _, exc = await collect(stream)
    assert isinstance(exc, TruncatedStream)
    assert exc.__cause__ is silence
    assert isinstance(stream.outcome, Truncated)
    assert stream.outcome.error.kind == "stalled"


@pytest.mark.parametrize("errors", ["raise", "yield"])
async def test_failure_behind_the_terminal_changes_nothing(errors: Any) -> None:
    chunks = [content("a", "stop"), DONE]
    stream = streamnorm.events(AsyncBytes(chunks, error=Cut()), errors=errors)
    _, exc = await collect(stream)
    assert exc is None
    assert stream.outcome == Completed("end_turn", Usage())


async def test_bytes_after_the_terminal_give_no_events() -> None:
    chunks = [content("a", "stop"), DONE, content("b"), ERROR]
    events, exc = await collect(streamnorm.events(AsyncBytes(chunks)))
    assert exc is None
    assert isinstance(events[-1], MessageStop)


LARGE = [content("x" * 10), content("y" * 10), content("z" * 10, "stop"), DONE]


@pytest.mark.parametrize("size", [1, 100, 1 << 20])
@pytest.mark.parametrize("beyond", [-1, 0, 1])
async def test_message_fails_beyond_its_bound_whatever_the_chunks(size: int, beyond: int) -> None:
    needed = 30 + len(b'{"type":"text"}')
    limits = Limits(max_accumulated_bytes=needed - beyond)
    source = AsyncBytes(pieces(b"".join(LARGE), size))
    stream = streamnorm.events(source, limits=limits, errors="yield")
    events, _ = await collect(stream)
    if beyond <= 0:
        assert isinstance(events[-1], MessageStop)
        assert stream.outcome == Completed("end_turn", Usage())
        return
    assert events[-2] == TextDelta(0, "y" * 10)
    assert isinstance(events[-1], StreamError)
    assert (events[-1].kind, events[-1].code) == ("too_large", "max_accumulated_bytes")
    assert stream.outcome == Failed(events[-1])
    assert source.closed == 1


async def test_message_beyond_its_bound_raises_limit_exceeded() -> None:
    stream = streamnorm.events(AsyncBytes(LARGE), limits=Limits(max_accumulated_bytes=30))
    events, exc = await collect(stream)
    assert events[-1] == TextDelta(0, "x" * 10)
    assert isinstance(exc, LimitExceeded)
    assert exc.limit == "max_accumulated_bytes"


async def test_message_beyond_its_bound_in_the_last_chunk_never_completes() -> None:
    """The last calls come with the end here, since the provider sends no `[DONE]`."""
    calls = [
        {"index": n, "id": f"c{n}", "function": {"name": "f", "arguments": "{}"}} for n in range(30)
    ]
    body = chunk({"tool_calls": calls}, "tool_calls")
    limits = Limits(max_accumulated_bytes=1000)
    events, exc = await collect(streamnorm.events(AsyncBytes([body]), limits=limits))
    assert isinstance(exc, LimitExceeded)
    assert not any(isinstance(event, MessageStop) for event in events)


@pytest.mark.parametrize("errors", ["raise", "yield"])
async def test_gate_refuses_before_any_event(errors: Any) -> None:
    body = b'{"error":{"message":"no key","type":"authentication_error"}}'
    outcomes: list[Outcome] = []
    source = AsyncResponse([body], 401, "application/json")
    stream = streamnorm.events(source, errors=errors, on_end=outcomes.append)
    events, exc = await collect(stream)
    if errors == "yield":
        (error,) = events
        assert (error.message, error.status_hint) == ("no key", 401)
    else:
        assert events == []
        assert isinstance(exc, UpstreamError)
        assert (exc.message, exc.status, exc.code) == ("no key", 401, "authentication_error")
        assert exc.retryable is False
    assert source.closed == 1
    assert outcomes == [stream.outcome]
    assert isinstance(stream.outcome, Failed)


async def test_gate_stops_reading_a_body_that_is_too_large() -> None:
    source = AsyncResponse([b"x" * 10] * 100, 500, "text/html")
    stream = streamnorm.events(source, limits=Limits(max_error_body_bytes=20))
    _, exc = await collect(stream)
    assert isinstance(exc, UpstreamError)
    assert (str(exc), exc.status) == ("HTTP 500 with plain text", 500)
    assert source.reads == 3


async def test_error_status_whose_body_breaks_is_still_that_error() -> None:
    cut = Cut()
    source = AsyncResponse([b'{"er'], 503, "application/json", error=cut)
    _, exc = await collect(streamnorm.events(source))
    assert isinstance(exc, UpstreamError)
    assert (exc.status, exc.retryable) == (503, True)
    assert exc.__cause__ is cut


async def test_json_and_html_with_a_good_status_are_no_stream() -> None:
    stream = streamnorm.events(AsyncResponse([b"<html>", b"secret"], 200, "text/html"))
    _, exc = await collect(stream)
    assert isinstance(exc, NotAStream)
    assert (exc.status, exc.snippet) == (200, "an HTML page")
    assert "secret" not in str(exc)


async def test_event_stream_with_a_json_content_type_is_read() -> None:
    chunks = [b"\n", content("a")[:3], content("a")[3:], DONE]
    stream = streamnorm.events(AsyncResponse(chunks, 200, "application/json"))
    events, exc = await collect(stream)
    assert exc is None
    assert TextDelta(0, "a") in events


async def test_empty_response_raises() -> None:
    for content_type in ("text/event-stream", "application/json", None):
        _, exc = await collect(streamnorm.events(AsyncResponse([], 200, content_type)))
        assert isinstance(exc, TruncatedStream)


async def test_no_content_is_no_stream() -> None:
    _, exc = await collect(streamnorm.events(AsyncResponse([], 204, None)))
    assert isinstance(exc, NotAStream)
    assert exc.status == 204


async def test_wrong_arguments_are_reported_at_once() -> None:
    source = AsyncBytes([])
    with pytest.raises(UnknownDialect):
        streamnorm.events(source, dialect="klingon")
    with pytest.raises(ValueError, match="errors is 'ignore', expected 'raise' or 'yield'"):
        streamnorm.events(source, errors="ignore")  # type: ignore[arg-type]
    assert source.closed == 0


async def test_chunk_of_str_raises_type_error() -> None:
    source = AsyncBytes(["data: x\n\n"])
    outcomes: list[Outcome] = []
    stream = streamnorm.events(source, on_end=outcomes.append)
    with pytest.raises(TypeError, match="source gives str, expected bytes"):
        await anext(stream)
    assert source.closed == 1
    assert outcomes == [Abandoned()]
