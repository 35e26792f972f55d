"""Passthrough of requests and answers between client and upstream of one dialect.

A request is checked and sent byte for byte, except for the parts that the profile of a named
server refuses.

A request with turns of another vendor (`foreign_turns`) is no passthrough.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, NoReturn
from urllib.parse import quote, urlencode

from msgspec import Raw, Struct

from streamnorm._bodies import Encoded, codec_of, encode_request, reader_of, request_of, target_of
from streamnorm._core.bodies.fields import body_object
from streamnorm._core.bodies.request import Reply
from streamnorm._core.bodies.wire_fields import path_segment
from streamnorm._core.codec import (
    Decoder,
    Dialect,
    Passthrough,
    RequestedOperation,
    read_no_json,
)
from streamnorm._core.codec.endpoints import Cloud
from streamnorm._core.codec.socket_events import NOT_OF_A_RESPONSE
from streamnorm._core.errors import DecodeError
from streamnorm._core.events import Event, StreamError
from streamnorm._core.failures import Fatal, body_kind, find_error
from streamnorm._core.json import (
    FAST_ERRORS,
    InvalidJSON,
    count_of,
    decode_any,
    is_object,
    split,
    string_of,
)
from streamnorm._core.limits import Limits
from streamnorm._core.stepwise_json import StepwiseDecoder
from streamnorm._registry import decoder, lookup
from streamnorm._transcoder import Transcoder
from streamnorm._upstream.requests import (
    ClientRequest,
    Upstream,
    UpstreamRequest,
    decode_request_body,
    json_body,
    refusals,
    splice,
)
from streamnorm.http.headers import request_headers
from streamnorm.profiles import shipped_profiles
from streamnorm.sse import Frame

# Fields by which we route, count, store or narrow a request.  Servers in Go (encoding/json) also
# read a field by its name in another case, and of repeated fields the last.
_READ = frozenset(
    {
        *("model", "stream", "stream_options", "messages", "input", "contents", "tools", "n"),
        *("tool_choice", "instructions", "system", "systemInstruction", "system_instruction"),
        *("max_tokens", "max_completion_tokens", "max_output_tokens", "reasoning", "thinking"),
        *("store", "background", "conversation", "previous_response_id", "prompt", "thread"),
        *("generationConfig", "generation_config", "toolConfig", "tool_config", "cachedContent"),
    }
)
_MAX_SPLITS = 8  # a text that is nested deeper is parsed at once
_FOLDED = {name.casefold(): name for name in _READ}


def prepare_passthrough(
    received: ClientRequest,
    upstream: Upstream,
    *,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> UpstreamRequest:
    """Return a client's message request in the form to send to an upstream of the same dialect.

    The body is sent byte for byte.  Where the upstream has another name for the model, or its
    server refuses a part of the request, only that part is changed; white space between the
    fields is lost.

    Args:
        received: The request.
        upstream: The provider.
        limits: Bounds of the body.

    Raises:
        RequestRefused: The body is no JSON object or exceeds a bound; the provider might read
            it differently, since a key is repeated or differs from a known field in case alone;
            or the server refuses it in every form.
    """
    dialect = upstream.dialect_record
    data, body = json_body(received), decode_request_body(received, limits)
    with refusals():
        _check_keys(data)
        _check_names(body)
        asked = dialect.endpoints.match(received.method, received.path, body)
        name = "" if asked is None else asked.model
        upstream_name, path = upstream.upstream_model(name), received.path
        if asked is not None and asked.cloud is not None:
            return _prepare_cloud_passthrough(received, data, upstream, asked, asked.cloud)
        narrowed = _narrow(body, received, upstream, dialect, limits)
        if upstream_name != name:
            head, slash, tail = path.rpartition(f"/{name}:")
            if slash:
                path = f"{head}/{upstream_name}:{tail}"
            elif narrowed is None:
                data = splice(data, body, {**body, "model": upstream_name})
        target = passthrough_path(path, received, dialect)
        if narrowed is not None:
            data = splice(data, body, narrowed.encoded.body)
            target = narrowed.path or target
        url = dialect.endpoints.url(upstream.base_url, target)
    sent = received.headers
    if narrowed is not None:
        sent = {name: value for name, value in sent.items() if name != narrowed.beta_header}
    headers = request_headers(
        sent,
        dialect,
        dialect,
        body={} if narrowed is None else narrowed.encoded.headers,
        own=upstream.headers,
        forwards_key=upstream.forwards_key,
    )
    return UpstreamRequest(
        url=url,
        headers=headers,
        body=data,
        streams=asked is not None and asked.operation == "stream",
        include_usage=True,
        reply=Reply() if narrowed is None else narrowed.encoded.reply,
        losses=() if narrowed is None else narrowed.encoded.losses,
        request=None,
    )


def _prepare_cloud_passthrough(
    received: ClientRequest,
    data: bytes,
    upstream: Upstream,
    asked: RequestedOperation,
    cloud: Cloud,
) -> UpstreamRequest:
    """Return a request to a cloud's path in the form to send to an upstream of the same cloud.

    The client speaks to the cloud itself: what that refuses, the profile need not leave out.

    Raises:
        EncodeError: No path has such a name of a model.
    """
    dialect = upstream.dialect_record
    model = path_segment(upstream.upstream_model(asked.model))
    path = dialect.endpoints.rename_model(received.path, model)
    passed = {
        name: value
        for name, value in received.headers.items()
        if name.startswith(cloud.header_prefix)
    }
    headers = request_headers(
        received.headers,
        dialect,
        dialect,
        body=passed,
        own=upstream.headers,
        forwards_key=upstream.forwards_key,
    )
    return UpstreamRequest(
        url=dialect.endpoints.url(upstream.base_url, path),
        headers=headers,
        body=data,
        streams=asked.operation == "stream",
        include_usage=True,
        reply=Reply(),
        losses=(),
        request=None,
    )


class _NarrowedRequest(NamedTuple):
    """A request without the parts that its server refuses.

    Attributes:
        encoded: The request, with all betas that are sent.
        path: Path of the server's endpoint; None for the path of the client's request.
        beta_header: Header of the client that lists betas.
    """

    encoded: Encoded
    path: str | None
    beta_header: str | None


def _narrow(
    body: dict[str, Any],
    received: ClientRequest,
    upstream: Upstream,
    dialect: Dialect,
    limits: Limits,
) -> _NarrowedRequest | None:
    """Return a request without the parts that its server refuses; None if the server is unknown.

    Raises:
        EncodeError: It has no legal form for the server.
    """
    profiles = upstream.profiles or shipped_profiles()
    if not profiles.knows(upstream.server, dialect.name):
        return None
    try:
        request = request_of(
            body,
            reader_of(dialect),
            path=received.path,
            headers=received.headers,
            limits=limits,
        )
    except DecodeError:
        return None  # the upstream answers with its own error
    request = upstream.with_upstream_model(request)
    encoded = encode_request(request, dialect.name, server=upstream.server, profiles=profiles)
    base = codec_of(dialect).capabilities
    target = target_of(request, base, profiles, upstream.server, None)
    return _NarrowedRequest(
        encoded, None if target.path is None else encoded.path, target.beta_header
    )


def passthrough_path(path: str, received: ClientRequest, dialect: Dialect) -> str:
    """Return the path and query to request from an upstream of the same dialect.

    Args:
        path: The path, decoded.
        received: The request; only the query fields that the vendor knows are forwarded.
        dialect: The dialect of both.
    """
    known = dialect.endpoints.forwarded_query
    query = urlencode([pair for pair in received.query if pair[0] in known])
    quoted = quote(path, safe="/:@")
    return f"{quoted}?{query}" if query else quoted


def passthrough_body(received: ClientRequest, upstream: Upstream) -> bytes | None:
    """Return the body to send to an auxiliary endpoint; None if the body is empty.

    Raises:
        RequestRefused: As for `prepare_passthrough`.
    """
    if received.body == b"":
        return None
    data, body = json_body(received), decode_request_body(received, Limits())
    with refusals():
        _check_keys(data)
        _check_names(body)
    name = string_of(body, "model")
    upstream_name = upstream.upstream_model(name)
    return (
        data
        if not name or upstream_name == name
        else splice(data, body, {**body, "model": upstream_name})
    )


def _check_keys(data: bytes) -> None:
    """Refuse a body with a repeated key at any depth, even in values that later keys override.

    Raises:
        DecodeError: A key is repeated, or the text is no strict JSON.
    """
    try:
        _check_parts(data)
    except _RepeatedKey as exc:
        raise DecodeError("an object with a key twice, expected each key once") from exc
    except (ValueError, RecursionError) as exc:  # a value that a later key hides may nest deep
        raise DecodeError("no strict JSON, expected a JSON object") from exc


def _check_parts(text: bytes | Raw, splits: int = _MAX_SPLITS) -> None:
    """Check JSON as `_check_keys` does; large JSON is checked in parts."""
    try:
        parts = split(text) if splits else None
    except FAST_ERRORS:  # half a surrogate pair
        _STEPWISE.decode(bytes(text).decode("utf-8", "surrogatepass"))
        return
    if parts is None:
        json.loads(bytes(text), object_pairs_hook=_check_pairs, parse_constant=_refuse_constant)
        return
    names = set[str]()
    for name in parts.names or ():  # building the set in one call would block other threads
        if name in names:
            raise _RepeatedKey
        names.add(name)
    for part in parts.texts:
        if memoryview(part)[0] in b"[{":  # `split` has checked all that has no names
            _check_parts(part, splits - 1)


def _check_names(body: dict[str, Any]) -> None:
    """Refuse a field whose name differs from a known field's name only in case.

    Raises:
        DecodeError: There is such a field; servers in Go would read it.
    """
    for name in body:
        if name not in _READ and (read := _FOLDED.get(name.casefold())) is not None:
            found = f"a name that differs from {read!r} in case alone"
            raise DecodeError(f"{found}, expected {read!r}", path=read)


class _RepeatedKey(Exception):
    """A JSON object has the same key twice."""


def _check_pairs(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) < len(pairs):
        raise _RepeatedKey


def _refuse_constant(_name: str) -> NoReturn:
    raise ValueError


_STEPWISE = StepwiseDecoder(object_pairs_hook=_check_pairs, parse_constant=_refuse_constant)


class PassthroughAnswer(Struct, frozen=True, kw_only=True):
    """A whole response, passed on unchanged to a client of the same dialect.

    Attributes:
        status: HTTP status.
        content_type: `content-type` of the answer; "" without one.
        body: The complete body.
        error: The error that the body reports; None for a success.
    """

    status: int
    content_type: str
    body: bytes
    error: StreamError | None = None


def check_answer_body(body: bytes, dialect: str) -> StreamError | None:
    """Return an error if a 2xx body is not a JSON object; else None."""
    try:
        body_object(body, Limits())
    except DecodeError:
        return StreamError("malformed", f"{body_kind(body)}, expected an answer of {dialect}")
    return None


class PassthroughStream(Transcoder):
    """A passthrough of a stream in the client's dialect that may begin in the middle of a message.

    A resumed stream begins within a message, which no decoder can check: its events are passed
    unchanged, and only its terminal and its errors are read.  A failure that the stream does not
    show (a cut, a limit, an event that is no JSON) is appended as an error event.

    Args:
        dialect: The dialect.
        limits: Bounds of events; the stream has no bound, since nothing of it is stored.
    """

    def __init__(
        self,
        dialect: str,
        *,
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(dialect, dialect, limits=limits, keep_message=False)
        self._decoder = _TerminalDecoder(lookup(dialect), limits=limits)
        self._passthrough = Passthrough(self._decoder.framing)


class _TerminalDecoder(Decoder):
    """A decoder of only the terminal event, the errors and the sequence numbers of a stream."""

    def __init__(self, known: Dialect, *, limits: Limits) -> None:
        super().__init__(limits=limits)
        self.dialect = known.name
        self._known = known
        self._next_sequence_number = 0

    @property
    def next_sequence_number(self) -> int:
        return self._next_sequence_number

    def read(self, frame: Frame, events: list[Event]) -> None:
        try:
            value = decode_any(frame.data, max_depth=self._limits.max_json_depth)
        except InvalidJSON as exc:
            read_no_json(self, frame, exc, events, (frame.event,))
            return
        if is_object(value) and (number := count_of(value.get("sequence_number"))) is not None:
            self._next_sequence_number = number + 1
        if self._known.is_terminal(frame) or _has_error(value):
            self._read_last(frame, events)

    def _read_last(self, frame: Frame, events: list[Event]) -> None:
        """Append the events of the final frame, which is decoded without the preceding frames."""
        room = decoder(self.dialect, limits=self._limits)
        events += room.feed_frame(frame)
        self.outcome = room.outcome
        if events and isinstance(last := events[-1], StreamError):
            del events[-1]
            raise Fatal(last)


def _has_error(value: Any) -> bool:
    """Return whether an event has an error that ends the stream."""
    if find_error(value) is None:
        return False
    return not (is_object(value) and NOT_OF_A_RESPONSE.match(string_of(value, "type")))
