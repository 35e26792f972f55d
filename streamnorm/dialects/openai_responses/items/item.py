"""One item of the output, as every kind of item has it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeVar

from streamnorm._core.events import Event
from streamnorm._core.json import string_of
from streamnorm.dialects.openai_responses.items.block_opener import Blocks

__all__ = ["Item", "pair", "rest"]

T = TypeVar("T")

_HEAD = ("id", "type", "status")


class Item(ABC):
    """One item of the output.

    Args:
        wire: The item as it was when it was first seen.
        blocks: The blocks of the response.

    Attributes:
        type: Its type.
        id: Its id at that time, or of its call where it has none of its own; empty if unknown.
        number: Its place in the output; None if nobody said.
        is_done: Whether it was complete.
        index: Number of its block, the latest if it has several; -1 before the first.
    """

    def __init__(self, wire: dict[str, Any], blocks: Blocks) -> None:
        self.type = string_of(wire, "type")
        self.id = string_of(wire, "id") or string_of(wire, "call_id")
        self.number: int | None = None
        self.is_done = False
        self.index = -1
        self._wire = wire
        self._blocks = blocks

    def start(self, events: list[Event]) -> None:  # noqa: B027 - most have nothing to say yet
        """Append what the item's start makes known."""

    @abstractmethod
    def complete(self, wire: dict[str, Any], events: list[Event]) -> None:
        """Append what of the complete item has not come yet, and its end."""

    def finish(self, events: list[Event]) -> None:
        """Append the end of an item that nobody has completed."""
        self.complete(self._wire, events)

    def close(self, events: list[Event]) -> None:  # noqa: B027 - most never open again
        """Append the ends of blocks that opened again after the item was complete."""

    def forget(self) -> None:
        """Keep no more of a complete item than tells it from others."""
        self.is_done = True
        self._wire = {}


def rest(wire: dict[str, Any], *known: str) -> dict[str, Any]:
    """Return the fields of an item that say something else, its id as `item_id`."""
    more = {
        key: value
        for key, value in wire.items()
        if key not in _HEAD and key not in known and value is not None
    }
    id = string_of(wire, "id")
    return {"item_id": id, **more} if id else more


def pair(seen: dict[int, T], whole: list[int]) -> dict[int, T]:
    """Return what was seen of the parts of a complete item, by their places in it.

    vLLM numbers the only part of a message 1: as many parts are the same parts.

    Args:
        seen: What was seen, by the number that it came with.
        whole: The places.
    """
    if len(seen) != len(whole):
        return seen
    return dict(zip(whole, (seen[number] for number in sorted(seen)), strict=True))
