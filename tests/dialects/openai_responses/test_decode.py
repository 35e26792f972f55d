"""Frames, sequence numbers, start and end of the response, cut streams."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.openai_chat.chunks import frame
from support.openai_responses.frames import (
    DONE,
    START,
    added,
    completed,
    decode,
    event,
    messages,
    part,
    text,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    Failed,
    MessageStart,
    MessageStop,
    Note,
    Opaque,
    Ping,
    StreamError,
    Text,
    TextDelta,
    Truncated,
    Usage,
)
from streamnorm._core.errors import LocalProtocolError
from streamnorm.dialects.openai_responses.decode import ResponsesDecoder
from streamnorm.sse import Frame

MESSAGE_START = MessageStart("resp_1", "gpt")
STOP = MessageStop("end_turn", "completed")
ITEM = added(0, "message", **messages())
HELLO = [BlockStart(0, Text(), extra={"item_id": "msg_1"}), TextDelta(0, "Hi"), BlockStop(0)]


def whole(*between: bytes) -> tuple[bytes, ...]:
    end = completed({"type": "message", **messages(part("Hi"))})
    return (START, ITEM, *between, text("Hi"), end)


# The start


@pytest.mark.parametrize("name", ["created", "queued", "in_progress", "completed"])
def test_message_starts_with_the_first_response(name: str) -> None:
    response = {"id": "r", "model": "m", "tools": [], "user": None, "status": "", "output": []}
    frames = [event(f"response.{name}", response=response), START, completed()]
    assert decode(*frames).events[0] == MessageStart("r", "m", {"tools": []})


def test_later_snapshots_emit_nothing() -> None:
    progress = event("response.in_progress", response={"id": "resp_1", "model": "other"})
    assert decode(START, progress, START, completed()).events == [MESSAGE_START, STOP]
    assert decode(START, progress, START, completed()).notes == (
        Note("repeated_start", "response", 1),
    )


def test_id_that_changes_before_the_first_item_is_a_note() -> None:
    """GitHub Copilot gives each event another id."""
    progress, end = event("response.in_progress", response={"id": "b"}), completed()
    decoded = decode(START, progress, ITEM, text("Hi", item_id="x"), end.replace(b"resp_1", b"c"))
    assert decoded.events == [MESSAGE_START, *HELLO, STOP]
    assert Note("unstable_ids", "response", 1) in decoded.notes


@pytest.mark.parametrize("name", ["created", "in_progress", "completed"])
def test_id_that_changes_after_the_first_item_is_malformed(name: str) -> None:
    """A second answer was spliced in."""
    error = f"response.{name} with another id, expected that of the response"
    other = event(f"response.{name}", response={"id": "resp_2"})
    assert decode(START, ITEM, other).events[-1] == StreamError("malformed", error)


def test_id_may_come_after_the_start() -> None:
    start = event("response.created", response={})
    progress = event("response.in_progress", response={"id": "resp_1"})
    assert decode(start, progress, ITEM, text("Hi"), completed()).notes == (
        Note("missing_item_done", "message", 1),
    )


def test_second_start_after_an_item_is_malformed() -> None:
    error = "second response.created after an item, expected one"
    assert decode(START, ITEM, START).events[-1] == StreamError("malformed", error)


def test_second_response_is_malformed() -> None:
    other = event("response.created", response={"id": "resp_2"})
    error = StreamError(
        "malformed", "response.created with another id, expected that of the response"
    )
    assert decode(START, other).events == [MESSAGE_START, error]


def test_stream_may_start_within_the_response() -> None:
    """A resumed stream does."""
    decoded = decode(text("Hi", item_id="msg_1"), completed())
    assert decoded.events == [MessageStart(), *HELLO, STOP]
    assert Note("missing_start", "response", 1) in decoded.notes


def test_events_without_an_item_do_not_start_the_message() -> None:
    assert decode(event("keepalive"), event("vendor:x"), START, completed()).events == [
        *(
            Ping(),
            Opaque("openai_responses", "vendor:x", '{"type":"vendor:x"}'),
            MESSAGE_START,
            STOP,
        )
    ]


@pytest.mark.parametrize("response", [{}, {"response": 3}])
def test_response_may_be_missing(response: dict[str, Any]) -> None:
    decoded = decode(event("response.created", **response), event("response.completed", **response))
    assert decoded.events == [MessageStart(), STOP]
    assert [note.kind for note in decoded.notes] == ["missing_response"] * 2


# The end


def test_new_fields_of_the_last_response_are_extra() -> None:
    start = event("response.created", response={"id": "resp_1", "tier": "auto", "tools": []})
    end = completed(tier="fast", tools=[], completed_at=3, x=None)
    end = end.replace(b'{"type"', b'{"copilot_usage": 1, "obfuscation": "o", "type"')
    stop = decode(start, end).events[-1]
    extra = {"model": "gpt", "tier": "fast", "completed_at": 3, "copilot_usage": 1}
    del extra["model"]
    assert stop == MessageStop("end_turn", "completed", extra=extra)


@pytest.mark.parametrize("between", [DONE, b": keepalive\n\n", b"data:\n\n", b"data: \n\n"])
def test_extra_frames_of_compatible_servers_are_ignored(between: bytes) -> None:
    assert decode(*whole(between)).events == [MESSAGE_START, *HELLO, STOP]


@pytest.mark.parametrize("name", ["response.steer.failed", "codex.rate_limits"])
def test_error_of_a_connection_does_not_end_the_response(name: str) -> None:
    error = {"type": "invalid_request_error", "code": "too_late", "message": "No."}
    decoded = decode(*whole(event(name, error=error)))
    assert [each for each in decoded.events if not isinstance(each, Opaque)] == [
        MESSAGE_START,
        *HELLO,
        STOP,
    ]
    (other,) = [each for each in decoded.events if isinstance(each, Opaque)]
    assert other.name == name
    assert json.loads(other.data)["error"] == error


def test_frames_after_the_terminal_are_ignored() -> None:
    decoded = decode(*whole(), DONE, event("error", message="late"), b"data: {\n\n")
    assert decoded.events == [MESSAGE_START, *HELLO, STOP]
    assert decoded.outcome == Completed("end_turn", Usage())


@pytest.mark.parametrize("count", range(4))
def test_stream_without_its_terminal_is_cut(count: int) -> None:
    decoded = decode(*whole()[:count], DONE)
    assert isinstance(decoded.outcome, Truncated)
    assert [type(event) for event in decoded.events].count(StreamError) == 1


def test_terminal_without_its_blank_line_ends_the_stream() -> None:
    *rest, last = whole()
    decoded = decode(*rest, last.rstrip())
    assert decoded.events == [MESSAGE_START, *HELLO, STOP]
    assert decoded.outcome == Completed("end_turn", Usage(), ("unterminated",))


@pytest.mark.parametrize("last", [text("!").rstrip(), completed()[:-9], b"data: [DONE]", b"data"])
def test_other_event_without_its_blank_line_is_a_cut(last: bytes) -> None:
    assert isinstance(decode(START, ITEM, text("Hi"), last).outcome, Truncated)


def test_unknown_event_without_its_blank_line_is_a_cut() -> None:
    decoded = decode(START, event("vendor:x", detail="y").rstrip())
    assert isinstance(decoded.outcome, Truncated)


def test_error_without_its_blank_line_is_an_error() -> None:
    last = event("error", message="no", code="server_error").rstrip()
    expected = StreamError("upstream", "no", "server_error", 500, True)
    assert decode(START, last).outcome == Failed(expected)


def test_failed_source_is_a_transport_error() -> None:
    reader = ResponsesDecoder()
    reader.feed(b"".join(whole()[:-1]))
    assert [event.kind for event in reader.abort(OSError()) if isinstance(event, StreamError)] == [
        "transport"
    ]
    with pytest.raises(LocalProtocolError):
        reader.feed(b"")


# Frames


def test_event_line_may_be_missing_or_wrong() -> None:
    plain = [frame.partition(b"\n")[2] for frame in whole()]
    decoded = decode(*plain)
    assert decoded.events == [MESSAGE_START, *HELLO, STOP]
    notes = [(note.kind, note.count) for note in decoded.notes]
    assert notes == [("no_event_line", 4), ("missing_item_done", 1)]
    wrong = [b"event: response.refusal.delta\n" + frame for frame in plain]
    decoded = decode(*wrong)
    assert decoded.events == [MESSAGE_START, *HELLO, STOP]
    assert ("wrong_event_line", 4) in [(note.kind, note.count) for note in decoded.notes]


def test_event_line_alone_may_state_the_type() -> None:
    plain = [frame.replace(b'{"type": "response', b'{"obfuscation": "') for frame in whole()]
    assert decode(*plain).events == [MESSAGE_START, *HELLO, STOP]
    failed = completed(status="failed").replace(b'{"type": "response', b'{"_": "')
    assert decode(START, failed).events[-1] == StreamError("upstream", "response failed", "failed")


def test_events_without_a_blank_line_between_are_read() -> None:
    joined = b"".join(b"data: " + each.partition(b"data: ")[2].strip() + b"\n" for each in whole())
    decoded = decode(joined + b"\n")
    assert decoded.events == [MESSAGE_START, *HELLO, STOP]
    assert Note("joined_frames", "frame", 1) in decoded.notes


def test_joined_frames_after_the_terminal_are_ignored() -> None:
    lines = [b"data: " + each.partition(b"data: ")[2].strip() for each in (*whole(), ITEM)]
    decoded = decode(b"\n".join(lines) + b"\n\n")
    assert decoded.events == [MESSAGE_START, *HELLO, STOP]


def test_payload_that_is_no_object_is_opaque() -> None:
    decoded = decode(START, frame("[1, 2]", "vendor"), frame("words", "vendor"), completed())
    assert decoded.events[1:-1] == [
        Opaque("openai_responses", "vendor", "[1,2]"),
        Opaque("openai_responses", "vendor", '"words"'),
    ]


@pytest.mark.parametrize("name", [None, "response.completed", "response.output_text.delta"])
def test_payload_that_is_no_json_is_malformed(name: str | None) -> None:
    error = StreamError("malformed", "no JSON in 5 characters")
    assert decode(START, frame("{oops", name)).events[-1] == error


@pytest.mark.parametrize("name", ["keepalive", "ping", "response.keep_alive"])
def test_keepalive_events_are_pings(name: str) -> None:
    assert decode(*whole(event(name))).events[1] == Ping()


# Numbers of events


def numbered(*numbers: object) -> list[bytes]:
    return [text("a", sequence_number=number) for number in numbers]


def test_resent_delta_is_dropped() -> None:
    decoded = decode(START, ITEM, *numbered(1, 2, 2, 3), completed())
    assert decoded.events.count(TextDelta(0, "a")) == 3
    assert Note("resent_event", "frame", 1) in decoded.notes
    assert "gap" not in [note.kind for note in decoded.notes]


def test_resent_event_of_any_type_is_dropped() -> None:
    again = event("vendor:x", sequence_number=4)
    assert len(decode(START, again, again, completed()).events) == 3


def test_gap_is_a_note() -> None:
    decoded = decode(START, ITEM, *numbered(1, 3), completed())
    assert decoded.events.count(TextDelta(0, "a")) == 2
    assert Note("gap", "sequence_number", 1) in decoded.notes


@pytest.mark.parametrize("numbers", [(3, 2), (5, 0), (0, 1, 2, 1), (0, 0, 1, 0), (4, -1)])
def test_lower_sequence_number_is_malformed(numbers: tuple[int, ...]) -> None:
    frames = [text(f"a{at}", sequence_number=number) for at, number in enumerate(numbers)]
    last, highest = numbers[-1], max(numbers)
    message = f"sequence number {last} after {highest}, expected a higher one"
    assert decode(START, ITEM, *frames).events[-1] == StreamError("malformed", message)


def test_sequence_number_of_another_event_is_malformed() -> None:
    frames = [text(f"a{at}", sequence_number=number) for at, number in enumerate((0, 1, 1))]
    message = "sequence number 1 after 1, expected a higher one"
    assert decode(START, ITEM, *frames).events[-1] == StreamError("malformed", message)


def test_keepalive_may_have_the_number_of_the_event_before() -> None:
    ping = event("keepalive", sequence_number=2)
    decoded = decode(START, ITEM, *numbered(1, 2), ping, ping, *numbered(3), completed())
    assert decoded.events.count(Ping()) == 2
    assert decoded.events.count(TextDelta(0, "a")) == 3
    assert [note.kind for note in decoded.notes] == ["missing_item_done"]  # of `ITEM`


def test_constant_sequence_number_may_begin_to_count() -> None:
    first = event("vendor:x", sequence_number=0)
    decoded = decode(START, ITEM, first, *numbered(0, 0, 1, 1), completed())
    assert decoded.events.count(TextDelta(0, "a")) == 3
    assert Note("resent_event", "frame", 1) in decoded.notes


@pytest.mark.parametrize("first", [0, 2, 7])
def test_first_sequence_number_is_arbitrary(first: int) -> None:
    decoded = decode(START, ITEM, *numbered(first, first + 1), completed())
    assert "gap" not in [note.kind for note in decoded.notes]


@pytest.mark.parametrize("number", [None, "4", 0.5, True])
def test_sequence_number_that_is_no_integer_is_ignored(number: object) -> None:
    decoded = decode(START, ITEM, *numbered(number, number), completed())
    assert decoded.events.count(TextDelta(0, "a")) == 2
    assert {note.kind for note in decoded.notes} == {"missing_item_done"}


def test_constant_sequence_number_is_ignored() -> None:
    first = event("vendor:x", sequence_number=0)
    decoded = decode(START, ITEM, first, *numbered(0, 0, 0), completed())
    assert decoded.events.count(TextDelta(0, "a")) == 3
    assert {note.kind for note in decoded.notes} == {"missing_item_done"}


def test_frames_may_be_fed_directly() -> None:
    reader = ResponsesDecoder()
    events = reader.feed_frame(Frame("message", '{"type":"response.created","response":{}}'))
    assert events == [MessageStart()]
