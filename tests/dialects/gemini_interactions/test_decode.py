"""The whole interaction: start, status, token counts and end."""

from __future__ import annotations

import pytest
from support.gemini.frames import frame
from support.gemini_interactions.frames import (
    CREATED,
    completed,
    decode,
    delta,
    event,
    kinds,
    start,
    step,
    stop,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    MessageStart,
    MessageStop,
    Opaque,
    StreamError,
    Text,
    TextDelta,
    Truncated,
    Usage,
    UsageUpdate,
)
from streamnorm.codec import decoder

OWN = "gemini_interactions"
HI = step("model_output", ("text", {"text": "Hi"}))
SAID = [BlockStart(0, Text()), TextDelta(0, "Hi"), BlockStop(0)]
TOKEN = {"continuation_token": "go-on"}
DONE = b"event: done\ndata: [DONE]\n\n"
CUT = StreamError(
    "truncated",
    "connection lost: the stream ended before the message was complete, after 4 events",
    retryable=True,
)


def test_interaction_is_a_message() -> None:
    got = decode(CREATED, HI, completed(), DONE)
    assert got.events == [MessageStart("v1", "m"), *SAID, MessageStop("end_turn", "completed")]
    assert got.outcome == Completed("end_turn", Usage())
    assert got.notes == ()


def test_frames_without_event_names_are_read_by_event_type() -> None:
    body = CREATED + HI + completed() + DONE
    bare = b"".join([line + b"\n" for line in body.split(b"\n") if line[:6] != b"event:"])
    assert decode(bare).events == decode(body).events


def test_event_name_replaces_a_missing_event_type() -> None:
    body = CREATED + HI + completed()
    names = [b', "event_type": "' + name + b'"' for name in (b"interaction.created",)]
    names += [b', "event_type": "step.' + word + b'"' for word in (b"start", b"delta", b"stop")]
    names += [b', "event_type": "interaction.completed"']
    bare = body
    for name in names:
        bare = bare.replace(name, b"")
    assert b"event_type" not in bare
    assert decode(bare).events == decode(body).events


def test_unknown_fields_are_kept() -> None:
    told = {"id": "v1", "model": "m", "status": "in_progress", "object": "interaction", "x": None}
    end = {"id": "v1", "status": "completed", "object": "interaction", "service_tier": "flex"}
    got = decode(
        event("interaction.created", interaction={**told, "created": "today"}, y=1),
        event("interaction.completed", interaction={**end, "created": "yesterday"}, z=2),
    )
    assert got.events == [
        MessageStart("v1", "m", {"object": "interaction", "created": "today"}),
        Opaque(OWN, "interaction.created", '{"y":1}'),
        Opaque(OWN, "interaction.completed", '{"z":2}'),
        MessageStop(
            "end_turn", "completed", extra={"service_tier": "flex", "created": "yesterday"}
        ),
    ]


def test_agent_is_named_as_the_model() -> None:
    got = decode(event("interaction.created", interaction={"agent": "a-1"}), HI, completed())
    assert got.events[0] == MessageStart("", "a-1", {"agent": "a-1"})


@pytest.mark.parametrize("word", ["start", "in_progress", "queued"])
def test_interaction_may_start_with_another_event(word: str) -> None:
    told = {"id": "v1", "status": "in_progress"}
    got = decode(event(f"interaction.{word}", interaction=told), HI, completed())
    assert got.events[0] == MessageStart("v1")
    assert got.notes == ()


def test_status_update_can_start_the_message() -> None:
    update = event(
        "interaction.status_update",
        interaction_id="v1",
        status="in_progress",
        **TOKEN,
        usage={"total_input_tokens": 3},
    )
    got = decode(update, CREATED, HI, completed())
    assert got.events == [
        MessageStart("v1"),
        UsageUpdate(Usage(3)),
        Opaque(OWN, "interaction.status_update", '{"continuation_token":"go-on"}'),
        *SAID,
        MessageStop("end_turn", "completed"),
    ]


def test_resumed_stream_has_no_start() -> None:
    got = decode(delta(4, "text", text="Hi"), stop(4), completed())
    assert got.events == [MessageStart(), *SAID, MessageStop("end_turn", "completed")]
    assert kinds(got) == {"missing_start": 1, "misplaced_delta": 1}


# Status


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("completed", "end_turn"),
        ("incomplete", "max_tokens"),
        ("budget_exceeded", "max_tokens"),
        ("requires_continuation", "pause"),
        ("requires_action", "other"),
        ("resting", "other"),
    ],
)
def test_status_is_the_reason(status: str, reason: str) -> None:
    got = decode(CREATED, HI, completed(status))
    assert got.events[-1] == MessageStop(reason, status)  # type: ignore[arg-type]  # by hand
    assert got.outcome == Completed(reason, Usage())  # type: ignore[arg-type]  # by hand


@pytest.mark.parametrize(
    ("status", "reason"),
    [("completed", "tool_use"), ("requires_action", "tool_use"), ("incomplete", "max_tokens")],
)
def test_call_without_a_result_makes_the_stop_tool_use(status: str, reason: str) -> None:
    got = decode(CREATED, step("function_call", id="c", name="f"), completed(status))
    assert got.events[-1] == MessageStop(reason, status)  # type: ignore[arg-type]  # by hand


def test_continuation_token_makes_the_stop_a_pause() -> None:
    got = decode(CREATED, HI, completed("incomplete", **TOKEN))
    assert got.events[-1] == MessageStop("pause", "incomplete", extra=TOKEN)


def test_last_event_without_a_status_is_read_by_its_name() -> None:
    assert decode(CREATED, HI, completed(None)).events[-1] == MessageStop("end_turn", "completed")
    got = decode(CREATED, HI, event("interaction.requires_continuation"))
    assert got.events[-1] == MessageStop("pause", "requires_continuation")


def test_status_update_alone_does_not_end_the_stream() -> None:
    update = event("interaction.status_update", interaction_id="v1", status="completed")
    assert decode(CREATED, HI, update, DONE).events[-1] == MessageStop("end_turn", "completed")
    got = decode(CREATED, HI, update)
    assert isinstance(got.outcome, Truncated)


def test_content_after_a_status_revokes_it() -> None:
    update = event("interaction.status_update", interaction_id="v1", status="completed")
    say = delta(0, "text", text="a")
    begun = start(0, "model_output")
    for late in (HI, b"", begun + say):
        frames = [CREATED, begun, say, update, say] if not late else [CREATED, update, late]
        assert isinstance(decode(*frames, DONE).outcome, Truncated)
        assert isinstance(decode(*frames, update, DONE).outcome, Completed)
    assert isinstance(decode(CREATED, begun, say, update, stop(0), DONE).outcome, Completed)


def test_event_of_another_interaction_is_malformed() -> None:
    message = "event of another interaction, expected the first"
    for other in (
        event("interaction.created", interaction={"id": "v2"}),
        event("interaction.status_update", interaction_id="v2", status="in_progress"),
        event("interaction.completed", interaction={"id": "v2", "status": "completed"}),
    ):
        assert decode(CREATED, HI, other).events[-1] == StreamError("malformed", message)
    bare = event("interaction.created", interaction={"id": ""})
    assert isinstance(decode(bare, HI, completed()).outcome, Completed)
    again = decode(CREATED, HI, CREATED, completed())
    assert isinstance(again.outcome, Completed)
    assert kinds(again) == {"repeated_start": 1}


@pytest.mark.parametrize(
    ("action", "status"),
    [("completed", "in_progress"), ("completed", "queued"), ("failed", "completed")],
)
def test_status_that_contradicts_its_event_is_malformed(action: str, status: str) -> None:
    got = decode(CREATED, HI, event(f"interaction.{action}", interaction={"status": status}))
    message = f"interaction.{action} with status {status!r}"
    assert got.events[-1] == StreamError("malformed", message)


def test_end_of_an_unfinished_interaction_is_truncated() -> None:
    got = decode(CREATED, HI, DONE)
    assert isinstance(got.outcome, Truncated)


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_failed_status_is_an_upstream_error(status: str) -> None:
    message = f"the interaction ended as {status!r}"
    plain = StreamError("upstream", message, status)
    update = event("interaction.status_update", interaction_id="v1", status=status)
    for end in (completed(status), event(f"interaction.{status}"), update, update + DONE):
        assert decode(CREATED, HI, end).events[-1] == plain


@pytest.mark.parametrize("field", ["error", "errors"])
def test_error_of_an_interaction_that_has_not_failed_is_unknown(field: str) -> None:
    told = {"code": 3, "message": "slow"}
    got = decode(CREATED, HI, completed(**{field: told}))
    assert got.events[-1] == MessageStop("end_turn", "completed", extra={field: told})


@pytest.mark.parametrize("field", ["error", "errors"])
def test_failed_status_has_the_message_of_the_provider(field: str) -> None:
    told = {"code": "rate_limit_exceeded", "message": "slow down"}
    error = told if field == "error" else [{}, told]
    got = decode(CREATED, completed("failed", **{field: error}))
    assert got.events[-1] == StreamError("upstream", "slow down", "rate_limit_exceeded", 429, True)


def test_error_event_ends_the_stream() -> None:
    for kind in ("error", "message"):
        told = {"error": {"code": "internal_error", "message": "no"}}
        named = f"event: {kind}\n".encode() + frame({**told, "event_type": "error"})
        got = decode(CREATED, start(0, "model_output"), delta(0, "text", text="a"), named)
        assert got.events[-1] == StreamError("upstream", "no", "internal_error", 500, True)
    bare = decode(CREATED, frame({"error": {"message": "no"}}))
    assert bare.events[-1] == StreamError("upstream", "no")


def test_error_event_may_hold_plain_text() -> None:
    got = decode(CREATED, b"event: error\ndata: overloaded\n\n")
    assert got.events[-1] == StreamError("upstream", "overloaded")


def test_empty_error_event_is_an_error() -> None:
    got = decode(CREATED, event("error"))
    assert got.events[-1] == StreamError("upstream", "", extra={"event_type": "error"})


# Counts


def test_last_reported_counts_win() -> None:
    first = {"total_input_tokens": 5, "total_tool_use_tokens": 2, "total_cached_tokens": 1}
    last = {"total_output_tokens": 4, "total_thought_tokens": 3, "total_tokens": 14}
    got = decode(
        CREATED,
        start(0, "model_output"),
        event("step.delta", index=0, delta={"text": "Hi"}, metadata={"total_usage": first, "n": 1}),
        stop(0, usage=first, step_usage={"total_tokens": 1}),
        completed(usage=last),
    )
    tools = {"toolUsePromptTokenCount": 2}
    assert got.events == [
        MessageStart("v1", "m"),
        UsageUpdate(Usage(7, cache_read_tokens=1, extra=tools)),
        Opaque(OWN, "metadata", '{"n":1}'),
        *SAID,
        Opaque(OWN, "step.stop", '{"step_usage":{"total_tokens":1}}'),
        UsageUpdate(Usage(7, 7, 1, None, 3, tools)),
        MessageStop("end_turn", "completed"),
    ]


# The end


def test_last_event_may_lack_its_blank_line() -> None:
    for end in (completed(), completed() + DONE):
        got = decode(CREATED + HI + end.rstrip())
        assert got.events[-1] == MessageStop("end_turn", "completed")
    whole = decode(CREATED + HI + completed().rstrip())
    assert whole.outcome == Completed("end_turn", Usage(), ("unterminated",))
    update = event("interaction.status_update", interaction_id="v1", status="completed")
    done = decode(CREATED + HI + update + DONE.rstrip())
    assert done.outcome == Completed("end_turn", Usage(), ("unterminated",))


@pytest.mark.parametrize(
    "rest",
    [
        b'event: interaction.completed\ndata: {"interaction":',
        b"event: step.stop\ndata: {}",
        b"data: 1",
        b'event: interaction.status_update\ndata: {"status": "completed"}',
    ],
)
def test_half_a_last_frame_is_truncated(rest: bytes) -> None:
    got = decode(CREATED + HI + rest)
    assert got.events[-1] == CUT


@pytest.mark.parametrize("type", ["interaction.complete", "interaction.failed", "error"])
def test_last_event_without_its_blank_line_may_be_named_on_its_event_line_alone(type: str) -> None:
    rest = f"event: {type}\ndata: {{}}".encode()
    assert decode(CREATED + HI + rest).events == decode(CREATED + HI + rest + b"\n\n").events
    assert decode(CREATED + HI + rest).events[-1] != CUT


def test_done_without_its_blank_line_ends_no_open_interaction() -> None:
    got = decode(CREATED + HI + DONE.rstrip())
    assert got.events[-1] == CUT
    assert kinds(got) == {"unterminated": 1}


@pytest.mark.parametrize("rest", [b"", b": c", b"data: 1"])
def test_failed_status_alone_fails_at_the_end(rest: bytes) -> None:
    update = event("interaction.status_update", interaction_id="v1", status="failed")
    (error,) = decode(CREATED + HI + update + rest).events[4:]
    failed = StreamError("upstream", "the interaction ended as 'failed'", "failed")
    if rest.startswith(b"data"):
        assert isinstance(error, StreamError)
        assert error.kind == "truncated"
    else:
        assert error == failed


@pytest.mark.parametrize("rest", [b"", completed().rstrip()])
def test_error_printed_before_the_end_fails_the_interaction(rest: bytes) -> None:
    printed = b'{\n "error": {"message": "no"}\n}\n'
    for name in (OWN, "gemini"):
        source = decoder(name)
        source.feed(CREATED + HI + printed + rest)
        assert source.close() == [StreamError("upstream", "no")]


def test_error_in_an_unterminated_frame_is_reported() -> None:
    for rest in (event("error", error={"message": "no"}), frame({"error": {"message": "no"}})):
        assert decode(CREATED + rest.rstrip()).events[-1] == StreamError("upstream", "no")


def test_steps_of_the_last_event_alone_are_read() -> None:
    steps = [
        {"type": "function_call", "id": "c", "name": "f", "arguments": {"a": 1.50}},
        {"type": "model_output", "content": [{"type": "text", "text": "Hi"}]},
        None,
    ]
    end = completed("requires_action", steps=steps).replace(b"1.5}", b"1.50}")
    got = decode(CREATED, end)
    assert [getattr(event, "partial_json", None) for event in got.events].count('{"a": 1.50}') == 1
    assert TextDelta(1, "Hi") in got.events
    assert decode(CREATED, HI, end).events[1:4] == SAID
    assert decode(CREATED, completed(outputs=[{"type": "text", "text": "Hi"}])).events[1:4] == SAID
    assert decode(CREATED, completed(steps=1)).events[1:-1] == []


@pytest.mark.parametrize("name", ["usage", "total_usage"])
def test_metadata_of_a_delta_counts_the_whole_interaction(name: str) -> None:
    counts = {"total_input_tokens": 11, "total_output_tokens": 37, "total_thought_tokens": 126}
    counted = event(
        "step.delta", index=0, delta={"type": "text", "text": "Hi"}, metadata={name: counts}
    )
    found = decode(CREATED, start(0, "model_output"), counted, stop(0), completed())
    assert found.events[1:-1] == [
        UsageUpdate(Usage(11, 163, reasoning_tokens=126)),
        BlockStart(0, Text()),
        TextDelta(0, "Hi"),
        BlockStop(0),
    ]


def test_metadata_without_unknown_fields_is_no_event() -> None:
    told = event("interaction.status_update", metadata={"total_usage": {"total_input_tokens": 3}})
    events = decode(CREATED, told, HI, completed()).events
    assert events[1] == UsageUpdate(Usage(3))
    assert not any(isinstance(one, Opaque) for one in events)


def test_counts_of_tools_are_part_of_the_input() -> None:
    told = {"total_input_tokens": 3, "total_tool_use_tokens": 2, "total_tokens": 9, "x": 1}
    events = decode(CREATED, HI, completed(usage=told)).events
    extra = {"x": 1, "toolUsePromptTokenCount": 2, "totalTokenCount": 9}
    assert events[-2] == UsageUpdate(Usage(5, extra=extra))


def test_usage_beside_a_delta_is_read_amid_others() -> None:
    plain = {"index": 0, "delta": {"type": "text", "text": "a"}}
    counted = event("step.delta", **plain, metadata={"total_usage": {"total_input_tokens": 3}})
    say = event("step.delta", **plain)
    frames = [start(0, "model_output"), say, say, counted, say, stop(0)]
    got = decode(CREATED, *frames, completed()).events
    assert got.count(TextDelta(0, "a")) == 4
    assert UsageUpdate(Usage(3)) in got
