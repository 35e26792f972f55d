"""An independent Responses client, as strict as the strictest real client.

Written from the vendor's reference: frames named after
their payload and numbered without a gap, `response.created` first, each item added,
filled and done at one place under one id, one part of one item open at a time, and a
last event that holds what the others brought.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

__all__ = ["Read", "events", "read"]

_KEYS = (
    *("id", "object", "created_at", "status", "model", "output", "usage", "error"),
    *("incomplete_details", "completed_at", "instructions", "max_output_tokens", "tools"),
    *("tool_choice", "parallel_tool_calls", "previous_response_id", "reasoning", "text"),
    *("temperature", "top_p", "top_logprobs", "truncation", "user", "store", "metadata"),
    *("presence_penalty", "frequency_penalty", "max_tool_calls", "background"),
    *("service_tier", "safety_identifier", "prompt_cache_key"),
)
_EMPTY: dict[str, dict[str, Any]] = {
    "message": {"status": "in_progress", "role": "assistant", "content": []},
    "reasoning": {"summary": []},
    "function_call": {"status": "in_progress", "arguments": ""},
    "custom_tool_call": {"status": "in_progress", "input": ""},
}
"""The items that events fill, as they are added."""
_GROWING = {"function_call": "arguments", "custom_tool_call": "input"}
_TERMINALS = ("response.completed", "response.incomplete", "response.failed")


class Read(NamedTuple):
    """A stream as read by a client.

    Attributes:
        output: The complete items.
        response: The response of the last event; None if there was none but the error.
        error: The error that ended the stream.
        created: The response of the first event; None if it did not come.
        others: Events that only some clients know.
    """

    output: list[dict[str, Any]]
    response: dict[str, Any] | None
    error: dict[str, Any] | None
    created: dict[str, Any] | None
    others: list[dict[str, Any]]


def events(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the payloads of a stream; assert that framing and numbers are the API's."""
    assert data.endswith(b"\n\n") or not data
    number = 0
    for frame in data.decode().split("\n\n")[:-1]:
        if frame.startswith(":"):
            assert "\n" not in frame
            continue
        name, payload = frame.split("\n")  # two lines, no more
        assert name.startswith("event: ")
        assert payload.startswith("data: {")
        value = json.loads(payload[6:])
        assert value["type"] == name[7:]
        assert value["sequence_number"] == number
        number += 1
        yield value


def read(data: bytes) -> Read:
    """Read a stream; assert everything that a client depends on."""
    reader = _Reader()
    for event in events(data):
        reader.take(event)
    assert reader.ended
    return Read(
        [item for item in reader.done if item is not None],
        reader.response,
        reader.error,
        reader.created,
        reader.others,
    )


class _Reader:
    """State of a client that reads one stream."""

    def __init__(self) -> None:
        self.created: dict[str, Any] | None = None
        self.response: dict[str, Any] | None = None
        self.error: dict[str, Any] | None = None
        self.others: list[dict[str, Any]] = []
        self.done: list[dict[str, Any] | None] = []  # the complete items by their places
        self.ended = False
        self._in_progress = False
        self._items: list[dict[str, Any]] = []
        self._part: dict[str, Any] | None = None  # the part that is open
        self._reads: dict[str, Callable[[dict[str, Any]], None]] = {
            "response.created": self._create,
            "response.in_progress": self._begin,
            "response.output_item.added": self._add,
            "response.output_item.done": self._finish,
            "response.content_part.added": self._add_part,
            "response.content_part.done": self._finish_part,
            "response.output_text.delta": self._text,
            "response.output_text.done": self._text_done,
            "response.output_text.annotation.added": self._annotation,
            "response.refusal.delta": self._refusal,
            "response.refusal.done": self._refusal_done,
            "response.reasoning_summary_part.added": self._add_summary,
            "response.reasoning_summary_part.done": self._finish_part,
            "response.reasoning_summary_text.delta": self._summary,
            "response.reasoning_summary_text.done": self._summary_done,
            "response.function_call_arguments.delta": self._arguments,
            "response.function_call_arguments.done": self._arguments_done,
            "response.custom_tool_call_input.delta": self._arguments,
            "response.custom_tool_call_input.done": self._arguments_done,
            "error": self._error,
            **dict.fromkeys(_TERMINALS, self._end),
        }

    def take(self, event: dict[str, Any]) -> None:
        """Read one event."""
        assert not self.ended
        type = event["type"]
        assert self.error is None or type == "response.failed"
        if type not in ("response.created", "error", "response.failed"):
            assert self.created is not None
            assert self._in_progress or type == "response.in_progress"
        read = self._reads.get(type)
        if read is not None:
            read(event)
            return
        if type != "keepalive":
            self.others.append(event)
        if "item_id" in event and "output_index" in event:
            item = self._items[int(event["output_index"])]
            assert item.get("id") == event["item_id"]

    # The response

    def _create(self, event: dict[str, Any]) -> None:
        assert self.created is None
        self.created = self._whole(event)
        assert self.created["status"] == "in_progress"
        assert self.created["output"] == []
        assert self.created["usage"] is None

    def _begin(self, event: dict[str, Any]) -> None:
        assert not self._in_progress
        assert self._whole(event) == self.created
        self._in_progress = True

    def _end(self, event: dict[str, Any]) -> None:
        self.ended = True
        self.response = response = self._whole(event)
        status = event["type"].removeprefix("response.")
        assert response["status"] == status
        known = self.created or response
        assert (response["id"], response["model"]) == (known["id"], known["model"])
        if status == "incomplete":
            for number, item in enumerate(self._items):  # free text that was cut is never done
                if self.done[number] is None and item["type"] == "custom_tool_call":
                    self.done[number] = {**item, "status": "incomplete"}
            for item in self.done:
                assert item is None or not _is_unfinished(item) or item["status"] == "incomplete"
        assert response["output"] == [item for item in self.done if item is not None]
        if status == "failed":
            assert self.error is not None
            assert response["error"] == {key: self.error[key] for key in ("code", "message")}
            return
        assert self.error is None
        assert None not in self.done
        assert response["error"] is None
        assert (response["incomplete_details"] is not None) == (status == "incomplete")
        _check_usage(response["usage"])

    def _error(self, event: dict[str, Any]) -> None:
        self.error = error = event["error"]
        assert error.keys() == {"type", "code", "message", "param"}
        assert all(event[key] == error[key] for key in ("code", "message", "param"))
        assert all(isinstance(error[key], str) for key in ("type", "code", "message"))

    def _whole(self, event: dict[str, Any]) -> dict[str, Any]:
        response: dict[str, Any] = event["response"]
        assert response.keys() >= set(_KEYS)
        assert response["object"] == "response"
        return response

    # Items

    def _add(self, event: dict[str, Any]) -> None:
        item = event["item"]
        assert self._part is None
        assert event["output_index"] == len(self._items)
        for other, done in zip(self._items, self.done, strict=True):  # one after the other
            assert done is not None or _is_unfinished(other) or other["type"] == "custom_tool_call"
        ids = [other["id"] for other in self._items if "id" in other]
        assert item.get("id") not in ids
        if item["type"] in _EMPTY:
            assert item["id"]
            assert item.items() >= _EMPTY[item["type"]].items()
        if _called(item):
            assert item["call_id"]
            assert item["name"]
        self._items.append(json.loads(json.dumps(item)))
        self.done.append(None)

    def _finish(self, event: dict[str, Any]) -> None:
        number, item = int(event["output_index"]), dict(event["item"])
        assert self._part is None
        is_unfinished = _is_unfinished(item)
        assert number == len(self._items) - 1 or is_unfinished  # which waits for the end
        assert self.done[number] is None
        known = self._items[number]
        for key in ("id", "type", "call_id", "name"):
            assert key not in known or item[key] == known[key]
        if item["type"] in _EMPTY:
            grown = {"status", "encrypted_content"}
            if not known.get("input"):  # of the provider's own calls some come at once
                grown.add("input")
            assert item.keys() - grown == known.keys() - grown
            assert all(item[key] == known[key] for key in known.keys() - grown)
            # What a complete response says of arguments that are no JSON depends on its reason.
            status = {"completed", "incomplete"} if is_unfinished else {"completed"}
            assert item["type"] == "reasoning" or item["status"] in status
        if item["type"] == "function_call":
            assert item["arguments"]
        self.done[number] = item

    def _open(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return the open item, asserted to be the event's."""
        assert event["output_index"] == len(self._items) - 1
        assert self.done[-1] is None
        item = self._items[-1]
        assert event["item_id"] == item["id"]
        return item

    # Parts

    def _add_part(self, event: dict[str, Any]) -> None:
        content = self._open(event)["content"]
        assert self._part is None
        assert event["content_index"] == len(content)
        part = event["part"]
        if part["type"] == "output_text":
            assert part.items() >= {"text": "", "annotations": [], "logprobs": []}.items()
        if part["type"] == "refusal":
            assert part["refusal"] == ""
        self._part = dict(part)
        content.append(self._part)

    def _add_summary(self, event: dict[str, Any]) -> None:
        summary = self._open(event)["summary"]
        assert self._part is None
        assert event["summary_index"] == len(summary)
        assert event["part"] == {"type": "summary_text", "text": ""}
        self._part = dict(event["part"])
        summary.append(self._part)

    def _finish_part(self, event: dict[str, Any]) -> None:
        part = self._filled(event)
        assert event["part"] == part
        self._part = None

    def _filled(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return the open part, asserted to be the event's."""
        item, part = self._open(event), self._part
        field = "content" if item["type"] == "message" else "summary"
        assert part is not None
        assert event[f"{field}_index"] == len(item[field]) - 1
        return part

    def _text(self, event: dict[str, Any]) -> None:
        part = self._filled(event)
        assert event["delta"] or event["logprobs"]
        event["delta"].encode()
        part["text"] += event["delta"]
        part["logprobs"] = part["logprobs"] + event["logprobs"]

    def _text_done(self, event: dict[str, Any]) -> None:
        part = self._filled(event)
        assert (event["text"], event["logprobs"]) == (part["text"], part["logprobs"])

    def _annotation(self, event: dict[str, Any]) -> None:
        part, source = self._filled(event), event["annotation"]
        assert event["annotation_index"] == len(part["annotations"])
        part["annotations"] = [*part["annotations"], source]
        if source["type"] == "url_citation":
            assert 0 <= source["start_index"] <= source["end_index"]
            assert isinstance(source["url"], str)
            assert isinstance(source["title"], str)

    def _refusal(self, event: dict[str, Any]) -> None:
        assert event["delta"]
        self._filled(event)["refusal"] += event["delta"]

    def _refusal_done(self, event: dict[str, Any]) -> None:
        assert event["refusal"] == self._filled(event)["refusal"]

    def _summary(self, event: dict[str, Any]) -> None:
        assert event["delta"]
        self._filled(event)["text"] += event["delta"]

    def _summary_done(self, event: dict[str, Any]) -> None:
        assert event["text"] == self._filled(event)["text"]

    # Calls

    def _arguments(self, event: dict[str, Any]) -> None:
        item = self._open(event)
        assert event["type"].startswith(f"response.{item['type']}_")
        assert event["delta"]
        item[_GROWING[item["type"]]] += event["delta"]

    def _arguments_done(self, event: dict[str, Any]) -> None:
        item = self._items[event["output_index"]]
        assert event["item_id"] == item["id"]
        if not _is_unfinished(item):
            assert self._open(event) is item
        field = _GROWING[item["type"]]
        assert event[field] == item[field]
        assert event[field] or field == "input"


def _called(item: dict[str, Any]) -> bool:
    return item["type"] in _GROWING


def _check_usage(usage: dict[str, Any]) -> None:
    inputs, outputs = usage["input_tokens_details"], usage["output_tokens_details"]
    counts = (inputs["cached_tokens"], inputs["cache_write_tokens"], outputs["reasoning_tokens"])
    whole = (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"])
    assert all(isinstance(count, int) and count >= 0 for count in (*counts, *whole))
    assert whole[2] == whole[0] + whole[1]


def _is_unfinished(item: dict[str, Any]) -> bool:
    """Return whether an item waits for the message's end: a call that must not run."""
    if item["type"] != "function_call":
        return False
    try:
        json.loads(item["arguments"])
    except ValueError:
        return True
    return False
