"""Traits of Converse: endpoints, recognition of bodies and frames, capabilities.

botocore 1.44.5, `bedrock-runtime/2023-09-30/service-2.json` (read 2026-11-23).
"""

from __future__ import annotations

import re
from typing import Any

from streamnorm._core.blocks import Image, OpaqueBlock, Reasoning
from streamnorm._core.codec import Endpoints, Route
from streamnorm._core.codec.endpoints import BEDROCK
from streamnorm._core.json import is_array, is_object, objects_of
from streamnorm._core.losses import Capabilities
from streamnorm.dialects.bedrock_converse import wire
from streamnorm.dialects.bedrock_converse.content import (
    LOCATIONS,
    TOOL_RESULT,
    TOOL_USE,
    UNLOCATED,
    WEB,
)
from streamnorm.dialects.bedrock_converse.outcome import NATIVE_STOP_REASONS
from streamnorm.dialects.bedrock_converse.wire import BLOCK_DELTA, DIALECT
from streamnorm.sse import Frame

# Ids of models hold colons, and ARNs slashes.  The atomic group searches the path once, however
# often it repeats `/model/`.
_MODEL = r"(?s)\A(?>.*?/model/)(?P<model>.+)"

ENDPOINTS = Endpoints(
    routes=(
        Route("POST", re.compile(rf"{_MODEL}/converse\Z"), "message", cloud=BEDROCK),
        Route("POST", re.compile(rf"{_MODEL}/converse-stream\Z"), "stream", cloud=BEDROCK),
        Route("POST", re.compile(rf"{_MODEL}/count-tokens\Z"), "count", cloud=BEDROCK),
    ),
    key_headers=BEDROCK.key_headers,
    request_id_header=BEDROCK.request_id_header,
)


EVENT_TYPES = frozenset(
    {
        wire.MESSAGE_START,
        wire.BLOCK_START,
        wire.BLOCK_DELTA,
        wire.BLOCK_STOP,
        wire.MESSAGE_STOP,
        wire.METADATA,
    }
)
# Other dialects with `messages` have none of these fields.
_REQUEST_FIELDS = frozenset(
    {"inferenceConfig", "toolConfig", "guardrailConfig", "additionalModelRequestFields"}
    | {"additionalModelResponseFieldPaths", "promptVariables", "requestMetadata"}
    | {"performanceConfig", "outputConfig"}
)
# Members of the union of content, of which `text` alone is a field of other dialects, too.
_CONTENT = frozenset(
    {"image", "document", "video", "audio", "toolUse", "toolResult", "guardContent", "cachePoint"}
    | {"reasoningContent", "citationsContent", "searchResult"}
)


def recognises(frame: Frame) -> bool:
    """Return whether a frame's name is one of Converse's events."""
    return frame.event in EVENT_TYPES


def is_terminal(frame: Frame) -> bool:
    """Return whether a frame is `messageStop`, after which only token counts follow."""
    return frame.event == wire.MESSAGE_STOP


def is_request(body: dict[str, Any]) -> bool:
    """Return whether a JSON object can only be a request of Converse."""
    # The path names the model.
    if "model" in body or not is_array(body.get("messages")):
        return False
    if not _REQUEST_FIELDS.isdisjoint(body):
        return True
    return any(_is_own_content(message) for message in objects_of(body["messages"]))


def _is_own_content(message: dict[str, Any]) -> bool:
    parts = objects_of(message.get("content"))
    return any("type" not in part and not _CONTENT.isdisjoint(part) for part in parts) or (
        bool(parts) and all(part.keys() == {"text"} for part in parts)
    )


def is_response(body: dict[str, Any]) -> bool:
    """Return whether a JSON object can only be a response of Converse."""
    output = body.get("output")
    return is_object(output) and is_object(output.get("message")) and "stopReason" in body


CAPABILITIES = Capabilities(
    dialect=DIALECT,
    # `messageStart` has a role and nothing else.
    identity=False,
    # One message per request.
    choices=False,
    boundaries=True,
    # No recording has a block that starts within another.
    overlapping=(),
    # The API refuses a blank text when the client sends it back.
    blank_text=False,
    # A refusal is a stop reason.
    refusal=False,
    reasoning=True,
    # Reasoning is one text.
    reasoning_parts=False,
    redacted_reasoning=True,
    redacted_as_signature_of=None,
    signed=(Reasoning,),
    # The input of every tool is a JSON object.
    custom_tools=False,
    namespaces=False,
    unfinished_calls=False,
    # The API refuses any input but an object when the history comes back.
    null_arguments=False,
    # The input is a text in a stream, whatever it says.
    broken_arguments=True,
    server_tools=(TOOL_USE, TOOL_RESULT),
    media=(Image, OpaqueBlock),
    # An image comes by its bytes; one in S3 has no URL that others can fetch.
    file_urls=False,
    citations=LOCATIONS | {UNLOCATED},
    url_citation=WEB,
    cited_texts=LOCATIONS | {UNLOCATED},
    not_round_tripped=frozenset(),
    # A delta of a block that is not written would open another at its index.
    block_events=frozenset({BLOCK_DELTA}),
    stop_reasons=frozenset({"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"}),
    native_stop_reasons=NATIVE_STOP_REASONS,
    unnamed_stop_sequence=True,
    service_tiers={
        "auto": "default",
        "default": "default",
        "flex": "flex",
        "priority": "priority",
        "reserved": "reserved",
        "standard": "default",
    },
    # Clients of boto3 index the counts.
    usage="always",
    cache_write=True,
    # No field counts reasoning.
    reasoning_tokens=False,
    excess_reasoning=False,
)
