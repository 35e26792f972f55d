"""Consecutive items of the assistant: one message under construction."""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import InputBlock
from streamnorm._core.bodies.request import InputMessage, Source
from streamnorm.dialects.openai_responses.wire import DIALECT

__all__ = ["Answer"]


class Answer:
    """One message of the assistant, whose items have begun to arrive.

    A message holds one answer of the model: reasoning, then text, then calls.  What stands
    between a call and its result belongs to the message of the call.

    Args:
        position: Its position among the messages.

    Attributes:
        position: The same.
        has_text: Whether it has text.
        has_results: Whether a result has come since it began.
    """

    def __init__(self, position: int) -> None:
        self.position = position
        self.has_text = False
        self.has_results = False
        self._items: list[dict[str, Any]] = []
        self._blocks: list[InputBlock] = []
        # Calls without a result, each with whether one comes later; and the ids of all calls
        # in order, of which those before `_first` have results.
        self._open_calls: dict[str, bool] = {}
        self._call_ids: list[str] = []
        self._first = 0
        self._awaited = 0

    def accepts(self, *, begins: bool) -> bool:
        """Return whether another item belongs to the message.

        Args:
            begins: Whether an answer begins with items of this type.
        """
        if self.has_results:
            return self._awaited > 0
        return not (begins and self.has_text) or bool(self._open_calls)

    def add(self, item: dict[str, Any], blocks: tuple[InputBlock, ...]) -> None:
        """Append an item and its blocks."""
        self._items.append(item)
        self._blocks += blocks

    def open_call(self, id: str, *, is_awaited: bool) -> None:
        """Note a call, and whether its result comes later."""
        self._awaited += is_awaited - self._open_calls.get(id, False)
        self._open_calls[id] = is_awaited
        self._call_ids.append(id)

    def close_call(self, id: str) -> None:
        """Note a result; one without an id is that of the first call that has none."""
        self.has_results = True
        if not id and self._open_calls:
            while self._call_ids[self._first] not in self._open_calls:
                self._first += 1
            id = self._call_ids[self._first]
        self._awaited -= self._open_calls.pop(id, False)

    def message(self) -> InputMessage:
        """Return the message."""
        part = InputMessage("assistant", tuple(self._blocks))
        return InputMessage("assistant", part.blocks, source=Source(DIALECT, self._items, part))
