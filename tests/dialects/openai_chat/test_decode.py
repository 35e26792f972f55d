"""The Chat decoder: frames, first and last chunks, the end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.openai_chat.chunks import DONE, call, calls, chunk, content, decode, frame, message

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    Event,
    Limits,
    MessageStart,
    MessageStop,
    Note,
    Opaque,
    StreamError,
    Text,
    TextDelta,
    Truncated,
    Usage,
    UsageUpdate,
    accumulate,
)
from streamnorm.codec import decoder

END = chunk({}, "stop")
TEXT = content("hi")


def opaques(*frames: bytes) -> list[tuple[str, str]]:
    events: list[Event] = decode(*frames).events
    return [(event.name, event.data) for event in events if isinstance(event, Opaque)]


# The first chunk


def test_first_chunk_starts_the_message_with_its_unknown_fields() -> None:
    first = chunk(
        {"role": "assistant"},
        object="chat.completion.chunk",
        created=1,
        service_tier="default",
        system_fingerprint=None,
        obfuscation="xx",
        usage=None,
    )
    events = decode(first, TEXT, END, DONE).events
    assert events[0] == MessageStart("chatcmpl-1", "gpt", {"created": 1, "service_tier": "default"})


@pytest.mark.parametrize("object", ["", None, "chat.completion", "anything"])
def test_object_field_is_ignored(object: str | None) -> None:
    assert message(content("a", object=object), END, DONE).text == "a"


def test_empty_first_chunk_starts_no_message_but_its_fields_are_stored() -> None:
    azure = {"id": "", "model": "", "object": "", "created": 0, "choices": []}
    first = frame({**azure, "prompt_filter_results": [1], "system_fingerprint": ""})
    reader = decoder("openai_chat")
    assert reader.feed(first) == []
    assert reader.feed(content("a", created=5))[0] == MessageStart(
        "chatcmpl-1", "gpt", {"prompt_filter_results": [1], "created": 5}
    )


def test_fields_of_an_empty_first_chunk_count_unless_empty() -> None:
    first = frame({"id": "", "choices": [], "created": 7})
    assert decode(first, TEXT, END, DONE).events[0] == MessageStart(
        "chatcmpl-1", "gpt", {"created": 7}
    )


def test_message_without_id_and_model_starts() -> None:
    bare = frame({"choices": [{"delta": {"content": "a"}}]})
    assert decode(bare, DONE).events[:2] == [MessageStart(), BlockStart(0, Text())]


def test_numeric_message_id_becomes_its_digits() -> None:
    assert decode(content("a", id=17), DONE).events[0] == MessageStart("17", "gpt")


# The last chunks


def test_unknown_fields_of_the_last_chunks_go_to_the_stop() -> None:
    first = content("a", created=1, provider="x")
    finish = chunk({}, "stop", created=2, tier="flex", void=None)
    usage = frame(
        {"id": "chatcmpl-1", "choices": [], "usage": {"prompt_tokens": 1}, "moderation": {}}
    )
    last = decode(first, finish, usage, DONE).events[-1]
    assert last == MessageStop("end_turn", "stop", extra={"tier": "flex", "moderation": {}})


def test_field_of_the_first_chunk_is_not_stored_again_from_the_last() -> None:
    first, finish = content("a", provider="x" * 200), chunk({}, "stop", provider="y" * 200)
    decoded = decode(first, finish, DONE, limits=Limits(max_accumulated_bytes=300))
    assert decoded.outcome == Completed("end_turn", Usage())


def test_unknown_fields_of_a_finished_choice_go_to_its_stop() -> None:
    part = {"index": 1, "delta": {}, "finish_reason": "stop", "content_filter_results": {"a": 1}}
    frames = (TEXT, content("b", choice=1), END, frame({"id": "1", "choices": [part]}))
    assert decode(*frames, DONE).events[-2:] == [
        MessageStop("end_turn", "stop"),
        MessageStop("end_turn", "stop", choice=1, extra={"content_filter_results": {"a": 1}}),
    ]


def test_unknown_fields_between_the_first_and_the_last_chunk_are_dropped() -> None:
    events = decode(TEXT, content("b", padding="x"), END, DONE).events
    assert "padding" not in repr(events)


# The end


def test_frames_after_done_are_ignored() -> None:
    decoded = decode(TEXT, END, DONE, content("late"), b"data: {broken\n\n", DONE)
    assert decoded.events[-3:] == [
        *(TextDelta(0, "hi"), BlockStop(0), MessageStop("end_turn", "stop")),
    ]
    assert decoded.outcome == Completed("end_turn", Usage())


@pytest.mark.parametrize(
    "done", [b"data:[DONE]\n\n", b"data: [DONE] \n\n", b"data: [DONE]\r\n\r\n"]
)
def test_done_is_recognised_in_every_spelling(done: bytes) -> None:
    assert decode(TEXT, END, done).outcome == Completed("end_turn", Usage())


def test_missing_done_is_forgiven_if_every_choice_has_finished() -> None:
    assert decode(TEXT, END).outcome == Completed("end_turn", Usage(), ("no_done",))
    two = (TEXT, content("b", choice=1), END)
    assert isinstance(decode(*two).outcome, Truncated)
    assert decode(*two, chunk({}, "stop", 1)).outcome == Completed(
        "end_turn", Usage(), ("no_done",)
    )


def test_done_before_any_chunk_is_malformed() -> None:
    assert decode(DONE).events == [StreamError("malformed", "[DONE] before the first chunk")]
    empty = frame({"id": "", "choices": []})
    assert decode(empty, DONE).events == [StreamError("malformed", "[DONE] before the first chunk")]


def test_stream_of_usage_alone_completes() -> None:
    usage = frame(
        {"id": "chatcmpl-1", "model": "gpt", "choices": [], "usage": {"prompt_tokens": 1}}
    )
    decoded = decode(usage, DONE)
    assert decoded.events == [
        *(MessageStart("chatcmpl-1", "gpt"), UsageUpdate(Usage(1)), MessageStop("end_turn")),
    ]
    assert decoded.outcome == Completed("end_turn", Usage(1), ("no_finish",))


def test_truncation_states_the_number_of_events() -> None:
    error = decode(TEXT, TEXT).events[-1]
    message = "connection lost: the stream ended before the message was complete, after 2 events"
    assert error == StreamError("truncated", message, retryable=True)
    message = "connection lost: the stream ended before its first event"
    assert decode(b"").events == [StreamError("truncated", message, retryable=True)]


@pytest.mark.parametrize("rest", [b"data: [DONE]", b"data: [DONE]\n", b"data:[DONE]\r"])
def test_done_without_its_blank_line_is_forgiven(rest: bytes) -> None:
    decoded = decode(TEXT, END, rest)
    assert decoded.outcome == Completed("end_turn", Usage(), ("unterminated",))
    assert decoded.notes == (Note("unterminated", "last frame"),)


def test_last_chunk_without_its_blank_line_is_forgiven() -> None:
    outcome = Completed("end_turn", Usage(), ("no_done", "unterminated"))
    assert decode(TEXT, END.rstrip()).outcome == outcome
    usage = frame({"choices": [], "usage": {"prompt_tokens": 1}}).rstrip()
    assert decode(TEXT, END, usage).outcome == Completed(
        "end_turn", Usage(1), ("no_done", "unterminated")
    )


@pytest.mark.parametrize(
    "rest",
    [
        END[:-3],
        content("more").rstrip(),
        b"data: [DON",
        b"data",
        b"dat",
        b"data: 5",
        b"data:",
        b"x: y",
    ],
)
def test_half_a_frame_is_a_cut(rest: bytes) -> None:
    assert isinstance(decode(TEXT, rest).outcome, Truncated)


@pytest.mark.parametrize("rest", [b"data: [DON", b"da", b"data: {}x", b"data: 5", b'data: {"cho'])
def test_half_a_frame_after_the_finish_is_a_cut_too(rest: bytes) -> None:
    decoded = decode(TEXT, END, rest)
    assert isinstance(decoded.outcome, Truncated)
    assert decoded.events[-2] == TextDelta(0, "hi")


@pytest.mark.parametrize("rest", [b": keep-al", b"\n", b"event: x", b"id: 1"])
def test_bytes_that_are_no_data_frame_after_the_finish_are_no_cut(rest: bytes) -> None:
    assert isinstance(decode(TEXT, END, rest).outcome, Completed)


def test_stops_come_last_in_the_order_of_choices() -> None:
    frames = (content("b", choice=2), content("a", choice=1), TEXT)
    ends = (chunk({}, "stop", 2), chunk({}, "length", 1), END)
    assert decode(*frames, *ends, DONE).events[-6:] == [
        *(BlockStop(0), BlockStop(1), BlockStop(2)),
        *(MessageStop("end_turn", "stop"), MessageStop("max_tokens", "length", choice=1)),
        MessageStop("end_turn", "stop", choice=2),
    ]


def test_outcome_has_the_stop_reason_of_choice_0() -> None:
    frames = (content("x", choice=-1), TEXT, chunk({}, "length", -1), END)
    assert decode(*frames, DONE).outcome == Completed("end_turn", Usage())


# Frames that are no plain chunk


def test_two_chunks_in_one_frame_are_read_line_by_line() -> None:
    joined = (
        content("a").rstrip() + b"\n" + content("b").rstrip() + b"\n" + END.rstrip() + b"\n" + DONE
    )
    decoded = decode(joined)
    assert accumulate(decoded.events).text == "ab"
    assert decoded.outcome == Completed("end_turn", Usage())
    assert decoded.notes == (Note("joined_frames", "frame"),)


def test_lines_after_done_within_its_frame_are_ignored() -> None:
    joined = END.rstrip() + b"\n" + DONE.rstrip() + b"\n" + content("late")
    assert decode(TEXT, joined).events == decode(TEXT, END, DONE).events


def test_chunk_over_several_data_lines_is_read() -> None:
    lines = json.dumps(json.loads(content("a")[6:]), indent=1).splitlines()
    pretty = b"".join(b"data: %b\n" % line.encode() for line in lines) + b"\n"
    decoded = decode(pretty, END, DONE)
    assert accumulate(decoded.events).text == "a"
    assert decoded.notes == ()


def test_broken_line_between_two_chunks_is_malformed() -> None:
    broken = content("a").rstrip() + b"\ndata: {broken\n" + content("b")
    events = decode(broken).events
    assert events[-2:] == [TextDelta(0, "a"), StreamError("malformed", "no JSON in 7 characters")]


@pytest.mark.parametrize("blank", [b"data:\n\n", b"data:   \n\n", b"data\ndata\n\n", b": ping\n\n"])
def test_empty_frame_is_ignored(blank: bytes) -> None:
    assert decode(blank, TEXT, blank, END, blank, DONE) == decode(TEXT, END, DONE)


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ("{broken", "no JSON in 7 characters"),
        ("null", "expected `object`, got `null`"),
        ("[]", "expected `object`, got `array`"),
        ('"text"', "expected `object`, got `str`"),
        ('{"choices":5}', "expected `array | null`, got `int` - at `$.choices`"),
        ('{"choices":[{"delta":{"content":5}}]}', "expected `str | array | null`"),
    ],
)
def test_payload_that_is_no_chunk_is_malformed_and_never_quoted(payload: str, problem: str) -> None:
    error = decode(TEXT, frame(payload), DONE).events[-1]
    assert isinstance(error, StreamError)
    assert error.kind == "malformed"
    assert error.message.startswith(problem)


def test_object_without_choices_is_opaque() -> None:
    for body, name in (({"type": "ping"}, "frame"), ({"object": "ping", "id": "2"}, "ping")):
        opaque = Opaque("openai_chat", name, json.dumps(body, separators=(",", ":")))
        plain = decode(TEXT, END, DONE).events
        assert decode(frame(body), TEXT, END, DONE).events == [opaque, *plain]
        assert decode(TEXT, frame(body), END, DONE).events == [*plain[:3], opaque, *plain[3:]]


def test_chunk_without_choices_and_content_is_no_event() -> None:
    empty = frame({"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"})
    assert decode(TEXT, empty, END, DONE) == decode(TEXT, END, DONE)


def test_frame_with_an_event_name_is_opaque_under_that_name() -> None:
    named = (frame({"a": 1}, "vendor"), frame("no json", "vendor"))
    assert opaques(TEXT, *named, END, DONE) == [("vendor", '{"a":1}'), ("vendor", '"no json"')]


def test_chunk_with_an_event_name_is_read() -> None:
    assert message(b"event: chunk\n" + content("a"), content("b"), END, DONE).text == "ab"


def test_logprobs_follow_their_delta() -> None:
    part = {"index": 0, "delta": {"content": "a"}, "logprobs": {"content": [{"logprob": -0.5}]}}
    decoded = decode(frame({"id": "1", "choices": [part]}), END, DONE)
    assert decoded.events[2:4] == [
        TextDelta(0, "a"),
        Opaque("openai_chat", "logprobs", '{"content":[{"logprob":-0.5}]}', 0),
    ]


def test_nan_and_infinity_become_null() -> None:
    choice = '{"delta":{"content":"a"},"logprobs":{"x":[NaN,-Infinity]}}'
    wire = frame(f'{{"id":"chatcmpl-1","choices":[{choice}]}}')
    decoded = decode(wire, END, DONE)
    assert Opaque("openai_chat", "logprobs", '{"x":[null,null]}', 0) in decoded.events
    assert decoded.notes == (Note("unusual_json", "chunk"),)
    assert decode(wire, END, DONE, dialect=None) == decoded


@pytest.mark.parametrize("name", ["citations", "search_results", "related_questions", "images"])
def test_list_beside_the_choices_is_emitted_when_it_changes(name: str) -> None:
    def with_list(text: str, value: Any) -> bytes:
        return content(text, **{name: value})

    frames = (with_list("a", [1]), with_list("b", [1]), with_list("c", [1, 2]), with_list("d", []))
    assert opaques(*frames, END, DONE) == [(name, "[1]"), (name, "[1,2]")]


def test_replacement_characters_are_kept() -> None:
    assert message(content("\ufffd\ufffd"), END, DONE).text == "\ufffd\ufffd"
    assert message(TEXT.replace(b"hi", b"\xff\xfe"), END, DONE).text == "\ufffd\ufffd"


def test_index_in_a_string_is_read() -> None:
    wire = frame({"id": "chatcmpl-1", "choices": [{"index": "0", "delta": {"content": "a"}}]})
    decoded = decode(wire, END, DONE)
    assert accumulate(decoded.events).text == "a"
    assert decoded.notes == (Note("unusual_json", "chunk"),)


def test_empty_fields_on_further_chunks_change_nothing() -> None:
    """The delta run reads such chunks with shapes of its own."""
    for odd in ({"citations": []}, {"x_groq": {}}, {"usage": None}, {"related_questions": []}):
        frames = [content("a"), content("b"), calls(call(0, "x", "f", "[1"))]
        rest = [*(chunk({"tool_calls": [call(0, arguments=t)]}, **odd) for t in (",", "2", "]"))]
        thoughts = [chunk({"reasoning": t, "content": None}, **odd) for t in ("c", "d")]
        tail = [content(t, **odd) for t in ("e", "f")]
        plain = [
            piece.replace(b", " + json.dumps(odd)[1:-1].encode(), b"")
            for piece in rest + thoughts + tail
        ]
        assert decode(*frames, *rest, *thoughts, *tail, END, DONE) == decode(
            *frames, *plain, END, DONE
        )


def test_empty_deltas_of_an_open_block_are_no_events() -> None:
    empty = (chunk({"reasoning": ""}), content(""), calls(call(0, arguments="")))
    for first, more in (
        (content("a"), content("b")),
        (chunk({"reasoning": "a"}), chunk({"reasoning": "b"})),
        (calls(call(0, "x", "f", "[")), calls(call(0, arguments="]"))),
    ):
        with_empty = decode(first, more, *empty, more, *empty, END, DONE)
        assert with_empty == decode(first, more, more, END, DONE)


@pytest.mark.parametrize(
    ("data", "message"),
    [("busy", "busy"), ('"busy"', '"busy"'), ('{"error":{"message":"busy"},"choices":5}', "busy")],
)
def test_frame_named_error_that_is_no_chunk_is_the_error(data: str, message: str) -> None:
    assert decode(TEXT, frame(data, "error")).events[-1] == StreamError("upstream", message)


def test_frame_named_error_ends_the_stream_even_if_it_holds_a_chunk() -> None:
    events = decode(TEXT, content("more"), b"event: error\n" + content("boom"), DONE).events
    assert isinstance(events[-1], StreamError)
    assert "boom" not in accumulate(events).text


def test_notes_are_reported_as_they_happen() -> None:
    heard: list[Note] = []
    reader = decoder("openai_chat", on_note=heard.append)
    for number in range(2):
        reader.feed(calls(call(number, None, "f", "{}")))
        reader.feed(calls(call(number, None, None, '{"a":1}')))
    assert heard == [
        *(Note("minted_id", "tool call"), Note("placeholder_arguments", "tool call")),
        *(Note("minted_id", "tool call"), Note("placeholder_arguments", "tool call")),
    ]
    assert reader.notes == (
        *(Note("minted_id", "tool call", 2), Note("placeholder_arguments", "tool call", 2)),
    )
