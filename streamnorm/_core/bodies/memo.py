"""What was encoded of the messages of a growing history, so that only new ones are encoded.

The encoding of a message depends on the messages before it and on nothing after it (prefix
stability).  As long as a history only grows, a message that was encoded for a target is
encoded the same way again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from streamnorm._core.bodies.request import InputMessage
from streamnorm._core.losses import Losses

__all__ = ["EncodingMemo"]

T = TypeVar("T")


class _Entry(NamedTuple):
    """The result of one step for one message.

    Attributes:
        message: The message, whose parts must stay alive: they are the key.
        result: What the step returned.
        lost: The losses that it counted.
    """

    message: InputMessage
    result: Any
    lost: tuple[tuple[str, str, str], ...]


class EncodingMemo:
    """The results of encoding the messages of one growing history for one target.

    A message is known by the identity of its parts, so that one that is put together anew of
    the same blocks is known as well.  Results that the last encoding did not use are dropped.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], _Entry] = {}
        self._used: dict[tuple[object, ...], _Entry] = {}

    def begin(self) -> None:
        """Begin an encoding of the whole history."""
        self._used = {}

    def commit(self) -> None:
        """Keep the results that were used since `begin`, and drop all others."""
        self._known = self._used
        self._used = {}

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
        key = (
            *(step, position, message.role, message.name),
            *(id(message.extra), id(message.source)),
            *map(id, message.blocks),
        )
        entry = self._used.get(key) or self._known.get(key)
        if entry is None:
            result, lost = losses.recorded(make)
            entry = _Entry(message, result, lost)
        else:
            for loss in entry.lost:
                losses.add(*loss)
        self._used[key] = entry
        value: T = entry.result
        return value
