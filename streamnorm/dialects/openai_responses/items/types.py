"""Table of item types and of the texts in items, with the names of fields, parts and events.

https://platform.openai.com/docs/api-reference/responses/object and
https://platform.openai.com/docs/api-reference/responses-streaming (read 2026-11-21).  Decoder,
encoder, bodies and validator share the names, and nothing else.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct


class TextType(Struct, frozen=True):
    """A type of text in an item, sent first in deltas and then whole.

    Attributes:
        events: Prefix of the types of its events.
        key: Field with the whole text, in its `done` event and in its part or item.
        field: Field of the item that holds the text or its parts.
        part: Type of its part; empty for a text that is no part.
        index_key: Field of its events with its index; empty for the only text of an item.
        part_events: Prefix of the types of the events that start and end its part.
    """

    events: str
    key: str
    field: str
    part: str = ""
    index_key: str = ""
    part_events: str = ""

    @property
    def delta(self) -> str:
        """Type of the event with a fragment of the text."""
        return f"{self.events}.delta"

    @property
    def done(self) -> str:
        """Type of the event with the whole text."""
        return f"{self.events}.done"

    @property
    def part_added(self) -> str:
        """Type of the event that starts the text's part."""
        return f"{self.part_events}.added"

    @property
    def part_done(self) -> str:
        """Type of the event that ends the text's part."""
        return f"{self.part_events}.done"


def _content(part: str, key: str = "text") -> TextType:
    """Return the `TextType` of a part of `content`."""
    events, part_events = f"response.{part}", "response.content_part"
    return TextType(events, key, "content", part, "content_index", part_events)


OUTPUT_TEXT = _content("output_text")
REFUSAL = _content("refusal", "refusal")
REASONING_TEXT = _content("reasoning_text")
SUMMARY_TEXT = TextType(
    "response.reasoning_summary_text",
    "text",
    "summary",
    "summary_text",
    "summary_index",
    "response.reasoning_summary_part",
)
ARGUMENTS = TextType("response.function_call_arguments", "arguments", "arguments")
INPUT = TextType("response.custom_tool_call_input", "input", "input")
_MCP_ARGUMENTS = TextType("response.mcp_call_arguments", "arguments", "arguments")
_CODE = TextType("response.code_interpreter_call_code", "code", "code")
COMMAND = TextType(
    "response.shell_call_command",
    "command",
    "commands",
    index_key="command_index",
    part_events="response.shell_call_command",
)

ITEM_ADDED, ITEM_DONE = "response.output_item.added", "response.output_item.done"
ANNOTATION_ADDED = f"{OUTPUT_TEXT.events}.annotation.added"


class ItemType(Struct, frozen=True):
    """A type of item, with its texts, events and fields.

    Attributes:
        name: The `type`.
        texts: The texts.
        id_prefix: Prefix of its ids.
        states: Suffixes of the types of events that report its progress.
        is_server_call: Whether it is a call that the server executes.
        initial_fields: The required fields of a server-side call with empty values; None if
            some of them cannot be empty at its start.
        has_status: Whether it has a `status`.
        call_type: Type of the call whose result it is; empty for other items.
        role: Role of the message that it is read into; a message states its own.
    """

    name: str
    texts: tuple[TextType, ...] = ()
    id_prefix: str = "item"
    states: tuple[str, ...] = ()
    is_server_call: bool = False
    initial_fields: dict[str, Any] | None = None
    has_status: bool = True
    call_type: str = ""
    role: Literal["assistant", "user", "developer"] = "assistant"

    @property
    def progress_events(self) -> tuple[str, ...]:
        """Types of the events that report the progress of an item of this type."""
        return tuple([f"response.{self.name}.{state}" for state in self.states])


def _server_call(name: str, *states: str, **fields: Any) -> ItemType:
    """Return the `ItemType` of a server tool call."""
    return ItemType(name, states=states, is_server_call=True, **fields)


_SEARCH_STATES = ("in_progress", "searching", "completed")
_INTERPRETER_STATES = ("in_progress", "interpreting", "completed")
_IMAGE_STATES = ("in_progress", "generating", "completed", "partial_image")
_MCP_STATES = ("in_progress", "completed", "failed")
_MCP_CALL = {"server_label": "", "arguments": ""}
_MCP_TOOLS: dict[str, Any] = {"server_label": "", "tools": []}

# `ResponseOutputItem` of openai 3.54 has types without `status`, and strict clients refuse it.
ITEM_TYPES = {
    row.name: row
    for row in (
        ItemType("message", (OUTPUT_TEXT, REFUSAL), "msg"),
        ItemType("reasoning", (SUMMARY_TEXT, REASONING_TEXT), "rs"),
        ItemType("function_call", (ARGUMENTS,), "fc"),
        ItemType("custom_tool_call", (INPUT,), "ctc"),
        _server_call("web_search_call", *_SEARCH_STATES, initial_fields={}),
        _server_call("file_search_call", *_SEARCH_STATES, initial_fields={"queries": []}),
        _server_call("code_interpreter_call", *_INTERPRETER_STATES, texts=(_CODE,)),
        _server_call("image_generation_call", *_IMAGE_STATES, initial_fields={}),
        _server_call("mcp_call", *_MCP_STATES, texts=(_MCP_ARGUMENTS,), initial_fields=_MCP_CALL),
        _server_call("mcp_list_tools", *_MCP_STATES, initial_fields=_MCP_TOOLS, has_status=False),
        _server_call("mcp_approval_request", initial_fields=_MCP_CALL, has_status=False),
        _server_call("compaction", "compacting", initial_fields={}, has_status=False),
        _server_call("computer_call"),
        _server_call("local_shell_call"),
        _server_call("shell_call", texts=(COMMAND,)),
        _server_call("apply_patch_call"),
        _server_call("tool_search_call"),
        _server_call("program", has_status=False),
        ItemType("function_call_output", call_type="function_call"),
        ItemType("custom_tool_call_output", call_type="custom_tool_call"),
        ItemType("additional_tools", role="developer"),
        ItemType("configuration_update", role="developer"),
        ItemType("compaction_trigger", role="user"),
        ItemType("mcp_approval_response", has_status=False, role="user"),
        ItemType("agent_message", id_prefix="amsg", has_status=False, role="user"),
    )
}
"""Types of items by name; an item of any other type is opaque, or the result of its `_output`."""


def item_type_of(name: str) -> ItemType:
    """Return the `ItemType` with a name; an `ItemType` without texts for unknown names."""
    return ITEM_TYPES.get(name) or ItemType(name)
