"""A client's request as the request for its upstream."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import Raw, Struct, structs

from streamnorm._bodies import codec_of, encode_request, request_of
from streamnorm._core.bodies.parsing import body_object
from streamnorm._core.bodies.projection import MissingTools
from streamnorm._core.bodies.request import Reply, Request
from streamnorm._core.codec import RequestedOperation
from streamnorm._core.errors import DecodeError, EncodeError, LossyEncoding, StreamnormError
from streamnorm._core.events import StreamError
from streamnorm._core.json import FAST_ERRORS, dumps, is_array, is_object
from streamnorm._core.large_json import encode_pieces
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss
from streamnorm._registry import detect_path, lookup
from streamnorm.http.headers import request_headers
from streamnorm.http.urls import endpoint_url
from streamnorm.profiles import Profiles

_FIELDS: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
_ITEMS: msgspec.json.Decoder[list[Raw]] = msgspec.json.Decoder(list[Raw])


def splice(data: bytes, before: dict[str, Any], after: dict[str, Any]) -> bytes:
    """Return a body as JSON, its unchanged parts byte for byte.

    White space between the parts of what is changed is lost.

    Args:
        data: The JSON that the client sent.
        before: What it was decoded to.
        after: The body to send, in which unchanged values are the same objects.
    """
    if list(before) == list(after) and all(after[name] is before[name] for name in before):
        return data
    try:
        return msgspec.json.encode(_spliced_fields(_FIELDS.decode(data), before, after))
    except FAST_ERRORS:  # half of a character, or a number that no double is near to
        return dumps(after)


def _spliced(written: Raw, before: object, after: object) -> Raw:
    """Return a value as JSON; what it has of a former value stays as that was written."""
    if after is before:
        return written
    if is_object(after) and is_object(before):
        fields = _FIELDS.decode(written)
        return Raw(msgspec.json.encode(_spliced_fields(fields, before, after)))
    if is_array(after) and is_array(before):
        return Raw(msgspec.json.encode(_spliced_items(_ITEMS.decode(written), before, after)))
    # A number that is equal may be of another type.
    return written if type(after) is type(before) and after == before else Raw(dumps(after))


def _spliced_fields(
    written: dict[str, Raw], before: dict[str, Any], after: dict[str, Any]
) -> dict[str, Raw]:
    return {
        name: _spliced(written[name], before[name], value)
        if name in written and name in before
        else Raw(dumps(value))
        for name, value in after.items()
    }


def _spliced_items(written: list[Raw], before: list[Any], after: list[Any]) -> list[Raw]:
    """Return the items of an array: objects and arrays that stay, and others as those before.

    Of the objects that are gone, the first stands for the first that is new, and so on.  Whether
    it does decides only which spelling equal values have.
    """
    # Equal texts may be one object, and stand for another spelling.
    raws = {id(item): raw for item, raw in zip(before, written, strict=True) if _is_holder(item)}
    staying = {id(item) for item in after}
    gone = iter([item for item in before if _is_holder(item) and id(item) not in staying])
    items: list[Raw] = []
    for item in after:
        raw = raws.get(id(item)) if _is_holder(item) else None
        if raw is None and _is_holder(item) and (former := next(gone, None)) is not None:
            raw = _spliced(raws[id(former)], former, item)
        items.append(Raw(dumps(item)) if raw is None else raw)
    return items


def _is_holder(item: object) -> bool:
    return is_object(item) or is_array(item)


class ClientRequest(Struct, frozen=True, kw_only=True):
    """A request as a client sent it, credentials included: it must never be stored or shown.

    Attributes:
        method: HTTP method.
        path: Path of the URL, decoded, without empty segments and query.
        query: Pairs of name and value in the query of the URL; a name may stand in several.
        headers: Headers by lower-case name.
        body: The whole body; None if it is not in memory, as an upload.
        decoded: The body as `body_object` returned it, or what stands in place of that for an
            upstream of another dialect.  Nobody changes it; None if it has not been decoded.
        released_bytes: Bytes of the body that was released.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | None
    query: tuple[tuple[str, str], ...] = ()
    decoded: dict[str, Any] | None = None
    released_bytes: int = 0

    def __repr__(self) -> str:
        return f"ClientRequest({self.method!r}, …)"

    @property
    def size(self) -> int:
        """Bytes of the body, also of one that was released; 0 if it never was in memory."""
        return len(self.body or b"") or self.released_bytes

    def release(self) -> None:
        """Drop the bytes of a body that has been decoded, where no upstream is sent them.

        They are dropped in place: whoever waits for the answer holds the request.
        """
        structs.force_setattr(self, "released_bytes", self.size)
        structs.force_setattr(self, "body", b"")

    def with_body(self, body: bytes) -> ClientRequest:
        """Return the request with another body, which has not been decoded."""
        return structs.replace(self, body=body, decoded=None)


class Upstream(Struct, frozen=True, kw_only=True):
    """A provider that answers requests.

    Attributes:
        dialect: Its dialect.
        base_url: Its base URL, without a slash at its end.
        server: Name of the server in profiles; None is the vendor.
        profiles: What models, servers and versions refuse; None = what streamnorm ships.
        model_map: Names of its models by the names that clients use.
        model: Name of the model that all requests ask for; None for that of `model_map`.
        headers: Headers of every request to it, names in lower case; they may hold its key.
        forwards_key: Whether the client's own key is sent, if `headers` holds none.
    """

    dialect: str
    base_url: str
    server: str | None = None
    profiles: Profiles | None = None
    model_map: Mapping[str, str] = {}
    model: str | None = None
    headers: Mapping[str, str] = {}
    forwards_key: bool = True

    def __repr__(self) -> str:
        return f"Upstream({self.dialect!r}, …)"

    def upstream_model(self, name: str) -> str:
        """Return the provider's name of a model."""
        return self.model_map.get(name, name) if self.model is None else self.model

    def with_upstream_model(self, request: Request) -> Request:
        """Return a request with the provider's name of its model."""
        name = self.upstream_model(request.model)
        return request if name == request.model else structs.replace(request, model=name)


class UpstreamRequest(Struct, frozen=True, kw_only=True):
    """A request for an upstream.

    Attributes:
        method: HTTP method.
        url: The whole URL.
        headers: Headers by lower-case name.
        body: The JSON body.
        streams: Whether the client reads a stream.
        include_usage: Whether the client reads the tokens of a stream.
        reply: How calls in the answer get the client's names, and what it repeats.
        losses: What the upstream's dialect cannot carry.
        request: The request, with the upstream's name of the model; None if it was not read.
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
        error: Why, for the client, with an HTTP status.
        losses: What would be lost, where that is the reason.
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
    adjust: Callable[[Request], Request] | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> UpstreamRequest:
    """Return a client's request for a message as the request for its upstream.

    What an upstream of the client's dialect is sent unchanged is sent byte for byte.

    Args:
        received: The request.
        client: The client's dialect.
        upstream: The provider.
        strict: Whether to refuse a request that would lose something.
        missing_tools: What becomes of a request for a tool that the upstream lacks.
        adjust: Changes the request before it is encoded.
        limits: Bounds of the body.

    Raises:
        RequestRefused: It is not of the dialect, or has no legal form in the upstream's.
    """
    known, target = lookup(client), lookup(upstream.dialect)
    with refusals():
        data = json_body(received)
        body = decode_request_body(received, limits)
        request = request_of(
            body, known.name, path=received.path, headers=received.headers, limits=limits
        )
        request = upstream.with_upstream_model(request)
        if adjust is not None:
            request = adjust(request)
        encoded = encode_request(
            request,
            target.name,
            server=upstream.server,
            profiles=upstream.profiles,
            missing_tools=missing_tools,
            strict=strict,
        )
        if not encoded.path:
            raise EncodeError("no name of a model, expected one", path="model")
        url = endpoint_url(upstream.base_url, encoded.path, target.endpoints)
    written = target.endpoints.body_headers
    headers = request_headers(
        {name: value for name, value in received.headers.items() if name not in written},
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
        reply=encoded.reply if target is known else _echoing(encoded.reply, known.name, body),
        losses=encoded.losses,
        request=request,
    )


def _echoing(reply: Reply, client: str, body: dict[str, Any]) -> Reply:
    """Return a reply with the fields of a request that its answer repeats."""
    echoed_fields = codec_of(client).echoed_fields
    if echoed_fields is None:
        return reply
    return structs.replace(reply, response={**echoed_fields(body), **reply.response})


def asks_for_usage(body: object) -> bool:
    """Return whether the `stream_options` of a request ask for usage."""
    options = body.get("stream_options") if is_object(body) else None
    return is_object(options) and options.get("include_usage") is True


def match_operation(received: ClientRequest, client: str) -> RequestedOperation:
    """Return what a request asks for, by its method and path.

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
        raise _no_legal_form(exc) from exc
    except LossyEncoding as exc:
        raise RequestRefused(str(exc), losses=exc.losses) from exc


def json_body(received: ClientRequest) -> bytes:
    """Return the body of a request.

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
    """Return the body of a request as a decoded object.

    Raises:
        RequestRefused: It is no JSON in memory.
        DecodeError: It is no JSON object, or exceeds a bound.
    """
    data = json_body(received)
    return body_object(data, limits) if received.decoded is None else received.decoded


# What clients act on where the state that they refer to cannot be had: they send the whole
# conversation.  Anthropic's SDK does so without `thread`, in its `tool_runner` (lib/threads of
# anthropic 2.12).
_MISSING_STATE: dict[str, dict[str, Any]] = {
    "previous_response_id": {"code": "previous_response_not_found"},
    "thread": {"details": {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}},
}


def _no_legal_form(exc: EncodeError) -> RequestRefused:
    """Return the refusal of a request that the upstream's dialect cannot express."""
    name = exc.path.removeprefix("state.")
    if name == exc.path:
        return RequestRefused(str(exc), param=name)
    return RequestRefused(f"{name}: {exc.args[0]}", param=name, **_MISSING_STATE.get(name, {}))
