"""Function calls and custom tool calls."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_chat.chunks import anonymous
from support.openai_responses.frames import (
    START,
    added,
    args,
    body,
    call,
    completed,
    decode,
    delta,
    done,
    event,
)

from streamnorm import BlockStart, BlockStop, JSONDelta, MessageStop, Note, StreamError, ToolCall

ITEM_ADDED = added(0, "function_call", **call())
STARTED = BlockStart(0, ToolCall("call_1", "f"), extra={"item_id": "fc_1"})
ALL = "response.function_call_arguments.done"


def test_argument_deltas_pass_unchanged() -> None:
    frames = [ITEM_ADDED, args('{"a"'), args(":1} "), done(0, "function_call", **call('{"a":1} '))]
    assert body(*frames) == [*(STARTED, JSONDelta(0, '{"a"'), JSONDelta(0, ":1} "), BlockStop(0))]


@pytest.mark.parametrize(
    "end",
    [
        event(ALL, output_index=0, arguments='{"a":1}'),
        done(0, "function_call", **call('{"a":1}')),
        completed({"type": "function_call", **call('{"a":1}')}),
    ],
)
@pytest.mark.parametrize(("pieces", "rest"), [((), '{"a":1}'), (('{"a"',), ":1}")])
def test_each_done_event_adds_what_no_delta_carried(
    end: bytes, pieces: tuple[str, ...], rest: str
) -> None:
    events = decode(START, ITEM_ADDED, *map(args, pieces), end, completed()).events
    deltas = [JSONDelta(0, piece) for piece in (*pieces, rest)]
    assert events[1:-1] == [STARTED, *deltas, BlockStop(0)]


def test_complete_arguments_that_contradict_the_deltas_are_a_note() -> None:
    frames = [ITEM_ADDED, args('{"a":1}'), done(0, "function_call", **call('{"a": 1}'))]
    decoded = decode(START, *frames, completed())
    assert decoded.events[1:-1] == [STARTED, JSONDelta(0, '{"a":1}'), BlockStop(0)]
    assert decoded.notes == (Note("resent_arguments", "ToolCall", 1),)


def test_call_without_deltas_is_emitted_whole() -> None:
    whole = [STARTED, JSONDelta(0, "{}"), BlockStop(0)]
    assert body(done(0, "function_call", **call("{}"))) == whole


def test_call_that_is_never_done_has_the_arguments_of_its_start() -> None:
    decoded = decode(START, added(0, "function_call", **call("{}")), completed())
    assert decoded.events[1:-1] == [STARTED, JSONDelta(0, "{}"), BlockStop(0)]
    assert decoded.notes == (Note("missing_item_done", "function_call", 1),)


def test_call_that_is_never_done_has_its_deltas() -> None:
    assert body(added(0, "function_call", **call("{}")), args("{")) == [
        *(STARTED, JSONDelta(0, "{"), BlockStop(0))
    ]


def test_unmapped_fields_are_extra() -> None:
    more = {"namespace": "n", "caller": {"type": "direct"}, "async": True, "x": None}
    start = body(added(0, "function_call", **call(status="in_progress", **more)))[0]
    kept = {"item_id": "fc_1", "namespace": "n", "caller": {"type": "direct"}, "async": True}
    assert start == BlockStart(0, ToolCall("call_1", "f"), extra=kept)


def test_custom_call_has_free_text_as_arguments() -> None:
    item: dict[str, Any] = {"id": "ctc_1", "call_id": "c", "name": "f"}
    frames = [
        added(0, "custom_tool_call", input="", **item),
        delta("custom_tool_call_input", "it's\n"),
        event("response.custom_tool_call_input.done", output_index=0, input="it's\nall"),
        done(0, "custom_tool_call", input="it's\nall", **item),
    ]
    assert body(*frames) == [
        BlockStart(0, ToolCall("c", "f", kind="custom"), extra={"item_id": "ctc_1"}),
        *(JSONDelta(0, "it's\n"), JSONDelta(0, "all"), BlockStop(0)),
    ]


def test_call_named_only_at_its_end_is_emitted_whole_there() -> None:
    frames = [added(0, "function_call", id="fc_1", call_id="call_1"), args('{"a')]
    end = done(0, "function_call", **call('{"a":1}'))
    assert body(*frames, end) == [STARTED, JSONDelta(0, '{"a":1}'), BlockStop(0)]


def test_call_without_a_start_is_emitted_whole_at_its_end() -> None:
    decoded = decode(START, args('{"a'), done(0, "function_call", **call('{"a":1}')), completed())
    assert decoded.events[1:-1] == [STARTED, JSONDelta(0, '{"a":1}'), BlockStop(0)]
    assert decoded.notes == (Note("missing_item", "function_call", 1),)


@pytest.mark.parametrize("type", ["function_call", "custom_tool_call"])
def test_call_without_a_name_is_malformed(type: str) -> None:
    error = StreamError("malformed", f"{type} without a name, expected one")
    assert decode(START, done(0, type, **call(name=""))).events[-1] == error
    assert decode(START, added(0, type, **call(name=None)), completed()).events[-1] == error


def test_arguments_after_the_end_of_the_call_are_malformed() -> None:
    frames = [ITEM_ADDED, args("{}"), done(0, "function_call", **call("{}"))]
    assert decode(START, *frames, args(" \n"), completed()).events[-1] == MessageStop(
        "tool_use", "completed"
    )
    message = "arguments of a call that is complete, expected an open one"
    assert decode(START, *frames, args("{}")).events[-1] == StreamError("malformed", message)


def test_item_id_replaces_a_missing_call_id() -> None:
    decoded = decode(START, done(0, "function_call", **call("{}", call_id=None)), completed())
    assert decoded.events[1] == BlockStart(0, ToolCall("fc_1", "f"), extra={"item_id": "fc_1"})
    assert decoded.notes == (Note("minted_id", "tool call", 1),)


def test_missing_id_is_minted() -> None:
    start = body(done(0, "function_call", name="f", arguments="{}"))[0]
    assert isinstance(start, BlockStart)
    assert isinstance(start.block, ToolCall)
    assert anonymous(start.block.id)


def test_half_a_surrogate_pair_waits_for_the_other_half() -> None:
    assert body(ITEM_ADDED, args("\ud83c"), args("\udf0a"))[1:-1] == [JSONDelta(0, "🌊")]


def test_half_a_surrogate_pair_at_the_end_is_replaced() -> None:
    assert body(ITEM_ADDED, args("{\ud83c"))[1:] == [
        *(JSONDelta(0, "{"), JSONDelta(0, "\ufffd"), BlockStop(0))
    ]
