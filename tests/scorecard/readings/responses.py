"""A client of the Responses API.

https://platform.openai.com/docs/api-reference/responses-streaming (read 2026-11-21)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..cases import Call
from .reading import Content, Reading, arguments_value, server_events

__all__ = ["read"]

_TERMINALS = ("response.completed", "response.incomplete", "response.failed")
_TEXTS = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.function_call_arguments.delta": "arguments",
}


@dataclass
class _Item:
    """An output item: as added, its deltas joined by field, and as done."""

    added: dict[str, Any]
    texts: dict[str, str] = field(default_factory=dict)
    done: dict[str, Any] | None = None


def read(data: bytes) -> Reading:
    """Read a stream as clients of the vendor do."""
    client = _Client()
    for event in server_events(data, client.reading.grammar):
        if event.data == "[DONE]":  # as OpenRouter ends its own
            continue
        if event.value is None:
            client.reading.grammar.append("an event is no JSON object")
            continue
        type = event.value.get("type")
        if event.name and event.name != type:
            client.reading.grammar.append(f"event {event.name!r} has type {type!r}")
        client.take(str(type), event.value)
    return client.result()


class _Client:
    """State of a client that reads one stream."""

    def __init__(self) -> None:
        self.reading = Reading(needs_end=True)
        self._created = False
        self._items: dict[int, _Item] = {}
        self._parts: dict[tuple[Any, str], int] = {}
        self._number = -1
        self._terminal: dict[str, Any] | None = None

    def take(self, type: str, event: dict[str, Any]) -> None:
        """Read one event."""
        grammar = self.reading.grammar
        if self._terminal is not None:
            grammar.append(f"{type} follows the end")
            return
        number = event.get("sequence_number")
        if isinstance(number, int):
            if number <= self._number:
                grammar.append(f"sequence number {number} behind {self._number}")
            self._number = number
        if type == "error":
            self.reading.failed = True
            return
        if type == "response.created":
            if self._created:
                grammar.append("a second response.created")
            self._created = True
        elif not self._created and type != "response.failed":
            grammar.append(f"{type} comes before response.created")
        if type in _TERMINALS:
            self._end(type, event)
        elif type == "response.output_item.added":
            self._add(event["output_index"], event["item"])
        elif type == "response.output_item.done":
            self._finish(event["output_index"], event["item"])
        elif type == "response.content_part.added":
            item = self._item_of(event, type)
            if item is not None and item.added["type"] not in ("message", "reasoning"):
                grammar.append(f"a part of an item of type {item.added['type']}")
            self._parts[event["output_index"], "content"] = event["content_index"]
        elif type in _TEXTS:
            self._grow(type, event)
        elif type == "response.function_call_arguments.done":
            item = self._item_of(event, type)
            whole = event.get("arguments")
            if item is not None and item.texts.get("arguments") not in (None, whole):
                grammar.append("complete arguments differ from their deltas")

    def _add(self, index: int, item: dict[str, Any]) -> None:
        grammar = self.reading.grammar
        if index in self._items:
            grammar.append(f"item {index} is added twice")
            return
        if index != len(self._items):
            grammar.append(f"item {index} is added, expected {len(self._items)}")
        if item["type"] == "function_call" and not (item.get("call_id") and item.get("name")):
            grammar.append("a function_call is added without call_id or name")
        self._items[index] = _Item(item)

    def _item_of(self, event: dict[str, Any], type: str) -> _Item | None:
        item = self._items.get(event["output_index"])
        if item is None:
            self.reading.grammar.append(f"{type} of an item that was not added")
        elif item.done is not None:
            self.reading.grammar.append(f"{type} of an item that is done")
        elif event.get("item_id") not in (None, item.added.get("id")):
            self.reading.grammar.append(f"{type} with the id of another item")
        return item

    def _grow(self, type: str, event: dict[str, Any]) -> None:
        item = self._item_of(event, type)
        if item is None:
            return
        name = _TEXTS[type]
        if name == "arguments" and item.added["type"] != "function_call":
            self.reading.grammar.append(f"arguments of an item of type {item.added['type']}")
        if name == "text" and (event["output_index"], "content") not in self._parts:
            self.reading.grammar.append("text without response.content_part.added")
        item.texts[name] = item.texts.get(name, "") + event["delta"]

    def _finish(self, index: int, item: dict[str, Any]) -> None:
        known = self._items.get(index)
        if known is None:
            # A server may send an item whole: clients take it from here.
            self.reading.grammar.append(f"item {index} is done, and was not added")
            self._items[index] = _Item(item, done=item)
            return
        if known.done is not None:
            self.reading.grammar.append(f"item {index} is done twice")
        for key in ("id", "type", "call_id", "name"):
            if item.get(key) != known.added.get(key):
                self.reading.grammar.append(f"{key} of item {index} changes")
        known.done = item

    def _end(self, type: str, event: dict[str, Any]) -> None:
        response = event["response"]
        status = type.removeprefix("response.")
        if response.get("status") != status:
            self.reading.grammar.append(f"{type} has status {response.get('status')!r}")
        self._terminal = response
        if status == "failed":
            self.reading.failed = True
            return
        undone = [index for index, item in self._items.items() if item.done is None]
        if undone and status == "completed":
            self.reading.grammar.append(f"item {undone} was never done")

    def result(self) -> Reading:
        """Return the stream as read."""
        reading, response = self.reading, self._terminal or {}
        reading.ended = bool(response) and response.get("status") != "failed"
        details = response.get("incomplete_details") or {}
        reading.stop = details.get("reason") or response.get("status")
        usage = response.get("usage")
        if isinstance(usage, dict):
            reading.usage = (usage.get("input_tokens", 0), usage.get("output_tokens", 0))
        items = [item for _, item in sorted(self._items.items())]
        reading.accumulated = _content([_accumulated(item) for item in items])
        done = [item.done for item in items if item.done is not None]
        # The last event holds the whole output; some servers leave it empty.
        reading.finalised = _content(response.get("output") or done)
        if reading.ended and response.get("output") and _content(done) != reading.finalised:
            reading.grammar.append("the output of the last event differs from the done items")
        reading.refused = any(item.texts.get("refusal") for item in items)
        return reading


def _accumulated(item: _Item) -> dict[str, Any]:
    """Return an item as its deltas make it; one without deltas as it was done."""
    if not item.texts and item.done is not None:
        return item.done
    texts = item.texts
    match item.added["type"]:
        case "message":
            parts = [{"text": texts.get("text", "")}, {"refusal": texts.get("refusal", "")}]
            return {"type": "message", "content": parts}
        case "reasoning":
            return {"type": "reasoning", "summary": [{"text": texts.get("reasoning", "")}]}
        case _:
            return {**item.added, "arguments": texts.get("arguments", "")}


def _content(items: list[dict[str, Any]]) -> Content:
    content = Content()
    for item in items:
        match item["type"]:
            case "message":
                for part in item.get("content") or ():
                    content.text += part.get("text") or part.get("refusal") or ""
            case "reasoning":
                parts = item.get("summary") or item.get("content") or ()
                content.reasoning += " ".join(part.get("text", "") for part in parts)
            case "function_call":
                value = arguments_value(item.get("arguments"))
                content.calls.append(Call(item.get("call_id"), item.get("name") or "", value))
            case _:
                pass
    return content
