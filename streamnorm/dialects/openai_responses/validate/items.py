"""Strict validator of output items: their indexes, their ids, and their agreement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from streamnorm._core.json import is_array, is_object, objects_of, string_of
from streamnorm._core.shapes import holds_object, is_count
from streamnorm.dialects.openai_responses.validate.event_shapes import PROGRESS
from streamnorm.dialects.openai_responses.validate.texts import TEXT_EVENTS, ItemTexts

__all__ = ["ItemChecker"]

_DONE = "response.output_item.done"
_CUSTOM = "custom_tool_call"
# Item types of the events that carry no text.
_ITEM_TYPES = {
    **PROGRESS,
    "response.image_generation_call.partial_image": "image_generation_call",
    "response.shell_call_output_content.delta": "shell_call_output",
    "response.shell_call_output_content.done": "shell_call_output",
}
_IDENTITY = ("type", "id", "call_id")
# Fields that the API encrypts anew for each event.
_ENCRYPTED = ("encrypted_content", "fingerprint")


class _ItemState(Struct):
    """The received state of an item.

    Attributes:
        type: Its type; empty if it has none.
        added: The item at its start.
        texts: Its texts.
        done: The complete item; None before its end.
    """

    type: str
    added: dict[str, Any]
    texts: ItemTexts
    done: dict[str, Any] | None = None


class ItemChecker:
    """Strict validator of the items of one response."""

    def __init__(self) -> None:
        self._items: dict[int, _ItemState] = {}
        self._next_index = 0
        self._ids: dict[str, set[str]] = {"id": set(), "call_id": set()}

    def read(self, event_type: str, event: dict[str, Any]) -> Iterator[str]:
        """Yield the problems of an event of an item, except those of its shape."""
        if event_type == "response.output_item.added":
            yield from self._add(event)
            return
        index = event.get("output_index")
        if not is_count(index):
            return
        item = self._items.get(index)
        if item is None or item.done is not None:
            yield f"{event_type} of item {index}, expected an open item"
        elif event_type == _DONE:
            yield from self._finish(index, item, event)
        else:
            yield from self._check_event(event_type, index, item, event)

    def open_items(self, event: str) -> Iterator[str]:
        """Yield a problem for each item that is open at `event`."""
        for index, item in self._items.items():
            if item.done is None:
                yield f"{event} while item {index} is open, expected {_DONE}"

    def end(self, event_type: str, response: dict[str, Any]) -> Iterator[str]:
        """Yield the problems that a terminal event shows.

        Args:
            event_type: Its type.
            response: Its response.
        """
        cut: set[int] = set()
        if event_type == "response.incomplete":
            yield from self._end_cut_calls(event_type, response, cut)
        yield from self.open_items(event_type)
        items = [(n, item.done) for n, item in sorted(self._items.items()) if item.done is not None]
        last = len(items) - 1
        for position, (index, item) in enumerate(items):
            if index not in cut and (event_type != "response.incomplete" or position != last):
                yield from _check_complete(event_type, index, item)
        output = response.get("output")
        if not is_array(output):
            return
        if len(output) != len(items):
            yield f"response.output has {len(output)} items, expected {len(items)}"
            return
        for position, ((index, item), repeated) in enumerate(zip(items, output, strict=True)):
            if _comparable(repeated) != _comparable(item):
                found = f"response.output[{position}] is not item {index} as it was done"
                yield f"{found}, expected that"

    def _end_cut_calls(
        self, event_type: str, response: dict[str, Any], cut: set[int]
    ) -> Iterator[str]:
        """End the custom calls that only the terminal states: their text was cut.

        Args:
            event_type: Type of the terminal.
            response: Its response.
            cut: Receives the indexes of these calls.
        """
        incomplete = {
            string_of(item, "id"): item
            for item in objects_of(response.get("output"))
            if item.get("type") == _CUSTOM and item.get("status") == "incomplete"
        }
        for index, item in self._items.items():
            stated = incomplete.get(string_of(item.added, "id"))
            if item.done is None and item.type == _CUSTOM and stated is not None:
                cut.add(index)
                item.done = stated
                yield from item.texts.compare(event_type, stated)

    def _add(self, event: dict[str, Any]) -> Iterator[str]:
        index = event["output_index"] if is_count(event.get("output_index")) else self._next_index
        if index > self._next_index or index in self._items:  # a lower one fills a reported gap
            yield f"item {index} starts, expected item {self._next_index}"
        self._next_index = max(self._next_index, index + 1)
        item = _item_of(event)
        item_type = string_of(item, "type")
        for key, known in self._ids.items():
            # The output of a call has the call's id.
            id = "" if key == "call_id" and item_type.endswith("output") else string_of(item, key)
            if id in known:
                yield f"{key} of item {index} is that of another, expected its own"
            if id:
                known.add(id)
        self._items[index] = _ItemState(item_type, item, ItemTexts(item_type, index))

    def _finish(self, index: int, item: _ItemState, event: dict[str, Any]) -> Iterator[str]:
        item.done = done = _item_of(event)
        for key in _IDENTITY:
            before, now = string_of(item.added, key), string_of(done, key)
            if before and now and before != now:
                yield f"{_DONE} has another {key} for item {index}, expected that of its start"
        yield from item.texts.finish(done)

    def _check_event(
        self, event_type: str, index: int, item: _ItemState, event: dict[str, Any]
    ) -> Iterator[str]:
        text_event = TEXT_EVENTS.get(event_type)
        item_types = text_event.item_types if text_event else (_ITEM_TYPES[event_type],)
        if item.type and item.type not in item_types:
            yield f"{event_type} in item {index}, expected an event of {item.type}"
            return
        id, known = string_of(event, "item_id"), string_of(item.added, "id")
        if id and known and id != known:
            yield f"item_id of {event_type} is not the id of item {index}, expected that"
        if text_event is not None:
            yield from item.texts.read(event_type, text_event, event)


def _item_of(event: dict[str, Any]) -> dict[str, Any]:
    item = event.get("item")
    return item if is_object(item) else {}


def _check_complete(event_type: str, index: int, item: dict[str, Any]) -> Iterator[str]:
    """Yield the problems of an item that was not cut short.

    A call whose arguments the model left unfinished may only be incomplete.
    """
    is_incomplete = item.get("status") == "incomplete"
    arguments = item.get("arguments") if item.get("type") == "function_call" else None
    if isinstance(arguments, str) and not holds_object(arguments):
        if not is_incomplete:
            size = f"{len(arguments)} characters"
            yield f"arguments of item {index} in {size} are no JSON object, expected one"
    elif is_incomplete:
        found = f"{event_type} with item {index} incomplete"
        yield f"{found}, expected at most the last of a cut response"


def _comparable(item: object) -> object:
    """Return an item without its encrypted fields."""
    if not is_object(item):
        return item
    return {key: value for key, value in item.items() if key not in _ENCRYPTED}
