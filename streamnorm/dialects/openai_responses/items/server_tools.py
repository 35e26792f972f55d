"""Server-side tool calls, their results, and unknown items."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from msgspec import structs

from streamnorm._core.blocks import Block, ServerToolCall, ServerToolResult
from streamnorm._core.events import BlockStop, Event, JSONDelta, Opaque
from streamnorm._core.json import compact, is_object, string_of
from streamnorm._core.limits import OBJECT_BYTES, text_bytes
from streamnorm.dialects.openai_responses import opaque
from streamnorm.dialects.openai_responses.items.block_opener import ResponseBlockOpener
from streamnorm.dialects.openai_responses.items.item import Item

__all__ = [
    "SERVER_TOOL_TYPES",
    "DeferredItem",
    "OpaqueItem",
    "ResultItem",
    "ServerToolItem",
    "result_to_wire",
]

SERVER_TOOL_TYPES = frozenset(
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
"""Types of calls other than those of the client's function and custom tools."""

_USUAL_STATUS = ("completed", "in_progress")


class ServerToolItem(Item):
    """A call executed by the server; its arguments are all remaining fields of the item."""

    def start(self, events: list[Event]) -> None:
        id, name = string_of(self._initial, "id"), string_of(self._initial, "name")
        call = ServerToolCall(id, name or self.type, kind=self.type)
        self.index = self._opener.open(call, None, events)

    def complete(self, item: dict[str, Any], events: list[Event]) -> None:
        """Append the arguments in one delta, and stop the block."""
        fields = {key: value for key, value in item.items() if key not in ("id", "type", "status")}
        if string_of(item, "status") not in ("", *_USUAL_STATUS):
            fields["status"] = item["status"]
        if fields:
            events.append(JSONDelta(self.index, compact(fields)))
        events.append(BlockStop(self.index))


class DeferredItem(Item):
    """An item whose block starts when the item is complete."""

    def __init__(self, initial: dict[str, Any], opener: ResponseBlockOpener) -> None:
        super().__init__(initial, opener)
        self._held: list[Opaque] = []
        self._held_bytes = 0

    @abstractmethod
    def block(self, item: dict[str, Any]) -> Block:
        """Return the block of a complete item."""

    def hold(self, event: Opaque) -> None:
        """Hold an event of the item until its block has started."""
        size = OBJECT_BYTES + text_bytes(event.name) + text_bytes(event.data)
        self._opener.count_stored(size)
        self._held_bytes += size
        self._held.append(event)

    def complete(self, item: dict[str, Any], events: list[Event]) -> None:
        """Append the whole block, with the held events in it."""
        self.index = self._opener.open(self.block(item), None, events)
        held, self._held = self._held, []
        self._opener.stored.release(self._held_bytes)
        events += [structs.replace(event, index=self.index) for event in held]
        events.append(BlockStop(self.index))


class ResultItem(DeferredItem):
    """The result of a server-side tool call."""

    def block(self, item: dict[str, Any]) -> Block:
        return ServerToolResult(string_of(item, "call_id"), self.type, item)


class OpaqueItem(DeferredItem):
    """An item of an unknown type."""

    def block(self, item: dict[str, Any]) -> Block:
        return opaque.block_from_wire(item)


def result_to_wire(block: ServerToolResult, item_id: object) -> dict[str, Any]:
    """Return the item of a result, built anew if `block` comes from another dialect."""
    content = block.content
    if is_object(content) and content.get("type") == block.kind:
        return content
    id = {"id": item_id} if item_id is not None else {}
    return {**id, "type": block.kind, "call_id": block.tool_call_id, "output": content}
