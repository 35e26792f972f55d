"""Paths and operations of a dialect's HTTP interface, and the clouds that serve it.

https://docs.aws.amazon.com/bedrock/latest/APIReference, as botocore 1.44.5 has it in
`bedrock-runtime/2023-09-30/service-2.json` (read 2026-11-23).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote, urlsplit, urlunsplit

from msgspec import Struct

from streamnorm._core.codec.framing import Framing
from streamnorm._core.errors import EncodeError
from streamnorm._core.events import StreamError
from streamnorm._core.json import dumps, is_object

_MESSAGE = "message"

Operation: TypeAlias = Literal[
    "message",
    "stream",
    "count",
    "models",
    "model",
    "response",
    "delete",
    "cancel",
    "input_items",
    "compact",
]
"""An operation of a provider's API.

    message      create a message, returned whole
    stream       create a message, streamed
    count        count the tokens of a request
    models       list the models
    model        describe one model
    response     fetch a stored response by `response_id`
    delete       delete a stored response
    cancel       cancel a stored response that is not complete
    input_items  list the input of a stored response
    compact      compact a conversation to fewer tokens
"""

# Responses of these operations are no messages, and do not tell dialects apart.
_NOT_OF_DIALECT: frozenset[Operation] = frozenset({"models", "model", "input_items"})

_VERSION = re.compile(r"v[0-9]+(?:(?:alpha|beta)[0-9]*)?", re.ASCII)


class Cloud(Struct, frozen=True, kw_only=True):
    """The HTTP conventions of a cloud: headers, statuses and error types.

    The name of a model is one percent-encoded segment of its paths, and the path alone decides
    whether an answer is streamed.

    Attributes:
        name: Name of the cloud, as of its server in profiles.
        key_headers: Request headers that may hold a key.
        header_prefix: Prefix of the cloud's own headers, which are passed on with requests and
            answers.
        request_id_header: Response header with the id of the request.
        overloaded_status: HTTP status of an overloaded server.
        forbidden_status: HTTP status of a request without a valid key.
        error_type: Function from an error to the name of the exception that clients read.
        error_type_header: Response header with that type.
    """

    name: str
    key_headers: tuple[str, ...]
    header_prefix: str
    request_id_header: str
    overloaded_status: int
    forbidden_status: int
    error_type: Callable[[StreamError], str]
    error_type_header: str

    def error_body(self, message: str) -> bytes:
        """Return the JSON body of an error response."""
        body: dict[str, Any] = {_MESSAGE: message}
        return dumps(body)

    def error_headers(self, error: StreamError) -> dict[str, str]:
        """Return the headers of an error response, which hold the exception's type."""
        return {self.error_type_header: self.error_type(error)}


# The errors of the operations, and those of all services of AWS, by their HTTP status.
_TYPES = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    402: "AccessDeniedException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    409: "ConflictException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
    504: "ModelTimeoutException",
    529: "ThrottlingException",
}
_NAMES = frozenset(_TYPES.values()) | {
    "ConflictException",
    "ExpiredTokenException",
    "IncompleteSignatureException",
    "InternalServerException",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "ModelNotReadyException",
    "ModelStreamErrorException",
    "ServiceQuotaExceededException",
}


def _exception_of(error: StreamError) -> str:
    """Return the AWS exception name of an error: from its code, else from its status."""
    code = error.code or ""
    # An exception of a stream has the same name, beginning with a small letter.
    name = code[:1].upper() + code[1:]
    if name in _NAMES:
        return name
    status = error.status_hint or 500
    return _TYPES.get(status, "ValidationException" if status < 500 else "InternalServerException")


BEDROCK = Cloud(
    name="bedrock",
    key_headers=("authorization",),
    header_prefix="x-amzn-bedrock-",
    request_id_header="x-amzn-requestid",
    overloaded_status=429,
    forbidden_status=403,
    error_type=_exception_of,
    # Without it, boto3 reports the status as the code of the error.
    error_type_header="x-amzn-errortype",
)
"""Amazon Bedrock."""


class Route(Struct, frozen=True):
    """An HTTP method and path pattern with its operation.

    Attributes:
        method: HTTP method, in upper case.
        path: Pattern searched in a path; a group `model` is the name of a model, a group
            `response_id` the id of a stored response.
        operation: The operation; `stream` if the path alone asks for a stream.
        framing: Framing of its streams; None for that of the dialect.
        cloud: Cloud that has the path; None for the vendor and its conventions.  The pattern is
            searched in the path as the URL spells it, and the name of the model is decoded.
    """

    method: str
    path: re.Pattern[str]
    operation: Operation
    framing: Framing | None = None
    cloud: Cloud | None = None


class RequestedOperation(Struct, frozen=True):
    """The operation that a request asks for, from its method, path and body.

    Attributes:
        operation: The operation.
        model: Name of the model, from the path or else from the body, or "".
        response_id: Id of the stored response in the path, or "".
        framing: Framing of the stream; None for that of the dialect.
        cloud: Cloud that has the path; None for the vendor.
    """

    operation: Operation
    model: str = ""
    response_id: str = ""
    framing: Framing | None = None
    cloud: Cloud | None = None

    def with_body(self, body: dict[str, Any]) -> RequestedOperation:
        """Return the operation completed by the body: its model, and whether it streams."""
        if self.cloud is not None:  # the path alone decides
            return self
        # Gemini has a path for streams, all others a field of the body.
        operation = self.operation
        if operation == "message" and body.get("stream") is True:
            operation = "stream"
        model = self.model or _model_in(body)
        return RequestedOperation(operation, model, self.response_id)


class Endpoints(Struct, frozen=True, kw_only=True, dict=True):
    """The HTTP interface of a dialect: routes, headers and query parameters.

    Paths are decoded, without empty segments and without query; those of a cloud stand as the
    URL spells them.  Whatever precedes the part that a route names may be the path of the
    client's base URL, with a version or without.

    Attributes:
        routes: Routes; the first that matches wins.
        models_path: Path of the model list, with the version of the API; the path of one model
            appends its name.
        versioned_base: Whether the vendor's SDK has the version in its base URL.
        key_headers: Request headers that may hold the API key, the vendor's first.
        vendor_headers: Further request headers that the vendor reads.
        account_headers: Vendor headers that name the billed account, which belongs to a key.
        body_headers: Vendor headers that describe the body, such as betas.  The writer of a
            translated body sends them anew: the body may have lost what they announce.
        forwarded_query: Query parameters that the vendor reads.
        request_id_header: Response header with the id of the request.
        servers: Names of servers by a suffix of their host, where the name does not follow from
            the host.
        volatile_system_prefix: Prefix of system blocks that a client changes with each
            request; None if there are none.
        socket_framing: Framing of the streams on a WebSocket at the path of messages; None if the
            vendor has none.
    """

    routes: tuple[Route, ...] = ()
    models_path: str = "/v1/models"
    versioned_base: bool = False
    key_headers: tuple[str, ...] = ("authorization",)
    vendor_headers: tuple[str, ...] = ()
    account_headers: frozenset[str] = frozenset()
    body_headers: frozenset[str] = frozenset()
    forwarded_query: tuple[str, ...] = ()
    request_id_header: str = "x-request-id"
    servers: dict[str, str] = {}
    volatile_system_prefix: str | None = None
    socket_framing: Framing | None = None

    def match(self, method: str, path: str, body: object = None) -> RequestedOperation | None:
        """Return the operation of a request; None if no route matches.

        Args:
            method: HTTP method, in upper case.
            path: Path of the URL.
            body: Decoded body, which decides between `message` and `stream`.
        """
        if (found := self._find(method, path)) is None:
            return None
        route, match = found
        asked = RequestedOperation(
            route.operation, _group(match, "model"), _group(match, "response_id")
        )
        if route.cloud is not None:
            model = unquote(asked.model)
            asked = RequestedOperation(route.operation, model, "", route.framing, route.cloud)
        return asked if body is None or not is_object(body) else asked.with_body(body)

    def canonical_path(self, method: str, path: str) -> str:
        """Return the API version, followed by the matched part of a path.

        "" if no route matches.
        """
        if (found := self._find(method, path)) is None:
            return ""
        _, match = found
        return f"/{self.models_path.split('/')[1]}{path[match.start() :]}"

    def rename_model(self, path: str, model: str) -> str:
        """Return a cloud's path with another model, without the client's base path.

        Args:
            path: The path, as the URL spells it; any other path is returned as it is.
            model: Name of the model, as the path is to spell it.
        """

        def rename(found: re.Match[str]) -> str:
            start = path.rfind("/", 0, found.start("model") - 1)
            return f"{path[start : found.start('model')]}{model}{path[found.end('model') :]}"

        route = self.cloud_route(path)
        return path if route is None else route.path.sub(rename, path)

    def cloud_route(self, path: str) -> Route | None:
        """Return the cloud's route that matches a path, or None."""
        return next((r for r in self.routes if r.cloud is not None and r.path.search(path)), None)

    @cached_property
    def compacts(self) -> bool:
        """Whether the dialect has an endpoint that compacts conversations."""
        return any(route.operation == "compact" for route in self.routes)

    def serves(self, path: str) -> bool:
        """Return whether the responses of a path are messages of this dialect."""
        return any(
            route.operation not in _NOT_OF_DIALECT and route.path.search(path)
            for route in self.routes
        )

    def streams(self, path: str, body: object) -> bool:
        """Return whether a request asks for a stream, by its path or its body."""
        if self.cloud_route(path) is not None:
            body = None  # the path alone decides
        return _wants_stream(body) or self._posts(path, "stream")

    def counts(self, path: str) -> bool:
        """Return whether a path is the endpoint of token counts."""
        return self._posts(path, "count")

    def model(self, path: str, body: object) -> str:
        """Return the model named by a message request, or ""."""
        asked = self.match("POST", path)
        return (asked.model if asked is not None else "") or _model_in(body)

    def url(self, base_url: str, path: str) -> str:
        """Return the URL of an endpoint.

        If the base URL has a version of the API, the version of the path is left out.

        Args:
            base_url: URL of the server, with a version such as `/v1` or without, and perhaps
                with a query.
            path: Path of the endpoint, from an encoded request; perhaps with a query.

        Raises:
            EncodeError: The path leaves the base URL.
        """
        # The name of a model stands in Gemini's paths, and comes from the client.
        steps = path.partition("?")[0].split("/")
        if any(unquote(step) in (".", "..") for step in steps):
            raise EncodeError("a path with dot segments, expected none", path="model")
        base = urlsplit(base_url)
        segments = [segment for segment in base.path.split("/") if segment]
        path, _, query = path.lstrip("/").partition("?")
        # Users paste base URLs from documents of SDKs, of which OpenAI's have the version and
        # Anthropic's have not.
        version, _, rest = path.partition("/")
        # In base URLs of OpenAI's SDK more may follow the version: `/v1beta/openai`.
        versions = segments if self.versioned_base else segments[-1:]
        if _VERSION.fullmatch(version) and any(map(_VERSION.fullmatch, versions)):
            path = rest
        queries = "&".join(part for part in (base.query, query) if part)
        return urlunsplit((base.scheme, base.netloc, "/".join(["", *segments, path]), queries, ""))

    def _find(self, method: str, path: str) -> tuple[Route, re.Match[str]] | None:
        """Return the first matching route, and its match."""
        for route in self.routes:
            if route.method == method and (match := route.path.search(path)):
                return route, match
        return None

    def _posts(self, path: str, operation: Operation) -> bool:
        asked = self.match("POST", path)
        return asked is not None and asked.operation == operation


def _wants_stream(body: object) -> bool:
    return is_object(body) and body.get("stream") is True


def _model_in(body: object) -> str:
    model = body.get("model") if is_object(body) else None
    return model if isinstance(model, str) else ""


def _group(match: re.Match[str], name: str) -> str:
    return match.groupdict().get(name) or ""
