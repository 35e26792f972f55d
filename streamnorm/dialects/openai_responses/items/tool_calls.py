"""Items of client tool calls, server tool calls, results of server tools, and unknown types."""

from __future__ import annotations

from abc import abstractmethod
from hashlib import sha256
from typing import Any, Literal

import msgspec
from msgspec import structs

from streamnorm._core.blocks import Block, ServerToolCall, ServerToolResult, ToolCall
from streamnorm._core.events import BlockStop, Event, JSONDelta, Opaque
from streamnorm._core.failures import malformed
from streamnorm._core.json import FAST_ERRORS, compact, is_json, is_object, string_of
from streamnorm._core.limits import OBJECT_BYTES, text_bytes
from streamnorm.dialects.openai_responses.content import opaque_from_wire
from streamnorm.dialects.openai_responses.items.item import (
    Item,
    OpenText,
    ResponseBlockOpener,
    StoredText,
    extra_fields,
)
from streamnorm.dialects.openai_responses.items.types import ITEM_TYPES
from streamnorm.dialects.openai_responses.wire import DeltaEvent

_NO_ARGUMENTS = ("", "{}")


class ToolCallItem(Item):
    """A function call or a custom tool call.

    Attributes:
        is_cut: Whether the input of a custom call ended before it was complete.
    """

    is_cut = False

    def __init__(self, initial: dict[str, Any], opener: ResponseBlockOpener) -> None:
        super().__init__(initial, opener)
        self._is_function = self.type == "function_call"
        (self._text,) = ITEM_TYPES[self.type].texts
        self._progress = StoredText(opener.store_text, opener.stored)
        self._namespace = ""
        self._is_open = False
        self._is_whole = False  # whether an event stated the complete arguments
        self._begun = self._incomplete_start(initial)
        self._repeated = 0  # characters of `_begun` repeated by deltas so far
        self._is_start_checked = False
        self._value: bytes | None = None  # digest of the arguments as a JSON value

    def _incomplete_start(self, initial: dict[str, Any]) -> str:
        """Return the arguments in the item's start if they are incomplete; else ""."""
        text = self._arguments_of(initial) or ""
        return "" if self._is_function and (text == "" or is_json(text)) else text

    @property
    def can_grow(self) -> bool:
        return not (self.is_done or self._is_whole)

    @property
    def has_content(self) -> bool:
        is_begun = self._is_whole or self._begun != ""
        return is_begun or self._progress.text not in _NO_ARGUMENTS

    @property
    def is_answer(self) -> bool:
        return True

    @property
    def is_bare(self) -> bool:
        """Whether the call is open and no event has carried or completed its arguments."""
        has_arguments = self._progress.length or self._arguments_of(self._initial)
        return self._is_open and not (self._is_whole or has_arguments)

    @property
    def is_unfinished(self) -> bool:
        """Whether a function call's arguments are incomplete JSON."""
        text = self._progress.text
        return self._is_function and text != "" and not is_json(text)

    def start(self, events: list[Event]) -> None:
        """Append the block start if the name is known."""
        if self.name:  # else the complete item has it
            self._open(self._initial, events)

    def append_arguments(self, delta: str, events: list[Event]) -> None:
        """Append a fragment of the arguments.

        Raises:
            Fatal: The arguments are complete.
        """
        if not delta:
            return
        if not self.can_grow:
            if delta.strip() and not self._progress.holds(delta):
                raise malformed("arguments of a call that is complete, expected an open one")
            self._opener.note("resent_arguments", "ToolCall")
            return
        if self._begun:
            delta = self._join_to_start(delta)
        text = self._progress.add(delta) if delta else ""
        if text and self._is_open:
            events.append(JSONDelta(self.index, text))

    def _join_to_start(self, delta: str) -> str:
        """Return all arguments so far; "" as long as the deltas only repeat the start's arguments.

        Most servers send all arguments as deltas, even if the start has some of them.
        """
        begun, at = self._begun, self._repeated
        length = at + len(delta)
        if length < len(begun) and begun.startswith(delta, at):
            self._repeated = length
            return ""
        self._begun, self._repeated = "", 0
        text = begun[:at] + delta
        return text if text.startswith(begun) else begun + text

    def open_text(self, delta: DeltaEvent) -> OpenText | None:
        """Return the arguments that deltas like `delta` extend; None to keep the slow path."""
        is_known = self._is_open and self.can_grow and not self._begun
        if not is_known or self._progress.high_surrogate:
            return None
        unified = JSONDelta(self.index, "")
        stored = self._opener.stored
        return OpenText(unified, self._progress, delta.output_index, delta.part, stored)

    def complete_arguments(self, event: dict[str, Any], events: list[Event]) -> None:
        """Append the rest of an event's complete arguments that the deltas lacked.

        Raises:
            Fatal: The arguments or the name contradict earlier events.
        """
        self._check_name(string_of(event, "name"))
        arguments = self._arguments_of(event)
        if arguments is None:
            return
        self._begun, self._repeated = "", 0
        if not self._progress.holds(arguments):
            self._append_missing_tail(arguments, events)
        self._is_whole = True

    def _append_missing_tail(self, arguments: str, events: list[Event]) -> None:
        """Append the rest of complete arguments; accept others that are the same JSON value."""
        length = self._progress.length
        tail = self._progress.add_missing_tail(arguments) if self.can_grow else None
        if tail is None:
            self._accept_equal(arguments, length)
            return
        if length:
            self._opener.note("completed_by_whole", "ToolCall")
        if self._is_open:
            events.append(JSONDelta(self.index, tail))

    def complete(self, item: dict[str, Any], events: list[Event]) -> None:
        call_id = string_of(item, "call_id")
        if call_id and self.call_id not in ("", call_id):
            self._opener.note("id_changed", "tool call")
            self._is_whole = True  # only the id may differ
        self.complete_arguments(item, events)
        self._check_start()
        self._check_namespace(string_of(item, "namespace"))
        self.is_cut = self.is_cut or item.get("status") == "incomplete"
        if self.index < 0:
            if not string_of(item, "name"):
                raise malformed(f"{self.type} without a name, expected one")
            self._open({**self._initial, **item}, events)
            if text := self._progress.text:
                events.append(JSONDelta(self.index, text))
        self._stop(events)

    def compare(self, item: dict[str, Any]) -> None:
        self.complete(item, [])

    def close_incomplete(self, events: list[Event]) -> None:
        """Stop the block, with the start's arguments if no delta arrived."""
        initial, begun = self._initial, self._begun
        if self._progress.length:
            initial = {key: initial[key] for key in initial if key != self._text.key}
        elif self._repeated and is_json(continued := begun + begun[: self._repeated]):
            initial = {**initial, self._text.key: continued}
        self.complete(initial, events)

    def _open(self, item: dict[str, Any], events: list[Event]) -> None:
        id = string_of(item, "call_id")
        if not id and (id := string_of(item, "id")):
            self._opener.note("minted_id", "tool call")
        self.name, self.call_id = string_of(item, "name"), id
        self._namespace = string_of(item, "namespace")
        kind: Literal["function", "custom"] = "function" if self._is_function else "custom"
        call = ToolCall(id, self.name, kind=kind, namespace=self._namespace or None)
        extra = extra_fields(item, "call_id", "name", "namespace", self._text.key)
        self.index = self._opener.open(call, extra, events)
        self._is_open = True

    def _stop(self, events: list[Event]) -> None:
        if self._is_open:
            if text := self._progress.flush():
                events.append(JSONDelta(self.index, text))
            self._is_open = False
            events.append(BlockStop(self.index, self.is_cut and not self._is_function))

    def _accept_equal(self, arguments: str, length: int) -> None:
        """Accept complete arguments that differ in text, if the JSON value is the same."""
        if not self._is_same(arguments):
            raise malformed(
                f"complete arguments of {len(arguments)} characters that contradict"
                f" {length} of deltas, expected the same"
            )
        self._opener.note("resent_arguments", "ToolCall")

    def _check_start(self) -> None:
        """Check that the arguments begin with the start's arguments, or equal them as JSON."""
        if self._is_start_checked:
            return
        self._is_start_checked = True
        initial = self._arguments_of(self._initial) or ""
        if initial in _NO_ARGUMENTS or self._progress.text.startswith(initial):
            return
        if not self._is_same(initial):
            raise malformed("arguments that contradict the start of their call, expected those")

    def _check_name(self, name: str) -> None:
        if name and self.name not in ("", name):
            raise malformed("event with the name of another tool, expected that of its call")

    def _check_namespace(self, namespace: str) -> None:
        if self.index >= 0 and namespace and namespace != self._namespace:
            raise malformed("item with another namespace than its start, expected the same")

    def _arguments_of(self, value: dict[str, Any]) -> str | None:
        """Return the arguments in an item or event as text; None if the field is missing."""
        arguments = value.get(self._text.key)
        if isinstance(arguments, str):
            return string_of(value, self._text.key)
        return compact(arguments) if is_object(arguments) else None

    def _is_same(self, arguments: str) -> bool:
        """Return whether `arguments` are the same JSON value as the received arguments."""
        if not self._is_function:
            return False
        if self._value is None:  # digest once: its cost is linear in the arguments
            self._value = _value_digest(self._progress.text)
        return self._value != b"" and self._value == _value_digest(arguments)


def _value_digest(text: str) -> bytes:
    """Return a digest that is equal for equal JSON values; b"" for invalid JSON."""
    try:
        value = msgspec.json.decode(text or "{}")
        return sha256(msgspec.json.encode(value, order="sorted")).digest()
    except FAST_ERRORS:
        return b""


_USUAL_STATUS = ("completed", "in_progress")


class ServerToolItem(Item):
    """An item of a server tool call; the item's unmapped fields are the arguments."""

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
    """An item whose block starts only when the item is complete."""

    def __init__(self, initial: dict[str, Any], opener: ResponseBlockOpener) -> None:
        super().__init__(initial, opener)
        self._held: list[Opaque] = []
        self._held_bytes = 0

    @abstractmethod
    def block(self, item: dict[str, Any]) -> Block:
        """Return the block of a complete item."""

    def hold(self, event: Opaque) -> None:
        """Hold an event until the item's block has started."""
        size = OBJECT_BYTES + text_bytes(event.name) + text_bytes(event.data)
        self._opener.count_stored(size)
        self._held_bytes += size
        self._held.append(event)

    def complete(self, item: dict[str, Any], events: list[Event]) -> None:
        """Append the whole block, with the held events."""
        self.index = self._opener.open(self.block(item), None, events)
        held, self._held = self._held, []
        self._opener.stored.release(self._held_bytes)
        events += [structs.replace(event, index=self.index) for event in held]
        events.append(BlockStop(self.index))


class ResultItem(DeferredItem):
    """An item with the result of a server tool call."""

    def block(self, item: dict[str, Any]) -> Block:
        return ServerToolResult(string_of(item, "call_id"), self.type, item)


class OpaqueItem(DeferredItem):
    """An item of an unknown type."""

    def block(self, item: dict[str, Any]) -> Block:
        return opaque_from_wire(item)


def result_to_wire(block: ServerToolResult, item_id: object) -> dict[str, Any]:
    """Return a server tool result as an item; a result of this dialect as its original item."""
    content = block.content
    if is_object(content) and content.get("type") == block.kind:
        return content
    id = {"id": item_id} if item_id is not None else {}
    return {**id, "type": block.kind, "call_id": block.tool_call_id, "output": content}
