"""Tool calls whose start is held, and the content that arrived behind them.

A chat call starts once its name is known and an argument, another block or the end has
arrived.  Content that arrives earlier is queued, so that blocks start in wire order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from streamnorm._core.events import Event
from streamnorm._core.failures import too_large
from streamnorm._core.limits import OBJECT_BYTES, text_bytes
from streamnorm._core.text import TextBuffer
from streamnorm.dialects.openai_chat.tool_calls.call import Call

__all__ = ["HeldEvents", "HeldText", "PendingStarts", "TextKind"]

# Items that do not count besides their text.
_USUAL_ITEMS = 4

TextKind: TypeAlias = Literal["text", "reasoning", "refusal"]


class HeldText(Struct):
    """Consecutive text deltas of one kind, joined."""

    kind: TextKind
    text: TextBuffer


class HeldEvents(Struct):
    """A signature or encrypted reasoning; `append` adds its events when it is released."""

    append: Callable[[list[Event]], None]


class PendingStarts:
    """A queue of held call starts and of the content behind them, in wire order.

    Args:
        max_held_bytes: Bound on queued text, arguments and signatures, in UTF-8 bytes, with the
            memory of many items.
    """

    def __init__(self, max_held_bytes: int) -> None:
        self._items: deque[Call | HeldText | HeldEvents] = deque()
        self._ready = 0  # queued items that have content to emit
        self._held_bytes = 0
        self._max_held_bytes = max_held_bytes

    def __bool__(self) -> bool:
        return bool(self._items)

    def add_call(self, call: Call) -> None:
        """Queue a call that has no content yet."""
        self._items.append(call)

    def mark_ready(self, content: str, *, first: bool) -> None:
        """Count arguments or a signature of a queued call; `first` if it had none before."""
        self._ready += first
        self._count(content)

    def add_text(self, kind: TextKind, text: str) -> None:
        """Queue text, joined to the last item if that is text of the same kind."""
        last = self._items[-1]
        if not isinstance(last, HeldText) or last.kind != kind:
            last = HeldText(kind, TextBuffer())
            self._append(last)
        last.text.append(text)
        self._count(text)

    def add_events(self, append: Callable[[list[Event]], None], content: str) -> None:
        """Queue a signature or encrypted reasoning; `content` counts against the bound."""
        self._append(HeldEvents(append))
        self._count(content)

    def pop(self, *, force: bool) -> Call | HeldText | HeldEvents | None:
        """Remove and return the item to emit next; None if all must wait.

        The first item waits until any item has content: until then a name may still grow,
        even between the fragments of parallel calls.  A call without a name always waits.

        Args:
            force: Do not wait for content: another block or the end has arrived.
        """
        if not self._items or not (self._ready or force):
            return None
        item = self._items[0]
        if isinstance(item, Call) and not item.name:
            return None
        self._items.popleft()
        self._ready -= item.has_content if isinstance(item, Call) else 1
        if not self._items:
            self._held_bytes = 0  # released all at once: sizes of single items are not stored
        return item

    def _append(self, item: HeldText | HeldEvents) -> None:
        self._items.append(item)
        self._ready += 1
        if len(self._items) > _USUAL_ITEMS:
            self._held_bytes += OBJECT_BYTES

    def _count(self, content: str) -> None:
        self._held_bytes += text_bytes(content)
        if self._held_bytes > self._max_held_bytes:
            raise too_large("max_held_bytes", self._max_held_bytes)
