"""The items of one response: which of them an event means.

OpenAI numbers items (`output_index`) and names them (`item_id`).  Compatible servers send
only one of the two, number all items alike, or change the name with every event; what
agrees with either is found, and items may overlap.
"""

from __future__ import annotations

from typing import Any, TypeVar

from streamnorm._core.events import Event
from streamnorm._core.json import objects_of, string_of
from streamnorm.dialects.openai_responses.items.block_opener import Blocks
from streamnorm.dialects.openai_responses.items.item import Item
from streamnorm.dialects.openai_responses.items.message import MessageItem
from streamnorm.dialects.openai_responses.items.reasoning import ReasoningItem
from streamnorm.dialects.openai_responses.items.server_tools import (
    SERVED,
    OpaqueItem,
    ResultItem,
    ServedItem,
)
from streamnorm.dialects.openai_responses.items.tool_calls import CallItem

__all__ = ["Output"]

K = TypeVar("K", bound=Item)

_TYPES: dict[str, type[Item]] = {
    "message": MessageItem,
    "reasoning": ReasoningItem,
    "function_call": CallItem,
    "custom_tool_call": CallItem,
    **dict.fromkeys(SERVED, ServedItem),
}
# Tools that bring in others, which the response does not echo.
_BRINGING = ("tool_search",)


class Output:
    """Follow the items of one response.

    Args:
        blocks: Its blocks.
    """

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._items: list[Item] = []
        self._numbers: dict[int, Item] = {}
        self._ids: dict[str, Item] = {}
        self._calls: dict[tuple[str, str], Item] = {}
        self._latest: dict[type[Item], Item] = {}
        self._tools: frozenset[str] | None = None

    def know_tools(self, tools: object) -> None:
        """Take the tools that the response echoes, if it does."""
        echoed = objects_of(tools)
        if echoed and not any(tool.get("type") in _BRINGING for tool in echoed):
            nested = [inner for tool in echoed for inner in objects_of(tool.get("tools"))]
            names = [string_of(tool, "name") for tool in (*echoed, *nested)]
            self._tools = frozenset(names)

    def find(self, number: int | None, id: str | None) -> Item | None:
        """Return the item of a number and an id, of which either may be missing or wrong."""
        numbered = self._numbers.get(number) if number is not None else None
        if numbered is not None and (not id or numbered.id == id):
            return numbered
        named = self._ids.get(id) if id else None
        if named is not None and (numbered is None or named.number == number):
            return named
        return numbered

    def of(
        self, kind: type[K], type_: str, number: int | None, id: str | None, events: list[Event]
    ) -> K:
        """Return the item that a piece belongs to, a new one of `type_` if need be."""
        item = self.find(number, id)
        if isinstance(item, kind):
            return item
        latest = self._latest.get(kind)
        if isinstance(latest, kind) and not latest.is_done and (item or number is None):
            self._blocks.note("misplaced_delta", type_)
            return latest
        self._blocks.note("missing_item", type_)
        known = {"id": id} if id and item is None else {}
        implied = kind({"type": type_, **known}, self._blocks)
        self._register(implied, number if item is None else None)
        implied.start(events)
        return implied

    def add(self, wire: dict[str, Any], number: int | None, events: list[Event]) -> None:
        """Take the start of an item."""
        item, id, type_ = self.find(number, _id(wire)), _id(wire), string_of(wire, "type")
        if (
            item is not None
            and (item.type, item.id, item.number) == (type_, id, number)
            and (id or not item.is_done)  # without an id it is the next one
        ):
            self._blocks.note("resent_item", type_)
            return
        if number is not None and number in self._numbers:
            self._blocks.note("reused_index", "item")
        self._new(wire, number, events)

    def done(self, wire: dict[str, Any], number: int | None, events: list[Event]) -> None:
        """Take a complete item."""
        type_ = string_of(wire, "type")
        item = self.find(number, _id(wire))
        if item is None and number is None and not _id(wire):
            item = self._latest.get(self._class(wire))
        if item is None or item.type != type_ or (item.is_done and item.number != number):
            item = self._new(wire, number, events)
        elif item.is_done:
            self._blocks.note("resent_item", type_)
            return
        item.complete(wire, events)
        item.forget()

    def settle(self, output: object, events: list[Event]) -> None:
        """Take all items as the terminal has them, and end what is open.

        Items that were complete are known; those that nobody has sent are whole here.
        """
        matched: set[int] = set()
        for place, wire in enumerate(objects_of(output)):
            item = self._match(place, wire, matched)
            if item is None:
                self._whole(wire, events)
                continue
            matched.add(id(item))
            if not item.is_done:
                self._blocks.note("missing_item_done", item.type)
                item.complete(wire, events)
                item.forget()
        for item in self._items:
            if item.is_done:
                item.close(events)
            else:
                self._blocks.note("missing_item_done", item.type)
                item.finish(events)

    def _whole(self, wire: dict[str, Any], events: list[Event]) -> None:
        """Take an item that only the terminal holds."""
        item = self._new(wire, None, events)
        item.complete(wire, events)
        item.forget()

    def _match(self, place: int, wire: dict[str, Any], matched: set[int]) -> Item | None:
        """Return the item that stands at a place of the terminal's output."""
        type_ = string_of(wire, "type")
        called = self._calls.get((type_, string_of(wire, "call_id")))
        numbered = self._numbers.get(place)
        if not self._numbers and place < len(self._items):
            numbered = self._items[place]
        named = self._ids.get(_id(wire))
        if numbered is not None and numbered.id == _id(wire):
            named = numbered
        for item in (called, named, numbered):
            if item is not None and item.type == type_ and id(item) not in matched:
                return item
        return None

    def _new(self, wire: dict[str, Any], number: int | None, events: list[Event]) -> Item:
        item = self._class(wire)(wire, self._blocks)
        self._register(item, number)
        if call_id := string_of(wire, "call_id"):
            self._blocks.keep(len(call_id))
            self._calls[item.type, call_id] = item
        item.start(events)
        return item

    def _register(self, item: Item, number: int | None) -> None:
        self._blocks.keep(len(item.id))
        item.number = number
        self._items.append(item)
        self._latest[type(item)] = item
        if number is not None:
            self._numbers[number] = item
        if item.id:
            self._ids[item.id] = item

    def _class(self, wire: dict[str, Any]) -> type[Item]:
        type_ = string_of(wire, "type")
        if type_ == "custom_tool_call" and self._is_served(wire):
            return ServedItem
        kind = _TYPES.get(type_)
        if kind is None:
            return ResultItem if type_.endswith("_output") else OpaqueItem
        return kind

    def _is_served(self, wire: dict[str, Any]) -> bool:
        """Tell whether a custom tool is the server's: xAI calls its searches so."""
        if self._tools is None or wire.get("namespace"):
            return False
        return string_of(wire, "name") not in self._tools


def _id(wire: dict[str, Any]) -> str:
    return string_of(wire, "id") or string_of(wire, "call_id")
