"""`transcode`: chunk for chunk, errors before and after the first byte."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from support.http.asgi_client import transcode
from support.http.byte_source import AsyncBytes, AsyncResponse, Cut
from support.openai_chat.chunks import DONE, call, calls, content, frame
from support.streams.corpus import each_recording, pieces

import streamnorm
from streamnorm import (
    Abandoned,
    Completed,
    Failed,
    LimitExceeded,
    Limits,
    LocalProtocolError,
    Loss,
    LossyEncoding,
    NotAStream,
    Note,
    Outcome,
    RemoteProtocolError,
    StreamError,
    StreamnormError,
    Transcoder,
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

ERROR = frame({"error": {"message": "slow down", "type": "rate_limit_error"}})


@each_recording
async def test_bytes_are_those_of_the_transcoder(recording: Recording) -> None:
    whole = Transcoder(None, "anthropic")
    expected = b"".join(whole.feed(recording.body) + whole.close())
    for size in (97, 1 << 20):
        outcomes: list[Outcome] = []
        stream = transcode(AsyncBytes(pieces(recording.body, size)), on_end=outcomes.append)
        try:
            written = b"".join([chunk async for chunk in stream])
        except StreamnormError:
            assert whole.message == streamnorm.Message()
        else:
            assert written == expected
        assert stream.outcome == whole.outcome
        assert outcomes == [whole.outcome]
        assert stream.losses == whole.losses
        assert stream.notes == whole.notes
        assert stream.message == whole.message
        assert stream.usage == whole.usage
        assert stream.dialect == "openai_chat"


@each_recording
async def test_chunk_in_gives_at_most_one_chunk_out(recording: Recording) -> None:
    source = AsyncBytes(pieces(recording.body, 512))
    reads = []
    try:
        async for chunk in transcode(source):
            assert chunk
            reads.append(source.reads)
    except StreamnormError:
        pass
    # The end of the source may add one more to what its last chunk gave.
    assert len(set(reads)) >= len(reads) - 1


async def test_output_is_returned_with_the_chunk_that_completes_it() -> None:
    source = AsyncBytes([content("one"), content(" two"), DONE])
    stream = transcode(source)
    assert b'"one"' in await anext(stream)
    assert source.reads == 1
    assert b'" two"' in await anext(stream)
    assert source.reads == 2


@pytest.mark.parametrize(
    ("tail", "error", "outcome"),
    [
        ([ERROR], None, Failed),
        ([b"data: {\n\n"], None, Failed),
        ([], None, Truncated),
        ([], Cut("sk-secret"), Truncated),
    ],
)
async def test_failure_in_the_middle_is_written_in_the_clients_dialect(
    tail: list[bytes], error: Exception | None, outcome: type
) -> None:
    outcomes: list[Outcome] = []
    source = AsyncBytes([content("half"), *tail], error=error)
    stream = transcode(source, on_end=outcomes.append)
    written = b"".join([chunk async for chunk in stream])
    assert isinstance(stream.outcome, outcome)
    assert outcomes == [stream.outcome]
    assert b"message_stop" not in written
    assert written.rpartition(b"event: ")[2].startswith(b"error\n")
    assert b"secret" not in written
    assert source.closed == 1
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_failure_after_an_empty_first_chunk_is_written() -> None:
    """The head of the message went out, though nothing of the message is known."""
    start = frame({"choices": [{"index": 0, "delta": {"role": "assistant"}}]})
    stream = transcode(AsyncBytes([start, ERROR]))
    chunks = [chunk async for chunk in stream]
    assert chunks[0].startswith(b"event: message_start\n")
    assert chunks[1].startswith(b"event: error\n")


async def test_failure_after_content_in_the_first_chunk_is_written() -> None:
    """So that the chunks do not matter: the same bytes in two chunks are out already."""
    stream = transcode(AsyncBytes([content("half") + ERROR]))
    (chunk,) = [chunk async for chunk in stream]
    assert b'"half"' in chunk
    assert b"event: error" in chunk


@pytest.mark.parametrize(
    ("chunks", "error", "raised"),
    [
        ([ERROR], None, UpstreamError),
        ([b": ping\n\n", ERROR], None, UpstreamError),
        ([b'{"error":{"message":"no","type":"x"}}'], None, UpstreamError),
        ([b"<html>"], None, NotAStream),
        ([b"data: {\n\n"] * 20, None, RemoteProtocolError),
        ([b"data: " + b"x" * 400], None, LimitExceeded),
        ([], None, TruncatedStream),
        ([], Cut(), TruncatedStream),
        ([content("a")[:30]], Cut(), TruncatedStream),
    ],
)
async def test_failure_before_the_first_byte_is_raised(
    chunks: list[bytes], error: Exception | None, raised: type[StreamnormError]
) -> None:
    outcomes: list[Outcome] = []
    source = AsyncBytes(chunks, error=error)
    stream = transcode(source, limits=Limits(max_event_bytes=300), on_end=outcomes.append)
    with pytest.raises(StreamnormError) as caught:
        await anext(stream)
    assert type(caught.value) is raised
    assert caught.value.__cause__ is error
    assert source.closed == 1
    assert [stream.outcome] == outcomes
    assert isinstance(stream.outcome, (Failed, Truncated))


async def test_failure_after_a_message_beyond_its_bound_is_written() -> None:
    limits = Limits(max_accumulated_bytes=3)
    stream = transcode(AsyncBytes([content("half") + ERROR]), limits=limits)
    (chunk,) = [chunk async for chunk in stream]
    assert chunk.startswith(b"event: message_start")
    assert b"event: error" in chunk


@pytest.mark.parametrize(
    ("body", "status", "content_type", "raised"),
    [
        (b'{"error":{"message":"m"}}', 429, "application/json", UpstreamError),
        (b"<html>", 200, "text/html", NotAStream),
        (b"", 204, None, NotAStream),
        (b"", 307, None, UpstreamError),
    ],
)
async def test_gate_refuses_before_the_first_byte(
    body: bytes, status: int, content_type: str | None, raised: type[Any]
) -> None:
    stream = transcode(AsyncResponse([body], status, content_type))
    with pytest.raises(raised) as caught:
        await anext(stream)
    assert caught.value.status == status


async def test_options_reach_the_transcoder() -> None:
    losses: list[Loss] = []
    notes: list[Note] = []
    bodies = [content("<think>why</think>"), content("so") + content("also", choice=1)]
    stream = transcode(
        AsyncBytes([*bodies, content("", "stop").rstrip(b"\n")]),
        dialect="chat",
        model="mine",
        think_tags=True,
        server="deepseek",
        on_loss=losses.append,
        on_note=notes.append,
    )
    written = b"".join([chunk async for chunk in stream])
    assert b'"model":"mine"' in written
    assert b"thinking_delta" in written
    assert [loss.feature for loss in losses] == ["choices"]
    assert stream.losses == tuple(losses)
    assert stream.notes == tuple(notes)


async def test_ordering_option_reaches_the_transcoder() -> None:
    pair = [call(0, "a", "f", '{"x"'), call(1, "b", "g", '{"y"')]
    chunks = [calls(*pair), calls(call(0, arguments=":1}")), calls(call(1, arguments=":2}")), DONE]

    async def opened(ordering: Any) -> int:
        stream = transcode(AsyncBytes(chunks), ordering=ordering)
        return (await anext(stream)).count(b"event: content_block_start")

    assert await opened("sequential") == 1
    assert await opened("interleaved") == 2


async def test_strict_loss_breaks_the_stream() -> None:
    source, outcomes = AsyncBytes([content("a"), content("b", choice=1)]), []
    stream = transcode(source, strict=True, on_end=outcomes.append)
    await anext(stream)
    with pytest.raises(LossyEncoding):
        await anext(stream)
    assert source.closed == 1
    assert outcomes == [Abandoned()]
    with pytest.raises(streamnorm.LocalProtocolError):
        await anext(stream)


async def test_unknown_dialects_are_reported_at_once() -> None:
    with pytest.raises(UnknownDialect):
        streamnorm.transcode(AsyncBytes([]), to="klingon")
    with pytest.raises(UnknownDialect):
        transcode(AsyncBytes([]), dialect="klingon")


async def test_ping_is_of_the_clients_dialect_while_the_stream_lasts() -> None:
    stream = transcode(AsyncBytes([content("a", "stop"), DONE]))
    assert stream.ping() == b'event: ping\ndata: {"type":"ping"}\n\n'
    assert [chunk async for chunk in stream]
    assert stream.ping() == b""
    assert streamnorm.events(AsyncBytes([])).ping() == b""
    assert streamnorm.tap(AsyncBytes([]), print).ping() == b""


async def test_error_body_is_of_the_clients_dialect() -> None:
    error = StreamError("upstream", "slow down", code="rl", status_hint=429)
    assert transcode(AsyncBytes([])).error_body(error) == (
        b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}'
    )
    assert streamnorm.tap(AsyncBytes([]), print).error_body(error) == (
        b'{"error":{"message":"slow down","type":"upstream","code":"rl"}}'
    )


async def test_failure_after_only_pings_is_raised() -> None:
    """Nothing went out, so the status still can."""
    stream = transcode(AsyncBytes([b": a\n\n", b": b\n\n", ERROR]))
    with pytest.raises(UpstreamError):
        await anext(stream)


async def test_cancelled_transcoding_is_abandoned() -> None:
    source, outcomes = AsyncBytes([content("a")], stays_open=True), []
    with anyio.CancelScope() as scope:
        async with transcode(source, on_end=outcomes.append) as stream:
            await anext(stream)
            scope.cancel()
            await anext(stream)
    assert outcomes == [Abandoned()]
    assert source.closed == 1


async def test_message_equals_that_of_events() -> None:
    body = [content("a"), content("b", "stop"), DONE]
    stream = transcode(AsyncBytes(body))
    assert [chunk async for chunk in stream]
    reader = decoder()
    assert stream.message == accumulate(reader.feed(b"".join(body)))
    assert stream.outcome == Completed("end_turn", Usage())


async def test_message_need_not_be_accumulated() -> None:
    body = [content("a"), content("b", usage={"prompt_tokens": 9}), content("", "stop"), DONE]
    outcomes: list[Outcome] = []
    kept = transcode(AsyncBytes(body))
    limits = Limits(max_accumulated_bytes=200)
    stream = transcode(
        AsyncBytes(body), dialect="openai_chat", keep_message=False, on_end=outcomes.append
    )
    assert [chunk async for chunk in stream] == [chunk async for chunk in kept]
    assert stream.usage == kept.usage == Usage(9)
    assert outcomes == [stream.outcome] == [Completed("end_turn", Usage(9))]
    with pytest.raises(LocalProtocolError, match="keep_message=False"):
        stream.message  # noqa: B018 - the access is the test
    long = [content("x" * 50) for _ in range(9)]
    for keeps in (True, False):
        bounded = transcode(AsyncBytes([*long, *body]), limits=limits, keep_message=keeps)
        async for _ in bounded:
            pass
        assert isinstance(bounded.outcome, Failed) is keeps


@pytest.mark.parametrize("keeps", [True, False])
async def test_failure_before_any_content_is_raised_with_and_without_keep_message(
    *, keeps: bool
) -> None:
    stream = transcode(AsyncBytes([b": hi\n\n"], error=Cut("gone")), keep_message=keeps)
    with pytest.raises(TruncatedStream) as caught:
        [chunk async for chunk in stream]
    assert caught.value.partial == (streamnorm.Message() if keeps else None)
