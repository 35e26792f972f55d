"""A client of Anthropic's Messages API.

https://platform.claude.com/docs/en/build-with-claude/streaming (read 2026-11-21)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..cases import Call
from .reading import Content, Reading, arguments_value, server_events

__all__ = ["read"]

_FIELDS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("tool_use", "partial_json"),
}
_STARTED = {"text": "text", "thinking": "thinking"}


@dataclass
class _Block:
    """A content block: its joined deltas, and what they were at its `content_block_stop`."""

    start: dict[str, Any]
    text: str
    pieces: list[str] = field(default_factory=list)
    at_stop: str | None = None

    def joined(self) -> str:
        return self.text + "".join(self.pieces)


def read(data: bytes) -> Reading:
    """Read a stream as clients of the vendor do."""
    client = _Client()
    for event in server_events(data, client.grammar):
        if event.value is None:
            client.grammar.append("an event is no JSON object")
        elif event.name != event.value.get("type"):
            # The vendor's SDKs choose by the name of the event.
            client.grammar.append(f"event {event.name!r} has type {event.value.get('type')!r}")
        else:
            client.take(event.name, event.value)
    return client.reading()


class _Client:
    """State of a client that reads one stream."""

    def __init__(self) -> None:
        self.grammar: list[str] = []
        self._begun = self._ended = self._failed = False
        self._blocks: list[_Block] = []
        self._open: set[int] = set()
        self._stop: str | None = None
        self._usage: dict[str, int] = {}

    def take(self, type: str, event: dict[str, Any]) -> None:
        """Read one event."""
        if type == "ping":
            return
        if self._ended or self._failed:
            self.grammar.append(f"{type} follows the end")
            return
        if type not in ("message_start", "error") and not self._begun:
            self.grammar.append(f"{type} comes before message_start")
        match type:
            case "message_start":
                if self._begun:
                    self.grammar.append("a second message_start")
                self._begun = True
                self._count(event.get("message", {}).get("usage"))
            case "content_block_start":
                self._start(event["index"], event["content_block"])
            case "content_block_delta":
                self._delta(event["index"], event["delta"])
            case "content_block_stop":
                self._stop_block(event["index"])
            case "message_delta":
                self._end_message(event)
            case "message_stop":
                if self._stop is None:
                    self.grammar.append("message_stop without a stop reason")
                self._ended = True
            case "error":
                self._failed = True
                error = event.get("error")
                if not (isinstance(error, dict) and isinstance(error.get("message"), str)):
                    self.grammar.append("an error event without an error's message")
            case _:
                pass  # "new event types may be added, and your code should handle them"

    def _start(self, index: int, start: dict[str, Any]) -> None:
        if self._stop is not None:
            self.grammar.append("a block starts behind message_delta")
        if self._open:
            self.grammar.append(f"block {index} starts while {sorted(self._open)} is open")
        if index != len(self._blocks):
            self.grammar.append(f"block {index} starts, expected {len(self._blocks)}")
        if start["type"] == "tool_use" and not (start.get("id") and start.get("name")):
            self.grammar.append("a tool_use block starts without id or name")
        # As by the vendor's SDK: a start appends, a delta is of the block at its index.
        self._blocks.append(_Block(start, start.get(_STARTED.get(start["type"], ""), "") or ""))
        self._open.add(index)

    def _delta(self, index: int, delta: dict[str, Any]) -> None:
        if index not in self._open:
            self.grammar.append(f"a delta of block {index}, which is not open")
        if not 0 <= index < len(self._blocks):
            return
        if delta["type"] not in _FIELDS:
            return
        block_type, name = _FIELDS[delta["type"]]
        block = self._blocks[index]
        type = block.start["type"]
        if type != block_type and not (block_type == "tool_use" and type.endswith("_tool_use")):
            self.grammar.append(f"{delta['type']} in a block of type {type}")
            return
        block.pieces.append(delta[name])

    def _stop_block(self, index: int) -> None:
        if index not in self._open:
            self.grammar.append(f"a stop of block {index}, which is not open")
            return
        self._open.discard(index)
        if 0 <= index < len(self._blocks):
            self._blocks[index].at_stop = self._blocks[index].joined()

    def _end_message(self, event: dict[str, Any]) -> None:
        if self._open:
            self.grammar.append(f"message_delta while block {sorted(self._open)} is open")
        reason = event["delta"].get("stop_reason")
        if self._stop is not None and reason not in (None, self._stop):
            self.grammar.append("two stop reasons")
        self._stop = reason or self._stop
        self._count(event.get("usage"))

    def _count(self, usage: dict[str, Any] | None) -> None:
        if usage is None:
            self.grammar.append("no usage")
            return
        self._usage |= {key: value for key, value in usage.items() if isinstance(value, int)}

    def reading(self) -> Reading:
        """Return the stream as read."""
        counts = self._usage
        inputs = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        usage = (sum(counts.get(key, 0) for key in inputs), counts.get("output_tokens", 0))
        stopped = [(block.start, block.at_stop) for block in self._blocks]
        return Reading(
            grammar=self.grammar,
            accumulated=_content([(block.start, block.joined()) for block in self._blocks]),
            finalised=_content([(start, text) for start, text in stopped if text is not None]),
            stop=self._stop,
            usage=usage,
            failed=self._failed,
            ended=self._ended,
            needs_end=True,
            refused=False,
        )


def _content(blocks: list[tuple[dict[str, Any], str]]) -> Content:
    content = Content()
    for start, text in blocks:
        match start["type"]:
            case "text":
                content.text += text
            case "thinking":
                content.reasoning += text
            case "tool_use":
                value = arguments_value(text) if text else start.get("input") or {}
                content.calls.append(Call(start.get("id"), start.get("name") or "", value))
            case _:
                pass
    return content
