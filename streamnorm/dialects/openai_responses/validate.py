"""Strict validator of Responses streams: order of events and items, sequence numbers.

https://platform.openai.com/docs/api-reference/responses-streaming (read 2026-11-21), and
what clients need: the official helpers throw without `response.created`, without the
start of an item or a part, and where an id or an index changes; the AI SDK and Codex read
items from `response.output_item.done` alone; openai-node throws at unknown types.

    stream  = created queued? in_progress? item* (completed | incomplete | failed) "[DONE]"?
    item k  = output_item.added(k) event(k)* output_item.done(k), k dense from 0; may interleave
    message = (content_part.added delta* annotation* text.done content_part.done)+
    call    = delta* arguments.done

A custom call may lack both `done` events if `response.incomplete` states it as incomplete.

`error` is legal anywhere; only `response.failed` may follow it.  `keepalive` is legal after
`response.created`.  `[DONE]` may be last: Open Responses demands it, the API does not send
it.  The first sequence number is arbitrary, since a stream may be resumed.  The items of a
failed response are not validated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from streamnorm._core.codec import ANY, DONE, Checker, Order, OrderTable
from streamnorm._core.json import is_array, is_object, objects_of, string_of
from streamnorm._core.shapes import (
    holds_object,
    is_count,
    misnamed,
    parse_object,
    problems,
    token_problems,
)
from streamnorm.dialects.openai_responses.items.types import ITEM_ADDED, ITEM_DONE, ITEM_TYPES
from streamnorm.dialects.openai_responses.validate_shapes import ERROR, ERROR_NESTED, EVENTS
from streamnorm.dialects.openai_responses.validate_texts import TEXT_EVENTS, ItemTexts, events_of
from streamnorm.sse import Frame

_CREATED, _QUEUED, _IN_PROGRESS = "response.created", "response.queued", "response.in_progress"
_FAILED = "response.failed"
_TERMINALS = ("response.completed", "response.incomplete", _FAILED)
_STREAM: OrderTable = {
    "open": {
        **{terminal: terminal for terminal in _TERMINALS},
        "error": "error",
        DONE: (DONE, f"{DONE} before the end of the response, expected it last"),
    },
    "error": {
        _FAILED: _FAILED,
        DONE: DONE,
        ANY: f"frame after error, expected {_FAILED} or nothing",
    },
    **{end: {DONE: DONE, ANY: f"frame after {end}, expected nothing"} for end in _TERMINALS},
    DONE: {ANY: f"frame after {DONE}, expected nothing"},
}
_KEEPALIVE = "keepalive"
_WITHOUT_ITEM = (_KEEPALIVE, "response.audio.")
_LIFECYCLE = (_CREATED, _QUEUED, _IN_PROGRESS)
_RANKS = {event_type: rank for rank, event_type in enumerate((*_LIFECYCLE, ITEM_ADDED))}

_CUSTOM = "custom_tool_call"
_SHELL_OUTPUT = "response.shell_call_output_content"
_EVENTS_OF = {
    row.name: {*row.progress_events, *(event for text in row.texts for event in events_of(text))}
    for row in ITEM_TYPES.values()
} | {"shell_call_output": {f"{_SHELL_OUTPUT}.delta", f"{_SHELL_OUTPUT}.done"}}
"""Types of the events within an item, by its type."""

_IDENTITY = ("type", "id", "call_id")
# Fields that the API encrypts anew for each event.
_ENCRYPTED = ("encrypted_content", "fingerprint")


class ResponsesChecker(Checker):
    """Strict validator of one Responses stream."""

    def __init__(self) -> None:
        self._items = ItemChecker()
        self._next_number: int | None = None  # None if it cannot be known
        self._is_started = False  # response.created was received, or its absence reported
        self._seen: dict[str, None] = {}  # lifecycle events, and the first item
        self._id: str | None = None
        self._order = Order(_STREAM)

    def read(self, frame: Frame) -> Iterator[str]:
        state = self._order.state
        if frame.data == DONE or state not in ("open", "error"):
            yield from self._order.advance(DONE if frame.data == DONE else "frame")
            return
        event, json_problems = parse_object(frame.data)
        event_type = event.get("type") if event is not None else None
        if state == "error" and event_type != _FAILED:
            yield from self._order.advance("frame")
            return
        yield from json_problems
        if event is None:
            self._next_number = None
            return
        yield from misnamed(event, frame.event, EVENTS)
        yield from self._check_number(event)
        if isinstance(event_type, str) and event_type in EVENTS:
            yield from problems(EVENTS[event_type], event, "")
            yield from self._check_order(event_type)
            yield from self._check_event(event_type, event)

    def missing(self) -> list[str]:
        if self._order.state != "open":
            return []
        if not self._is_started:
            return [f"no {_CREATED}, expected it first"]
        open_items = self._items.open_items("the stream ends")
        return [*open_items, f"no {', '.join(_TERMINALS[:2])} or {_FAILED}, expected one last"]

    def _check_number(self, event: dict[str, Any]) -> Iterator[str]:
        number, expected = event.get("sequence_number"), self._next_number
        if not is_count(number):
            self._next_number = None
            return
        # A gateway's keepalive takes no number, as its log, from which clients go on, has none.
        is_repeated = event.get("type") == _KEEPALIVE and number + 1 == expected
        if expected is not None and number != expected and not is_repeated:
            yield f"sequence_number is {number}, expected {expected}"
        self._next_number = number + 1

    def _check_order(self, event_type: str) -> Iterator[str]:
        if event_type == "error" or self._order.state == "error":
            return
        if not self._is_started and event_type != _CREATED:
            yield f"{event_type} comes first, expected {_CREATED}"
        self._is_started = True
        if event_type in _LIFECYCLE:
            if event_type in self._seen:
                yield f"second {event_type}, expected one"
            elif event_type != _CREATED:
                later = [seen for seen in self._seen if _RANKS[seen] > _RANKS[event_type]]
                if later:
                    yield f"{event_type} behind {later[0]}, expected it before"
            self._seen[event_type] = None
        elif event_type == ITEM_ADDED:
            self._seen.setdefault(event_type)

    def _check_event(self, event_type: str, event: dict[str, Any]) -> Iterator[str]:
        yield from self._order.advance(event_type)
        if event_type == "error":
            is_nested = is_object(event.get("error"))
            yield from problems(ERROR_NESTED if is_nested else ERROR, event, "")
        elif event_type in _LIFECYCLE or event_type in _TERMINALS:
            response = event.get("response")
            if is_object(response):
                yield from self._check_response(event_type, response)
        elif not event_type.startswith(_WITHOUT_ITEM):
            yield from self._items.read(event_type, event)

    def _check_response(self, event_type: str, response: dict[str, Any]) -> Iterator[str]:
        id = response.get("id")
        if isinstance(id, str):
            if self._id not in (None, id):
                yield "response.id is not that of the event before, expected one throughout"
            self._id = id
        if event_type in _TERMINALS and event_type != _FAILED:
            yield from self._items.end(event_type, response)
            if is_object(usage := response.get("usage")):
                yield from token_problems(usage, "response.usage", "input", "output")


class _ItemState(Struct):
    """Validation state of an item.

    Attributes:
        type: The type; empty if it has none.
        added: The item at its start.
        texts: The texts.
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
        """Yield the problems of an item event, except wrong field names and types."""
        if event_type == ITEM_ADDED:
            yield from self._add(event)
            return
        index = event.get("output_index")
        if not is_count(index):
            return
        item = self._items.get(index)
        if item is None or item.done is not None:
            yield f"{event_type} of item {index}, expected an open item"
        elif event_type == ITEM_DONE:
            yield from self._finish(index, item, event)
        else:
            yield from self._check_event(event_type, index, item, event)

    def open_items(self, event: str) -> Iterator[str]:
        """Yield a problem for each item still open at `event`."""
        for index, item in self._items.items():
            if item.done is None:
                yield f"{event} while item {index} is open, expected {ITEM_DONE}"

    def end(self, event_type: str, response: dict[str, Any]) -> Iterator[str]:
        """Yield the problems that the terminal event reveals.

        Args:
            event_type: The type.
            response: The response.
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
            if _drop_encrypted(repeated) != _drop_encrypted(item):
                found = f"response.output[{position}] is not item {index} as it was done"
                yield f"{found}, expected that"

    def _end_cut_calls(
        self, event_type: str, response: dict[str, Any], cut: set[int]
    ) -> Iterator[str]:
        """End custom calls whose text was cut off, which only the terminal event reports.

        Args:
            event_type: Type of the terminal.
            response: The response.
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
        if index > self._next_index or index in self._items:  # a lower index fills a reported gap
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
                yield f"{ITEM_DONE} has another {key} for item {index}, expected that of its start"
        yield from item.texts.finish(done)

    def _check_event(
        self, event_type: str, index: int, item: _ItemState, event: dict[str, Any]
    ) -> Iterator[str]:
        if item.type and event_type not in _EVENTS_OF.get(item.type, ()):
            yield f"{event_type} in item {index}, expected an event of {item.type}"
            return
        id, known = string_of(event, "item_id"), string_of(item.added, "id")
        if id and known and id != known:
            yield f"item_id of {event_type} is not the id of item {index}, expected that"
        if (text_event := TEXT_EVENTS.get(event_type)) is not None:
            yield from item.texts.read(event_type, text_event, event)


def _item_of(event: dict[str, Any]) -> dict[str, Any]:
    item = event.get("item")
    return item if is_object(item) else {}


def _check_complete(event_type: str, index: int, item: dict[str, Any]) -> Iterator[str]:
    """Yield the problems of an item that should be complete.

    Arguments are what the model wrote, which is not always JSON (openai 3.57.0, documentation of
    `Function.arguments`): a call with such arguments may be complete or incomplete.
    """
    is_incomplete = item.get("status") == "incomplete"
    arguments = item.get("arguments") if item.get("type") == "function_call" else None
    if isinstance(arguments, str) and not holds_object(arguments):
        if not arguments and not is_incomplete:
            yield f"arguments of item {index} in 0 characters are no JSON object, expected one"
    elif is_incomplete:
        found = f"{event_type} with item {index} incomplete"
        yield f"{found}, expected at most the last of a cut response"


def _drop_encrypted(item: object) -> object:
    """Return an item without its encrypted fields."""
    if not is_object(item):
        return item
    return {key: value for key, value in item.items() if key not in _ENCRYPTED}
