"""Input items and messages, in both directions.

Each item of the assistant is read into the message under construction, an
`AssistantMessageBuilder`: Responses has no messages around reasoning and calls.
`InputReader` reads the items of a request, `input_to_wire` writes messages as items.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Set
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

from msgspec import structs

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
from streamnorm._core.bodies.fields import (
    as_object,
    get_str,
    read_array,
    read_objects,
    require_str,
    unexpected,
    unknown_fields,
)
from streamnorm._core.bodies.request import InputMessage, Role, Source, unchanged_source
from streamnorm._core.bodies.tool_calls import mark_error, unmark_error
from streamnorm._core.codec import WriteContext
from streamnorm._core.json import compact, is_object, object_in, string_of
from streamnorm._core.text import read_carrier, tag_signature
from streamnorm._core.tools import AnyTool
from streamnorm.dialects.openai_responses.body.content import (
    Extra,
    Owner,
    blocks_from_wire,
    client_item_from_wire,
    content_to_wire,
    hosted_call_from_wire,
    hosted_call_to_wire,
    output_message_to_wire,
    output_part_to_wire,
    unknown_extra,
    unknown_fields_of,
    without_refused_calls,
    without_refused_id,
)
from streamnorm.dialects.openai_responses.body.tools import tools_from_wire
from streamnorm.dialects.openai_responses.content import (
    opaque_from_wire,
    redacted_from_wire,
    redacted_to_wire,
    signature_from_wire,
)
from streamnorm.dialects.openai_responses.items import types
from streamnorm.dialects.openai_responses.items.tool_calls import result_to_wire
from streamnorm.dialects.openai_responses.wire import DIALECT

_Item: TypeAlias = dict[str, Any]
_Part: TypeAlias = Text | Refusal | OpaqueBlock

_ROLES: dict[str, Role] = {"user": "user", "system": "system", "developer": "developer"}
_CLIENT_ITEMS = {row.name for row in types.ITEM_TYPES.values() if row.role != "assistant"}

# Mapped fields of items.
_MESSAGE = frozenset({"type", "role", "content"})
_REASONING = frozenset({"type", types.SUMMARY_TEXT.field, "encrypted_content"})
_CALL = frozenset({"type", "call_id", "name", "namespace"})
_RESULT = frozenset({"type", "call_id", "name", "output"})

_UNFINISHED = InputMessage("assistant")


class AssistantMessageBuilder:
    """Builder of an assistant message from consecutive items.

    A message holds one answer of the model: reasoning, then text, then calls.  Items between
    a call and its result belong to the message of the call.

    Args:
        position: Position among the messages.

    Attributes:
        position: Position among the messages.
        has_text: Whether the message has text.
        has_results: Whether a tool result has followed an item of the message.
    """

    def __init__(self, position: int) -> None:
        self.position = position
        self.has_text = False
        self.has_results = False
        self._items: list[dict[str, Any]] = []
        self._blocks: list[InputBlock] = []
        # Calls without a result, by id, with whether a later item is their result.
        self._open_calls: dict[str, bool] = {}
        self._call_ids: list[str] = []  # of all calls, in order
        self._first = 0  # position of a call before which all calls have results
        self._awaited = 0  # open calls whose result is a later item

    def accepts(self, *, begins: bool) -> bool:
        """Return whether the next item belongs to the message.

        Args:
            begins: Whether the item may begin an answer: text or reasoning.
        """
        if self.has_results:
            return self._awaited > 0
        return not (begins and self.has_text) or bool(self._open_calls)

    def add(self, item: dict[str, Any], blocks: tuple[InputBlock, ...]) -> None:
        """Append an item and its blocks."""
        self._items.append(item)
        self._blocks += blocks

    def open_call(self, id: str, *, is_awaited: bool) -> None:
        """Record a call; `is_awaited` states whether the result of the call follows."""
        self._awaited += is_awaited - self._open_calls.get(id, False)
        self._open_calls[id] = is_awaited
        self._call_ids.append(id)

    def close_call(self, id: str) -> None:
        """Record the result of a call; "" as `id` means the first call without a result."""
        self.has_results = True
        if not id and self._open_calls:
            while self._call_ids[self._first] not in self._open_calls:
                self._first += 1
            id = self._call_ids[self._first]
        self._awaited -= self._open_calls.pop(id, False)

    def build(self) -> InputMessage:
        """Return the message."""
        part = InputMessage("assistant", tuple(self._blocks))
        return InputMessage("assistant", part.blocks, source=Source(DIALECT, self._items, part))


class InputReader:
    """Decoder of the input items of one request.

    Args:
        items: The items.
        declared: Names of the client's tools; None if an item may add tools.
        server: Name of the server that issued the reasoning; None = OpenAI.

    Attributes:
        added_tools: Tools added by items.
        references: Ids of items stored by the server.
    """

    def __init__(self, items: list[Any], declared: Set[str] | None, server: str | None) -> None:
        self.added_tools: list[AnyTool] = []
        self.references: list[str] = []
        self._items = items
        self._declared_names = declared
        self._server = server
        self._messages: list[InputMessage] = []
        self._builder: AssistantMessageBuilder | None = None
        # Numbers of results in later items, by call id; "" for results without an id.
        self._results = Counter(
            [
                string_of(item, "call_id")
                for item in items
                if is_object(item) and types.item_type_of(string_of(item, "type")).call_type
            ]
        )
        self._custom_calls: set[str] = set()

    def messages(self) -> tuple[InputMessage, ...]:
        """Decode the input items to messages.

        Raises:
            DecodeError: An item is not a Responses item.
        """
        read_array(self._items, self._read, "$.input")
        self._end_assistant_message()
        return tuple(self._messages)

    def _read(self, item: _Item) -> None:
        kind = as_object(item).get("type")
        read = self._READERS.get(kind) if isinstance(kind, str) else None
        if read is None:
            self._read_other(item)
        else:
            read(self, item)

    def _read_other(self, item: _Item) -> None:
        """Read an item without a reader of its own in `_READERS`."""
        kind = get_str(item, "type")
        if kind is None:
            if "role" in item:
                self._read_message(item)
            else:
                self._read_reference(item)
        elif (row := types.item_type_of(kind)).is_server_call:
            self._append(item, hosted_call_from_wire(item))
        elif row.role != "assistant":
            self._end_assistant_message()
            self._add_message(row.role, item, client_item_from_wire(item))
        elif kind.endswith("_output"):
            self._append(item, ServerToolResult(string_of(item, "call_id"), kind, item))
        else:
            self._append(item, opaque_from_wire(item))

    # Items of the user and the developer

    def _add_message(
        self, role: Role, item: _Item, blocks: tuple[InputBlock, ...], extra: Extra = None
    ) -> None:
        part = InputMessage(role, blocks, extra=extra)
        source = Source(DIALECT, [item], part)
        self._messages.append(InputMessage(role, blocks, extra=extra, source=source))

    def _read_message(self, item: _Item) -> None:
        name = require_str(item, "role")
        if name == "assistant":
            self._read_assistant_message(item)
            return
        role = _ROLES.get(name)
        if role is None:
            raise unexpected(name, "user, assistant, system or developer", "$.role")
        self._end_assistant_message()
        blocks = blocks_from_wire(item, "content")
        self._add_message(role, item, blocks, unknown_extra(item, _MESSAGE))

    def _read_additional_tools(self, item: _Item) -> None:
        self._declared_names = None
        self.added_tools += tools_from_wire(item)
        self._read_other(item)

    def _read_result(self, item: _Item) -> None:
        id = get_str(item, "call_id") or ""
        content: Any = blocks_from_wire(item, "output")  # a result has the parts of a message
        is_error, content = unmark_error(content)
        extra = unknown_extra(item, _RESULT)
        # The call may be stored by the server: without it, only the result's type tells its kind.
        if item["type"] == "custom_tool_call_output" and id not in self._custom_calls:
            extra = {DIALECT: {**unknown_fields_of(extra), "type": item["type"]}}
        self._results[id] -= 1
        if self._builder is not None:
            self._builder.close_call(id)
        name = get_str(item, "name") or ""
        result = ToolResult(id, content, is_error, name, extra=extra)
        self._add_message("user", item, (result,))

    # Items of the assistant

    def _append(
        self, item: _Item, *blocks: InputBlock, begins: bool = False
    ) -> AssistantMessageBuilder:
        """Append an item to its assistant message; return the message's builder."""
        builder = self._builder
        if builder is None or not builder.accepts(begins=begins):
            self._end_assistant_message()
            builder = self._builder = AssistantMessageBuilder(len(self._messages))
            self._messages.append(_UNFINISHED)
        builder.add(item, blocks)
        return builder

    def _end_assistant_message(self) -> None:
        builder, self._builder = self._builder, None
        if builder is not None:
            self._messages[builder.position] = builder.build()

    def _read_assistant_message(self, item: _Item) -> None:
        blocks = blocks_from_wire(item, "content")
        fields = unknown_fields(item, _MESSAGE)
        blocks = tuple([_add_message_fields(block, fields) for block in blocks])
        self._append(item, *blocks, begins=True).has_text |= bool(blocks)

    def _read_reasoning(self, item: _Item) -> None:
        # Redacted reasoning of another vendor, tagged when it was written for this dialect.
        redacted = redacted_from_wire(item)
        if redacted is not None:
            extra = unknown_extra(item, _REASONING - {types.SUMMARY_TEXT.field})
            self._append(item, structs.replace(redacted, extra=extra), begins=True)
            return
        signed = signature_from_wire(item, self._server)
        mapped = _REASONING if signed is not None else _REASONING - {"encrypted_content"}
        # The id of an item whose signature is tagged was minted with it.
        if signed is not None and (signed.id or signed.signature != item["encrypted_content"]):
            mapped |= {"id"}
        parts = _texts_of(item, types.SUMMARY_TEXT)
        if not parts and (parts := _texts_of(item, types.REASONING_TEXT)):
            mapped -= {types.SUMMARY_TEXT.field}
        block = Reasoning(parts, *(signed or ()), extra=unknown_extra(item, mapped))
        # The tagged signature of a text or a call is an item of its own behind it, and no answer
        # begins there.
        is_carrier = not parts and read_carrier(block.signature or "") is not None
        self._append(item, block, begins=not is_carrier)

    def _read_call(self, item: _Item) -> None:
        arguments = item.get(types.ARGUMENTS.key)
        # Some servers and their clients send an object, or nothing.
        text = (
            compact(arguments) if is_object(arguments) else get_str(item, types.ARGUMENTS.key) or ""
        )
        self._add_call(item, text, "function", types.ARGUMENTS)

    def _read_custom_call(self, item: _Item) -> None:
        if self._is_hosted(item):
            self._append(item, hosted_call_from_wire(item))
            return
        call = self._add_call(item, require_str(item, types.INPUT.key), "custom", types.INPUT)
        self._custom_calls.add(call.id)

    def _add_call(self, item: _Item, arguments: str, kind: Any, field: types.TextType) -> ToolCall:
        id = get_str(item, "call_id") or get_str(item, "id") or ""
        call = ToolCall(
            id,
            require_str(item, "name"),
            arguments,
            kind,
            namespace=get_str(item, "namespace"),
            extra=unknown_extra(item, _CALL | {field.key}),
        )
        is_awaited = self._results[id] > 0 or self._results[""] > 0
        self._append(item, call).open_call(id, is_awaited=is_awaited)
        return call

    def _is_hosted(self, item: _Item) -> bool:
        """Return whether the server has executed a custom call, as xAI executes its searches."""
        if self._declared_names is None or item.get("namespace"):
            return False
        is_declared = string_of(item, "name") in self._declared_names
        return not is_declared and self._results[string_of(item, "call_id")] == 0

    def _read_tool_search_output(self, item: _Item) -> None:
        self._declared_names = None  # a custom call may name a loaded tool
        self.added_tools += tools_from_wire(item)
        result = ServerToolResult(string_of(item, "call_id"), "tool_search_output", item)
        self._append(item, result)

    def _read_reference(self, item: _Item) -> None:
        self.references.append(require_str(item, "id"))
        self._append(item, OpaqueBlock(DIALECT, "item_reference", compact(item)))

    _READERS: ClassVar[dict[str, Callable[[InputReader, _Item], None]]] = {
        "message": _read_message,
        "function_call": _read_call,
        "function_call_output": _read_result,
        "reasoning": _read_reasoning,
        "custom_tool_call": _read_custom_call,
        "custom_tool_call_output": _read_result,
        "item_reference": _read_reference,
        "additional_tools": _read_additional_tools,
        "tool_search_output": _read_tool_search_output,
    }


def _add_message_fields(block: InputBlock, fields: _Item | None) -> InputBlock:
    """Return a block with the unknown fields of the wire message added to its `extra`.

    `part` within `extra` holds the unknown fields of the part.  `role` marks an opaque block
    as a part rather than an item.
    """
    part, is_opaque = unknown_fields_of(block.extra), isinstance(block, OpaqueBlock)
    if not (fields or part or is_opaque):
        return block
    merged = {**(fields or {})}
    if part:
        merged["part"] = part
    if is_opaque:
        merged["role"] = "assistant"
    return structs.replace(block, extra={DIALECT: merged})


def _texts_of(item: _Item, text: types.TextType) -> tuple[str, ...]:
    """Return the texts in the parts of a reasoning item."""
    parts, path = item.get(text.field), f"$.{text.field}"
    return tuple(read_objects(parts, lambda part: require_str(part, text.key), path))


def input_to_wire(messages: Iterable[InputMessage], context: WriteContext) -> list[_Item]:
    """Return messages as input items; a message unchanged since decoding keeps its source items."""
    writer = _InputWriter(context)
    write = context.memoize(writer.items_of)
    for number, message in enumerate(messages):
        items = unchanged_source(message, DIALECT)
        writer.add(message, write(message, number) if items is None else items)
    return writer.items


class _InputWriter:
    """Encoder of the input items of one request.

    Args:
        context: Capabilities of the target, and the counter of losses.

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
        """Return the items of a message.

        Args:
            message: The message.
            number: The position among the messages, used for minted ids.
        """
        before, self.items = self.items, []
        if message.role == "assistant":
            self._add_assistant_message(without_refused_calls(message, self._context), number)
        else:
            self._add_message(message)
        items, self.items = self.items, before
        return items

    # Messages of the user, the system and the developer

    def _add_message(self, message: InputMessage) -> None:
        """Append the items of a user or system message, with its tool results."""
        content: list[InputBlock] = []
        for block in message.blocks:
            item: _Item | None = None
            if isinstance(block, ToolResult):
                item = self._result_to_wire(block)
            elif isinstance(block, OpaqueBlock) and block.kind in _CLIENT_ITEMS:
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
        fields = unknown_fields_of(message.extra)
        if fields:
            item = {"type": "message", **item}
        item["content"] = content_to_wire(content, self._context, of="message")
        self.items.append({**item, **fields})

    def _result_to_wire(self, result: ToolResult) -> _Item:
        # The API matches a result with its call by type as well as by id.
        is_custom = result.tool_call_id in self._custom_calls
        fields = unknown_fields_of(result.extra)
        default = "custom_tool_call_output" if is_custom else "function_call_output"
        kind = fields.get("type", default)
        item: _Item = {"type": kind}
        if result.tool_call_id:
            item["call_id"] = result.tool_call_id
        elif result.name and not is_custom:
            # OpenAI's SDK has the field since version 3; older servers may refuse it.
            item["name"] = result.name
        of: Owner = "custom" if kind == "custom_tool_call_output" else "call"
        content = mark_error(result)
        if result.is_error and any(_is_text_after_file(*two) for two in pairwise(result.content)):
            self._context.losses.add("order_lost", "messages", "text written before the files")
        item["output"] = content_to_wire([*content], self._context, of=of)
        return item | fields

    # Assistant messages

    def _add_assistant_message(self, blocks: Iterable[InputBlock], number: int) -> None:
        """Append the items of an assistant message.

        Args:
            blocks: The blocks.
            number: The position among the messages, used for minted ids.
        """
        before: _Item = {}  # unknown fields of the message of the last block
        for position, block in enumerate(blocks):
            if not isinstance(block, (Text, Refusal, OpaqueBlock)):
                before = {}
                self._add_item(block)
                continue
            fields = {**unknown_fields_of(block.extra)}
            is_part = fields.pop("role", None) is not None
            if isinstance(block, OpaqueBlock) and not is_part:
                before = {}
                self.items.append(object_in(block.data))
                continue
            part, id = fields.pop("part", {}), f"msg_sn_{number}_{position}"
            # An answer has the fields of an item with its first part alone.  Two items with one
            # id are refused: "Duplicate item found with id msg_…" (earendil-works/pi#5151).
            is_continued = "id" in before and fields.get("id") == before["id"]
            if is_continued and all(before.get(k, v) == v for k, v in fields.items()):
                before |= fields
                self._continue_message(block, fields, part, id)
            else:
                before = fields
                fields = without_refused_id(fields, "message", self._context)
                self.items.append(self._text_to_wire(block, fields, part, id))

    def _text_to_wire(self, block: _Part, fields: _Item, part: _Item, id: str) -> _Item:
        """Return a text block as an item: a bare string if possible, else an output message."""
        # Citations need an output message, whose id and status are required.
        if isinstance(block, Text) and not (block.citations or part or "id" in fields):
            return {"role": "assistant", "content": block.text, **fields}
        return output_message_to_wire(id, _output_part(block, part)) | fields

    def _continue_message(self, block: _Part, fields: _Item, part: _Item, id: str) -> None:
        """Add a part to the last item."""
        item = self.items[-1]
        if item.get("id") != fields["id"]:  # it was refused
            fields = {key: value for key, value in fields.items() if key not in ("id", "status")}
        if isinstance(text := item["content"], str):
            item |= output_message_to_wire(id, output_part_to_wire(Text(text)))
        item |= fields
        item["content"].append(_output_part(block, part))

    def _add_item(self, block: InputBlock) -> None:
        match block:
            case ToolCall():
                self.items.append(self._call_to_wire(block))
            case Reasoning() | RedactedReasoning():
                self.items.append(self._reasoning_to_wire(block))
            case ServerToolCall():
                self.items.append(hosted_call_to_wire(block))
            case ServerToolResult():
                self.items.append(result_to_wire(block, None))
            case _:
                name = type(block).__name__
                self._context.losses.add(name, "messages", "no item of the assistant has it")

    def _reasoning_to_wire(self, block: Reasoning | RedactedReasoning) -> _Item:
        """Return reasoning as an item, with its original id if known.

        The API refuses encrypted content under a different id (maximhq/bifrost#5186,
        openclaw/openclaw#72602).
        """
        fields = without_refused_id(unknown_fields_of(block.extra), "reasoning", self._context)
        id, fields = fields.get("id"), {k: v for k, v in fields.items() if k != "id"}
        if self._verifies(block) and block.id is not None:
            id = block.id
        item: _Item = {"type": "reasoning"}
        if id is not None:
            item["id"] = id
        parts = block.parts if isinstance(block, Reasoning) else ()
        item[types.SUMMARY_TEXT.field] = [
            {"type": types.SUMMARY_TEXT.part, types.SUMMARY_TEXT.key: text} for text in parts
        ]
        encrypted = self._encrypted_content(block)
        if encrypted is not None:
            item["encrypted_content"] = encrypted
        return item | fields

    def _encrypted_content(self, block: Reasoning | RedactedReasoning) -> str | None:
        """Return the `encrypted_content` of reasoning, tagged unless the target has issued it."""
        if isinstance(block, RedactedReasoning):
            return block.data if self._verifies(block) else redacted_to_wire(block)
        if block.signature is None or self._verifies(block):
            return block.signature
        return tag_signature(block.signature, block.issuer, block.id)

    def _verifies(self, block: Reasoning | RedactedReasoning) -> bool:
        """Return whether the target issued, and so accepts, the encrypted content of reasoning."""
        issuer = self._context.capabilities.reasoning_issuer
        return issuer is not None and block.issuer == issuer

    def _call_to_wire(self, call: ToolCall) -> _Item:
        item: _Item = {"type": "function_call", "call_id": call.id, "name": call.name}
        if call.kind == "custom":
            self._custom_calls.add(call.id)
            item = {**item, "type": "custom_tool_call", types.INPUT.key: call.arguments}
        else:
            item[types.ARGUMENTS.key] = call.arguments or "{}"
        if call.namespace is not None:
            item["namespace"] = call.namespace
        fields = unknown_fields_of(call.extra)
        return item | without_refused_id(fields, item["type"], self._context)


def _is_text_after_file(before: InputBlock, block: InputBlock) -> bool:
    return isinstance(block, Text) and not isinstance(before, Text)


def _output_part(block: _Part, part: _Item) -> _Item:
    if isinstance(block, OpaqueBlock):
        return object_in(block.data)
    return {**output_part_to_wire(block), **part}
