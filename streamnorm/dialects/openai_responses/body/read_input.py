"""The input of a request: items to messages.

https://platform.openai.com/docs/api-reference/responses/create (read 2026-11-23).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Set
from typing import Any, ClassVar, TypeAlias

from msgspec import structs

from streamnorm._core.blocks import (
    InputBlock,
    OpaqueBlock,
    Reasoning,
    ServerToolCall,
    ServerToolResult,
    ToolCall,
    ToolResult,
)
from streamnorm._core.bodies.fields import (
    object_at,
    objects_in,
    required_text,
    rest_of,
    text_in,
    unexpected,
    within,
)
from streamnorm._core.bodies.request import InputMessage, Role, Source
from streamnorm._core.bodies.tool_calls import unmark_error
from streamnorm._core.errors import DecodeError
from streamnorm._core.ids import carried_signature
from streamnorm._core.json import compact, is_object, string_of
from streamnorm._core.tools import AnyTool
from streamnorm.dialects.openai_responses.body.answer import Answer
from streamnorm.dialects.openai_responses.body.content import blocks_from_wire
from streamnorm.dialects.openai_responses.body.extra import Extra, extra_of, own_fields
from streamnorm.dialects.openai_responses.body.tools import tools_from_wire
from streamnorm.dialects.openai_responses.items.server_tools import SERVER_TOOL_TYPES
from streamnorm.dialects.openai_responses.opaque import block_from_wire
from streamnorm.dialects.openai_responses.reasoning import redacted_from_wire, signature_from_wire
from streamnorm.dialects.openai_responses.wire import DIALECT

__all__ = ["InputReader"]

_Item: TypeAlias = dict[str, Any]

_ROLES: dict[str, Role] = {"user": "user", "system": "system", "developer": "developer"}
_MESSAGE = frozenset({"type", "role", "content"})
_SUMMARIES = frozenset({"type", "summary", "encrypted_content"})
_CALL = frozenset({"type", "call_id", "name", "arguments", "namespace"})
_CUSTOM_CALL = frozenset({"type", "call_id", "name", "input", "namespace"})
_RESULT = frozenset({"type", "call_id", "name", "output"})
_RESULT_TYPES = ("function_call_output", "custom_tool_call_output")


class InputReader:
    """Reader of the items of one request.

    Args:
        items: The items.
        declared: Names of the tools of the request; None if others may be loaded.
        server: Name of the server that issued the reasoning; None = OpenAI.

    Attributes:
        added_tools: The tools of items that add tools.
        references: Ids of items that are stored by the server.
    """

    def __init__(self, items: list[Any], declared: Set[str] | None, server: str | None) -> None:
        self.added_tools: list[AnyTool] = []
        self.references: list[str] = []
        self._items = items
        self._declared = declared
        self._server = server
        self._messages: list[InputMessage] = []
        self._answer: Answer | None = None
        # Results that are still to come, by call id; "" is the id of those without one.
        self._results = Counter(
            [
                string_of(item, "call_id")
                for item in items
                if is_object(item) and item.get("type") in _RESULT_TYPES
            ]
        )
        self._custom_calls: set[str] = set()

    def messages(self) -> tuple[InputMessage, ...]:
        """Return the messages.

        Raises:
            DecodeError: An item is not of the dialect.
        """
        for number, item in enumerate(self._items):
            kind = item.get("type") if is_object(item) else None
            read = self._READERS.get(kind) if isinstance(kind, str) else None
            try:
                if read is None:
                    self._read_other(object_at(item, "$"))
                else:
                    read(self, item)
            except DecodeError as exc:
                raise within(exc, f"$.input[{number}]") from None
        self._end_answer()
        return tuple(self._messages)

    def _read_other(self, item: _Item) -> None:
        """Read an item that has no reader of its own."""
        kind = text_in(item, "type")
        if kind is None:
            if "role" in item:
                self._read_message(item)
            else:
                self._read_reference(item)
        elif kind in SERVER_TOOL_TYPES:
            self._append(item, _hosted_call(item))
        elif kind.endswith("_output"):
            self._append(item, ServerToolResult(string_of(item, "call_id"), kind, item))
        else:
            self._append(item, block_from_wire(item))

    # Items of the user's side

    def _add_message(
        self, role: Role, item: _Item, blocks: tuple[InputBlock, ...], extra: Extra = None
    ) -> None:
        part = InputMessage(role, blocks, extra=extra)
        source = Source(DIALECT, [item], part)
        self._messages.append(InputMessage(role, blocks, extra=extra, source=source))

    def _read_message(self, item: _Item) -> None:
        name = required_text(item, "role")
        if name == "assistant":
            self._read_answer_text(item)
            return
        role = _ROLES.get(name)
        if role is None:
            raise unexpected(name, "user, assistant, system or developer", "$.role")
        self._end_answer()
        blocks = blocks_from_wire(item, "content")
        self._add_message(role, item, blocks, extra_of(item, _MESSAGE))

    def _read_user_item(self, item: _Item) -> None:
        self._end_answer()
        self._add_message("user", item, (block_from_wire(item),))

    def _read_developer_item(self, item: _Item) -> None:
        self._end_answer()
        self._add_message("developer", item, (block_from_wire(item),))

    def _read_additional_tools(self, item: _Item) -> None:
        self._declared = None
        self.added_tools += tools_from_wire(item)
        self._read_developer_item(item)

    def _read_result(self, item: _Item) -> None:
        id = text_in(item, "call_id") or ""
        content: Any = blocks_from_wire(item, "output")  # whose parts are those of a message
        is_error, content = unmark_error(content)
        extra = extra_of(item, _RESULT)
        if item["type"] == "custom_tool_call_output" and id not in self._custom_calls:
            extra = {DIALECT: {**own_fields(extra), "type": item["type"]}}
        self._results[id] -= 1
        if self._answer is not None:
            self._answer.close_call(id)
        name = text_in(item, "name") or ""
        result = ToolResult(id, content, is_error, name, extra=extra)
        self._add_message("user", item, (result,))

    # Items of the assistant

    def _append(self, item: _Item, *blocks: InputBlock, begins: bool = False) -> Answer:
        """Append an item to the message that it belongs to, and return that message."""
        answer = self._answer
        if answer is None or not answer.accepts(begins=begins):
            self._end_answer()
            answer = self._answer = Answer(len(self._messages))
            self._messages.append(_UNFINISHED)
        answer.add(item, blocks)
        return answer

    def _end_answer(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            self._messages[answer.position] = answer.message()

    def _read_answer_text(self, item: _Item) -> None:
        blocks = blocks_from_wire(item, "content")
        fields = rest_of(item, _MESSAGE)
        blocks = tuple([_with_fields(block, fields) for block in blocks])
        self._append(item, *blocks, begins=True).has_text |= bool(blocks)

    def _read_reasoning(self, item: _Item) -> None:
        redacted = redacted_from_wire(item)
        if redacted is not None:
            extra = extra_of(item, _SUMMARIES - {"summary"})
            self._append(item, structs.replace(redacted, extra=extra), begins=True)
            return
        signed = signature_from_wire(item, self._server)
        mapped = _SUMMARIES if signed is not None else _SUMMARIES - {"encrypted_content"}
        # The id of an item whose signature is tagged was minted with it.
        if signed is not None and (signed.id or signed.signature != item["encrypted_content"]):
            mapped |= {"id"}
        parts = _texts_of(item, "summary")
        if not parts and (parts := _texts_of(item, "content")):
            mapped -= {"summary"}
        block = Reasoning(parts, *(signed or ()), extra=extra_of(item, mapped))
        # The signature of a text or a call, on an item of its own, belongs to their answer.
        is_carrier = not parts and carried_signature(block.signature or "") is not None
        self._append(item, block, begins=not is_carrier)

    def _read_call(self, item: _Item) -> None:
        arguments = item.get("arguments")
        # Some servers and their clients have an object here, or nothing.
        text = compact(arguments) if is_object(arguments) else text_in(item, "arguments") or ""
        self._add_call(item, text, "function", _CALL)

    def _read_custom_call(self, item: _Item) -> None:
        if self._is_hosted(item):
            self._append(item, _hosted_call(item))
            return
        call = self._add_call(item, required_text(item, "input"), "custom", _CUSTOM_CALL)
        self._custom_calls.add(call.id)

    def _add_call(self, item: _Item, arguments: str, kind: Any, mapped: frozenset[str]) -> ToolCall:
        id = text_in(item, "call_id") or text_in(item, "id") or ""
        call = ToolCall(
            id,
            required_text(item, "name"),
            arguments,
            kind,
            namespace=text_in(item, "namespace"),
            extra=extra_of(item, mapped),
        )
        is_awaited = self._results[id] > 0 or self._results[""] > 0
        self._append(item, call).open_call(id, is_awaited=is_awaited)
        return call

    def _is_hosted(self, item: _Item) -> bool:
        """Return whether a custom call is one that the server executed, as xAI's searches are."""
        if self._declared is None or item.get("namespace"):
            return False
        is_declared = string_of(item, "name") in self._declared
        return not is_declared and self._results[string_of(item, "call_id")] == 0

    def _read_tool_search_output(self, item: _Item) -> None:
        self._declared = None
        self.added_tools += tools_from_wire(item)
        result = ServerToolResult(string_of(item, "call_id"), "tool_search_output", item)
        self._append(item, result)

    def _read_reference(self, item: _Item) -> None:
        self.references.append(required_text(item, "id"))
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
        "configuration_update": _read_developer_item,
        "compaction_trigger": _read_user_item,
        "mcp_approval_response": _read_user_item,
        "tool_search_output": _read_tool_search_output,
    }


_UNFINISHED = InputMessage("assistant")


def _with_fields(block: InputBlock, fields: _Item | None) -> InputBlock:
    """Return a block of an assistant message with the fields of the message in its `extra`.

    The other fields of its part are in `part`.  `role` says that a block of an unknown type is
    a part, and no item.
    """
    part, is_opaque = own_fields(block.extra), isinstance(block, OpaqueBlock)
    if not (fields or part or is_opaque):
        return block
    own = {**(fields or {})}
    if part:
        own["part"] = part
    if is_opaque:
        own["role"] = "assistant"
    return structs.replace(block, extra={DIALECT: own})


def _texts_of(item: _Item, name: str) -> tuple[str, ...]:
    """Return the texts of the summaries, or of the content, of a reasoning item."""
    texts: list[str] = []
    for path, part in objects_in(item, name):
        try:
            texts.append(required_text(part, "text"))
        except DecodeError as exc:
            raise within(exc, path) from None
    return tuple(texts)


def _hosted_call(item: _Item) -> ServerToolCall:
    """Return a call that the server executes; its arguments are its other fields."""
    kind, id = string_of(item, "type"), string_of(item, "id")
    fields = rest_of(item, {"id", "type", "status"}) or {}
    status = {"status": item["status"]} if "status" in item else {}
    extra = {DIALECT: status} if status else None
    name = string_of(item, "name") or kind
    return ServerToolCall(id, name, compact(fields) if fields else "", kind, extra=extra)
