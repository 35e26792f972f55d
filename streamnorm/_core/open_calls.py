"""Which tool calls of a message wait for a result of the client."""

from __future__ import annotations

from collections.abc import Iterable

from streamnorm._core.blocks import InputBlock, ServerToolResult, ToolCall, ToolResult

TURN_TOKEN = "turnToken"  # noqa: S105 - the name of a field
"""Field of an answer in which Google may execute functions of MCP servers itself."""


def provider_results(blocks: Iterable[InputBlock]) -> dict[str, ServerToolResult]:
    """Return the results of the provider among blocks, by the ids of their calls.

    A provider may execute a function itself, as Google does those of MCP servers.  Its call is a
    `ToolCall` like those of the client; only a result here under its id shows that the client is
    not asked to execute the call.
    """
    results = [block for block in blocks if isinstance(block, ServerToolResult)]
    # The result of a code execution may name no call.
    return {result.tool_call_id: result for result in results if result.tool_call_id}


def open_calls(blocks: Iterable[InputBlock]) -> tuple[ToolCall, ...]:
    """Return the tool calls among blocks that have no result among them, in order."""
    known = [*blocks]
    executed = {
        block.tool_call_id
        for block in known
        if isinstance(block, ToolResult) and block.tool_call_id
    }
    executed |= provider_results(known).keys()
    return tuple([call for call in known if isinstance(call, ToolCall) and call.id not in executed])
