"""Messages and the system prompt, in both directions.

https://platform.claude.com/docs/en/api/messages (read 2026-11-22).  Unknown fields of a message
are written after its role and content.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import structs

from streamnorm._core.blocks import InputBlock, Text
from streamnorm._core.bodies.fields import (
    read_objects,
    require_str,
    unexpected,
    unknown_fields,
)
from streamnorm._core.bodies.request import InputMessage, Role, Source, unchanged_source
from streamnorm._core.bodies.table import Reading, Writing, unknown_of
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import is_array
from streamnorm.dialects.anthropic.body.content import (
    as_extra,
    blocks_from_wire,
    content_to_wire,
    text_from_wire,
)
from streamnorm.dialects.anthropic.wire import DIALECT

_MESSAGE = frozenset({"role", "content"})
_ROLES: dict[object, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


def messages_from_wire(reading: Reading) -> dict[str, Any]:
    """Return the messages of a request.

    Raises:
        DecodeError: An entry is no message.
    """
    read = partial(_message_from_wire, server=reading.context.server)
    return {"messages": tuple(read_objects(reading.body["messages"], read, "$.messages"))}


def _message_from_wire(value: dict[str, Any], server: str | None) -> InputMessage:
    name = value.get("role")
    role = _ROLES.get(name) if isinstance(name, str) else None
    if role is None:
        require_str(value, "role")
        raise DecodeError("another role, expected user, assistant or system", path="$.role")
    if "content" not in value:
        raise DecodeError("missing, expected a string or an array", path="$.content")
    content = value["content"]
    # Not `blocks_from_wire`: most messages of a history are texts, and need no call each.
    is_text = isinstance(content, str)
    blocks = (Text(content),) if is_text else blocks_from_wire(content, server)
    extra = None if len(value) == 2 else as_extra(unknown_fields(value, _MESSAGE))
    message = InputMessage(role, blocks, extra=extra)
    return InputMessage(role, blocks, None, extra, Source(DIALECT, value, message))


def system_from_wire(system: object) -> tuple[Text, ...]:
    """Return the text blocks of a request's system prompt.

    Raises:
        DecodeError: `system` is neither a string nor an array of text blocks.
    """
    if not system:  # "" and [] are no prompt
        return ()
    if isinstance(system, str):
        return (Text(system),)
    if not is_array(system):
        raise unexpected(system, "a string or an array", "$")
    return tuple(read_objects(system, _instruction_from_wire))


def _instruction_from_wire(block: dict[str, Any]) -> Text:
    if require_str(block, "type") != "text":
        raise DecodeError("a block of another type, expected text")
    return text_from_wire(block, None)


def messages_to_wire(writing: Writing) -> dict[str, Any]:
    """Return the messages of a projected request.

    Raises:
        EncodeError: A block has no legal form.
    """
    messages: tuple[InputMessage, ...] = writing.part.messages
    context = writing.context
    written: list[dict[str, Any]] = []
    last = len(messages) - 1
    write = context.memoize(partial(_message_to_wire, context=context))
    for number, message in enumerate(messages):
        value = unchanged_source(message, DIALECT)
        if value is None:
            if number == last and message.role == "assistant":
                message = _strip_prefill(message, context)
            value = write(message, number)
        if value is not None:
            written.append(value)
    return {"messages": written}


def _message_to_wire(
    message: InputMessage, number: int, *, context: WriteContext
) -> dict[str, Any] | None:
    """Return a message as its JSON object; None if no block is left (counted as a loss)."""
    content = content_to_wire(message.blocks, context, f"messages[{number}]")
    if not content or (isinstance(content, str) and not content.strip()):
        context.losses.add("empty_message_dropped", "messages", "nothing in it was written")
        return None
    return {"role": message.role, "content": content, **unknown_of(message.extra, DIALECT)}


def _strip_prefill(prefill: InputMessage, context: WriteContext) -> InputMessage:
    """Return a prefill without trailing white space, which the API refuses.

    The API refuses trailing white space in the last text of the assistant (goose#7343).
    """
    last = prefill.blocks[-1] if prefill.blocks else None
    if not isinstance(last, Text) or last.text == (text := last.text.rstrip()):
        return prefill
    context.losses.add("trailing_white_space", "messages", "stripped")
    blocks = (*prefill.blocks[:-1], structs.replace(last, text=text))
    return structs.replace(prefill, blocks=blocks)


def system_to_wire(system: tuple[Text, ...], writing: Writing) -> object:
    """Return the system prompt: a string for a single plain text, else an array."""
    blocks: tuple[InputBlock, ...] = system
    return content_to_wire(blocks, writing.context, "system")
