"""What we encode is what the official google-genai client reads.

Every written recording, every fifth stream of the corpus and streams from hypothesis are
written and served to the client, synchronous and asynchronous, which must arrive at the
message that the projected events add up to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from acceptance.genai_readings import client, our_words, sdk_words
from google.genai import errors, types
from hypothesis import given
from support.draws import Draws, draws
from support.streams.content import error_words
from support.streams.corpus import CorpusStream, each_recording_of, each_stream_of
from support.streams.event_strategies import make_stream

from streamnorm import (
    BlockStart,
    Event,
    MessageStart,
    MessageStop,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    accumulate,
    project,
)
from streamnorm._core.grammar import Sequencer
from streamnorm.codec import decoder
from streamnorm.dialects.gemini.decode import GeminiDecoder
from streamnorm.dialects.gemini.encode import GeminiEncoder
from streamnorm.recording import Recording

Read: TypeAlias = Callable[[bytes], list[types.GenerateContentResponse]]
READS: list[Read] = [client().chunks, client().async_chunks]


def decoded(body: bytes, dialect: str, server: str | None = None) -> list[Event]:
    reader = decoder(dialect, server=server)
    return reader.feed(body) + reader.close()


def written(events: list[Event], *, extras: bool = False) -> tuple[bytes, GeminiEncoder]:
    """Write events as a transcoder does: one block at a time."""
    writer = GeminiEncoder(extras=extras)
    sequencer = Sequencer(overlapping=writer.projector.capabilities.overlapping)
    out: list[bytes] = []
    for event in events:
        for passed in writer.projector.push(event):
            out += [writer.render(ordered) for ordered in sequencer.push(passed)]
    return b"".join([*out, writer.close()]), writer


def assert_wire_is_plain(body: bytes) -> None:
    """The client takes no line but these, and a frame has one of them.

    Behind an error is the begin of another, which it does not read.
    """
    *lines, rest = body.split(b"\r\n")
    assert rest in (b"", b":")
    for line, after in zip(lines, [*lines[1:], b""], strict=True):
        assert line == b"" or (line.startswith(b"data: {") and after == b"")
        assert b"\n" not in line
        assert b"\r" not in line


def check(events: list[Event]) -> None:
    body, writer = written(events)
    passed, losses = project(events, "gemini")
    assert writer.losses == losses
    assert_wire_is_plain(body)
    last = passed[-1]
    if isinstance(last, StreamError) and last.code != "MALFORMED_FUNCTION_CALL":
        for read in READS:
            with pytest.raises(errors.APIError) as info:
                read(body)
            said = StreamError("upstream", info.value.message or "")
            assert error_words(said) == error_words(last)
        return
    ids = {each.signature: each.id for each in passed if isinstance(each, SignatureDelta)}
    expected = our_words(accumulate(passed), ids)
    if isinstance(last, StreamError):
        expected = expected._replace(finish="MALFORMED_FUNCTION_CALL")
    merged = any(loss.feature == "boundaries" for loss in losses)
    for read in READS:
        said = sdk_words(read(body))
        if merged:  # whose sources are still told of the block that they came with
            assert [s[:2] for s in said.sources] == [s[:2] for s in expected.sources]
            said = said._replace(sources=expected.sources)
        assert said == expected


@each_recording_of("openai_chat", "anthropic", "openai_responses")
def test_written_recording_gives_the_client_its_message(recording: Recording) -> None:
    check(decoded(recording.body, str(recording.dialect), recording.server))


@each_stream_of("openai_chat", one_in=10)
def test_real_chat_stream_gives_the_client_its_message(stream: CorpusStream) -> None:
    check(decoded(stream.body, "openai_chat"))


@each_stream_of("anthropic", one_in=10)
def test_real_anthropic_stream_gives_the_client_its_message(stream: CorpusStream) -> None:
    check(decoded(stream.body, "anthropic"))


@given(d=draws(300))
def test_any_stream_gives_the_client_its_message(d: Draws) -> None:
    check(make_stream(d, 1 + d.below(2), calls_only=True, spoken=True))


@given(d=draws(300))
def test_stream_that_fails_raises_for_the_client(d: Draws) -> None:
    check(make_stream(d, failing=True, calls_only=True, spoken=True))


def read_text(chunks: list[types.GenerateContentResponse]) -> str:
    contents = [found.content for chunk in chunks for found in chunk.candidates or ()]
    parts = [part for content in contents if content for part in content.parts or ()]
    return "".join(part.text for part in parts if part.text and not part.thought)


@each_recording_of("gemini")
@pytest.mark.parametrize("read", READS, ids=["sync", "async"])
def test_client_reads_its_own_dialect_written_anew(recording: Recording, read: Read) -> None:
    """With all that only Gemini knows where it was."""
    reader = GeminiDecoder()
    events = reader.feed(recording.body) + reader.close()
    body, _ = written(events, extras=True)
    last = events[-1]
    if isinstance(last, StreamError) and last.code != "MALFORMED_FUNCTION_CALL":
        with pytest.raises(errors.APIError):
            read(body)
        return
    message = accumulate(events)
    chunks = read(body)
    assert read_text(chunks) == message.text
    calls = [call.name for chunk in chunks for call in chunk.function_calls or ()]
    # Those too that the server has executed itself.
    assert calls == [block.name for block in message.blocks if isinstance(block, ToolCall)]


HELLO: list[Event] = [MessageStart("r", "gemini-2.5-flash"), BlockStart(0, Text())]


@pytest.mark.parametrize("read", READS, ids=["sync", "async"])
@pytest.mark.parametrize("at_start", [False, True])
def test_sign_of_life_is_nothing_to_the_client(read: Read, at_start: bool) -> None:
    """It stands between frames, at the start, and at the end."""
    writer = GeminiEncoder()
    events = [*HELLO, TextDelta(0, "Hel"), TextDelta(0, "lo"), TextDelta(0, ", fjørd")]
    ping = writer.ping()
    body = (ping if at_start else b"") + b"".join(writer.encode(e) + ping for e in events)
    assert sdk_words(read(body)).parts == [("text", "Hello, fjørd", None)]


@pytest.mark.parametrize("read", READS, ids=["sync", "async"])
@pytest.mark.parametrize("other", [b": ping\n\n", b"event: ping\r\n\r\n", b"data: [DONE]\r\n\r\n"])
def test_any_other_sign_of_life_breaks_the_client(read: Read, other: bytes) -> None:
    """So that none of them may ever be written."""
    writer = GeminiEncoder()
    body = b"".join(writer.encode(event) for event in [*HELLO, TextDelta(0, "Hi")])
    with pytest.raises(errors.UnknownApiResponseError):
        read(body + other + writer.encode(TextDelta(0, "!")))


@pytest.mark.parametrize("read", READS, ids=["sync", "async"])
def test_text_of_each_chunk_can_be_printed_as_it_comes(read: Read) -> None:
    """As the client's documentation does it; a chunk without text would print `None`."""
    writer = GeminiEncoder()
    body = b"".join(writer.encode(event) for event in [*HELLO, TextDelta(0, "Hi")])
    stop = GeminiEncoder()
    ended = b"".join(stop.encode(event) for event in [HELLO[0], MessageStop("end_turn")])
    assert [chunk.text for chunk in read(body)] == ["", "Hi"]
    assert [chunk.text for chunk in read(ended)] == ["", ""]
