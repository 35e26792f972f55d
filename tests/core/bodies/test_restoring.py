"""The calls of an answer under the names and kinds that the client gave its tools."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from support.draws import Draws, draws
from support.streams.event_strategies import event_streams

from streamnorm import (
    BlockStart,
    BlockStop,
    Event,
    JSONDelta,
    Limits,
    Loss,
    LossyEncoding,
    MessageStart,
    MessageStop,
    Opaque,
    Reply,
    ServerToolCall,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    accumulate,
)
from streamnorm._core.bodies.request import ToolName
from streamnorm._core.bodies.tool_calls import ToolCallRestorer
from streamnorm._core.losses import Losses
from streamnorm.validation import validate

REPLY = Reply(
    tools={
        "apply_patch": ToolName("apply_patch", is_custom=True),
        "crm__get": ToolName("get", "crm"),
        "crm__run": ToolName("run", "crm", is_custom=True),
        "a_very_long_nam_1": ToolName("a_very_long_name.with.dots"),
    }
)
START = MessageStart("m", "gpt")
STOP = MessageStop("tool_use")


class Restored:
    """What a restorer made of events."""

    def __init__(self, *frames: list[Event], **options: Any) -> None:
        self.notes: list[tuple[str, str]] = []
        self.losses = Losses(strict=options.pop("strict", False))
        restorer = ToolCallRestorer(
            REPLY, self.losses, note=lambda *note: self.notes.append(note), **options
        )
        self.events = [event for frame in frames for event in restorer.take(frame)]
        self.has_failed = restorer.has_failed


def call(index: int, name: str, *arguments: str, choice: int = 0, **fields: Any) -> list[Event]:
    start = BlockStart(index, ToolCall(f"c{index}", name, **fields), choice)
    return [start, *(JSONDelta(index, piece) for piece in arguments), BlockStop(index)]


def custom(index: int, name: str, *texts: str, choice: int = 0, **fields: Any) -> list[Event]:
    return call(index, name, *texts, choice=choice, kind="custom", **fields)


def test_call_gets_the_clients_name_and_namespace() -> None:
    frames = [START, *call(0, "crm__get", '{"t"', ":1}"), *call(1, "a_very_long_nam_1"), STOP]
    assert Restored(frames).events == [
        START,
        *call(0, "get", '{"t"', ":1}", namespace="crm"),
        *call(1, "a_very_long_name.with.dots"),
        STOP,
    ]


def test_call_of_a_wrapped_tool_becomes_a_custom_call() -> None:
    wrapped = call(0, "apply_patch", '{"in', 'put": "*** Begin \\', '"x\\"\\', "n", '"}')
    other = call(1, "crm__run", '{"input":"ls"}')
    restored = Restored([START, *wrapped, *other, STOP])
    assert restored.events == [
        START,
        *custom(0, "apply_patch", "*** Begin ", '"x"', "\n"),
        *custom(1, "run", "ls", namespace="crm"),
        STOP,
    ]
    assert (restored.notes, restored.losses.list(), restored.has_failed) == ([], (), False)


def test_interleaved_calls_are_restored_each_for_itself() -> None:
    starts: list[Event] = [
        BlockStart(0, ToolCall("a", "apply_patch")),
        BlockStart(1, ToolCall("b", "crm__get")),
        BlockStart(2, ToolCall("c", "crm__run")),
    ]
    deltas: list[Event] = [
        *(JSONDelta(2, '{"input":"l'), JSONDelta(0, '{"inpu'), JSONDelta(1, '{"t"')),
        *(JSONDelta(0, 't":"*'), JSONDelta(2, 's"'), JSONDelta(1, ":1}")),
        *(JSONDelta(0, '**"'), JSONDelta(2, "}"), JSONDelta(0, "}")),
    ]
    stops: list[Event] = [BlockStop(1), BlockStop(0), BlockStop(2)]
    events = Restored([START, *starts], *([one] for one in deltas), [*stops, STOP]).events
    assert validate(events) == []
    assert accumulate(events).blocks == (
        ToolCall("a", "apply_patch", "***", kind="custom"),
        ToolCall("b", "get", '{"t":1}', namespace="crm"),
        ToolCall("c", "run", "ls", kind="custom", namespace="crm"),
    )


def test_extra_and_choice_of_a_restored_start_stay() -> None:
    start = BlockStart(0, ToolCall("c", "crm__get"), 0, {"item_id": "fc"})
    expected = BlockStart(0, ToolCall("c", "get", namespace="crm"), 0, {"item_id": "fc"})
    assert Restored([START, start]).events == [START, expected]


def test_a_call_that_becomes_custom_has_no_item_id() -> None:
    """OpenAI refuses the id of a function call's item (`fc_…`) in a custom call's (`ctc_…`)."""
    extra = {"item_id": "fc_1", "status": "in_progress"}
    start = BlockStart(0, ToolCall("c", "apply_patch"), 0, extra)
    bare = BlockStart(1, ToolCall("d", "apply_patch"), 0, {"item_id": "fc_2"})
    assert Restored([START, start, bare]).events[1:] == [
        BlockStart(0, ToolCall("c", "apply_patch", kind="custom"), 0, {"status": "in_progress"}),
        BlockStart(1, ToolCall("d", "apply_patch", kind="custom")),
    ]
    assert extra["item_id"] == "fc_1"


def test_a_custom_call_that_stays_one_has_its_item_id() -> None:
    start = BlockStart(0, ToolCall("c", "apply_patch", kind="custom"), 0, {"item_id": "ctc_1"})
    assert Restored([START, start]).events == [START, start]


def test_everything_else_passes_unchanged() -> None:
    events: list[Event] = [
        START,
        *(BlockStart(0, Text()), TextDelta(0, '{"input":"a"}'), BlockStop(0)),
        *(BlockStart(1, ServerToolCall("s", "apply_patch")), JSONDelta(1, "{}"), BlockStop(1)),
        *call(2, "other", '{"input":"a"}'),
        # A tool of that name in a namespace of the provider's own is another one.
        *call(3, "crm__get", "{}", namespace="n"),
        Opaque("d", "x", "{}", 3),
        STOP,
    ]
    restored = Restored(events)
    assert restored.events == events
    assert all(one is other for one, other in zip(restored.events, events, strict=True))


def test_custom_call_of_a_provider_that_has_custom_tools_is_only_renamed() -> None:
    frames = [START, *custom(0, "crm__run", '{"input":"ls"}'), STOP]
    assert Restored(frames).events == [
        *(START, *custom(0, "run", '{"input":"ls"}', namespace="crm"), STOP),
    ]


def test_signature_of_a_wrapped_call_stays() -> None:
    start, delta, stop = call(0, "apply_patch", '{"input":"a"}')
    signed = SignatureDelta(0, "sig", "google")
    assert Restored([START, start, signed, delta, stop, STOP]).events == [
        *(START, custom(0, "apply_patch")[0], signed, JSONDelta(0, "a"), BlockStop(0), STOP),
    ]


# Arguments of other forms


def test_plain_text_is_passed_on_with_a_note() -> None:
    """A model that sends its patch as it is must not lose it."""
    restored = Restored([START, *call(0, "apply_patch", "*** Begin", " Patch"), STOP])
    assert restored.events == [START, *custom(0, "apply_patch", "*** Begin", " Patch"), STOP]
    assert restored.notes == [("not_wrapped", "tool call")]
    assert restored.losses.list() == ()


def test_object_without_the_text_is_passed_on_with_a_note() -> None:
    arguments = ('{"pat', 'ch":"***"}')
    restored = Restored([START, *call(0, "apply_patch", *arguments), STOP])
    assert restored.events == [START, *custom(0, "apply_patch", '{"patch":"***"}'), STOP]
    assert restored.notes == [("not_wrapped", "tool call")]


def test_other_members_are_a_loss() -> None:
    arguments = ('{"why":"x","input":"ls","n":1}', '{"input":"ls","why":{"input":2}}')
    for text in arguments:
        restored = Restored([START, *call(0, "apply_patch", text), STOP])
        assert restored.events == [START, *custom(0, "apply_patch", "ls"), STOP]
        assert restored.losses.list() == (Loss("custom_tool_members", "tool call", 1, "dropped"),)
        with pytest.raises(LossyEncoding, match="custom_tool_members in tool call"):
            Restored([START, *call(0, "apply_patch", text), STOP], strict=True)


@pytest.mark.parametrize("arguments", [(), ("{}",)])
def test_call_without_arguments_has_no_text(arguments: tuple[str, ...]) -> None:
    restored = Restored([START, *call(0, "apply_patch", *arguments), STOP])
    assert restored.events == [START, *custom(0, "apply_patch"), STOP]
    assert restored.notes == []


# Unfinished text

CUT = call(0, "apply_patch", '{"input":"*** Beg')
PROBLEM = "wrapped input of a custom call: text ends at character 17, expected more"


@pytest.mark.parametrize("reason", ["max_tokens", "refusal"])
def test_text_that_the_answer_was_cut_in_is_unfinished(reason: Any) -> None:
    restored = Restored([START, *CUT], [MessageStop(reason)])
    *rest, stop, end = restored.events
    assert rest == [START, *custom(0, "apply_patch", "*** Beg")[:-1]]
    assert (stop, end) == (BlockStop(0, is_unfinished=True), MessageStop(reason))
    assert accumulate(restored.events).blocks == (
        ToolCall("c0", "apply_patch", "*** Beg", kind="custom", is_unfinished=True),
    )


@pytest.mark.parametrize("reason", ["tool_use", "end_turn", "stop_sequence", "other", "pause"])
def test_text_without_its_end_in_a_complete_answer_is_malformed(reason: Any) -> None:
    """A client would execute it."""
    restored = Restored([START, *CUT], [MessageStop(reason)], [STOP])
    assert restored.events[-1] == StreamError("malformed", PROBLEM)
    assert restored.events[-2] == BlockStop(0, is_unfinished=True)
    assert restored.has_failed
    assert validate(restored.events) == []


def test_text_of_a_stream_that_fails_is_left_open() -> None:
    error = StreamError("truncated", "cut")
    restored = Restored([START, *CUT[:-1], error])
    assert restored.events == [START, *custom(0, "apply_patch", "*** Beg")[:-1], error]


def test_broken_text_is_malformed_where_the_answer_ends() -> None:
    broken = call(0, "apply_patch", '{"input":"a\nb"}')
    events = Restored([START, *broken, *call(1, "crm__get", "{}"), STOP]).events
    assert events[-1] == StreamError(
        "malformed",
        "wrapped input of a custom call: character 11 does not fit,"
        " expected a character of a string",
    )
    assert accumulate(events).tool_calls[1] == ToolCall("c1", "get", "{}", namespace="crm")


def test_no_choice_stops_where_another_is_malformed() -> None:
    fine = call(0, "crm__run", '{"input":"a"}')
    broken = call(1, "apply_patch", '{"input":"a', choice=1)
    stops: list[Event] = [STOP, MessageStop("tool_use", choice=1)]
    events = Restored([START, *fine, *broken], stops).events
    assert validate(events) == []
    assert isinstance(events[-1], StreamError)


def test_choice_that_was_cut_does_not_excuse_another() -> None:
    broken = call(1, "apply_patch", '{"input":"a', choice=1)
    stops: list[Event] = [MessageStop("max_tokens"), MessageStop("max_tokens", choice=1)]
    assert not Restored([START, *CUT, *broken], stops).has_failed
    stops[1] = MessageStop("tool_use", choice=1)
    assert Restored([START, *CUT, *broken], stops).has_failed


@pytest.mark.parametrize(
    ("reason", "is_unfinished"), [("max_tokens", True), ("refusal", True), ("tool_use", False)]
)
def test_plain_text_is_unfinished_where_the_answer_was_cut(
    reason: Any, *, is_unfinished: bool
) -> None:
    """It does not show its end, so that its stop waits for the reason."""
    frames = [[START, *call(0, "apply_patch", "*** Beg")], [MessageStop(reason)]]
    assert Restored(frames[0]).events == [START, *custom(0, "apply_patch", "*** Beg")[:-1]]
    assert Restored(*frames).events[-2:] == [BlockStop(0, is_unfinished), MessageStop(reason)]


def test_plain_text_before_another_block_is_whole() -> None:
    plain, other = call(0, "apply_patch", "*** Beg"), call(1, "crm__run", "*** End")
    for events in (
        [*plain, *other],
        [plain[0], other[0], plain[1], plain[2], other[1], other[2]],
        [plain[0], other[0], plain[1], other[1], other[2], plain[2]],
    ):
        restored = Restored(*([event] for event in [START, *events, MessageStop("max_tokens")]))
        assert validate(restored.events) == []
        assert [call.is_unfinished for call in accumulate(restored.events).tool_calls] == [
            *(False, True),
        ]


def test_plain_text_in_another_choice_waits_for_its_own() -> None:
    one, other = call(0, "apply_patch", "a"), call(1, "crm__run", "b", choice=1)
    stops: list[Event] = [MessageStop("tool_use"), MessageStop("max_tokens", choice=1)]
    events = Restored([START, *one, *other], stops).events
    assert events[-4:] == [BlockStop(0), stops[0], BlockStop(1, is_unfinished=True), stops[1]]


def test_plain_text_of_a_stream_that_fails_is_left_open() -> None:
    error = StreamError("truncated", "cut")
    restored = Restored([START, *call(0, "apply_patch", "*** Beg"), error])
    assert restored.events == [START, *custom(0, "apply_patch", "*** Beg")[:-1], error]


# Bounds


@pytest.mark.parametrize(("bound", "fits"), [(13, False), (14, True), (15, True)])
def test_wrapped_arguments_are_bounded_over_all_calls(bound: int, *, fits: bool) -> None:
    limits = Limits(max_accumulated_bytes=bound)
    frames = [*call(0, "apply_patch", "*" * 7), *call(1, "crm__run", "*" * 7)]
    restored = Restored([START, *frames, STOP], limits=limits)
    if fits:
        assert restored.events[-1] == STOP
    else:
        message = "wrapped arguments of 14 characters, expected at most 13"
        assert restored.events[-1] == StreamError(
            "too_large", message, code="max_accumulated_bytes"
        )
        assert restored.has_failed


def test_deep_members_are_no_object_with_text() -> None:
    text = '{"a":[[[1]]],"input":"x"}'
    restored = Restored(
        [START, *call(0, "apply_patch", text), STOP], limits=Limits(max_json_depth=3)
    )
    assert restored.events == [START, *custom(0, "apply_patch", text), STOP]


# Laws


@given(events=event_streams(failing=True))
def test_stream_without_such_calls_passes_unchanged(events: list[Event]) -> None:
    restored = Restored(*([event] for event in events))
    assert restored.events == events


@given(draws())
def test_any_cut_of_the_arguments_gives_the_same_message(d: Draws) -> None:
    """Legal, too, whatever the arguments are."""
    text = d.pick(['{"input":"', "", " {", '{"a":[1],"input":"'])
    text += d.text(0, 9, 'a\\"un\n0{}é😀') + d.pick(['"}', "", '","b":1}', "}"])
    reason: Any = d.pick(["tool_use", "max_tokens"])
    results = []
    for pieces in ([text], [*text], d.cut(text, 6)):
        deltas = call(0, "apply_patch", *(piece for piece in pieces if piece))
        restored = Restored(*([event] for event in [START, *deltas, MessageStop(reason)]))
        assert validate(restored.events) == []
        results.append((accumulate(restored.events), restored.events[-1], restored.notes))
    assert results[0] == results[1] == results[2]
