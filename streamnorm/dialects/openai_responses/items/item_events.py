"""What each event says of an item, for those that are no plain piece of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

from streamnorm._core.events import Event, Opaque
from streamnorm._core.json import compact, is_object, string_of
from streamnorm.dialects.openai_responses.items.block_opener import DIALECT
from streamnorm.dialects.openai_responses.items.message import MessageItem
from streamnorm.dialects.openai_responses.items.output import Output
from streamnorm.dialects.openai_responses.items.reasoning import CONTENT, SUMMARY, ReasoningItem
from streamnorm.dialects.openai_responses.items.server_tools import ServedItem, WholeItem
from streamnorm.dialects.openai_responses.items.tool_calls import CallItem

__all__ = ["ItemEvents"]

_Value: TypeAlias = dict[str, Any]


class ItemEvents:
    """Read the events that belong to an item.

    Args:
        output: The items.

    """

    def __init__(self, output: Output) -> None:
        self._output = output

    def read(self, kind: str, value: _Value, events: list[Event]) -> None:
        """Read an event of a type that is among `READS`."""
        self.READS[kind](self, value, events)

    def unknown(self, kind: str, value: _Value, events: list[Event]) -> None:
        """Take an event that only the dialect's clients may know."""
        item = self._output.find(_number(value), string_of(value, "item_id"))
        value.pop("obfuscation", None)
        index = item.index if item is not None and item.index >= 0 else None
        event = Opaque(DIALECT, kind, compact(value), index)
        if index is None and isinstance(item, WholeItem):
            item.wait(event)
        else:
            events.append(event)

    # Items

    def _item_added(self, value: _Value, events: list[Event]) -> None:
        item = value.get("item")
        if is_object(item):
            self._output.add(item, _number(value), events)

    def _item_done(self, value: _Value, events: list[Event]) -> None:
        item = value.get("item")
        if is_object(item):
            self._output.done(item, _number(value), events)

    # Messages

    def _part_added(self, value: _Value, events: list[Event]) -> None:
        part = _part(value)
        if part.get("type") == "reasoning_text":
            self._reasoning_part_added(value, events)
        elif part:
            self._message(value, events).begin_part(_count(value, "content_index"), part, events)

    def _part_done(self, value: _Value, events: list[Event]) -> None:
        part = _part(value)
        if part.get("type") == "reasoning_text":
            self._reasoning_part_done(value, events)
        elif part:
            self._message(value, events).end_part(_count(value, "content_index"), part, events)

    def _text_delta(self, value: _Value, events: list[Event]) -> None:
        message, number = self._message(value, events), _count(value, "content_index")
        message.text(number, _delta(value), events)
        message.logprobs(number, value.get("logprobs"), events)

    def _refusal_delta(self, value: _Value, events: list[Event]) -> None:
        number = _count(value, "content_index")
        self._message(value, events).refusal(number, _delta(value), events)

    def _text_done(self, value: _Value, events: list[Event]) -> None:
        number = _count(value, "content_index")
        self._message(value, events).whole_text(number, value, events)

    def _annotation(self, value: _Value, events: list[Event]) -> None:
        annotation = value.get("annotation")
        if is_object(annotation):
            number = _count(value, "content_index")
            self._message(value, events).cite(number, annotation, events)

    def _message(self, value: _Value, events: list[Event]) -> MessageItem:
        id = string_of(value, "item_id")
        return self._output.of(MessageItem, "message", _number(value), id, events)

    # Reasoning

    def _summary_part_added(self, value: _Value, events: list[Event]) -> None:
        text, number = string_of(_part(value), "text"), _count(value, "summary_index")
        self._thought(value, events).begin_part(SUMMARY, number, text, events)

    def _summary_delta(self, value: _Value, events: list[Event]) -> None:
        number = _count(value, "summary_index")
        self._thought(value, events).more(SUMMARY, number, _delta(value), events)

    def _summary_done(self, value: _Value, events: list[Event]) -> None:
        text, number = string_of(_part(value) or value, "text"), _count(value, "summary_index")
        self._thought(value, events).whole(SUMMARY, number, text, events)

    def _reasoning_part_added(self, value: _Value, events: list[Event]) -> None:
        text, number = string_of(_part(value), "text"), _count(value, "content_index")
        self._thought(value, events).begin_part(CONTENT, number, text, events)

    def _reasoning_part_done(self, value: _Value, events: list[Event]) -> None:
        text, number = string_of(_part(value), "text"), _count(value, "content_index")
        self._thought(value, events).whole(CONTENT, number, text, events)

    def _reasoning_delta(self, value: _Value, events: list[Event]) -> None:
        number = _count(value, "content_index")
        self._thought(value, events).more(CONTENT, number, _delta(value), events)

    def _reasoning_done(self, value: _Value, events: list[Event]) -> None:
        number = _count(value, "content_index")
        self._thought(value, events).whole(CONTENT, number, string_of(value, "text"), events)

    def _thought(self, value: _Value, events: list[Event]) -> ReasoningItem:
        id = string_of(value, "item_id")
        return self._output.of(ReasoningItem, "reasoning", _number(value), id, events)

    # Calls

    def _arguments(self, value: _Value, events: list[Event]) -> None:
        call = self._call("function_call", value, events)
        call.more(_delta(value), events)
        call.whole(string_of(value, "arguments"), events)

    def _input(self, value: _Value, events: list[Event]) -> None:
        item = self._output.find(_number(value), string_of(value, "item_id"))
        if isinstance(item, ServedItem):  # whose whole input comes with its end
            self.unknown(string_of(value, "type"), value, events)
            return
        call = self._call("custom_tool_call", value, events)
        call.more(_delta(value), events)
        call.whole(string_of(value, "input"), events)

    def _call(self, type_: str, value: _Value, events: list[Event]) -> CallItem:
        id = string_of(value, "item_id")
        return self._output.of(CallItem, type_, _number(value), id, events)

    READS: ClassVar[dict[str, Callable[[ItemEvents, _Value, list[Event]], None]]] = {
        "response.output_item.added": _item_added,
        "response.output_item.done": _item_done,
        "response.content_part.added": _part_added,
        "response.content_part.done": _part_done,
        # vLLM and Bedrock begin the parts of reasoning with events of their own.
        "response.reasoning_part.added": _reasoning_part_added,
        "response.reasoning_part.done": _reasoning_part_done,
        "response.output_text.delta": _text_delta,
        "response.output_text.done": _text_done,
        "response.output_text.annotation.added": _annotation,
        "response.refusal.delta": _refusal_delta,
        "response.refusal.done": _text_done,
        "response.reasoning_summary_part.added": _summary_part_added,
        "response.reasoning_summary_part.done": _summary_done,
        "response.reasoning_summary_text.delta": _summary_delta,
        "response.reasoning_summary_text.done": _summary_done,
        "response.reasoning_text.delta": _reasoning_delta,
        "response.reasoning_text.done": _reasoning_done,
        # The same in Open Responses.
        "response.reasoning.delta": _reasoning_delta,
        "response.reasoning.done": _reasoning_done,
        "response.function_call_arguments.delta": _arguments,
        "response.function_call_arguments.done": _arguments,
        "response.custom_tool_call_input.delta": _input,
        "response.custom_tool_call_input.done": _input,
    }
    """What reads an event, by its type."""


def _part(value: _Value) -> _Value:
    part = value.get("part")
    return part if is_object(part) else {}


def _count(value: _Value, key: str) -> int | None:
    number = value.get(key)
    return number if type(number) is int and number >= 0 else None


def _number(value: _Value) -> int | None:
    number = value.get("output_index")
    return number if type(number) is int else None


def _delta(value: _Value) -> str:
    delta = value.get("delta")
    return delta if isinstance(delta, str) else ""
