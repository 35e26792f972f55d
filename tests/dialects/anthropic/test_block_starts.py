"""Blocks of `content_block_start` and `message_start`, by type."""

from __future__ import annotations

from typing import Any

import pytest
from support.anthropic.frames import STOP, block, body, decode, end, message, start, stop

from streamnorm import (
    Block,
    BlockStart,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    StreamError,
    Text,
    ToolCall,
)

SEARCHED = [{"type": "web_search_result", "url": "https://u", "title": "T", "page_age": None}]

BLOCKS: dict[str, tuple[dict[str, Any], Block, dict[str, Any] | None]] = {
    "text": ({"type": "text", "text": "", "citations": None}, Text(), None),
    "text with unknown fields": (
        {"type": "text", "text": None, "phase": "final", "draft": None},
        Text(),
        {"phase": "final"},
    ),
    "thinking": ({"type": "thinking", "thinking": "", "signature": ""}, Reasoning(), None),
    "redacted thinking": (
        {"type": "redacted_thinking", "data": "ZGF0YQ==", "x": 1},
        RedactedReasoning("ZGF0YQ==", "anthropic"),
        {"x": 1},
    ),
    "call": (
        {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "find",
            "input": {},
            "caller": {"type": "direct"},
            "toolset_name": None,
        },
        ToolCall("toolu_1", "find"),
        {"caller": {"type": "direct"}},
    ),
    "call with an id that we escaped": (
        {"type": "tool_use", "id": "snid_functions_2ef_3a0", "name": "f", "input": {}},
        ToolCall("functions.f:0", "f"),
        None,
    ),
    "server's call": (
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        ServerToolCall("srvtoolu_1", "web_search", kind="server_tool_use"),
        None,
    ),
    "call of an MCP server": (
        {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "f", "input": {}, "server_name": "s"},
        ServerToolCall("mcptoolu_1", "f", kind="mcp_tool_use"),
        {"server_name": "s"},
    ),
    "result of a search": (
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": SEARCHED},
        ServerToolResult("srvtoolu_1", "web_search_tool_result", SEARCHED),
        None,
    ),
    "result of an MCP server": (
        {"type": "mcp_tool_result", "tool_use_id": "m", "content": "ok", "is_error": False},
        ServerToolResult("m", "mcp_tool_result", "ok"),
        None,
    ),
    "failed result of an MCP server": (
        {"type": "mcp_tool_result", "tool_use_id": "m", "content": "no", "is_error": True},
        ServerToolResult("m", "mcp_tool_result", "no", is_error=True),
        None,
    ),
    "failed search": (
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s",
            "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"},
        },
        ServerToolResult(
            *("s", "web_search_tool_result"),
            {"type": "web_search_tool_result_error", "error_code": "unavailable"},
            is_error=True,
        ),
        None,
    ),
    "result of a tool to come, without content": (
        {"type": "oracle_tool_result", "tool_use_id": "o"},
        ServerToolResult("o", "oracle_tool_result", None),
        None,
    ),
    "result without its call": (
        {"type": "oracle_tool_result", "content": 1},
        OpaqueBlock("anthropic", "oracle_tool_result", '{"type":"oracle_tool_result","content":1}'),
        None,
    ),
    "upload": (
        {"type": "container_upload", "file_id": "file_1"},
        OpaqueBlock(
            "anthropic", "container_upload", '{"type":"container_upload","file_id":"file_1"}'
        ),
        None,
    ),
    "fallback": (
        {"type": "fallback", "from": {"model": "a"}, "to": {"model": "é"}},
        OpaqueBlock(
            "anthropic", "fallback", '{"type":"fallback","from":{"model":"a"},"to":{"model":"é"}}'
        ),
        None,
    ),
}


@pytest.mark.parametrize(("wire", "unified", "extra"), BLOCKS.values(), ids=BLOCKS)
def test_block_start_becomes_its_unified_block(
    wire: dict[str, Any], unified: Block, extra: dict[str, Any] | None
) -> None:
    begun = body(block(0, **wire), stop(0))[0]
    assert begun == BlockStart(0, unified, extra=extra)
    whole = message(start(content=[wire]), STOP)
    assert whole.blocks == (unified,)
    assert whole.block_extras == ((extra,) if extra else ())


@pytest.mark.parametrize(
    "wire",
    [
        {"type": "redacted_thinking"},
        {"type": "redacted_thinking", "data": None},
        {"type": "tool_use", "id": "c"},
        {"type": "tool_use", "id": "c", "name": ""},
        {"type": "server_tool_use", "id": "c", "name": 7},
        {"type": "mcp_tool_use"},
    ],
    ids=str,
)
def test_block_without_a_required_field_is_malformed(wire: dict[str, Any]) -> None:
    message = f"{wire['type']} lacks a field, expected all that are required"
    for frames in ([start(), block(0, **wire)], [start(content=[wire])]):
        decoded = decode(*frames, end(), STOP)
        assert decoded.events[1:] == [StreamError("malformed", message)]


def test_lone_surrogate_in_a_start_is_replaced() -> None:
    wire = {"type": "tool_use", "id": "a\ud83d", "name": "f\ud83d", "input": "x\ud83d"}
    assert message(start(content=[wire]), STOP).blocks == (ToolCall("a�", "f�", "x�"),)
