"""Cache marks, where the target can have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import structs

from streamnorm._core.blocks import CacheMark, InputBlock, ToolResult
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.request import InputMessage, Request, replaced, same_parts
from streamnorm._core.losses import Losses
from streamnorm._core.tools import AnyTool

__all__ = ["project_marks"]

M = TypeVar("M", bound="InputBlock | AnyTool")


def project_marks(request: Request, can: BodyCapabilities, losses: Losses, *, own: bool) -> Request:
    """Return a request with the marks that the target can have.

    Args:
        request: The request.
        can: Capabilities of the target.
        losses: Counts marks that are dropped, and lifetimes that are changed.
        own: Whether the request is in the target's dialect: the number of its marks is then
            the client's affair.
    """
    projector = _MarkProjector(can, losses)
    marked = projector.project(request)
    excess = projector.kept - can.max_marks
    if own or excess <= 0:
        return marked
    # The last marks cover what the first ones do.
    return _MarkProjector(can, losses, to_drop=excess).project(marked)


class _MarkProjector:
    """Drops marks that a target has no place for.

    Args:
        can: Capabilities of the target.
        losses: Counts them.
        to_drop: Number of marks to drop although the target has a place for them.

    Attributes:
        kept: Number of marks that were kept.
    """

    def __init__(self, can: BodyCapabilities, losses: Losses, to_drop: int = 0) -> None:
        self.kept = 0
        self._can = can
        self._losses = losses
        self._to_drop = to_drop

    def project(self, request: Request) -> Request:
        """Return a request whose marks are dropped in the order in which a model reads it."""
        tools = tuple(self._marked(tool, "tool", "tools") for tool in request.tools)
        system = tuple(self._marked(text, "system", "system") for text in request.system)
        messages = tuple(map(self._message, request.messages))
        return replaced(
            request,
            tools=same_parts(request.tools, tools),
            system=same_parts(request.system, system),
            messages=same_parts(request.messages, messages),
        )

    def _message(self, message: InputMessage) -> InputMessage:
        if not any(map(_is_marked, message.blocks)):
            return message
        is_assistant = message.role == "assistant"
        blocks = tuple(
            self._block(block, is_assistant=is_assistant) if _is_marked(block) else block
            for block in message.blocks
        )
        if same_parts(message.blocks, blocks) is message.blocks:
            return message
        return structs.replace(message, blocks=blocks)

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
        if kind not in self._can.marks or self._to_drop > 0:
            self._to_drop -= 1
            self._losses.add("cache_mark_dropped", where, "dropped")
            return structs.replace(part, cache=None)
        self.kept += 1
        ttl = self._can.mark_ttls.get(mark.ttl or "", "") or None
        if ttl == mark.ttl:
            return part
        self._losses.add("cache_ttl", where, f"written as {ttl or 'the default'}")
        return structs.replace(part, cache=CacheMark(ttl))


def _is_marked(block: InputBlock) -> bool:
    """Return whether a block has a mark, or one of its content has."""
    if block.cache is not None:
        return True
    if type(block) is ToolResult:
        return any(item.cache is not None for item in block.content)
    return False


def _tag(block: InputBlock) -> str:
    return str(block.__struct_config__.tag)
