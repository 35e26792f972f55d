"""What every decoder does: bodies that are no stream, strays, ends, notes, misuse."""

from __future__ import annotations

import json

import pytest
from support.openai_chat.chunks import DONE, chunk, content, decode, frame

from streamnorm import (
    Completed,
    Event,
    Failed,
    Limits,
    LocalProtocolError,
    MessageStart,
    MessageStop,
    Note,
    StreamError,
    Transcoder,
    Truncated,
)
from streamnorm._core.codec import Decoder
from streamnorm._registry import DIALECTS
from streamnorm.codec import SSE, decoder
from streamnorm.sse import Frame

TEXT, END = content("hi"), chunk({}, "stop")
NO_STREAM = "not_a_stream"
NO_STREAM_FIELD = (
    'a JSON body, expected an event stream (is "stream": true missing in the request, '
    "or streamGenerateContent in its URL?)"
)


# Bodies that are no stream


@pytest.mark.parametrize("before", [b"", b"\n", b" \r\n\t", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n "])
def test_json_error_in_place_of_a_stream_is_the_providers_error(before: bytes) -> None:
    body = json.dumps({"error": {"message": "no", "code": 401}}, indent=2).encode()
    assert decode(before + body).events == [StreamError("upstream", "no", "401", 401, False)]
    assert decode(before + body, dialect=None) == decode(before + body)


def test_json_error_in_an_array_is_the_providers_error() -> None:
    body = b'[{"error":{"code":503,"message":"no","status":"UNAVAILABLE"}}]'
    assert decode(body).events == [StreamError("upstream", "no", "UNAVAILABLE", 503, True)]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            b'{"id":"1","object":"chat.completion","choices":[{"message":{"content":"hi"}}]}',
            NO_STREAM_FIELD,
        ),
        (
            b"<!DOCTYPE html><html><body>502</body></html>",
            "an HTML page, expected an event stream (is the URL of the request right?)",
        ),
        (b"[1,2]", NO_STREAM_FIELD),
        (b"{broken", NO_STREAM_FIELD),
        (b'{"error":null}', NO_STREAM_FIELD),
        (b"Dear reader,\n\nhow are you?\n", "plain text, expected an event stream"),
        (b"prose: a line with a colon", "plain text, expected an event stream"),
        (b"\x7fELF\x02\x01\0\0\n\0data: x", "binary data, expected an event stream"),
    ],
    ids=lambda value: str(value[:20]),
)
def test_body_in_place_of_a_stream_is_reported_by_its_kind(body: bytes, message: str) -> None:
    error = StreamError("malformed", message, code=NO_STREAM)
    for dialect in ("openai_chat", None):
        decoded = decode(body, dialect=dialect)
        assert decoded.events == [error]
        assert decoded.outcome == Failed(error)
        assert decode(*(body[at : at + 1] for at in range(len(body))), dialect=dialect) == decoded


@pytest.mark.parametrize("dialect", ["openai_chat", None])
@pytest.mark.parametrize("size", [1_000, 100_000])
def test_line_that_never_ends_is_binary_data(dialect: str | None, size: int) -> None:
    error = StreamError("malformed", "binary data, expected an event stream", code=NO_STREAM)
    reader = decoder(dialect)
    events = [event for _ in range(0, 100_000, size) for event in reader.feed(b"x" * size)]
    assert [*events, *reader.close()] == [error]


@pytest.mark.parametrize("start", [b"d", b"data", b"event: mess", b"id", b": c\nretr", b"data: {"])
def test_stream_that_is_cut_in_its_first_field_is_truncated(start: bytes) -> None:
    for dialect in ("openai_chat", None):
        assert isinstance(decode(start, dialect=dialect).outcome, Truncated)


def test_text_that_breaks_off_is_a_broken_connection() -> None:
    reader = decoder("openai_chat")
    reader.feed(b"Dear reader,\n")
    assert [event.kind for event in reader.abort(OSError())] == ["transport"]


def test_nothing_of_a_body_is_read_as_frames() -> None:
    assert decode(b'{"a":\n\n' + TEXT + END + DONE).events[0].code == NO_STREAM


@pytest.mark.parametrize("blank", [b"", b"\n\n", b": ping\n\n", b"\xef\xbb\xbf", b"\xef\xbb"])
def test_source_that_says_nothing_is_a_cut(blank: bytes) -> None:
    decoded = decode(blank)
    assert isinstance(decoded.outcome, Truncated)
    assert [event.kind for event in decoded.events] == ["truncated"]


def test_brace_behind_a_first_field_is_no_body() -> None:
    assert isinstance(decode(b": c\n{\n\n", TEXT, END, DONE).outcome, Completed)


# Strays


def test_strays_are_read_between_the_frames_they_stand_between() -> None:
    body = TEXT + b"error: late\n\n" + END + DONE
    assert decode(body).events[-1] == StreamError("upstream", "late")
    assert isinstance(decode(TEXT + END + DONE + b"error: too late\n\n").outcome, Completed)


def test_strays_beside_an_event_that_is_too_large_change_nothing_after_the_end() -> None:
    reader = decoder("openai_chat")
    events = reader.feed(b"stray\n" + TEXT + END + DONE + b"data: x" * 99 + b"\n\n")
    assert isinstance(reader.outcome, Completed)
    assert isinstance(events[-1], MessageStop)


def test_many_strays_are_bounded() -> None:
    lines = b"".join(b"%d\n" % number for number in range(50_000))
    decoded_end = decoder("openai_chat")
    decoded_end.feed(TEXT + lines)
    assert [event.kind for event in decoded_end.close()] == ["truncated"]


# Ends


def test_source_that_fails_ends_in_transport_or_stalled() -> None:
    for cause, kind, found in [
        (ConnectionResetError("peer"), "transport", "connection lost"),
        (TimeoutError(), "stalled", "connection timed out"),
        (OSError("secret"), "transport", "connection lost"),
    ]:
        reader = decoder("openai_chat")
        reader.feed(TEXT)
        message = f"{found} after 1 event, before the message was complete"
        error = StreamError(kind, message, retryable=True)
        assert reader.abort(cause) == [error]
        assert reader.outcome == Truncated(error)
        assert reader.abort(cause) == reader.close() == []


def test_source_that_fails_after_the_end_changes_nothing() -> None:
    reader = decoder("openai_chat")
    reader.feed(TEXT + END + DONE)
    assert reader.abort(OSError()) == []
    assert isinstance(reader.outcome, Completed)


def test_source_that_fails_within_a_body_is_a_cut() -> None:
    reader = decoder("openai_chat")
    reader.feed(b'{"error":{"message":')
    assert [event.kind for event in reader.abort(OSError())] == ["transport"]


def test_decoder_says_nothing_after_its_end() -> None:
    reader = decoder("openai_chat")
    reader.feed(TEXT + END + DONE)
    assert reader.feed(TEXT) == reader.feed_frame(Frame("message", "[DONE]")) == []
    assert reader.close() == reader.close() == []


def test_failed_decoder_says_nothing_more() -> None:
    reader = decoder("openai_chat")
    assert [event.kind for event in reader.feed(b"data: {broken\n\n" + TEXT)] == ["malformed"]
    assert reader.feed(TEXT + b"error: x\n") == reader.close() == []


def test_feeding_a_closed_decoder_is_a_mistake_of_the_caller() -> None:
    for end in ("close", "abort"):
        reader = decoder("openai_chat")
        getattr(reader, end)(*([OSError()] if end == "abort" else []))
        with pytest.raises(LocalProtocolError, match="feed after close"):
            reader.feed(TEXT)
        with pytest.raises(LocalProtocolError, match="feed after close"):
            reader.feed_frame(Frame("message", "[DONE]"))


def test_event_that_is_too_large_ends_the_stream_after_those_before_it() -> None:
    large = b"data: " + b"x" * 2000
    reader = decoder("openai_chat", limits=Limits(max_event_bytes=2000))
    events = reader.feed(TEXT + large)
    assert isinstance(events[0], MessageStart)
    assert events[-1] == StreamError(
        "too_large", "max_event_bytes of 2000 passed", code="max_event_bytes"
    )


# Frames and notes


def test_frames_can_be_fed_as_they_are() -> None:
    payloads = [frame[6:-2].decode() for frame in (TEXT, END, DONE)]
    reader = decoder("openai_chat")
    events = [event for text in payloads for event in reader.feed_frame(Frame("message", text))]
    assert events == decode(TEXT, END, DONE).events
    broken = decoder("openai_chat")
    assert [event.kind for event in broken.feed_frame(Frame("message", "{"))] == ["malformed"]


def test_frames_of_bytes_are_counted() -> None:
    reader = decoder("openai_chat")
    reader.feed(b": ping\n\n" + TEXT + b"data\n\n" + END)
    assert reader.frames == 3


def test_what_is_forgiven_is_counted_together() -> None:
    joined = TEXT.rstrip() + b"\n" + TEXT
    reader = decoder("openai_chat")
    reader.feed(joined + joined)
    assert reader.notes == (Note("joined_frames", "frame", 2),)


# Dialects alike

START = {
    "type": "message_start",
    "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []},
}


def test_every_dialect_knows_a_body_a_stray_line_and_a_cut() -> None:
    for dialect, first in [("openai_chat", TEXT), ("anthropic", frame(START, "message_start"))]:
        no = decode(b'{"error":{"message":"no","code":401}}', dialect=dialect)
        assert no.events == [StreamError("upstream", "no", "401", 401, False)]
        line = decode(first, b'error: {"message":"late","code":500}\n\n', dialect=dialect)
        assert line.events[-1] == StreamError("upstream", "late", "500", 500, True)
        lines = decode(first, b'{\n"error":\n{"message":"late"}\n}\n', dialect=dialect)
        assert lines.events[-1] == StreamError("upstream", "late")
        page = decode(b"<html>", dialect=dialect)
        assert getattr(page.events[0], "code", "") == NO_STREAM
        cut = decode(first, dialect=dialect)
        message = "connection lost: the stream ended before the message was complete, after 1 event"
        assert cut.events[-1] == StreamError("truncated", message, retryable=True)


def test_notes_are_reported_as_they_happen() -> None:
    heard: list[Note] = []
    reader = decoder("openai_chat", on_note=heard.append)
    reader.feed(TEXT.rstrip() + b"\n" + TEXT)
    assert heard == [Note("joined_frames", "frame")]


# The delta run


def test_run_is_there_once_the_dialect_is_known_and_until_the_end() -> None:
    for dialect in ("openai_chat", None):
        reader = decoder(dialect)
        assert reader.run is None
        reader.feed(b": ping\n\n" + TEXT)
        run = reader.run
        assert run is not None
        reader.feed(TEXT + chunk({}, usage={"prompt_tokens": 9}))
        assert reader.run is run
        reader.feed(END + DONE)
        assert reader.run is None


@pytest.mark.parametrize("dialect", ["openai_chat", None])
@pytest.mark.parametrize("failure", [frame("{"), b"error: no\n\n", frame({"error": "no"})])
def test_run_ends_with_an_error(failure: bytes, dialect: str | None) -> None:
    reader = decoder(dialect)
    reader.feed(TEXT + TEXT + failure + TEXT)
    assert isinstance(reader.outcome, Failed)
    assert reader.run is None
    assert reader.feed(TEXT) == []


@pytest.mark.parametrize("dialect", ["openai_chat", None])
@pytest.mark.parametrize("ends", ["close", "abort"])
def test_run_ends_with_the_source(ends: str, dialect: str | None) -> None:
    reader = decoder(dialect)
    reader.feed(TEXT + TEXT)
    assert reader.close() if ends == "close" else reader.abort(OSError())
    assert reader.run is None
    with pytest.raises(LocalProtocolError, match="feed after close"):
        reader.split(TEXT)


@pytest.mark.parametrize("dialect", ["openai_chat", None])
def test_run_may_be_switched_off(dialect: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Decoder, "offers_run", False)
    reader = decoder(dialect)
    events = [event for data in (TEXT, TEXT, END, DONE) for event in reader.feed(data)]
    assert reader.run is None
    assert events == decode(TEXT, TEXT, END, DONE).events


@pytest.mark.parametrize("dialect", ["openai_chat", None])
@pytest.mark.parametrize("before", ["", ": ping\n\n", "\ufeff"])
def test_frames_may_be_split_and_read_one_by_one(before: str, dialect: str | None) -> None:
    whole = before.encode() + TEXT + TEXT + END + DONE
    reader = decoder(dialect)
    events = [event for raw in reader.split(whole) for event in reader.read_raw(raw)]
    assert events == decode(whole).events
    assert isinstance(reader.outcome, Completed)
    (late,) = reader.split(TEXT)
    assert reader.read_raw(late) == []


def test_refused_body_is_read_as_a_frame_of_its_own() -> None:
    reader = decoder("openai_chat", limits=Limits(max_error_body_bytes=8))
    assert reader.split(b"<html>") == []
    (raw,) = reader.split(b"502 Bad Gateway")
    (error,) = reader.read_raw(raw)
    assert isinstance(error, StreamError)
    assert error.code == NO_STREAM
    assert reader.split(b"more") == []


@pytest.mark.parametrize(
    "dialect", ["openai_chat", "anthropic", "gemini", "gemini_interactions", None]
)
def test_dialect_without_sequence_numbers_goes_on_with_zero(dialect: str | None) -> None:
    reader = decoder(dialect)
    reader.feed(TEXT)
    assert reader.next_sequence_number == 0


def test_sequence_numbers_are_those_of_the_dialect_that_was_found() -> None:
    created = {"type": "response.created", "sequence_number": 7, "response": {"id": "r"}}
    reader = decoder()
    assert reader.next_sequence_number == 0
    reader.feed(frame(created, "response.created"))
    assert reader.next_sequence_number == 8


@pytest.mark.parametrize("dialect", [name for name, d in DIALECTS.items() if d.framing is SSE])
def test_error_without_its_blank_line_is_read_in_every_dialect(dialect: str) -> None:
    reader = decoder(dialect)
    reader.feed(b'data: {"error":{"message":"no"}}')
    assert reader.close() == [StreamError("upstream", "no")]
    assert reader.notes == (Note("unterminated", "last frame"),)


class OneWord(Decoder):
    """A room without a rule for its end."""

    def read(self, frame: Frame, events: list[Event]) -> None:
        events.append(MessageStart(frame.data))


@pytest.mark.parametrize("rest", [b"", b"data: half"])
def test_room_without_a_rule_for_its_end_is_cut_wherever_it_ends(rest: bytes) -> None:
    reader = OneWord()
    assert reader.feed(b"data: word\n\n" + rest) == [MessageStart("word")]
    (error,) = reader.close()
    assert isinstance(error, StreamError)
    assert error.kind == "truncated"


@pytest.mark.parametrize(
    "line", ['{"choices":[]}', '\ufeffdata: {"choices":[]}', ' data: {"choices":[]}', "dat"]
)
def test_line_that_is_no_field_is_noted(line: str) -> None:
    """Its frame, if it was one, is lost to every client."""
    reader = decoder("openai_chat")
    reader.feed(TEXT + f"{line}\n\n".encode() + END + DONE)
    reader.close()
    assert reader.notes == (Note("stray_line", "frame"),)
    assert isinstance(reader.outcome, Completed)


# Progress


def test_frames_without_an_event_are_counted_with_the_pings() -> None:
    ping = frame({"type": "ping"}, "ping")
    reader = decoder("anthropic")
    reader.feed(ping + ping)
    assert (reader.frames, reader.idle_frames) == (2, 2)
    reader.feed(b": comment\n\n")
    assert (reader.frames, reader.idle_frames) == (2, 2)
    reader.feed(frame({"type": "unknown"}, "unknown") + ping)
    assert (reader.frames, reader.idle_frames) == (4, 3)
    assert not reader.lacks_only_terminal


@pytest.mark.parametrize("in_one_read", [False, True])
def test_frames_without_text_are_counted_in_and_outside_a_run(in_one_read: bool) -> None:
    empty = chunk({"content": ""})
    frames = [TEXT, empty, empty, b"data:\n\n", TEXT, empty, chunk({}), b": comment\n\n", empty]
    reader, transcoder = decoder("openai_chat"), Transcoder("openai_chat", "anthropic")
    for data in [b"".join(frames)] if in_one_read else frames:
        reader.feed(data)
        transcoder.feed(data)
    assert (reader.frames, reader.idle_frames) == (8, 6)
    assert (transcoder.frames, transcoder.progress) == (8, 2)


def test_message_whose_terminal_no_server_leaves_out_lacks_more_until_it() -> None:
    reader = decoder("openai_responses")
    reader.feed(frame({"type": "response.created", "response": {"id": "r"}}))
    assert not reader.lacks_only_terminal
