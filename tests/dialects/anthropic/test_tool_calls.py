"""Tool calls and results, in both directions."""

from __future__ import annotations

import json

import pytest
from support.anthropic import payloads
from support.anthropic.frames import (
    STOP,
    block,
    body,
    call,
    delta,
    end,
    message,
    notes,
    start,
    stop,
)
from support.openai_chat.chunks import anonymous

from streamnorm import BlockStart, BlockStop, JSONDelta, ServerToolCall, ServerToolResult, ToolCall
from streamnorm.dialects.anthropic.content import raw_input, raw_inputs, same_input

ARGUMENTS = {"q": "é", "n": [1, 2.50]}


def test_input_is_assembled_from_its_deltas() -> None:
    assert body(call(0, "", '{"a":', " 1}")) == [
        *(BlockStart(0, ToolCall("toolu_0", "find")), JSONDelta(0, '{"a":')),
        *(JSONDelta(0, " 1}"), BlockStop(0)),
    ]


@pytest.mark.parametrize("fields", [{}, {"input": {}}, {"input": ""}, {"input": None}])
def test_call_without_input_has_no_json_delta(fields: dict[str, object]) -> None:
    frames = [block(0, "tool_use", id="c", name="f", **fields), stop(0)]
    assert body(*frames) == [BlockStart(0, ToolCall("c", "f")), BlockStop(0)]


@pytest.mark.parametrize("kind", ["tool_use", "server_tool_use", "mcp_tool_use"])
def test_input_in_the_start_keeps_its_source_text(kind: str) -> None:
    written = '{ "q" : "\\u00e9",  "n":[1, 2.50] }'
    opening = block(0, kind, id="c", name="f", input=ARGUMENTS)
    opening = opening.replace(json.dumps(ARGUMENTS).encode(), written.encode())
    assert written.encode() in opening
    assert body(opening, stop(0))[1:] == [JSONDelta(0, written), BlockStop(0)]
    assert body(opening, delta(0, "input_json_delta", partial_json=""), stop(0))[1:] == [
        *(JSONDelta(0, written), BlockStop(0)),
    ]


def test_input_deltas_replace_the_same_input_in_the_start() -> None:
    opening = block(0, "tool_use", id="c", name="f", input=ARGUMENTS)
    told = '{"n":[1,2.5],"q":"é"}'
    pieces = [delta(0, "input_json_delta", partial_json=piece) for piece in (told[:9], told[9:])]
    assert body(opening, *pieces, stop(0))[1:] == [
        *(JSONDelta(0, told[:9]), JSONDelta(0, told[9:]), BlockStop(0)),
    ]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a":1,"b":2}', '{ "b": 2, "a": 1.0 }', False),
        ('{"a":1,"b":[{}]}', '{ "b": [{}], "a": 1 }', True),
        *(("{}", "", True), ('{"a":1}', '{"a":true}', False), ('{"a":1}', '{"a":', False)),
        *(('{"a":', '{"a":', True), ('{"a":', '{"b":', False), ('{"a":1}', "", False)),
    ],
)
def test_inputs_are_compared_by_value(one: str, other: str, *, same: bool) -> None:
    assert same_input(one, other) is same_input(other, one) is same


def test_input_in_the_start_may_be_a_string_of_json() -> None:
    opening = block(0, "tool_use", id="c", name="f", input='{"q":1}')
    assert body(opening, stop(0))[1:] == [JSONDelta(0, '{"q":1}'), BlockStop(0)]


def test_input_with_nan_in_the_start_is_serialized_anew() -> None:
    opening = block(0, "tool_use", id="c", name="f", input={"q": float("nan"), "n": 1})
    assert body(opening, stop(0))[1:] == [JSONDelta(0, '{"q":null,"n":1}'), BlockStop(0)]


def test_input_of_a_block_in_message_start_keeps_its_source_text() -> None:
    first = {"type": "tool_use", "id": "a", "name": "f", "input": {"q": 1}}
    other = {"type": "tool_use", "id": "b", "name": "f", "input": {"q": 2}}
    whole = start(content=[first, other]).replace(b'{"q": 1}', b'{"q":1e0}')
    assert message(whole, STOP).blocks == (
        *(ToolCall("a", "f", '{"q":1e0}'), ToolCall("b", "f", '{"q": 2}')),
    )
    # An entry that is no object hides the source text of all.
    odd = whole.replace(b'"content": [', b'"content": ["\\ud83d", ')
    assert message(odd, STOP).blocks == (
        *(ToolCall("a", "f", '{"q":1.0}'), ToolCall("b", "f", '{"q":2}')),
    )


def test_call_without_an_id_gets_a_deterministic_one() -> None:
    frames = [call(0, id=""), call(1, id=None), block(2, "server_tool_use", name="f"), stop(2)]
    blocks = message(start(), *frames, end(), STOP).blocks
    ids = [getattr(block, "id", "") for block in blocks]
    assert all(anonymous(id) for id in ids)
    assert len(set(ids)) == 3
    assert blocks == message(start(), *frames, end(), STOP).blocks
    assert notes(*frames) == {"minted_id": 3}
    others = message(start(id="msg_2"), *frames, end(), STOP).blocks
    assert not {getattr(block, "id", "") for block in others} & set(ids)


def test_tool_input_is_sent_by_deltas_alone() -> None:
    assert payloads.encode(
        BlockStart(0, ToolCall("call_1", "f")),
        JSONDelta(0, '{"a":'),
        JSONDelta(0, "1}"),
        BlockStop(0),
    ) == [
        payloads.start(0, type="tool_use", id="call_1", name="f", input={}),
        payloads.delta(0, "input_json_delta", partial_json=""),
        payloads.delta(0, "input_json_delta", partial_json='{"a":'),
        payloads.delta(0, "input_json_delta", partial_json="1}"),
        payloads.stop(0),
    ]


@pytest.mark.parametrize("arguments", [[], ["null"]])
def test_call_without_arguments_gets_an_empty_object(arguments: list[str]) -> None:
    deltas = [JSONDelta(0, text) for text in arguments]
    assert payloads.encode(BlockStart(0, ToolCall("c", "f")), *deltas, BlockStop(0))[2:] == [
        payloads.delta(0, "input_json_delta", partial_json="{}"),
        payloads.stop(0),
    ]


def test_id_that_anthropic_rejects_is_escaped() -> None:
    ((_, payload), *_) = payloads.encode(BlockStart(0, ToolCall("functions.f:0", "f")))
    assert payload["content_block"]["id"] == "snid_functions_2ef_3a0"


def test_custom_tool_becomes_an_object_of_one_string() -> None:
    frames = payloads.encode(
        BlockStart(0, ToolCall("c", "f", kind="custom")),
        JSONDelta(0, 'say "hi"\n'),
        BlockStop(0),
    )
    written = "".join(p["delta"]["partial_json"] for name, p in frames if name.endswith("delta"))
    assert json.loads(written) == {"input": 'say "hi"\n'}


@pytest.mark.parametrize("kind", ["server_tool_use", "mcp_tool_use"])
def test_server_tool_call_is_written_with_its_type(kind: str) -> None:
    call = BlockStart(0, ServerToolCall("srv_1", "search", kind=kind))
    assert payloads.encode(call, JSONDelta(0, '{"q":1}'), BlockStop(0)) == [
        payloads.start(0, type=kind, id="srv_1", name="search", input={}),
        payloads.delta(0, "input_json_delta", partial_json=""),
        payloads.delta(0, "input_json_delta", partial_json='{"q":1}'),
        payloads.stop(0),
    ]
    without_input = payloads.encode(call, BlockStop(0))
    assert without_input[2] == payloads.delta(0, "input_json_delta", partial_json="{}")


def test_server_tool_result_is_whole_in_its_start() -> None:
    content = [{"url": "u", "title": None}]
    result = ServerToolResult("srv_1", "web_search_tool_result", content)
    assert payloads.encode(BlockStart(0, result), BlockStop(0)) == [
        payloads.start(0, type="web_search_tool_result", tool_use_id="srv_1", content=content),
        payloads.stop(0),
    ]


def test_raw_input_is_the_source_text() -> None:
    start = '{"content_block": {"input": { "a" :1.0e0 } , "type":"tool_use"}}'
    assert raw_input(start) == '{ "a" :1.0e0 }'
    assert raw_input('{"content_block": {}}') == ""
    assert raw_input('{"content_block": []}') is None
    assert raw_inputs('{"message":{"content":[{"input":[ 1]},{}]}}') == ["[ 1]", ""]
    assert raw_inputs('{"message":{}}') == raw_inputs('{"message":{"content":[1]}}') == []
