"""Events as messages of a Responses API WebSocket: types, stream ids and errors.

An `error` is nested and has the status that the response to a request would have.  Codex acts on
an error with a status alone (openai/codex, `codex-rs/codex-api/src/endpoint/
responses_websocket.rs` @00033d9); https://developers.openai.com/api/docs/guides/websocket-mode
(read 2026-11-23).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from streamnorm._core.failures import find_error, refusal_error, response_status
from streamnorm._core.json import FAST_ERRORS, compact, dumps, is_object, object_in, string_of

TYPE_START = re.compile(rb'\s*+\{\s*+"type"\s*+:\s*+"([A-Za-z0-9_.-]{1,64})"')
"""Start of a message that begins with its type, as nearly all do."""

_LINE_ENDS = re.compile(rb"[\r\n]+")
_STREAM_ID = b'"stream_id"'
# A delta as OpenAI and this package write it, without white space and without a name that occurs
# twice: in the order of names, or numbered first.
_PLAIN = rb'[^"\\\x00-\x1f]*+'
_TEXT = rb'"' + _PLAIN + rb'(?:\\["\\/bfnrt]' + _PLAIN + rb')*+"'
_NUMBER = rb"(?:0|[1-9][0-9]{0,8}+)"
_VALUES = {
    "content_index": _NUMBER,
    "delta": _TEXT,
    "item_id": _TEXT,
    "logprobs": rb"\[\]",
    "obfuscation": _TEXT,
    "output_index": _NUMBER,
    "sequence_number": _NUMBER,
    "summary_index": _NUMBER,
}
_NUMBERED_FIRST = (
    *("sequence_number", "item_id", "output_index", "content_index", "summary_index"),
    *("delta", "logprobs", "obfuscation"),
)


def _members(names: tuple[str, ...]) -> bytes:
    return b"".join([rb'(?:,"%b":%b)?+' % (name.encode(), _VALUES[name]) for name in names])


_DELTA = re.compile(
    rb'(\{"type":"[a-z_.]++"(?:%b|%b))(?:,"stream_id":"%b")?+\}'
    % (_members(tuple(_VALUES)), _members(_NUMBERED_FIRST), _PLAIN)
)
# Of a response over HTTP, which a message has not.
_NOT_SHOWN = frozenset({"content-type", "content-length", "connection", "upgrade"})

# That describe the body, or the connection.
_HEADERS_OF_HTTP = re.compile(r"content-.*|transfer-encoding|connection|upgrade|set-cookie")
_HEADER_NAME = re.compile(r"[a-z0-9-]{1,64}")

# Codex's limits and times, and answers to `response.steer`.
NOT_OF_A_RESPONSE = re.compile(r"codex\.|responsesapi\.|response\.(?:steer\.|metadata\Z)")
"""Types of the events of a connection, which clients skip."""


_EVENT_FIELDS = ("type", "status", "status_code")  # beside the error


class MessageHead(Struct):
    """The fields `type` and `stream_id` of a message.

    Attributes:
        type: The type; None if it has none.
        stream_id: The lane; None for the default one.
    """

    type: str | None = None
    stream_id: Any = None


_decode_head = msgspec.json.Decoder(MessageHead).decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode


def head_of(message: bytes) -> MessageHead:
    """Return the type and the `stream_id` of a message; both None if it is not a JSON object."""
    try:
        return _decode_head(message)
    except FAST_ERRORS:  # msgspec refuses half a surrogate pair, which providers send
        value = object_in(message.decode(errors="replace"))
        kind = value.get("type")
        return MessageHead(kind if isinstance(kind, str) else None, value.get("stream_id"))


def type_of(message: bytes) -> str | None:
    """Return the type of an event; None if the message is not an event."""
    found = TYPE_START.match(message)
    return head_of(message).type or None if found is None else found[1].decode()


def message_line(message: str) -> bytes:
    """Return a WebSocket message as one line of bytes, as the WebSocket framing expects."""
    line = message.encode("utf-8", "replace")
    return (_LINE_ENDS.sub(b" ", line) if b"\n" in line or b"\r" in line else line) + b"\n"


def drop_stream_id(message: bytes) -> bytes:
    """Return a message without its `stream_id`."""
    return message if _STREAM_ID not in message else _replace_stream_id(message, None)


def name_stream(message: bytes, stream_id: str | None) -> bytes:
    """Return a message with the given `stream_id` as its last field; None removes the field.

    Args:
        message: The message.
        stream_id: Name of the lane; None for the default one.
    """
    return drop_stream_id(message) if stream_id is None else _replace_stream_id(message, stream_id)


def _replace_stream_id(message: bytes, stream_id: str | None) -> bytes:
    found = _DELTA.fullmatch(message)
    if found is None:
        return _rewrite_stream_id(message, stream_id)
    lane = b"" if stream_id is None else b',"stream_id":%b' % dumps(stream_id)
    return b"%b%b}" % (found[1], lane)


def _rewrite_stream_id(message: bytes, stream_id: str | None) -> bytes:
    """Return a message, however its JSON is formatted, with another `stream_id` or without one."""
    try:
        members = _decode_members(message)
    except FAST_ERRORS:  # the decoder of the dialect says what is wrong
        return message
    members.pop("stream_id", None)
    if stream_id is not None:
        members["stream_id"] = Raw(dumps(stream_id))
    return dumps(members)


def error_message(
    status: int, body: bytes, headers: Mapping[str, object], stream_id: str | None = None
) -> str:
    """Return the `error` event that replaces an HTTP error response.

    Args:
        status: HTTP status.
        body: The body of the response.
        headers: The headers.
        stream_id: The lane; None for the default one.
    """
    value = object_in(body.decode(errors="replace"))
    error = value.get("error")
    if not is_object(error):
        error = _nested_error(status, value)
    event: dict[str, Any] = {"type": "error", "status": status, "error": error}
    shown = {name: text for name, text in headers.items() if name not in _NOT_SHOWN}
    if shown:
        event["headers"] = shown
    return compact(event | ({} if stream_id is None else {"stream_id": stream_id}))


def _nested_error(status: int, body: dict[str, Any]) -> dict[str, Any]:
    """Return the error of a body that has its fields at the top, as of vLLM or a proxy."""
    found = find_error(body) or refusal_error(body)
    own_type = string_of(body, "type")
    if own_type in ("", "error"):  # `error` is the type of an event
        own_type = "invalid_request_error" if status < 500 else "server_error"
    return {
        "type": own_type,
        "code": string_of(body, "code") or None,
        "message": "the request failed" if found is None else found.message,
        "param": string_of(body, "param") or None,
    }


class ErrorAnswer(Struct, frozen=True):
    """The HTTP error response that an `error` message of a WebSocket replaces.

    Attributes:
        status: HTTP status.
        headers: The headers, by lower-case name.
        body: The JSON body.
        code: Code of the error.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    code: str


def error_answer(message: bytes) -> ErrorAnswer:
    """Return the HTTP error response that an `error` event replaces."""
    value = object_in(message.decode(errors="replace"))
    nested = value.get("error")
    error: dict[str, Any] = dict(nested) if is_object(nested) else dict(value)
    is_flat = not is_object(nested)
    if isinstance(nested, str):
        error["message"] = error.pop("error")
    headers = {**_header_object(error.pop("headers", None)), **_header_object(value.get("headers"))}
    for name in ("sequence_number", "stream_id", *(_EVENT_FIELDS if is_flat else ())):
        error.pop(name, None)
    status = value.get("status", value.get("status_code"))
    if not (isinstance(status, int) and 400 <= status <= 599):
        found = find_error({"error": error})
        status = 502 if found is None else response_status(found)
    code = error.get("code")
    known = code if isinstance(code, str) else ""
    body = compact({"error": error}).encode("utf-8", "replace")
    return ErrorAnswer(status, {**headers, "content-type": "application/json"}, body, known)


def flat_error(message: bytes, sequence_number: int) -> bytes:
    """Return the `error` event of server-sent events that an `error` message replaces.

    It is flat, and without headers.  It has the status, which servers of that event leave out, as
    its readers may find none in the code.

    Args:
        message: The message.
        sequence_number: Number of the event, if the message has none.
    """
    value = object_in(message.decode(errors="replace"))
    answer = error_answer(message)
    found = object_in(answer.body.decode()).get("error")
    error: dict[str, Any] = found if is_object(found) else {}
    kind, text = error.get("type"), error.get("message")
    number = value.get("sequence_number")
    event = {
        "type": "error",
        "code": answer.code or (kind if isinstance(kind, str) else None),
        "message": text if isinstance(text, str) else "the request failed",
        "param": error.get("param"),
        "sequence_number": number if isinstance(number, int) else sequence_number,
    }
    if not value.keys().isdisjoint(_EVENT_FIELDS[1:]):
        event["status"] = answer.status
    others = {name: error[name] for name in error if name not in (*event, "error")}
    return compact(event | others).encode()


def _header_object(value: object) -> dict[str, str]:
    """Return an error's headers with lower-case names, without illegal headers."""
    found: dict[str, str] = {}
    for name, given in value.items() if is_object(value) else ():
        name = name.lower()
        text = compact(given) if isinstance(given, bool | int | float) else given
        if not isinstance(text, str) or not (text.isascii() and text.isprintable()):
            continue
        if _HEADER_NAME.fullmatch(name) and not _HEADERS_OF_HTTP.fullmatch(name):
            found[name] = text
    return found
