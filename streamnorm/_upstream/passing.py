"""A client's request for an upstream of its own dialect: checked, and passed on as it is."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

from streamnorm._core.bodies.parsing import body_object
from streamnorm._core.bodies.reply import Reply
from streamnorm._core.codec import Dialect
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import dumps
from streamnorm._core.limits import Limits
from streamnorm._registry import lookup
from streamnorm._upstream.headers import request_headers
from streamnorm._upstream.requests import (
    ClientRequest,
    Upstream,
    UpstreamRequest,
    json_body,
    refusals,
)
from streamnorm._upstream.url import endpoint_url

__all__ = ["passed_request"]


def passed_request(
    received: ClientRequest,
    upstream: Upstream,
    *,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> UpstreamRequest:
    """Return a request for a message, for an upstream of the client's dialect.

    The body is passed byte for byte, unless the upstream has another name for the model.

    Args:
        received: The request.
        upstream: The provider.
        limits: Bounds of the body.

    Raises:
        RequestRefused: The body is no JSON object, exceeds a bound, or has a key twice: what
            was checked here might not be what the provider reads.
    """
    dialect = lookup(upstream.dialect)
    data = json_body(received)
    with refusals():
        body = body_object(data, limits)
        _refuse_repeated_keys(data)
        asked = dialect.endpoints.asked(received.method, received.path, body)
        name = "" if asked is None else asked.model
        own, path = upstream.own_model(name), received.path
        if own != name and "model" in body:
            data = dumps({**body, "model": own})
        elif own != name:
            path = path.replace(f"/{name}:", f"/{own}:")
        url = endpoint_url(upstream.base_url, _target(path, received, dialect), dialect.endpoints)
    headers = request_headers(
        received.headers,
        dialect,
        dialect,
        body={},
        own=upstream.headers,
        passes_key=upstream.passes_key,
    )
    return UpstreamRequest(
        url=url,
        headers=headers,
        body=data,
        streams=asked is not None and asked.operation == "stream",
        include_usage=True,
        reply=Reply(),
        losses=(),
        request=None,
    )


def _target(path: str, received: ClientRequest, dialect: Dialect) -> str:
    """Return path and query of a request; of the query only what the vendor knows."""
    known = dialect.endpoints.passed_query
    query = urlencode({name: received.query[name] for name in known if name in received.query})
    quoted = quote(path, safe="/:@")
    return f"{quoted}?{query}" if query else quoted


def _refuse_repeated_keys(data: bytes) -> None:
    """Refuse a JSON object that has a key twice, at any depth."""
    try:
        json.loads(data, object_pairs_hook=_once)
    except ValueError as exc:
        raise DecodeError("an object with a key twice, expected it once") from exc


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a key twice")
