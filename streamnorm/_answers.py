"""Whole responses of every dialect, decoded, encoded and translated."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

from streamnorm._bodies import Encoded, codec_of, dialect_of
from streamnorm._core.bodies.chats import CallIds
from streamnorm._core.bodies.fields import Body, CleanedBody, body_object
from streamnorm._core.bodies.request import Reply
from streamnorm._core.bodies.tool_calls import ToolCallRestorer
from streamnorm._core.codec import ReadContext
from streamnorm._core.errors import DecodeError, UpstreamError
from streamnorm._core.events import Event, StreamError, Usage
from streamnorm._core.failures import FailedAnswer, as_upstream_error, find_error
from streamnorm._core.json import clean_tree, dumps
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Losses
from streamnorm._core.losses.executed_calls import without_executed_calls
from streamnorm._core.messages import (
    Accumulator,
    Message,
    MessageSource,
    accumulate,
    came_from,
    message_events,
    unchanged_body,
)
from streamnorm._registry import lookup

_HALF_CHARACTER = "half_character", "response", "written as U+FFFD"


def decode_message(
    body: Body,
    dialect: str | None = None,
    *,
    server: str | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> Message:
    """Decode the body of a whole response.

    Args:
        body: JSON text, or the decoded object.
        dialect: Dialect of the body; None to detect it.
        server: Name of the server that answered; enables its quirks.
        limits: Bounds.

    Raises:
        DecodeError: The body is not of the dialect, or exceeds a bound.
        UpstreamError: The body is an error, of whatever dialect, or an answer that failed.
        UnknownDialect: There is no such dialect, or it has no whole bodies.
    """
    value = body_object(body, limits)
    dialect = dialect or _detect_response(value)
    return answer_of(response_events(value, dialect, server, limits), value, dialect)


def encode_message(
    message: Message,
    dialect: str,
    *,
    reply: Reply | None = None,
    model: str | None = None,
    created: float | None = None,
    strict: bool = False,
) -> Encoded:
    """Encode a message as the body of a whole response.

    Args:
        message: The message, complete.
        dialect: Dialect to write.
        reply: What `encode_request` returned for the request that is answered.
        model: Model to name in place of the one that answered.
        created: When the message was made, in seconds since 1970; None = as it says, or 0.
        strict: Whether to raise `LossyEncoding` at the first loss.

    Raises:
        EncodeError: The message has no legal form in the dialect.
        LossyEncoding: Something would be lost, and `strict` is set.
        UnknownDialect: There is no such dialect, or it has no whole bodies.
    """
    losses = Losses(strict=strict)
    return encoded_message(message, dialect, losses, reply=reply, model=model, created=created)


def translate_message(
    body: Body,
    *,
    to: str,
    dialect: str | None = None,
    server: str | None = None,
    reply: Reply | None = None,
    model: str | None = None,
    created: float | None = None,
    strict: bool = False,
) -> Encoded:
    """Translate a response's body: `decode_message`, then `encode_message`.

    A body that is of the dialect already is not changed, unless `model` or `reply` changes it.
    Of several answers the first is translated, or all of them if the target has several.
    """
    limits, losses = Limits(), Losses(strict=strict)
    value = body_object(body, limits)
    dialect = dialect or _detect_response(value)
    events = response_events(value, dialect, server, limits)
    if lookup(dialect) is lookup(to) and model is None and (reply is None or reply == Reply()):
        _count_cleaned(value, losses)
        return Encoded(value, losses=losses.list())
    message = answer_of(events, value, dialect)
    return encoded_message(message, to, losses, reply=reply, model=model, created=created)


def answer_of(events: list[Event], body: dict[str, Any] | None, dialect: str) -> Message:
    """Return the first choice of a whole response as a message with the response as `source`.

    Args:
        events: The events of the response.
        body: The response; None if it was a stream.
        dialect: The dialect.
    """
    accumulator = Accumulator()
    accumulator.extend(events)
    return accumulated_answer(accumulator, body, dialect)


def accumulated_answer(
    accumulator: Accumulator, body: dict[str, Any] | None, dialect: str
) -> Message:
    """Return the first choice of an accumulated response, as `answer_of` does.

    Args:
        accumulator: Has taken all events of the response.
        body: The response; None if it was a stream.
        dialect: The dialect.
    """
    message = accumulator.message()
    others = [
        (number, structs.replace(accumulator.message(number), extra=None, usage=Usage()))
        for number in accumulator.ended_choices
        if number
    ]
    source = MessageSource(lookup(dialect).name, body, message, tuple(others))
    return structs.replace(message, source=source)


def response_events(
    value: dict[str, Any], dialect: str, server: str | None, limits: Limits
) -> list[Event]:
    """Return the events of a whole response, or raise the error that the response reports."""
    events: list[Event]
    try:
        codec = codec_of(lookup(dialect))
        events = codec.read_response(value, ReadContext(server=server, limits=limits))
    except DecodeError:
        if (failed := error_in(value)) is not None:
            raise failed from None
        raise
    match events:
        case [*_, StreamError("upstream") as error]:
            raise as_upstream_error(error)
        case [*_, StreamError(message=message)]:
            raise DecodeError(message)
        case _:
            return events


def encoded_message(
    message: Message,
    dialect: str,
    losses: Losses,
    *,
    reply: Reply | None,
    model: str | None,
    created: float | None,
) -> Encoded:
    is_restored = reply is not None and _has_calls_of(message, reply)
    if reply is not None and is_restored:
        message = _restore_calls(message, reply, losses)
    if model is not None:
        message = structs.replace(message, model=model)
    target = lookup(dialect)
    message = _clean_message(message, losses)
    if not came_from(message, target.name):
        message = without_executed_calls(message, losses)
        if reply is not None and reply.calls:
            message = _name_calls(message, CallIds(reply.calls, losses))
    codec = codec_of(target)
    fields = reply.response if reply is not None and codec.echoed_fields is not None else {}
    # The calls of another choice may have changed alone, which is no field of the message.
    known = None if is_restored else unchanged_body(message, target.name)
    if known is not None and message.stop_reason is not None and codec.revise_response is not None:
        renamed = message.model if message.model != message.source.message.model else None
        body = codec.revise_response(known, renamed, created)
        return Encoded(body | fields, losses=losses.list())
    is_one = target.capabilities is None or not target.capabilities.choices
    if is_one and isinstance(message.source, MessageSource):
        for number, _ in message.source.choices:
            losses.add("choices", f"choice {number}", "dropped")
    if "id" in fields:  # of which those of the items are made
        message = structs.replace(message, id=fields["id"])
    body = codec.write_response(message, created, losses)
    return Encoded(body | fields, losses=losses.list())


def _has_calls_of(message: Message, reply: Reply) -> bool:
    """Return whether a choice of a message calls a tool that was renamed for the request."""
    source = message.source
    others = source.choices if isinstance(source, MessageSource) else ()
    answers = message, *(other for _, other in others)
    return any(call.name in reply.tools for answer in answers for call in answer.tool_calls)


def _restore_calls(message: Message, reply: Reply, losses: Losses) -> Message:
    """Return a message whose tool calls have the client's names and kinds, in all choices."""
    source = message.source
    if isinstance(source, MessageSource) and source.choices:
        others = [(number, _restore_calls(each, reply, losses)) for number, each in source.choices]
        source = structs.replace(source, choices=tuple(others))
    restorer = ToolCallRestorer(reply, losses, note=lambda kind, where: None)
    events = restorer.take(message_events(message))
    last = events[-1]
    if isinstance(last, StreamError):
        raise FailedAnswer(last)
    return structs.replace(accumulate(events), source=source)


def _name_calls(message: Message, ids: CallIds) -> Message:
    """Return a message whose tool calls have ids of their own, in all choices."""
    blocks = tuple(map(ids.rename, message.blocks))
    source = message.source
    if isinstance(source, MessageSource) and source.choices:
        others = tuple((number, _name_calls(each, ids)) for number, each in source.choices)
        source = structs.replace(source, choices=others)
    return structs.replace(message, blocks=blocks, source=source)


def _clean_message(message: Message, losses: Losses) -> Message:
    """Return a message with U+FFFD in place of lone surrogates.

    JSON in UTF-8 has none, and clients refuse their escapes.
    """
    source = message.source
    if isinstance(source, MessageSource) and source.body is not None:
        _count_cleaned(source.body, losses)
    try:
        dumps(structs.replace(message, source=None))
    except UnicodeEncodeError:
        losses.add(*_HALF_CHARACTER)
        cleaned: Message = _clean_parts(structs.replace(message, source=None))
        return structs.replace(cleaned, source=source)
    except TypeError:  # a value that JSON does not have, which no encoder of a dialect writes
        pass
    return message


def _count_cleaned(body: dict[str, Any], losses: Losses) -> None:
    """Count a loss if lone surrogates were replaced in a decoded body."""
    if isinstance(body, CleanedBody):
        losses.add(*_HALF_CHARACTER)


def _clean_parts(part: Any) -> Any:
    if isinstance(part, Struct):
        fields = {name: _clean_parts(getattr(part, name)) for name in part.__struct_fields__}
        return structs.replace(part, **fields)
    if isinstance(part, tuple):
        return tuple(map(_clean_parts, part))  # pyright: ignore[reportUnknownArgumentType]
    return clean_tree(part)


def error_in(value: dict[str, Any]) -> UpstreamError | None:
    """Return the error that a body reports in any vendor's format; None if it reports no error."""
    error = find_error(value)
    return None if error is None else as_upstream_error(error)


def _detect_response(body: dict[str, Any]) -> str:
    """Detect the dialect of a response.

    Raises:
        DecodeError: It is of no dialect.
        UpstreamError: It is an error, of whatever dialect.
    """
    try:
        return dialect_of(body, "response")
    except DecodeError:
        if (failed := error_in(body)) is not None:
            raise failed from None
        raise
