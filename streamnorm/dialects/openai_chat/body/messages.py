"""The messages of a request, in both directions.

https://platform.openai.com/docs/api-reference/chat/create (read 2026-11-23), and the legacy
role `function`.  A message with the result of a tool is a user message with that result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec import structs

from streamnorm._core.blocks import InputBlock, Refusal, Text, ToolResult
from streamnorm._core.bodies.fields import object_at, text_in, unexpected, unmapped, within
from streamnorm._core.bodies.request import InputMessage, Role, Source, unchanged_source
from streamnorm._core.bodies.tool_calls import mark_error, unmark_error
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm.dialects.openai_chat.body.assistant import assistant_from_wire, assistant_to_wire
from streamnorm.dialects.openai_chat.body.extra import DIALECT, add_extra, extra_of, mark_and_extra
from streamnorm.dialects.openai_chat.body.parts import content_from_wire, content_to_wire

__all__ = ["messages_from_wire", "messages_to_wire"]

_PLAIN = frozenset({"role", "content", "name"})
_RESULT = _PLAIN | {"tool_call_id"}


def messages_from_wire(messages: Sequence[object]) -> tuple[InputMessage, ...]:
    """Return the messages of a request.

    Raises:
        DecodeError: One of them is no message.
    """
    read: list[InputMessage] = []
    for number, value in enumerate(messages):
        try:
            message = _message(object_at(value, "$"))
        except DecodeError as exc:
            raise within(exc, f"$.messages[{number}]") from exc
        source = Source(DIALECT, value, message)
        read.append(InputMessage(message.role, message.blocks, message.name, message.extra, source))
    return tuple(read)


def _message(value: dict[str, Any]) -> InputMessage:
    role = value.get("role")
    read = _READERS.get(role) if isinstance(role, str) else None
    if read is None:
        raise unexpected(role, f"one of {', '.join(_READERS)}", "$.role")
    return read(value)


def _plain(role: Role) -> Callable[[dict[str, Any]], InputMessage]:
    """Return the reader of messages that have nothing but content."""

    def read(value: dict[str, Any]) -> InputMessage:
        blocks = _content(value)
        if len(value) == 2 and blocks:
            return InputMessage(role, blocks)
        if not blocks:
            return InputMessage(role, (), text_in(value, "name"), _extra(value, _PLAIN))
        mark, extra = mark_and_extra(value, _PLAIN)
        if mark is not None:  # OpenRouter and LiteLLM accept it on a message
            blocks = (*blocks[:-1], structs.replace(blocks[-1], cache=mark))
        return InputMessage(role, blocks, text_in(value, "name"), extra)

    return read


def _content(value: dict[str, Any]) -> tuple[InputBlock, ...]:
    content = value.get("content")
    try:
        return content_from_wire(content)
    except DecodeError as exc:
        raise within(exc, "$.content") from exc


def _extra(value: dict[str, Any], mapped: frozenset[str]) -> dict[str, dict[str, Any]] | None:
    return extra_of(unmapped(value, mapped))


def _result(value: dict[str, Any]) -> InputMessage:
    """Return a message with the result of a tool."""
    content: list[Any] = [
        Text(block.text) if isinstance(block, Refusal) else block for block in _content(value)
    ]
    mark, extra = mark_and_extra(value, _RESULT)
    if mark is None and content and content[-1].cache is not None:
        mark = content[-1].cache
        content[-1] = structs.replace(content[-1], cache=None)
    id, name = text_in(value, "tool_call_id") or "", text_in(value, "name") or ""
    is_error, unmarked = unmark_error(tuple(content))
    result = ToolResult(id, unmarked, is_error, name, cache=mark, extra=extra)
    return InputMessage("user", (result,))


_READERS: dict[str, Callable[[dict[str, Any]], InputMessage]] = {
    "user": _plain("user"),
    "assistant": assistant_from_wire,
    "tool": _result,
    "system": _plain("system"),
    "developer": _plain("developer"),
    "function": _result,
}


def messages_to_wire(
    messages: Sequence[InputMessage], context: WriteContext
) -> list[dict[str, Any]]:
    """Return the messages of a request; one for each result of a tool.

    Raises:
        EncodeError: A message has a block that has no field.
    """
    written: list[dict[str, Any]] = []
    for number, message in enumerate(messages):
        value = unchanged_source(message, DIALECT)
        if value is not None:
            written.append(value)
            continue
        try:
            write = partial(_message_to_wire, message, context)
            written += context.written(message, number, write)
        except EncodeError as exc:
            raise EncodeError(exc.args[0], path=f"messages[{number}]") from exc
    return written


def _message_to_wire(message: InputMessage, context: WriteContext) -> list[dict[str, Any]]:
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
    add_extra(value, message.extra)
    value.setdefault("content", "")
    return value


def _result_to_wire(result: ToolResult, context: WriteContext) -> dict[str, Any]:
    content = content_to_wire(mark_error(result), context, result.cache)
    value: dict[str, Any] = {
        "role": "tool",
        "tool_call_id": result.tool_call_id,
        "content": content,
    }
    return add_extra(value, result.extra)
