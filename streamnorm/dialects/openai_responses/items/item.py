"""The base of all kinds of output items."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, TypeVar

from streamnorm._core.events import Event, StreamError
from streamnorm._core.failures import Fatal
from streamnorm._core.json import string_of
from streamnorm._core.limits import USUAL_FIELDS_BYTES, value_bytes
from streamnorm.dialects.openai_responses.items.block_opener import ResponseBlockOpener

__all__ = ["Item", "align_parts", "extra_fields", "id_of", "malformed", "part_position"]

T = TypeVar("T")

_HEAD = ("id", "type", "status")


class Item(ABC):
    """An output item, and the blocks that it becomes.

    Args:
        initial: The item as first received.
        opener: Opens the blocks of the response.

    Attributes:
        type: Its type.
        name: Its name; empty if it has none.
        id: Its first `id`, else its `call_id`; empty if it has neither.
        output_index: Its position in the output; None if no event stated it.
        is_done: Whether the complete item was received.
        index: Index of its block, the latest if it has several; -1 before the first.
    """

    def __init__(self, initial: dict[str, Any], opener: ResponseBlockOpener) -> None:
        self.type = string_of(initial, "type")
        self.name = string_of(initial, "name")
        self.id = id_of(initial)
        self.output_index: int | None = None
        self.is_done = False
        self.index = -1
        self._initial = initial
        self._opener = opener
        self._initial_bytes = 0  # counted as stored

    @property
    def can_grow(self) -> bool:
        """Whether a delta may extend it."""
        return not self.is_done

    @property
    def has_content(self) -> bool:
        """Whether any of it has come since its start; False for kinds that are whole at once."""
        return False

    @property
    def is_answer(self) -> bool:
        """Whether the terminal's output cannot leave it out."""
        return False

    def start(self, events: list[Event]) -> None:  # noqa: B027 - most kinds wait for content
        """Append the block start, if `initial` holds what it needs."""

    @abstractmethod
    def complete(self, item: dict[str, Any], events: list[Event]) -> None:
        """Append what no event has carried of the complete item, and stop its blocks.

        Raises:
            Fatal: The complete item contradicts the events.
        """

    def compare(self, item: dict[str, Any]) -> None:  # noqa: B027 - few kinds compare
        """Compare a second complete item with what is held.

        Raises:
            Fatal: They contradict each other.
        """

    def close_incomplete(self, events: list[Event]) -> None:
        """Stop the blocks of an item whose complete form never came."""
        self.complete(self._initial, events)

    def store_initial(self) -> None:
        """Count what is stored of an item until it is complete.

        Raises:
            Fatal: More is stored than the limits allow.
        """
        self._initial_bytes = max(value_bytes(self._initial) - USUAL_FIELDS_BYTES, 0)
        self._opener.count_stored(self._initial_bytes)

    def mark_done(self) -> None:
        """Release the data of a complete item, and accept nothing new for it."""
        self.is_done = True
        self._opener.stored.release(self._initial_bytes)
        self._initial, self._initial_bytes = {}, 0


def malformed(message: str) -> Fatal:
    """Return the error that ends a stream which contradicts itself."""
    return Fatal(StreamError("malformed", message))


def id_of(item: dict[str, Any]) -> str:
    """Return the id of an item: its `id`, else its `call_id`."""
    return string_of(item, "id") or string_of(item, "call_id")


def extra_fields(item: dict[str, Any], *mapped: str) -> dict[str, Any]:
    """Return the fields of an item that are not `mapped`, its id as `item_id`."""
    extra = {
        key: value
        for key, value in item.items()
        if key not in _HEAD and key not in mapped and value is not None
    }
    id = string_of(item, "id")
    return {"item_id": id, **extra} if id else extra


def part_position(part_index: int | None, parts: Collection[int]) -> int:
    """Return the index of the part that an event belongs to.

    Args:
        part_index: The index in the event; None if it has none.
        parts: The indexes of the parts that it may belong to.

    Raises:
        Fatal: The event has no index, and there are several parts.
    """
    if part_index is not None:
        return part_index
    if len(parts) > 1:
        raise malformed(f"event without an index in an item of {len(parts)} parts, expected one")
    return next(iter(parts), 0)


def align_parts(received: dict[int, T], positions: list[int]) -> dict[int, T]:
    """Return the received parts of a complete item by their positions in it.

    vLLM numbers the only part of a message 1, so equal counts are matched in order.

    Args:
        received: Parts by the index under which their events came.
        positions: Positions of such parts in the complete item.
    """
    if len(received) != len(positions):
        return received
    return dict(zip(positions, (received[index] for index in sorted(received)), strict=True))
