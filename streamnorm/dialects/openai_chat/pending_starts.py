"""What waits behind a tool call whose start is held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from streamnorm._core.events import Event
from streamnorm._core.failures import too_large
from streamnorm._core.text_buffer import TextBuffer
from streamnorm.dialects.openai_chat.tool_calls import Call

__all__ = ["Kind", "Later", "LaterText", "Queue"]

Kind: TypeAlias = Literal["text", "reasoning", "refusal"]


class LaterText(Struct):
    """Text of one kind."""

    kind: Kind
    text: TextBuffer


class Later(Struct):
    """Anything else."""

    do: Callable[[list[Event]], None]


class Queue:
    """Held starts and what stands behind them, in order.

    A call without arguments goes once something behind it wants out: its name may come
    in pieces, even among those of its parallel calls.

    Args:
        max_bytes: UTF-8 bytes of text that may wait.
    """

    def __init__(self, max_bytes: int) -> None:
        self._items: list[Call | LaterText | Later] = []
        self._first = 0  # of the items that wait; those before it are gone
        self._ripe = 0  # how many of them have something to let out
        self._bytes = 0
        self._max_bytes = max_bytes

    def __bool__(self) -> bool:
        return bool(self._items)

    def hold(self, call: Call) -> None:
        """Add the start of a call."""
        self._items.append(call)

    def ripen(self, text: str, *, first: bool) -> None:
        """Take it that a call has more to let out.

        Args:
            text: What it has.
            first: Whether it had nothing before.
        """
        self._ripe += first
        self._count(text)

    def add_text(self, kind: Kind, text: str) -> None:
        """Add text."""
        last = self._items[-1]
        if not isinstance(last, LaterText) or last.kind != kind:
            last = LaterText(kind, TextBuffer())
            self._items.append(last)
            self._ripe += 1
        last.text.append(text)
        self._count(text)

    def add(self, do: Callable[[list[Event]], None], text: str) -> None:
        """Add anything else, which holds `text`."""
        self._items.append(Later(do))
        self._ripe += 1
        self._count(text)

    def pop(self, *, force: bool) -> Call | LaterText | Later | None:
        """Take out what may go next, or return None.

        Args:
            force: Whether something behind all of it wants out.
        """
        if not self._items or not (self._ripe or force):
            return None
        item = self._items[self._first]
        if isinstance(item, Call):
            if not item.name:
                return None
            self._ripe -= item.ripe
        else:
            self._ripe -= 1
        self._first += 1
        if self._first == len(self._items):
            self._items.clear()
            self._first = self._bytes = 0
        return item

    def _count(self, text: str) -> None:
        self._bytes += len(text.encode("utf-8", "surrogatepass"))
        if self._bytes > self._max_bytes:
            raise too_large("max_held_bytes", self._max_bytes)
