"""Whole responses, token counts and model lists, in both directions.

https://platform.claude.com/docs/en/api/messages (read 2026-11-22).  A response is read by the
blocks of the stream decoder, and written from the blocks of a projected message.  It has no
field for its creation time.

https://platform.claude.com/docs/en/api/messages-count-tokens and
https://platform.claude.com/docs/en/api/models/list (read 2026-11-23).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from streamnorm._core.bodies.fields import as_object, get_array, get_object, get_str
from streamnorm._core.bodies.models import (
    ModelField,
    ModelInfo,
    ModelsCodec,
    Pages,
    rfc3339_text,
    seconds_of_text,
    text,
)
from streamnorm._core.codec import CountCodec, ReadContext, WriteContext
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.events import Event, MessageStart, MessageStop, StreamError, UsageUpdate
from streamnorm._core.failures import FailedAnswer, Fatal, too_large
from streamnorm._core.json import count_of, string_of
from streamnorm._core.losses import Losses
from streamnorm._core.losses.projection import Projector
from streamnorm._core.messages import Message, accumulate, came_from, message_events
from streamnorm.dialects.anthropic import wire
from streamnorm.dialects.anthropic.blocks import MessageBlocks
from streamnorm.dialects.anthropic.body.content import block_to_wire
from streamnorm.dialects.anthropic.body.request import REQUEST_CAPABILITIES
from streamnorm.dialects.anthropic.outcome import (
    UsageReader,
    stop_reason_from_wire,
    stop_reason_to_wire,
    untyped_error_from_wire,
    usage_to_wire,
)
from streamnorm.dialects.anthropic.traits import CAPABILITIES
from streamnorm.dialects.anthropic.wire import DIALECT

# Fields that a stream sends in `message_delta` and not in `message_start`.
_STOP_FIELDS = ("stop_details", "container", "context_management")
# A stream carries the input of a call as text, broken or not; here it is a JSON object.
_CAPABILITIES = structs.replace(CAPABILITIES, broken_arguments=False)


def read_response(body: dict[str, Any], context: ReadContext) -> list[Event]:
    """Return the events of a whole response, equal to the events of a streamed response.

    Raises:
        DecodeError: The body is no message of Anthropic, or exceeds a limit.
    """
    if (error := untyped_error_from_wire(body)) is not None:
        return [error]
    if body.get("type") != "message":
        raise DecodeError("no message, expected a type that says so", path="$.type")
    content = get_array(body, "content")
    if content is None:
        raise DecodeError("missing, expected an array", path="$.content")
    id, model = get_str(body, "id") or "", get_str(body, "model") or ""
    extra = wire.unknown_fields(body, wire.MESSAGE_FIELDS.union(_STOP_FIELDS))
    events: list[Event] = [MessageStart(id, model, extra or None)]
    usage = UsageReader()
    if usage.merge(get_object(body, "usage") or {}):
        events.append(UsageUpdate(usage.usage))
    blocks = MessageBlocks(context.server, context.limits, lambda kind, where: None)
    blocks.begin_message(id)
    path = "$"
    try:
        if max(len(id), len(model)) > context.limits.max_id_chars:
            raise too_large("max_id_chars", context.limits.max_id_chars)
        for number, block in enumerate(content):
            path = f"$.content[{number}]"
            blocks.add_complete(number, as_object(block, path), None, events)
    except Fatal as exc:
        raise DecodeError(exc.error.message, path=path) from exc
    raw = string_of(body, "stop_reason") or None
    reason = stop_reason_from_wire(
        raw,
        has_client_call=blocks.has_client_call,
        has_unfinished_call=blocks.unfinished_calls > 0,
    )
    sequence = string_of(body, "stop_sequence") or None
    stop = {name: body[name] for name in _STOP_FIELDS if body.get(name) is not None}
    events.append(MessageStop(reason, raw, sequence, extra=stop or None))
    return events


def write_response(message: Message, created: float | None, losses: Losses) -> dict[str, Any]:
    """Return a message as a whole response.

    Args:
        message: The message.
        created: Creation time; not written.
        losses: Losses of the projection.

    Raises:
        EncodeError: The message is incomplete, or the arguments of a call are no JSON object.
    """
    if message.stop_reason is None:
        raise EncodeError("message without a stop reason, expected one", path="stop_reason")
    written = _project_message(message, losses)
    context = WriteContext(REQUEST_CAPABILITIES, losses)
    reason = written.stop_reason or message.stop_reason
    content = [block_to_wire(block, context, "blocks") for block in written.blocks]
    usage = usage_to_wire(written.usage)
    details: dict[str, Any] = {}
    if reason == "refusal":
        details["stop_details"] = {"type": "refusal", "category": None, "explanation": None}
    if came_from(message, DIALECT):
        extras = written.block_extras or [None] * len(content)
        content = [
            _merge_fields(extra, block) for extra, block in zip(extras, content, strict=True)
        ]
        usage = _merge_fields(written.usage.extra, usage)
        details = {**(written.extra or {}), **details, **(written.stop_extra or {})}
    body: dict[str, Any] = {
        **details,
        "id": written.id,
        "type": "message",
        "role": "assistant",
        "model": written.model,
        "content": content,
        "stop_reason": stop_reason_to_wire(reason, written.raw_stop_reason),
        "stop_sequence": written.stop_sequence,
        "usage": usage,
    }
    for fields in (message.extra, message.usage.extra, message.stop_extra):
        tier = (fields or {}).get("service_tier")
        if isinstance(tier, str) and tier in CAPABILITIES.service_tiers:
            body["usage"]["service_tier"] = CAPABILITIES.service_tiers[tier]
    return body


def _merge_fields(unknown: dict[str, Any] | None, fields: dict[str, Any] | None) -> dict[str, Any]:
    """Return unknown fields merged with the mapped `fields`, which take precedence."""
    return {**(unknown or {}), **(fields or {})}


def revise_response(
    body: dict[str, Any], model: str | None, created: float | None
) -> dict[str, Any]:
    """Return a response with its model name replaced by `model`, unless `model` is None."""
    return body if model is None else {**body, "model": model}


def _project_message(message: Message, losses: Losses) -> Message:
    """Return a message reduced to what a response can carry.

    Raises:
        EncodeError: The arguments of a call are no JSON object.
        FailedAnswer: The message failed in another way.
    """
    projector = Projector(_CAPABILITIES, losses)
    projector.vendor_fields.are_carried = came_from(message, DIALECT)
    events = [out for event in message_events(message) for out in projector.push(event)]
    if isinstance(last := events[-1], StreamError):
        if projector.withdrawn_calls:
            raise EncodeError("call with broken arguments, expected a JSON object", path="blocks")
        raise FailedAnswer(last)
    dropped = projector.withdrawn_calls
    return accumulate(event for event in events if getattr(event, "index", None) not in dropped)


# Fields of a request that the endpoint has, too; it has neither `max_tokens` nor `stream`.
COUNT = CountCodec(
    fields=frozenset(
        {"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"}
        | {"cache_control", "speed", "mcp_servers", "context_management", "compaction"}
        | {"billing_policy"}
    ),
    suffix="/count_tokens",
)

_MODEL_FIELDS = {
    "display_name": ModelField("name", text, str),
    "created_at": ModelField("created", seconds_of_text, rfc3339_text),
    "retires_at": ModelField("retires", seconds_of_text, rfc3339_text),
    "max_input_tokens": ModelField("max_input_tokens", count_of, int),
    "max_tokens": ModelField("max_output_tokens", count_of, int),
}


def _new_model(model: ModelInfo) -> dict[str, Any]:
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.id,
        "created_at": rfc3339_text(0),  # what the vendor writes for an unknown date
        "lifecycle": "active" if model.retires is None else "deprecated",
    }


def _list_of(
    objects: list[dict[str, Any]],
    page: Sequence[ModelInfo],
    has_more: bool,
    query: Mapping[str, str],
) -> dict[str, Any]:
    return {
        "data": objects,
        "has_more": has_more,
        "first_id": page[0].id if page else None,
        "last_id": page[-1].id if page else None,
    }


def _next_cursor(body: dict[str, Any]) -> str | None:
    return text(body.get("last_id")) if body.get("has_more") is True else None


MODELS = ModelsCodec(
    dialect=DIALECT,
    fields=_MODEL_FIELDS,
    new_model=_new_model,
    list_of=_list_of,
    next_cursor=_next_cursor,
    pages=Pages("limit", 20, 1000, "after_id", "before_id"),
)
