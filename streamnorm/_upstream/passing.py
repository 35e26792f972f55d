"""Requests for an upstream of the client's own dialect: checked, and passed on as they are."""

from __future__ import annotations

import json
from typing import Any, NoReturn
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Raw

from streamnorm._core.bodies.parsing import body_object
from streamnorm._core.bodies.reply import Reply
from streamnorm._core.codec import Dialect
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import FAST_ERRORS, dumps, string_of
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

__all__ = ["passed_body", "passed_path", "passed_request"]

_FIELDS: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])


def passed_request(
    received: ClientRequest,
    upstream: Upstream,
    *,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> UpstreamRequest:
    """Return a request for a message, for an upstream of the client's dialect.

    The body is passed byte for byte.  Where the upstream has another name for the model, that
    alone is changed; white space between the fields is lost.

    Args:
        received: The request.
        upstream: The provider.
        limits: Bounds of the body.

    Raises:
        RequestRefused: The body is no JSON object, exceeds a bound, or has an object with a
            key twice: what was read here might not be what the provider reads.
    """
    dialect = lookup(upstream.dialect)
    data = json_body(received)
    with refusals():
        body = body_object(data, limits)
        _check_keys(data)
        asked = dialect.endpoints.asked(received.method, received.path, body)
        name = "" if asked is None else asked.model
        own, path = upstream.own_model(name), received.path
        if own != name:
            head, slash, tail = path.rpartition(f"/{name}:")
            if slash:
                path = f"{head}/{own}:{tail}"
            else:
                data = _renamed(data, body, own)
        target = passed_path(path, received, dialect)
        url = endpoint_url(upstream.base_url, target, dialect.endpoints)
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


def passed_path(path: str, received: ClientRequest, dialect: Dialect) -> str:
    """Return path and query of a request for an upstream of its own dialect.

    Args:
        path: The path, decoded.
        received: The request; of its query only what the vendor knows is passed.
        dialect: The dialect of both.
    """
    known = dialect.endpoints.passed_query
    query = urlencode([pair for pair in received.query if pair[0] in known])
    quoted = quote(path, safe="/:@")
    return f"{quoted}?{query}" if query else quoted


def passed_body(received: ClientRequest, upstream: Upstream) -> bytes | None:
    """Return the body of a request for no message; None if it has none.

    Raises:
        RequestRefused: As for `passed_request`.
    """
    if received.body == b"":
        return None
    data = json_body(received)
    with refusals():
        body = body_object(data, Limits())
        _check_keys(data)
    name = string_of(body, "model")
    own = upstream.own_model(name)
    return data if not name or own == name else _renamed(data, body, own)


def _renamed(data: bytes, body: dict[str, Any], model: str) -> bytes:
    """Return a body with another model; its other values stay as they are."""
    try:
        fields = _FIELDS.decode(data)
    except FAST_ERRORS:
        return dumps({**body, "model": model})
    fields["model"] = Raw(dumps(model))
    return msgspec.json.encode(fields)


def _check_keys(data: bytes) -> None:
    """Refuse an object with a key twice at any depth, also where the parser dropped it.

    Raises:
        DecodeError: There is one, or the text is no strict JSON.
    """
    try:
        json.loads(data, object_pairs_hook=_once, parse_constant=_no_number)
    except _RepeatedKey as exc:
        raise DecodeError("an object with a key twice, expected each key once") from exc
    except (ValueError, RecursionError) as exc:  # a value that a later key hides may nest deep
        raise DecodeError("no strict JSON, expected a JSON object") from exc


class _RepeatedKey(Exception):
    """An object has a key twice."""


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) < len(pairs):
        raise _RepeatedKey


def _no_number(_name: str) -> NoReturn:
    raise ValueError
