"""Output items of one response: assignment of events to items, and handlers of events.

OpenAI numbers items (`output_index`) and names them (`item_id`).  Compatible servers send
only one of the two, give all items the same index, or change the id with every event; an
item is found by whichever key agrees, and items may overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias, TypeVar

from streamnorm._core.blocks import Refusal, Text
from streamnorm._core.events import Event
from streamnorm._core.failures import Fatal, malformed
from streamnorm._core.json import is_object, objects_of, string_of
from streamnorm.dialects.openai_responses.content import event_from_wire
from streamnorm.dialects.openai_responses.items import types
from streamnorm.dialects.openai_responses.items.item import Item, ResponseBlockOpener, id_of
from streamnorm.dialects.openai_responses.items.message import MessageItem
from streamnorm.dialects.openai_responses.items.reasoning import CONTENT, SUMMARY, ReasoningItem
from streamnorm.dialects.openai_responses.items.tool_calls import (
    DeferredItem,
    OpaqueItem,
    ResultItem,
    ServerToolItem,
    ToolCallItem,
)

K = TypeVar("K", bound=Item)

_CLASSES: dict[str, type[Item]] = {
    "message": MessageItem,
    "reasoning": ReasoningItem,
    "function_call": ToolCallItem,
    "custom_tool_call": ToolCallItem,
}
# A tool search loads further tools, which the response does not list.
_TOOL_LOADERS = ("tool_search",)


class OutputItems:
    """The output items of one response.

    Args:
        opener: Opens the blocks of the response.

    Attributes:
        has_items: Whether an item has started.
        ids_change: Whether ids differ between the events of one item, so that only
            `output_index` names it.
    """

    def __init__(self, opener: ResponseBlockOpener) -> None:
        self.ids_change = False
        self._opener = opener
        self._items: list[Item] = []
        self._undone: dict[str, dict[Item, None]] = {}  # by type
        # Several items may share one key if the other key differs.
        self._by_index: dict[int, list[Item]] = {}
        self._by_id: dict[str, list[Item]] = {}
        self._by_call_id: dict[tuple[str, str], Item] = {}  # with the type of the call
        self._changed_ids: dict[str, None] = {}  # ids that only complete items had
        self._declared_tools: frozenset[str] | None = None

    @property
    def has_items(self) -> bool:
        return bool(self._items)

    def set_declared_tools(self, tools: object) -> None:
        """Store the names in the response's `tools`, unless further tools may be loaded."""
        declared = objects_of(tools)
        if declared and not any(tool.get("type") in _TOOL_LOADERS for tool in declared):
            nested = [inner for tool in declared for inner in objects_of(tool.get("tools"))]
            names = [string_of(tool, "name") for tool in (*declared, *nested)]
            self._declared_tools = frozenset(names)

    def find(self, output_index: int | None, item_id: str | None) -> Item | None:
        """Return the item with an output index or id; None if the item is new.

        Raises:
            Fatal: The index names one item, and the id another or an unknown one.
        """
        if self.ids_change:
            item_id = None
        indexed = self._by_index.get(output_index, []) if output_index is not None else []
        named = self._by_id.get(item_id, []) if item_id else []
        if output_index is None or not item_id:
            found = indexed or named
        else:
            found = [item for item in named if item.output_index == output_index]
            if not found:  # an item that lacks a key gets it from the event
                found = [item for item in named if item.output_index is None and not indexed]
                found += [item for item in indexed if not item.id and not named]
                for item in found:
                    self._set_keys(item, output_index, item_id)
        if len(found) == 1:
            return found[0]
        if not indexed and not named:
            return None
        raise malformed(
            f"event of an item that {len(found)} items match, expected output index and id of one"
        )

    def peek(self, output_index: int | None, item_id: str | None) -> Item | None:
        """Return the item that an index and an id name; None if they name no item or several."""
        try:
            return self.find(output_index, item_id)
        except Fatal:
            return None

    def resolve(
        self,
        kind: type[K],
        item_type: str,
        output_index: int | None,
        item_id: str | None,
        events: list[Event],
    ) -> K:
        """Return the item that a delta extends; start an item that never started.

        Raises:
            Fatal: The keys match an item of another type, or several items.
        """
        if output_index is None and (not item_id or self.ids_change):
            item = self._growing(item_type)
        else:
            item = self.find(output_index, item_id)
        if item is None:
            self._opener.note("missing_item", item_type)
            implied = kind(
                {"type": item_type, **({"id": item_id} if item_id else {})}, self._opener
            )
            self._register(implied, output_index)
            implied.start(events)
            return implied
        if not isinstance(item, kind) or item.type != item_type:
            raise malformed(f"event of {item_type} for an item of another type, expected its own")
        return item

    def start_item(
        self, data: dict[str, Any], output_index: int | None, events: list[Event]
    ) -> None:
        """Start an item; a repeated start is ignored.

        Raises:
            Fatal: The keys belong to another item, or content has followed the first start.
        """
        id, item_type = "" if self.ids_change else id_of(data), string_of(data, "type")
        if output_index is None:
            known = self._by_id.get(id, [])
        else:
            known = self._by_index.get(output_index, [])
        same = [item for item in known if self.ids_change or item.id == id]
        if not same:
            if known and not (id and all(item.id for item in known)):
                raise malformed(f"second item at output index {output_index}, expected another one")
            if known:
                self._opener.note("reused_index", "item")
            self._add(data, output_index, events).store_initial()
            return
        (item,) = same[:1]
        has_another_name = string_of(data, "name") != item.name
        if item.type != item_type or has_another_name or (not item.is_done and item.has_content):
            raise malformed("second start of an item with other content, expected a resend")
        if item.is_done and not id:  # the next item, or a resend?
            raise malformed("second item without an id at one output index, expected another one")
        self._opener.note("resent_item", item_type)

    def complete_item(
        self, data: dict[str, Any], output_index: int | None, events: list[Event]
    ) -> None:
        """Complete an item; an item that never started is added first.

        Raises:
            Fatal: The item contradicts its events, or its keys belong to another item.
        """
        item = self._item_of(data, output_index)
        if item is None:
            item = self._add(data, output_index, events)
        elif item.type != string_of(data, "type"):
            raise malformed("complete item of another type than its start, expected the same")
        elif item.is_done:
            self._opener.note("resent_item", item.type)
            item.compare(data)
            return
        elif self._has_another_id(item, data):
            self._opener.note("id_changed", "item")
            self._opener.count_stored(len(string_of(data, "id")))
            self._changed_ids[string_of(data, "id")] = None
            item.mark_done()  # nothing but the id may differ
        item.complete(data, events)
        item.mark_done()
        del self._undone[item.type][item]

    def reconcile_with_terminal(
        self, output: object, events: list[Event], *, is_complete: bool
    ) -> None:
        """Complete items from the terminal event's `output`, then close all items.

        An entry matches by call id and item id, else by position; an unmatched one is
        emitted whole.

        Args:
            output: The output.
            events: Receives the events.
            is_complete: Whether the response is complete, and therefore all its calls.

        Raises:
            Fatal: The output contradicts the events.
        """
        entries = objects_of(output)
        matches = self._match(entries)
        streamed, matched = [*self._items], set(matches)
        for data, item in zip(entries, matches, strict=True):
            self._check_call_id(item, self._find_called(data))
            if item is not None and item.is_done:
                item.compare(data)
                continue
            if item is None:
                if streamed:
                    self._opener.note("completed_by_whole", string_of(data, "type"))
                item = self._add(data, None, events)
            else:
                self._opener.note("missing_item_done", item.type)
                if self._has_another_id(item, data):
                    item.mark_done()  # nothing but the id may differ
            item.complete(data, events)
            item.mark_done()
        for item in streamed:
            if entries and item.is_answer and item not in matched:
                raise malformed(f"output without the {item.type} that came, expected all items")
            if not item.is_done:
                if isinstance(item, ToolCallItem):
                    if is_complete and item.is_bare:
                        raise malformed("call without arguments or an end, expected one of them")
                    item.is_cut = not is_complete and item.can_grow
                self._opener.note("missing_item_done", item.type)
                item.close_incomplete(events)

    def note_unfinished(self) -> None:
        """Note each function call whose arguments are not complete JSON."""
        for item in self._items:
            if isinstance(item, ToolCallItem) and item.is_unfinished:
                self._opener.note("unfinished_arguments", "tool call")

    def _growing(self, item_type: str) -> Item | None:
        """Return the only incomplete item of a type; None if all items of the type are complete."""
        growing = [item for item in self._undone.get(item_type, ()) if item.can_grow]
        # A call without arguments that another one followed is complete.
        growing = [item for item in growing if item.has_content or item is growing[-1]]
        if len(growing) > 1:
            raise malformed(f"event for one of {len(growing)} items, expected an index or an id")
        return growing[0] if growing else None

    def _item_of(self, data: dict[str, Any], output_index: int | None) -> Item | None:
        """Return the received item that `data` completes; None if the item is new."""
        item_type, id = string_of(data, "type"), string_of(data, "id")
        called = self._find_called(data)
        if not id and called is not None and called.id == id_of(data):
            id = called.id
        if output_index is None and (not id or self.ids_change):
            return called or self._growing(item_type)
        named = [] if self.ids_change else self._by_id.get(id, [])
        indexed = self._by_index.get(output_index, []) if output_index is not None else []
        if not named and len(indexed) == 1:  # ids alone may differ
            item: Item | None = indexed[0]
            if indexed[0].is_done and self._has_another_id(indexed[0], data):
                raise malformed(f"second item at output index {output_index}, expected another one")
        elif named and not indexed and output_index is not None and all(i.is_done for i in named):
            item = None  # all items share one id
        else:
            item = self.find(output_index, id)
        self._check_call_id(item, called)
        return item

    def _find_called(self, data: dict[str, Any]) -> Item | None:
        """Return the received item with the type and the call id of `data`."""
        return self._by_call_id.get((string_of(data, "type"), string_of(data, "call_id")))

    def _check_call_id(self, item: Item | None, called: Item | None) -> None:
        if called is not None and item is not called:
            raise malformed("complete item with the call id of another item, expected its own")

    def _has_another_id(self, item: Item, data: dict[str, Any]) -> bool:
        id = string_of(data, "id")
        return bool(id and item.id) and item.id != id and not self.ids_change

    def _match(self, entries: list[dict[str, Any]]) -> list[Item | None]:
        """Return the received item that matches each entry of the terminal event's `output`."""
        matches: list[Item | None] = [None] * len(entries)
        free = set(self._items)
        placed = self._items_in_order(len(entries))
        for key in ("call_id", "id", "position"):
            for position, data in enumerate(entries):
                if matches[position] is None:
                    item = self._match_by(key, data, placed[position])
                    if item in free and item.type == string_of(data, "type"):
                        matches[position] = item
                        free.remove(item)
        return matches

    def _match_by(self, key: str, data: dict[str, Any], placed: list[Item]) -> Item | None:
        """Return the item that an entry of the terminal event's `output` matches by `key`."""
        if key == "call_id":
            return self._find_called(data)
        if key == "position":
            return placed[0] if len(placed) == 1 else None
        id = id_of(data)
        named = self._by_id.get(id, []) if len(placed) != 1 or placed[0].id != id else placed
        return named[0] if len(named) == 1 else None

    def _items_in_order(self, count: int) -> list[list[Item]]:
        """Return the items that may match each position of the terminal event's `output`."""
        if not self._by_index:
            found = [[item] for item in self._items]
        elif len(self._by_index) == count:  # the indexes may have gaps
            found = [self._by_index[index] for index in sorted(self._by_index)]
        else:
            found = [self._by_index.get(position, []) for position in range(count)]
        return found[:count] + [[]] * (count - len(found))

    def _add(self, data: dict[str, Any], output_index: int | None, events: list[Event]) -> Item:
        item = self._class_of(data)(data, self._opener)
        self._register(item, output_index)
        if item.call_id:
            self._opener.count_stored(len(item.call_id))
            self._by_call_id[item.type, item.call_id] = item
        item.start(events)
        return item

    def _register(self, item: Item, output_index: int | None) -> None:
        self._opener.count_stored(len(item.id) + len(item.type) + len(item.name))
        if item.id in self._changed_ids:
            raise malformed("item with an id that another complete item had, expected its own")
        self._items.append(item)
        self._undone.setdefault(item.type, {})[item] = None
        id, item.id = item.id, ""
        self._set_keys(item, output_index, id)

    def _set_keys(self, item: Item, output_index: int | None, id: str) -> None:
        """Set the index and ids that an item lacks."""
        if output_index is not None and item.output_index is None:
            item.output_index = output_index
            self._by_index.setdefault(output_index, []).append(item)
        if id and not item.id:
            item.id = id
            self._by_id.setdefault(id, []).append(item)

    def _class_of(self, data: dict[str, Any]) -> type[Item]:
        item_type = string_of(data, "type")
        if item_type == "custom_tool_call" and self._is_server_tool(data):
            return ServerToolItem
        if item_type in _CLASSES:
            return _CLASSES[item_type]
        if types.item_type_of(item_type).is_server_call:
            return ServerToolItem
        return ResultItem if item_type.endswith("_output") else OpaqueItem

    def _is_server_tool(self, data: dict[str, Any]) -> bool:
        """Return whether the server runs the custom tool of a call, as xAI runs its searches."""
        if self._declared_tools is None or data.get("namespace"):
            return False
        return string_of(data, "name") not in self._declared_tools


_Value: TypeAlias = dict[str, Any]


class ItemEvents:
    """Reader of the events of output items, with a handler for each event type.

    Args:
        output: The items of the response.
    """

    def __init__(self, output: OutputItems) -> None:
        self._output = output

    def read(self, event_type: str, value: _Value, events: list[Event]) -> None:
        """Read an item event by the handler of its type in `HANDLERS`."""
        self.HANDLERS[event_type](self, value, events)

    def read_unknown(self, event_type: str, value: _Value, events: list[Event]) -> None:
        """Append an event of an unknown type as an opaque event that names the item's block."""
        item = self._output.peek(_output_index(value), string_of(value, "item_id"))
        value.pop("obfuscation", None)
        index = item.index if item is not None and item.index >= 0 else None
        event = event_from_wire(event_type, value, index)
        if index is None and isinstance(item, DeferredItem):
            item.hold(event)
        else:
            events.append(event)

    # Items

    def _item_added(self, value: _Value, events: list[Event]) -> None:
        item = value.get("item")
        if is_object(item):
            self._output.start_item(item, _output_index(value), events)

    def _item_done(self, value: _Value, events: list[Event]) -> None:
        item = value.get("item")
        if is_object(item):
            self._output.complete_item(item, _output_index(value), events)

    # Messages

    def _part_added(self, value: _Value, events: list[Event]) -> None:
        part = _part(value)
        if part.get("type") == types.REASONING_TEXT.part:
            self._reasoning_part_added(value, events)
        elif part:
            self._message(value, events).start_part(_content_index(value), part, events)

    def _part_done(self, value: _Value, events: list[Event]) -> None:
        part = _part(value)
        if part.get("type") == types.REASONING_TEXT.part:
            self._reasoning_done(value, events)
        elif part:
            self._message(value, events).complete_part(_content_index(value), part, events)

    def _text_delta(self, value: _Value, events: list[Event]) -> None:
        message, part_index = self._message(value, events), _content_index(value)
        message.append_text(Text, part_index, _delta(value), events)
        message.add_logprobs(part_index, value.get("logprobs"), events)

    def _refusal_delta(self, value: _Value, events: list[Event]) -> None:
        message = self._message(value, events)
        message.append_text(Refusal, _content_index(value), _delta(value), events)

    def _text_done(self, value: _Value, events: list[Event]) -> None:
        self._message(value, events).complete_text(_content_index(value), value, events)

    def _annotation_added(self, value: _Value, events: list[Event]) -> None:
        annotation = value.get("annotation")
        if is_object(annotation):
            message = self._message(value, events)
            number = value.get("annotation_index")
            message.add_citation(_content_index(value), number, annotation, events)

    def _message(self, value: _Value, events: list[Event]) -> MessageItem:
        id = string_of(value, "item_id")
        return self._output.resolve(MessageItem, "message", _output_index(value), id, events)

    # Reasoning

    def _reasoning_part_added(self, value: _Value, events: list[Event]) -> None:
        item, (field, part_index) = self._reasoning(value, events), _reasoning_part(value)
        item.start_part(field, part_index, string_of(_part(value), "text"), events)

    def _reasoning_delta(self, value: _Value, events: list[Event]) -> None:
        item, (field, part_index) = self._reasoning(value, events), _reasoning_part(value)
        item.append_text(field, part_index, _delta(value), events)

    def _reasoning_done(self, value: _Value, events: list[Event]) -> None:
        """Append the rest of a reasoning part's complete text that the deltas lacked."""
        item, (field, part_index) = self._reasoning(value, events), _reasoning_part(value)
        item.complete_text(field, part_index, string_of(_part(value) or value, "text"), events)

    def _reasoning(self, value: _Value, events: list[Event]) -> ReasoningItem:
        id = string_of(value, "item_id")
        return self._output.resolve(ReasoningItem, "reasoning", _output_index(value), id, events)

    # Tool calls

    def _arguments(self, value: _Value, events: list[Event]) -> None:
        call = self._call("function_call", value, events)
        call.append_arguments(_delta(value), events)
        call.complete_arguments(value, events)

    def _input(self, value: _Value, events: list[Event]) -> None:
        item = self._output.peek(_output_index(value), string_of(value, "item_id"))
        if isinstance(item, ServerToolItem):  # the complete item has the whole input
            self.read_unknown(string_of(value, "type"), value, events)
            return
        call = self._call("custom_tool_call", value, events)
        call.append_arguments(_delta(value), events)
        call.complete_arguments(value, events)

    def _call(self, item_type: str, value: _Value, events: list[Event]) -> ToolCallItem:
        id = string_of(value, "item_id")
        return self._output.resolve(ToolCallItem, item_type, _output_index(value), id, events)

    HANDLERS: ClassVar[dict[str, Callable[[ItemEvents, _Value, list[Event]], None]]] = {
        types.ITEM_ADDED: _item_added,
        types.ITEM_DONE: _item_done,
        types.OUTPUT_TEXT.part_added: _part_added,
        types.OUTPUT_TEXT.part_done: _part_done,
        # vLLM and Bedrock have event types of their own for the parts of reasoning.
        "response.reasoning_part.added": _reasoning_part_added,
        "response.reasoning_part.done": _reasoning_done,
        types.OUTPUT_TEXT.delta: _text_delta,
        types.OUTPUT_TEXT.done: _text_done,
        types.ANNOTATION_ADDED: _annotation_added,
        types.REFUSAL.delta: _refusal_delta,
        types.REFUSAL.done: _text_done,
        types.SUMMARY_TEXT.part_added: _reasoning_part_added,
        types.SUMMARY_TEXT.part_done: _reasoning_done,
        types.SUMMARY_TEXT.delta: _reasoning_delta,
        types.SUMMARY_TEXT.done: _reasoning_done,
        types.REASONING_TEXT.delta: _reasoning_delta,
        types.REASONING_TEXT.done: _reasoning_done,
        # Open Responses.
        "response.reasoning.delta": _reasoning_delta,
        "response.reasoning.done": _reasoning_done,
        types.ARGUMENTS.delta: _arguments,
        types.ARGUMENTS.done: _arguments,
        types.INPUT.delta: _input,
        types.INPUT.done: _input,
    }


def _part(value: _Value) -> _Value:
    part = value.get("part")
    return part if is_object(part) else {}


def _content_index(value: _Value) -> int | None:
    return _part_index(value.get(types.OUTPUT_TEXT.index_key))


def _reasoning_part(value: _Value) -> tuple[str, int | None]:
    """Return the item field (`summary` or `content`) and the part index of a reasoning event."""
    if "summary" in value["type"]:
        return SUMMARY, _part_index(value.get(types.SUMMARY_TEXT.index_key))
    return CONTENT, _content_index(value)


def _part_index(number: object) -> int | None:
    return number if type(number) is int and number >= 0 else None


def _output_index(value: _Value) -> int | None:
    number = value.get("output_index")
    return number if type(number) is int else None


def _delta(value: _Value) -> str:
    delta = value.get("delta")
    return delta if isinstance(delta, str) else ""
