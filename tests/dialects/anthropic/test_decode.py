"""The decoder: frames, the start and the end of the message, cut streams."""

from __future__ import annotations

import pytest
from support.anthropic.frames import STOP, block, decode, delta, end, event, start, stop, text
from support.openai_chat.chunks import frame

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    Failed,
    MessageStart,
    MessageStop,
    Note,
    Ping,
    StreamError,
    Text,
    TextDelta,
    Truncated,
    Usage,
    UsageUpdate,
)
from streamnorm.codec import decoder
from streamnorm.sse import Frame

HELLO = [BlockStart(0, Text()), TextDelta(0, "Hello"), BlockStop(0)]
BEGUN = MessageStart("msg_1", "claude-1")


def test_text_stream_is_decoded() -> None:
    decoded = decode(
        start(usage={"input_tokens": 9, "output_tokens": 1}),
        event("ping"),
        block(0, "text", text=""),
        *(delta(0, "text_delta", text="Hel"), delta(0, "text_delta", text="lo"), stop(0)),
        end("end_turn", usage={"output_tokens": 4}),
        STOP,
    )
    assert decoded.events == [
        *(BEGUN, UsageUpdate(Usage(9, 1)), Ping(), BlockStart(0, Text())),
        *(TextDelta(0, "Hel"), TextDelta(0, "lo"), BlockStop(0)),
        *(UsageUpdate(Usage(9, 4)), MessageStop("end_turn", "end_turn")),
    ]
    assert decoded.outcome == Completed("end_turn", Usage(9, 4))
    assert decoded.notes == ()


# message_start


def test_unknown_fields_of_the_message_are_extra() -> None:
    fields = {"container": {"id": "c"}, "diagnostics": None, "context_management": {"edits": []}}
    assert decode(start(**fields), end(), STOP).events[0] == MessageStart(
        "msg_1", "claude-1", {"container": {"id": "c"}, "context_management": {"edits": []}}
    )


def test_message_may_lack_every_field() -> None:
    bare = event("message_start", message={})
    assert decode(bare, end(), STOP).events[0] == MessageStart("", "")
    odd = event("message_start", message={"id": 7, "model": None, "content": None, "usage": []})
    assert decode(odd, end(), STOP).events[0] == MessageStart("", "")


def test_message_start_may_contain_the_whole_answer() -> None:
    """As the API answers a programmatic call: no blocks, no `message_delta`."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {"q": 1}}
    content = ["noise", {"type": "text", "text": "Hello"}, call]
    whole = start(content=content, stop_reason="tool_use", stop_sequence=None)
    decoded = decode(whole, STOP)
    assert [type(e).__name__ for e in decoded.events] == [
        *("MessageStart", "BlockStart", "TextDelta", "BlockStop"),
        *("BlockStart", "JSONDelta", "BlockStop", "MessageStop"),
    ]
    assert decoded.events[-1] == MessageStop("tool_use", "tool_use")
    assert decoded.outcome == Completed("tool_use", Usage())


def test_message_delta_replaces_the_stop_reason_of_message_start() -> None:
    content = [{"type": "text", "text": "Hello"}]
    given = {"stop_reason": "end_turn", "stop_sequence": "A", "stop_details": {"type": "x"}}
    begun = start(content=content, **given)
    events = decode(begun, STOP).events
    assert events[-1] == MessageStop(
        "end_turn", "end_turn", "A", extra={"stop_details": {"type": "x"}}
    )
    late = event("message_delta", delta={"stop_reason": "stop_sequence", "stop_sequence": "B"})
    assert decode(begun, late, STOP).events[-1] == MessageStop(
        "stop_sequence", "stop_sequence", "B", extra={"stop_details": {"type": "x"}}
    )


def test_repeated_message_start_is_a_note() -> None:
    decoded = decode(start(), start(), text(0, "Hello"), start(), end(), STOP)
    assert decoded.events == [BEGUN, *HELLO, MessageStop("end_turn", "end_turn")]
    assert decoded.notes == (Note("repeated_message_start", "message", 2),)


def test_second_message_is_malformed() -> None:
    decoded = decode(start(), text(0, "Hello"), start(id="msg_2"), end(), STOP)
    message = "second message_start with another id, expected one message"
    assert decoded.events[-1] == StreamError("malformed", message)
    assert isinstance(decoded.outcome, Failed)


@pytest.mark.parametrize(
    ("first", "problem"),
    [
        (
            block(0, "text", text=""),
            "content_block_start before message_start, expected that first",
        ),
        (delta(0, "text_delta", text="a"), "block before message_start, expected that first"),
        (
            delta(0, "signature_delta"),
            "content_block_delta before message_start, expected that first",
        ),
        (stop(0), "content_block_stop before message_start, expected that first"),
        (end(), "message_delta before message_start, expected that first"),
        (STOP, "message_stop before message_start, expected that first"),
        (event("message_start"), "message_start without a message, expected one"),
        (event("message_start", message=[]), "message_start without a message, expected one"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else value,
)
def test_event_before_message_start_is_malformed(first: bytes, problem: str) -> None:
    decoded = decode(event("ping"), event("news"), first, start(), end(), STOP)
    assert decoded.events[0] == Ping()
    assert decoded.events[2:] == [StreamError("malformed", problem)]


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ({}, "content_block_start without a block"),
        ({"content_block": "text"}, "content_block_start without a block"),
        ({"content_block": {}}, "content block without a type"),
    ],
)
def test_unreadable_block_start_is_malformed(payload: dict[str, object], problem: str) -> None:
    decoded = decode(start(), event("content_block_start", index=0, **payload))
    assert decoded.events == [BEGUN, StreamError("malformed", f"{problem}, expected one")]


# The end


def test_unknown_fields_of_the_end_are_extra() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": None}
    last = event(
        "message_delta",
        delta={"stop_reason": "refusal", "stop_sequence": None, "stop_details": details},
        usage={"output_tokens": 4},
        context_management={"applied_edits": []},
        input_transformations=None,
    )
    metrics = {"inputTokenCount": 3}
    stopped = event("message_stop", **{"amazon-bedrock-invocationMetrics": metrics})
    assert decode(start(), last, stopped).events[-1] == MessageStop(
        "refusal",
        "refusal",
        extra={
            "stop_details": details,
            "context_management": {"applied_edits": []},
            "amazon-bedrock-invocationMetrics": metrics,
        },
    )


def test_message_stop_without_a_stop_reason_completes_leniently() -> None:
    for last in (b"", event("message_delta"), end(None), event("message_delta", delta=[])):
        decoded = decode(start(), text(0, "Hello"), last, STOP)
        assert decoded.events[-1] == MessageStop("end_turn")
        assert decoded.outcome == Completed("end_turn", Usage(), ("no_finish",))


def test_nothing_follows_message_stop() -> None:
    reader = decoder("anthropic")
    body = b"".join([start(), end(), STOP, text(0, "more"), event("error", error={})])
    assert reader.feed(body)[-1] == MessageStop("end_turn", "end_turn")
    assert reader.feed(body) == reader.close() == []


def test_source_may_end_after_a_stop_reason_without_message_stop() -> None:
    decoded = decode(start(), text(0, "Hello"), end("max_tokens"))
    assert decoded.events[-1] == MessageStop("max_tokens", "max_tokens")
    assert decoded.outcome == Completed("max_tokens", Usage(), ("no_message_stop",))


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [start()],
        [start(), text(0, "Hello")],
        [start(), block(0, "text", text=""), delta(0, "text_delta", text="Hello"), end()],
        [start(), text(0, "Hello"), end(None)],
    ],
    ids=["nothing", "start", "block", "open block", "no reason"],
)
def test_source_that_ends_without_a_stop_reason_or_in_a_block_is_truncated(
    frames: list[bytes],
) -> None:
    decoded = decode(*frames)
    assert isinstance(decoded.outcome, Truncated)
    assert not any(isinstance(event, MessageStop) for event in decoded.events)


@pytest.mark.parametrize("size", [1, 2])
def test_terminal_may_lack_its_blank_line(size: int) -> None:
    decoded = decode(start(), text(0, "Hello"), end(), STOP[:-size])
    assert decoded.events[-1] == MessageStop("end_turn", "end_turn")
    assert decoded.outcome == Completed("end_turn", Usage(), ("unterminated",))
    assert decoded.notes == (Note("unterminated", "last frame"),)
    decoded = decode(start(), text(0, "Hello"), end()[:-size])
    lenient = ("no_message_stop", "unterminated")
    assert decoded.outcome == Completed("end_turn", Usage(), lenient)
    error = event("error", error={"type": "overloaded_error", "message": "no"})
    assert decode(start(), error[:-size]).events[-1] == StreamError(
        "upstream", "no", "overloaded_error", 529, True
    )


@pytest.mark.parametrize("rest", [STOP[:-3], b"event: message_stop\ndata", b"even"])
def test_stream_that_ends_in_half_a_terminal_is_truncated(rest: bytes) -> None:
    decoded = decode(start(), text(0, "Hello"), end(), rest)
    assert isinstance(decoded.outcome, Truncated)


def test_event_line_without_data_is_ignored_at_the_end() -> None:
    decoded = decode(start(), text(0, "Hello"), end(), b"event: message_stop\n")
    assert decoded.outcome == Completed("end_turn", Usage(), ("no_message_stop",))


def test_stream_that_ends_in_another_event_is_truncated() -> None:
    decoded = decode(start(), text(0, "Hello"), event("ping").rstrip())
    assert isinstance(decoded.outcome, Truncated)


# Frames


def test_missing_or_wrong_event_line_is_a_note() -> None:
    frames = [start(), text(0, "Hello"), end(), STOP]
    plain = decode(*frames)
    nameless = [piece.replace(b"event: message", b"event: x-message") for piece in frames]
    assert decode(*nameless).events == plain.events
    for name, kind in [(b"event: chunk\n", "wrong_event_line"), (b"", "no_event_line")]:
        lines = b"".join(frames).split(b"\n")
        body = b"\n".join(line for line in lines if not line.startswith(b"event:"))
        decoded = decode(body.replace(b"data:", name + b"data:"))
        assert decoded.events == plain.events
        assert decoded.notes == (Note(kind, "frame", 6),)


def test_ping_is_known_by_type_or_event_line() -> None:
    pings = [event("ping"), frame({"type": "ping"}), frame({}, "ping"), frame([], "ping")]
    events = decode(*pings, start(), *pings, end(), STOP).events
    assert events == [*[Ping()] * 4, BEGUN, *[Ping()] * 4, MessageStop("end_turn", "end_turn")]


def test_done_of_chat_completions_is_a_note() -> None:
    done = b"data: [DONE]\n\n"
    decoded = decode(start(), done, text(0, "Hello"), end(), done, STOP)
    assert decoded.events == [BEGUN, *HELLO, MessageStop("end_turn", "end_turn")]
    assert decoded.notes == (Note("stray_done", "frame", 2),)
    assert isinstance(decode(start(), done).outcome, Truncated)


def test_frame_without_data_is_ignored() -> None:
    blank = [b"data:\n\n", b"data:  \n\n", b"event: content_block_delta\n\n", b": ping\n\n"]
    assert decode(start(), *blank, text(0, "Hello"), *blank, end(), STOP).events == [
        *(BEGUN, *HELLO, MessageStop("end_turn", "end_turn")),
    ]


def test_joined_events_are_read_line_by_line() -> None:
    joined = b"\n".join(
        line
        for piece in (start(), text(0, "Hello"), end(), STOP)
        for line in piece.split(b"\n")
        if line.startswith(b"data:")
    )
    decoded = decode(joined + b"\ndata: {}\n\n")  # nothing is read behind the end
    assert decoded.events == [BEGUN, *HELLO, MessageStop("end_turn", "end_turn")]
    assert Note("joined_frames", "frame") in decoded.notes


@pytest.mark.parametrize("data", ["{", '{"type":"content_block_delta"', "null and void"])
@pytest.mark.parametrize("name", [None, "content_block_delta"])
def test_payload_that_is_no_json_is_malformed(data: str, name: str | None) -> None:
    decoded = decode(start(), frame(data, name))
    assert decoded.events == [BEGUN, StreamError("malformed", f"no JSON in {len(data)} characters")]


def test_feed_frame_accepts_parsed_frames() -> None:
    reader = decoder("anthropic")
    events = []
    for piece in (
        *(start(), block(0, "text", text=""), delta(0, "text_delta", text="Hel")),
        *(delta(0, "text_delta", text="lo"), stop(0), STOP),
    ):
        name, data = piece.decode().rstrip().split("\n")
        events += reader.feed_frame(Frame(name.removeprefix("event: "), data[6:]))
    assert events[-1] == MessageStop("end_turn")
    assert events[2:4] == [TextDelta(0, "Hel"), TextDelta(0, "lo")]


def test_message_with_a_stop_reason_lacks_only_its_terminal() -> None:
    reader = decoder("anthropic")
    for data, lacks_only_terminal in [
        (start(), False),
        (text(0, "Hello"), False),
        (end(), True),
        (event("ping"), True),
    ]:
        reader.feed(data)
        assert reader.lacks_only_terminal is lacks_only_terminal
