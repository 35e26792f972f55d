"""Messages of a request, in both directions.

A `tool` message, and one of the legacy role `function`, is a user message with a tool result.

https://platform.openai.com/docs/api-reference/chat/create (read 2026-11-23).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import partial
from operator import is_not
from typing import Any, Literal

from msgspec import structs

from streamnorm._core.blocks import (
    InputBlock,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.bodies.fields import (
    as_object,
    conversion_error,
    get_object,
    get_str,
    prefix_path,
    read_objects,
    require_str,
    unexpected,
    unknown_fields,
)
from streamnorm._core.bodies.request import InputMessage, Role, Source, unchanged_source
from streamnorm._core.bodies.table import Writing
from streamnorm._core.bodies.tool_calls import mark_error, unmark_error
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.events import BlockStop, Event, Opaque
from streamnorm._core.failures import Fatal
from streamnorm._core.json import InvalidJSON, compact, convert, is_array, is_object, json_value
from streamnorm._core.limits import Limits
from streamnorm._core.messages import accumulate
from streamnorm._core.text import Signed
from streamnorm.dialects.openai_chat import wire
from streamnorm.dialects.openai_chat.blocks import ChoiceBlocks, StreamState
from streamnorm.dialects.openai_chat.body.content import (
    DIALECT,
    add_unknown_fields,
    as_extra,
    content_from_wire,
    content_to_wire,
    part_to_wire,
    take_cache_mark,
)
from streamnorm.dialects.openai_chat.content import (
    ENCRYPTING_ISSUERS,
    THINKING_PARTS,
    ReasoningDetails,
    reasoning_from_wire,
    thinking_of_part,
    thinking_to_wire,
)
from streamnorm.dialects.openai_chat.tool_calls import (
    call_to_wire,
    signature_from_fields,
    signature_from_wire,
    signature_to_fields,
    signature_to_wire,
    split_signed_id,
)

# Mapped fields of messages and of tool calls.
_REASONING = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
_PLAIN = frozenset({"role", "content", "name"})
_RESULT = _PLAIN | {"tool_call_id"}
_ASSISTANT = frozenset(
    {"role", "content", "name", "refusal", "tool_calls", "function_call", *_REASONING}
)
_CALL = frozenset({"id", "type", "function", "custom"})
_FUNCTION = frozenset({"name", "arguments"})
_CUSTOM = frozenset({"name", "input"})
# Fields of which the API requires one in an assistant message.
_CONTENT = ("content", "refusal", "tool_calls", "function_call", "audio")


def assistant_from_wire(value: dict[str, Any]) -> InputMessage:
    """Return an assistant message with its blocks: reasoning, content, refusal, calls."""
    blocks: list[InputBlock] = []
    signatures: dict[str, str] = {}
    inner: dict[str, Any] = {}
    if value.get("reasoning_details") or value.get("thinking_blocks"):
        signatures, inner = _read_details(value, blocks)
    elif text := get_str(value, "reasoning_content") or get_str(value, "reasoning"):
        blocks.append(Reasoning((text,)))
    if value.get("content"):
        blocks = _join_thinking(blocks, content_from_wire(value))
    if refusal := get_str(value, "refusal"):
        blocks.append(Refusal(refusal))
    for block in read_objects(value.get("tool_calls"), _call_from_wire, "$.tool_calls"):
        if signature := signatures.get(block.id):
            blocks.append(structs.replace(block, signature=signature, issuer="google"))
        else:
            blocks.append(block)
    if (function := get_object(value, "function_call")) is not None:
        try:
            blocks.append(_call_from_wire({"function": function}))
        except DecodeError as exc:
            exc.path = exc.path.replace("$.function", "$.function_call", 1)
            raise
    return _build_message("assistant", blocks, value, _ASSISTANT, inner or None)


def _build_message(
    role: Role,
    blocks: Sequence[InputBlock],
    value: dict[str, Any],
    mapped: Set[str],
    inner: dict[str, Any] | None = None,
) -> InputMessage:
    """Return a unified message; the wire message's cache mark goes to the last block."""
    name = get_str(value, "name")
    if not blocks:
        rest = unknown_fields(value, mapped, with_nulls=True)
        return InputMessage(role, (), name, as_extra(rest))
    mark, extra = take_cache_mark(value, mapped, inner)
    if mark is not None:
        blocks = (*blocks[:-1], structs.replace(blocks[-1], cache=mark))
    return InputMessage(role, tuple(blocks), name, extra)


def _read_details(
    value: dict[str, Any], blocks: list[InputBlock]
) -> tuple[dict[str, str], dict[str, list[dict[str, Any]]]]:
    """Append the blocks of `reasoning_details` or `thinking_blocks`; return the rest.

    Returns:
        Google's signatures by call id, and the unknown entries by their field.
    """
    try:
        names = (*_REASONING, "provider_specific_fields")
        delta = convert({name: value.get(name) for name in names}, wire.Delta)
        details = reasoning_from_wire(delta)
        choice = ChoiceBlocks(0, StreamState(Limits(), lambda kind, where: None))
        events: list[Event] = []
        opaque: dict[str, list[dict[str, Any]]] = {}
        for detail in details:
            count = len(events)
            choice.add_reasoning(detail, events)
            if detail.entry and any(isinstance(event, Opaque) for event in events[count:]):
                opaque.setdefault(detail.field, []).append(detail.entry)
        signatures = dict(choice.calls.held_signatures)
        choice.calls.held_signatures.clear()
        events += [BlockStop(index) for index in choice.flush(events)]
    except InvalidJSON as exc:
        raise conversion_error(exc) from exc
    except Fatal as exc:
        field = "reasoning_details" if value.get("reasoning_details") else "thinking_blocks"
        raise DecodeError(exc.error.message, path=f"$.{field}") from exc
    blocks += accumulate(events).blocks
    return signatures, opaque


def _join_thinking(
    reasoning: Sequence[InputBlock], content: Sequence[InputBlock]
) -> list[InputBlock]:
    """Return reasoning, then content with its thinking parts as reasoning.

    LiteLLM reads Anthropic's thinking in the content, too.  Fields that repeat it are left out.
    """
    joined = [_read_thinking(block) for block in content]
    found = [block for block in joined if isinstance(block, Reasoning | RedactedReasoning)]
    if found:
        # Without a signature it is `reasoning_content`, the text of all of them.
        reasoning = [
            block
            for block in reasoning
            if block not in found and not (isinstance(block, Reasoning) and not block.signature)
        ]
    return [*reasoning, *joined]


def _read_thinking(block: InputBlock) -> InputBlock:
    """Return a thinking part, which is opaque so far, as reasoning; other blocks unchanged."""
    if not isinstance(block, OpaqueBlock) or block.kind not in THINKING_PARTS:
        return block
    return thinking_of_part(json_value(block.data, "data")) or block


def _call_from_wire(value: dict[str, Any]) -> ToolCall:
    kind: Literal["function", "custom"] = "function"
    if value.get("type") == "custom" or ("custom" in value and "function" not in value):
        kind = "custom"
    owner = as_object(value.get(kind), f"$.{kind}")
    try:
        name = require_str(owner, "name")
    except DecodeError as exc:
        raise prefix_path(exc, f"$.{kind}") from exc
    sent = owner.get("arguments" if kind == "function" else "input")
    arguments = sent if isinstance(sent, str) else "" if sent is None else compact(sent)
    id = value.get("id")
    if isinstance(id, str):
        if len(value) == 3 and len(owner) == 2 and sent is not None and "type" in value:
            return ToolCall(id, name, arguments, kind)
    elif id is not None:
        raise unexpected(id, "a string", "$.id")
    return _call_with_extra(value, owner, ToolCall(id or "", name, arguments, kind))


def _call_with_extra(value: dict[str, Any], owner: dict[str, Any], call: ToolCall) -> ToolCall:
    """Return a call with its signature, cache mark and unknown fields."""
    inner = unknown_fields(
        owner, _FUNCTION if call.kind == "function" else _CUSTOM, with_nulls=True
    )
    mapped = _CALL
    fields = value.get("provider_specific_fields")
    signed = signature_from_fields(fields)
    # The signature replaces the field only if that holds nothing else.
    if signed is not None and is_object(fields) and len(fields) == 1:
        mapped = _CALL | {"provider_specific_fields"}
    if (content := get_object(value, "extra_content")) is not None:
        signed = signature_from_wire(content) or signed
        # The signature replaces `extra_content` only if that holds nothing else.
        if signed is not None and compact(content) == compact(signature_to_wire(*signed[:2])):
            mapped |= {"extra_content"}
    signature, issuer, _ = signed or (None, None, None)
    mark, extra = take_cache_mark(value, mapped, {call.kind: inner})
    return structs.replace(call, signature=signature, issuer=issuer, cache=mark, extra=extra)


def assistant_to_wire(message: InputMessage, context: WriteContext) -> dict[str, Any]:
    """Return an assistant message; its calls come after all text.

    Raises:
        EncodeError: The message has a block that has no field.
    """
    content: list[InputBlock] = []
    calls: list[dict[str, Any]] = []
    reasoning: list[Reasoning | RedactedReasoning] = []
    signed: list[ToolCall] = []  # OpenRouter's signatures stand in `reasoning_details`
    for block in message.blocks:
        match block:
            case Text() | Refusal() | OpaqueBlock():
                content.append(block)
            case ToolCall():
                if context.capabilities.reasoning_form == "details" and block.signature:
                    signed.append(block)
                    block = structs.replace(block, signature=None, issuer=None)
                calls.append(_call_to_wire(block, context))
            case Reasoning() | RedactedReasoning():
                reasoning.append(block)
            case other:
                found = type(other).__name__
                raise EncodeError(f"{found} in an assistant message, expected text", path="")
    value: dict[str, Any] = {"role": "assistant"}
    if message.name is not None:
        value["name"] = message.name
    if content and all(isinstance(block, Refusal) for block in content):
        value["refusal"] = "".join(block.text for block in content if isinstance(block, Refusal))
        content = []
    if _needs_order(message.blocks, context):
        written: str | list[Any] = _order_content(message.blocks, context)
    else:
        written = _content_to_wire(content, context)
    if reasoning and context.capabilities.reasoning_form in ("part", "tags"):
        written = _prepend_reasoning(written, _join_reasoning(reasoning), context)
    elif reasoning or signed:
        value |= _reasoning_to_wire(reasoning, signed, context)
    if written:
        value["content"] = written
    if calls:
        value["tool_calls"] = calls
    if message.extra is not None:
        add_unknown_fields(value, message.extra)
    if not any(name in value for name in _CONTENT):
        value["content"] = ""
    return value


def _call_to_wire(call: ToolCall, context: WriteContext) -> dict[str, Any]:
    """Return a call with its unknown fields, and its signature where the server reads it."""
    if context.capabilities.reasoning_form == "blocks" and call.issuer == "google":
        fields = signature_to_fields(call.signature or "")
        value = call_to_wire(structs.replace(call, signature=None, issuer=None))
        return add_unknown_fields({**value, "provider_specific_fields": fields}, call.extra)
    return add_unknown_fields(call_to_wire(call), call.extra)


def _needs_order(blocks: Sequence[InputBlock], context: WriteContext) -> bool:
    """Return whether LiteLLM must be told where reasoning stands, since other content precedes it.

    It writes `thinking_blocks` before the text, and Anthropic verifies thinking in its place.
    """
    target = context.capabilities
    if target.reasoning_form != "blocks" or target.reasoning_text:
        return False
    content = [block for block in blocks if not isinstance(block, ToolCall)]
    kinds = [isinstance(block, Reasoning | RedactedReasoning) for block in content]
    return kinds != sorted(kinds, reverse=True)


def _order_content(blocks: Sequence[InputBlock], context: WriteContext) -> list[Any]:
    """Return content parts in order, thinking among them; LiteLLM adds `thinking_blocks` to it."""
    parts: list[Any] = []
    for block in blocks:
        if isinstance(block, Reasoning | RedactedReasoning):
            parts.append(thinking_to_wire(block))
        elif not isinstance(block, ToolCall):
            parts.append(part_to_wire(block, context))
    return parts


def _content_to_wire(blocks: list[InputBlock], context: WriteContext) -> str | list[Any]:
    """Return an assistant's blocks as one string if they are plain text, else as parts."""
    texts = [block.text for block in blocks if isinstance(block, Text) and block.extra is None]
    if len(texts) < len(blocks):
        return [part_to_wire(block, context) for block in blocks]
    if len(texts) > 1:
        context.losses.add("boundaries", "messages", "texts of the assistant joined")
    return "".join(texts)


def _prepend_reasoning(
    content: str | list[Any], text: str, context: WriteContext
) -> str | list[Any]:
    """Return content preceded by reasoning, in `<think>` tags or as Mistral's part."""
    if context.capabilities.reasoning_form == "tags":
        tagged = f"<think>{text}</think>"
        if isinstance(content, str):
            return tagged + content
        return [{"type": "text", "text": tagged}, *content]
    part = {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content else []
    return [part, *content]


def _join_reasoning(blocks: list[Reasoning | RedactedReasoning]) -> str:
    return "\n\n".join(block.text for block in blocks if isinstance(block, Reasoning))


def _reasoning_to_wire(
    blocks: list[Reasoning | RedactedReasoning],
    signed: list[ToolCall],
    context: WriteContext,
) -> dict[str, Any]:
    """Return reasoning as `reasoning_content`, or in a field with signatures if signed.

    Args:
        blocks: The reasoning.
        signed: Calls whose signatures stand in `reasoning_details`.
        context: Capabilities of the target, and the counter of losses.
    """
    form = context.capabilities.reasoning_form
    if form == "extra_content":  # Gemini: signatures stand on calls, and reasoning nowhere
        context.losses.add("reasoning_dropped", "messages", "dropped")
        return {}
    is_plain = all(isinstance(block, Reasoning) and block.signature is None for block in blocks)
    if is_plain and form in ("field", "blocks"):
        return {"reasoning_content": _join_reasoning(blocks)}
    if form == "blocks":
        return _thinking_blocks_of(blocks)
    details = ReasoningDetails()
    written: list[dict[str, Any]] = []
    for block in blocks:
        written += _details_of(block, details, context.capabilities.reasoning_issuer)
    written += [
        details.call_signature_to_wire(call.id, call.signature or "", call.issuer)
        for call in signed
    ]
    return {"reasoning_details": written}


def _thinking_blocks_of(blocks: Sequence[Reasoning | RedactedReasoning]) -> dict[str, Any]:
    """Return reasoning as LiteLLM sends it: blocks, and their text once more.

    Its providers without signatures read `reasoning_content` alone.
    """
    texts = [block.text for block in blocks if isinstance(block, Reasoning) and block.text]
    text = "\n\n".join(texts)
    plain = {"reasoning_content": text} if text else {}
    return {**plain, "thinking_blocks": [thinking_to_wire(block) for block in blocks]}


def _details_of(
    block: Reasoning | RedactedReasoning, details: ReasoningDetails, issuer: str | None
) -> list[dict[str, Any]]:
    """Return the reasoning details of a block for a target that verifies signatures of `issuer`."""
    is_native = issuer in ENCRYPTING_ISSUERS and block.issuer == issuer
    if isinstance(block, RedactedReasoning):
        signed = Signed(block.data, block.issuer, block.id)
        if is_native:
            return details.encrypted_to_wire("", signed)
        return [details.redacted_to_wire(signed)]
    if block.signature is None:
        return [details.text_to_wire(block.text)]
    signed = Signed(block.signature, block.issuer, block.id)
    if is_native:
        return details.encrypted_to_wire(block.text, signed)
    return [details.text_to_wire(block.text) | details.signature_to_wire(signed)]


def messages_from_wire(messages: object) -> tuple[InputMessage, ...]:
    """Return the messages of a request.

    Raises:
        DecodeError: An entry is not a message.
    """
    return tuple(read_objects(messages, _message_from_wire))


def _message_from_wire(value: dict[str, Any]) -> InputMessage:
    role = value.get("role")
    read = _READERS.get(role) if isinstance(role, str) else None
    if read is None:
        raise unexpected(role, f"one of {', '.join(_READERS)}", "$.role")
    value = _split_signed_ids(value)
    part = read(value)
    return InputMessage(part.role, part.blocks, part.name, part.extra, Source(DIALECT, value, part))


def _split_signed_ids(value: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose calls and result have the ids alone, without LiteLLM's signatures.

    A call has its signature in `provider_specific_fields`, where LiteLLM reads it, too.
    """
    changed: dict[str, Any] = {}
    if isinstance(id := value.get("tool_call_id"), str):
        bare, signed = split_signed_id(id)
        if signed is not None:
            changed["tool_call_id"] = bare
    if is_array(calls := value.get("tool_calls")):
        split = [_split_signed_call(call) for call in calls]
        if any(map(is_not, split, calls)):
            changed["tool_calls"] = split
    return {**value, **changed} if changed else value


def _split_signed_call(call: Any) -> Any:
    if not is_object(call) or not isinstance(id := call.get("id"), str):
        return call
    bare, signed = split_signed_id(id)
    if signed is None:
        return call
    fields = call.get("provider_specific_fields")
    fields = {**signature_to_fields(signed.signature), **(fields if is_object(fields) else {})}
    return {**call, "id": bare, "provider_specific_fields": fields}


def _plain_reader(role: Role) -> Callable[[dict[str, Any]], InputMessage]:
    """Return a decoder for messages of a role that has neither tool calls nor results."""

    def read(value: dict[str, Any]) -> InputMessage:
        blocks = content_from_wire(value)
        if len(value) == 2 and blocks:
            return InputMessage(role, blocks)
        return _build_message(role, blocks, value, _PLAIN)

    return read


def _result_from_wire(value: dict[str, Any]) -> InputMessage:
    """Return a `tool` message as a user message with a tool result."""
    content: list[Any] = [
        Text(block.text) if isinstance(block, Refusal) else block
        for block in content_from_wire(value)
    ]
    mark, extra = take_cache_mark(value, _RESULT)
    if mark is None and content and content[-1].cache is not None:
        mark = content[-1].cache
        content[-1] = structs.replace(content[-1], cache=None)
    id, name = get_str(value, "tool_call_id") or "", get_str(value, "name") or ""
    is_error, unmarked = unmark_error(tuple(content))
    result = ToolResult(id, unmarked, is_error, name, cache=mark, extra=extra)
    return InputMessage("user", (result,))


_READERS: dict[str, Callable[[dict[str, Any]], InputMessage]] = {
    "user": _plain_reader("user"),
    "assistant": assistant_from_wire,
    "tool": _result_from_wire,
    "system": _plain_reader("system"),
    "developer": _plain_reader("developer"),
    "function": _result_from_wire,
}


def messages_to_wire(messages: Sequence[InputMessage], writing: Writing) -> list[dict[str, Any]]:
    """Encode the messages of a request; each tool result becomes a message of its own.

    Raises:
        EncodeError: A message has a block that has no field.
    """
    written: list[dict[str, Any]] = []
    context = writing.context
    write = context.memoize(partial(_message_to_wire, context=context))
    for number, message in enumerate(messages):
        value = unchanged_source(message, DIALECT)
        if value is not None:
            written.append(value)
            continue
        try:
            written += write(message, number)
        except EncodeError as exc:
            raise EncodeError(exc.args[0], path=f"messages[{number}]") from exc
    return written


def _message_to_wire(
    message: InputMessage, _number: int, *, context: WriteContext
) -> list[dict[str, Any]]:
    if message.role == "assistant":
        return [assistant_to_wire(message, context)]
    written: list[dict[str, Any]] = []
    content: list[InputBlock] = []
    for block in message.blocks:
        if not isinstance(block, ToolResult):
            content.append(block)
            continue
        if content:
            written.append(_plain_to_wire(message, content, context))
            content = []
        written.append(_result_to_wire(block, context))
    if content or not written:
        written.append(_plain_to_wire(message, content, context))
    return written


def _plain_to_wire(
    message: InputMessage, content: Sequence[InputBlock], context: WriteContext
) -> dict[str, Any]:
    value: dict[str, Any] = {"role": message.role}
    if message.name is not None:
        value["name"] = message.name
    if content or not message.extra:
        value["content"] = content_to_wire(content, context)
    if message.extra is not None:
        add_unknown_fields(value, message.extra)
    value.setdefault("content", "")  # the schema requires it
    return value


def _result_to_wire(result: ToolResult, context: WriteContext) -> dict[str, Any]:
    content = content_to_wire(mark_error(result), context, result.cache)
    value: dict[str, Any] = {
        "role": "tool",
        "tool_call_id": result.tool_call_id,
        "content": content,
    }
    return add_unknown_fields(value, result.extra)
