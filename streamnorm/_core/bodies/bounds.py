"""The bounds of a request that was read."""

from __future__ import annotations

from streamnorm._core.blocks import ToolCall, ToolResult
from streamnorm._core.bodies.fields import within
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
    for number, message in enumerate(request.messages):
        try:
            _check_message(message, limits)
        except DecodeError as exc:
            raise within(exc, f"$.messages[{number}]") from None


def _check_message(message: InputMessage, limits: Limits) -> None:
    calls, most_chars = 0, limits.max_id_chars
    if len(message.blocks) > limits.max_blocks:
        _check_count(len(message.blocks), limits.max_blocks, "blocks", "blocks")
    for block in message.blocks:
        if isinstance(block, ToolCall):
            calls += 1
            if len(block.id) > most_chars or len(block.name) > most_chars:
                _check_name(max(block.id, block.name, key=len), "blocks", limits)
        elif isinstance(block, ToolResult):
            if len(block.tool_call_id) > most_chars:
                _check_name(block.tool_call_id, "blocks", limits)
            if len(block.content) > limits.max_blocks:
                _check_count(len(block.content), limits.max_blocks, "blocks of a result", "blocks")
    if calls > limits.max_tool_calls:
        _check_count(calls, limits.max_tool_calls, "tool calls", "blocks")


def _check_name(name: str, path: str, limits: Limits) -> None:
    if len(name) > limits.max_id_chars:
        raise DecodeError(
            f"{len(name)} characters, expected at most {limits.max_id_chars}", path=f"$.{path}"
        )


def _check_count(count: int, most: int, what: str, path: str) -> None:
    if count > most:
        raise DecodeError(f"{count} {what}, expected at most {most}", path=f"$.{path}")
