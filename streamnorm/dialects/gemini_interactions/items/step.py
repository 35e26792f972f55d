"""One step of an interaction, whatever its type."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from streamnorm._core.events import Event
from streamnorm.dialects.gemini.interactions.blocks import Blocks
from streamnorm.dialects.gemini.interactions.wire import Delta, cleaned

__all__ = ["Step", "rest_of"]


class Step(ABC):
    """One step that has not stopped.

    Args:
        kind: Its type.
        wire: What its start tells.
        raw: The JSON text of its arguments; empty if there are none.
        blocks: What it shares with the others.
    """

    def __init__(self, kind: str, wire: dict[str, Any], raw: str, blocks: Blocks) -> None:
        self.kind = kind
        self._wire = wire
        self._raw = raw
        self._blocks = blocks

    @abstractmethod
    def start(self, events: list[Event]) -> None:
        """Append what its start brings."""

    def more(self, delta: Delta, events: list[Event]) -> bool:
        """Take a delta of a usual kind.  Return False if it needs a second look."""
        return False

    @abstractmethod
    def take(self, kind: str, delta: dict[str, Any], raw: str, events: list[Event]) -> bool:
        """Take a delta.  Return False if it is none of this step.

        Args:
            kind: Its type.
            delta: The delta.
            raw: The JSON text of its arguments; empty if there are none.
            events: Where to append.
        """

    @property
    @abstractmethod
    def index(self) -> int | None:
        """Number of the block that is open, if one is."""

    @abstractmethod
    def stop(self, events: list[Event], *, told: bool) -> None:
        """Append what ends it.

        Args:
            events: Where to append.
            told: Whether its end was told, and not only that of the interaction.
        """


def rest_of(value: dict[str, Any], *known: str) -> dict[str, Any]:
    """Return the other fields of an object, those that say something."""
    return {
        key: cleaned(key, item)
        for key, item in value.items()
        if key not in known and item not in (None, "")
    }
