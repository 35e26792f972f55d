"""Placement of tool results: each result right after the message with its call.

Every vendor refuses a conversation that goes on before each call has its result.  A result
belongs to a call of the last assistant message before it.  A result after a later assistant
message is late; a result of an unknown call is an orphan.  `CallIds` writes the ids by which
results name their calls.

A custom call may have further results, which name its tool: Codex 0.171 adds each `notify()` of a
script as one more `custom_tool_call_output`, also after later assistant messages.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Sequence, Set
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

from msgspec import structs

from streamnorm._core.blocks import (
    InputBlock,
    OpaqueBlock,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.request import InputMessage, is_same_dialect, same_parts
from streamnorm._core.errors import EncodeError
from streamnorm._core.losses import Losses
from streamnorm._core.losses.reducers import CLIENT_KINDS
from streamnorm._core.text import digest_id, escape_id

RepairPolicy: TypeAlias = Literal["error", "fill"]
"""Policy for missing and misplaced tool results: an error, or the missing ones are filled in and
the misplaced ones moved."""

FilledCalls: TypeAlias = Set[tuple[int, str]]
"""Calls whose missing results were filled in when an earlier state of a history was encoded, by
the position of the message behind which these results stand, and their ids."""

NO_RESULT = "No result was recorded for this tool call."

_OUTPUTS = frozenset(f"{kind}_output" for kind in CLIENT_KINDS)
_APPROVAL = "mcp_approval_response"


class _OpenCalls:
    """The unanswered calls of the last answer, in order.

    Attributes:
        ids: Ids of all calls of the answer, answered ones included.
    """

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self._answered: set[str] = set()
        self._queues: dict[tuple[bool, str], deque[str]] = {}

    def add(self, call: ToolCall, *, minted: bool) -> None:
        """Add a call.

        Args:
            call: The call, with its id.
            minted: Whether its id was minted, since it came without one.
        """
        self.ids.add(call.id)
        for name in {call.name, ""}:
            for only_minted in {False, minted}:
                self._queues.setdefault((only_minted, name), deque()).append(call.id)

    def set_answered(self, id: str) -> None:
        """Mark a call as answered by a result with its id."""
        self._answered.add(id)

    def take(self, name: str, *, only_minted: bool) -> str | None:
        """Mark the first unanswered call of a tool as answered; return the call's id, or None.

        Args:
            name: Name of the tool; "" for any.
            only_minted: Whether to consider only calls with a minted id.
        """
        ids = self._queues.get((only_minted, name), deque())
        while ids:
            id = ids.popleft()
            if id not in self._answered:
                self._answered.add(id)
                return id
        return None


def mint_ids(
    messages: tuple[InputMessage, ...], losses: Losses, *, settled: int = 0
) -> tuple[InputMessage, ...]:
    """Return messages in which all calls and results have ids; mint the missing call ids.

    A result without an id answers the first unanswered call of the tool that it names, or the
    first unanswered call if it names none: google-genai's automatic function calling repeats
    the name of a call, and leaves out its id.  A result with an unknown id answers a call that
    came without one.

    Args:
        messages: The messages.
        losses: Counter of results that are matched by name or order.
        settled: Length of the prefix that stays as it is.
    """
    if not any(map(_lacks_id, messages[settled:])):
        return messages
    minted = list(messages[:settled])
    calls = _OpenCalls()
    follows_assistant = False
    for position, message in enumerate(messages[settled:], settled):
        is_assistant = message.role == "assistant"
        if is_assistant:
            if not follows_assistant:  # consecutive assistant messages are one answer
                calls = _OpenCalls()
            blocks = _add_call_ids(message.blocks, position, calls)
        else:
            if follows_assistant:
                _find_answered(messages, position, calls)
            blocks = _add_result_ids(message.blocks, calls, losses)
        follows_assistant = is_assistant
        changed = same_parts(message.blocks, blocks) is not message.blocks
        minted.append(structs.replace(message, blocks=blocks) if changed else message)
    return tuple(minted)


def _lacks_id(message: InputMessage) -> bool:
    """Return whether a message has a call or a result without an id."""
    for block in message.blocks:
        if isinstance(block, ToolCall):
            if not block.id:
                return True
        elif isinstance(block, ToolResult) and not block.tool_call_id:
            return True
    return False


def _add_call_ids(
    blocks: tuple[InputBlock, ...], position: int, calls: _OpenCalls
) -> tuple[InputBlock, ...]:
    """Return the blocks with ids minted for calls that lack one, and add all calls to `calls`."""
    named: list[InputBlock] = []
    count = 0
    for block in blocks:
        if isinstance(block, ToolCall):
            is_minted = not block.id
            if is_minted:
                block = structs.replace(block, id=f"call_{position}_{count}")
            calls.add(block, minted=is_minted)
            count += 1
        named.append(block)
    return tuple(named)


def _find_answered(messages: Sequence[InputMessage], start: int, calls: _OpenCalls) -> None:
    """Mark calls as answered if their result precedes the next assistant message."""
    for message in islice(messages, start, None):
        if message.role == "assistant":
            return
        for result in message.tool_results:
            calls.set_answered(result.tool_call_id)


def _add_result_ids(
    blocks: tuple[InputBlock, ...], calls: _OpenCalls, losses: Losses
) -> tuple[InputBlock, ...]:
    """Return the blocks with an id in each tool result, and mark the answered calls."""
    named: list[InputBlock] = []
    for block in blocks:
        if isinstance(block, ToolResult) and block.tool_call_id not in calls.ids:
            id = calls.take(block.name, only_minted=bool(block.tool_call_id))
            if id is not None:
                losses.add("result_matched_by_order", "messages", "given the id of a call")
                block = structs.replace(block, tool_call_id=id)
        named.append(block)
    return tuple(named)


def place_results(
    messages: tuple[InputMessage, ...],
    target: BodyCapabilities,
    losses: Losses,
    repair: RepairPolicy,
    *,
    settled: int = 0,
    filled: FilledCalls = frozenset(),
) -> tuple[InputMessage, ...]:
    """Return messages with the result of every call where the target expects it.

    Messages that are in order already stay the same objects.

    Args:
        messages: The messages; each call has an id.
        target: Capabilities of the target.
        losses: Counter of moved, dropped and filled-in results.
        repair: Policy for missing and misplaced results.
        settled: Length of the prefix that stays as it is.
        filled: Calls whose results were filled in before, and stay so: their real results are
            late wherever they stand.

    Raises:
        EncodeError: `repair` is `error`, and a result is missing, late, an orphan, or
            contradicts another result of its call; or two calls have one id.
    """
    placed = _Placement(messages, target, losses, repair, filled).place(settled)
    return same_parts(messages, tuple(placed))


class _Placement:
    def __init__(
        self,
        messages: Sequence[InputMessage],
        target: BodyCapabilities,
        losses: Losses,
        repair: RepairPolicy,
        filled: FilledCalls,
    ) -> None:
        self._messages = messages
        self._filled: dict[int, set[str]] = {}  # ids by position
        for position, id in filled:
            self._filled.setdefault(position, set()).add(id)
        self._target = target
        self._losses = losses
        self._fills = repair == "fill"
        self._placed: list[InputMessage] = []
        self._known: set[str] = set()  # ids of all calls so far
        self._custom: set[str] = set()  # ids of the custom calls so far

    def place(self, start: int) -> list[InputMessage]:
        messages, end = self._messages, len(self._messages)
        self._placed += messages[:start]
        for message in self._placed:
            self._add_calls(message)
        while start < end:
            message = messages[start]
            stop = start + 1
            if message.role == "assistant" and message.tool_calls:
                # Behind results that were filled in, the model has given its next answer.
                while (
                    stop < end
                    and messages[stop].role == "assistant"
                    and not self._find_filled(message, stop - 1)
                ):
                    message = self._fold(message, messages[stop])
                    stop += 1
                first = stop
                while stop < end and messages[stop].role != "assistant":
                    stop += 1
                late: set[str] = set()
                for position in range(start, first):
                    late |= self._find_filled(message, position)
                self._place_window(message, messages[first:stop], start, first, late)
            elif message.role != "assistant" and message.tool_results:
                self._placed.append(self._move_strays(message, start))
            else:
                self._placed.append(message)
            start = stop
        return self._placed

    def _add_calls(self, message: InputMessage) -> None:
        for call in message.tool_calls:
            self._known.add(call.id)
            if call.kind == "custom":
                self._custom.add(call.id)

    def _is_further(self, result: ToolResult) -> bool:
        """Return whether a result may follow another result of its call."""
        return bool(result.name) and result.tool_call_id in self._custom

    def _find_filled(self, message: InputMessage, position: int) -> set[str]:
        """Return the ids of a message's calls whose results were filled in behind a position."""
        filled = self._filled.get(position)
        return filled & {call.id for call in message.tool_calls} if filled else set()

    def _fold(self, message: InputMessage, later: InputMessage) -> InputMessage:
        """Join two consecutive assistant messages, whose calls share one set of results."""
        self._losses.add("messages_merged", "messages", "calls of one answer joined")
        return structs.replace(message, blocks=message.blocks + later.blocks)

    def _place_window(
        self,
        message: InputMessage,
        window: Sequence[InputMessage],
        start: int,
        first: int,
        late: Set[str],
    ) -> None:
        """Append an assistant message and the messages that follow it, with tool results in place.

        Args:
            message: The assistant message.
            window: The messages after it.
            start: Position of the assistant message, for errors.
            first: Position of the first message of the window.
            late: Ids of the calls whose results are late.
        """
        ids = [call.id for call in message.tool_calls]
        if len(set(ids)) < len(ids):
            raise EncodeError(
                "two calls with one id, expected an id for each", path=f"messages[{start}]"
            )
        self._add_calls(message)
        self._placed.append(message)
        if not late and self._is_in_order(window, ids):
            self._placed += window
            return
        results, others = self._collect(window, first, [id for id in ids if id not in late])
        if self._target.split_results and len(results) == len(ids):
            # A shorter history, without what the client has added to them, has their own order,
            # and the provider may have cached it.
            ids = [*results]
        answers = [
            results[id] if id in results else self._fill_missing(start, number, id)
            for number, id in enumerate(ids)
        ]
        self._placed += [InputMessage("user", tuple(answers)), *others]

    def _is_in_order(self, window: Sequence[InputMessage], ids: list[str]) -> bool:
        """Return whether the results between two answers are where the target expects them."""
        found: list[str] = []
        carriers = 0
        is_over = False  # other content has begun, behind which no result may follow
        for message in window:
            is_carrier = False
            for block in message.blocks:
                if not isinstance(block, ToolResult):
                    is_over = True
                elif is_over:
                    return False
                else:
                    is_carrier = True
                    found.append(block.tool_call_id)
            carriers += is_carrier
            if is_carrier and is_over and not self._target.mixed_results:
                return False
            is_over = True if not self._target.split_results else is_over or not is_carrier
        if self._target.split_results:
            return len(found) == len(ids) and sorted(found) == sorted(ids)
        return found == ids

    def _collect(
        self, window: Sequence[InputMessage], first: int, ids: list[str]
    ) -> tuple[dict[str, ToolResult], list[InputMessage]]:
        """Return the results between two assistant messages by call id, and the other messages."""
        asked = frozenset(ids)
        results: dict[str, ToolResult] = {}
        further: dict[str, list[ToolResult]] = {}
        others: list[InputMessage] = []
        is_moved = False
        for number, message in enumerate(window, first):
            rest: list[InputBlock] = []
            for place, block in enumerate(message.blocks):
                if not isinstance(block, ToolResult):
                    rest.append(block)
                elif block.tool_call_id not in asked:
                    rest += self._move_stray(block, f"messages[{number}].blocks[{place}]")
                elif block.tool_call_id in results and self._is_further(block):
                    self._losses.add("results_joined", "messages", "written as one")
                    further.setdefault(block.tool_call_id, []).append(block)
                elif (before := results.get(block.tool_call_id)) is not None:
                    self._drop_duplicate(block, before, f"messages[{number}].blocks[{place}]")
                else:
                    is_moved = is_moved or bool(others) or bool(rest)
                    results[block.tool_call_id] = block
            if not message.tool_results:
                others.append(message)
            elif rest:
                others.append(structs.replace(message, blocks=tuple(rest)))
        takes_any_order = self._target.split_results
        if is_moved or not (takes_any_order or [id for id in ids if id in results] == [*results]):
            self._losses.add("results_reordered", "messages", "written in the order of the calls")
        for id, notes in further.items():
            content = tuple([part for each in (results[id], *notes) for part in each.content])
            results[id] = structs.replace(results[id], content=content, value=None)
        return results, others

    def _fill_missing(self, position: int, number: int, id: str) -> ToolResult:
        if not self._fills:
            raise EncodeError(
                "call without a result, expected one before the next assistant message",
                path=f"messages[{position}].tool_calls[{number}]",
            )
        self._losses.add("result_filled", "messages", "written as an error")
        return ToolResult(id, (Text(NO_RESULT),), is_error=True)

    def _drop_duplicate(self, result: ToolResult, before: ToolResult, path: str) -> None:
        if not self._fills and (result.content, result.is_error) != (
            before.content,
            before.is_error,
        ):
            raise EncodeError("another result of the same call, expected one", path=path)
        self._losses.add("duplicate_result", "messages", "dropped")

    def _move_strays(self, message: InputMessage, position: int) -> InputMessage:
        blocks: list[InputBlock] = []
        for place, block in enumerate(message.blocks):
            if isinstance(block, ToolResult):
                blocks += self._move_stray(block, f"messages[{position}].blocks[{place}]")
            else:
                blocks.append(block)
        return structs.replace(message, blocks=tuple(blocks))

    def _move_stray(self, result: ToolResult, path: str) -> list[InputBlock]:
        """Return a late or orphaned result as ordinary content of the message with the result."""
        is_late = result.tool_call_id in self._known
        if not self._fills and not self._is_further(result):
            found = "result after the next assistant message" if is_late else "result of no call"
            raise EncodeError(f"{found}, expected the result of a call before it", path=path)
        feature = "late_result" if is_late else "orphan_result"
        self._losses.add(feature, "messages", "written as user content")
        return [Text(f"[result of tool call {result.tool_call_id}]"), *result.content]


def fit_result_placement(
    messages: tuple[InputMessage, ...], target: BodyCapabilities, losses: Losses
) -> tuple[InputMessage, ...]:
    """Split messages that mix tool results with other content, if the target's server refuses them.

    Raises:
        EncodeError: A result answers no call before it, and the server refuses that.
    """
    if target.orphan_results and target.mixed_results:
        return messages
    fitted: list[InputMessage] = []
    known: set[str] = set()
    for position, message in enumerate(messages):
        known.update(call.id for call in message.tool_calls)
        for place, block in enumerate(message.blocks):
            is_orphan = isinstance(block, ToolResult) and block.tool_call_id not in known
            if is_orphan and not target.orphan_results:
                raise EncodeError(
                    "result of no call, expected the result of a call before it",
                    path=f"messages[{position}].blocks[{place}]",
                )
        if target.mixed_results or not message.tool_results:
            fitted.append(message)
        else:
            fitted += _split_message(message, losses)
    return same_parts(messages, tuple(fitted))


def _split_message(message: InputMessage, losses: Losses) -> list[InputMessage]:
    """Split a message into its results and its other content."""
    others = tuple(block for block in message.blocks if not isinstance(block, ToolResult))
    if not others:
        return [message]
    losses.add("message_split", "messages", "results apart from other content")
    return [
        structs.replace(message, blocks=message.tool_results),
        structs.replace(message, blocks=others, extra=None),
    ]


def check_last_result(messages: tuple[InputMessage, ...], target: BodyCapabilities) -> None:
    """Check that the target can represent a tool result at the end of the history.

    The model would otherwise answer without the result of what the client has executed.

    Raises:
        EncodeError: The target has no form for it.
    """
    position, message = len(messages) - 1, messages[-1]
    if is_same_dialect(message, target.dialect) and target.server_history:
        return
    match message.blocks[-1]:
        case ServerToolResult(kind=kind) if kind in _OUTPUTS:
            pass
        case OpaqueBlock(dialect, kind) if kind == _APPROVAL and dialect != target.dialect:
            pass
        case _:
            return
    path = f"messages[{position}].blocks[{len(message.blocks) - 1}]"
    raise EncodeError(f"{kind} at the end, expected a result that {target.dialect} has", path=path)


def join_call_turns(messages: tuple[InputMessage, ...], losses: Losses) -> tuple[InputMessage, ...]:
    """Join messages so that calls stand in the first assistant message of their answer.

    Args:
        messages: The messages.
        losses: Counter of joined messages.

    Raises:
        EncodeError: The conversation begins with calls.
    """
    joined: list[InputMessage] = []
    for message in messages:
        if message.role == "assistant" and message.tool_calls:
            while joined and joined[-1].role == "assistant":
                losses.add("messages_merged", "messages", "calls joined to the text before them")
                last = joined.pop()
                message = structs.replace(last, blocks=last.blocks + message.blocks)
            if not joined:
                raise EncodeError(
                    "calls before any message of the user, expected one before them",
                    path="messages[0]",
                )
        joined.append(message)
    return same_parts(messages, tuple(joined))


class KnownId(NamedTuple):
    """State of one id of the conversation, for results in later messages.

    Attributes:
        written: Id that the last call with this id was written with.
        repeats: Number of earlier calls with the same id.
    """

    written: str
    repeats: int


class CallIds:
    """Ids of the calls and results of one conversation, read in order.

    Args:
        target: Capabilities of the target.
        losses: Counter of changed ids.
    """

    def __init__(self, target: BodyCapabilities, losses: Losses) -> None:
        self._target = target
        self._losses = losses
        self._ids: dict[str, str] = {}  # ids in the target, by the ids of the conversation
        self._written: set[str] = set()
        self._repeats: Counter[str] = Counter()
        self._pattern = None if target.id_pattern is None else re.compile(target.id_pattern)

    def keep(self, id: str) -> str:
        """Record a call whose id is written as it is; return the id."""
        self._ids[id] = id
        self._written.add(id)
        return id

    def add(self, id: str) -> str:
        """Return the id of a call, with characters and a length that the target accepts."""
        id = self.of_result(id)
        self._written.add(id)
        return id

    def add_repeated(self, id: str) -> str:
        """Return the id of a call that an earlier call has, with a number."""
        self._losses.add("tool_id_changed", "messages", "written with a number")
        self._ids[id] = self._legalize(self._number(id))
        return self.add(id)

    def of_result(self, id: str) -> str:
        """Return the id in the target of the call that a result answers."""
        known = self._ids.get(id)
        if known is None:
            known = self._ids[id] = self._legalize(id)
        return known

    def is_written(self, id: str) -> bool:
        """Return whether a call was written with an id, such as a number after another id."""
        return id in self._written

    def current(self, id: str) -> str:
        """Return the id that the last call with an id was written with, or the id itself."""
        return self._ids.get(id, id)

    def record(self, id: str) -> KnownId:
        """Return the state of a call's id."""
        return KnownId(self._ids[id], self._repeats[id])

    def restore(self, id: str, known: KnownId) -> None:
        """Restore the state of a call's id."""
        self._ids[id], self._repeats[id] = known
        self._written.add(known.written)

    def _number(self, id: str) -> str:
        while True:
            self._repeats[id] += 1
            numbered = f"{id}_{self._repeats[id] + 1}"
            if numbered not in self._written:
                return numbered

    def _legalize(self, id: str) -> str:
        if not self._is_illegal(id):
            return id
        if self._target.only_refusals:
            if not id:  # google-genai leaves ids out; there is no field to change
                return id
            self._losses.add("tool_id_changed", "messages", "written in the server's characters")
        escaped = escape_id(id)
        if not self._is_illegal(escaped):
            return escaped
        return digest_id(id)[: self._target.max_id_chars]

    def _is_illegal(self, id: str) -> bool:
        longest = self._target.max_id_chars
        return (longest is not None and len(id) > longest) or (
            self._pattern is not None and self._pattern.fullmatch(id) is None
        )
