"""Client requests, upstreams, and the translated requests that are sent to upstreams."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Raw, Struct, structs

from streamnorm._bodies import codec_of, encode_request, reader_of, request_of
from streamnorm._core.bodies.fields import body_object
from streamnorm._core.bodies.projection.results import RepairPolicy
from streamnorm._core.bodies.projection.tools import MissingTools
from streamnorm._core.bodies.request import Reply, Request, calls_of
from streamnorm._core.codec import Dialect, PageCodec, RequestedOperation, RequestReader
from streamnorm._core.codec.framing import SSE, Framing
from streamnorm._core.errors import DecodeError, EncodeError, LossyEncoding, StreamnormError
from streamnorm._core.events import StreamError
from streamnorm._core.json import FAST_ERRORS, dumps, encode_pieces, is_array, is_object
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss
from streamnorm._registry import detect_path, lookup
from streamnorm._upstream.client_fields import name_client_field
from streamnorm.http.headers import is_id, request_headers
from streamnorm.profiles import Profiles

_FIELDS: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
_ITEMS: msgspec.json.Decoder[list[Raw]] = msgspec.json.Decoder(list[Raw])


def splice(data: bytes, before: dict[str, Any], after: dict[str, Any]) -> bytes:
    """Return `after` as JSON, with unchanged parts byte for byte as in `data`.

    White space inside changed objects and arrays is lost.

    Args:
        data: The JSON that the client sent.
        before: The decoded form of `data`.
        after: The body to send, in which unchanged values are the same objects.
    """
    if list(before) == list(after) and all(after[name] is before[name] for name in before):
        return data
    try:
        return msgspec.json.encode(_splice_fields(_FIELDS.decode(data), before, after))
    except FAST_ERRORS:  # an unpaired surrogate, or a number beyond the range of a double
        return dumps(after)


def _splice_value(written: Raw, before: object, after: object) -> Raw:
    """Return a value as JSON; unchanged parts keep their spelling."""
    if after is before:
        return written
    if is_object(after) and is_object(before):
        fields = _FIELDS.decode(written)
        return Raw(msgspec.json.encode(_splice_fields(fields, before, after)))
    if is_array(after) and is_array(before):
        return Raw(msgspec.json.encode(_splice_items(_ITEMS.decode(written), before, after)))
    # A number that is equal may be of another type.
    return written if type(after) is type(before) and after == before else Raw(dumps(after))


def _splice_fields(
    written: dict[str, Raw], before: dict[str, Any], after: dict[str, Any]
) -> dict[str, Raw]:
    return {
        name: _splice_value(written[name], before[name], value)
        if name in written and name in before
        else Raw(dumps(value))
        for name, value in after.items()
    }


def _splice_items(written: list[Raw], before: list[Any], after: list[Any]) -> list[Raw]:
    """Return the items of an array as JSON.

    Objects and arrays that stay keep their spelling.  The others are paired in order: the first
    new one with the first removed one, and so on.  A wrong pair only changes the spelling of
    equal values.
    """
    # Equal strings may be one Python object and yet be spelt differently, so only containers count.
    raws = {id(item): raw for item, raw in zip(before, written, strict=True) if _is_container(item)}
    staying = {id(item) for item in after}
    gone = iter([item for item in before if _is_container(item) and id(item) not in staying])
    items: list[Raw] = []
    for item in after:
        raw = raws.get(id(item)) if _is_container(item) else None
        if raw is None and _is_container(item) and (former := next(gone, None)) is not None:
            raw = _splice_value(raws[id(former)], former, item)
        items.append(Raw(dumps(item)) if raw is None else raw)
    return items


def _is_container(item: object) -> bool:
    return is_object(item) or is_array(item)


class ClientRequest(Struct, frozen=True, kw_only=True):
    """A request as the client sent it, with credentials: never to be stored or shown.

    Attributes:
        method: HTTP method.
        path: Path of the URL, decoded, without empty segments and query; that of a cloud is as
            the URL spells it.
        query: Pairs of name and value in the query of the URL; a name may be repeated.
        headers: Headers by lower-case name.
        body: The complete body; None if it is not in memory, as with an upload.
        decoded: The body as `body_object` returned it, or its replacement for an upstream of
            another dialect; never modified.  None before decoding.
        released_bytes: Size of a released body.
        signed_by: Id of the access key whose signature of the request was verified; "" without.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | None
    query: tuple[tuple[str, str], ...] = ()
    decoded: dict[str, Any] | None = None
    released_bytes: int = 0
    signed_by: str = ""

    def __repr__(self) -> str:
        return f"ClientRequest({self.method!r}, …)"

    @property
    def size(self) -> int:
        """Size of the body in bytes, even after `release`; 0 if the body never was in memory."""
        return len(self.body or b"") or self.released_bytes

    def release(self) -> None:
        """Free the bytes of a body that is decoded and will not be sent.

        In place, because everything that waits for the answer holds this request.
        """
        structs.force_setattr(self, "released_bytes", self.size)
        structs.force_setattr(self, "body", b"")

    def with_body(self, body: bytes) -> ClientRequest:
        """Return the request with a new body, which is not decoded yet."""
        return structs.replace(self, body=body, decoded=None)


class Upstream(Struct, frozen=True, kw_only=True, dict=True):
    """A provider that answers requests, with its dialect, URL and model names.

    Attributes:
        dialect: Name of the dialect.
        base_url: Base URL without a final slash.
        server: Name of the server in profiles; None for the vendor's own.
        profiles: Refusals of models, servers and versions; None for the shipped profiles.
        model_map: The provider's model names by the names that clients use.
        model: Name of the model for all requests; None to use `model_map`.
        headers: Headers of every request, names in lower case; they may hold an API key.
        forwards_key: Whether the client's key is sent if `headers` holds none.
        framing: Framing of its streams.
    """

    dialect: str
    base_url: str
    server: str | None = None
    profiles: Profiles | None = None
    model_map: Mapping[str, str] = {}
    model: str | None = None
    headers: Mapping[str, str] = {}
    forwards_key: bool = True
    framing: Framing = SSE

    def __repr__(self) -> str:
        return f"Upstream({self.dialect!r}, …)"

    @cached_property
    def dialect_record(self) -> Dialect:
        """The provider's dialect.

        Raises:
            UnknownDialect: There is none of that name.
        """
        return lookup(self.dialect)

    def upstream_model(self, name: str) -> str:
        """Return the provider's name for a client's model name."""
        return self.model_map.get(name, name) if self.model is None else self.model

    def with_upstream_model(self, request: Request) -> Request:
        """Return a request whose model has the provider's name."""
        name = self.upstream_model(request.model)
        return request if name == request.model else structs.replace(request, model=name)


class UpstreamRequest(Struct, frozen=True, kw_only=True):
    """A request in the form in which an upstream receives it.

    Attributes:
        method: HTTP method.
        url: The whole URL.
        headers: Headers by lower-case name.
        body: The JSON body.
        streams: Whether the client reads a stream.
        include_usage: Whether the client reads the tokens of a stream.
        reply: Names of the client's tools, and request fields that the answer repeats.
        losses: Losses of the upstream's dialect.
        request: The unified request, with the upstream's model name; None for passthrough.
    """

    url: str
    headers: dict[str, str]
    body: bytes
    streams: bool
    include_usage: bool
    reply: Reply
    losses: tuple[Loss, ...]
    request: Request | None
    method: str = "POST"

    def __repr__(self) -> str:
        return "UpstreamRequest(…)"


class RequestRefused(StreamnormError):
    """A request cannot be sent to its upstream.

    Attributes:
        error: The error for the client, with an HTTP status.
        losses: Losses that made `strict` refuse the request.
        headers: Further headers of the response, by lower-case name.
    """

    def __init__(
        self,
        message: str,
        status: int = 400,
        *,
        code: str | None = None,
        param: str | None = None,
        details: dict[str, object] | None = None,
        losses: tuple[Loss, ...] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        extra: dict[str, object] = {} if param is None else {"param": param}
        extra |= {} if details is None else {"details": details}
        self.error = StreamError(
            "upstream", message, code, status, retryable=False, extra=extra or None
        )
        self.losses = losses
        self.headers = dict(headers or {})


def build_upstream_request(
    received: ClientRequest,
    client: str,
    upstream: Upstream,
    *,
    strict: bool = False,
    missing_tools: MissingTools = "error",
    repair: RepairPolicy = "error",
    adjust: Callable[[Request], Request] | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> UpstreamRequest:
    """Translate a client's message request for its upstream.

    For an upstream of the client's dialect, unchanged parts of the body stay byte for byte.

    Args:
        received: The request.
        client: The client's dialect.
        upstream: The provider.
        strict: Whether to refuse a request that would lose something.
        missing_tools: Whether a tool that the upstream lacks is an error or dropped.
        repair: Policy for tool results that are missing or out of place.
        adjust: Changes the request before it is encoded.
        limits: Bounds of the body.

    Raises:
        RequestRefused: The request is not of the client's dialect, or has no legal form in the
            upstream's.
    """
    known, target = lookup(client), upstream.dialect_record
    data, body = json_body(received), decode_request_body(received, limits)
    with refusals():
        codec = reader_of(known)
        asked = known.endpoints.match(received.method, received.path)
        sent_headers = received.headers
        is_of_cloud = asked is not None and asked.cloud is not None
        in_body = codec_of(known).cloud_headers if is_of_cloud else None
        if in_body is not None:
            sent_headers = {**sent_headers, **in_body(body)}
        request = request_of(body, codec, path=received.path, headers=sent_headers, limits=limits)
        request = upstream.with_upstream_model(request)
        if adjust is not None:
            request = adjust(request)
        try:
            encoded = encode_request(
                request,
                target.name,
                server=upstream.server,
                profiles=upstream.profiles,
                repair=repair,
                # An agent has answered such a call with an error, and sends both from then on:
                # refused, its conversation would be over.
                arguments="raw",
                missing_tools=missing_tools,
                strict=strict,
            )
        except EncodeError as exc:
            if exc.path.startswith("messages") and isinstance(codec, PageCodec):
                # A message of a page may be several of the request, whose positions it lacks.
                raise DecodeError(exc.args[0], path="$.messages") from exc
            raise name_client_field(exc, request) from exc
        if not encoded.path:
            raise EncodeError("no name of a model, expected one", path="model")
        url = target.endpoints.url(upstream.base_url, encoded.path)
    written = target.endpoints.body_headers
    headers = request_headers(
        {name: value for name, value in sent_headers.items() if name not in written},
        known,
        target,
        body=encoded.headers,
        own=upstream.headers,
        forwards_key=upstream.forwards_key,
    )
    return UpstreamRequest(
        url=url,
        headers=headers,
        body=splice(data, body, encoded.body)
        if target is known
        else encode_pieces(encoded.body, received.size),
        streams=request.stream is True,
        include_usage=target is known or asks_for_usage(body),
        reply=encoded.reply
        if target is known
        else _name_model(_answer_to(encoded.reply, codec, body, request), request, target),
        losses=encoded.losses,
        request=request,
    )


def _name_model(reply: Reply, request: Request, target: Dialect) -> Reply:
    """Return a `Reply` with the requested model, if the provider's messages name no model."""
    if target.capabilities is None or target.capabilities.identity:
        return reply
    return structs.replace(reply, model=request.model)


def _answer_to(reply: Reply, codec: RequestReader, body: dict[str, Any], request: Request) -> Reply:
    """Return a `Reply` with the request's tool calls and the fields that the response echoes."""
    calls = calls_of(request.messages)
    if calls or isinstance(codec, PageCodec):
        reply = structs.replace(reply, calls=calls)
    if codec.echoed_fields is None:
        return reply
    return structs.replace(reply, response={**codec.echoed_fields(body), **reply.response})


def asks_for_usage(body: object) -> bool:
    """Return whether the `stream_options` of a request ask for usage."""
    options = body.get("stream_options") if is_object(body) else None
    return is_object(options) and options.get("include_usage") is True


def match_operation(received: ClientRequest, client: str) -> RequestedOperation:
    """Return the operation of a request, from its method and path.

    Raises:
        RequestRefused: The client's dialect has no such endpoint.
    """
    known = lookup(client)
    asked = known.endpoints.match(received.method, received.path)
    if asked is not None:
        return asked
    if known.endpoints.serves(received.path):
        raise RequestRefused("another method, expected one that the endpoint has", 404)
    other = detect_path(received.path)
    found = "a path of no known endpoint" if other is None else f"a path of {other}"
    raise RequestRefused(f"{found}, expected one of {known.name}", 404)


@contextmanager
def refusals() -> Generator[None]:
    """Raise `RequestRefused` for a body that cannot be decoded or encoded."""
    try:
        yield
    except DecodeError as exc:
        param = exc.path.removeprefix("$").removeprefix(".")
        raise RequestRefused(str(exc), param=param or None) from exc
    except EncodeError as exc:
        raise _refusal_of(exc) from exc
    except LossyEncoding as exc:
        raise RequestRefused(str(exc), losses=exc.losses) from exc


def json_body(received: ClientRequest) -> bytes:
    """Return the request's body.

    Raises:
        RequestRefused: It is no JSON in memory.
    """
    kind = received.headers.get("content-type", "").partition(";")[0].strip().lower()
    if received.body is None:
        raise RequestRefused("an upload, expected a JSON body", 415)
    # Two headers are joined by a comma: a page may send the first of them.
    if not (kind in ("", "application/json") or (kind.endswith("+json") and "," not in kind)):
        raise RequestRefused("content-type: another than JSON, expected application/json", 415)
    if received.headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestRefused("a compressed body, expected an uncompressed one", 415)
    return received.body


def decode_request_body(received: ClientRequest, limits: Limits) -> dict[str, Any]:
    """Return the request's body as a decoded object.

    Raises:
        RequestRefused: It is no JSON object in memory, or exceeds a bound.
    """
    data = json_body(received)
    if received.decoded is not None:
        return received.decoded
    with refusals():
        return body_object(data, limits, finite=True)


# Error fields at which clients send the whole conversation, where the state that they refer to is
# not available.  Anthropic's SDK does so without `thread`, in its `tool_runner` (lib/threads of
# anthropic 2.12).
_MISSING_STATE: dict[str, dict[str, Any]] = {
    "previous_response_id": {"code": "previous_response_not_found"},
    "thread": {"details": {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}},
}


def _refusal_of(exc: EncodeError) -> RequestRefused:
    """Return the refusal of a request that the upstream's dialect cannot express."""
    name = exc.path.removeprefix("state.")
    if name == exc.path:
        return RequestRefused(str(exc), param=name)
    return RequestRefused(f"{name}: {exc.args[0]}", param=name, **_MISSING_STATE.get(name, {}))


def identify_reply(reply: Reply, request_id: str) -> Reply:
    """Return a `Reply` with the response's id as message id, for messages that have no id.

    Args:
        reply: Reply of the request; it has a model if the provider's messages name none.
        request_id: Id of the response in its headers; "" if it has none.
    """
    if not reply.model or not is_id(request_id):
        return reply
    return structs.replace(reply, id=request_id)
