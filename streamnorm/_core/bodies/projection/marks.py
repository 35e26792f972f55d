"""Cache marks, where the target can have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import structs

from streamnorm._core.blocks import CacheMark, InputBlock, Text, ToolResult
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.request import InputMessage, same_parts
from streamnorm._core.losses import Losses
from streamnorm._core.tools import AnyTool

__all__ = ["MarkProjector"]

M = TypeVar("M", bound="InputBlock | AnyTool")


class MarkProjector:
    """Drops the marks that a target has no place for, and counts each.

    Args:
        can: Capabilities of the target.
        losses: Counts marks that are dropped, and lifetimes that are changed.
    """

    def __init__(self, can: BodyCapabilities, losses: Losses) -> None:
        self._can = can
        self._losses = losses

    def tools(self, tools: tuple[AnyTool, ...]) -> tuple[AnyTool, ...]:
        """Return tools with the marks that the target can have after tools."""
        return same_parts(tools, tuple(self._marked(tool, "tool", "tools") for tool in tools))

    def system(self, system: tuple[Text, ...]) -> tuple[Text, ...]:
        """Return instructions with the marks that the target can have within them."""
        return same_parts(system, tuple(self._marked(text, "system", "system") for text in system))

    def messages(self, messages: tuple[InputMessage, ...]) -> tuple[InputMessage, ...]:
        """Return messages with the marks that the target can have after their blocks."""
        return same_parts(messages, tuple(map(self._message, messages)))

    def _message(self, message: InputMessage) -> InputMessage:
        blocks = message.blocks
        for number, block in enumerate(blocks):
            if block.cache is not None or type(block) is ToolResult:
                changed = self._block(block, is_assistant=message.role == "assistant")
                if changed is not block:
                    blocks = (*blocks[:number], changed, *blocks[number + 1 :])
        return message if blocks is message.blocks else structs.replace(message, blocks=blocks)

    def _block(self, block: InputBlock, *, is_assistant: bool) -> InputBlock:
        if isinstance(block, ToolResult):
            content: Sequence[Any] = block.content
            marked = tuple(self._marked(item, _tag(item), "messages") for item in content)
            if same_parts(block.content, marked) is not block.content:
                block = structs.replace(block, content=marked)
        kind = _tag(block)
        if is_assistant and "assistant" not in self._can.marks:
            kind = "assistant"
        return self._marked(block, kind, "messages")

    def _marked(self, part: M, kind: str, where: str) -> M:
        mark = part.cache
        if mark is None:
            return part
        if kind not in self._can.marks:
            self._losses.add("cache_mark_dropped", where, "dropped")
            return structs.replace(part, cache=None)
        ttl = self._can.mark_ttls.get(mark.ttl or "", "") or None
        if ttl == mark.ttl:
            return part
        self._losses.add("cache_ttl", where, f"written as {ttl or 'the default'}")
        return structs.replace(part, cache=CacheMark(ttl))


def _tag(block: InputBlock) -> str:
    return str(block.__struct_config__.tag)
