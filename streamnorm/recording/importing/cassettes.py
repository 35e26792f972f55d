"""Cassettes of vcrpy (version 1, YAML or JSON) and of cassetter (version 1, YAML).

Both are a list of interactions, and differ in the bodies:

    vcrpy       request: body: text or bytes         response: body: {string: text or bytes},
                                                     or {base64_string: base64} in files of JSON
    cassetter   body: {type: json, content: value}   or text, binary (in hexadecimal), none

A widespread serializer for vcrpy writes `parsed_body: value` instead of a JSON body.  If only
the value of a JSON body is stored, its text is that of `json.dumps`, as when these tools replay.

Sources, read 2026-11-22: https://vcrpy.readthedocs.io and https://kludex.github.io/cassetter,
and what vcrpy 9.4.2 and cassetter 0.16.1 write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, TypeVar

from msgspec import UNSET, Struct, UnsetType

from streamnorm._core.json import InvalidJSON, convert, is_array, is_object
from streamnorm.recording.format import WireRequest
from streamnorm.recording.importing.entries import (
    ForeignExchange,
    Unreadable,
    UnsupportedValue,
    check_exchange,
    decode_base64,
    decode_body,
    resolve_scalars,
)

T = TypeVar("T")

# Other keys hold what is no HTTP exchange, such as `ws_interactions`.
_KNOWN = {"version", "interactions", "recorded_with", "metadata"}


class _CassetteRequest(Struct):
    method: str
    uri: str
    headers: Any = None
    body: Any = None
    parsed_body: Any | UnsetType = UNSET


class _CassetteResponse(Struct):
    status: Any = None
    headers: Any = None
    body: Any = None
    parsed_body: Any | UnsetType = UNSET
    # As vcrpy before 6 wrote the responses of httpx.
    status_code: int | None = None
    content: Any = None


class _CassetteInteraction(Struct):
    request: _CassetteRequest
    response: _CassetteResponse
    recorded_at: Any = None


class _Cassette(Struct):
    version: int
    interactions: list[_CassetteInteraction]


class _CassetteStatus(Struct):
    code: int


def read_cassette(value: dict[str, Any], max_bytes: int) -> Iterator[ForeignExchange]:
    """Yield the exchanges of a cassette in the order in which they were recorded.

    Cassettes of vcrpy are in that order; cassetter sorts interactions, and stores their times.

    Args:
        value: The content of the file.
        max_bytes: Bound on the decoded bodies together, in bytes.

    Raises:
        Unreadable: It is no cassette, or an interaction is no HTTP exchange.
    """
    for key in value:
        if key not in _KNOWN and value[key]:
            raise Unreadable("a cassette that holds more than HTTP interactions")
    cassette = _convert(value, _Cassette)
    if cassette.version != 1:
        raise Unreadable(f"a cassette of version {cassette.version}, expected 1")
    for number, interaction in _sort_by_time(cassette.interactions):
        try:
            exchange = check_exchange(_read_interaction(interaction, max_bytes))
        except Unreadable as exc:
            raise Unreadable(f"interactions[{number}]: {exc}") from exc
        max_bytes -= len(exchange.body)
        yield exchange


def _sort_by_time(
    interactions: list[_CassetteInteraction],
) -> list[tuple[int, _CassetteInteraction]]:
    """Return interactions with their positions in the file, sorted by time if all have one."""
    numbered = list(enumerate(interactions))
    try:
        times = [datetime.fromisoformat(item.recorded_at) for item in interactions]
        return sorted(numbered, key=lambda pair: times[pair[0]])
    except (TypeError, ValueError):  # missing, no time, or only some with an offset
        return numbered


def _read_interaction(interaction: _CassetteInteraction, max_bytes: int) -> ForeignExchange:
    asked, response = interaction.request, interaction.response
    headers = _read_headers(response.headers)
    # `str` turns `PlainScalar` into str.
    method, url = str(asked.method), str(asked.uri)
    request = WireRequest(method, url, _read_headers(asked.headers), _read_request_body(asked))
    return ForeignExchange(
        request, _read_status(response), headers, _read_response_body(response, headers, max_bytes)
    )


def _read_status(response: _CassetteResponse) -> int:
    if response.status_code is not None:
        return response.status_code
    if is_object(response.status):
        return _convert(response.status, _CassetteStatus).code
    return _convert(response.status, int)


def _read_headers(value: Any) -> tuple[tuple[str, str], ...]:
    """Return the pairs of a mapping of names to a value or a list of values."""
    if value is None:
        return ()
    if not is_object(value):
        raise Unreadable("headers that are no mapping")
    return tuple(
        (name, _read_header(item))
        for name, items in value.items()
        for item in (items if is_array(items) else [items])
    )


def _read_header(value: Any) -> str:
    match value:
        case bytes():
            return value.decode("latin-1")
        case str():
            return str(value)
        case _:
            raise Unreadable("a header that is no text")


def _read_request_body(request: _CassetteRequest) -> bytes | None:
    if request.parsed_body is not UNSET:
        return _encode_json(request.parsed_body)
    if isinstance(request.body, UnsupportedValue):
        return None  # an upload, which vcrpy stores as a Python object
    body = _read_body(request.body)
    return body.encode() if isinstance(body, str) else body


def _read_response_body(
    response: _CassetteResponse, headers: tuple[tuple[str, str], ...], max_bytes: int
) -> bytes:
    if response.parsed_body is not UNSET:
        body = _encode_json(response.parsed_body)
    else:
        stored = _read_body(response.content if response.body is None else response.body)
        # A text is not compressed, whatever its headers say.
        body = (
            stored.encode() if isinstance(stored, str) else decode_body(stored, headers, max_bytes)
        )
    if len(body) > max_bytes:
        raise Unreadable("bodies that are too large together")
    return body


def _read_body(body: Any) -> str | bytes:
    """Return a stored body of either tool, as text or bytes."""
    if is_object(body):
        if body.keys() == {"type"} or body.keys() == {"type", "content"}:
            return _read_typed_body(body["type"], body.get("content"))
        if body.keys() <= {"base64_string", "encoding"} and "base64_string" in body:
            return decode_base64(str(body["base64_string"]), "a body")
        if "string" not in body:
            return _encode_json(body)
        body = body["string"]
    match body:
        case None:
            return b""
        case str():
            return str(body)
        case bytes():
            return body
        case _:
            raise Unreadable("a body that is neither text nor bytes")


def _read_typed_body(kind: Any, content: Any) -> str | bytes:
    """Return a stored body of cassetter."""
    match kind:
        case "none":
            return b""
        case "json":
            return _encode_json(content)
        case "text" if content is None or isinstance(content, str):
            return str(content or "")
        case "binary" if isinstance(content, str):
            try:
                return bytes.fromhex(content)
            except ValueError as exc:
                raise Unreadable("a binary body that is not hexadecimal") from exc
        case _:
            raise Unreadable("a body that is not of type json, text, binary or none")


def _encode_json(value: Any) -> bytes:
    return json.dumps(resolve_scalars(value)).encode()


def _convert(value: Any, type: type[T]) -> T:
    try:
        return convert(value, type)
    except InvalidJSON as exc:
        raise Unreadable(f"no cassette: {exc}") from exc
