"""Responses re-encoded as Responses: server-side tool calls, unknown items and events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.openai_responses.streams import MESSAGE_START, encode, find, payloads_of, types, write

from streamnorm import (
    BlockStart,
    BlockStop,
    Event,
    JSONDelta,
    LimitExceeded,
    Limits,
    Loss,
    MessageStop,
    Opaque,
    OpaqueBlock,
    Reasoning,
    ServerToolCall,
    ServerToolResult,
    StreamError,
    Text,
    TextDelta,
)
from streamnorm.dialects.openai_responses.encode import ResponsesEncoder

DIALECT = "openai_responses"


def same(*events: Event) -> list[dict[str, Any]]:
    return encode(*events, extras=True)


def opaque(name: str, index: int | None = None, **fields: Any) -> Opaque:
    return Opaque(DIALECT, name, json.dumps({"type": name, **fields}), index)


# What the provider executed


def test_server_call_is_written_back_with_its_fields() -> None:
    call = ServerToolCall("ws_1", "web_search_call", kind="web_search_call")
    payloads = same(
        BlockStart(0, call),
        opaque("response.web_search_call.searching", 0, output_index=7, item_id="old"),
        JSONDelta(0, '{"action":{"type":"search",'),
        JSONDelta(0, '"query":"q"}}'),
        BlockStop(0),
        MessageStop("end_turn"),
    )
    item = {"id": "ws_1", "type": "web_search_call", "status": "in_progress"}
    whole = {**item, "status": "completed", "action": {"type": "search", "query": "q"}}
    assert payloads[:3] == [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.web_search_call.searching", "output_index": 0, "item_id": "ws_1"},
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
    ]
    assert payloads[-1]["response"]["output"] == [whole]


def test_server_call_is_added_with_the_name_of_its_tool() -> None:
    call = ServerToolCall("mcp_1", "roll", kind="mcp_call")
    payloads = same(BlockStart(0, call), JSONDelta(0, '{"name":"roll","output":"6"}'), BlockStop(0))
    assert payloads[0]["item"]["name"] == payloads[1]["item"]["name"] == "roll"


@pytest.mark.parametrize(
    ("kind", "empty"),
    [
        ("mcp_call", {"server_label": "", "arguments": ""}),
        ("file_search_call", {"queries": []}),
        ("image_generation_call", {}),
    ],
)
def test_call_is_added_with_its_required_fields_empty(kind: str, empty: dict[str, Any]) -> None:
    payloads = same(BlockStart(0, ServerToolCall("i", kind, kind=kind)), BlockStop(0))
    item = {"id": "i", "type": kind, "status": "in_progress"}
    assert payloads[0]["item"] == {**item, **empty}
    assert payloads[1]["item"] == {**item, "status": "completed"}


@pytest.mark.parametrize(
    ("kind", "empty"),
    [
        ("compaction", {}),
        ("mcp_list_tools", {"server_label": "", "tools": []}),
        ("mcp_approval_request", {"server_label": "", "arguments": ""}),
        ("program", {}),
    ],
)
def test_item_has_a_status_only_if_its_type_has_one(kind: str, empty: dict[str, Any]) -> None:
    payloads = same(BlockStart(0, ServerToolCall("i", kind, kind=kind)), BlockStop(0))
    assert payloads[0]["item"] == {"id": "i", "type": kind, **empty}
    assert payloads[1]["item"] == {"id": "i", "type": kind}


def test_unusual_status_is_written_back() -> None:
    call = ServerToolCall("mcp_1", "roll", kind="mcp_call")
    payloads = same(BlockStart(0, call), JSONDelta(0, '{"status":"failed"}'), BlockStop(0))
    assert [event["item"]["status"] for event in payloads] == ["in_progress", "failed"]


def test_call_with_a_call_id_is_added_when_the_id_is_known() -> None:
    call = ServerToolCall("sh_1", "shell_call", kind="shell_call")
    command = opaque("response.shell_call_command.delta", 1, output_index=7, delta="ls")
    started = (BlockStart(0, Text()), BlockStop(0), BlockStart(1, call), command)
    assert types(same(*started))[-1] == "output_item.done"
    held = '{"call_id":"c","action":{"commands":["ls"]}}'
    payloads = same(*started, JSONDelta(1, held), BlockStop(1))[-3:]
    item = {
        "id": "sh_1",
        "type": "shell_call",
        "status": "completed",
        "call_id": "c",
        "action": {"commands": ["ls"]},
    }
    assert payloads == [
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": {**item, "status": "in_progress"},
        },
        {"type": "response.shell_call_command.delta", "output_index": 1, "delta": "ls"},
        {"type": "response.output_item.done", "output_index": 1, "item": item},
    ]


def test_added_event_does_not_hold_the_input_that_deltas_carry() -> None:
    """xAI's searches are custom calls, whose input clients accumulate."""
    call = ServerToolCall("ctc_1", "x_search", kind="custom_tool_call")
    piece = opaque("response.custom_tool_call_input.delta", 0, output_index=7, delta="q")
    held = '{"call_id":"c","name":"x_search","input":"q"}'
    payloads = same(BlockStart(0, call), piece, JSONDelta(0, held), BlockStop(0))
    assert [payloads[0]["item"]["input"], payloads[1]["delta"]] == ["", "q"]
    assert payloads[2]["item"]["input"] == "q"


def test_held_events_of_a_call_are_bounded() -> None:
    start = BlockStart(0, ServerToolCall("sh_1", "shell_call", kind="shell_call"))
    event = Opaque(DIALECT, "a.b", '{"n":1}', 0)  # 10 bytes, and 200 of the object
    writer = ResponsesEncoder(extras=True, limits=Limits(max_accumulated_bytes=420))
    for each in (MESSAGE_START, start, event, event):
        writer.encode(each)
    with pytest.raises(LimitExceeded):
        writer.encode(event)


def test_events_of_a_complete_call_are_stored_no_longer() -> None:
    writer = ResponsesEncoder(extras=True, limits=Limits(max_accumulated_bytes=220))
    writer.encode(MESSAGE_START)
    for index in range(3):
        call = ServerToolCall(f"sh_{index}", "shell_call", kind="shell_call")
        event = Opaque(DIALECT, "a.b", '{"n":1}', index)
        for each in (BlockStart(index, call), event, BlockStop(index)):
            writer.encode(each)


def test_empty_call_id_of_a_search_is_left_out() -> None:
    """xAI adds it to the complete item, which the SDK rejects as another item."""
    call = ServerToolCall("ws_1", "web_search_call", kind="web_search_call")
    payloads = same(BlockStart(0, call), JSONDelta(0, '{"call_id":""}'), BlockStop(0))
    assert "call_id" not in payloads[1]["item"]
    call = ServerToolCall("sh_1", "shell_call", kind="shell_call")
    payloads = same(BlockStart(0, call), JSONDelta(0, '{"call_id":""}'), BlockStop(0))
    assert payloads[0]["item"]["call_id"] == payloads[1]["item"]["call_id"] == ""


def test_id_and_type_in_the_arguments_do_not_replace_those_of_the_item() -> None:
    call = ServerToolCall("ws_1", "web_search_call", kind="web_search_call")
    payloads = same(BlockStart(0, call), JSONDelta(0, '{"id":"x","type":"y","z":1}'), BlockStop(0))
    item = {"id": "ws_1", "type": "web_search_call", "status": "completed", "z": 1}
    assert payloads[1]["item"] == item


@pytest.mark.parametrize("text", ["", "ls -l", "[1]"])
def test_arguments_that_are_no_object_are_written_as_arguments(text: str) -> None:
    call = ServerToolCall("mcp_1", "roll", kind="mcp_call")
    deltas = [JSONDelta(0, text)] if text else []
    item = same(BlockStart(0, call), *deltas, BlockStop(0))[-1]["item"]
    assert item.get("arguments") == (text or None)


def test_result_is_written_back_as_its_item() -> None:
    item = {"id": "o_1", "type": "shell_call_output", "call_id": "c", "output": [1]}
    payloads = same(BlockStart(0, ServerToolResult("c", "shell_call_output", item)), BlockStop(0))
    assert payloads == [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    ]


def test_result_that_is_no_item_becomes_the_output_of_one() -> None:
    block = ServerToolResult("c", "function_call_output", "out")
    payloads = same(BlockStart(0, block, extra={"item_id": "fco_1"}), BlockStop(0))
    assert payloads[0]["item"] == {
        "id": "fco_1",
        "type": "function_call_output",
        "call_id": "c",
        "output": "out",
    }
    payloads = same(BlockStart(0, block), BlockStop(0))
    assert "id" not in payloads[0]["item"]


def test_event_of_a_whole_item_is_written_between_its_two_events() -> None:
    """The SDK fails at an event of an item that was not added."""
    item = {"id": "o_1", "type": "shell_call_output", "call_id": "c", "output": [1]}
    content = opaque("response.shell_call_output_content.delta", 0, output_index=7, item_id="o_1")
    result = ServerToolResult("c", "shell_call_output", item)
    payloads = same(BlockStart(0, result), content, BlockStop(0), MessageStop("end_turn"))
    place = {"output_index": 0, "item_id": "o_1"}
    assert payloads[:3] == [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.shell_call_output_content.delta", **place},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    ]
    assert payloads[-1]["response"]["output"] == [item]


def test_interpreter_call_is_added_when_its_container_is_known() -> None:
    """The AI SDK rejects it without one."""
    call = ServerToolCall("ci_1", "code_interpreter_call", kind="code_interpreter_call")
    code = opaque("response.code_interpreter_call_code.delta", 0, item_id="old", delta="6*7")
    held = {"code": "6*7", "container_id": "cntr_1", "outputs": None}
    payloads = same(BlockStart(0, call), code, JSONDelta(0, json.dumps(held)), BlockStop(0))
    item = {"id": "ci_1", "type": "code_interpreter_call", **held}
    assert payloads == [
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "status": "in_progress"},
        },
        {"type": "response.code_interpreter_call_code.delta", "item_id": "ci_1", "delta": "6*7"},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {**item, "status": "completed"},
        },
    ]


def test_kinds_of_other_dialects_are_left_out() -> None:
    call = BlockStart(0, ServerToolCall("s", "f", kind="mcp_tool_use"))
    result = BlockStart(1, ServerToolResult("s", "web_search_tool_result"))
    payloads, writer = write(
        [MESSAGE_START, call, result, BlockStart(2, OpaqueBlock("x", "k", "{}"))]
    )
    assert payloads[2:] == []
    assert [loss.feature for loss in writer.losses] == [
        *("server_tool", "server_tool", "opaque_block"),
    ]


# Unknown items, parts and events


@pytest.mark.parametrize("data", ['{"type":"quantum","id":"q"}', '{"type":"quantum",\r\n"id":"q"}'])
def test_unknown_item_is_written_back_whole(data: str) -> None:
    payloads = same(
        BlockStart(0, OpaqueBlock(DIALECT, "quantum", data)), BlockStop(0), MessageStop("pause")
    )
    item = {"type": "quantum", "id": "q"}
    assert payloads[0] == {"type": "response.output_item.added", "output_index": 0, "item": item}
    assert payloads[1] == {"type": "response.output_item.done", "output_index": 0, "item": item}
    assert payloads[-1]["response"]["output"] == [item]


def test_unknown_part_is_written_back_in_its_message() -> None:
    part = {"type": "output_audio", "data": "AA"}
    whole = OpaqueBlock(DIALECT, "output_audio", json.dumps(part))
    payloads = same(
        *(BlockStart(0, Text(), extra={"item_id": "msg_9"}), TextDelta(0, "a"), BlockStop(0)),
        *(BlockStart(1, whole, extra={"item_id": "msg_9"}), BlockStop(1)),
        MessageStop("end_turn"),
    )
    (item,) = payloads[-1]["response"]["output"]
    assert item["content"][1] == part
    place = {"item_id": "msg_9", "output_index": 0, "content_index": 1}
    assert find(payloads, "content_part.added")[1] == {
        "type": "response.content_part.added",
        **place,
        "part": part,
    }
    alone = same(
        BlockStart(0, whole, extra={"item_id": "msg_9"}), BlockStop(0), MessageStop("pause")
    )
    assert alone[-1]["response"]["output"][0]["content"] == [part]


def test_unknown_part_without_its_message_s_id_has_a_message_of_its_own() -> None:
    whole = OpaqueBlock(DIALECT, "output_audio", '{"type":"output_audio"}')
    events = [BlockStart(0, whole, extra={"item_id": "msg_9"}), BlockStop(0)]
    payloads = encode(*events, MessageStop("end_turn"))
    assert types(payloads) == [
        *("output_item.added", "content_part.added", "content_part.done", "output_item.done"),
        "completed",
    ]
    assert payloads[-1]["response"]["output"] == [payloads[-2]["item"]]


def test_unknown_event_has_the_index_and_id_under_which_its_item_is_written() -> None:
    event = opaque(
        "vendor.event", 1, sequence_number=99, output_index=5, item_id="old", content_index=4, x=1
    )
    payloads = same(BlockStart(0, Reasoning()), BlockStop(0), BlockStart(1, Text()), event)
    assert payloads[-1] == {
        "type": "vendor.event",
        "output_index": 1,
        "item_id": "msg_1_1",
        "content_index": 0,
        "x": 1,
    }
    assert same(opaque("vendor.event", output_index=5))[-1]["output_index"] == 5


def test_unknown_event_of_a_stopped_block_still_has_its_position() -> None:
    late = opaque("vendor.event", 0, item_id="old", output_index=5)
    payloads = same(BlockStart(0, Text()), BlockStop(0), late)
    assert payloads[-1] == {"type": "vendor.event", "item_id": "msg_1_0", "output_index": 0}


def test_line_break_in_an_event_type_does_not_forge_a_frame() -> None:
    writer = ResponsesEncoder(extras=True)
    writer.encode(MESSAGE_START)
    (written,) = payloads_of(writer.encode(Opaque(DIALECT, "a\n\nevent: b", '{"x":1}')))
    assert written["type"] == "a  event: b"


@pytest.mark.parametrize("data", ["[1]", '"text"', "no JSON"])
def test_unknown_event_that_is_no_object_is_lost(data: str) -> None:
    payloads, writer = write([MESSAGE_START, Opaque(DIALECT, "odd", data)], extras=True)
    assert payloads[2:] == []
    assert writer.losses == (Loss("opaque", "odd", 1, "no object, dropped"),)


@pytest.mark.parametrize("count", [15, 16, 17])
def test_events_before_the_response_wait_and_are_bounded(count: int) -> None:
    early = [opaque(f"early.{number}") for number in range(count)]
    payloads, writer = write([*early, MESSAGE_START], extras=True)
    assert [payload["type"] for payload in payloads[2:]] == [e.name for e in early[:16]]
    assert [loss.where for loss in writer.losses] == [e.name for e in early[16:]]


def test_events_before_a_failure_come_before_it() -> None:
    payloads, _ = write([opaque("early"), StreamError("transport", "gone")], extras=True)
    assert [payload["type"] for payload in payloads] == ["early", "error", "response.failed"]
