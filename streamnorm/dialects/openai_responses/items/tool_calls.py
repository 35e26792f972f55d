"""Calls of the client's tools: function calls and custom tool calls."""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import ToolCall
from streamnorm._core.events import BlockStop, Event, JSONDelta, StreamError
from streamnorm._core.json import string_of
from streamnorm._core.provider_errors import Fatal
from streamnorm.dialects.openai_responses.delta_run import OpenText
from streamnorm.dialects.openai_responses.items.block_opener import ResponseBlockOpener
from streamnorm.dialects.openai_responses.items.item import Item, extra_fields
from streamnorm.dialects.openai_responses.items.text_progress import TextProgress
from streamnorm.dialects.openai_responses.wire import ArgumentsDelta, DeltaEvent

__all__ = ["ToolCallItem"]

_CUSTOM = "custom_tool_call"


class ToolCallItem(Item):
    """A function call or a custom tool call."""

    def __init__(self, initial: dict[str, Any], opener: ResponseBlockOpener) -> None:
        super().__init__(initial, opener)
        self._arguments_key = "input" if self.type == _CUSTOM else "arguments"
        self._progress = TextProgress()
        self._is_open = False

    def start(self, events: list[Event]) -> None:
        """Append the block start, if the name is known."""
        if string_of(self._initial, "name"):  # else it comes with the complete item
            self._open(self._initial, events)

    def append_arguments(self, delta: str, events: list[Event]) -> None:
        """Append a fragment of the arguments."""
        if self.index < 0 or not delta:
            return
        if not self._is_open:
            if not delta.strip():
                return
            message = "arguments of a call that is complete, expected an open one"
            raise Fatal(StreamError("malformed", message))
        if text := self._progress.add(delta):
            events.append(JSONDelta(self.index, text))

    def open_text(self, delta: DeltaEvent) -> OpenText | None:
        is_arguments = isinstance(delta, ArgumentsDelta)
        if not is_arguments or not self._is_open or self._progress.high_surrogate:
            return None
        return OpenText(JSONDelta(self.index, ""), self._progress, delta.output_index, delta.part)

    def complete_arguments(self, arguments: str, events: list[Event]) -> None:
        """Append what no delta carried of the complete arguments."""
        if self.index < 0 or not arguments or not self._is_open:
            return
        tail = self._progress.add_missing_tail(arguments)
        if tail is None:
            self._opener.note("resent_arguments", "ToolCall")
        elif tail:
            events.append(JSONDelta(self.index, tail))

    def complete(self, item: dict[str, Any], events: list[Event]) -> None:
        if self.index < 0:
            if not string_of(item, "name"):
                message = f"{self.type} without a name, expected one"
                raise Fatal(StreamError("malformed", message))
            self._open(item, events)
        self.complete_arguments(string_of(item, self._arguments_key), events)
        self._stop(events)

    def close_incomplete(self, events: list[Event]) -> None:
        """Stop the block, with the arguments of the item's start if there was no delta."""
        if self.index < 0 or not self._progress.length:
            self.complete(self._initial, events)
        self._stop(events)

    def _open(self, item: dict[str, Any], events: list[Event]) -> None:
        id = string_of(item, "call_id")
        if not id and (id := string_of(item, "id")):
            self._opener.note("minted_id", "tool call")
        call = ToolCall(
            id, string_of(item, "name"), kind="custom" if self.type == _CUSTOM else "function"
        )
        extra = extra_fields(item, "call_id", "name", self._arguments_key)
        self.index = self._opener.open(call, extra, events)
        self._is_open = True

    def _stop(self, events: list[Event]) -> None:
        if self._is_open:
            if text := self._progress.flush():
                events.append(JSONDelta(self.index, text))
            self._is_open = False
            events.append(BlockStop(self.index))
