"""UI messages: from the messages of a chat to those of a request.

npm `ai` 7.0.173, `src/ui/convert-to-model-messages.ts` (read 2026-11-27).  A UI message has no
role for results: they stand in the parts of their calls.  Each step of an answer, which
`step-start` begins, is a message of the assistant and a message with the results of its calls.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from streamnorm._core.blocks import InputBlock, Text
from streamnorm._core.bodies.fields import as_object, read_array, require_str, unexpected
from streamnorm._core.bodies.request import InputMessage
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import is_array, is_object
from streamnorm.dialects.ui_message_stream.body.content import (
    Step,
    read_part,
    user_block_from_wire,
)


def messages_from_wire(value: object) -> tuple[InputMessage, ...]:
    """Return the messages of a request.

    Raises:
        DecodeError: There are none, or an entry is no UI message.
    """
    if value is None:
        raise DecodeError("missing, expected an array", path="$.messages")
    if not is_array(value):
        raise unexpected(value, "an array", "$.messages")
    if not value:
        raise DecodeError("no messages, expected at least one", path="$.messages")
    users = [at for at, item in enumerate(value) if is_object(item) and item.get("role") == "user"]
    last_user = users[-1] if users else -1
    read = partial(_message_from_wire, last_user)
    read_all = read_array(list(enumerate(value)), read, "$.messages")
    return tuple(message for messages in read_all for message in messages)


def _message_from_wire(last_user: int, entry: tuple[int, object]) -> list[InputMessage]:
    position, item = entry
    value = as_object(item)
    role = require_str(value, "role")
    if "parts" not in value:  # the `content` of v4
        raise DecodeError("missing, expected an array", path="$.parts")
    parts = value["parts"]
    if not is_array(parts):
        raise unexpected(parts, "an array", "$.parts")
    if role == "assistant":
        return _answer_from_wire(parts, is_superseded=position < last_user)
    if role not in ("user", "system"):
        raise DecodeError("another role, expected user, assistant or system", path="$.role")
    if not parts:
        raise DecodeError("no parts, expected at least one", path="$.parts")
    blocks = read_array(parts, partial(user_block_from_wire, role), "$.parts")
    if role == "user":
        return [InputMessage("user", tuple(blocks))]
    # The client joins the texts without a separator.
    text = "".join(block.text for block in blocks if isinstance(block, Text))
    return [InputMessage("system", (Text(text),))]


def _answer_from_wire(parts: list[Any], *, is_superseded: bool) -> list[InputMessage]:
    """Return the steps of an answer, each with the results of its calls.

    Args:
        parts: The parts of the UI message.
        is_superseded: Whether a later message of the user exists.
    """
    messages: list[InputMessage] = []
    step = Step(is_superseded)

    def end_step() -> None:
        nonlocal step
        messages.extend(step.messages())
        step = Step(is_superseded)

    def read(item: object) -> None:
        part = as_object(item)
        kind = require_str(part, "type")
        if kind == "step-start":
            end_step()
        elif kind == "steering-message":  # what the user said between two steps
            end_step()
            messages.append(InputMessage("user", _steering_blocks(part)))
        else:
            read_part(kind, part, step)

    read_array(parts, read, "$.parts")
    end_step()
    return messages


def _steering_blocks(part: dict[str, Any]) -> tuple[InputBlock, ...]:
    if part.get("parts") is None:
        raise DecodeError("missing, expected an array", path="$.parts")
    return tuple(read_array(part["parts"], partial(user_block_from_wire, "user"), "$.parts"))
