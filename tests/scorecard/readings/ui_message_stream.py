"""A client of the UI message stream of the AI SDK.

https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol (read 2026-11-21)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..cases import Call
from .reading import Content, Reading, arguments_value, server_events

__all__ = ["read"]


@dataclass
class _Input:
    """The input of a tool call: its deltas, and what the client gets to run."""

    name: str
    is_own: bool
    text: str = ""
    whole: Any = None
    is_whole: bool = False


def read(data: bytes) -> Reading:
    """Read a stream as the reducer of the AI SDK does."""
    client = _Client()
    for event in server_events(data, client.reading.grammar):
        if event.data == "[DONE]":
            continue
        if event.value is None:
            client.reading.grammar.append("a chunk is no JSON object")
        else:
            client.take(event.value["type"], event.value)
    return client.result()


class _Client:
    """State of a client that reads one stream."""

    def __init__(self) -> None:
        self.reading = Reading(needs_end=True)
        self._begun = False
        self._open: set[tuple[str, str]] = set()
        self._calls: dict[str, _Input] = {}

    def take(self, type: str, chunk: dict[str, Any]) -> None:
        """Read one chunk."""
        if type not in ("start", "error") and not self._begun:
            self.reading.grammar.append(f"{type} comes before start")
        self._begun = True
        if self.reading.ended or self.reading.failed:
            self.reading.grammar.append(f"{type} follows the end")
        kind, _, step = type.rpartition("-")
        if kind in ("text", "reasoning"):
            self._take_text(kind, step, chunk)
        elif type.startswith("tool-input-"):
            self._take_input(type, chunk)
        elif type == "finish":
            self._finish(chunk)
        elif type in ("error", "abort"):
            self.reading.failed = True

    def _take_text(self, kind: str, step: str, chunk: dict[str, Any]) -> None:
        part = (kind, chunk["id"])
        if step == "start":
            self._open.add(part)
            return
        if part not in self._open:  # for which the SDK's reducer throws
            self.reading.grammar.append(f"{kind}-{step} of a part that is not open")
        if step == "end":
            self._open.discard(part)
        elif kind == "text":
            self.reading.accumulated.text += chunk["delta"]
        else:
            self.reading.accumulated.reasoning += chunk["delta"]

    def _take_input(self, type: str, chunk: dict[str, Any]) -> None:
        id = chunk["toolCallId"]
        call = self._calls.get(id)
        if type == "tool-input-delta":
            if call is None:
                self.reading.grammar.append("a delta of a call that did not start")
                return
            call.text += chunk["inputTextDelta"]
            return
        if type == "tool-input-start" and call is not None:
            self.reading.grammar.append("a call starts twice")
        if call is None:
            call = _Input(chunk["toolName"], not chunk.get("providerExecuted"))
            self._calls[id] = call
        if type == "tool-input-available":
            call.whole, call.is_whole = chunk["input"], True

    def _finish(self, chunk: dict[str, Any]) -> None:
        if self._open:
            self.reading.grammar.append("finish while a part is open")
        self.reading.ended = True
        self.reading.stop = chunk.get("finishReason")
        usage = (chunk.get("messageMetadata") or {}).get("usage")
        if usage:
            self.reading.usage = (usage.get("inputTokens", 0), usage.get("outputTokens", 0))

    def result(self) -> Reading:
        """Return the stream as read."""
        content = self.reading.accumulated
        finalised = Content(content.text, content.reasoning)
        for id, call in self._calls.items():
            if not call.is_own:
                continue
            text = arguments_value(call.text) if call.text else call.whole or {}
            content.calls.append(Call(id, call.name, text))
            if call.is_whole:
                finalised.calls.append(Call(id, call.name, call.whole))
        self.reading.finalised = finalised
        return self.reading
