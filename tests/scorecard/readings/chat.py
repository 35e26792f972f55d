"""A client of Chat Completions.

https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-21)
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from ..cases import Call
from .reading import Content, Reading, arguments_value, server_events

__all__ = ["read"]

_REASONS = ("stop", "length", "tool_calls", "content_filter", "function_call")
_REASONING = ("reasoning_content", "reasoning")


@dataclass
class _Choice:
    """The first choice.

    Attributes:
        texts: Joined text by field.
        calls: Joined fields of each tool call by its index.
        details: Joined text of `reasoning_details`.
    """

    texts: dict[str, str] = field(default_factory=dict)
    calls: dict[int, dict[str, str]] = field(default_factory=dict)
    details: str = ""


def read(data: bytes) -> Reading:
    """Read a stream as clients of the vendor do."""
    client = _Client()
    for event in server_events(data, client.reading.grammar):
        if event.data == "[DONE]":
            client.end()
        elif event.value is None:
            client.reading.grammar.append("an event is no JSON object")
        else:
            client.take(event.value)
    return client.result()


class _Client:
    """State of a client that reads one stream."""

    def __init__(self) -> None:
        self.reading = Reading()
        self._choice = _Choice()
        self._at_finish: _Choice | None = None
        self._done = False

    def end(self) -> None:
        """Read `[DONE]`."""
        if self._done:
            self.reading.grammar.append("a second [DONE]")
        self._done = True

    def take(self, chunk: dict[str, Any]) -> None:
        """Read one chunk."""
        grammar = self.reading.grammar
        if self._done:
            grammar.append("a chunk follows [DONE]")
            return
        if chunk.get("error"):
            self.reading.failed = True
            return
        if self.reading.failed:
            grammar.append("a chunk follows an error")
            return
        for key in ("id", "object", "created", "model", "choices"):
            if key not in chunk:
                grammar.append(f"a chunk has no {key}")
        usage = chunk.get("usage")
        if usage:
            self.reading.usage = (
                usage.get("prompt_tokens") or 0,
                usage.get("completion_tokens") or 0,
            )
        for choice in chunk.get("choices") or ():
            if choice.get("index", 0) == 0:
                self._take_choice(choice)

    def _take_choice(self, choice: dict[str, Any]) -> None:
        grammar = self.reading.grammar
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            grammar.append("a choice has no delta")
            delta = {}
        told = {key: value for key, value in delta.items() if value and key != "role"}
        if self._at_finish is not None and told:
            grammar.append(f"{sorted(told)} follow the finish reason")
        for key in ("content", "refusal", *_REASONING):
            if isinstance(delta.get(key), str):
                self._choice.texts[key] = self._choice.texts.get(key, "") + delta[key]
        for detail in delta.get("reasoning_details") or ():
            self._choice.details += detail.get("text") or detail.get("summary") or ""
        for piece in delta.get("tool_calls") or ():
            self._take_call(piece)
        reason = choice.get("finish_reason")
        if reason is None:
            return
        if reason not in _REASONS:
            grammar.append(f"finish reason {reason!r}")
        if self.reading.stop not in (None, reason):
            grammar.append("two finish reasons")
        self.reading.stop = reason
        if self._at_finish is None:
            self._at_finish = copy.deepcopy(self._choice)

    def _take_call(self, piece: dict[str, Any]) -> None:
        grammar, index = self.reading.grammar, piece.get("index")
        if not isinstance(index, int):
            grammar.append("a tool call has no index")
            index = 0
        known = self._choice.calls.get(index)
        custom = piece.get("custom") or {}
        function = piece.get("function") or {**custom, "arguments": custom.get("input")}
        if known is None:
            if not (piece.get("id") and function.get("name")):
                grammar.append(f"call {index} starts without id or name")
            known = self._choice.calls[index] = {"id": "", "name": "", "arguments": ""}
        # The vendor's SDK joins every string but `type` and `index`, ids and names too.
        known["id"] += piece.get("id") or ""
        known["name"] += function.get("name") or ""
        if isinstance(function.get("arguments") or "", str):
            known["arguments"] += function.get("arguments") or ""
        else:
            grammar.append("arguments are no text")

    def result(self) -> Reading:
        """Return the stream as read."""
        reading = self.reading
        whole = self._at_finish or _Choice()
        if reading.stop is not None and not self._done and not reading.failed:
            reading.grammar.append("no [DONE]")
        reading.accumulated, reading.finalised = _content(self._choice), _content(whole)
        reading.ended = self._done or reading.stop is not None
        reading.refused = bool(self._choice.texts.get("refusal"))
        return reading


def _content(choice: _Choice) -> Content:
    texts = choice.texts
    # Servers send reasoning in one of three fields, and OpenRouter's in two at once.
    reasoning = next((texts[key] for key in _REASONING if texts.get(key)), choice.details)
    return Content(
        texts.get("content", "") + texts.get("refusal", ""),
        reasoning,
        [
            Call(call["id"], call["name"], arguments_value(call["arguments"]))
            for _, call in sorted(choice.calls.items())
        ],
    )
