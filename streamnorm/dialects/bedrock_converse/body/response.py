"""Whole responses of Converse and token counts, in both directions.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html (read
2026-11-27, botocore 1.44.8).  A response is read as the events of its stream, whose blocks nest
otherwise, and written block by block as the messages of requests are.  It names neither itself
nor its model.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CountTokens.html (read
2026-11-27, botocore 1.44.8).  Models are listed by another service of AWS.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from msgspec import structs

from streamnorm._core.blocks import InputBlock
from streamnorm._core.bodies.fields import (
    get_array,
    get_object,
    get_str,
    prefix_path,
    require_str,
    unknown_fields,
)
from streamnorm._core.bodies.request import InputMessage
from streamnorm._core.codec import CountCodec, ReadContext, WriteContext, Written
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.events import Event, Failed, StreamError
from streamnorm._core.failures import FailedAnswer
from streamnorm._core.json import compact, is_object, objects_of
from streamnorm._core.losses import Losses
from streamnorm._core.losses.projection import Projector
from streamnorm._core.messages import Message, accumulate, came_from, message_events
from streamnorm.dialects.bedrock_converse.body.content import ContentWriter, member_of
from streamnorm.dialects.bedrock_converse.body.files import document_names
from streamnorm.dialects.bedrock_converse.body.request import REQUEST_CAPABILITIES
from streamnorm.dialects.bedrock_converse.decode import ConverseDecoder
from streamnorm.dialects.bedrock_converse.outcome import stop_reason_to_wire, usage_to_wire
from streamnorm.dialects.bedrock_converse.traits import CAPABILITIES
from streamnorm.dialects.bedrock_converse.wire import (
    BLOCK_DELTA,
    BLOCK_START,
    BLOCK_STOP,
    DIALECT,
    INDEX,
    MESSAGE_START,
    MESSAGE_STOP,
    METADATA,
)
from streamnorm.sse import Frame

_Value: TypeAlias = "dict[str, Any]"

_MODEL_FIELDS = "additionalModelResponseFields"
_OF_STOP = ("stopReason", _MODEL_FIELDS)
_TIER, _UNIFIED_TIER = "serviceTier", "service_tier"
# A stream carries the input of a call as text, broken or not; here it is a JSON object.
_CAPABILITIES = structs.replace(CAPABILITIES, broken_arguments=False)


# Reading


def read_response(body: dict[str, Any], context: ReadContext) -> list[Event]:
    """Return the events of a whole response, equal to the events of a streamed response.

    Raises:
        DecodeError: The body is no response of Converse, or exceeds a limit.
    """
    message = get_object(get_object(body, "output") or {}, "message")
    if message is None:
        raise DecodeError("missing, expected an object", path="$.output.message")
    require_str(body, "stopReason")
    content = get_array(message, "content") or []
    decoder = ConverseDecoder(server=context.server, limits=context.limits)
    events = decoder.feed_frame(_frame(MESSAGE_START, unknown_fields(message, {"content"})))
    path = "$"
    for number, block in enumerate(content):
        path = f"$.output.message.content[{number}]"
        try:
            for frame in _frames_of(block, number):
                events += decoder.feed_frame(frame)
        except DecodeError as exc:
            raise prefix_path(exc, path) from None
        _check(decoder, path)
    stop = {name: body[name] for name in _OF_STOP if name in body}
    events += decoder.feed_frame(_frame(MESSAGE_STOP, stop))
    rest = unknown_fields(body, {"output", *_OF_STOP})
    events += decoder.feed_frame(_frame(METADATA, rest))
    _check(decoder, "$")
    return events


def _check(decoder: ConverseDecoder, path: str) -> None:
    if isinstance(decoder.outcome, Failed):
        raise DecodeError(decoder.outcome.error.message, path=path)


def _frame(event: str, payload: _Value) -> Frame:
    return Frame(event, compact(payload))


def _frames_of(block: object, index: int) -> Iterator[Frame]:
    """Yield the stream events that make up a block.

    Raises:
        DecodeError: The block has no member, or several.
    """
    start, deltas = _start_and_deltas(*member_of(block))
    if start is not None:
        yield _frame(BLOCK_START, {INDEX: index, "start": start})
    for delta in deltas:
        yield _frame(BLOCK_DELTA, {INDEX: index, "delta": delta})
    yield _frame(BLOCK_STOP, {INDEX: index})


def _start_and_deltas(kind: str, value: Any) -> tuple[_Value | None, list[_Value]]:
    """Return a block as its start in a stream (None if it has none) and its deltas."""
    if kind == "text":
        return None, [{kind: value}]
    if not is_object(value):
        return {kind: value}, []
    match kind:
        case "reasoningContent":
            inner = value.get("reasoningText")
            fields = inner if is_object(inner) else value
            # A signature ends the text that it signs, wherever it stands in the object.
            names = sorted(fields, key=lambda name: name == "signature")
            return None, [{kind: {name: fields[name]}} for name in names]
        case "citationsContent":
            texts = [{"text": part.get("text")} for part in objects_of(value.get("content"))]
            cited = [{"citation": item} for item in objects_of(value.get("citations"))]
            return None, [*(texts or [{"text": ""}]), *cited]
        case "toolUse":
            given = value.get("input")
            text = given if isinstance(given, str) else "" if given is None else compact(given)
            return {kind: unknown_fields(value, {"input"})}, [{kind: {"input": text}}]
        case "toolResult":
            content: object = value.get("content") or []
            return {kind: unknown_fields(value, {"content"})}, [{kind: content}]
        case "image" if "source" in value:
            source = {"source": value["source"]}
            return {kind: unknown_fields(value, {"source"})}, [{kind: source}]
        case _:
            return {kind: value}, []


# Writing


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
    reason = written.stop_reason or message.stop_reason
    is_own = came_from(message, DIALECT)
    blocks = tuple(_with_extras(written) if is_own else written.blocks)
    names = document_names([InputMessage("assistant", blocks)])[0]
    writer = ContentWriter(WriteContext(REQUEST_CAPABILITIES, losses), names)
    content = [writer.write_block(block, "blocks") for block in blocks]
    usage = usage_to_wire(written.usage)
    fields: _Value = {}
    if is_own:
        usage = {**(written.usage.extra or {}), **usage}
        fields = unknown_fields(written.stop_extra or {}, {_UNIFIED_TIER})
    if written.stop_sequence is not None and _MODEL_FIELDS not in fields:
        fields[_MODEL_FIELDS] = {"stop_sequence": written.stop_sequence}
    for extra in (message.extra, message.usage.extra, message.stop_extra):
        tier = (extra or {}).get(_UNIFIED_TIER)
        if isinstance(tier, str) and tier in CAPABILITIES.service_tiers:
            fields[_TIER] = {"type": CAPABILITIES.service_tiers[tier]}
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": stop_reason_to_wire(reason, written.raw_stop_reason),
        "usage": usage,
        # Clients of boto3 index it.
        "metrics": {"latencyMs": 0},
        **fields,
    }


def _with_extras(message: Message) -> Iterable[InputBlock]:
    """Yield the blocks of a message, each with its vendor fields."""
    extras = message.block_extras or [None] * len(message.blocks)
    for block, extra in zip(message.blocks, extras, strict=True):
        yield block if extra is None else structs.replace(block, extra={DIALECT: extra})


def revise_response(
    body: dict[str, Any], model: str | None, created: float | None
) -> dict[str, Any]:
    """Return a response unchanged: Converse's responses state no model and no creation time."""
    return body


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


_INPUT, _CONVERSE, _INVOKED = "input", "converse", "invokeModel"
_INVOKED_BODY = f"$.{_INPUT}.{_INVOKED}.body"


class _Count(CountCodec, frozen=True):
    """Codec of token counts: requests to `count-tokens` and their responses."""

    def read_invocation(self, body: dict[str, Any]) -> bytes | None:
        """Return the body in `input.invokeModel`; None if the input is of another kind.

        Raises:
            DecodeError: It is no base64.
        """
        invoked = get_object(get_object(body, _INPUT) or {}, _INVOKED)
        if invoked is None:
            return None
        try:
            return b64decode(get_str(invoked, "body") or "", validate=True)
        except ValueError as exc:
            raise DecodeError("no base64, expected that of a body", path=_INVOKED_BODY) from exc

    def read_request(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the message request in `input.converse`.

        Raises:
            DecodeError: The input is of another kind.
        """
        request = get_object(get_object(body, _INPUT) or {}, _CONVERSE)
        if request is None:
            raise DecodeError("missing, expected an object", path=f"$.{_INPUT}.{_CONVERSE}")
        return request

    def write_request(self, written: Written) -> Written:
        resource, _, _ = written.path.rpartition("/")
        if not resource:
            raise EncodeError("no model, expected one", path="model")
        body = {_INPUT: {_CONVERSE: written.body}}
        return structs.replace(written, body=body, path=f"{resource}/count-tokens")


COUNT = _Count(
    fields=frozenset({"messages", "system", "toolConfig", "additionalModelRequestFields"}),
    tokens="inputTokens",
)
