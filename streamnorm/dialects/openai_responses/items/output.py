"""The items of one response, and which of them an event belongs to.

OpenAI numbers items (`output_index`) and names them (`item_id`).  Compatible servers send
only one of the two, give all items the same index, or change the id with every event; an
item is found by whichever key agrees, and items may overlap.
"""

from __future__ import annotations

from typing import Any, TypeVar

from streamnorm._core.events import Event
from streamnorm._core.json import objects_of, string_of
from streamnorm.dialects.openai_responses.items.block_opener import ResponseBlockOpener
from streamnorm.dialects.openai_responses.items.item import Item
from streamnorm.dialects.openai_responses.items.message import MessageItem
from streamnorm.dialects.openai_responses.items.reasoning import ReasoningItem
from streamnorm.dialects.openai_responses.items.server_tools import (
    SERVER_TOOL_TYPES,
    OpaqueItem,
    ResultItem,
    ServerToolItem,
)
from streamnorm.dialects.openai_responses.items.tool_calls import ToolCallItem

__all__ = ["OutputItems"]

K = TypeVar("K", bound=Item)

_CLASSES: dict[str, type[Item]] = {
    "message": MessageItem,
    "reasoning": ReasoningItem,
    "function_call": ToolCallItem,
    "custom_tool_call": ToolCallItem,
    **dict.fromkeys(SERVER_TOOL_TYPES, ServerToolItem),
}
# A tool search loads further tools, which the response does not list.
_TOOL_LOADERS = ("tool_search",)


class OutputItems:
    """The items of one response.

    Args:
        opener: Opens the blocks of the response.
    """

    def __init__(self, opener: ResponseBlockOpener) -> None:
        self._opener = opener
        self._items: list[Item] = []
        self._by_index: dict[int, Item] = {}
        self._by_id: dict[str, Item] = {}
        self._by_call_id: dict[tuple[str, str], Item] = {}  # with the type of the call
        self._latest: dict[type[Item], Item] = {}
        self._declared_tools: frozenset[str] | None = None

    def set_declared_tools(self, tools: object) -> None:
        """Store the names of the tools that the response lists, if it lists all."""
        declared = objects_of(tools)
        if declared and not any(tool.get("type") in _TOOL_LOADERS for tool in declared):
            nested = [inner for tool in declared for inner in objects_of(tool.get("tools"))]
            names = [string_of(tool, "name") for tool in (*declared, *nested)]
            self._declared_tools = frozenset(names)

    def find(self, output_index: int | None, item_id: str | None) -> Item | None:
        """Return the item with an index and an id, of which one may be missing or wrong."""
        indexed = self._by_index.get(output_index) if output_index is not None else None
        if indexed is not None and (not item_id or indexed.id == item_id):
            return indexed
        named = self._by_id.get(item_id) if item_id else None
        if named is not None and (indexed is None or named.output_index == output_index):
            return named
        return indexed

    def resolve(
        self,
        kind: type[K],
        item_type: str,
        output_index: int | None,
        item_id: str | None,
        events: list[Event],
    ) -> K:
        """Return the item that a delta belongs to; an item that never started starts here."""
        item = self.find(output_index, item_id)
        if isinstance(item, kind):
            return item
        latest = self._latest.get(kind)
        if isinstance(latest, kind) and not latest.is_done and (item or output_index is None):
            self._opener.note("misplaced_delta", item_type)
            return latest
        self._opener.note("missing_item", item_type)
        id = {"id": item_id} if item_id and item is None else {}
        implied = kind({"type": item_type, **id}, self._opener)
        self._register(implied, output_index if item is None else None)
        implied.start(events)
        return implied

    def start_item(
        self, data: dict[str, Any], output_index: int | None, events: list[Event]
    ) -> None:
        """Start an item, unless its start is a resend."""
        id, item_type = _id_of(data), string_of(data, "type")
        item = self.find(output_index, id)
        if (
            item is not None
            and (item.type, item.id, item.output_index) == (item_type, id, output_index)
            and (id or not item.is_done)  # without an id it is the next one
        ):
            self._opener.note("resent_item", item_type)
            return
        if output_index is not None and output_index in self._by_index:
            self._opener.note("reused_index", "item")
        self._add(data, output_index, events)

    def complete_item(
        self, data: dict[str, Any], output_index: int | None, events: list[Event]
    ) -> None:
        """Complete an item; one that never started is emitted whole."""
        item_type = string_of(data, "type")
        item = self.find(output_index, _id_of(data))
        if item is None and output_index is None and not _id_of(data):
            item = self._latest.get(self._class_of(data))
        if (
            item is None
            or item.type != item_type
            or (item.is_done and item.output_index != output_index)
        ):
            item = self._add(data, output_index, events)
        elif item.is_done:
            self._opener.note("resent_item", item_type)
            return
        item.complete(data, events)
        item.mark_done()

    def reconcile_with_terminal(self, output: object, events: list[Event]) -> None:
        """Complete items from the terminal's `output`, then close all items.

        An entry matches by call id, item id, then position; an unmatched one is emitted
        whole.
        """
        matched: set[int] = set()
        for position, data in enumerate(objects_of(output)):
            item = self._match(position, data, matched)
            if item is None:
                item = self._add(data, None, events)
            else:
                matched.add(id(item))
                if item.is_done:
                    continue
                self._opener.note("missing_item_done", item.type)
            item.complete(data, events)
            item.mark_done()
        for item in self._items:
            if item.is_done:
                item.close_reopened(events)
            else:
                self._opener.note("missing_item_done", item.type)
                item.close_incomplete(events)

    def _match(self, position: int, data: dict[str, Any], matched: set[int]) -> Item | None:
        """Return the item that stands at a position of the terminal's output."""
        item_type = string_of(data, "type")
        called = self._by_call_id.get((item_type, string_of(data, "call_id")))
        indexed = self._by_index.get(position)
        if not self._by_index and position < len(self._items):
            indexed = self._items[position]
        named = self._by_id.get(_id_of(data))
        if indexed is not None and indexed.id == _id_of(data):
            named = indexed  # items may share an id
        for item in (called, named, indexed):
            if item is not None and item.type == item_type and id(item) not in matched:
                return item
        return None

    def _add(self, data: dict[str, Any], output_index: int | None, events: list[Event]) -> Item:
        item = self._class_of(data)(data, self._opener)
        self._register(item, output_index)
        if call_id := string_of(data, "call_id"):
            self._opener.count_stored(len(call_id))
            self._by_call_id[item.type, call_id] = item
        item.start(events)
        return item

    def _register(self, item: Item, output_index: int | None) -> None:
        self._opener.count_stored(len(item.id))
        item.output_index = output_index
        self._items.append(item)
        self._latest[type(item)] = item
        if output_index is not None:
            self._by_index[output_index] = item
        if item.id:
            self._by_id[item.id] = item

    def _class_of(self, data: dict[str, Any]) -> type[Item]:
        item_type = string_of(data, "type")
        if item_type == "custom_tool_call" and self._is_server_tool(data):
            return ServerToolItem
        default = ResultItem if item_type.endswith("_output") else OpaqueItem
        return _CLASSES.get(item_type, default)

    def _is_server_tool(self, data: dict[str, Any]) -> bool:
        """Return whether a custom tool is the server's, as the searches of xAI are."""
        if self._declared_tools is None or data.get("namespace"):
            return False
        return string_of(data, "name") not in self._declared_tools


def _id_of(data: dict[str, Any]) -> str:
    return string_of(data, "id") or string_of(data, "call_id")
