"""Requests for an upstream of the client's own dialect: checked, and passed on.

They pass as they are, but for what a server refuses that has a name and profiles.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, NoReturn
from urllib.parse import quote, urlencode

from msgspec import Raw, Struct

from streamnorm._bodies import Encoded, codec_of, encode_request, request_of, target_of
from streamnorm._core.bodies.parsing import body_object
from streamnorm._core.bodies.request import Reply
from streamnorm._core.codec import Decoder, Dialect, Passthrough, read_no_json
from streamnorm._core.errors import DecodeError
from streamnorm._core.events import Event, StreamError
from streamnorm._core.failures import Fatal, body_kind, find_error
from streamnorm._core.json import (
    FAST_ERRORS,
    InvalidJSON,
    StepwiseDecoder,
    count_of,
    decode_any,
    is_object,
    string_of,
)
from streamnorm._core.large_json import split
from streamnorm._core.limits import Limits
from streamnorm._decoding import decoder
from streamnorm._registry import lookup
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
from streamnorm.http.urls import endpoint_url
from streamnorm.profiles import shipped_profiles
from streamnorm.sse import Frame

# Fields that decide what becomes of a request.  Servers in Go (encoding/json) read a field also by
# a name in other case, and the last one of several counts.
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
    """Return a request for a message, for an upstream of the client's dialect.

    The body is passed byte for byte.  Where the upstream has another name for the model, or its
    server refuses a part of the request, that alone is changed; white space between the fields
    is lost.

    Args:
        received: The request.
        upstream: The provider.
        limits: Bounds of the body.

    Raises:
        RequestRefused: The body is no JSON object, exceeds a bound, has an object with a key
            twice, or has a name that differs from one read here in case alone: what was read
            here might not be what the provider reads; or the server refuses it in every form.
    """
    dialect = lookup(upstream.dialect)
    data = json_body(received)
    with refusals():
        body = decode_request_body(received, limits)
        _check_keys(data)
        _check_names(body)
        asked = dialect.endpoints.match(received.method, received.path, body)
        name = "" if asked is None else asked.model
        own, path = upstream.upstream_model(name), received.path
        narrowed = _narrowed(body, received, upstream, dialect, limits)
        if own != name:
            head, slash, tail = path.rpartition(f"/{name}:")
            if slash:
                path = f"{head}/{own}:{tail}"
            elif narrowed is None:
                data = splice(data, body, {**body, "model": own})
        target = passthrough_path(path, received, dialect)
        if narrowed is not None:
            data = splice(data, body, narrowed.encoded.body)
            target = narrowed.path or target
        url = endpoint_url(upstream.base_url, target, dialect.endpoints)
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


class _Narrowed(NamedTuple):
    """A request as a named server of its own dialect takes it.

    Attributes:
        encoded: The request, with all betas that are sent.
        path: Path of the server's endpoint; None for the client's.
        beta_header: Header of the client that lists betas.
    """

    encoded: Encoded
    path: str | None
    beta_header: str | None


def _narrowed(
    body: dict[str, Any],
    received: ClientRequest,
    upstream: Upstream,
    dialect: Dialect,
    limits: Limits,
) -> _Narrowed | None:
    """Return a request without what its server refuses; None if nothing is known of the server.

    Raises:
        EncodeError: It has no legal form for the server.
    """
    profiles = upstream.profiles or shipped_profiles()
    if not profiles.knows(upstream.server, dialect.name):
        return None
    try:
        request = request_of(
            body, dialect.name, path=received.path, headers=received.headers, limits=limits
        )
    except DecodeError:
        return None  # what it is is the upstream's affair
    request = upstream.with_upstream_model(request)
    encoded = encode_request(request, dialect.name, server=upstream.server, profiles=profiles)
    base = codec_of(dialect.name).capabilities
    target = target_of(request, base, profiles, upstream.server, None)
    return _Narrowed(encoded, None if target.path is None else encoded.path, target.beta_header)


def passthrough_path(path: str, received: ClientRequest, dialect: Dialect) -> str:
    """Return path and query of a request for an upstream of its own dialect.

    Args:
        path: The path, decoded.
        received: The request; of its query only what the vendor knows is passed.
        dialect: The dialect of both.
    """
    known = dialect.endpoints.forwarded_query
    query = urlencode([pair for pair in received.query if pair[0] in known])
    quoted = quote(path, safe="/:@")
    return f"{quoted}?{query}" if query else quoted


def passthrough_body(received: ClientRequest, upstream: Upstream) -> bytes | None:
    """Return the body of a request for no message; None if it has none.

    Raises:
        RequestRefused: As for `prepare_passthrough`.
    """
    if received.body == b"":
        return None
    data = json_body(received)
    with refusals():
        body = decode_request_body(received, Limits())
        _check_keys(data)
        _check_names(body)
    name = string_of(body, "model")
    own = upstream.upstream_model(name)
    return data if not name or own == name else splice(data, body, {**body, "model": own})


def _check_keys(data: bytes) -> None:
    """Refuse an object with a key twice at any depth, also where the parser dropped it.

    Raises:
        DecodeError: There is one, or the text is no strict JSON.
    """
    try:
        _check_parts(data)
    except _RepeatedKey as exc:
        raise DecodeError("an object with a key twice, expected each key once") from exc
    except (ValueError, RecursionError) as exc:  # a value that a later key hides may nest deep
        raise DecodeError("no strict JSON, expected a JSON object") from exc


def _check_parts(text: bytes | Raw, splits: int = _MAX_SPLITS) -> None:
    """Check JSON as `_check_keys` does, of large JSON one part after the other."""
    try:
        parts = split(text) if splits else None
    except FAST_ERRORS:  # half a surrogate pair
        _STEPWISE.decode(bytes(text).decode("utf-8", "surrogatepass"))
        return
    if parts is None:
        json.loads(bytes(text), object_pairs_hook=_once, parse_constant=_no_number)
        return
    names = set[str]()
    for name in parts.names or ():  # a set of many names is made by one call, or name by name
        if name in names:
            raise _RepeatedKey
        names.add(name)
    for part in parts.texts:
        if memoryview(part)[0] in b"[{":  # `split` has checked all that has no names
            _check_parts(part, splits - 1)


def _check_names(body: dict[str, Any]) -> None:
    """Refuse a field that some servers read as one which was read here, and its value was not.

    Raises:
        DecodeError: There is one.
    """
    for name in body:
        if name not in _READ and (read := _FOLDED.get(name.casefold())) is not None:
            found = f"a name that differs from {read!r} in case alone"
            raise DecodeError(f"{found}, expected {read!r}", path=read)


class _RepeatedKey(Exception):
    """An object has a key twice."""


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) < len(pairs):
        raise _RepeatedKey


def _no_number(_name: str) -> NoReturn:
    raise ValueError


_STEPWISE = StepwiseDecoder(object_pairs_hook=_once, parse_constant=_no_number)


class PassthroughAnswer(Struct, frozen=True, kw_only=True):
    """The answer of an upstream of the client's dialect, as the client reads it.

    Attributes:
        status: HTTP status.
        content_type: Its `content-type`; "" if it has none.
        body: The whole body.
        error: The error that it reports; None if it reports none.
    """

    status: int
    content_type: str
    body: bytes
    error: StreamError | None = None


def check_answer_body(body: bytes, dialect: str) -> StreamError | None:
    """Return the error of a successful answer whose body is none of its dialect; else None."""
    try:
        body_object(body, Limits())
    except DecodeError:
        return StreamError("malformed", f"{body_kind(body)}, expected an answer of {dialect}")
    return None


class PassthroughStream(Transcoder):
    """Pass on a stream to its own dialect, whichever of its events is the first.

    A stream that is resumed begins within a message, which no decoder can check.  Its events
    are passed unchanged; only its terminal and its errors are read.  What it does not show (a
    cut, a limit, an event that is no JSON) is an error event.

    Args:
        dialect: The dialect.
        limits: Bounds of events; the stream is not bounded, for nothing of it is stored.
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
    """Reads the terminal and the errors of a stream, and of its other events the numbers."""

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
        if self._known.is_terminal(frame) or find_error(value) is not None:
            self._read_last(frame, events)

    def _read_last(self, frame: Frame, events: list[Event]) -> None:
        """Append the events of a frame that ends the stream, without those before it."""
        room = decoder(self.dialect, limits=self._limits)
        events += room.feed_frame(frame)
        self.outcome = room.outcome
        if events and isinstance(last := events[-1], StreamError):
            del events[-1]
            raise Fatal(last)
