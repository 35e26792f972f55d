"""Requests for the number of tokens of a request, and their answers.

https://ai.google.dev/api/tokens (read 2026-11-23).
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from msgspec import structs

from streamnorm._core.bodies.fields import get_object, require_count
from streamnorm._core.bodies.token_count import TokenCount
from streamnorm._core.codec import CountCodec, Written
from streamnorm._core.errors import EncodeError
from streamnorm._core.json import count_of
from streamnorm.dialects.gemini.body.fields import camel

_REQUEST = "generateContentRequest"
_TOKENS, _CACHED = "totalTokens", "cachedContentTokenCount"
_VERSION = "/v1beta/"


def _read_request(body: dict[str, Any]) -> dict[str, Any]:
    """Return the request within, or the body itself: Vertex has its fields beside `contents`."""
    request = get_object(camel(body), _REQUEST)
    return body if request is None else request


def _write_request(written: Written) -> Written:
    resource, _, _ = written.path.rpartition(":")
    if not resource:
        raise EncodeError("no model, expected one", path="model")
    # Beside `contents` the Gemini API takes neither tools nor the system instruction.
    model = unquote(resource.removeprefix(_VERSION))
    body = {_REQUEST: {"model": model, **written.body}}
    return structs.replace(written, body=body, path=f"{resource}:countTokens")


def _read_count(body: dict[str, Any]) -> TokenCount:
    wire = camel(body)
    return TokenCount(require_count(wire, _TOKENS), count_of(wire.get(_CACHED)))


def _write_count(count: TokenCount) -> dict[str, Any]:
    body = {_TOKENS: count.input_tokens}
    if count.cached_tokens is not None:
        body[_CACHED] = count.cached_tokens
    return body


COUNT = CountCodec(
    fields=None,
    read_request=_read_request,
    write_request=_write_request,
    read_count=_read_count,
    write_count=_write_count,
)
