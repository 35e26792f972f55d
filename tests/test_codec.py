"""Streams whose dialect is not named: what their first frames decide."""

from __future__ import annotations

import pytest
from support.openai_chat.chunks import DONE, calls, chunk, content, decode, frame
from support.openai_chat.chunks import call as piece

from streamnorm import Completed, LocalProtocolError, Note, Opaque, StreamError, Truncated, Usage
from streamnorm.codec import decoder
from streamnorm.sse import Frame

TEXT, END = content("hi"), chunk({}, "stop")


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


def test_error_line_before_any_frame_is_found_without_a_dialect() -> None:
    line = b'error: {"message":"m","code":500}\n'
    assert decode(line, dialect=None) == decode(line)
    assert decode(TEXT, line, dialect=None) == decode(TEXT, line)


def test_progress_is_that_of_the_detected_decoder() -> None:
    ping = frame({"type": "ping"}, "ping")
    reader = decoder()
    assert not reader.lacks_only_terminal
    for data, frames, idle in [
        (ping, 1, 1),
        (frame({"type": "message_start", "message": {"id": "m"}}, "message_start"), 2, 1),
        (ping + ping, 4, 3),
    ]:
        reader.feed(data)
        assert (reader.frames, reader.idle_frames) == (frames, idle)
        assert not reader.lacks_only_terminal
    stop = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    reader.feed(frame(stop, "message_delta"))
    assert reader.lacks_only_terminal
