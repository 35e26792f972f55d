"""The input of a request: messages to items."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

from streamnorm._core.blocks import (
    InputBlock,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.bodies.error_marks import mark_error
from streamnorm._core.bodies.request import InputMessage, unchanged_source
from streamnorm._core.codec import WriteContext
from streamnorm._core.ids import tag_signature
from streamnorm._core.json import is_array, is_object, object_in
from streamnorm.dialects.openai_responses.body.content import (
    Owner,
    content_to_wire,
    output_part_to_wire,
)
from streamnorm.dialects.openai_responses.body.extra import own_fields
from streamnorm.dialects.openai_responses.items.server_tools import result_to_wire
from streamnorm.dialects.openai_responses.reasoning import redacted_to_wire
from streamnorm.dialects.openai_responses.wire import DIALECT

__all__ = ["fit_items", "input_to_wire"]

_Item: TypeAlias = dict[str, Any]
_Part: TypeAlias = Text | Refusal | OpaqueBlock

# An id of an item that was minted here, or by an earlier version.
_MINTED_ID = re.compile(r"[a-z]+_sn_")
_USER_ITEMS = frozenset(
    {"additional_tools", "compaction_trigger", "configuration_update", "mcp_approval_response"}
)
"""Types of items that stand in messages of the user's side."""


def input_to_wire(messages: Iterable[InputMessage], context: WriteContext) -> list[_Item]:
    """Return messages as items; an unchanged one is written as it was read."""
    writer = _InputWriter(context)
    for number, message in enumerate(messages):
        items = unchanged_source(message, DIALECT)
        if items is None:
            write = partial(writer.items_of, message, number)
            items = context.written(message, number, write)
        writer.add(message, items)
    return writer.items


def fit_items(items: list[Any], context: WriteContext) -> list[Any]:
    """Return items without what the server refuses of them.

    Args:
        items: The items, of any JSON.
        context: Capabilities of the target.
    """
    can = context.capabilities
    if can.complete_answers:
        items = [
            _completed(item, f"{number}_0") if is_object(item) else item
            for number, item in enumerate(items)
        ]
    if not can.new_item_ids:
        items = [_without_minted_id(item) if is_object(item) else item for item in items]
    return items


class _InputWriter:
    """Writer of the items of one request.

    Args:
        context: Counts what has no item.

    Attributes:
        items: The items so far.
    """

    def __init__(self, context: WriteContext) -> None:
        self.items: list[_Item] = []
        self._context = context
        self._custom_calls: set[str] = set()

    def add(self, message: InputMessage, items: list[_Item]) -> None:
        """Append the items of a message."""
        self.items += items
        for block in message.blocks:
            if isinstance(block, ToolCall) and block.kind == "custom":
                self._custom_calls.add(block.id)

    def items_of(self, message: InputMessage, number: int) -> list[_Item]:
        """Return the items of a message, which are not added.

        Args:
            message: The message.
            number: Its number among the messages.
        """
        before, self.items = self.items, []
        if message.role == "assistant":
            self._add_answer(message.blocks, number)
        else:
            self._add_message(message)
        items, self.items = self.items, before
        return items

    # Messages of the user's side

    def _add_message(self, message: InputMessage) -> None:
        """Append a message of the user, the system or the developer, and the results in it."""
        content: list[InputBlock] = []
        for block in message.blocks:
            item: _Item | None = None
            if isinstance(block, ToolResult):
                item = self._result(block)
            elif isinstance(block, OpaqueBlock) and block.kind in _USER_ITEMS:
                item = object_in(block.data)
            if item is None:
                content.append(block)
                continue
            self._add_content(message, content)
            self.items.append(item)
            content = []
        self._add_content(message, content)

    def _add_content(self, message: InputMessage, content: list[InputBlock]) -> None:
        if not content:
            return
        item: _Item = {"role": message.role}
        own = own_fields(message.extra)
        if own:
            item = {"type": "message", **item}
        item["content"] = content_to_wire(content, self._context, of="message")
        self.items.append({**item, **own})

    def _result(self, result: ToolResult) -> _Item:
        is_custom = result.tool_call_id in self._custom_calls
        own = own_fields(result.extra)
        kind = own.get("type", "custom_tool_call_output" if is_custom else "function_call_output")
        item: _Item = {"type": kind}
        if result.tool_call_id:
            item["call_id"] = result.tool_call_id
        if result.name and not is_custom:
            item["name"] = result.name
        of: Owner = "custom" if kind == "custom_tool_call_output" else "call"
        content = mark_error(result)
        if result.is_error and any(_is_text_after_file(*two) for two in pairwise(result.content)):
            self._context.losses.add("order_lost", "messages", "text written before the files")
        item["output"] = content_to_wire([*content], self._context, of=of)
        return item | own

    # Messages of the assistant

    def _add_answer(self, blocks: Iterable[InputBlock], number: int) -> None:
        """Append a message of the assistant.

        Args:
            blocks: Its blocks.
            number: Its number among the messages.
        """
        before: _Item = {}  # fields of the message of the last block
        for position, block in enumerate(blocks):
            if not isinstance(block, (Text, Refusal, OpaqueBlock)):
                before = {}
                self._add_item(block)
                continue
            fields = {**own_fields(block.extra)}
            is_part = fields.pop("role", None) is not None
            if isinstance(block, OpaqueBlock) and not is_part:
                before = {}
                self.items.append(object_in(block.data))
                continue
            part = fields.pop("part", {})
            is_continued = "id" in fields and fields == before
            before = fields
            if is_continued:
                self.items[-1]["content"].append(_part(block, part))
            else:
                place = f"{number}_{position}"
                self.items.append(self._message(block, fields, part, _minted_id(place)))

    def _message(self, block: _Part, fields: _Item, part: _Item, id: str) -> _Item:
        """Return the item of a block of text; one that is plain text is an easy message."""
        if isinstance(block, Text) and not (block.citations or part or "id" in fields):
            return {"role": "assistant", "content": block.text, **fields}
        head = {"type": "message", "id": id, "role": "assistant", "status": "completed"}
        return {**head, "content": [_part(block, part)], **fields}

    def _add_item(self, block: InputBlock) -> None:
        match block:
            case ToolCall():
                self.items.append(self._call(block))
            case Reasoning() | RedactedReasoning():
                self.items.append(self._reasoning(block))
            case ServerToolCall():
                self.items.append(_hosted_call(block))
            case ServerToolResult():
                self.items.append(result_to_wire(block, None))
            case _:
                name = type(block).__name__
                self._context.losses.add(name, "messages", "no item of the assistant has it")

    def _reasoning(self, block: Reasoning | RedactedReasoning) -> _Item:
        """Return reasoning under the id that it was issued with; without one if that is unknown.

        The API refuses encrypted content under another id than its own (maximhq/bifrost#5186,
        openclaw/openclaw#72602).
        """
        own = {**own_fields(block.extra)}
        id = own.pop("id", None)
        if self._verifies(block) and block.id is not None:
            id = block.id
        item: _Item = {"type": "reasoning"}
        if id is not None:
            item["id"] = id
        parts = block.parts if isinstance(block, Reasoning) else ()
        item["summary"] = [{"type": "summary_text", "text": text} for text in parts]
        encrypted = self._encrypted(block)
        if encrypted is not None:
            item["encrypted_content"] = encrypted
        return item | own

    def _encrypted(self, block: Reasoning | RedactedReasoning) -> str | None:
        """Return the encrypted content of reasoning, tagged if the target cannot verify it."""
        if isinstance(block, RedactedReasoning):
            return block.data if self._verifies(block) else redacted_to_wire(block)
        if block.signature is None or self._verifies(block):
            return block.signature
        return tag_signature(block.signature, block.issuer, block.id)

    def _verifies(self, block: Reasoning | RedactedReasoning) -> bool:
        """Return whether the target issued the encrypted content of reasoning."""
        issuer = self._context.capabilities.reasoning_issuer
        return issuer is not None and block.issuer == issuer

    def _call(self, call: ToolCall) -> _Item:
        item: _Item = {"type": "function_call", "call_id": call.id, "name": call.name}
        if call.kind == "custom":
            self._custom_calls.add(call.id)
            item = {**item, "type": "custom_tool_call", "input": call.arguments}
        else:
            item["arguments"] = call.arguments or "{}"
        if call.namespace is not None:
            item["namespace"] = call.namespace
        return item | own_fields(call.extra)


def _minted_id(place: str) -> str:
    """Return an id for a message that has none, the same one each time."""
    return f"msg_sn_{place}"


def _without_minted_id(item: _Item) -> _Item:
    id = item.get("id")
    if not isinstance(id, str) or _MINTED_ID.match(id) is None:
        return item
    return {name: value for name, value in item.items() if name != "id"}


def _completed(item: _Item, place: str) -> _Item:
    """Return an item of an answer with the fields that strict servers demand of output text.

    A message of one text without annotations is written as that text, which needs none.

    Args:
        item: The item, whatever its type.
        place: Its place in the history, of which an id is made.
    """
    parts = item.get("content")
    if item.get("role") != "assistant" or not is_array(parts):
        return item
    texts = [part for part in parts if is_object(part) and part.get("type") == "output_text"]
    has_annotations = all(part.get("annotations") is not None for part in texts)
    if not texts or (item.get("id") and item.get("status") and has_annotations):
        return item
    if len(parts) == 1 and not (item.get("id") or texts[0].get("annotations")):
        return {**item, "content": texts[0].get("text")}
    id, status = item.get("id") or _minted_id(place), item.get("status") or "completed"
    known = {**item, "type": "message", "id": id, "status": status}
    return {**known, "content": [_with_annotations(part) for part in parts]}


def _with_annotations(part: Any) -> Any:
    is_text = is_object(part) and part.get("type") == "output_text"
    return {**part, "annotations": part.get("annotations") or []} if is_text else part


def _is_text_after_file(before: InputBlock, block: InputBlock) -> bool:
    return isinstance(block, Text) and not isinstance(before, Text)


def _part(block: _Part, part: _Item) -> _Item:
    if isinstance(block, OpaqueBlock):
        return object_in(block.data)
    return {**output_part_to_wire(block), **part}


def _hosted_call(block: ServerToolCall) -> _Item:
    item: _Item = {"type": block.kind}
    if block.id:
        item["id"] = block.id
    if block.kind.endswith("_call"):
        item["status"] = "completed"
    return {**item, **object_in(block.arguments or "{}"), **own_fields(block.extra)}
