"""The base of all kinds of output items."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeVar

from streamnorm._core.events import Event
from streamnorm._core.json import string_of
from streamnorm.dialects.openai_responses.delta_run import OpenText
from streamnorm.dialects.openai_responses.items.block_opener import ResponseBlockOpener
from streamnorm.dialects.openai_responses.wire import DeltaEvent

__all__ = ["Item", "align_parts", "extra_fields"]

T = TypeVar("T")

_HEAD = ("id", "type", "status")


class Item(ABC):
    """An output item, and the blocks that it becomes.

    Args:
        initial: The item as first received.
        opener: Opens the blocks of the response.

    Attributes:
        type: Its type.
        id: Its first `id`, else its `call_id`; empty if it has neither.
        output_index: Its position in the output; None if no event stated it.
        is_done: Whether the complete item was received.
        index: Index of its block, the latest if it has several; -1 before the first.
    """

    def __init__(self, initial: dict[str, Any], opener: ResponseBlockOpener) -> None:
        self.type = string_of(initial, "type")
        self.id = string_of(initial, "id") or string_of(initial, "call_id")
        self.output_index: int | None = None
        self.is_done = False
        self.index = -1
        self._initial = initial
        self._opener = opener

    def start(self, events: list[Event]) -> None:  # noqa: B027 - most kinds wait for content
        """Append the block start, if `initial` holds what it needs."""

    def open_text(self, delta: DeltaEvent) -> OpenText | None:
        """Return the text that deltas like this one extend, if its block is open."""
        return None

    @abstractmethod
    def complete(self, item: dict[str, Any], events: list[Event]) -> None:
        """Append what no event has carried of the complete item, and stop its blocks."""

    def close_incomplete(self, events: list[Event]) -> None:
        """Stop the blocks of an item whose complete form never came."""
        self.complete(self._initial, events)

    def close_reopened(self, events: list[Event]) -> None:  # noqa: B027 - few kinds reopen
        """Stop the blocks that later deltas opened after the item was complete."""

    def mark_done(self) -> None:
        """Release the data of a complete item."""
        self.is_done = True
        self._initial = {}


def extra_fields(item: dict[str, Any], *mapped: str) -> dict[str, Any]:
    """Return the fields of an item that are not `mapped`, its id as `item_id`."""
    extra = {
        key: value
        for key, value in item.items()
        if key not in _HEAD and key not in mapped and value is not None
    }
    id = string_of(item, "id")
    return {"item_id": id, **extra} if id else extra


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
