"""Server-side tool calls, their results, and unknown items."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_chat.chunks import anonymous
from support.openai_responses.frames import (
    START,
    added,
    body,
    completed,
    decode,
    delta,
    done,
    event,
    messages,
    text,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    JSONDelta,
    Limits,
    Note,
    Opaque,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
)
from streamnorm.dialects.openai_responses.items.types import ITEM_TYPES


@pytest.mark.parametrize(
    "type", sorted(row.name for row in ITEM_TYPES.values() if row.is_server_call)
)
def test_fields_of_the_item_are_its_arguments_at_its_end(type: str) -> None:
    frames = [
        added(0, type, id="i_1", status="in_progress", action={}),
        done(0, type, id="i_1", status="completed", action={"a": 1}, none=None),
    ]
    assert body(*frames) == [
        BlockStart(0, ServerToolCall("i_1", type, kind=type)),
        *(JSONDelta(0, '{"action":{"a":1},"none":null}'), BlockStop(0)),
    ]


def test_call_has_the_name_of_the_tool() -> None:
    item = {"id": "mcp_1", "name": "berth", "server_label": "s"}
    assert body(done(0, "mcp_call", **item)) == [
        BlockStart(0, ServerToolCall("mcp_1", "berth", kind="mcp_call")),
        *(JSONDelta(0, '{"name":"berth","server_label":"s"}'), BlockStop(0)),
    ]


def test_unusual_status_is_part_of_the_arguments() -> None:
    frames = [done(0, "web_search_call", id="ws", status="failed")]
    assert body(*frames)[1] == JSONDelta(0, '{"status":"failed"}')


def test_item_without_fields_has_no_arguments() -> None:
    frames = [done(0, "web_search_call", id="ws", status="completed")]
    start = BlockStart(0, ServerToolCall("ws", "web_search_call", kind="web_search_call"))
    assert body(*frames) == [start, BlockStop(0)]


def test_item_that_is_never_done_has_the_fields_of_its_start() -> None:
    frames = [added(0, "web_search_call", id="ws", action={"a": 1}, status="in_progress")]
    assert body(*frames)[1:] == [JSONDelta(0, '{"action":{"a":1}}'), BlockStop(0)]


def test_missing_id_is_minted() -> None:
    decoded = decode(START, done(0, "web_search_call"), completed())
    start = decoded.events[1]
    assert isinstance(start, BlockStart)
    assert isinstance(start.block, ServerToolCall)
    assert anonymous(start.block.id)
    assert decoded.notes == (Note("minted_id", "tool call", 1),)


@pytest.mark.parametrize("type", ["shell_call_output", "program_output", "tool_search_output"])
def test_results_are_whole(type: str) -> None:
    item = {"id": "o_1", "call_id": "call_1", "status": "completed", "output": ["x"]}
    begun = added(0, type, id="o_1", call_id="call_1", output=[])
    result = ServerToolResult("call_1", type, {"type": type, **item})
    assert body(begun, done(0, type, **item)) == [BlockStart(0, result), BlockStop(0)]


def test_items_of_unknown_types_are_opaque() -> None:
    block = OpaqueBlock("openai_responses", "tide_table", '{"type":"tide_table","id":"t","x":[1]}')
    frames = [added(0, "tide_table", id="t", x=[]), done(0, "tide_table", id="t", x=[1])]
    assert body(*frames) == [BlockStart(0, block), BlockStop(0)]


@pytest.mark.parametrize("kind", ["tide_table", "shell_call_output"])
def test_result_or_unknown_item_that_is_never_done_is_that_of_its_start(kind: str) -> None:
    decoded = decode(START, added(0, kind, id="t", call_id="c"), completed())
    assert [type(event) for event in decoded.events[1:-1]] == [BlockStart, BlockStop]
    assert decoded.notes == (Note("missing_item_done", kind, 1),)


@pytest.mark.parametrize("kind", ["tide_table", "shell_call_output"])
def test_event_of_a_result_or_unknown_item_waits_for_its_block(kind: str) -> None:
    """Its block has no index before."""
    name = "response.shell_call_output_content.delta"
    frames = [
        added(0, kind, id="o", call_id="c"),
        event(name, output_index=0, item_id="o", obfuscation="x", delta={"stdout": "Wick"}),
        *(added(1, "message", **messages()), text("High", 1)),
        done(0, kind, id="o", call_id="c"),
    ]
    payload = f'{{"type":"{name}","output_index":0,"item_id":"o","delta":{{"stdout":"Wick"}}}}'
    *before, start, waited, stop, _ = body(*frames)
    assert before == [BlockStart(0, Text(), extra={"item_id": "msg_1"}), TextDelta(0, "High")]
    assert isinstance(start, BlockStart)
    assert isinstance(start.block, OpaqueBlock | ServerToolResult)
    assert [waited, stop] == [Opaque("openai_responses", name, payload, 1), BlockStop(1)]


def test_held_events_of_an_item_are_bounded() -> None:
    frames = [added(0, "tide_table", id="t"), event("tide", output_index=0, item_id="t")]
    size = len("tide_table") + len("t")  # of the item
    size += 200 + len("tide") + len('{"type":"tide","output_index":0,"item_id":"t"}')
    for room, failed in ((size + 1, False), (size, False), (size - 1, True)):
        decoded = decode(START, *frames, limits=Limits(max_accumulated_bytes=room))
        error = decoded.events[-1]
        assert isinstance(error, StreamError)
        assert (error.code == "max_accumulated_bytes") is failed


# Custom tools that the server runs


def custom(tools: Any, **fields: Any) -> list[Any]:
    start = event("response.created", response={"id": "r", "model": "m", "tools": tools})
    item = {"id": "ctc_1", "call_id": "c", "name": "x_search", **fields}
    frames = [
        added(0, "custom_tool_call", input="", **item),
        delta("custom_tool_call_input", "q"),
        done(0, "custom_tool_call", input="q", **item),
    ]
    return decode(start, *frames, completed()).events[1:-1]


def test_custom_tool_that_the_response_does_not_list_is_the_servers() -> None:
    events = custom([{"type": "x_search"}, {"type": "function", "name": "f"}])
    payload = '{"type":"response.custom_tool_call_input.delta","output_index":0,"delta":"q"}'
    assert events == [
        BlockStart(0, ServerToolCall("ctc_1", "x_search", kind="custom_tool_call")),
        Opaque("openai_responses", "response.custom_tool_call_input.delta", payload, 0),
        JSONDelta(0, '{"input":"q","call_id":"c","name":"x_search"}'),
        BlockStop(0),
    ]


@pytest.mark.parametrize(
    ("tools", "fields"),
    [
        (None, {}),
        ([], {}),
        ([{"type": "custom", "name": "x_search"}], {}),
        ([{"type": "namespace", "name": "n", "tools": [{"name": "x_search"}]}], {}),
        ([{"type": "web_search"}], {"namespace": "n"}),
        ([{"type": "tool_search"}, {"type": "web_search"}], {}),
    ],
)
def test_custom_tool_is_the_clients_unless_the_tools_exclude_it(
    tools: Any, fields: dict[str, Any]
) -> None:
    events = custom(tools, **fields)
    assert events[0].block == ToolCall("c", "x_search", kind="custom", **fields)
    assert events[1:] == [JSONDelta(0, "q"), BlockStop(0)]
