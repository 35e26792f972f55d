"""Strict validator of Responses streams: event order, sequence numbers, the response.

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

from streamnorm._core.codec import DONE, Checker
from streamnorm._core.json import is_object
from streamnorm._core.shapes import is_count, misnamed, parse_object, problems, token_problems
from streamnorm.dialects.openai_responses.validate.event_shapes import ERROR, ERROR_NESTED, EVENTS
from streamnorm.dialects.openai_responses.validate.items import ItemChecker
from streamnorm.sse import Frame

__all__ = ["ResponsesChecker"]

_CREATED, _QUEUED, _IN_PROGRESS = "response.created", "response.queued", "response.in_progress"
_ITEM_ADDED = "response.output_item.added"
_FAILED = "response.failed"
_TERMINALS = ("response.completed", "response.incomplete", _FAILED)
_WITHOUT_ITEM = ("keepalive", "response.audio.")
_LIFECYCLE = (_CREATED, _QUEUED, _IN_PROGRESS)
_RANKS = {event_type: rank for rank, event_type in enumerate((*_LIFECYCLE, _ITEM_ADDED))}


class ResponsesChecker(Checker):
    """Strict validator of one Responses stream."""

    def __init__(self) -> None:
        self._items = ItemChecker()
        self._next_number: int | None = None  # None if it cannot be known
        self._is_started = False  # response.created came, or its absence was reported
        self._seen: dict[str, None] = {}  # lifecycle events, and the first item
        self._id: str | None = None
        self._ended_by = ""  # event that ended the stream

    def read(self, frame: Frame) -> Iterator[str]:
        if frame.data == DONE and self._ended_by != DONE:
            if not self._ended_by:
                yield f"{DONE} before the end of the response, expected it last"
            self._ended_by = DONE
            return
        if self._ended_by not in ("", "error"):
            yield f"frame after {self._ended_by}, expected nothing"
            return
        event, json_problems = parse_object(frame.data)
        event_type = event.get("type") if event is not None else None
        if self._ended_by and event_type != _FAILED:
            yield f"frame after {self._ended_by}, expected {_FAILED} or nothing"
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
        if self._ended_by:
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
        if expected is not None and number != expected:
            yield f"sequence_number is {number}, expected {expected}"
        self._next_number = number + 1

    def _check_order(self, event_type: str) -> Iterator[str]:
        if event_type == "error" or self._ended_by:
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
        elif event_type == _ITEM_ADDED:
            self._seen.setdefault(event_type)

    def _check_event(self, event_type: str, event: dict[str, Any]) -> Iterator[str]:
        if event_type == "error":
            self._ended_by = event_type
            is_nested = is_object(event.get("error"))
            yield from problems(ERROR_NESTED if is_nested else ERROR, event, "")
        elif event_type in _LIFECYCLE or event_type in _TERMINALS:
            response = event.get("response")
            if is_object(response):
                yield from self._check_response(event_type, response)
            if event_type in _TERMINALS:
                self._ended_by = event_type
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
