"""The HTTP interface of a dialect: which method and path ask for what."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from streamnorm._core.json import is_object

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
"""What a request asks for.

    message      a message, whole
    stream       a message, streamed
    count        the number of tokens of a request
    models       the models that may be named
    model        one of them
    response     a stored response, with `response_id`
    delete       that a stored response is deleted
    cancel       that a stored response is not completed
    input_items  the input of a stored response
    compact      a conversation in fewer tokens
"""

# Of every dialect, or of none: lists of models and of items are no messages.
_NOT_OF_DIALECT: frozenset[Operation] = frozenset({"models", "model", "input_items"})

_VERSION = re.compile(r"v[0-9]+(?:(?:alpha|beta)[0-9]*)?", re.ASCII)


class Route(Struct, frozen=True):
    """One method and path.

    Attributes:
        method: The method, in upper case.
        path: Pattern searched in a path; a group `model` is the name of a model, a group
            `response_id` the id of a stored response.
        operation: What it asks for; `stream` if the body has no say in it.
    """

    method: str
    path: re.Pattern[str]
    operation: Operation


class RequestedOperation(Struct, frozen=True):
    """What a request asks for, by its method, its path and its body.

    Attributes:
        operation: What.
        model: The model that it names, in the path or else in the body; "" if it names none.
        response_id: Id of the stored response in the path; "" if there is none.
    """

    operation: Operation
    model: str = ""
    response_id: str = ""


class Endpoints(Struct, frozen=True, kw_only=True):
    """The HTTP interface of a dialect.

    Paths are decoded, without empty segments and without query.  Whatever precedes the part
    that a route names may be the path of the client's base URL, with a version or without.

    Attributes:
        routes: Its routes.  The first that matches counts.
        models_path: Path of the list of models, with the version of the API; the path of one
            model goes on with its name.
        versioned_base: Whether the vendor's SDK has the version in its base URL.
        key_headers: Request headers that hold the API key, the vendor's first.
        vendor_headers: Further request headers that mean something to the vendor.
        account_headers: Vendor headers that name the billed account, which belongs to a key.
        body_headers: Those of them that say what the body uses: the writer of a body says them
            anew, since some of what the client sent may be gone.
        passed_query: Names in the query of a request that mean something to the vendor.
        request_id_header: Response header that names the exchange.
        servers: Names of servers, by a suffix of their host, that do not follow from it.
        volatile_system_prefix: Prefix of system blocks that a client changes with each
            request; None if there are none.
    """

    routes: tuple[Route, ...] = ()
    models_path: str = "/v1/models"
    versioned_base: bool = False
    key_headers: tuple[str, ...] = ("authorization",)
    vendor_headers: tuple[str, ...] = ()
    account_headers: frozenset[str] = frozenset()
    body_headers: frozenset[str] = frozenset()
    passed_query: tuple[str, ...] = ()
    request_id_header: str = "x-request-id"
    servers: dict[str, str] = {}
    volatile_system_prefix: str | None = None

    def match(self, method: str, path: str, body: object = None) -> RequestedOperation | None:
        """Return what a request asks for, or None if the dialect has no such route.

        Args:
            method: The method, in upper case.
            path: The path.
            body: The decoded body, which decides between `message` and `stream`.
        """
        if (found := self._find(method, path)) is None:
            return None
        operation, match = found
        if operation == "message" and _wants_stream(body):
            operation = "stream"
        model = _group(match, "model") or _model_in(body)
        return RequestedOperation(operation, model, _group(match, "response_id"))

    def canonical_path(self, method: str, path: str) -> str:
        """Return what a route names in a path, with the version of the API; "" for no route."""
        if (found := self._find(method, path)) is None:
            return ""
        _, match = found
        return f"/{self.models_path.split('/')[1]}{path[match.start() :]}"

    def serves(self, path: str) -> bool:
        """Return whether the answers of a path are of this dialect, whatever the method."""
        return any(
            route.operation not in _NOT_OF_DIALECT and route.path.search(path)
            for route in self.routes
        )

    def streams(self, path: str, body: object) -> bool:
        """Return whether a request asks for a stream, whatever its path."""
        return _wants_stream(body) or self._posts(path, "stream")

    def counts(self, path: str) -> bool:
        """Return whether a request asks how many tokens another one would have."""
        return self._posts(path, "count")

    def model(self, path: str, body: object) -> str:
        """Return the model that a request for a message names, or "" if it names none."""
        asked = self.match("POST", path)
        return (asked.model if asked is not None else "") or _model_in(body)

    def url(self, base_url: str, path: str) -> str:
        """Return the URL of an endpoint.

        The version of the API stands in it once: that of the base URL, if it has one.

        Args:
            base_url: URL of the server, with a version such as `/v1` or without; it may have
                a query, which is kept.
            path: Path of the endpoint, as a request was encoded with; it may have a query.
        """
        base = urlsplit(base_url)
        segments = [segment for segment in base.path.split("/") if segment]
        path, _, query = path.lstrip("/").partition("?")
        version, _, rest = path.partition("/")
        # The base URL of an SDK of OpenAI may go on after it: `/v1beta/openai`.
        versions = segments if self.versioned_base else segments[-1:]
        if _VERSION.fullmatch(version) and any(map(_VERSION.fullmatch, versions)):
            path = rest
        queries = "&".join(part for part in (base.query, query) if part)
        return urlunsplit((base.scheme, base.netloc, "/".join(["", *segments, path]), queries, ""))

    def _find(self, method: str, path: str) -> tuple[Operation, re.Match[str]] | None:
        """Return the operation of the first route that matches, and its match."""
        for route in self.routes:
            if route.method == method and (match := route.path.search(path)):
                return route.operation, match
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
