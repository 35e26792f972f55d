"""Names of a client's fields in errors, which have the positions of the decoded `Request`."""

from __future__ import annotations

import re
from typing import Any

from streamnorm._core.blocks import ToolCall
from streamnorm._core.bodies.request import InputMessage, Request, Source
from streamnorm._core.errors import EncodeError
from streamnorm._core.json import is_array, is_object

_PART = re.compile(r"messages\[([0-9]+)\](?:\.(blocks|tool_calls)\[([0-9]+)\])?")
_HISTORIES = ("messages", "contents", "input")
_CONTENTS = ("content", "parts")
_IDS = ("call_id", "id")


def name_client_field(exc: EncodeError, request: Request) -> EncodeError:
    """Return an error with the field of the client's body as its path, where the field is known.

    Args:
        exc: Why the request cannot be encoded.
        request: The request, as it was decoded from the body.
    """
    source = request.source
    if not (isinstance(source, Source) and is_object(source.value)):
        return exc
    return EncodeError(exc.args[0], path=_field(exc.path, request, source.value))


def _field(path: str, request: Request, body: dict[str, Any]) -> str:
    """Return the path of a part of a request in the body that it was decoded from."""
    if path == "messages":
        return next((name for name in _HISTORIES if name in body), path)
    part = _PART.match(path)
    if part is None or int(part[1]) >= len(request.messages):
        return path
    message, kind, position = request.messages[int(part[1])], part[2], int(part[3] or 0)
    at = _block_position(message, kind, position)
    item = _item_of(message, at)
    found = None if item is None else _path_of(item, body)
    if item is None or found is None:
        return path
    if kind == "tool_calls" and kind in item:
        return f"{found}.{kind}[{position}]"
    return found + _content_path(item, message, at)


def _block_position(message: InputMessage, kind: str | None, position: int) -> int | None:
    """Return the position of a part among the blocks of its message; None for the message."""
    if kind is None:
        return None
    if kind != "tool_calls":
        return position if position < len(message.blocks) else None
    calls = [at for at, block in enumerate(message.blocks) if isinstance(block, ToolCall)]
    return calls[position] if position < len(calls) else None


def _item_of(message: InputMessage, at: int | None) -> dict[str, Any] | None:
    """Return the JSON object of a message, or of one of its blocks where each has its own."""
    if not isinstance(message.source, Source):
        return None
    value = message.source.value
    items: list[dict[str, Any]] = value if is_array(value) else [value]
    if at is None or len(items) == 1:
        return items[0]
    block = message.blocks[at]
    if len(items) == len(message.blocks):
        return items[at]
    if isinstance(block, ToolCall):
        return next((item for item in items if block.id in map(item.get, _IDS)), None)
    return None


def _path_of(item: dict[str, Any], body: dict[str, Any]) -> str | None:
    """Return the path of an object in a list of the body."""
    for name in _HISTORIES:
        history = body.get(name)
        for number, other in enumerate(history if is_array(history) else ()):
            if other is item:
                return f"{name}[{number}]"
    return None


def _content_path(item: dict[str, Any], message: InputMessage, at: int | None) -> str:
    """Return the path of a block within the object of its message; "" if it is unknown."""
    for name in _CONTENTS if at is not None else ():
        content = item.get(name)
        if is_array(content) and len(content) == len(message.blocks):
            return f".{name}[{at}]"
    return ""
