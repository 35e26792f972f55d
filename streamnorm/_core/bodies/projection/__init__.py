"""The projection of a request onto what a target accepts.

The order of its messages is fitted here: results of tools are placed first, since later steps see
whole turns, then instructions, and the roles that the target demands.  A target has a field for
system instructions, a system message, or both; it may refuse system messages in the middle, two
messages of one role in a row, or a last message of the assistant.

The other steps are the modules beside this one: blocks, tools, cache marks and options.
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
    ToolCall,
    ToolResult,
)
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.memo import EncodingMemo
from streamnorm._core.bodies.projection.cache_marks import project_cache_marks
from streamnorm._core.bodies.projection.content import ContentProjector
from streamnorm._core.bodies.projection.history import describe_lost
from streamnorm._core.bodies.projection.instructions import INSTRUCTIONS, move_instruction_media
from streamnorm._core.bodies.projection.options import (
    ask_for_json,
    has_output_schema,
    project_options,
)
from streamnorm._core.bodies.projection.positions import path_before
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
    Role,
    drop_foreign_fields,
    has_cache_marks,
    is_same_dialect,
    replace_parts,
    same_parts,
    unchanged_source,
)
from streamnorm._core.bodies.wire_fields import is_joint_beta
from streamnorm._core.errors import EncodeError
from streamnorm._core.losses import Losses

_FILLER = InputMessage("assistant", (Text("OK."),))


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
        if not (same_dialect and target.has_field(name)):
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
    known = target
    if same_target:
        known = structs.replace(target, name_pattern=None, property_pattern=None)
    names = ToolNames(request.tools, known, losses)
    asked = request.reasoning
    # A model that does not reason unasked has no options to fit if the request has none.
    if not same_target and (asked is not None or target.reasons_by_default):
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
        judges_answers=target.vendor_checks or not named,
        memo=memo,
    )
    system = content.project_system(request.system, same_dialect=same_dialect)
    try:
        projected_messages = content.project(messages)
    except EncodeError as exc:
        path = path_before(exc.path, messages, request.messages)
        raise EncodeError(exc.args[0], path=path) from exc
    if not target.system_media and any(each.role in INSTRUCTIONS for each in projected_messages):
        projected_messages = move_instruction_media(projected_messages, target, losses)
    system, messages = place_instructions(
        system,
        projected_messages,
        target,
        losses,
        checks=target.vendor_checks and named,
    )
    if target.calls_after_user and not lenient:
        messages = join_call_turns(messages, losses)
    if not (target.assistant_last or lenient):
        messages = drop_prefill(messages, losses, "refused as the last message")
    elif not (target.prefill_with_schema or lenient) and has_output_schema(request, target):
        messages = drop_prefill(messages, losses, "refused beside a schema of the answer")
    may_be_empty = (
        same_dialect and not is_checked and not (target.results_required and not request.state)
    )
    if not messages and not may_be_empty:
        lost = describe_lost(request, target)
        raise EncodeError(f"no messages, expected at least one{lost}", path="messages")
    if not (target.prefill or same_target) and messages and _is_prefill(messages[-1]):
        losses.add("prefill_not_continued", "messages", "written as a message of its own")
    if target.signed_budgets:
        # A budget in place of the client's own mode is none that the client fits its history to.
        is_own = asked is None or asked.mode == "budget"
        reasoning = drop_unsigned_budget(
            request, messages, target, losses, lenient=lenient and is_own
        )
        request = replace_parts(request, reasoning=reasoning)
    tools = project_tools(request, target, names, losses)
    if missing_tools == "error" and tools is not request.tools:
        check_missing_tools(request, tools, target)
    choice = request.tool_choice
    if choice is not None:
        choice, tools = project_choice(
            choice, request, tools, target, names, losses, lenient=lenient
        )
    projected = replace_parts(
        request, system=system, messages=messages, tools=tools, tool_choice=choice
    )
    if has_cache_marks(projected):
        projected = project_cache_marks(projected, target, losses, lenient=lenient)
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
    if not lenient:
        projected = ask_for_json(projected, target, losses)
    if projected.extra is not None:
        projected = drop_foreign_fields(projected, target.dialect, losses, "request")
    return projected, Reply(names.reply)


def _drop_joint_betas(request: Request, target: BodyCapabilities) -> tuple[str, ...]:
    """Return the betas of a request, without each beta that enables a lost field.

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
    """Place tool results where the target expects them, but leave accepted messages unchanged."""
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
    """Return the number of leading messages whose tool results are already in place."""
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
    """Count leading messages of the target's dialect, up to an answer that lacks tool results."""
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


def drop_prefill(
    messages: tuple[InputMessage, ...], losses: Losses, detail: str
) -> tuple[InputMessage, ...]:
    """Return messages without trailing assistant messages, except one that the server continues.

    The next request of the conversation, with the complete answer and the user's reply, still
    begins with these messages.  An answer paused for server tools stays: the server continues
    it.
    """
    end = len(messages)
    while end and _is_prefill(messages[end - 1]):
        losses.add("prefill_dropped", "messages", detail)
        end -= 1
    return messages[:end]


def _is_prefill(message: InputMessage) -> bool:
    """Return whether a last message is an answer that the client has begun.

    Models that refuse a prefill continue what Anthropic paused for server tools (`pause_turn`).
    """
    return message.role == "assistant" and not _is_paused(message)


def _is_paused(message: InputMessage) -> bool:
    """Return whether an assistant message ends in a block that the server continues."""
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
    """Return the instructions for the target's field, and the messages in an accepted order.

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
    while leading < len(messages) and messages[leading].role in INSTRUCTIONS:
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
    """Return whether a user message has content besides tool results."""
    if message.role != "user":
        return False
    return not message.tool_results or len(message.tool_results) < len(message.blocks)


def _is_turn(message: InputMessage) -> bool:
    """Return whether chat templates count a message as a turn: a question, or a final answer."""
    is_answer = message.role == "assistant"
    return not message.tool_calls if is_answer else _is_question(message)


def _is_one_text(system: tuple[Text, ...]) -> bool:
    """Return whether instructions are a single text without a cache mark or other fields."""
    return not system or (len(system) == 1 and system[0].cache is None and system[0].extra is None)


def _fit_role(message: InputMessage, target: BodyCapabilities) -> InputMessage:
    if message.role not in INSTRUCTIONS or message.role in target.roles:
        return message
    role: Role = "developer" if "developer" in target.roles else "system"
    return message if message.role == role else structs.replace(message, role=role)


def _demote(message: InputMessage, losses: Losses) -> InputMessage:
    """Return a system message as a user message in `<system>` tags; leave other roles unchanged."""
    if message.role not in INSTRUCTIONS:
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
    """Count the vendor fields of a dropped system message as lost."""
    for fields in (message.extra or {}).values():
        for name in fields:
            losses.add(name, "messages", "dropped with its message")


def _move_instructions(
    messages: tuple[InputMessage, ...], target: BodyCapabilities, losses: Losses, *, checks: bool
) -> tuple[InputMessage, ...]:
    """Move the instructions of each turn into one message at the end of the turn."""
    if not any(message.role in INSTRUCTIONS for message in messages):
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
    """Return the messages of a turn, with the turn's instructions joined into one last message.

    Args:
        turn: The messages between two assistant messages.
        before: The messages before the turn.
        losses: Counter of moved messages.
    """
    instructions = [message for message in turn if message.role in INSTRUCTIONS]
    if not instructions:
        return turn
    others = [message for message in turn if message.role not in INSTRUCTIONS]
    if not others and not (before and _is_paused(before[-1])):
        return [_demote(message, losses) for message in turn]
    if any(map(is_not, others + instructions, turn)):
        losses.add("system_moved", "messages", "written after the messages of the user")
    return [*others, _join_instructions(instructions, losses)]


def _join_instructions(instructions: list[InputMessage], losses: Losses) -> InputMessage:
    """Join consecutive instructions into one system message."""
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
    """Return messages whose turns alternate between user and assistant, starting with user.

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
    """Insert an assistant message wherever a user message directly follows tool results."""
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
    """Join the blocks of two messages; adjacent texts become one, separated by a blank line."""
    if before and after and isinstance(before[-1], Text) and isinstance(after[0], Text):
        text = f"{before[-1].text}\n\n{after[0].text}"
        return (*before[:-1], structs.replace(after[0], text=text), *after[1:])
    return before + after
