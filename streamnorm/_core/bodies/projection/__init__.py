"""The projection of a request onto what a target accepts, cache marks last.

Results of tools are placed first, since later steps see whole turns; blocks, instructions, tools
and options follow.  Each step is a module beside this one.

A mark that the target refuses is dropped or moved; the request stays valid without it, and only
costs more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import structs

from streamnorm._core.blocks import CacheMark, InputBlock, OpaqueBlock, ToolCall, ToolResult
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.memo import EncodingMemo
from streamnorm._core.bodies.projection.content import ContentProjector
from streamnorm._core.bodies.projection.instructions import drop_prefill, place_instructions
from streamnorm._core.bodies.projection.options import project_options
from streamnorm._core.bodies.projection.reasoning_options import (
    drop_unsigned_budget,
    fit_effort_to_tools,
    project_reasoning_options,
)
from streamnorm._core.bodies.projection.results import (
    FilledCalls,
    RepairPolicy,
    fit_result_placement,
    join_call_turns,
    mint_ids,
    place_results,
)
from streamnorm._core.bodies.projection.tools import (
    MissingTools,
    ToolNames,
    check_missing_tools,
    project_choice,
    project_tools,
)
from streamnorm._core.bodies.request import (
    InputMessage,
    Reply,
    Request,
    drop_foreign_fields,
    is_same_dialect,
    replace_parts,
    same_parts,
    unchanged_source,
)
from streamnorm._core.bodies.wire_fields import is_joint_beta
from streamnorm._core.errors import EncodeError
from streamnorm._core.losses import Losses
from streamnorm._core.tools import AnyTool

# Error texts never carry a payload: a kind that is no plain word is described by its length.
_KIND = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_MAX_KINDS = 3

# Along tools, instructions and messages lifetimes may not grow: Anthropic answers a mark of one
# hour behind a mark of five minutes with status 400.
_LONGEST_TTL = "1h"

M = TypeVar("M", bound="InputBlock | AnyTool")


def project_request(
    request: Request,
    target: BodyCapabilities,
    losses: Losses,
    *,
    repair: RepairPolicy = "error",
    missing_tools: MissingTools = "error",
    same_target: bool = False,
    named: bool = False,
    memo: EncodingMemo | None = None,
    filled: FilledCalls = frozenset(),
) -> tuple[Request, Reply]:
    """Return a request reduced to what a target accepts, and the context of its response.

    A part that the target accepts stays the same object, so that its spelling is kept.

    Args:
        request: The request.
        target: Capabilities of the target.
        losses: Counter of dropped and changed features.
        repair: Policy for tool results that are missing or out of place.
        missing_tools: Policy for tools of the provider that the target lacks.
        same_target: Whether the request is in the target's dialect and no profile narrows the
            target: the client is then expected to obey the rules itself.
        named: Whether the target is a named server with profiles, whose rules also apply to
            requests in its own dialect.
        memo: Cache of a growing history; None if the request is projected once.
        filled: Calls whose results were filled in when less of the history was encoded.

    Raises:
        EncodeError: The request has no legal form in the target.
        LossyEncoding: Something would be lost, and the losses are strict.
    """
    if same_target and unchanged_source(request, target.dialect) is not None:
        # If the provider holds the conversation (`previous_response_id`), results may answer
        # calls that are not in this request.
        is_left = repair == "error" or request.state is not None
        if is_left or _count_in_order(request.messages, target, filled) == len(request.messages):
            return request, Reply()
    same_dialect = is_same_dialect(request, target.dialect)
    for name in request.state or ():
        if not (same_dialect and _has_field(name, target)):
            found = (
                "state that the server does not hold"
                if same_dialect
                else "state of another provider"
            )
            raise EncodeError(
                f"{found}, expected the whole conversation in the request",
                path=f"state.{name}",
            )
    lenient = same_dialect and not named
    known = structs.replace(target, name_pattern=None) if same_target else target
    names = ToolNames(request.tools, known, losses)
    # A model that does not reason unasked has no options to fit if the request has none.
    if not same_target and (request.reasoning is not None or target.reasons_by_default):
        reasoning = project_reasoning_options(request, target, losses, lenient=lenient)
        request = replace_parts(request, reasoning=reasoning)
        request = replace_parts(request, reasoning=fit_effort_to_tools(request, target, losses))
    messages = _order_results(
        request, target, losses, repair, filled, same_dialect=same_dialect, named=named
    )
    fills = repair == "fill"
    # The Responses API stores responses unless the request says `store: false`.
    stored = request.store is True or (same_dialect and request.store is None)
    is_checked = target.vendor_checks and not lenient
    content = ContentProjector(
        target,
        names,
        losses,
        fills=fills,
        same_target=same_target,
        checks=target.vendor_checks and named,
        verifies=is_checked,
        stored=stored,
        memo=memo,
    )
    system, messages = place_instructions(
        content.project_system(request.system, same_dialect=same_dialect),
        content.project(messages),
        target,
        losses,
        checks=target.vendor_checks and named,
    )
    if target.calls_after_user and not lenient:
        messages = join_call_turns(messages, losses)
    if not (target.assistant_last or lenient):
        messages = drop_prefill(messages, losses)
    may_be_empty = (
        same_dialect and not is_checked and not (target.results_required and not request.state)
    )
    if not messages and not may_be_empty:
        lost = _describe_unknown_kinds(request, target)
        raise EncodeError(f"no messages, expected at least one{lost}", path="messages")
    if not (target.prefill or same_target) and messages and messages[-1].role == "assistant":
        losses.add("prefill_not_continued", "messages", "written as a message of its own")
    if target.signed_budgets:
        reasoning = drop_unsigned_budget(request, messages, target, losses, lenient=lenient)
        request = replace_parts(request, reasoning=reasoning)
    tools = project_tools(request, target, names, losses)
    if missing_tools == "error" and tools is not request.tools:
        check_missing_tools(request, tools, target)
    choice = request.tool_choice
    if choice is not None:
        choice, tools = project_choice(
            choice, request, tools, target, names, losses, lenient=lenient
        )
    projected = project_cache_marks(
        replace_parts(request, system=system, messages=messages, tools=tools, tool_choice=choice),
        target,
        losses,
        lenient=lenient,
    )
    if projected.betas and not same_dialect:
        projected = replace_parts(projected, betas=_drop_joint_betas(projected, target))
    projected = project_options(
        projected,
        target,
        losses,
        same_dialect=same_dialect,
        lenient=lenient,
        same_target=same_target,
    )
    if projected.extra is not None:
        projected = drop_foreign_fields(projected, target.dialect, losses, "request")
    return projected, Reply(names.reply)


def _describe_unknown_kinds(request: Request, target: BodyCapabilities) -> str:
    """Return the part of an error text that names the blocks only another dialect has."""
    kinds = dict.fromkeys(
        block.kind if _KIND.fullmatch(block.kind) else f"a type of {len(block.kind)} characters"
        for message in request.messages
        for block in message.blocks
        if isinstance(block, OpaqueBlock)
    )
    listed = ", ".join([*kinds][:_MAX_KINDS])
    return f"; {target.dialect} has no block for {listed}" if listed else ""


def _has_field(name: str, target: BodyCapabilities) -> bool:
    """Return whether the target accepts a field of the body."""
    allowed = target.allowed_fields
    return name not in target.denied_fields and (allowed is None or name in allowed)


def _drop_joint_betas(request: Request, target: BodyCapabilities) -> tuple[str, ...]:
    """Return the betas without those that are lost together with the fields that they enable.

    The field is counted as lost already.
    """
    lost = {
        name
        for dialect, fields in (request.extra or {}).items()
        if dialect != target.dialect
        for name, value in fields.items()
        if value is not None
    }
    betas = tuple(beta for beta in request.betas if not is_joint_beta(beta, lost))
    return same_parts(request.betas, betas)


def _order_results(
    request: Request,
    target: BodyCapabilities,
    losses: Losses,
    repair: RepairPolicy,
    filled: FilledCalls,
    *,
    same_dialect: bool,
    named: bool,
) -> tuple[InputMessage, ...]:
    """Return the messages of a request with each tool result where the target expects it."""
    messages = request.messages
    if not any(map(_has_call_or_result, messages)):
        return messages
    if named and target.vendor_checks and request.state is None:
        # Where the target writes no ids, its own clients send none.  Other results need the id of
        # their call, under whose name in the target they are written.
        is_as_sent = same_dialect and not target.call_ids
        if is_as_sent and _count_in_order(messages, target, filled) == len(messages):
            return messages
        return place_results(mint_ids(messages, losses), target, losses, repair, filled=filled)
    if target.only_refusals:
        if repair == "fill" or target.results_required:
            messages = _repair_results(messages, target, losses, repair, filled)
        return fit_result_placement(messages, target, losses)
    return _repair_results(messages, target, losses, repair, filled)


def _has_call_or_result(message: InputMessage) -> bool:
    return any(isinstance(block, ToolCall | ToolResult) for block in message.blocks)


def _repair_results(
    messages: tuple[InputMessage, ...],
    target: BodyCapabilities,
    losses: Losses,
    repair: RepairPolicy,
    filled: FilledCalls,
) -> tuple[InputMessage, ...]:
    """Return messages with their tool results in place, from the first foreign message on."""
    # Messages that are in the dialect already were accepted as they are, and a provider may have
    # cached them: what is appended must not change them.
    settled = _count_settled(messages, target)
    if repair == "fill" or target.results_required:
        settled = _count_in_order(messages[:settled], target, filled)
    if settled == len(messages):
        return messages
    minted = mint_ids(messages, losses, settled=settled)
    return place_results(minted, target, losses, repair, settled=settled, filled=filled)


def _count_in_order(
    messages: tuple[InputMessage, ...], target: BodyCapabilities, filled: FilledCalls
) -> int:
    """Return the length of the prefix whose tool results are already in place."""
    turns = [n for n, message in enumerate(messages) if message.role == "assistant" and n]
    start = 0
    were_filled = {position for position, _ in filled}
    for end in (*turns, len(messages)):  # results answer the last assistant message before them
        was_filled = not were_filled.isdisjoint(range(start, end))
        if was_filled or not _is_in_order(messages[start:end], target):
            return start
        start = end
    return start


def _is_in_order(messages: tuple[InputMessage, ...], target: BodyCapabilities) -> bool:
    """Return whether the results of one assistant message are where the target expects them."""
    minted = mint_ids(messages, Losses())
    try:
        placed = place_results(minted, target, Losses(), "error")
    except EncodeError:
        return False
    return same_parts(minted, placed) is minted


def _count_settled(messages: tuple[InputMessage, ...], target: BodyCapabilities) -> int:
    """Return the length of the prefix that is in the dialect, its tool results included."""
    foreign = (
        n for n, message in enumerate(messages) if not is_same_dialect(message, target.dialect)
    )
    count = next(foreign, len(messages))
    last = count - 1
    while last >= 0 and messages[last].role != "assistant":
        last -= 1
    if last < 0 or count == len(messages) or not messages[last].tool_calls:
        return count
    end = count
    while end < len(messages) and messages[end].role != "assistant":
        end += 1
    answered = sum(len(message.tool_results) for message in messages[last:count])
    is_answered = answered >= len(messages[last].tool_calls)
    more = any(message.tool_results for message in messages[count:end])
    return count if is_answered and not more else last


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
    if request.cache is None and not _has_marks(request):
        return request
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
        """Return a tool result whose content has only marks that the target accepts there."""
        if not (self._target.marks_in_results or self._lenient):
            return self._move_marks_out(result)
        content: Sequence[Any] = result.content
        marked = tuple(self._project_mark(item, _tag(item), "messages") for item in content)
        if same_parts(result.content, marked) is result.content:
            return result
        return structs.replace(result, content=marked)

    def _move_marks_out(self, result: ToolResult) -> ToolResult:
        """Return a tool result with the last mark of its content moved to the result itself."""
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
        """Return the mark of the whole request, which stands behind all other marks."""
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


def _has_marks(request: Request) -> bool:
    """Return whether a part of a request has a cache mark."""
    return any(part.cache is not None for part in (*request.tools, *request.system)) or any(
        _is_marked(block) for message in request.messages for block in message.blocks
    )


def _is_marked(block: InputBlock) -> bool:
    """Return whether a block, or a block in its content, has a cache mark."""
    if block.cache is not None:
        return True
    if type(block) is ToolResult:
        return any(item.cache is not None for item in block.content)
    return False


def _tag(block: InputBlock) -> str:
    return str(block.__struct_config__.tag)
