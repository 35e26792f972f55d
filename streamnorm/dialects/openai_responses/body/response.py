"""Whole responses, token counts and model lists, in both directions.

A response is decoded as the terminal event of a stream and encoded as one, so that response and
stream of a message agree.

https://platform.openai.com/docs/api-reference/models (read 2026-11-23) and
https://platform.openai.com/docs/api-reference/responses/input-tokens (read 2026-11-23).
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.bodies.fields import (
    get_array,
    get_str,
    read_objects,
    require_str,
    unexpected,
)
from streamnorm._core.bodies.models import (
    shared_models,
)
from streamnorm._core.codec import CountCodec, ReadContext
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.events import Event, MessageStart, StreamError
from streamnorm._core.failures import FailedAnswer
from streamnorm._core.json import dumps, object_in
from streamnorm._core.losses import Losses
from streamnorm._core.messages import Message, message_events
from streamnorm.dialects.openai_responses.decode import ResponsesDecoder
from streamnorm.dialects.openai_responses.encode import ResponsesEncoder
from streamnorm.dialects.openai_responses.items.types import INPUT, ITEM_TYPES, item_type_of
from streamnorm.dialects.openai_responses.wire import DIALECT

_OBJECT = "response"
_TEXTS = {
    text.part: (text.key,) for row in ITEM_TYPES.values() for text in row.texts if text.part
} | {
    "function_call": ("call_id", "name"),
    "custom_tool_call": ("call_id", "name", INPUT.key),
    "reasoning": ("encrypted_content",),
}
"""Fields with text, by type of item or part."""


def read_response(body: dict[str, Any], context: ReadContext) -> list[Event]:
    """Return the events of a whole response.

    Raises:
        DecodeError: The body is not a response, contradicts itself, or exceeds a bound.
    """
    _check(body)
    decoder = ResponsesDecoder(limits=context.limits, server=context.server)
    events = decoder.read_body(body)
    last = events[-1]
    if isinstance(last, StreamError) and last.kind in ("malformed", "too_large"):
        raise DecodeError(last.message, path="$.output")
    return events


def _check(body: dict[str, Any]) -> None:
    """Raise for malformed fields, which the stream decoder would treat as empty."""
    name = body.get("object", _OBJECT)
    if name != _OBJECT:
        raise unexpected(name, "response", "$.object")
    output = get_array(body, "output")
    if output is None:
        raise DecodeError("missing, expected an array", path="$.output")
    read_objects(output, _check_item, "$.output")


def _check_item(item: dict[str, Any]) -> None:
    kind = require_str(item, "type")
    _check_texts(item, kind)
    for each in item_type_of(kind).texts:
        if each.part:
            read_objects(item.get(each.field), _check_part, f"$.{each.field}")


def _check_part(part: dict[str, Any]) -> None:
    _check_texts(part, get_str(part, "type") or "")


def _check_texts(value: dict[str, Any], kind: str) -> None:
    for name in _TEXTS.get(kind, ()):
        get_str(value, name)


def write_response(message: Message, created: float | None, losses: Losses) -> dict[str, Any]:
    """Return a message as a whole response.

    Raises:
        EncodeError: The message has no stop reason.
        LossyEncoding: A loss occurred, and losses are strict.
    """
    if message.stop_reason is None:
        raise EncodeError("message without a stop reason, expected one", path="stop_reason")
    extra = message.extra or {}
    encoder = ResponsesEncoder(
        on_loss=lambda loss: losses.add(loss.feature, loss.where, loss.detail),
        extras=extra.get("object") == _OBJECT,  # only messages of this dialect have it
    )
    start, *rest = message_events(message)
    if created is not None:
        start = MessageStart(message.id, message.model, {**extra, "created_at": int(created)})
    for event in (start, *rest):
        encoder.encode(event)
    if encoder.failure is not None:
        raise FailedAnswer(encoder.failure)
    return object_in(dumps(encoder.complete).decode())


def revise_response(
    body: dict[str, Any], model: str | None, created: float | None
) -> dict[str, Any]:
    """Return a response with its model and creation time replaced; None replaces nothing."""
    body = body if model is None else {**body, "model": model}
    return body if created is None else {**body, "created_at": int(created)}


COUNT = CountCodec(
    fields=frozenset(
        {"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls"}
        | {"reasoning", "text", "truncation", "personality"}
        | {"previous_response_id", "conversation"}
    ),
    suffix="/input_tokens",
    constants={"object": "response.input_tokens"},
)

MODELS = shared_models(DIALECT)
