"""Positions of parts of a projected history in the history that was projected."""

from __future__ import annotations

import re
from collections.abc import Sequence

from streamnorm._core.blocks import InputBlock, ToolCall
from streamnorm._core.bodies.request import InputMessage

_PART = re.compile(r"messages\[([0-9]+)\](?:\.blocks\[([0-9]+)\])?")


def path_before(
    path: str, projected: Sequence[InputMessage], messages: Sequence[InputMessage]
) -> str:
    """Return the path of a part of a projected history in the history as it was before.

    Results that are joined to one message, or moved, and system messages that become a field change
    the numbers of all messages that follow.

    Args:
        path: Path of the part, such as `messages[3].blocks[0]`.
        projected: The messages in which it is the path of the part.
        messages: The messages as they were before.
    """
    part = _PART.match(path)
    if part is None or projected is messages or int(part[1]) >= len(projected):
        return path
    blocks = projected[int(part[1])].blocks
    if part[2] is not None:
        for block in blocks[int(part[2]) :][:1]:
            if (found := _find(block, messages)) is not None:
                return f"messages[{found[0]}].blocks[{found[1]}]{path[part.end() :]}"
    # The block was changed, or the whole message is named.
    places = (found[0] for block in blocks if (found := _find(block, messages)) is not None)
    number = next(places, None)
    if number is None:
        return path
    is_whole = len(blocks) == len(messages[number].blocks)
    place = f".blocks[{part[2]}]" if part[2] is not None and is_whole else ""
    return f"messages[{number}]{place}{path[part.end() :]}"


def _find(block: InputBlock, messages: Sequence[InputMessage]) -> tuple[int, int] | None:
    """Return the position of a block, or of the same call, in a history."""
    for number, message in enumerate(messages):
        for position, other in enumerate(message.blocks):
            if other is block or (
                isinstance(block, ToolCall)
                and isinstance(other, ToolCall)
                and (block.id and block.id == other.id)
            ):
                return number, position
    return None
