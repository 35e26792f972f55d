"""Calls that the client is asked to execute."""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import ToolCall
from streamnorm._core.events import BlockStop, Event, JSONDelta, StreamError
from streamnorm._core.failures import Fatal
from streamnorm._core.json import string_of
from streamnorm.dialects.openai_responses import wire as pieces
from streamnorm.dialects.openai_responses.delta_run import OpenText
from streamnorm.dialects.openai_responses.items.block_opener import Blocks
from streamnorm.dialects.openai_responses.items.item import Item, rest
from streamnorm.dialects.openai_responses.items.text_progress import Growth

__all__ = ["CallItem"]

_CUSTOM = "custom_tool_call"


class CallItem(Item):
    """A function call, or a custom tool call."""

    def __init__(self, wire: dict[str, Any], blocks: Blocks) -> None:
        super().__init__(wire, blocks)
        self._field = "input" if self.type == _CUSTOM else "arguments"
        self._growth = Growth()
        self._is_open = False

    def start(self, events: list[Event]) -> None:
        """Append the start of the block, if the name is known."""
        if string_of(self._wire, "name"):  # else the complete item has it
            self._begin(self._wire, events)

    def more(self, delta: str, events: list[Event]) -> None:
        """Take more arguments."""
        if self.index < 0 or not delta:
            return
        if not self._is_open:
            if not delta.strip():
                return
            message = "arguments of a call that is complete, expected an open one"
            raise Fatal(StreamError("malformed", message))
        if text := self._growth.add(delta):
            events.append(JSONDelta(self.index, text))

    def open_text(self, piece: pieces.ArgumentsDelta) -> OpenText | None:
        """Return the arguments that deltas like `piece` extend, if the block is open."""
        if not self._is_open or self._growth.carry:
            return None
        return OpenText(JSONDelta(self.index, ""), self._growth, piece.output_index, piece.part)

    def whole(self, text: str, events: list[Event]) -> None:
        """Take all arguments."""
        if self.index < 0 or not text or not self._is_open:
            return
        more = self._growth.rest(text)
        if more is None:
            self._blocks.note("resent_arguments", "ToolCall")
        elif more:
            events.append(JSONDelta(self.index, more))

    def complete(self, wire: dict[str, Any], events: list[Event]) -> None:
        """Append what of the call has not come yet, and the end of its block."""
        if self.index < 0:
            if not string_of(wire, "name"):
                message = f"{self.type} without a name, expected one"
                raise Fatal(StreamError("malformed", message))
            self._begin(wire, events)
        self.whole(string_of(wire, self._field), events)
        self._stop(events)

    def finish(self, events: list[Event]) -> None:
        """Append the end of the block, before it the arguments if they stood in its start."""
        if self.index < 0 or not self._growth.size:
            self.complete(self._wire, events)
        self._stop(events)

    def _begin(self, wire: dict[str, Any], events: list[Event]) -> None:
        id = string_of(wire, "call_id")
        if not id and (id := string_of(wire, "id")):
            self._blocks.note("minted_id", "tool call")
        call = ToolCall(
            id, string_of(wire, "name"), kind="custom" if self.type == _CUSTOM else "function"
        )
        extra = rest(wire, "call_id", "name", self._field)
        self.index = self._blocks.begin(call, extra, events)
        self._is_open = True

    def _stop(self, events: list[Event]) -> None:
        if self._is_open:
            if text := self._growth.flush():
                events.append(JSONDelta(self.index, text))
            self._is_open = False
            events.append(BlockStop(self.index))
