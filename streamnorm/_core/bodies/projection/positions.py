"""Positions of parts of a projected history in the history that was projected."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

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
    position_of = _finder(messages)
    if part[2] is not None:
        for block in blocks[int(part[2]) :][:1]:
            if (found := position_of(block)) is not None:
                return f"messages[{found[0]}].blocks[{found[1]}]{path[part.end() :]}"
    # The block was changed, or the whole message is named.
    places = (found[0] for block in blocks if (found := position_of(block)) is not None)
    number = next(places, None)
    if number is None:
        return path
    is_whole = len(blocks) == len(messages[number].blocks)
    place = f".blocks[{part[2]}]" if part[2] is not None and is_whole else ""
    return f"messages[{number}]{place}{path[part.end() :]}"


def _finder(messages: Sequence[InputMessage]) -> Callable[[InputBlock], tuple[int, int] | None]:
    """Return a function that returns the position of a block, or of the same call, in a history."""
    blocks: dict[int, tuple[int, int]] = {}  # by identity
    calls: dict[str, tuple[int, int]] = {}
    for number, message in enumerate(messages):
        for position, block in enumerate(message.blocks):
            blocks.setdefault(id(block), (number, position))
            if isinstance(block, ToolCall) and block.id:
                calls.setdefault(block.id, (number, position))

    def position_of(block: InputBlock) -> tuple[int, int] | None:
        same_call = calls.get(block.id) if isinstance(block, ToolCall) else None
        return blocks.get(id(block), same_call)

    return position_of
