"""Admission of requests by sender, key, operation, framing and size."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, unquote

from msgspec import structs

from streamnorm._core.codec import Dialect, Operation, RequestedOperation, Route
from streamnorm._registry import DEFAULT_ERROR_DIALECT, DIALECTS
from streamnorm._upstream.requests import ClientRequest, RequestRefused, json_body
from streamnorm.asgi.responses import Receive, Scope
from streamnorm.gateway.config import Config, ConfigError, missing_botocore
from streamnorm.gateway.observing import plain_path
from streamnorm.gateway.pages import Browsers
from streamnorm.http.codings import (
    CONTENT_ENCODING,
    CodingError,
    ContentDecoder,
    content_codings,
    supported_codings,
)
from streamnorm.http.headers import has_signature

if TYPE_CHECKING:
    from streamnorm.gateway.signatures import AccessKeys, Signature

# Of what the dialects know, what a gateway has: nothing of it names another host or account.
_PATHS = re.compile(
    r"(?:/v1(?:alpha|beta)?)?/"
    r"(?:messages|messages/count_tokens|chat/completions"
    r"|(?:interactions|responses)(?:/[^/]+){0,2}|models(?:/.+)?|tunedModels/.+)",
    re.DOTALL,
)
# A client that adds the version to a base URL that has one already.
_TWICE = re.compile(r"(/v1(?:alpha|beta)?)(/v1(?:alpha|beta)?/.+)", re.DOTALL)
_METHOD = re.compile(r"[A-Z]{1,10}", re.ASCII)
_BYTES = "application/octet-stream"
_SHARED: tuple[Operation, ...] = ("models", "model")  # paths of several dialects
_SHARED_HEADER = "authorization"  # of keys of every dialect
_AWS_SDK = "amz-sdk-invocation-id"  # sent by all SDKs of AWS, also with a bearer
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_ONCE = (b"content-length", b"host")
_MAX_QUERY_FIELDS = 100
_MAX_HEAD_BYTES = 64 * 1024  # of all headers and the target; some servers have no bound
# A body that arrives at this pace may take longer than `idle_s`: a large one does over a slow line,
# but one of which a byte arrives now and then would hold its place among `max_streams` for months.
_MIN_BODY_BYTES_S = 16 * 1024
_RETRY_S = 1
# Codex compresses its requests by zstd when it is signed in to ChatGPT.
_CODINGS = supported_codings()
_MAX_CODINGS = 2  # one by the client, one by a proxy


class Admission:
    """Checks and reads requests, and refuses those beyond the configured bounds.

    Args:
        config: The configuration.
        environ: The environment that holds the keys.

    Raises:
        ConfigError: There are no keys where the configuration says, or its `hosts`, `origins` or
            `cors` are wrong.

    Attributes:
        browsers: Rules for pages in a browser.
    """

    def __init__(self, config: Config, environ: Mapping[str, str]) -> None:
        place = config.client_keys
        self._has_keys = config.has_client_keys
        self._keys = ClientKeys([]) if place is None else ClientKeys.of(place, environ)
        self._access_keys = _access_keys(config, environ)
        self.browsers = Browsers(config)
        self._max_streams = config.max_streams
        self._max_body_bytes = config.max_body_bytes
        self._idle_s = config.idle_s
        self._running = self._connected = 0

    def check_sender(self, scope: Scope, received: ClientRequest) -> None:
        """Refuse a request with ambiguous framing, or one from a web page without access.

        Raises:
            RequestRefused: It is not let in.
        """
        _check_framing(scope)
        self.browsers.check(scope, received)

    def check(self, scope: Scope, received: ClientRequest, client: Dialect) -> RequestedOperation:
        """Check a request's head, and return its operation.

        Raises:
            RequestRefused: It is not let in.
        """
        self.check_sender(scope, received)
        # Codex tries a WebSocket first; at 404 or 405 it retries five times, at 426 it goes on with
        # HTTP (openai/codex#43353).
        if "websocket" in received.headers.get("upgrade", "").lower():
            raise refuse_websocket()
        if self._has_keys and self._signature_of(received, client) is None:
            names = client.endpoints.key_headers
            if not self._keys.accept(received.headers, names):
                raise RequestRefused(
                    "no key of this gateway in the request, expected one",
                    401 if client.cloud is None else client.cloud.forbidden_status,
                    code="invalid_api_key",
                )
        asked = _requested_operation(received, client)
        if received.method == "POST":
            _body_decoder(received.headers, self._max_body_bytes)
            json_body(_plain(received, b"", client))
            length = received.headers.get("content-length", "0")
            if not (length.isascii() and length.isdecimal()):
                raise _ill_framed("a content-length that is no number, expected one")
            # Digits are compared, since a number may have more of them than Python converts.
            if len(length.lstrip("0")) > 18 or int(length) > self._max_body_bytes:
                raise _too_large(self._max_body_bytes)
        return asked

    def key_position(self, received: ClientRequest, client: Dialect) -> int:
        """Return the number of a request's key in `client_keys`, from 1; 0 without a valid key."""
        return self._keys.position_in(received.headers, client.endpoints.key_headers)

    @contextmanager
    def enter(self) -> Generator[None]:
        """Count a request as running while the context is open.

        Raises:
            RequestRefused: `max_streams` requests are running.
        """
        # 429 with `retry-after`: SDKs send the request again by themselves.
        if self._running >= self._max_streams:
            raise too_many(f"{self._running} requests are being answered")
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    @contextmanager
    def connect(self) -> Generator[None]:
        """Count a WebSocket as open while the context is open.

        Raises:
            RequestRefused: `max_streams` of them are open.
        """
        if self._connected >= self._max_streams:
            raise too_many(f"{self._connected} WebSockets are open")
        self._connected += 1
        try:
            yield
        finally:
            self._connected -= 1

    def _signature_of(self, received: ClientRequest, client: Dialect) -> Signature | None:
        """Return the AWS signature in a request; None if the request needs no signature check.

        Raises:
            RequestRefused: It cannot be right, whatever the body is.
        """
        is_signed = client.cloud is not None and has_signature(received.headers)
        if self._access_keys is None or not is_signed:
            return None
        return self._access_keys.signature_in(received.headers, datetime.now(UTC))

    async def read(
        self, scope: Scope, receive: Receive, received: ClientRequest, client: Dialect
    ) -> ClientRequest | None:
        """Return the request with its decoded body; None if the client disconnected.

        Raises:
            RequestRefused: The body is larger than the bound, compressed or not; it is corrupt,
                or arrives too slowly; or it is not what was signed.
        """
        signature, body_hash = self._signature_of(received, client), hashlib.sha256()
        decoder = _body_decoder(received.headers, self._max_body_bytes)
        body = BytesIO()  # which returns what it holds without copying it
        size = 0
        loop = asyncio.get_running_loop()
        begun_at = loop.time()
        while True:
            paid_until = min(loop.time(), begun_at + size / _MIN_BODY_BYTES_S)
            try:
                async with asyncio.timeout_at(paid_until + self._idle_s):
                    message = await receive()
            except TimeoutError as exc:
                raise RequestRefused(
                    f"a body that arrives too slowly, expected it within {self._idle_s:g} s, "
                    f"or {_MIN_BODY_BYTES_S} bytes a second",
                    408,
                    headers={"connection": "close"},
                ) from exc
            if message["type"] == "http.disconnect":
                return None
            chunk: bytes = message.get("body", b"")
            size += len(chunk)
            if size > self._max_body_bytes:
                raise _too_large(self._max_body_bytes)
            if signature is not None:
                body_hash.update(chunk)
            if decoder is None:
                body.write(chunk)
            else:
                with self._decoding():
                    for piece in decoder.feed(chunk):
                        body.write(piece)
                        await asyncio.sleep(0)  # a chunk may stand for very many
            if not message.get("more_body", False):
                break
        if signature is not None and self._access_keys is not None:
            target, digest = _spelt_target(scope), body_hash.hexdigest()
            self._access_keys.verify(signature, received.method, target, received.headers, digest)
            received = structs.replace(received, signed_by=signature.key_id)
        if decoder is not None and size:
            with self._decoding():
                decoder.close()
        return _plain(received, body.getvalue(), client)

    @contextmanager
    def _decoding(self) -> Generator[None]:
        """Raise `RequestRefused` for a compressed body that cannot be decoded."""
        try:
            yield
        except CodingError as exc:
            if exc.fault == "too_large":
                raise _too_large(self._max_body_bytes) from exc
            raise RequestRefused(str(exc)) from exc


def too_many(found: str) -> RequestRefused:
    """Return the refusal with status 429 for too many requests, streams or WebSockets."""
    headers = {"retry-after": str(_RETRY_S), "connection": "close"}
    return RequestRefused(
        f"{found}, expected fewer than that; try again later", 429, headers=headers
    )


def refuse_websocket() -> RequestRefused:
    """Return the refusal of a WebSocket with status 426, after which clients use HTTP."""
    return RequestRefused(
        "a WebSocket, expected a request over HTTP", 426, headers={"upgrade": "HTTP/1.1"}
    )


def _path_of(scope: Scope) -> str:
    """Return a request's path below the gateway's mount point.

    A path of a cloud stands as the URL spells it, with the path of the client's base URL.
    """
    root: str = scope.get("root_path", "")
    path: str = scope["path"].removeprefix(root)
    spelt = _spelt_path(scope)
    # The name of a model may have slashes, which are decoded once the route is known.
    if _at_cloud(spelt) is not None:
        return spelt
    return "/" + "/".join(segment for segment in path.split("/") if segment)


def _at_cloud(path: str) -> tuple[Dialect, Route] | None:
    """Return the dialect and route of a path that a cloud serves; None for other paths."""
    for dialect in DIALECTS.values():
        for route in dialect.endpoints.routes:
            if route.cloud is not None and route.path.search(path):
                return dialect, route
    return None


def _spelt_path(scope: Scope) -> str:
    """Return a request's path percent-encoded, as in the URL."""
    raw_path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    return raw_path.decode("latin-1")


def _spelt_target(scope: Scope) -> str:
    query: bytes = scope.get("query_string", b"")
    return f"{_spelt_path(scope)}?{query.decode('latin-1')}"


def parse_request(scope: Scope) -> ClientRequest:
    """Return an ASGI request as a `ClientRequest` without body."""
    values: dict[str, list[str]] = {}
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1").lower()
        values.setdefault(name, []).append(raw_value.decode("latin-1"))
    query = scope.get("query_string", b"").decode("latin-1")
    try:
        fields = parse_qsl(query, max_num_fields=_MAX_QUERY_FIELDS)
    except ValueError:
        fields = []
    return ClientRequest(
        method=scope.get("method", "GET"),
        path=_path_of(scope),
        headers={name: ", ".join(several) for name, several in values.items()},
        body=b"",
        query=tuple(fields),
    )


def client_of(received: ClientRequest) -> Dialect:
    """Return the client's dialect, from the request's path, else its headers."""
    if (at_cloud := _at_cloud(received.path)) is not None:
        dialect, route = at_cloud
        return dialect.adapt_to_route(route)
    known = [dialect for dialect in DIALECTS.values() if dialect.endpoints.routes]
    for dialect in known:
        for route in dialect.endpoints.routes:
            if route.operation not in _SHARED and route.path.search(received.path):
                return dialect
    default = DIALECTS[DEFAULT_ERROR_DIALECT]
    for dialect in known:
        endpoints = dialect.endpoints
        # `GET /v1/models` is a path of OpenAI and Anthropic: `x-api-key` and `anthropic-version`
        # decide.
        own = {*endpoints.key_headers, *endpoints.vendor_headers} - {_SHARED_HEADER}
        own -= {*default.endpoints.key_headers, *default.endpoints.vendor_headers}
        if not own.isdisjoint(received.headers):
            return dialect
    for dialect in known:
        path = dialect.endpoints.models_path
        if path != default.endpoints.models_path and f"{received.path}/".startswith(f"{path}/"):
            return dialect
    # Bedrock has more operations than a gateway, such as its guardrails: their clients read no
    # error but in the form of AWS, and are let in by their signature.
    if _is_of_aws(received.headers) and not _PATHS.fullmatch(received.path):
        return _client_of_aws()
    return default


def _is_of_aws(headers: Mapping[str, str]) -> bool:
    """Return whether a request was sent by an SDK of AWS, or signed as for one of its services."""
    return _AWS_SDK in headers or has_signature(headers)


def _client_of_aws() -> Dialect:
    """Return the dialect that a cloud alone speaks, in the form of that cloud."""
    speakers = (each for each in DIALECTS.values() if each.endpoints.routes)
    dialect = next(each for each in speakers if each.endpoints.routes[0].cloud is not None)
    return dialect.adapt_to_route(dialect.endpoints.routes[0])


def _requested_operation(received: ClientRequest, client: Dialect) -> RequestedOperation:
    """Return the operation of a request, from its method and path.

    Raises:
        RequestRefused: The gateway has no such path, or it has another method.
    """
    path, endpoints = received.path, client.endpoints
    if _is_known(path, client):
        asked = endpoints.match(received.method, path)
        if asked is not None:
            return asked
        methods = {route.method for route in endpoints.routes if route.path.search(path)}
        if methods:
            listed = ", ".join(sorted(methods))
            is_plain = _METHOD.fullmatch(received.method) is not None
            method = f"method {received.method}" if is_plain else "another method"
            raise RequestRefused(
                f"{plain_path(path)}: {method}, expected {listed}", 405, headers={"allow": listed}
            )
    expected = "that of a message, a count or a list"
    # Users write `/v1` into the base URL of SDKs that add it: the error names the cure.
    twice = _TWICE.fullmatch(path)
    if twice is not None and _is_known(twice[2], client):
        expected = f"{plain_path(twice[2])}: leave {twice[1]} out of the client's base URL"
    raise RequestRefused(
        f"{plain_path(path)}: no endpoint of this gateway, expected {expected}",
        404,
        code="unknown_url",
    )


def _is_known(path: str, client: Dialect) -> bool:
    has_route = bool(_PATHS.fullmatch(path) or client.endpoints.cloud_route(path))
    has_route = has_route or path == client.page_path
    return path.isprintable() and has_route and not _has_dots(path)


def _plain(received: ClientRequest, body: bytes, client: Dialect) -> ClientRequest:
    """Return a request with the decompressed body and without its `content-encoding`."""
    headers = {name: value for name, value in received.headers.items() if name != CONTENT_ENCODING}
    # AWS's SDK for JavaScript names no other type; a page needs a preflight to do so.
    if client.cloud is not None and headers.get("content-type") == _BYTES:
        del headers["content-type"]
    return structs.replace(received, headers=headers, body=body)


def _body_decoder(headers: Mapping[str, str], max_bytes: int) -> ContentDecoder | None:
    """Return the decoder of a compressed body; None for other bodies.

    Raises:
        RequestRefused: It has a coding that is not supported, or too many of them.
    """
    if CONTENT_ENCODING not in headers:
        return None
    codings = content_codings(headers[CONTENT_ENCODING])
    if not codings:
        return None
    supported = ", ".join(_CODINGS)
    # RFC 9110, section 12.5.3: the codings that a server accepts after a 415.
    accepted = {"accept-encoding": supported}
    if any(name not in _CODINGS for name in codings):
        found = f"a {CONTENT_ENCODING} that is not supported, expected one of {supported}"
        raise RequestRefused(found, 415, headers=accepted)
    if len(codings) > _MAX_CODINGS:
        found = f"{len(codings)} codings of a body, expected at most {_MAX_CODINGS}"
        raise RequestRefused(found, 415, headers=accepted)
    return ContentDecoder(codings, max_bytes)


def _too_large(max_bytes: int) -> RequestRefused:
    """Return the refusal with status 413 for a body above `max_bytes`."""
    return RequestRefused(
        f"a body that is too large, expected at most {max_bytes} bytes",
        413,
        headers={"connection": "close"},
    )


def _has_dots(path: str) -> bool:
    return any(unquote(segment) in (".", "..") for segment in path.split("/"))


def _check_framing(scope: Scope) -> None:
    """Refuse a request with ambiguous framing or too many headers.

    Raises:
        RequestRefused: It is such a one.
    """
    size = len(scope.get("raw_path") or scope["path"]) + len(scope.get("query_string", b""))
    size += sum(len(name) + len(value) for name, value in scope["headers"])
    if size > _MAX_HEAD_BYTES:
        raise RequestRefused(
            f"a target and headers that are too large, expected at most {_MAX_HEAD_BYTES} bytes",
            431,
            headers={"connection": "close"},
        )
    names = [name.lower() for name, _ in scope["headers"]]
    # RFC 9112, section 6.1: a proxy that goes by the other one sees another request.
    if b"content-length" in names and b"transfer-encoding" in names:
        raise _ill_framed("both content-length and transfer-encoding, expected one of them")
    # Some proxies use the first of them, others the last.
    for name in _ONCE:
        if names.count(name) > 1:
            raise _ill_framed(f"{name.decode()} more than once, expected it once")
    for name, value in scope["headers"]:
        if _CONTROL.search(name) or _CONTROL.search(value):
            raise _ill_framed("a header with a control character, expected none")


def _ill_framed(message: str) -> RequestRefused:
    return RequestRefused(message, 400, headers={"connection": "close"})


MAX_KEY_BYTES = 512
"""Bound on one key."""

_BEARER = "bearer "
# A name of this form is shown in errors.  What stands in its place may be a key.
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
# What a header may hold.  Of NAME="value" in a file, docker's --env-file leaves the quotes on.
_KEY = re.compile(rf"(?!['\"])[!-~]{{1,{MAX_KEY_BYTES}}}(?<!['\"])", re.ASCII)


def resolve_key(
    place: str, where: str, environ: Mapping[str, str], other: str = "", wanted: str = "a key"
) -> str:
    """Return the value of the environment variable in `env:NAME`.

    Args:
        place: The value of a configuration's key.
        where: That key.
        environ: The environment.
        other: Other values of the key, for the error message.
        wanted: Value that the variable should hold, for the error message.

    Raises:
        ConfigError: It is no such place, or the variable is not set or empty.
    """
    kind, _, variable = place.partition(":")
    if kind != "env" or not _VARIABLE.fullmatch(variable):
        expected = f"{other}{', or ' if other else ''}env: and the name of a variable"
        raise ConfigError(f"{where}: no place of a key, expected {expected}")
    value = environ.get(variable, "")
    if not value:
        state = "empty" if variable in environ else "not set"
        raise ConfigError(f"{where}: {variable} is {state} in the environment, expected {wanted}")
    return value


def check_key(key: str, where: str, min_chars: int = 1) -> str:
    """Check that a header can hold a key, and return the key.

    Raises:
        ConfigError: No header can hold it, it is quoted, or it is too long or too short.
    """
    if not _KEY.fullmatch(key) or len(key) < min_chars:
        raise ConfigError(
            f"{where}: a key of {len(key)} characters, expected {min_chars} to {MAX_KEY_BYTES} "
            "characters of ASCII without spaces, in no quotation marks"
        )
    return key


def _access_keys(config: Config, environ: Mapping[str, str]) -> AccessKeys | None:
    """Return the AWS access keys that clients may sign with; None if there are none."""
    where = "aws_client_keys"
    if config.aws_client_keys is None:
        return None
    try:
        from streamnorm.gateway.signatures import AccessKeys
    except ModuleNotFoundError as exc:
        raise missing_botocore(where) from exc
    return AccessKeys(resolve_key(config.aws_client_keys, where, environ))


class ClientKeys:
    """The API keys that clients may use.

    Args:
        keys: The keys.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        # Digests have one length, so a comparison shows nothing of a key, not even its length.
        self._digests = [_digest(key) for key in keys]

    @classmethod
    def of(
        cls,
        place: str,
        environ: Mapping[str, str],
        where: str = "client_keys",
        min_chars: int = 1,
    ) -> ClientKeys:
        """Return the keys in the variable of `env:NAME`, separated by commas.

        Raises:
            ConfigError: There are none, or one is no key.
        """
        listed = resolve_key(place, where, environ).split(",")
        return cls([check_key(key.strip(), where, min_chars) for key in listed])

    def accept(self, headers: Mapping[str, str], names: Iterable[str]) -> bool:
        """Return whether one of the named headers holds a valid key.

        Args:
            headers: Headers of a request by lower-case name, decoded as Latin-1.
            names: Names of the headers that may hold a key.
        """
        return self.position_in(headers, names) > 0

    def position_in(self, headers: Mapping[str, str], names: Iterable[str]) -> int:
        """Return the position of the client's key among the valid keys, from 1; 0 if it is none.

        Args:
            headers: As those of `accept`.
            names: As those of `accept`.
        """
        found = 0
        for name in names:
            key = _bare(name, headers.get(name, ""))
            if 0 < len(key) <= MAX_KEY_BYTES:
                found = self._position_of(key) or found
        return found

    def has(self, key: str) -> bool:
        """Return whether a key is valid, in a time that reveals nothing about the key."""
        return self._position_of(key) > 0

    def _position_of(self, key: str) -> int:
        digest, found = _digest(key), 0
        for position, known in enumerate(self._digests, 1):  # all of them, whichever it is
            if hmac.compare_digest(digest, known):
                found = position
        return found


def _bare(name: str, value: str) -> str:
    """Return the key in a header's value, without `Bearer`."""
    value = value.strip()
    if name != "authorization":
        return value
    return value[len(_BEARER) :].strip() if value.lower().startswith(_BEARER) else ""


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
