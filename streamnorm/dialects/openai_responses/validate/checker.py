"""The letter of OpenAI Responses: which event may follow which, and what it must hold.

https://platform.openai.com/docs/api-reference/responses-streaming (read 2026-11-21), and
what the clients need: the official helpers throw without `response.created`, without the
start of an item or a part, and where an id or a place changes; the AI SDK and Codex take
items from `response.output_item.done` alone; openai-node throws at types it does not know.

    stream  = created queued? in_progress? item* (completed | incomplete | failed) "[DONE]"?
    item k  = output_item.added(k) event(k)* output_item.done(k), k dense from 0; may interleave
    message = (content_part.added delta* annotation* text.done content_part.done)+
    call    = delta* arguments.done

An `error` may come anywhere; behind it is at most `response.failed`.  `keepalive` may come
behind `response.created`.  `[DONE]` may be last: Open Responses asks for it, the API sends
none.  The first sequence number may be any, since a stream may be resumed.  What a failed
response holds is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamnorm._core.codec import Checker
from streamnorm._core.json import is_object
from streamnorm._core.shapes import is_count, misnamed, parse_object, problems
from streamnorm.dialects.openai_responses.validate.event_shapes import ERROR, ERROR_NESTED, EVENTS
from streamnorm.dialects.openai_responses.validate.items import Items
from streamnorm.sse import Frame

__all__ = ["ResponsesChecker"]

_DONE = "[DONE]"
_CREATED, _QUEUED, _IN_PROGRESS = (
    "response.created",
    "response.queued",
    "response.in_progress",
)
_FAILED = "response.failed"
_TERMINALS = ("response.completed", "response.incomplete", _FAILED)
_OF_NO_ITEM = ("keepalive", "response.audio.")
_LIFECYCLE = (_CREATED, _QUEUED, _IN_PROGRESS)


class ResponsesChecker(Checker):
    """Check one stream."""

    def __init__(self) -> None:
        self._items = Items()
        self._number: int | None = None  # that the next event should have, if that is known
        self._begun = False  # response.created came, or its lack was told
        self._seen: dict[str, None] = {}  # the first events, and the first of any item
        self._id: str | None = None
        self._over = ""  # what ended the stream

    def read(self, frame: Frame) -> Iterator[str]:
        if frame.data == _DONE and self._over != _DONE:
            if not self._over:
                yield f"{_DONE} before the end of the response, expected it last"
            self._over = _DONE
            return
        if self._over not in ("", "error"):
            yield f"frame after {self._over}, expected nothing"
            return
        event, wrong = parse_object(frame.data)
        kind = event.get("type") if event is not None else None
        if self._over and kind != _FAILED:
            yield f"frame after {self._over}, expected {_FAILED} or nothing"
            return
        yield from wrong
        if event is None:
            self._number = None
            return
        yield from misnamed(event, frame.event, EVENTS)
        yield from self._numbered(event)
        if isinstance(kind, str) and kind in EVENTS:
            yield from problems(EVENTS[kind], event, "")
            yield from self._place(kind)
            yield from self._step(kind, event)

    def missing(self) -> list[str]:
        if self._over:
            return []
        if not self._begun:
            return [f"no {_CREATED}, expected it first"]
        lacking = list(self._items.left_open("the stream ends"))
        return [*lacking, f"no {', '.join(_TERMINALS[:2])} or {_FAILED}, expected one last"]

    def _numbered(self, event: dict[str, Any]) -> Iterator[str]:
        number, expected = event.get("sequence_number"), self._number
        if not is_count(number):
            self._number = None
            return
        if expected is not None and number != expected:
            yield f"sequence_number is {number}, expected {expected}"
        self._number = number + 1

    def _place(self, kind: str) -> Iterator[str]:
        if kind == "error" or self._over:
            return
        if not self._begun and kind != _CREATED:
            yield f"{kind} comes first, expected {_CREATED}"
        self._begun = True
        if kind in _LIFECYCLE:
            if kind in self._seen:
                yield f"second {kind}, expected one"
            elif kind != _CREATED:
                later = [seen for seen in self._seen if _RANKS[seen] > _RANKS[kind]]
                if later:
                    yield f"{kind} behind {later[0]}, expected it before"
            self._seen[kind] = None
        elif kind == "response.output_item.added":
            self._seen.setdefault(kind)

    def _step(self, kind: str, event: dict[str, Any]) -> Iterator[str]:
        if kind == "error":
            self._over = kind
            nested = is_object(event.get("error"))
            yield from problems(ERROR_NESTED if nested else ERROR, event, "")
        elif kind in _LIFECYCLE or kind in _TERMINALS:
            response = event.get("response")
            if is_object(response):
                yield from self._response(kind, response)
            if kind in _TERMINALS:
                self._over = kind
        elif not kind.startswith(_OF_NO_ITEM):
            yield from self._items.read(kind, event)

    def _response(self, kind: str, response: dict[str, Any]) -> Iterator[str]:
        id = response.get("id")
        if isinstance(id, str):
            if self._id not in (None, id):
                yield "response.id is not that of the event before, expected one throughout"
            self._id = id
        if kind in _TERMINALS and kind != _FAILED:
            yield from self._items.end(kind, response)
            if is_object(usage := response.get("usage")):
                yield from _check_counts(usage)


_RANKS = {kind: rank for rank, kind in enumerate((*_LIFECYCLE, "response.output_item.added"))}


def _check_counts(usage: dict[str, Any]) -> Iterator[str]:
    """Yield which counts contradict each other."""
    given, made, total = (usage.get(f"{name}_tokens") for name in ("input", "output", "total"))
    if is_count(given) and is_count(made) and is_count(total) and total != given + made:
        yield f"response.usage.total_tokens is {total}, expected {given + made}"
    parts = [
        (given, "input", ("cached_tokens", "cache_write_tokens")),
        (made, "output", ("reasoning_tokens",)),
    ]
    for whole, name, fields in parts:
        details = usage.get(f"{name}_tokens_details")
        counts = [details.get(field) for field in fields] if is_object(details) else []
        part = sum(count for count in counts if is_count(count))
        if is_count(whole) and part > whole:
            found = f"response.usage.{name}_tokens_details has {part} tokens"
            yield f"{found}, expected at most {whole}"
