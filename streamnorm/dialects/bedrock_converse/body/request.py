"""Requests to Converse, in both directions: the body, and the options of models within it.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html (read
2026-11-27, botocore 1.44.8).  The path names the model and whether the answer is a stream.
Options that only some models have are in `additionalModelRequestFields`.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.fields import (
    as_object,
    get_int,
    get_number,
    get_str,
    get_strings,
    read_array,
)
from streamnorm._core.bodies.request import InputMessage, Request, unchanged_source
from streamnorm._core.bodies.table import (
    Field,
    Group,
    Nested,
    RequestTable,
    Table,
    WithRest,
    Writing,
)
from streamnorm._core.bodies.wire_fields import path_segment
from streamnorm._core.codec import ReadContext, WriteContext, Written
from streamnorm.dialects.bedrock_converse.body.files import S3_ISSUER
from streamnorm.dialects.bedrock_converse.body.messages import (
    message_from_wire,
    messages_to_wire,
    system_from_wire,
    system_to_wire,
)
from streamnorm.dialects.bedrock_converse.body.model_options import (
    OPTIONS,
    OUTPUT,
    options_from_wire,
    options_to_wire,
)
from streamnorm.dialects.bedrock_converse.body.tools import (
    CONFIG,
    config_from_wire,
    config_to_wire,
)
from streamnorm.dialects.bedrock_converse.capabilities import CAPABILITIES
from streamnorm.dialects.bedrock_converse.detect import ENDPOINTS
from streamnorm.dialects.bedrock_converse.wire import DIALECT

_TIERS = frozenset({"default", "flex", "priority"})


def _messages_from_wire(value: object) -> tuple[InputMessage, ...]:
    return tuple(read_array(value, message_from_wire))


def _stop_to_wire(stop: tuple[str, ...], writing: Writing) -> list[str] | None:
    kept = [text for text in stop if text]  # at least one character
    if len(kept) < len(stop):
        writing.context.losses.add("stop_dropped", "request", "without a character")
    return kept or None


def _tier_from_wire(value: object) -> WithRest | None:
    tier = as_object(value)
    type = get_str(tier, "type")
    if type not in _TIERS:  # `reserved` has no counterpart
        return None
    return WithRest(type, {name: item for name, item in tier.items() if name != "type"})


def _tier_to_wire(tier: str, writing: Writing) -> dict[str, Any]:
    return {"type": writing.context.capabilities.service_tiers.get(tier, tier)}


REQUEST = RequestTable(
    DIALECT,
    Field(
        "messages",
        read=_messages_from_wire,
        write=lambda messages, writing: messages_to_wire(messages, writing.context),
        required="an array",
        always=True,
    ),
    Field("system", read=system_from_wire, write=system_to_wire),
    Nested(
        "inferenceConfig",
        Table(
            Field("max_tokens", get_int, wire="maxTokens"),
            Field("temperature", get_number),
            Field("top_p", get_number, wire="topP"),
            Field("stop", get_strings, wire="stopSequences", write=_stop_to_wire),
        ),
    ),
    Group(
        ("tools", "tool_choice"),
        (CONFIG,),
        config_from_wire,
        config_to_wire,
        needs=("messages",),
    ),
    Group(
        ("output", "reasoning", "top_k", "betas"),
        (OPTIONS, OUTPUT),
        options_from_wire,
        options_to_wire,
    ),
    Field("service_tier", wire="serviceTier", read=_tier_from_wire, write=_tier_to_wire),
)


def read_request(body: dict[str, Any], context: ReadContext) -> Request:
    """Return the unified request of a body.

    Raises:
        DecodeError: The body is no request of Converse.
    """
    path = context.path.partition("?")[0]
    model = ENDPOINTS.model(path, None)
    if not model:
        return REQUEST.read_request(body, context)
    stream = ENDPOINTS.streams(path, None)
    return REQUEST.read_request(body, context, model=model, stream=stream)


def write_request(request: Request, context: WriteContext) -> Written:
    """Return a projected request as a body.

    Raises:
        EncodeError: A part has no legal form.
    """
    source = unchanged_source(request, DIALECT, but="model")
    body = REQUEST.write_request(request, context) if source is None else source
    return Written(body, _path(request))


def _path(request: Request) -> str:
    """Return the path of the endpoint; empty if the request names no model.

    The id of a model may be an ARN, with slashes and colons in one segment.

    Raises:
        EncodeError: The name of the model is a dot segment.
    """
    if not request.model:
        return ""
    method = "converse-stream" if request.stream else "converse"
    return f"/model/{path_segment(request.model)}/{method}"


_MARKED_BLOCKS = "text image document video tool_call tool_result opaque"

REQUEST_CAPABILITIES = BodyCapabilities(
    dialect=DIALECT,
    fields=REQUEST.names | {"stream"},
    inline_system="text",
    images=frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"}),
    image_urls=False,
    document_urls=False,
    text_documents=True,
    audio=True,
    video=True,
    file_issuer=S3_ISSUER,
    citations=CAPABILITIES.citations,
    mixed_results=True,
    result_media=frozenset({"text", "image", "document", "video", "opaque"}),
    orphan_results=False,
    error_results=True,
    id_pattern=r"[a-zA-Z0-9_.:-]{1,64}",
    unique_ids=True,
    name_pattern=r"[a-zA-Z0-9_-]{1,64}",
    server_history=True,
    enforces_outputs=True,
    output_kinds=frozenset({"text", "json_schema"}),
    lone_choice=False,
    min_answer_tokens=1,
    number_bounds={"top_p": (0.0, 1.0)},
    max_temperature=1.0,
    max_stops=2500,
    thinking="adaptive",
    bounded_budgets=True,
    signed_budgets=True,
    efforts=("low", "medium", "high", "xhigh", "max"),
    reasoning_issuer="anthropic",
    marks=frozenset(["system", "tool", "assistant", *_MARKED_BLOCKS.split()]),
    marks_in_results=False,
    mark_ttls={"": "", "5m": "5m", "1h": "1h", "30m": "", "12h": "1h"},
    falling_ttls=True,
    service_tiers={"default": "default", "flex": "flex", "priority": "priority"},
)
