"""The bounds of a request that was read."""

from __future__ import annotations

from streamnorm._core.blocks import Text, ToolCall, ToolResult
from streamnorm._core.bodies.request import InputMessage, Request
from streamnorm._core.errors import DecodeError
from streamnorm._core.limits import Limits
from streamnorm._core.tools import CustomTool, Tool

__all__ = ["check_bounds"]


def check_bounds(request: Request, limits: Limits) -> None:
    """Check a request against the bounds of one message and its names.

    Raises:
        DecodeError: A message has too many blocks or calls, or a name or an id is too long.
    """
    _check_name(request.model, "model", limits)
    _check_count(request.choices or 0, limits.max_choices, "choices", "choices")
    for number, tool in enumerate(request.tools):
        if isinstance(tool, Tool | CustomTool):
            _check_name(tool.name, f"tools[{number}].name", limits)
    most = limits.max_blocks
    for number, message in enumerate(request.messages):
        # Most messages are one text.
        if len(message.blocks) != 1 or most < 1 or type(message.blocks[0]) is not Text:
            _check_message(message, f"messages[{number}]", limits)


def _check_message(message: InputMessage, path: str, limits: Limits) -> None:
    calls = 0
    _check_count(len(message.blocks), limits.max_blocks, "blocks", path)
    for block in message.blocks:
        if isinstance(block, ToolCall):
            calls += 1
            _check_name(max(block.id, block.name, key=len), path, limits)
        elif isinstance(block, ToolResult):
            _check_name(block.tool_call_id, path, limits)
            _check_count(len(block.content), limits.max_blocks, "blocks of a result", path)
    _check_count(calls, limits.max_tool_calls, "tool calls", path)


def _check_name(name: str, path: str, limits: Limits) -> None:
    if len(name) > limits.max_id_chars:
        raise DecodeError(
            f"{len(name)} characters, expected at most {limits.max_id_chars}", path=f"$.{path}"
        )


def _check_count(count: int, most: int, what: str, path: str) -> None:
    if count > most:
        raise DecodeError(f"{count} {what}, expected at most {most}", path=f"$.{path}")
