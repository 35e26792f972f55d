"""Upstream requests for token counts, model lists and stored responses, without I/O.

Each request is served by a generator: it yields calls to the upstream, is sent their replies,
and returns the answer to the client.  The owner of the connection runs it:

    steps = call_steps(received, asked, client, upstream, estimator)
    reply = None
    while True:
        call = steps.send(reply)                   # StopIteration.value is the client's answer
        reply = UpstreamReply(...)
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TypeAlias

from msgspec import Struct, structs

from streamnorm._auxiliary import (
    CANNOT_COUNT,
    ModelListing,
    count_request_of,
    decode_model,
    decode_token_count,
    encode_count_request,
    encode_model,
    encode_models,
    encode_token_count,
    model_path,
)
from streamnorm._bodies import Encoded, codec_of
from streamnorm._core.bodies.models import ModelInfo
from streamnorm._core.bodies.token_count import TokenEstimator
from streamnorm._core.codec import RequestedOperation
from streamnorm._core.errors import DecodeError, EncodeError, UpstreamError
from streamnorm._core.events import StreamError
from streamnorm._core.failures import error_event
from streamnorm._core.gate import Gate
from streamnorm._core.json import encode_pieces
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss
from streamnorm._registry import decoder, lookup
from streamnorm._upstream.client_fields import name_client_field
from streamnorm._upstream.passthrough import (
    PassthroughAnswer,
    check_answer_body,
    passthrough_body,
    passthrough_path,
)
from streamnorm._upstream.requests import (
    ClientRequest,
    RequestRefused,
    Upstream,
    decode_request_body,
    refusals,
)
from streamnorm.http.headers import request_headers
from streamnorm.profiles import shipped_profiles

_LAST_STATUS = 599
_BAD_GATEWAY = 502
_NO_CONTENT = 204


class UpstreamCall(Struct, frozen=True, kw_only=True):
    """A request to an auxiliary endpoint of an upstream.

    Attributes:
        method: HTTP method.
        url: The whole URL.
        headers: Headers by lower-case name.
        body: The body, or None.
        streams: Whether the reply is a stream for the client, to be read by a `PassthroughStream`.
        losses: Losses of the upstream's dialect.
    """

    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None = None
    streams: bool = False
    losses: tuple[Loss, ...] = ()

    def __repr__(self) -> str:
        return f"UpstreamCall({self.method!r}, …)"


class UpstreamReply(Struct, frozen=True, kw_only=True):
    """The upstream's response to an `UpstreamCall`.

    Attributes:
        status: HTTP status.
        content_type: The `content-type`.
        body: The whole body.
        unreadable: Description of a body that cannot be decoded, which is then left out.
        error_type: Type of the error that a header states; None if none does.
        request_id: Id of the response, in the header of the upstream's dialect.
    """

    status: int
    content_type: str
    body: bytes
    unreadable: str = ""
    error_type: str | None = None
    request_id: str = ""


CallSteps: TypeAlias = Generator[
    UpstreamCall, UpstreamReply, Encoded | PassthroughAnswer | StreamError
]


def call_steps(
    received: ClientRequest,
    asked: RequestedOperation,
    client: str,
    upstream: Upstream,
    estimator: TokenEstimator,
    *,
    strict: bool = False,
) -> CallSteps:
    """Return the steps that answer a client's request to an auxiliary endpoint.

    Args:
        received: The request.
        asked: The requested operation.
        client: The client's dialect.
        upstream: The provider.
        estimator: Estimates tokens that the provider does not count.
        strict: Whether to refuse a request that would lose something.

    Raises:
        RequestRefused: By a step: the request is not of the dialect, has no legal form in the
            upstream's, or its operation exists at the vendor's own server alone.
    """
    match asked.operation:
        case "count":
            return _count_tokens(received, client, upstream, estimator, strict=strict)
        case "models":
            return _encode_list(received, client, upstream)
        case "model":
            return _find_model(received, asked.model, client, upstream)
        case _ if lookup(client) is upstream.dialect_record:
            return _forward(received, asked, client, upstream)
        case _:
            raise RequestRefused("a request that only the vendor's own server can answer", 404)


def _count_tokens(
    received: ClientRequest,
    client: str,
    upstream: Upstream,
    estimator: TokenEstimator,
    *,
    strict: bool,
) -> CallSteps:
    with refusals():
        request = upstream.with_upstream_model(
            count_request_of(
                decode_request_body(received, Limits()),
                client,
                path=received.path,
                headers=received.headers,
                limits=Limits(),
            )
        )
        try:
            encoded = encode_count_request(
                request,
                upstream.dialect,
                server=upstream.server,
                profiles=upstream.profiles,
                arguments="raw",  # as the message that is counted
                strict=strict,
            )
        except EncodeError as exc:
            raise name_client_field(exc, request) from exc
    if encoded is None:
        return encode_token_count(estimator.estimate(request), client)
    body = encode_pieces(encoded.body, received.size)
    asked = _build_call("POST", encoded.path, received, client, upstream, encoded.headers, body)
    answer = yield structs.replace(asked, losses=encoded.losses)
    if answer.status in CANNOT_COUNT:
        return encode_token_count(estimator.estimate(request), client)
    if (failure := _failure(answer, upstream)) is not None:
        return failure
    try:
        count = decode_token_count(answer.body, encoded.dialect)
    except (DecodeError, UpstreamError) as exc:
        return _unreadable(exc)
    return encode_token_count(count, client)


def list_models(
    received: ClientRequest, client: str, upstream: Upstream
) -> Generator[UpstreamCall, UpstreamReply, list[ModelInfo] | StreamError]:
    """Return the steps that fetch an upstream's model list, with the provider's model names.

    Args:
        received: The request.
        client: The client's dialect.
        upstream: The provider.
    """
    if (missing := _check_model_list(upstream)) is not None:
        return missing
    listing, headers = ModelListing(upstream.dialect), _version_headers(client, upstream)
    while listing.next_path is not None:
        answer = yield _build_call("GET", listing.next_path, received, client, upstream, headers)
        if (failure := _failure(answer, upstream)) is not None:
            return failure
        try:
            listing.add(answer.body)
        except (DecodeError, UpstreamError) as exc:
            return _unreadable(exc)
    return listing.models


def _encode_list(received: ClientRequest, client: str, upstream: Upstream) -> CallSteps:
    listed = yield from list_models(received, client, upstream)
    if isinstance(listed, StreamError):
        return listed
    with refusals():
        return encode_models(
            listed, client, query=dict(received.query), model_map=upstream.model_map
        )


def _check_model_list(upstream: Upstream) -> StreamError | None:
    """Return the error for an upstream without a model list; None if the upstream has a list."""
    if codec_of(upstream.dialect_record).models is not None:
        return None
    # Amazon Bedrock lists its models at another host.
    return StreamError("upstream", "an upstream that lists no models", status_hint=404)


def _find_model(received: ClientRequest, model: str, client: str, upstream: Upstream) -> CallSteps:
    if (missing := _check_model_list(upstream)) is not None:
        return missing
    with refusals():
        path = model_path(upstream.dialect, upstream.upstream_model(model))
    headers = _version_headers(client, upstream)
    answer = yield _build_call("GET", path, received, client, upstream, headers)
    if (failure := _failure(answer, upstream)) is not None:
        return failure
    try:
        found = decode_model(answer.body, upstream.dialect)
    except (DecodeError, UpstreamError) as exc:
        return _unreadable(exc)
    return encode_model(found, client, id=model)


def resumes_stream(received: ClientRequest, asked: RequestedOperation) -> bool:
    """Return whether a request resumes the stream of a stored response."""
    return asked.operation == "response" and ("stream", "true") in received.query


def _forward(
    received: ClientRequest, asked: RequestedOperation, client: str, upstream: Upstream
) -> CallSteps:
    body = passthrough_body(received, upstream)
    known = lookup(client)
    # The prefix of the path belongs to the client's base URL, not to the vendor's.
    named = known.endpoints.canonical_path(received.method, received.path)
    path = passthrough_path(named, received, known)
    sent = _build_call(received.method, path, received, client, upstream, body=body)
    answer = yield structs.replace(sent, streams=resumes_stream(received, asked))
    error = _failure(answer, upstream)
    problem = None if answer.status == _NO_CONTENT else check_answer_body(answer.body, client)
    if problem is not None:
        return error or problem
    # A server of HTTP cannot send a status beyond 599.
    status = answer.status if answer.status <= _LAST_STATUS else _BAD_GATEWAY
    return PassthroughAnswer(
        status=status, content_type=answer.content_type, body=answer.body, error=error
    )


def _build_call(
    method: str,
    path: str,
    received: ClientRequest,
    client: str,
    upstream: Upstream,
    body_headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> UpstreamCall:
    known, target = lookup(client), upstream.dialect_record
    with refusals():
        url = target.endpoints.url(upstream.base_url, path)
    headers = request_headers(
        received.headers,
        known,
        target,
        body=body_headers or {},
        own=upstream.headers,
        forwards_key=upstream.forwards_key,
    )
    if body is None:
        del headers["content-type"]
    return UpstreamCall(method=method, url=url, headers=headers, body=body)


def _version_headers(client: str, upstream: Upstream) -> dict[str, str]:
    """Return the headers that a server requires on every request, such as the API version."""
    if lookup(client) is upstream.dialect_record:
        return {}  # the client has sent its own
    base = codec_of(upstream.dialect_record).capabilities
    profiles = upstream.profiles or shipped_profiles()
    return profiles.resolve(base, server=upstream.server, model="", version=None).added_headers


def _failure(answer: UpstreamReply, upstream: Upstream) -> StreamError | None:
    """Return the error of a reply outside 2xx; None for a 2xx reply."""
    if 200 <= answer.status <= 299:
        return None
    limits = Limits()
    gate = Gate(
        answer.status,
        answer.content_type,
        judge_body=lambda body: decoder(upstream.dialect).judge_body(body),
        limits=limits,
        error_type=answer.error_type,
    )
    gate.feed(answer.body[: limits.max_error_body_bytes])
    gate.abort(answer.unreadable)
    return gate.error


def _unreadable(exc: DecodeError | UpstreamError) -> StreamError:
    if isinstance(exc, UpstreamError):
        return error_event(exc)
    return StreamError("malformed", str(exc))
