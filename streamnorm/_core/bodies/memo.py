"""Cache of encoded messages: for a growing history, only new messages are encoded.

The encoding of a message depends only on the message and on those before it (prefix stability).
As long as a history only grows, the cached encoding of each message stays right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from streamnorm._core.bodies.request import InputMessage, same_parts
from streamnorm._core.losses import Losses

T = TypeVar("T")


class _Entry(NamedTuple):
    """The cached result of one encoding step for one message.

    Attributes:
        message: The message.
        result: Return value of the step.
        lost: Losses that the step counted.
    """

    message: InputMessage
    result: Any
    lost: tuple[tuple[str, str, str], ...]


class EncodingMemo:
    """Cache of the encoded messages of one growing history, for one target.

    A message is recognised by its position and the identity of its parts: a new message object
    with the same blocks is a hit.
    """

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int], _Entry] = {}

    def result(
        self,
        step: str,
        position: int,
        message: InputMessage,
        losses: Losses,
        make: Callable[[], T],
    ) -> T:
        """Return the result of an encoding step for a message, from the cache or else from `make`.

        Args:
            step: Name of the step.
            position: Position of the message in the history.
            message: The message.
            losses: Counter of the losses of the step; on a hit they are counted again.
            make: Function that encodes the message.

        Raises:
            LossyEncoding: The step loses something, and the losses are strict.
        """
        entry = self._entries.get((step, position))
        if entry is None or not _is_same(entry.message, message):
            result, lost = losses.record(make)
            self._entries[step, position] = _Entry(message, result, lost)
            return result
        for loss in entry.lost:
            losses.add(*loss)
        known: T = entry.result
        return known


def _is_same(before: InputMessage, message: InputMessage) -> bool:
    """Return whether two messages have equal roles and names, and identical other parts."""
    return before is message or (
        before.role == message.role
        and before.name == message.name
        and before.extra is message.extra
        and before.source is message.source
        and same_parts(before.blocks, message.blocks) is before.blocks
    )
