"""Projection of the cache marks of a request.

A mark that the target refuses is dropped or moved; the request stays valid without it, and only
costs more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import structs

from streamnorm._core.blocks import CacheMark, InputBlock, ToolResult
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.request import (
    InputMessage,
    Request,
    is_marked,
    replace_parts,
    same_parts,
)
from streamnorm._core.losses import Losses
from streamnorm._core.tools import AnyTool

# Along tools, instructions and messages lifetimes may not grow: Anthropic answers a mark of one
# hour behind a mark of five minutes with status 400.
_LONGEST_TTL = "1h"

M = TypeVar("M", bound="InputBlock | AnyTool")


def project_cache_marks(
    request: Request, target: BodyCapabilities, losses: Losses, *, lenient: bool
) -> Request:
    """Return a request with the cache marks that the target accepts.

    Args:
        request: The request.
        target: Capabilities of the target.
        losses: Counter of dropped marks and changed lifetimes.
        lenient: Whether the number of marks is left to the client, whose dialect it is.
    """
    projector = _MarkProjector(target, losses, lenient=lenient)
    marked = projector.project(request)
    excess = projector.kept - target.max_marks
    if target.counts_request_mark and marked.cache is not None and "cache" in target.fields:
        excess += 1
    if lenient or target.counts_written_marks or excess <= 0:
        return marked
    # A mark caches the whole prefix before it, so the last marks cover what the first ones do.
    return _MarkProjector(target, losses, lenient=lenient, to_drop=excess).project(marked)


class _MarkProjector:
    """Drop the cache marks that a target does not accept.

    Args:
        target: Capabilities of the target.
        losses: Counter of dropped marks and changed lifetimes.
        lenient: Whether the marks are left to the client.
        to_drop: Number of accepted marks to drop, the first ones, since there are too many.

    Attributes:
        kept: Number of marks that remain.
    """

    def __init__(
        self, target: BodyCapabilities, losses: Losses, *, lenient: bool, to_drop: int = 0
    ) -> None:
        self.kept = 0
        self._target = target
        self._losses = losses
        self._lenient = lenient
        self._to_drop = to_drop
        self._has_short_mark = False

    def project(self, request: Request) -> Request:
        """Return the projected request: tools first, then instructions, then messages.

        This is the order of the prefix that a provider caches.
        """
        tools = tuple(self._project_mark(tool, "tool", "tools") for tool in request.tools)
        system = tuple(self._project_mark(text, "system", "system") for text in request.system)
        messages = tuple(map(self._project_message, request.messages))
        return replace_parts(
            request,
            tools=same_parts(request.tools, tools),
            system=same_parts(request.system, system),
            messages=same_parts(request.messages, messages),
            cache=self._project_request_mark(request.cache, messages),
        )

    def _project_message(self, message: InputMessage) -> InputMessage:
        if not any(map(is_marked, message.blocks)):
            return message
        is_assistant = message.role == "assistant"
        blocks = tuple(
            self._project_block(block, is_assistant=is_assistant) if is_marked(block) else block
            for block in message.blocks
        )
        if same_parts(message.blocks, blocks) is message.blocks:
            return message
        return structs.replace(message, blocks=blocks)

    def _project_block(self, block: InputBlock, *, is_assistant: bool) -> InputBlock:
        if isinstance(block, ToolResult):
            block = self._project_result(block)
        kind = _tag(block)
        if is_assistant and "assistant" not in self._target.marks:
            kind = "assistant"
        return self._project_mark(block, kind, "messages")

    def _project_result(self, result: ToolResult) -> ToolResult:
        """Return a tool result with only the cache marks that the target accepts within results."""
        if not (self._target.marks_in_results or self._lenient):
            return self._move_marks_out(result)
        content: Sequence[Any] = result.content
        marked = tuple(self._project_mark(item, _tag(item), "messages") for item in content)
        if same_parts(result.content, marked) is result.content:
            return result
        return structs.replace(result, content=marked)

    def _move_marks_out(self, result: ToolResult) -> ToolResult:
        """Return a tool result with the last cache mark of its content moved to the result."""
        marks = [item.cache for item in result.content if item.cache is not None]
        if not marks:
            return result
        content = tuple(structs.replace(item, cache=None) for item in result.content)
        if result.cache is None:
            self._losses.add("cache_mark_moved", "messages", "to the tool result")
            result = structs.replace(result, cache=marks.pop())
        for _ in marks:
            self._losses.add("cache_mark_dropped", "messages", "within a tool result")
        return structs.replace(result, content=content)

    def _project_mark(self, part: M, kind: str, where: str) -> M:
        mark = part.cache
        if mark is None:
            return part
        if kind not in self._target.marks or self._to_drop > 0:
            self._to_drop -= 1
            self._losses.add("cache_mark_dropped", where, "dropped")
            return structs.replace(part, cache=None)
        self.kept += 1
        changed = self._fit_lifetime(mark, self._target.mark_ttls, where)
        return part if changed is mark else structs.replace(part, cache=changed)

    def _project_request_mark(
        self, mark: CacheMark | None, messages: tuple[InputMessage, ...]
    ) -> CacheMark | None:
        """Return the cache mark of the whole request in a form that the target accepts."""
        if mark is None or self._lenient or "cache" not in self._target.fields:
            return mark
        last = messages[-1].blocks[-1].cache if messages and messages[-1].blocks else None
        # The API places this mark on the last block, whose own mark must have the same lifetime.
        if self._target.counts_request_mark and last is not None:
            if last.ttl != mark.ttl:
                self._losses.add("cache_ttl", "request", "written as that of the last block")
            return last
        return self._fit_lifetime(mark, self._target.request_ttls, "request")

    def _fit_lifetime(self, mark: CacheMark, ttls: dict[str, str], where: str) -> CacheMark:
        if self._target.only_refusals and not ttls:
            return mark
        ttl = ttls.get(mark.ttl or "", "") or None
        if self._target.falling_ttls and not self._lenient:
            is_long = ttl == _LONGEST_TTL
            if is_long and self._has_short_mark:
                ttl = None
            self._has_short_mark = self._has_short_mark or not is_long
        if ttl == mark.ttl:
            return mark
        self._losses.add("cache_ttl", where, f"written as {ttl or 'the default'}")
        return CacheMark(ttl)


def _tag(block: InputBlock) -> str:
    return str(block.__struct_config__.tag)
