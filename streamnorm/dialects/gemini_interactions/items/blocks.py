"""What the steps of one interaction share, and text that comes in pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from streamnorm._core.blocks import Block
from streamnorm._core.events import BlockStart, Event, Opaque
from streamnorm._core.json import clean, compact, rejoin
from streamnorm.dialects.gemini.shared import Shared

__all__ = ["INTERACTIONS", "Blocks", "Growth"]

INTERACTIONS = "gemini_interactions"
"""Whose data is that has no place in the events: what writes `generateContent` knows none."""


class Blocks(Struct):
    """What the steps of one interaction share.

    Attributes:
        shared: Bounds and counts.
        asked: Names of the calls that nobody has answered, by id.
        served: Id of the last call that the provider executed.
    """

    shared: Shared
    asked: dict[str, str] = {}
    served: str = ""

    def begin(self, block: Block, extra: dict[str, Any] | None, events: list[Event]) -> int:
        """Append the start of a block, and return its index."""
        index = self.shared.next_block()
        events.append(BlockStart(index, block, extra=extra or None))
        return index

    def opaque(
        self, name: str, value: Any, events: list[Event], *, index: int | None = None
    ) -> None:
        """Append data that only the vendor's clients know."""
        events.append(Opaque(INTERACTIONS, clean(name), compact(value), index))


class Growth:
    """A block that text is added to.

    Args:
        index: Its number.
        make: Makes the event of more text.

    Attributes:
        carry: High surrogate that its text ended in.
    """

    def __init__(self, index: int, make: Callable[[str], Event]) -> None:
        self.index = index
        self.carry = ""
        self._make = make

    def add(self, text: str, events: list[Event]) -> str:
        """Append more text, and return what of it is known to be whole."""
        text, self.carry = rejoin(self.carry, text)
        if text:
            events.append(self._make(text))
        return text

    def flush(self, events: list[Event]) -> str:
        """Append what waits for the rest of a character, and return it."""
        carry, self.carry = clean(self.carry), ""
        if carry:
            events.append(self._make(carry))
        return carry
