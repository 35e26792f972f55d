"""Fields of one dialect that have no place in another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import Struct, structs

from streamnorm._core.blocks import CacheMark, InputBlock, ToolResult
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.request import InputMessage, Request, replace_parts, same_parts
from streamnorm._core.losses import Losses
from streamnorm._core.tools import AnyTool

P = TypeVar("P", bound=Struct)


def drop_foreign_fields(part: P, dialect: str, losses: Losses, where: str) -> P:
    """Return a part without the extra fields of other dialects; each is a loss of its name.

    Args:
        part: A request, or a part of one, with a field `extra`.
        dialect: The target.
        losses: Counts the fields; a null is none.
        where: Where the part stands.
    """
    extra: dict[str, dict[str, Any]] | None = getattr(part, "extra")  # noqa: B009 - of any struct
    if not extra or (len(extra) == 1 and dialect in extra):
        return part
    for other, fields in extra.items():
        if other != dialect:
            for name, value in fields.items():
                if value is not None:
                    losses.add(name, where, "dropped")
    return structs.replace(part, extra={dialect: extra[dialect]} if dialect in extra else None)


_LONGEST_TTL = "1h"  # of the vendor that wants lifetimes to fall

M = TypeVar("M", bound="InputBlock | AnyTool")


def project_cache_marks(
    request: Request, target: BodyCapabilities, losses: Losses, *, lenient: bool
) -> Request:
    """Return a request with the marks that the target can have.

    Args:
        request: The request.
        target: Capabilities of the target.
        losses: Counts marks that are dropped, and lifetimes that are changed.
        lenient: Whether the number of its marks is the client's affair.
    """
    projector = _MarkProjector(target, losses, lenient=lenient)
    marked = projector.project(request)
    excess = projector.kept - target.max_marks
    if target.counts_request_mark and marked.cache is not None and "cache" in target.fields:
        excess += 1
    if lenient or target.counts_written_marks or excess <= 0:
        return marked
    # The last marks cover what the first ones do.
    return _MarkProjector(target, losses, lenient=lenient, to_drop=excess).project(marked)


class _MarkProjector:
    """Drops marks that a target has no place for.

    Args:
        target: Capabilities of the target.
        losses: Counts them.
        lenient: Whether the marks are the client's affair.
        to_drop: Number of marks to drop although the target has a place for them.

    Attributes:
        kept: Number of marks that were kept.
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
        """Return a request whose marks are dropped in the order in which a model reads it."""
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
        if not any(map(_is_marked, message.blocks)):
            return message
        is_assistant = message.role == "assistant"
        blocks = tuple(
            self._project_block(block, is_assistant=is_assistant) if _is_marked(block) else block
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
        """Return a tool result whose content has no marks that the target refuses there."""
        if not (self._target.marks_in_results or self._lenient):
            return self._move_marks_out(result)
        content: Sequence[Any] = result.content
        marked = tuple(self._project_mark(item, _tag(item), "messages") for item in content)
        if same_parts(result.content, marked) is result.content:
            return result
        return structs.replace(result, content=marked)

    def _move_marks_out(self, result: ToolResult) -> ToolResult:
        """Return a tool result with the last mark of its content, if it has none itself."""
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
        """Return the mark of the whole request, which is after all others."""
        if mark is None or self._lenient or "cache" not in self._target.fields:
            return mark
        last = messages[-1].blocks[-1].cache if messages and messages[-1].blocks else None
        if self._target.counts_request_mark and last is not None:  # of the block that it marks, too
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


def _is_marked(block: InputBlock) -> bool:
    """Return whether a block has a mark, or one of its content has."""
    if block.cache is not None:
        return True
    if type(block) is ToolResult:
        return any(item.cache is not None for item in block.content)
    return False


def _tag(block: InputBlock) -> str:
    return str(block.__struct_config__.tag)
