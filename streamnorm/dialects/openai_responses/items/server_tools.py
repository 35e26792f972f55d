"""Items that are the provider's own affair: its calls, their results, and types unknown."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from msgspec import structs

from streamnorm._core.blocks import Block, OpaqueBlock, ServerToolCall, ServerToolResult
from streamnorm._core.events import BlockStop, Event, JSONDelta, Opaque
from streamnorm._core.json import compact, string_of
from streamnorm.dialects.openai_responses.items.block_opener import DIALECT, Blocks
from streamnorm.dialects.openai_responses.items.item import Item

__all__ = ["SERVED", "OpaqueItem", "ResultItem", "ServedItem", "WholeItem"]

SERVED = frozenset(
    {
        "apply_patch_call",
        "code_interpreter_call",
        "compaction",
        "computer_call",
        "file_search_call",
        "image_generation_call",
        "local_shell_call",
        "mcp_approval_request",
        "mcp_call",
        "mcp_list_tools",
        "program",
        "shell_call",
        "tool_search_call",
        "web_search_call",
    }
)
"""Types of calls that are no function and no custom tool of the client's."""

_USUAL = ("completed", "in_progress")


class ServedItem(Item):
    """A call that is not the client's: what else the item holds is its arguments."""

    def start(self, events: list[Event]) -> None:
        """Append the start of the block."""
        call = ServerToolCall(
            string_of(self._wire, "id"), string_of(self._wire, "name") or self.type, kind=self.type
        )
        self.index = self._blocks.begin(call, None, events)

    def complete(self, wire: dict[str, Any], events: list[Event]) -> None:
        """Append the arguments, in one, and the end of the block."""
        held = {key: value for key, value in wire.items() if key not in ("id", "type", "status")}
        if string_of(wire, "status") not in ("", *_USUAL):
            held["status"] = wire["status"]
        if held:
            events.append(JSONDelta(self.index, compact(held)))
        events.append(BlockStop(self.index))


class WholeItem(Item):
    """An item whose block is known when it is complete."""

    def __init__(self, wire: dict[str, Any], blocks: Blocks) -> None:
        super().__init__(wire, blocks)
        self._early: list[Opaque] = []

    @abstractmethod
    def block(self, wire: dict[str, Any]) -> Block:
        """Return the block that a complete item is."""

    def wait(self, event: Opaque) -> None:
        """Take an event that belongs to the item, before it is complete."""
        self._blocks.keep(len(event.data))
        self._early.append(event)

    def complete(self, wire: dict[str, Any], events: list[Event]) -> None:
        """Append the whole block, and within it what came before."""
        self.index = self._blocks.begin(self.block(wire), None, events)
        early, self._early = self._early, []
        events += [structs.replace(event, index=self.index) for event in early]
        events.append(BlockStop(self.index))


class ResultItem(WholeItem):
    """What a call gave that the provider executed."""

    def block(self, wire: dict[str, Any]) -> Block:
        """Return the result."""
        return ServerToolResult(string_of(wire, "call_id"), self.type, wire)


class OpaqueItem(WholeItem):
    """An item of a type that only the dialect knows."""

    def block(self, wire: dict[str, Any]) -> Block:
        """Return the item as it came."""
        return OpaqueBlock(DIALECT, self.type, compact(wire))
