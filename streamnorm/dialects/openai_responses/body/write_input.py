"""The input of a request: messages to items."""

from __future__ import annotations

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
from streamnorm._core.bodies.request import InputMessage, unchanged_source
from streamnorm._core.bodies.tool_calls import mark_error
from streamnorm._core.codec import WriteContext
from streamnorm._core.ids import tag_signature
from streamnorm._core.json import object_in
from streamnorm.dialects.openai_responses.body.content import (
    Owner,
    content_to_wire,
    output_part_to_wire,
)
from streamnorm.dialects.openai_responses.body.extra import own_fields
from streamnorm.dialects.openai_responses.items.server_tools import result_to_wire
from streamnorm.dialects.openai_responses.reasoning import redacted_to_wire
from streamnorm.dialects.openai_responses.wire import DIALECT

__all__ = ["input_to_wire"]

_Item: TypeAlias = dict[str, Any]
_Part: TypeAlias = Text | Refusal | OpaqueBlock

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
                self.items.append(self._message(block, fields, part, f"msg_sn_{number}_{position}"))

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
