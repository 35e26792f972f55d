"""What was encoded of the messages of a growing history, so that only new ones are encoded.

The encoding of a message depends on the messages before it and on nothing after it (prefix
stability).  As long as a history only grows, a message that was encoded for a target is
encoded the same way again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from streamnorm._core.bodies.request import InputMessage, same_parts
from streamnorm._core.losses import Losses

T = TypeVar("T")


class _Entry(NamedTuple):
    """The result of one step for one message.

    Attributes:
        message: The message.
        result: What the step returned.
        lost: The losses that it counted.
    """

    message: InputMessage
    result: Any
    lost: tuple[tuple[str, str, str], ...]


class EncodingMemo:
    """The results of encoding the messages of one growing history for one target.

    A message is known by its position and the identity of its parts, so that one that is put
    together anew of the same blocks is known as well.
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
        """Return what `make` returns, or returned for the message before.

        Args:
            step: Name of the step.
            position: Number of the message in the step.
            message: The message that it encodes.
            losses: Counts what the step loses, each time.
            make: Encodes the message; called if it is not known.

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
    """Return whether two messages have the same parts."""
    return before is message or (
        before.role == message.role
        and before.name == message.name
        and before.extra is message.extra
        and before.source is message.source
        and same_parts(before.blocks, message.blocks) is before.blocks
    )
