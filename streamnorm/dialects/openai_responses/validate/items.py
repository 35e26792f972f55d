"""The letter of output items: their places, their identity, and what they add up to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from streamnorm._core.json import is_array, is_object
from streamnorm._core.shapes import holds_object, is_count
from streamnorm.dialects.openai_responses.validate.event_shapes import PROGRESS
from streamnorm.dialects.openai_responses.validate.texts import STEPS, Texts

__all__ = ["Items"]

_DONE = "response.output_item.done"
_BELONGS = {
    **PROGRESS,
    "response.image_generation_call.partial_image": "image_generation_call",
    "response.shell_call_output_content.delta": "shell_call_output",
    "response.shell_call_output_content.done": "shell_call_output",
}
_IDENTITY = ("type", "id", "call_id")
# What the vendor seals it seals anew for each event.
_SEALED = ("encrypted_content", "fingerprint")


class _Item(Struct):
    kind: str  # empty if it is none that is known
    started: dict[str, Any]
    texts: Texts
    done: dict[str, Any] | None = None


class Items:
    """The items of one response."""

    def __init__(self) -> None:
        self._items: dict[int, _Item] = {}
        self._next = 0
        self._ids: dict[str, set[str]] = {"id": set(), "call_id": set()}

    def read(self, event: str, value: dict[str, Any]) -> Iterator[str]:
        """Yield what is wrong with the place of an event, and with what it adds up to.

        Args:
            event: Its type.
            value: The event.
        """
        if event == "response.output_item.added":
            yield from self._add(value)
            return
        index = value.get("output_index")
        if not is_count(index):
            return
        item = self._items.get(index)
        if item is None or item.done is not None:
            yield f"{event} of item {index}, expected an open item"
        elif event == _DONE:
            yield from self._finish(index, item, value)
        else:
            yield from self._more(event, index, item, value)

    def left_open(self, what: str) -> Iterator[str]:
        """Yield the items that should have been done before something."""
        for index, item in self._items.items():
            if item.done is None:
                yield f"{what} while item {index} is open, expected {_DONE}"

    def end(self, event: str, response: dict[str, Any]) -> Iterator[str]:
        """Yield what is wrong with the items by the end of the response.

        Args:
            event: Type of the last event.
            response: What it says.
        """
        yield from self.left_open(event)
        items = [(n, item.done) for n, item in sorted(self._items.items()) if item.done is not None]
        last = len(items) - 1
        for place, (index, item) in enumerate(items):
            if event != "response.incomplete" or place != last:
                yield from _judge(event, index, item)
        output = response.get("output")
        if not is_array(output):
            return
        if len(output) != len(items):
            yield f"response.output has {len(output)} items, expected {len(items)}"
            return
        for place, ((index, item), told) in enumerate(zip(items, output, strict=True)):
            if _unsealed(told) != _unsealed(item):
                yield f"response.output[{place}] is not item {index} as it was done, expected that"

    def _add(self, value: dict[str, Any]) -> Iterator[str]:
        index = value["output_index"] if is_count(value.get("output_index")) else self._next
        if index > self._next or index in self._items:  # one below fills the gap that was told
            yield f"item {index} starts, expected item {self._next}"
        self._next = max(self._next, index + 1)
        told = value.get("item")
        item: dict[str, Any] = told if is_object(told) else {}
        name = _text(item, "type")
        for key, known in self._ids.items():
            # What a call gave has the id of the call.
            id = "" if key == "call_id" and name.endswith("output") else _text(item, key)
            if id in known:
                yield f"{key} of item {index} is that of another, expected its own"
            if id:
                known.add(id)
        self._items[index] = _Item(name, item, Texts(name, index))

    def _finish(self, index: int, item: _Item, value: dict[str, Any]) -> Iterator[str]:
        told = value.get("item")
        item.done = whole = told if is_object(told) else {}
        for key in _IDENTITY:
            before, now = _text(item.started, key), _text(whole, key)
            if before and now and before != now:
                yield f"{_DONE} has another {key} for item {index}, expected that of its start"
        yield from item.texts.whole(whole)

    def _more(self, event: str, index: int, item: _Item, value: dict[str, Any]) -> Iterator[str]:
        step = STEPS.get(event)
        kinds = step.items if step is not None else (_BELONGS[event],)
        if item.kind and item.kind not in kinds:
            yield f"{event} in item {index}, expected an event of {item.kind}"
            return
        id, known = _text(value, "item_id"), _text(item.started, "id")
        if id and known and id != known:
            yield f"item_id of {event} is not the id of item {index}, expected that"
        if step is not None:
            yield from item.texts.take(event, step, value)


def _judge(event: str, index: int, item: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with an item that nothing cut short."""
    arguments = item.get("arguments")
    if item.get("status") == "incomplete":
        yield f"{event} with item {index} incomplete, expected at most the last of a cut response"
    elif (
        item.get("type") == "function_call"
        and isinstance(arguments, str)
        and not holds_object(arguments)
    ):
        size = f"{len(arguments)} characters"
        yield f"arguments of item {index} in {size} are no JSON object, expected one"


def _text(value: dict[str, Any], key: str) -> str:
    """Return a string; an empty one for what was told to be none."""
    text = value.get(key)
    return text if isinstance(text, str) else ""


def _unsealed(item: object) -> object:
    if not is_object(item):
        return item
    return {key: value for key, value in item.items() if key not in _SEALED}
