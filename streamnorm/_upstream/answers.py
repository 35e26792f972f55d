"""Whole responses and errors of an upstream, translated for the client."""

from __future__ import annotations

from msgspec import Struct, structs

from streamnorm._answers import answer_of, decode_message, encoded_message
from streamnorm._core.bodies.request import Reply
from streamnorm._core.codec.endpoints import Cloud
from streamnorm._core.errors import DecodeError, EncodeError, UpstreamError
from streamnorm._core.events import Completed, StreamError
from streamnorm._core.failures import (
    NOT_A_STREAM,
    answer_failure,
    body_kind,
    error_event,
    find_error,
    response_status,
    too_large,
)
from streamnorm._core.json import encode_pieces, object_in
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss, Losses, OnLoss
from streamnorm._core.messages import Message
from streamnorm._registry import decoder, encoder, lookup

_BLANK = b" \t\r\n\xef\xbb\xbf"


class ErrorResponse(Struct, frozen=True):
    """An error response.

    Attributes:
        status: HTTP status.
        body: The body, in the client's dialect.
        headers: Headers by which clients tell errors apart, by lower-case name; the
            `content-type` if the body is no JSON.
    """

    status: int
    body: bytes
    headers: dict[str, str] = {}


class TranslatedAnswer(Struct, frozen=True):
    """A whole response in the client's dialect.

    Attributes:
        body: The JSON body.
        outcome: How the answer ended.
        losses: Losses of the client's dialect.
        has_blocks: Whether the upstream's message has a block.
    """

    body: bytes
    outcome: Completed
    losses: tuple[Loss, ...]
    has_blocks: bool


def error_status(
    error: StreamError, client: str, *, upstream: str | None, cloud: Cloud | None = None
) -> int:
    """Return the HTTP status of an error response sent before a stream begins.

    Args:
        error: The error.
        client: The client's dialect.
        upstream: Dialect of the upstream that reports the error; None for an error of ours.
        cloud: Cloud at whose paths the client speaks the dialect; None for the vendor.
    """
    if cloud is not None:
        return response_status(error, cloud.overloaded_status)
    if upstream is not None and lookup(upstream) is lookup(client):
        return response_status(error)
    return response_status(error, lookup(client).overloaded_status)


def encode_error_response(
    error: StreamError, client: str, *, upstream: str | None, cloud: Cloud | None = None
) -> ErrorResponse:
    """Return the error response sent in place of a stream.

    Args:
        error: The error.
        client: The client's dialect.
        upstream: Dialect of the upstream that reports the error; None for an error of ours.
            Further fields of the error reach clients of the same dialect alone.
        cloud: Cloud at whose paths the client speaks the dialect; None for the vendor.
    """
    same_dialect = upstream is None or lookup(upstream) is lookup(client)
    status = error_status(error, client, upstream=upstream, cloud=cloud)
    error = structs.replace(error, status_hint=status)
    writer = encoder(client, extras=same_dialect)
    body = writer.error_body(error)
    if cloud is None:
        return ErrorResponse(status, body, _media_type_header(writer.error_media_type))
    return write_cloud_error(status, error, body, cloud)


def _media_type_header(media_type: str) -> dict[str, str]:
    # JSON goes without saying.
    return {} if media_type == "application/json" else {"content-type": media_type}


def write_cloud_error(status: int, error: StreamError, body: bytes, cloud: Cloud) -> ErrorResponse:
    """Return an error response in a cloud's format.

    Args:
        status: HTTP status.
        error: The error.
        body: The body in the client's dialect.
        cloud: The cloud.
    """
    # The dialect's words, at which clients compact a conversation, in the form of the cloud.
    worded = find_error(object_in(body.decode()))
    message = error.message if worded is None else worded.message
    return ErrorResponse(status, cloud.error_body(message), cloud.error_headers(error))


def translate_answer(
    data: bytes,
    client: str,
    upstream: str,
    *,
    server: str | None = None,
    reply: Reply = Reply(),  # noqa: B008 - frozen
    created: float | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    on_loss: OnLoss | None = None,
) -> TranslatedAnswer | StreamError:
    """Return the body of a successful response in the client's dialect, or its error.

    The body may also be a stream: some servers stream although that was not requested.  A body
    of the client's dialect is returned unchanged.

    Args:
        data: The complete body.
        client: The client's dialect.
        upstream: Dialect of the body.
        server: Name of the server; enables its quirks.
        reply: `Encoded.reply` of the request: names of the client's tools.
        created: Time of the message, in seconds since 1970.
        limits: Bounds.
        on_loss: Callback for each loss.
    """
    data = data.lstrip(_BLANK)
    is_json = data.startswith(b"{")
    losses = Losses(on_loss=on_loss)
    if is_json:
        message = _decode_body(data, upstream, server, limits)
    else:
        message = _accumulate_stream(data, upstream, server, limits)
    if isinstance(message, StreamError):
        return message
    if is_json and lookup(client) is lookup(upstream) and reply == Reply():
        # Also an unfinished response of the background mode, which the client polls.
        outcome = Completed(message.stop_reason or "other", message.usage)
        return TranslatedAnswer(data, outcome, (), bool(message.blocks))
    return encode_answer(
        message, client, reply=reply, created=created, losses=losses, size=len(data)
    )


def encode_answer(
    message: Message,
    client: str,
    *,
    reply: Reply,
    created: float | None,
    losses: Losses,
    size: int = 0,
) -> TranslatedAnswer | StreamError:
    """Return a message as the body of a response, or the error that prevents it.

    Args:
        message: The message.
        client: The client's dialect.
        reply: `Encoded.reply` of the request.
        created: Time of the message, in seconds since 1970.
        losses: Counts the losses.
        size: Bytes of the body that it was read from, where that may be large.
    """
    if reply.model:
        id, model = message.id or reply.id, message.model or reply.model
        message = structs.replace(message, id=id, model=model)
    outcome = Completed(message.stop_reason or "other", message.usage)
    if message.stop_reason is None:  # a background response; no other dialect can poll
        return StreamError("malformed", "an answer that has not ended, expected its end")
    try:
        encoded = encoded_message(message, client, losses, reply=reply, model=None, created=created)
    except EncodeError as exc:
        return answer_failure(exc)
    body = encode_pieces(encoded.body, size)
    return TranslatedAnswer(body, outcome, encoded.losses, bool(message.blocks))


def _decode_body(
    data: bytes, dialect: str, server: str | None, limits: Limits
) -> Message | StreamError:
    # As in a stream: the gateway and the transports read no more than the bound of a whole answer.
    if len(data) > limits.max_event_bytes:
        return too_large("max_event_bytes", limits.max_event_bytes).error
    try:
        return decode_message(data, dialect, server=server, limits=limits)
    except UpstreamError as exc:
        return error_event(exc)
    except DecodeError as exc:
        return StreamError("malformed", f"an answer that is not of {dialect}: {exc}")


def _accumulate_stream(
    data: bytes, dialect: str, server: str | None, limits: Limits
) -> Message | StreamError:
    reader = decoder(dialect, server=server, limits=limits)
    events = [*reader.feed(data), *reader.close()]
    match events:
        case [*_, StreamError(code=code)] if code == NOT_A_STREAM:
            found = body_kind(data)
            return StreamError("malformed", f"{found}, expected an answer of {dialect}", code)
        case [*_, StreamError() as error]:
            return error
        case _:
            return answer_of(events, None, dialect)
