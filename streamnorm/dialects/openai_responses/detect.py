"""Detection of Responses frames, of the terminals, and of whole bodies."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from streamnorm._core.json import FAST_ERRORS, is_array, object_in, objects_of
from streamnorm.sse import Frame

TERMINALS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
"""Event types that end a response, each with the status of the response."""


class _NumberedHead(Struct):
    type: str | None = None
    sequence_number: int | None = None


_HEAD: msgspec.json.Decoder[_NumberedHead] = msgspec.json.Decoder(_NumberedHead)


def recognises(frame: Frame) -> bool:
    """Return whether the payload of a frame has the type of a Responses event."""
    try:
        head = _HEAD.decode(frame.data)
    except FAST_ERRORS:
        return False
    event_type = head.type or ""
    # Other dialects have `error` events, too, but do not number them.
    return event_type.startswith("response.") or (
        event_type == "error" and head.sequence_number is not None
    )


def is_terminal(frame: Frame) -> bool:
    """Return whether a frame ends the response, whatever its outcome."""
    return object_in(frame.data).get("type", frame.event) in TERMINALS


# Fields that no other request with an `input` has: those for embeddings, and interactions.
_OPTIONS = frozenset(
    {
        *("context_management", "conversation", "include", "instructions", "max_output_tokens"),
        *("max_tool_calls", "parallel_tool_calls", "previous_response_id", "prompt_cache_key"),
        *("reasoning", "safety_identifier", "temperature", "text", "tool_choice"),
        *("top_logprobs", "top_p", "truncation"),
    }
)
_TOOLS = ("code_interpreter", "custom", "image_generation", "mcp", "namespace", "tool_search")
_ROLES = ("assistant", "developer", "system")
_TYPES = ("message", "reasoning", "item_reference", "additional_tools")
_PARTS = ("input_text", "input_image", "input_file", "output_text")
_SAMPLE = 16
"""Items and tools to look at: a conversation soon has one that tells."""


def is_request(body: dict[str, Any]) -> bool:
    """Return whether a JSON object can only be a Responses request.

    A text, or messages of the user with text alone, may also be those of an interaction.
    """
    items = body.get("input")
    if "messages" in body or "contents" in body or not (isinstance(items, str) or is_array(items)):
        return False
    if not _OPTIONS.isdisjoint(body) or any(map(_is_tool, objects_of(body.get("tools"))[:_SAMPLE])):
        return True
    return any(map(_is_item, objects_of(items)[:_SAMPLE]))


def _is_tool(tool: dict[str, Any]) -> bool:
    kind = tool.get("type")
    return kind in _TOOLS or "strict" in tool or str(kind).startswith("web_search")


def _is_item(item: dict[str, Any]) -> bool:
    if "call_id" in item or item.get("type") in _TYPES or item.get("role") in _ROLES:
        return True
    return any(part.get("type") in _PARTS for part in objects_of(item.get("content")))


def is_response(body: dict[str, Any]) -> bool:
    """Return whether a JSON object can only be a Responses response."""
    return body.get("object") == "response" and is_array(body.get("output"))
