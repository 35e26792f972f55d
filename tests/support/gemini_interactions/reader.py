"""An independent client of the Interactions API, as strict as the strictest real client.

Written from the vendor's reference: each frame has its event type as name and in its payload,
steps come one after the other with rising indexes, arguments are fragments of one text, and the
last event with the counts is followed by `[DONE]` alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["Read", "events", "read", "texts"]

_STATUSES = (
    *("completed", "requires_action", "incomplete", "budget_exceeded", "requires_continuation"),
)
_FILES = ("image", "document")  # audio and video have no unified block
_ANNOTATIONS = ("url_citation", "file_citation", "place_citation")
_COUNTS = ("total_input_tokens", "total_output_tokens", "total_tokens")
_SUMMED = (*_COUNTS[:2], "total_thought_tokens", "total_tool_use_tokens")
_DONE = "[DONE]"
_PING = ": ping"


class Read(NamedTuple):
    """A stream, as the client has read it.

    Attributes:
        steps: The steps, each with what its deltas added: `text`, `annotations` and `files` of an
            answer, `summary` and `signature` of a thought, `text` of the arguments of a call.
        names: Id and model.
        status: Why it ended; None if that did not come.
        usage: The counts; None if they did not come.
        error: What ended the stream; None if nothing did.
        others: Other events and deltas, in their order.
    """

    steps: list[dict[str, Any]]
    names: dict[str, str]
    status: str | None
    usage: dict[str, Any] | None
    error: dict[str, Any] | None
    others: list[dict[str, Any]]


def events(data: bytes) -> Iterator[tuple[str, Any]]:
    """Yield the names and payloads of a stream's frames, checked for the API's exact framing."""
    assert data.endswith(b"\n\n") or not data
    for frame in data.decode().split("\n\n")[:-1]:
        if frame == _PING:
            continue
        name, payload = frame.split("\n")
        assert name.startswith("event: ")
        assert payload.startswith("data: ")
        told = payload[6:]
        yield name[7:], told if told == _DONE else json.loads(told)


def texts(data: bytes) -> str:
    """Return the texts of all answer and thought steps."""
    found = ""
    for name, payload in events(data):
        delta = payload.get("delta", {}) if name == "step.delta" else {}
        found += delta.get("content", delta).get("text", "")
    return found


def read(data: bytes) -> Read:
    """Read a stream; assert everything that a client depends on."""
    reader = _Reader()
    for name, payload in events(data):
        reader.take(name, payload)
    return reader.end()


class _Reader:
    """State of the client while it reads a stream."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.names: dict[str, str] = {}
        self.status: str | None = None
        self.usage: dict[str, Any] | None = None
        self.error: dict[str, Any] | None = None
        self.others: list[dict[str, Any]] = []
        self._events = 0
        self._is_open = False
        self._is_done = False

    def take(self, name: str, payload: Any) -> None:
        """Read an event."""
        assert self.error is None
        assert not self._is_done
        if name == "done":
            assert payload == _DONE
            assert self.status is not None
            self._is_done = True
            return
        assert self.status is None
        self._events += 1
        if name == "error":
            assert payload["event_type"] == name
            self.error = payload["error"]
            assert isinstance(payload["error"]["code"], str)
            assert isinstance(payload["error"]["message"], str)
            return
        if self._events == 1:
            assert name == "interaction.created"
            self._begin(payload)
        elif self._events == 2:
            assert name == "interaction.status_update"
            assert payload["interaction_id"] == self.names["id"]
            assert payload["status"] == "in_progress"
        elif name == "interaction.completed":
            self._complete(payload)
        elif name in ("step.start", "step.delta", "step.stop"):
            self._take_step(name, payload)
        else:
            self.others.append(payload)

    def end(self) -> Read:
        """Check the end of the stream, and return the stream as read."""
        assert not self._is_open or self.error is not None
        assert self._is_done == (self.error is None)
        return Read(self.steps, self.names, self.status, self.usage, self.error, self.others)

    def _begin(self, payload: dict[str, Any]) -> None:
        interaction = payload["interaction"]
        assert payload["event_type"] == "interaction.created"
        assert (interaction["status"], interaction["object"]) == ("in_progress", "interaction")
        assert isinstance(interaction["id"], str)
        self.names = {key: interaction[key] for key in ("id", "model") if key in interaction}

    def _complete(self, payload: dict[str, Any]) -> None:
        interaction = payload["interaction"]
        assert payload["event_type"] == "interaction.completed"
        assert not self._is_open
        names = {key: interaction[key] for key in ("id", "model") if key in interaction}
        assert names == self.names
        assert interaction["status"] in _STATUSES
        self.status = interaction["status"]
        self.usage = interaction.get("usage")
        if self.usage is not None:
            counts = [self.usage.get(key, 0) for key in (*_SUMMED, "total_cached_tokens")]
            assert all(isinstance(count, int) and count >= 0 for count in counts)
            assert all(key in self.usage for key in _COUNTS)

    def _take_step(self, name: str, payload: dict[str, Any]) -> None:
        assert payload["event_type"] == name
        if name == "step.start":
            assert not self._is_open
            assert payload["index"] == len(self.steps)
            self._is_open = True
            self._start(payload["step"])
            return
        assert self._is_open
        assert payload["index"] == len(self.steps) - 1
        if name == "step.stop":
            self._is_open = False
        else:
            self._extend(self.steps[-1], payload["delta"])

    def _start(self, step: dict[str, Any]) -> None:
        told = {"text": "", "annotations": [], "files": [], "signature": None, **step}
        if step["type"] == "function_call":
            assert step["id"]
            assert step["name"]
            assert step["arguments"] == {}  # they follow in deltas
        self.steps.append(told)

    def _extend(self, step: dict[str, Any], delta: dict[str, Any]) -> None:
        match step["type"], delta["type"]:
            case "model_output", "text":
                step["text"] += delta["text"]
            case "thought", "thought_summary" if delta["content"]["type"] == "text":
                step["text"] += delta["content"]["text"]
            case "thought", "thought_signature":
                assert step["signature"] is None
                step["signature"] = delta["signature"]
            case "model_output", "text_annotation_delta":
                self._cite(step, delta["annotations"])
            case "model_output", kind if kind in _FILES:
                step["files"].append(delta)
            case kind, "arguments_delta" if kind.endswith("_call"):
                step["text"] += delta["arguments"]
            case kind, same if kind == same:
                step.update(delta)
            case _:
                self.others.append(delta)

    def _cite(self, step: dict[str, Any], annotations: list[dict[str, Any]]) -> None:
        data = step["text"].encode()
        for each in annotations:
            assert each["type"] in _ANNOTATIONS or len(annotations) == 1
            first, last = each.get("start_index", 0), each.get("end_index", len(data))
            if each["type"] in _ANNOTATIONS and 0 <= first <= last <= len(data):
                cited = data[first:last].decode("utf-8", "replace")
                step["annotations"].append({**each, "cited": cited})
