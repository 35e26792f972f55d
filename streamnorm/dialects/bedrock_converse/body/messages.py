"""Messages and the system prompt, in both directions.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Message.html (read
2026-11-27, botocore 1.44.8).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import Struct, structs

from streamnorm._core.blocks import (
    InputBlock,
    Reasoning,
    RedactedReasoning,
    Text,
)
from streamnorm._core.bodies.fields import prefix_path, require_str, unknown_fields
from streamnorm._core.bodies.request import (
    InputMessage,
    Role,
    Source,
    same_parts,
    unchanged_source,
)
from streamnorm._core.bodies.table import Writing, unknown_of
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm.dialects.bedrock_converse.body.content import (
    ContentWriter,
    blocks_from_wire,
    guarded_from_wire,
    mark_to_wire,
    text_to_wire,
)
from streamnorm.dialects.bedrock_converse.body.files import (
    as_extra,
    document_names,
    fit_documents,
)
from streamnorm.dialects.bedrock_converse.wire import DIALECT

_MESSAGE = frozenset({"role", "content"})
_ROLES: dict[object, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


def message_from_wire(value: dict[str, Any]) -> InputMessage:
    """Decode a message.

    Raises:
        DecodeError: The role is unknown, or a field has another type than the vendor's.
    """
    role = _ROLES.get(require_str(value, "role"))
    if role is None:
        raise DecodeError("another role, expected user, assistant or system", path="$.role")
    try:
        blocks = tuple(blocks_from_wire(value.get("content")))
    except DecodeError as exc:
        raise prefix_path(exc, "$.content") from None
    extra = as_extra(unknown_fields(value, _MESSAGE))
    message = InputMessage(role, blocks, extra=extra)
    return InputMessage(role, blocks, None, extra, Source(DIALECT, value, message))


def system_from_wire(system: object) -> tuple[Text, ...]:
    """Return the text blocks of a system prompt.

    Raises:
        DecodeError: A block is neither a text nor a cache point.
    """
    texts = blocks_from_wire(system, {"text": _text_from_wire, "guardContent": guarded_from_wire})
    for number, block in enumerate(texts):
        if not isinstance(block, Text):
            problem = "a block of another type, expected a text or a cache point"
            raise DecodeError(problem, path=f"$[{number}]")
    return tuple(texts)


def _text_from_wire(value: object) -> Text | None:
    return Text(value) if isinstance(value, str) else None


def system_to_wire(system: tuple[Text, ...], writing: Writing) -> list[dict[str, Any]] | None:
    """Return the system prompt, with cache points after the marked texts."""
    written: list[dict[str, Any]] = []
    for text in system:
        if text.text:  # the API demands one character
            written.append(text_to_wire(structs.replace(text, citations=())))
        if text.cache is not None and written:
            written.append(mark_to_wire(text.cache))
    return written or None


def messages_to_wire(messages: tuple[InputMessage, ...], writing: Writing) -> list[dict[str, Any]]:
    """Return the messages of a projected request.

    Consecutive messages of one role become one: the API refuses "A conversation must alternate
    between user and assistant roles".

    Raises:
        EncodeError: A block has no legal form, there are too many documents, or the first message
            is the assistant's.
    """
    written: list[_WrittenMessage] = []
    context = writing.context
    messages = fit_documents(messages, context.losses)
    names = document_names(messages)
    write = context.memoize(partial(_message_to_wire, context=context, names=names))
    for number, message in enumerate(messages):
        value = source = unchanged_source(message, DIALECT)
        if value is None:
            value = write(message, number)
        if value is None:
            continue
        is_source = source is not None  # the client's own messages stay apart, as it wrote them
        if not (written or is_source) and value["role"] == "assistant":
            # "A conversation must start with a user message" (langgenius/dify#12340).
            problem = "a message of the assistant, expected one of the user before it"
            raise EncodeError(problem, path=f"messages[{number}]")
        last = written[-1] if written else None
        if last is None or last.value["role"] != value["role"] or (last.is_source and is_source):
            written.append(_WrittenMessage(value, is_source))
        else:
            last.join(value)
    return [
        each.value if each.is_source else _add_text_to_documents(each.value, context)
        for each in written
    ]


class _WrittenMessage(Struct):
    """A message of the body, encoded from one or several unified messages.

    Attributes:
        value: The JSON object.
        is_source: Whether it is the client's own, unchanged.
        is_joined: Whether its content is a list of its own, which may grow.
    """

    value: dict[str, Any]
    is_source: bool
    is_joined: bool = False

    def join(self, value: dict[str, Any]) -> None:
        """Append the content of a further message of the same role."""
        content: list[Any] = self.value.get("content") or []
        if not self.is_joined:  # the list is still that of a message, which others may share
            content = list(content)
        content += value.get("content") or []
        self.value = {**self.value, **value, "content": content}
        self.is_source, self.is_joined = False, True


def _message_to_wire(
    message: InputMessage, number: int, *, context: WriteContext, names: list[list[str]]
) -> dict[str, Any] | None:
    """Return a message as its JSON object; None if no block is left (counted as a loss)."""
    blocks = message.blocks
    if message.role == "assistant":
        blocks = _put_reasoning_first(blocks, context)
    content = ContentWriter(context, names[number]).write(blocks, f"messages[{number}]")
    if not content:
        context.losses.add("empty_message_dropped", "messages", "nothing in it was written")
        return None
    return {"role": message.role, "content": content, **unknown_of(message.extra, DIALECT)}


def _add_text_to_documents(message: dict[str, Any], context: WriteContext) -> dict[str, Any]:
    """Return a message; add a placeholder text if it has documents but no text.

    The API refuses "A text block must be included when using documents"
    (archestra-ai/archestra#4220).
    """
    content: list[dict[str, Any]] = message["content"]
    count = sum("document" in item for item in content)
    if not count or any("text" in item for item in content):
        return message
    context.losses.add("document_text_added", "messages", "a text beside the document")
    text = "[document]" if count == 1 else f"[{count} documents]"
    return {**message, "content": [*content, {"text": text}]}


def _put_reasoning_first(
    blocks: tuple[InputBlock, ...], context: WriteContext
) -> tuple[InputBlock, ...]:
    """Return an assistant message's blocks, with reasoning moved before the other blocks.

    The API refuses to continue an answer with calls that begins with anything else
    (RooCodeInc/Roo-Code#11238).
    """
    if not blocks or isinstance(blocks[0], Reasoning | RedactedReasoning):
        return blocks
    thoughts = [b for b in blocks if isinstance(b, Reasoning | RedactedReasoning)]
    if not thoughts:
        return blocks
    others = [b for b in blocks if not isinstance(b, Reasoning | RedactedReasoning)]
    context.losses.add("order_lost", "messages", "reasoning written first")
    return same_parts(blocks, (*thoughts, *others))
