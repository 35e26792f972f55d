"""Traits of Responses: endpoints, recognition of bodies and frames, capabilities.

https://platform.openai.com/docs/api-reference/responses-streaming (read 2026-11-21).
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from streamnorm._core.blocks import OpaqueBlock, Reasoning
from streamnorm._core.codec import Endpoints, Route, StoredAnswers, on_first_use
from streamnorm._core.codec.websocket_messages import WS_MESSAGE
from streamnorm._core.json import FAST_ERRORS, is_array, object_in, objects_of
from streamnorm._core.losses import Capabilities
from streamnorm.dialects.openai_responses.wire import ENCRYPTED_REASONING
from streamnorm.sse import Frame

_STORED = r"/responses/(?P<response_id>[^/]+)"

ENDPOINTS = Endpoints(
    routes=(
        Route("POST", re.compile(r"/responses\Z"), "message"),
        Route("POST", re.compile(r"/responses/input_tokens\Z"), "count"),
        Route("POST", re.compile(r"/responses/compact\Z"), "compact"),
        Route("GET", re.compile(rf"{_STORED}\Z"), "response"),
        Route("DELETE", re.compile(rf"{_STORED}\Z"), "delete"),
        Route("POST", re.compile(rf"{_STORED}/cancel\Z"), "cancel"),
        Route("GET", re.compile(rf"{_STORED}/input_items\Z"), "input_items"),
        Route("GET", re.compile(r"/models\Z"), "models"),
        Route("GET", re.compile(r"\A(?>.*?/models/)(?P<model>.+)\Z"), "model"),
    ),
    versioned_base=True,
    key_headers=("authorization", "api-key"),  # the second is Azure's
    vendor_headers=("openai-beta", "openai-organization", "openai-project"),
    account_headers=frozenset({"openai-organization", "openai-project"}),
    forwarded_query=(
        *("include", "include[]", "include_obfuscation", "stream", "starting_after"),
        *("after", "limit", "order"),
    ),
    socket_framing=WS_MESSAGE,
)

_REQUEST = "streamnorm.dialects.openai_responses.body.request"

# https://platform.openai.com/docs/guides/conversation-state and
# https://platform.openai.com/docs/guides/background (read 2026-11-27).
STORED = StoredAnswers(
    noun="response",
    id_prefix="resp_",
    output="output",
    ends_with_output=True,
    ended=frozenset({"completed", "incomplete"}),
    # State of other kinds, which only the vendor's own server has.
    unsupported=("background", "conversation", "prompt"),
    input_items=on_first_use(_REQUEST, "input_items"),
    references=on_first_use(_REQUEST, "references_in"),
    has_item_ids=True,
    stored_fields={"store": True},
    unstored_fields={"store": False},
    states_null=True,
    reasoning_include=ENCRYPTED_REASONING,
    deleted=lambda id: {"id": id, "object": "response", "deleted": True},
    created_fields=lambda created: {"created_at": int(created)},
    background_fields={"background": True},
    queued_status="queued",
    cancelled_fields={"status": "cancelled", "error": None},
    # The vendor has no event for it (openai 2, `ResponseStreamEvent`; openai-python#2643).  All
    # clients accept this one as an end without an answer.
    cancelled_event={"type": "response.failed"},
    after="starting_after",
)


TERMINALS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
"""Status of the response by the type of its last event."""


class _NumberedHead(Struct):
    type: str | None = None
    sequence_number: int | None = None
    status: int | None = None


_HEAD: msgspec.json.Decoder[_NumberedHead] = msgspec.json.Decoder(_NumberedHead)


def recognises(frame: Frame) -> bool:
    """Return whether a frame's payload has the type of a Responses event."""
    try:
        head = _HEAD.decode(frame.data)
    except FAST_ERRORS:
        return False
    event_type = head.type or ""
    # Other dialects send `error` events without a number, and without the status that they have on
    # a WebSocket.
    is_own_error = head.sequence_number is not None or head.status is not None
    return event_type.startswith("response.") or (event_type == "error" and is_own_error)


def is_terminal(frame: Frame) -> bool:
    """Return whether a frame ends the response, whatever the outcome."""
    return object_in(frame.data).get("type", frame.event) in TERMINALS


# Fields that requests with `input` for embeddings or Interactions do not have.
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
_STEPS = ("user_input", "model_output", "thought", "function_result")
_SAMPLE = 16
"""Number of items and tools inspected; nearly every conversation is recognised within them."""


def is_request(body: dict[str, Any]) -> bool:
    """Return whether a JSON object can only be a Responses request.

    An Interactions request may have the same `input` if that is a string or user text only.
    """
    items = body.get("input")
    # Types of steps that no item has.
    if any(item.get("type") in _STEPS for item in objects_of(items)[:_SAMPLE]):
        return False
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


_CITATIONS = frozenset({"container_file_citation", "file_citation", "file_path", "url_citation"})

CAPABILITIES = Capabilities(
    dialect="openai_responses",
    identity=True,
    choices=False,
    boundaries=True,
    overlapping=(),
    blank_text=True,
    refusal=True,
    reasoning=True,
    reasoning_parts=True,
    redacted_reasoning=True,
    redacted_as_signature_of="openai",
    signed=(Reasoning,),
    custom_tools=True,
    namespaces=True,
    unfinished_calls=True,
    null_arguments=True,
    broken_arguments=True,
    server_tools=(
        *("_call", "_output", "compaction", "mcp_approval_request", "mcp_approval_response"),
        *("mcp_list_tools", "program"),
    ),
    media=(OpaqueBlock,),
    file_urls=True,
    citations=_CITATIONS,
    url_citation="url_citation",
    cited_texts=_CITATIONS,
    not_round_tripped=frozenset(),
    stop_reasons=frozenset({"end_turn", "max_tokens", "tool_use", "refusal"}),
    native_stop_reasons=frozenset({"max_messages", "steered"}),
    unnamed_stop_sequence=False,
    service_tiers={
        **{tier: tier for tier in ("auto", "default", "fast", "flex", "priority", "scale")},
        "standard": "default",
        "ultrafast": "ultrafast",
    },
    # Some clients retry for ever if the terminal reports no usage.
    usage="always",
    cache_write=True,
    reasoning_tokens=True,
    excess_reasoning=True,
)
