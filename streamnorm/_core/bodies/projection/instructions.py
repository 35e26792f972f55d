"""Placement of instructions, and the order of roles that the target demands.

A target has a field for system instructions, a system message, or both; it may refuse system
messages in the middle, two messages of one role in a row, or a last message of the assistant.
"""

from __future__ import annotations

from operator import is_not

from msgspec import structs

from streamnorm._core.blocks import (
    InputBlock,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    Text,
)
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.request import InputMessage, Role, is_same_dialect, same_parts
from streamnorm._core.errors import EncodeError
from streamnorm._core.losses import Losses

_INSTRUCTIONS = ("system", "developer")
_FILLER = InputMessage("assistant", (Text("OK."),))


def drop_prefill(messages: tuple[InputMessage, ...], losses: Losses) -> tuple[InputMessage, ...]:
    """Return messages without the assistant messages at the end.

    The next request of the conversation, with the complete answer and the user's reply, still
    begins with these messages.  An answer paused for server tools stays: the server continues
    it.
    """
    end = len(messages)
    while end and messages[end - 1].role == "assistant" and not _is_paused(messages[end - 1]):
        losses.add("prefill_dropped", "messages", "refused as the last message")
        end -= 1
    return messages[:end]


def _is_paused(message: InputMessage) -> bool:
    """Return whether an assistant message ends in a block that the server continues from."""
    last = message.blocks[-1] if message.blocks else None
    if isinstance(last, OpaqueBlock):
        return last.kind == "compaction"
    return isinstance(last, ServerToolCall | ServerToolResult)


def place_instructions(
    system: tuple[Text, ...],
    messages: tuple[InputMessage, ...],
    target: BodyCapabilities,
    losses: Losses,
    *,
    checks: bool = False,
) -> tuple[tuple[Text, ...], tuple[InputMessage, ...]]:
    """Return the instructions for the target's field, and the messages in a legal order.

    Args:
        system: The instructions of the source's field.
        messages: The messages.
        target: Capabilities of the target.
        losses: Counter of moved and changed messages.
        checks: Whether instructions among messages in the target's dialect are moved, too.

    Raises:
        EncodeError: The server demands a user message, and there is none; or the roles cannot
            alternate.
    """
    leading = 0
    while leading < len(messages) and messages[leading].role in _INSTRUCTIONS:
        leading += 1
    first, rest = messages[:leading], messages[leading:]
    if target.system == "blocks" and first and _leaves_messages(first, target):
        if target.only_refusals:
            losses.add("system_moved", "messages", "written as the system prompt")
        texts = tuple(b for message in first for b in message.blocks if isinstance(b, Text))
        system, first = system + texts, ()
    elif target.system == "message" and system:
        first, system = (InputMessage("system", system), *first), ()
    elif target.system == "text" and not _is_one_text(system):
        first, system = (InputMessage("developer", system), *first), ()
    first = tuple(_fit_role(message, target) for message in first)
    if target.single_system and len(first) > 1:
        losses.add("messages_merged", "system", "joined to the first")
        blocks = tuple(block for message in first for block in message.blocks)
        first = (InputMessage("system", blocks),)
    match target.inline_system:
        case "message":
            rest = tuple(_fit_role(message, target) for message in rest)
        case "after_user":
            rest = _move_instructions(rest, target, losses, checks=checks)
        case _:
            rest = tuple(_demote(message, losses) for message in rest)
    messages = same_parts(messages, first + rest)
    if target.strict_alternation:
        messages = _alternate_roles(_merge_same_roles(messages, target, losses), losses)
    if target.results_then_assistant:
        messages = _fill_after_results(messages, losses)
    if target.user_message and not any(map(_is_question, messages)):
        raise EncodeError("no message of the user, expected one", path="messages")
    return system, messages


def _leaves_messages(first: tuple[InputMessage, ...], target: BodyCapabilities) -> bool:
    """Return whether leading system messages move to the target's field for instructions."""
    is_refused = target.only_refusals and target.inline_system == "text"
    return is_refused or not all(is_same_dialect(message, target.dialect) for message in first)


def _is_question(message: InputMessage) -> bool:
    """Return whether a user message has other content than tool results."""
    if message.role != "user":
        return False
    return not message.tool_results or len(message.tool_results) < len(message.blocks)


def _is_turn(message: InputMessage) -> bool:
    """Return whether chat templates count a message as a turn; calls and results are none."""
    is_answer = message.role == "assistant"
    return not message.tool_calls if is_answer else _is_question(message)


def _is_one_text(system: tuple[Text, ...]) -> bool:
    """Return whether instructions are a single text without a cache mark or other fields."""
    return not system or (len(system) == 1 and system[0].cache is None and system[0].extra is None)


def _fit_role(message: InputMessage, target: BodyCapabilities) -> InputMessage:
    if message.role not in _INSTRUCTIONS or message.role in target.roles:
        return message
    role: Role = "developer" if "developer" in target.roles else "system"
    return message if message.role == role else structs.replace(message, role=role)


def _demote(message: InputMessage, losses: Losses) -> InputMessage:
    """Return a system message as a user message with `<system>` tags; any other unchanged."""
    if message.role not in _INSTRUCTIONS:
        return message
    losses.add("system_demoted", "messages", "written as <system> in a user message")
    _count_extra(message, losses)
    blocks: tuple[InputBlock, ...] = tuple(
        structs.replace(block, text=f"<system>\n{block.text}\n</system>")
        if isinstance(block, Text)
        else block
        for block in message.blocks
    )
    return InputMessage("user", blocks, message.name)


def _count_extra(message: InputMessage, losses: Losses) -> None:
    """Count the vendor fields of a system message as lost."""
    for fields in (message.extra or {}).values():
        for name in fields:
            losses.add(name, "messages", "dropped with its message")


def _move_instructions(
    messages: tuple[InputMessage, ...], target: BodyCapabilities, losses: Losses, *, checks: bool
) -> tuple[InputMessage, ...]:
    """Return messages whose instructions stand last in each turn, joined into one message."""
    if not any(message.role in _INSTRUCTIONS for message in messages):
        return messages
    placed: list[InputMessage] = []
    turn: list[InputMessage] = []  # messages since the last one of the assistant
    for position, message in enumerate((*messages, None)):
        if message is not None and message.role != "assistant":
            turn.append(message)
            continue
        is_settled = not checks and all(is_same_dialect(each, target.dialect) for each in turn)
        placed += turn if is_settled else _put_instructions_last(turn, placed, losses)
        placed += messages[position : position + 1]
        turn = []
    return same_parts(messages, tuple(placed))


def _put_instructions_last(
    turn: list[InputMessage], before: list[InputMessage], losses: Losses
) -> list[InputMessage]:
    """Return the messages of a turn with its instructions last, joined to one message.

    Args:
        turn: The messages between two assistant messages.
        before: The messages before the turn.
        losses: Counter of moved messages.
    """
    instructions = [message for message in turn if message.role in _INSTRUCTIONS]
    if not instructions:
        return turn
    others = [message for message in turn if message.role not in _INSTRUCTIONS]
    if not others and not (before and _is_paused(before[-1])):
        return [_demote(message, losses) for message in turn]
    if any(map(is_not, others + instructions, turn)):
        losses.add("system_moved", "messages", "written after the messages of the user")
    return [*others, _join_instructions(instructions, losses)]


def _join_instructions(instructions: list[InputMessage], losses: Losses) -> InputMessage:
    """Join instructions to one system message: two in a row are refused."""
    first, *more = instructions
    if not more:
        return first if first.role == "system" else structs.replace(first, role="system")
    losses.add("messages_merged", "messages", "instructions joined")
    for message in instructions:
        _count_extra(message, losses)
    return InputMessage("system", tuple(block for each in instructions for block in each.blocks))


def _merge_same_roles(
    messages: tuple[InputMessage, ...], target: BodyCapabilities, losses: Losses
) -> tuple[InputMessage, ...]:
    """Join consecutive messages of one role; messages with tool results stay apart."""
    merged: list[InputMessage] = []
    for message in messages:
        last = merged[-1] if merged else None
        if last is None or last.role != message.role or last.tool_results or message.tool_results:
            merged.append(message)
            continue
        if target.only_refusals and not (_is_turn(last) and _is_turn(message)):
            merged.append(message)
            continue
        losses.add("messages_merged", "messages", "joined by a blank line")
        merged[-1] = structs.replace(last, blocks=_join_blocks(last.blocks, message.blocks))
    return same_parts(messages, tuple(merged))


def _alternate_roles(
    messages: tuple[InputMessage, ...], losses: Losses
) -> tuple[InputMessage, ...]:
    """Return messages whose turns alternate between user and assistant, the user first.

    Two user turns in a row get a filler of the assistant between them.

    Raises:
        EncodeError: An assistant turn comes where the user's is expected.
    """
    placed: list[InputMessage] = []
    expected = "user"
    for position, message in enumerate(messages):
        is_counted = _is_turn(message)
        if is_counted and message.role != expected:
            if message.role == "assistant":
                raise EncodeError(
                    "a message of the assistant, expected one of the user before it",
                    path=f"messages[{position}]",
                )
            losses.add("assistant_filled", "messages", "written between results and the user")
            placed.append(_FILLER)
            expected = "user"
        if is_counted:
            expected = "assistant" if expected == "user" else "user"
        placed.append(message)
    return same_parts(messages, tuple(placed))


def _fill_after_results(
    messages: tuple[InputMessage, ...], losses: Losses
) -> tuple[InputMessage, ...]:
    """Return messages with a filler of the assistant between tool results and a user message."""
    answered: list[InputMessage] = []
    for message in messages:
        follows = bool(answered) and bool(answered[-1].tool_results)
        if follows and message.role != "assistant" and not message.tool_results:
            losses.add("assistant_filled", "messages", "written between results and the user")
            answered.append(_FILLER)
        answered.append(message)
    return same_parts(messages, tuple(answered))


def _join_blocks(
    before: tuple[InputBlock, ...], after: tuple[InputBlock, ...]
) -> tuple[InputBlock, ...]:
    """Join the blocks of two messages; adjacent texts become one, with a blank line between."""
    if before and after and isinstance(before[-1], Text) and isinstance(after[0], Text):
        text = f"{before[-1].text}\n\n{after[0].text}"
        return (*before[:-1], structs.replace(after[0], text=text), *after[1:])
    return before + after
