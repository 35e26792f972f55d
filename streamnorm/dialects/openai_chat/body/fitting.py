"""Adaptation of an encoded request body to its server: changes to messages and cache marks.

They apply to messages that were encoded and to messages that stay spelt as the client sent them.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import is_
from sys import maxsize
from typing import Any, TypeAlias

from streamnorm._core.blocks import ToolCall
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import EncodeError
from streamnorm._core.json import compact, is_array, is_json, is_object, objects_of, string_of
from streamnorm.dialects.openai_chat.content import THINKING_PARTS

_DETAILS = "reasoning_details"
_MARKS = frozenset({"cache_control", "prompt_cache_breakpoint"})
# Fields that replace the content of a message.
_IN_PLACE_OF_CONTENT = ("tool_calls", "function_call", "refusal", "audio")
_TEXTS = ("reasoning_content", "reasoning")
_GEMINI, _ANTHROPIC = "google-gemini-v1", "anthropic-claude-v1"

_Message: TypeAlias = "dict[str, Any]"


def fit_body(body: dict[str, Any], context: WriteContext) -> dict[str, Any]:
    """Return a request body with the messages and cache marks that its server accepts.

    Raises:
        EncodeError: Arguments of a call are not JSON, and the server accepts JSON only.
    """
    target = context.capabilities
    if target.max_marks < maxsize and not context.same_target:
        body = _drop_excess_marks(body, context)
    if not _has_demands(target):
        return body
    fitted: list[Any] = []
    for number, message in enumerate(body["messages"]):
        adjusted: _Message | None = message
        if not target.null_content:
            adjusted = message = _fill_null_content(message)
        if message["role"] == "assistant":
            try:
                adjusted = _fit_assistant(message, context)
            except EncodeError as exc:
                raise EncodeError(exc.args[0], path=f"messages[{number}].{exc.path}") from exc
        if adjusted is not None:
            fitted.append(adjusted)
    if len(fitted) == len(body["messages"]) and all(map(is_, fitted, body["messages"])):
        return body
    return {**body, "messages": fitted}


def _drop_excess_marks(body: dict[str, Any], context: WriteContext) -> dict[str, Any]:
    """Return a body with only the last cache marks if the server accepts fewer marks.

    A mark covers the whole prompt before it, so the last marks cover what the first ones do.
    """
    # Anthropic behind OpenRouter refuses a fifth mark.
    excess = sum(map(_is_marked, _markable_parts(body))) - context.capabilities.max_marks
    if excess <= 0:
        return body

    def unmark(part: Any) -> Any:
        nonlocal excess
        if excess <= 0 or not (is_object(part) and _is_marked(part)):
            return part
        excess -= 1
        context.losses.add("cache_mark_dropped", "messages", "dropped")
        return {name: value for name, value in part.items() if name not in _MARKS}

    changed: dict[str, Any] = {}
    if is_array(tools := body.get("tools")):
        changed["tools"] = list(map(unmark, tools))
    messages: list[_Message] = []
    for message in body["messages"]:
        content = message.get("content")
        if is_array(content) and any(map(_is_marked, objects_of(content))):
            message = {**message, "content": list(map(unmark, content))}
        messages.append(unmark(message))
    return {**body, **changed, "messages": messages}


def _markable_parts(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the tools, parts and messages that may have a cache mark, in prompt order."""
    yield from objects_of(body.get("tools"))
    for message in body["messages"]:
        if not isinstance(content := message.get("content"), str):
            yield from objects_of(content)
        yield message


def _is_marked(part: dict[str, Any]) -> bool:
    return any(part.get(name) is not None for name in _MARKS)


def _has_demands(target: BodyCapabilities) -> bool:
    """Return whether the server has requirements for messages, cache marks aside."""
    return bool(
        target.reasoning_required
        or target.reasoning_signed
        or target.signature_placeholder
        or target.json_arguments
        or not target.empty_assistants
        or not target.null_content
        or target.opaque_kinds is not None
    )


def _fit_assistant(value: _Message, context: WriteContext) -> _Message | None:
    """Return an assistant message adapted to the server; None if it is dropped."""
    target = context.capabilities
    if target.reasoning_signed:
        value = _drop_unsigned_details(value, context)
    calls = objects_of(value.get("tool_calls"))
    content = value.get("content")
    if target.opaque_kinds is not None and is_array(content):
        fitted = _drop_thinking_parts(value, content, context)
        if fitted is None:
            return None
        value = fitted
    if target.reasoning_required is True or (target.reasoning_required and calls):
        value = _add_reasoning_content(value, context)
    if calls and target.signature_placeholder is not None and target.reasoning_form == "details":
        value = _add_signature_placeholder(value, calls, context)
    if calls and target.json_arguments:
        value = _write_arguments_as_json(value, context)
    # Mistral requires content or calls.
    if not (target.empty_assistants or calls or value.get("content")):
        context.losses.add("empty_message_dropped", "messages", "dropped")
        return None
    return value


def _drop_thinking_parts(
    value: _Message, content: list[Any], context: WriteContext
) -> _Message | None:
    """Return a message without thinking in its content, which the server refuses.

    None if the message has nothing else.
    """
    # LiteLLM's clients send it there, and it is read as reasoning (`thinking_of_part`).
    kept = [
        part for part in content if not (is_object(part) and part.get("type") in THINKING_PARTS)
    ]
    if len(kept) == len(content):
        return value
    context.losses.add("reasoning_dropped", "messages", "dropped")
    if kept or any(value.get(name) for name in _IN_PLACE_OF_CONTENT):
        return {**value, "content": kept or None}
    context.losses.add("empty_message_dropped", "messages", "dropped")
    return None


def _fill_null_content(value: _Message) -> _Message:
    """Return a message with "" in place of null content that the server refuses."""
    # Azure refuses null where no call or refusal replaces the content.
    if value.get("content") is not None or any(value.get(name) for name in _IN_PLACE_OF_CONTENT):
        return value
    return {**value, "content": ""}


def _add_reasoning_content(value: _Message, context: WriteContext) -> _Message:
    """Return a message with a `reasoning_content`, possibly empty."""
    # DeepSeek refuses assistant messages without the field, Kimi those with calls.
    name = _TEXTS[0]
    if isinstance(value.get(name), str):
        return value
    details = [string_of(detail, "text") for detail in objects_of(value.get(_DETAILS))]
    texts = [string_of(value, field) for field in _TEXTS]
    text = next(filter(None, texts), "\n\n".join(filter(None, details)))
    context.losses.add(name, "messages", "written, since the server demands it")
    return {**value, name: text}


def _drop_unsigned_details(value: _Message, context: WriteContext) -> _Message:
    """Return a message without reasoning texts that are unsigned or signed by another vendor."""
    # OpenRouter forwards the details to Anthropic, which verifies their signatures.
    details = value.get(_DETAILS)
    if not is_array(details):
        return value
    kept = [detail for detail in details if not _is_unsigned(detail)]
    if len(kept) == len(details):
        return value
    context.losses.add("reasoning_dropped", "messages", "not signed by the vendor of the model")
    rest = {name: item for name, item in value.items() if name != _DETAILS}
    return {**rest, _DETAILS: kept} if kept else rest


def _is_unsigned(detail: object) -> bool:
    if not is_object(detail) or detail.get("type") != "reasoning.text":
        return False
    signature = detail.get("signature")
    if not isinstance(signature, str) or not signature:
        return True
    return detail.get("format") not in (None, _ANTHROPIC)


def _add_signature_placeholder(
    value: _Message, calls: list[_Message], context: WriteContext
) -> _Message:
    """Return a message with a placeholder signature for its calls, as Gemini requires."""
    if value.get(_DETAILS):
        return value
    # Gemini refuses calls without a signature, and accepts the placeholder for a foreign call.
    context.losses.add("signature_placeholder", "messages", "signed with it")
    detail = {
        "type": "reasoning.encrypted",
        "id": calls[0].get("id"),
        "index": 0,
        "data": context.capabilities.signature_placeholder,
        "format": _GEMINI,
    }
    return {**value, _DETAILS: [detail]}


def _write_arguments_as_json(value: _Message, context: WriteContext) -> _Message:
    """Return a message whose calls all have JSON arguments."""
    changed = False
    calls: list[Any] = []
    for number, call in enumerate(value["tool_calls"]):
        function = call.get("function") if is_object(call) else None
        arguments = function.get("arguments") if is_object(function) else None
        if is_object(function) and isinstance(arguments, str) and not is_json(arguments):
            unified = ToolCall(string_of(call, "id"), string_of(function, "name"), arguments)
            arguments = compact(context.arguments_of(unified, f"tool_calls[{number}]"))
            # xAI parses all arguments, and an empty text is not JSON (spice#4734).
            if context.capabilities.only_refusals:
                context.losses.add("arguments", "messages", "written as JSON")
            call = {**call, "function": {**function, "arguments": arguments}}
            changed = True
        calls.append(call)
    return {**value, "tool_calls": calls} if changed else value
