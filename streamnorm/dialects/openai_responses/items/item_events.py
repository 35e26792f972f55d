"""Handlers of all item events except plain deltas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

from streamnorm._core.blocks import Refusal, Text
from streamnorm._core.events import Event
from streamnorm._core.json import is_object, string_of
from streamnorm.dialects.openai_responses import opaque
from streamnorm.dialects.openai_responses.items.message import MessageItem
from streamnorm.dialects.openai_responses.items.output import OutputItems
from streamnorm.dialects.openai_responses.items.reasoning import CONTENT, SUMMARY, ReasoningItem
from streamnorm.dialects.openai_responses.items.server_tools import DeferredItem, ServerToolItem
from streamnorm.dialects.openai_responses.items.tool_calls import ToolCallItem

__all__ = ["ItemEvents"]

_Value: TypeAlias = dict[str, Any]


class ItemEvents:
    """Handlers of the events that belong to an item, by event type.

    Args:
        output: The items.
    """

    def __init__(self, output: OutputItems) -> None:
        self._output = output

    def read(self, event_type: str, value: _Value, events: list[Event]) -> None:
        """Handle an event whose type is in `HANDLERS`."""
        self.HANDLERS[event_type](self, value, events)

    def read_unknown(self, event_type: str, value: _Value, events: list[Event]) -> None:
        """Append an event of an unknown type as `Opaque`, with the block of its item."""
        item = self._output.peek(_output_index(value), string_of(value, "item_id"))
        value.pop("obfuscation", None)
        index = item.index if item is not None and item.index >= 0 else None
        event = opaque.event_from_wire(event_type, value, index)
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
        if part.get("type") == "reasoning_text":
            self._reasoning_part_added(value, events)
        elif part:
            self._message(value, events).start_part(_content_index(value), part, events)

    def _part_done(self, value: _Value, events: list[Event]) -> None:
        part = _part(value)
        if part.get("type") == "reasoning_text":
            self._reasoning_part_done(value, events)
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

    def _summary_done(self, value: _Value, events: list[Event]) -> None:
        self._complete_reasoning(value, _part(value) or value, events)

    def _reasoning_part_done(self, value: _Value, events: list[Event]) -> None:
        self._complete_reasoning(value, _part(value), events)

    def _reasoning_text_done(self, value: _Value, events: list[Event]) -> None:
        self._complete_reasoning(value, value, events)

    def _complete_reasoning(self, value: _Value, part: _Value, events: list[Event]) -> None:
        item, (field, part_index) = self._reasoning(value, events), _reasoning_part(value)
        item.complete_text(field, part_index, string_of(part, "text"), events)

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
        "response.output_item.added": _item_added,
        "response.output_item.done": _item_done,
        "response.content_part.added": _part_added,
        "response.content_part.done": _part_done,
        # vLLM and Bedrock have event types of their own for the parts of reasoning.
        "response.reasoning_part.added": _reasoning_part_added,
        "response.reasoning_part.done": _reasoning_part_done,
        "response.output_text.delta": _text_delta,
        "response.output_text.done": _text_done,
        "response.output_text.annotation.added": _annotation_added,
        "response.refusal.delta": _refusal_delta,
        "response.refusal.done": _text_done,
        "response.reasoning_summary_part.added": _reasoning_part_added,
        "response.reasoning_summary_part.done": _summary_done,
        "response.reasoning_summary_text.delta": _reasoning_delta,
        "response.reasoning_summary_text.done": _summary_done,
        "response.reasoning_text.delta": _reasoning_delta,
        "response.reasoning_text.done": _reasoning_text_done,
        # Open Responses.
        "response.reasoning.delta": _reasoning_delta,
        "response.reasoning.done": _reasoning_text_done,
        "response.function_call_arguments.delta": _arguments,
        "response.function_call_arguments.done": _arguments,
        "response.custom_tool_call_input.delta": _input,
        "response.custom_tool_call_input.done": _input,
    }


def _part(value: _Value) -> _Value:
    part = value.get("part")
    return part if is_object(part) else {}


def _content_index(value: _Value) -> int | None:
    return _part_index(value.get("content_index"))


def _reasoning_part(value: _Value) -> tuple[str, int | None]:
    """Return the field of a reasoning event, and the index of the part in it."""
    if "summary" in value["type"]:
        return SUMMARY, _part_index(value.get("summary_index"))
    return CONTENT, _content_index(value)


def _part_index(number: object) -> int | None:
    return number if type(number) is int and number >= 0 else None


def _output_index(value: _Value) -> int | None:
    number = value.get("output_index")
    return number if type(number) is int else None


def _delta(value: _Value) -> str:
    delta = value.get("delta")
    return delta if isinstance(delta, str) else ""
