"""Traits of Anthropic Messages: endpoints, recognition of bodies and frames, capabilities.

https://docs.anthropic.com/en/api/messages (read 2026-11-22).
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from streamnorm._core.blocks import OpaqueBlock, Reasoning
from streamnorm._core.codec import Endpoints, Route
from streamnorm._core.codec.endpoints import BEDROCK
from streamnorm._core.codec.invoke_chunks import INVOKE_CHUNKS
from streamnorm._core.json import FAST_ERRORS, is_array, is_object, object_in, objects_of, string_of
from streamnorm._core.losses import Capabilities
from streamnorm.sse import Frame

OVERLOADED_STATUS = 529

# The atomic group searches the path once, however often it repeats `/model/`.  Clients quote the
# slashes of an ARN (boto3, anthropic 2.12.0), but not all of them.
_INVOKED = r"\A(?>.*?/model/)(?P<model>.+)"

_VERTEX = r"publishers/anthropic/models/(?P<model>[^/]+)"

ENDPOINTS = Endpoints(
    routes=(
        Route("POST", re.compile(r"/messages/count_tokens\Z"), "count"),
        # Threads of OpenAI's assistants have messages, too.
        Route("POST", re.compile(r"(?s)\A(?!.*/threads/).*/messages\Z"), "message"),
        # Vertex names the model in the path.
        Route("POST", re.compile(rf"{_VERTEX}:rawPredict\Z"), "message"),
        Route("POST", re.compile(rf"{_VERTEX}:streamRawPredict\Z"), "message"),
        # Amazon Bedrock's InvokeModel.
        Route("POST", re.compile(rf"{_INVOKED}/invoke\Z"), "message", INVOKE_CHUNKS, BEDROCK),
        Route(
            "POST",
            re.compile(rf"{_INVOKED}/invoke-with-response-stream\Z"),
            "stream",
            INVOKE_CHUNKS,
            BEDROCK,
        ),
        # Amazon Bedrock's lists of inference profiles, under which its models are asked for.
        Route("GET", re.compile(r"/inference-profiles\Z"), "models", cloud=BEDROCK),
        Route(
            "GET",
            re.compile(r"\A(?>.*?/inference-profiles/)(?P<model>.+)\Z"),
            "model",
            cloud=BEDROCK,
        ),
        Route("GET", re.compile(r"/models\Z"), "models"),
        Route("GET", re.compile(r"\A(?>.*?/models/)(?P<model>.+)\Z"), "model"),
    ),
    key_headers=("x-api-key", "authorization"),
    vendor_headers=("anthropic-version", "anthropic-beta"),
    body_headers=frozenset({"anthropic-beta"}),
    forwarded_query=("beta",),
    request_id_header="request-id",
    # Claude Code's first system block, which holds a checksum of the conversation.
    volatile_system_prefix="x-anthropic-billing-header:",
)


EVENT_TYPES = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
        "error",
    }
)
# Other dialects with `messages` have none of these fields.
_REQUEST_FIELDS = frozenset(
    {"system", "stop_sequences", "anthropic_version", "mcp_servers"}
    | {"context_management", "output_config"}
)
_CHOICES = frozenset({"auto", "any", "tool", "none"})
_BLOCKS = frozenset({"tool_use", "tool_result", "redacted_thinking", "search_result"})
_FOREIGN_MESSAGE_FIELDS = ("tool_calls", "tool_call_id", "function_call")


class _TypeOnly(Struct):
    type: str | None = None


_TYPE: msgspec.json.Decoder[_TypeOnly] = msgspec.json.Decoder(_TypeOnly)


def recognises(frame: Frame) -> bool:
    """Return whether the `type` of a frame's payload is one of Anthropic's events."""
    try:
        return _TYPE.decode(frame.data).type in EVENT_TYPES
    except FAST_ERRORS:
        return False


def is_terminal(frame: Frame) -> bool:
    """Return whether a frame is `message_stop`."""
    return bool(object_in(frame.data).get("type", frame.event) == "message_stop")


def is_request(body: dict[str, Any]) -> bool:
    """Return whether a JSON object can only be a request of Anthropic."""
    messages = body.get("messages")
    if not is_array(messages):
        return False
    # Chat Completions: its messages carry calls beside their content.
    if any(name in message for message in objects_of(messages) for name in _FOREIGN_MESSAGE_FIELDS):
        return False
    # Bedrock's Converse: its blocks have no type.
    blocks = [block for each in objects_of(messages) for block in objects_of(each.get("content"))]
    if any("type" not in block for block in blocks):
        return False
    if not _REQUEST_FIELDS.isdisjoint(body):
        return True
    choice, tools = body.get("tool_choice"), objects_of(body.get("tools"))
    # Chat's choices are strings, or objects of other types.
    if is_object(choice) and string_of(choice, "type") in _CHOICES:
        return True
    # Chat calls it `parameters`.
    if any("input_schema" in tool for tool in tools):
        return True
    return any(map(_is_own_block, blocks))


def _is_own_block(block: dict[str, Any]) -> bool:
    kind = string_of(block, "type")
    # Chat has `image_url` and `file`.
    if kind in ("image", "document"):
        return is_object(block.get("source"))
    return kind in _BLOCKS or (kind == "thinking" and "signature" in block)


def is_response(body: dict[str, Any]) -> bool:
    """Return whether a JSON object can only be a response of Anthropic."""
    return (
        body.get("type") == "message"
        and body.get("role") == "assistant"
        and is_array(body.get("content"))
        and "model" in body
    )


# Others need a document index or an encrypted index that only Anthropic has.
_CITATIONS = frozenset(
    {"char_location", "page_location", "content_block_location"}
    | {"web_search_result_location", "search_result_location"}
)

CAPABILITIES = Capabilities(
    dialect="anthropic",
    identity=True,
    # One message per request; the API has no `n`.
    choices=False,
    boundaries=True,
    # Claude Code rejects deltas of a block that a later one has followed, and the SDKs emit them
    # with the wrong block.
    overlapping=(),
    # The API refuses a text of white space when the client sends it back.
    blank_text=False,
    # A refusal is a stop reason of a message with or without text.
    refusal=False,
    reasoning=True,
    # A thinking block is one text.
    reasoning_parts=False,
    redacted_reasoning=True,
    redacted_as_signature_of=None,
    signed=(Reasoning,),
    # The input of every tool is a JSON object.
    custom_tools=False,
    # Tools have one flat list of names.
    namespaces=False,
    # No field of a block marks it as cut.
    unfinished_calls=False,
    # The API refuses any input but an object when the history comes back.
    null_arguments=False,
    # Eager input streaming makes any text legal in `partial_json`.
    broken_arguments=True,
    server_tools=("server_tool_use", "mcp_tool_use", "_tool_result"),
    media=(OpaqueBlock,),
    file_urls=True,
    citations=_CITATIONS,
    # `web_search_result_location` requires the API's encrypted index.
    url_citation=None,
    cited_texts=_CITATIONS,
    not_round_tripped=frozenset(),
    # The SDK's accumulator fails at a delta of a block that has not started.
    block_events=frozenset({"content_block_delta"}),
    stop_reasons=frozenset(
        {"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "pause"}
    ),
    native_stop_reasons=frozenset(),
    # `stop_sequence` may be null beside the reason.
    unnamed_stop_sequence=True,
    service_tiers={
        "auto": "standard",
        # OpenAI's `flex` and `scale` have no counterpart here.
        "batch": "batch",
        "default": "standard",
        "priority": "priority",
        "standard": "standard",
    },
    # The SDKs raise at a message without counts.
    usage="always",
    cache_write=True,
    reasoning_tokens=True,
    excess_reasoning=True,
)
