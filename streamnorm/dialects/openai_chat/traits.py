"""Traits of Chat Completions: endpoints, recognition of bodies and frames, capabilities.

https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-21).
"""

from __future__ import annotations

import re
from typing import Any

from streamnorm._core.blocks import ToolCall
from streamnorm._core.codec import DONE, Endpoints, Route
from streamnorm._core.failures import find_error
from streamnorm._core.json import InvalidJSON, decode_any, is_array, is_object, objects_of
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Capabilities
from streamnorm.sse import Frame

ENDPOINTS = Endpoints(
    routes=(
        Route("POST", re.compile(r"/chat/completions\Z"), "message"),
        Route("GET", re.compile(r"/models\Z"), "models"),
        Route("GET", re.compile(r"\A(?>.*?/models/)(?P<model>.+)\Z"), "model"),
    ),
    # Base URLs of SDKs end in `/v1`, at compatible servers in other paths.
    versioned_base=True,
    key_headers=("authorization", "api-key"),  # the second is Azure's
    vendor_headers=("openai-beta", "openai-organization", "openai-project"),
    # They name the account that pays, which has to be that of the key.
    account_headers=frozenset({"openai-organization", "openai-project"}),
)


_REQUEST_FIELDS = frozenset(
    {"frequency_penalty", "function_call", "functions", "logit_bias", "logprobs"}
    | {"max_completion_tokens", "n", "parallel_tool_calls", "prediction", "presence_penalty"}
    | {"reasoning_effort", "response_format", "seed", "stop", "stream_options", "top_logprobs"}
    | {"prompt_cache_key", "prompt_cache_options", "verbosity", "web_search_options"}
)
"""Request fields that only this dialect has among those with `messages`."""
_OTHER_FIELDS = frozenset({"anthropic_version", "contents", "input", "system", "stop_sequences"})
_ROLES = frozenset({"tool", "developer", "function"})
_PARTS = frozenset({"image_url", "input_audio", "file"})


def recognises(frame: Frame) -> bool:
    """Return whether a frame is a chunk, `[DONE]`, or an error that no other dialect claims."""
    if is_terminal(frame):
        return True
    try:
        value = decode_any(frame.data, max_depth=Limits().max_json_depth)
    except InvalidJSON:
        return frame.event == "error"
    if is_object(value):
        if value.get("choices") is not None:
            return True
        # Perplexity's end is `chat.completion.done`, gpt-audio's empty chunks lack `choices`.
        if str(value.get("object")).startswith("chat.completion"):
            return True
        if value.get("type") == "error":  # Anthropic's and Responses' errors
            return False
    return frame.event == "error" or find_error(value) is not None


def is_terminal(frame: Frame) -> bool:
    """Return whether a frame is `[DONE]`."""
    # By the beginning, as both official SDKs test it (read 2026-11-21).
    return frame.data.startswith(DONE)


def is_request(body: dict[str, Any]) -> bool:
    """Return whether a body can only be a Chat Completions request."""
    messages = body.get("messages")
    if not is_array(messages) or not _OTHER_FIELDS.isdisjoint(body):
        return False
    if not _REQUEST_FIELDS.isdisjoint(body):
        return True
    if any("function" in tool or "custom" in tool for tool in objects_of(body.get("tools"))):
        return True
    # Other dialects have no `system` message in the first position.
    if messages and is_object(messages[0]) and messages[0].get("role") == "system":
        return True
    return any(map(_is_message, messages))


def _is_message(message: object) -> bool:
    """Return whether an object in `messages` can only belong to Chat Completions."""
    if not is_object(message):
        return False
    role = message.get("role")
    if "tool_calls" in message or (isinstance(role, str) and role in _ROLES):
        return True
    parts = objects_of(message.get("content"))
    return any(isinstance(kind := part.get("type"), str) and kind in _PARTS for part in parts)


def is_response(body: dict[str, Any]) -> bool:
    """Return whether a body can only be a successful Chat Completions response."""
    if body.get("object") == "chat.completion":
        return True
    choices = objects_of(body.get("choices"))
    return any("message" in choice for choice in choices)


CAPABILITIES = Capabilities(
    dialect="openai_chat",
    identity=True,
    choices=True,
    # Text and reasoning have one field each per choice, which all their deltas extend.
    boundaries=False,
    # Calls have indexes, and their fragments may interleave.
    overlapping=(ToolCall,),
    blank_text=True,
    refusal=True,
    reasoning=True,
    # No reasoning field numbers the parts of a summary.
    reasoning_parts=False,
    # `reasoning_details` alone holds it: `ChatOptions.limit` adds it where the caller chooses that
    # field.
    redacted_reasoning=False,
    redacted_as_signature_of=None,
    # In `extra_content`, where Gemini's compatible endpoint has it.
    signed=(ToolCall,),
    call_issuer="google",
    custom_tools=True,
    namespaces=False,
    # A finish reason is that of the choice: no field marks a single call as cut.
    unfinished_calls=False,
    # Groq sends them itself (groq/null-for-arguments-of-parallel-calls).
    null_arguments=True,
    broken_arguments=True,
    # As `tool_calls` they would be run by the client.
    server_tools=(),
    media=(),
    file_urls=True,
    # The only kind of annotation in the reference of messages.
    citations=frozenset({"url_citation"}),
    url_citation="url_citation",
    cited_texts=frozenset({"url_citation"}),
    # Parts of other fields: written alone they would reach another message or call.
    not_round_tripped=frozenset(
        {"content_part", "extra_content", "provider_specific_fields"}
        | {"reasoning_details", "thinking_blocks"}
    ),
    stop_reasons=frozenset({"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"}),
    native_stop_reasons=frozenset(),
    unnamed_stop_sequence=False,
    service_tiers={
        **{tier: tier for tier in ("auto", "default", "fast", "flex", "priority", "scale")},
        "standard": "default",
    },
    usage="known",
    cache_write=True,
    reasoning_tokens=True,
    excess_reasoning=True,
)
