"""The dialects by name, and which one an unnamed stream speaks."""

from __future__ import annotations

import pytest
from support.openai_chat.chunks import DONE, calls, chunk, content, decode, frame
from support.openai_chat.chunks import call as piece

from streamnorm import (
    BlockStart,
    Completed,
    LocalProtocolError,
    Loss,
    LossyEncoding,
    MessageStart,
    Note,
    Opaque,
    Reasoning,
    StreamError,
    Truncated,
    UnknownDialect,
    Usage,
    decoder,
    detect,
    encoder,
)
from streamnorm._core.codec import Dialect
from streamnorm._registry import _BY_NAME, DIALECTS, checker
from streamnorm.sse import Frame

TEXT, END = content("hi"), chunk({}, "stop")


def test_dialects_are_keyed_by_their_names() -> None:
    assert list(DIALECTS) == [
        "openai_responses",
        "anthropic",
        "openai_chat",
        "gemini",
        "gemini_interactions",
    ]
    assert {name: dialect.aliases for name, dialect in DIALECTS.items()} == {
        "anthropic": ("claude",),
        "openai_chat": ("openai", "chat"),
        "openai_responses": ("responses",),
        "gemini": ("google",),
        "gemini_interactions": (),
    }


@pytest.mark.parametrize("name", ["openai_chat", "openai", "chat"])
def test_alias_reads_like_the_name(name: str) -> None:
    reader = decoder(name)
    assert reader.dialect == "openai_chat"
    assert reader.feed(TEXT + END + DONE) == decode(TEXT, END, DONE).events


@pytest.mark.parametrize("name", ["anthropic", "claude"])
def test_alias_of_another_dialect_reads_like_its_name(name: str) -> None:
    assert decoder(name).dialect == "anthropic"
    assert type(checker(name)) is type(checker("anthropic"))


@pytest.mark.parametrize("name", ["openai_chat", "openai", "chat"])
def test_alias_of_another_dialect_writes_like_its_name(name: str) -> None:
    assert encoder(name).ping() == b": ping\n\n"


@pytest.mark.parametrize("name", ["anthropic", "claude"])
def test_alias_writes_like_the_name(name: str) -> None:
    assert encoder(name).ping() == b'event: ping\ndata: {"type":"ping"}\n\n'


def test_unknown_dialect_error_lists_the_known_ones() -> None:
    known = (
        "expected one of openai_responses, responses, anthropic, claude, openai_chat, openai,"
        " chat, gemini, google, gemini_interactions"
    )
    for make in (decoder, encoder, checker):
        with pytest.raises(UnknownDialect, match=f"^no dialect 'klingon', {known}$"):
            make("klingon")


@pytest.fixture
def mute(monkeypatch: pytest.MonkeyPatch) -> Dialect:
    """A dialect that is known and neither read, written nor checked."""
    dialect = Dialect(
        name="morse", aliases=("dots",), recognises=lambda frame: frame.data.startswith("--")
    )
    monkeypatch.setitem(DIALECTS, "morse", dialect)
    for name in ("morse", "dots"):
        monkeypatch.setitem(_BY_NAME, name, dialect)
    return dialect


@pytest.mark.usefixtures("mute")
def test_missing_codec_error_lists_the_dialects_that_have_it() -> None:
    every = "openai_responses, anthropic, openai_chat, gemini"
    for make, part, known in [
        (decoder, "decoder", f"{every}, gemini_interactions"),
        (encoder, "encoder", every),
        (checker, "checker", every),
    ]:
        with pytest.raises(
            UnknownDialect, match=rf"^no {part} of dialect 'morse', expected one of {known}$"
        ):
            make("dots")


def test_missing_encoder_of_a_variant_lists_the_dialects_that_have_one() -> None:
    written = "openai_responses, anthropic, openai_chat, gemini"
    for make, part in ((encoder, "encoder"), (checker, "checker")):
        with pytest.raises(
            UnknownDialect,
            match=f"^no {part} of dialect 'gemini_interactions', expected one of {written}$",
        ):
            make("gemini_interactions")


@pytest.mark.usefixtures("mute")
def test_stream_of_a_dialect_that_is_not_read_ends_as_malformed() -> None:
    frames = frame("-- --- .-. ... .")
    message = (
        "no decoder of dialect 'morse', expected one of openai_responses, anthropic,"
        " openai_chat, gemini, gemini_interactions"
    )
    for body in (frames, frames.rstrip()):
        assert decode(body, dialect=None).events == [StreamError("malformed", message)]


DETECTED: list[tuple[Frame, str | None]] = [
    (Frame("message", '{"choices":[]}'), "openai_chat"),
    (
        Frame("message", '{"choices":[{"delta":{"content":"\\ud83d"},"logprobs":NaN}]}'),
        "openai_chat",
    ),
    (Frame("message", '{"object":"chat.completion.chunk"}'), "openai_chat"),
    (Frame("message", "[DONE]"), "openai_chat"),
    (Frame("message", '{"error":{"message":"m","type":"x"}}'), "openai_chat"),
    (Frame("message", '{"object":"error","message":"m","type":"BadRequestError"}'), "openai_chat"),
    (Frame("message", '{"detail":"m"}'), "openai_chat"),
    (Frame("message", '[{"error":{"code":1}}]'), "openai_chat"),
    (Frame("error", "out of memory"), "openai_chat"),
    (Frame("error", '{"message":"m"}'), "openai_chat"),
    (Frame("message_start", '{"type":"message_start","message":{}}'), "anthropic"),
    (Frame("message", '{"type":"ping"}'), "anthropic"),
    (Frame("error", '{"type":"error","error":{"type":"overloaded_error"}}'), "anthropic"),
    (Frame("message", '{"choices":[]}\n{"choices":[]}\n[DONE]'), "openai_chat"),
    (Frame("message", '{\n"choices":\n[]}'), "openai_chat"),
    (Frame("message", '{\n"a":1}'), None),
    (Frame("message", "{}"), None),
    (Frame("message", '{"type":"response.created"}'), "openai_responses"),
    (
        Frame("error", '{"type":"error","sequence_number":1,"error":{"message":"m"}}'),
        "openai_responses",
    ),
    (Frame("message", '{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}'), "gemini"),
    (Frame("message", '{"promptFeedback":{"blockReason":"SAFETY"}}'), "gemini"),
    (Frame("message", '{"error":null}'), None),
    (Frame("message", "[1]"), None),
    (Frame("message", "5"), None),
    (Frame("message", '"choices"'), None),
    (Frame("message", "{broken"), None),
    (Frame("message", ""), None),
]


@pytest.mark.parametrize(
    ("frame", "name"), DETECTED, ids=lambda value: getattr(value, "data", value)
)
def test_dialect_is_detected_by_a_frame(frame: Frame, name: str | None) -> None:
    assert detect(frame) == name


def test_error_of_anthropic_is_not_recognised_as_chat() -> None:
    error = Frame("error", '{"type":"error","error":{"message":"m"}}')
    assert not DIALECTS["openai_chat"].recognises(error)


def unknown(count: int) -> list[bytes]:
    """Return frames that any dialect might have."""
    return [frame({"n": number}, "vendor") for number in range(count)]


@pytest.mark.parametrize("count", [0, 1, 14, 15])
def test_dialect_is_detected_within_sixteen_frames(count: int) -> None:
    frames = [*unknown(count), TEXT, END, DONE]
    decoded = decode(*frames, dialect=None)
    assert decoded == decode(*frames)
    assert sum(isinstance(event, Opaque) for event in decoded.events) == count


def test_detection_gives_up_after_sixteen_frames() -> None:
    error = StreamError("malformed", "no stream of a known dialect")
    assert decode(*unknown(16), TEXT, dialect=None).events == [error]


def test_unterminated_last_frame_is_used_for_detection() -> None:
    last = content("hi", "stop").rstrip()
    decoded = decode(*unknown(2), last, dialect=None)
    assert decoded == decode(*unknown(2), last)
    assert isinstance(decoded.outcome, Completed)


def test_joined_frames_are_detected() -> None:
    joined = b"\n".join(piece.rstrip() for piece in (TEXT, END, DONE)) + b"\n\n"
    for frames in ((joined, TEXT), (*unknown(2), joined), (joined.rstrip(),)):
        decoded = decode(*frames, dialect=None)
        assert decoded == decode(*frames)
    assert isinstance(decode(joined, dialect=None).outcome, Completed)


def test_events_of_no_dialect_are_malformed() -> None:
    error = StreamError("malformed", "no stream of a known dialect")
    assert decode(*unknown(3), dialect=None).events == [error]


def test_stream_that_ends_before_an_event_shows_its_dialect_is_truncated() -> None:
    assert decode(b"", dialect=None).outcome == decode(b"").outcome
    assert isinstance(decode(b"data:\n\n", dialect=None).outcome, Truncated)
    assert isinstance(decode(*unknown(3), b"data: {", dialect=None).outcome, Truncated)
    assert isinstance(decode(b"data: {}", dialect=None).outcome, Truncated)


def test_name_is_known_after_detection() -> None:
    reader = decoder()
    assert reader.dialect == ""
    reader.feed(TEXT)
    assert reader.dialect == "openai_chat"


def test_options_reach_the_detected_decoder() -> None:
    heard: list[Note] = []
    frames = [calls(piece(0, "x", "f", text)) for text in ('{"', '{"a":1}')]
    reader = decoder(server="qianfan", think_tags=True, on_note=heard.append)
    reader.feed(content("<think>a</think>") + b"".join(frames) + END + DONE)
    assert heard == [Note("cumulative_arguments", "tool call")]
    assert reader.notes == (Note("cumulative_arguments", "tool call"),)


def test_detected_anthropic_stream_is_read_from_its_first_frame() -> None:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    start = frame({"type": "message_start", "message": message}, "message_start")
    pinged = frame({"type": "ping"}, "ping")
    end = frame({"type": "message_stop"}, "message_stop")
    for frames in ((start, end), (pinged, start, end), (*unknown(3), start, end)):
        decoded = decode(*frames, dialect=None)
        assert decoded == decode(*frames, dialect="anthropic")
        assert isinstance(decoded.outcome, Completed)


def test_detected_stream_accepts_bytes_and_frames() -> None:
    frames = [Frame("message", piece[6:-2].decode()) for piece in (TEXT, END, DONE)]
    whole = decode(TEXT, END, DONE)
    named, unnamed = decoder("openai_chat"), decoder()
    for reader in (named, unnamed):
        events = reader.feed(TEXT)
        events += [event for each in frames[1:] for event in reader.feed_frame(each)]
        assert events == whole.events
        assert (reader.outcome, reader.close()) == (whole.outcome, [])
    only = decoder()
    assert [event for each in frames for event in only.feed_frame(each)] == whole.events
    for end in ("close", "abort"):
        readers = [decoder("openai_chat"), decoder()]
        for reader in readers:
            reader.feed(unknown(1)[0] + TEXT)
        first, other = (
            reader.close() if end == "close" else reader.abort(OSError()) for reader in readers
        )
        assert first == other
        assert readers[0].outcome == readers[1].outcome
        assert readers[0].frames == readers[1].frames == 2
        for reader in readers:
            with pytest.raises(LocalProtocolError):
                reader.feed(TEXT)


def test_detecting_decoder_reports_the_state_of_the_detected_one() -> None:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    usage = {"usage": {"input_tokens": 9}}
    start = frame({"type": "message_start", "message": {**message, **usage}}, "message_start")
    pinged, line = frame({"type": "ping"}, "ping"), b'error: {"message":"late"}\n'
    for pieces in ([start, line], [pinged, start, line], [pinged + start + line]):
        reader = decoder()
        assert (reader.first_usage, reader.error_outside_stream) == (None, False)
        assert not reader.is_body
        for part in pieces:
            reader.feed(part)
        assert (reader.first_usage, reader.error_outside_stream) == (Usage(9), True)
    reader = decoder()
    reader.feed(b'{"error":')
    assert reader.is_body


def test_source_that_fails_before_detection_is_truncated() -> None:
    reader = decoder()
    reader.feed(unknown(1)[0])
    (error,) = reader.abort(TimeoutError())
    assert isinstance(error, StreamError)
    assert error.kind == "stalled"


def test_options_reach_the_encoder() -> None:
    heard: list[Loss] = []
    options = {"model": "asked", "strict": True, "on_loss": heard.append}
    writer = encoder("chat", include_usage=False, reasoning=None, extras=True, **options)
    assert b'"asked"' in writer.encode(MessageStart("m", "gpt", {"created": 7, "region": "north"}))
    assert writer.extras
    assert not writer.projector.capabilities.reasoning
    assert writer.projector.capabilities.usage == "never"
    with pytest.raises(LossyEncoding):
        writer.encode(BlockStart(0, Reasoning()))
    assert heard == [Loss("reasoning", "Reasoning", 1, "dropped")]


def test_error_line_before_any_frame_is_found_without_a_dialect() -> None:
    line = b'error: {"message":"m","code":500}\n'
    assert decode(line, dialect=None) == decode(line)
    assert decode(TEXT, line, dialect=None) == decode(TEXT, line)
