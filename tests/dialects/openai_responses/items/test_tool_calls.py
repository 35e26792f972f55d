"""Calls that the client is asked to execute."""

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

BEGUN = added(0, "function_call", **call())
STARTED = BlockStart(0, ToolCall("call_1", "f"), extra={"item_id": "fc_1"})
ALL = "response.function_call_arguments.done"


def test_arguments_pass_as_they_come() -> None:
    frames = [BEGUN, args('{"a"'), args(":1} "), done(0, "function_call", **call('{"a":1} '))]
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
def test_each_end_brings_what_the_deltas_did_not(
    end: bytes, pieces: tuple[str, ...], rest: str
) -> None:
    events = decode(START, BEGUN, *map(args, pieces), end, completed()).events
    deltas = [JSONDelta(0, piece) for piece in (*pieces, rest)]
    assert events[1:-1] == [STARTED, *deltas, BlockStop(0)]


def test_arguments_that_the_deltas_contradict_are_a_note() -> None:
    frames = [BEGUN, args('{"a":1}'), done(0, "function_call", **call('{"a": 1}'))]
    decoded = decode(START, *frames, completed())
    assert decoded.events[1:-1] == [STARTED, JSONDelta(0, '{"a":1}'), BlockStop(0)]
    assert decoded.notes == (Note("resent_arguments", "ToolCall", 1),)


def test_call_that_comes_whole() -> None:
    whole = [STARTED, JSONDelta(0, "{}"), BlockStop(0)]
    assert body(done(0, "function_call", **call("{}"))) == whole


def test_call_without_its_end_has_what_stood_in_its_start() -> None:
    decoded = decode(START, added(0, "function_call", **call("{}")), completed())
    assert decoded.events[1:-1] == [STARTED, JSONDelta(0, "{}"), BlockStop(0)]
    assert decoded.notes == (Note("missing_item_done", "function_call", 1),)


def test_call_without_its_end_has_its_deltas() -> None:
    assert body(added(0, "function_call", **call("{}")), args("{")) == [
        *(STARTED, JSONDelta(0, "{"), BlockStop(0))
    ]


def test_other_fields_are_kept() -> None:
    more = {"namespace": "n", "caller": {"type": "direct"}, "async": True, "x": None}
    start = body(added(0, "function_call", **call(status="in_progress", **more)))[0]
    kept = {"item_id": "fc_1", "namespace": "n", "caller": {"type": "direct"}, "async": True}
    assert start == BlockStart(0, ToolCall("call_1", "f"), extra=kept)


def test_custom_call_takes_free_text() -> None:
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


def test_call_that_is_named_at_its_end_comes_whole_there() -> None:
    frames = [added(0, "function_call", id="fc_1", call_id="call_1"), args('{"a')]
    end = done(0, "function_call", **call('{"a":1}'))
    assert body(*frames, end) == [STARTED, JSONDelta(0, '{"a":1}'), BlockStop(0)]


def test_call_without_its_start_comes_whole_at_its_end() -> None:
    decoded = decode(START, args('{"a'), done(0, "function_call", **call('{"a":1}')), completed())
    assert decoded.events[1:-1] == [STARTED, JSONDelta(0, '{"a":1}'), BlockStop(0)]
    assert decoded.notes == (Note("missing_item", "function_call", 1),)


@pytest.mark.parametrize("type", ["function_call", "custom_tool_call"])
def test_call_without_a_name_is_malformed(type: str) -> None:
    error = StreamError("malformed", f"{type} without a name, expected one")
    assert decode(START, done(0, type, **call(name=""))).events[-1] == error
    assert decode(START, added(0, type, **call(name=None)), completed()).events[-1] == error


def test_arguments_behind_the_end_of_the_call_are_malformed() -> None:
    frames = [BEGUN, args("{}"), done(0, "function_call", **call("{}"))]
    assert decode(START, *frames, args(" \n"), completed()).events[-1] == MessageStop(
        "tool_use", "completed"
    )
    message = "arguments of a call that is complete, expected an open one"
    assert decode(START, *frames, args("{}")).events[-1] == StreamError("malformed", message)


def test_id_of_the_item_stands_in_for_that_of_the_call() -> None:
    decoded = decode(START, done(0, "function_call", **call("{}", call_id=None)), completed())
    assert decoded.events[1] == BlockStart(0, ToolCall("fc_1", "f"), extra={"item_id": "fc_1"})
    assert decoded.notes == (Note("minted_id", "tool call", 1),)


def test_id_is_minted_where_there_is_none() -> None:
    start = body(done(0, "function_call", name="f", arguments="{}"))[0]
    assert isinstance(start, BlockStart)
    assert isinstance(start.block, ToolCall)
    assert anonymous(start.block.id)


def test_half_a_character_waits_for_the_other() -> None:
    assert body(BEGUN, args("\ud83c"), args("\udf0a"))[1:-1] == [JSONDelta(0, "🌊")]


def test_half_a_character_at_the_end_is_replaced() -> None:
    assert body(BEGUN, args("{\ud83c"))[1:] == [
        *(JSONDelta(0, "{"), JSONDelta(0, "\ufffd"), BlockStop(0))
    ]
