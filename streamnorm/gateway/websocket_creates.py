"""Requests for a provider that is asked over a WebSocket, and the messages of its answers.

A request becomes a `response.create`; the events of its answer come as messages, and become the
body that the same answer would have over HTTP.  The provider remembers the latest response of a
connection: a create that continues it has only what is new of the input.

https://developers.openai.com/api/docs/guides/websocket-mode (read 2026-11-23), and the events of
openai 3.54.0 (`types/responses/responses_{client,server}_event.py`).
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from streamnorm._core.codec.websocket_messages import NOT_OF_A_RESPONSE
from streamnorm._core.errors import LimitExceeded, RemoteProtocolError
from streamnorm._core.failures import find_error, response_status
from streamnorm._core.json import FAST_ERRORS, compact, is_array, is_object, object_in

_FIELDS: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
_ITEMS: msgspec.json.Decoder[list[Raw]] = msgspec.json.Decoder(list[Raw])
_OBJECT: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])
_SORTED = msgspec.json.Encoder(order="sorted")  # the members of objects, whose order may change

# Of requests over HTTP alone: every answer on a WebSocket is a stream.
_HTTP_FIELDS = frozenset({"stream", "stream_options", "background"})
# They name state of the provider, which an increment would add to.
_STATE_FIELDS = frozenset({"previous_response_id", "conversation"})
_TRUE = b"true"
_DIGEST_BYTES = 16

NOT_FOUND = "previous_response_not_found"
"""Code of a create that continues a response which the provider has forgotten."""

LIMITS_REACHED = ("websocket_connection_limit_reached", "websocket_stream_limit_reached")
"""Codes of a connection that takes no further create, where another one does."""


class UpstreamCreate(Struct, frozen=True):
    """A request as a `response.create`.

    Attributes:
        fields: JSON of its fields but the input, by name.
        input: JSON of the input; None without one.
        items: JSON of the items of the input.
        digests: At index n, a digest of all fields and the first n items; empty if the request
            continues no response of the connection.
    """

    fields: dict[str, Raw]
    input: Raw | None
    items: list[Raw]
    digests: list[bytes]

    @property
    def end(self) -> InputEnd | None:
        """The end of its input; None if the request continues no response of the connection."""
        return InputEnd(len(self.digests) - 1, self.digests[-1]) if self.digests else None

    def message(self, known: KnownResponse | None = None, start: int = 0) -> bytes:
        """Return the message.

        Args:
            known: A response that it continues; None to send the whole input.
            start: Number of the first item that is new then.
        """
        fields: dict[str, object] = {"type": "response.create", **self.fields}
        if known is not None:
            fields |= {"previous_response_id": known.id, "input": self.items[start:]}
        elif self.input is not None:
            fields["input"] = self.input
        return msgspec.json.encode(fields)


class InputEnd(NamedTuple):
    """The end of a whole input, behind which the output of its response follows.

    Attributes:
        item_count: Number of its items.
        digest: Digest of the fields of the request, and of the items.
    """

    item_count: int
    digest: bytes


def read_upstream_create(body: bytes) -> UpstreamCreate | None:
    """Return the body of a request as a create; None if it must be sent over HTTP.

    Args:
        body: The body; JSON.
    """
    try:
        fields = _FIELDS.decode(body)
        given = fields.pop("input", None)
        items = [] if given is None else _items_of(given)
    except FAST_ERRORS:  # such as half a surrogate pair, which servers of HTTP accept
        return None
    if bytes(fields.get("background", b"")) == _TRUE:
        return None
    digests: list[bytes] = []
    if items is not None and _STATE_FIELDS.isdisjoint(fields):
        # In the order of names: two requests may have their fields in another one.
        sent = {name: fields[name] for name in sorted(fields) if name not in _HTTP_FIELDS}
        digest = blake2b(msgspec.json.encode(sent), digest_size=_DIGEST_BYTES)
        digests.append(digest.digest())
        for item in items:
            digest.update(b"%d:" % len(item))
            digest.update(item)
            digests.append(digest.copy().digest())
    fields = {name: value for name, value in fields.items() if name not in (*_HTTP_FIELDS, "type")}
    return UpstreamCreate(fields, given, items or [], digests)


def _items_of(given: Raw) -> list[Raw] | None:
    """Return the items of an input, of which text is a message of the user; None for no input."""
    match bytes(memoryview(given)[:1]):
        case b"[":
            return _ITEMS.decode(given)
        case b'"':
            return [Raw(b'{"role":"user","content":%b}' % bytes(given))]
        case _:
            return None


class KnownResponse(Struct, frozen=True):
    """The latest response of a connection.

    Attributes:
        id: The id.
        input: The end of its whole input.
        output: Digest of its output.
        output_size: Bytes of which that is the digest.
    """

    id: str
    input: InputEnd
    output: bytes
    output_size: int

    def first_new_item(self, create: UpstreamCreate) -> int | None:
        """Return the number of the first item of a create behind this response.

        None if the create has another beginning, or a field of another value.
        """
        count, digest = self.input
        if len(create.digests) <= count or create.digests[count] != digest:
            return None
        found = OutputDigest()
        for at in range(count, len(create.items)):
            if found.digest == self.output:
                return at
            if found.size > self.output_size:
                return None
            found.add(create.items[at])
        return len(create.items) if found.digest == self.output else None


class OutputDigest:
    """A digest of the items of an output, as they stand in the input of the next request, too.

    A client of another dialect returns what its own dialect has: no ids, statuses, log
    probabilities or annotations, and the texts of several messages in one.  Items without content
    do not count: reasoning that is neither shown nor encrypted, and an empty message.

    Attributes:
        size: Bytes of which it is the digest.
    """

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=_DIGEST_BYTES)
        self._ends_in_text = False
        self.size = 0

    @property
    def digest(self) -> bytes:
        """The digest."""
        return self._hash.digest()

    def add(self, item: Raw | bytes) -> None:
        """Add an item."""
        try:
            for part in _parts_of(_OBJECT.decode(item)):
                self._add_part(part)
        except FAST_ERRORS:
            self._add(b"\0", bytes(item))

    def _add_part(self, part: object) -> None:
        match part:
            case {"type": "output_text", "text": str(text)}:
                if text:
                    # JSON escapes what could be taken for the beginning of another part.
                    escaped = msgspec.json.encode(text)[1:-1]
                    self._add(b"" if self._ends_in_text else b"\0text", escaped)
                    self._ends_in_text = True
            case _:
                self._add(b"\0", _SORTED.encode(part))

    def _add(self, mark: bytes, data: bytes) -> None:
        self._hash.update(mark)
        self._hash.update(data)
        self._ends_in_text = False
        self.size += len(data)


def _parts_of(item: dict[str, Any]) -> list[object]:
    match item.get("type", "message"), item:
        case "message", {"role": "assistant", "content": content}:
            return content if is_array(content) else [{"type": "output_text", "text": content}]
        case "function_call", {"call_id": id, "name": name, "arguments": str(arguments)}:
            return [["call", id, name, _canonical(arguments)]]
        case "custom_tool_call", {"call_id": id, "name": name, "input": text}:
            return [["custom", id, name, text]]
        case "reasoning", {"encrypted_content": str(encrypted)} if encrypted:
            return [["encrypted", encrypted]]
        case "reasoning", _:
            shown: list[object] = [item.get("summary") or None, item.get("content") or None]
            return [] if shown == [None, None] else [shown]
        case _:
            return [{name: item[name] for name in item if name not in ("id", "status")}]


def _canonical(arguments: str) -> object:
    """Return arguments as a value: clients return the object, and not its spelling."""
    try:
        return _OBJECT.decode(arguments)
    except FAST_ERRORS:
        return arguments


_HEAD = re.compile(rb'\s*\{\s*"type"\s*:\s*"([a-z0-9_.-]+)"')
_NAME = re.compile(r"[\w.-]+", re.ASCII)
_LINE_ENDS = re.compile(rb"[\r\n]+")
_DONE = "response.output_item.done"
_CONTINUED = ("response.completed", "response.incomplete")
_FAILED = "response.failed"
_TERMINALS = (*_CONTINUED, _FAILED, "response.cancelled")
_OF_RESPONSE = "response."
# Of the statuses of responses: of two that contradict each other, the worse one is true.
_SEVERITIES = {"completed": 0, "incomplete": 1, "cancelled": 2, "failed": 3}
_KEEP_ALIVE = "response.keep_alive"  # of compatible servers, at any time
# That describe the body, or the connection.
_HEADERS_OF_HTTP = re.compile(r"content-.*|transfer-encoding|connection|upgrade|set-cookie")
_HEADER_NAME = re.compile(r"[a-z0-9-]{1,64}")


class ErrorAnswer(Struct, frozen=True):
    """An error as the response that it would be over HTTP.

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


class MessageReader:
    """Reads the messages of one answer.

    Args:
        input: The end of the input of the create; None if no create may continue the response.
        continued: Id of the response that it continues as an increment; None for the whole input.
        previous: Id of the response before, on the same connection; "" if there is none.
        max_bytes: Bound on the items of a body that is no stream.
        is_whole: Whether the body is that of a request without a stream.

    Attributes:
        has_begun: Whether an event of the response has come.
        is_ended: Whether the last message has come.
        error: The error in place of a response; None if there is none.
        known: The response, if the next create may continue it; None before its end.
        is_clean: Whether nothing of this answer can come behind its end.
    """

    def __init__(
        self,
        input: InputEnd | None,
        continued: str | None,
        previous: str,
        *,
        max_bytes: int,
        is_whole: bool,
    ) -> None:
        self.has_begun = self.is_ended = False
        self.is_clean = True
        self.error: ErrorAnswer | None = None
        self.known: KnownResponse | None = None
        self._input = input
        self._free_bytes = max_bytes
        self._previous = previous
        self._is_whole = is_whole
        self._echo = None if continued is None else _echo_of(continued)
        self._items: list[Raw] = []  # of the output, if the body needs them
        self._output = OutputDigest()

    def read(self, message: bytes) -> bytes:
        """Return the bytes of the body that a message stands for.

        Raises:
            RemoteProtocolError: The message is no event, or one of another response.
        """
        kind = type_of(message)
        if kind is None:
            raise RemoteProtocolError("a message that is no event, expected JSON with a type")
        if kind == "error":
            return self._read_error(message)
        if kind == _DONE:
            self._read_item(message)
        elif kind in _TERMINALS:
            self.is_ended = True
            if kind == _FAILED and not self.has_begun and self._is_refused_increment(message):
                return b""
            self.has_begun = True
            return self._read_terminal(kind, message)
        elif kind == "response.created":
            self._check_id(_response_in(message))
        self.has_begun = self.has_begun or _is_response_event(kind)
        # White space before JSON is valid, and shows that the answer goes on.
        return b" " if self._is_whole else self._event(kind, message)

    def _read_error(self, message: bytes) -> bytes:
        self.is_ended = True
        if not self.has_begun:
            self.error = error_answer(message)
            return b""
        # A `response.failed` may follow.
        self.is_clean = False
        return error_answer(message).body if self._is_whole else self._event("error", message)

    def _is_refused_increment(self, message: bytes) -> bool:
        """Take a failed response that never began as the error that refuses an increment."""
        error = object_in(bytes(_response_in(message).get("error", b"")).decode())
        if self._echo is None or error.get("code") != NOT_FOUND:
            return False
        self.error = error_answer(compact({"status": 400, "error": error}).encode())
        return True

    def _read_item(self, message: bytes) -> None:
        fields = _fields_in(message)
        item = fields.get("item")
        if item is None:
            # What the provider has said is not known: no create can continue it.
            self._input = None
            if self._is_whole and not fields:  # a body would end well without the item
                raise RemoteProtocolError("an item that is no JSON, expected an item of the output")
            return
        self._output.add(item)
        if self._is_whole:
            self._free_bytes -= len(item)
            if self._free_bytes < 0:
                limit = "max_event_bytes"
                raise LimitExceeded(f"an answer beyond {limit}", limit=limit)
            self._items.append(item)

    def _read_terminal(self, kind: str, message: bytes) -> bytes:
        response = _response_in(message)
        id = self._check_id(response)
        if kind in _CONTINUED and id and self._input is not None:
            output = self._output
            if not output.size:  # some servers have items in the last event alone
                for item in _items_in(response):
                    output.add(item)
            # Without an item seen, the model's own answer would be sent again as new input.
            if output.size:
                self.known = KnownResponse(id, self._input, output.digest, output.size)
        if not self._is_whole:
            return self._event(kind, message)
        if not response:
            raise RemoteProtocolError("a terminal without a response, expected the response")
        # A body has no type of an event, which says how the response has ended.
        status = kind.removeprefix(_OF_RESPONSE)
        if _SEVERITIES.get(string_in(response.get("status")), -1) < _SEVERITIES[status]:
            response["status"] = Raw(msgspec.json.encode(status))
        if self._items and not _items_in(response):
            response["output"] = Raw(msgspec.json.encode(self._items))
        return self._with_own_id(msgspec.json.encode(response))

    def _check_id(self, response: dict[str, Raw]) -> str:
        """Return the id of a response; "" if it has none.

        Raises:
            RemoteProtocolError: It is that of the response before.
        """
        id = string_in(response.get("id"))
        if id and id == self._previous:
            raise RemoteProtocolError("an event of the response before, expected another response")
        return id

    def _event(self, kind: str, message: bytes) -> bytes:
        """Return a message as a server-sent event."""
        if self._echo is not None:
            message = self._with_own_id(message)
        if b"\n" in message or b"\r" in message:  # between two values of JSON
            message = _LINE_ENDS.sub(b" ", message)
        if not _NAME.fullmatch(kind):
            return b"data: %b\n\n" % message
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), message)

    def _with_own_id(self, message: bytes) -> bytes:
        """Return JSON of a response without the id that it continues: its client named none."""
        return message if self._echo is None else self._echo.sub(rb"\1null", message)


def _echo_of(id: str) -> re.Pattern[bytes]:
    # Within a string of JSON the quotes would be escaped.
    written = re.escape(msgspec.json.encode(id))
    return re.compile(rb'("previous_response_id"\s*:\s*)' + written)


def type_of(message: bytes) -> str | None:
    """Return the type of an event; None for a message that is no event."""
    found = _HEAD.match(message)
    if found is not None:
        return found[1].decode()
    return string_in(_fields_in(message).get("type")) or None


def is_of_response(message: bytes) -> bool:
    """Return whether a message without a create belongs to one: an event of a response, an error.

    Others belong to the connection, such as rate limits.
    """
    kind = type_of(message)
    return kind is None or kind == "error" or _is_response_event(kind)


def _is_response_event(kind: str) -> bool:
    is_named_so = kind.startswith(_OF_RESPONSE) and kind != _KEEP_ALIVE
    return is_named_so and NOT_OF_A_RESPONSE.match(kind) is None


def error_answer(message: bytes) -> ErrorAnswer:
    """Return an `error` event as the response that it stands for."""
    value = object_in(message.decode(errors="replace"))
    nested = value.get("error")
    error: dict[str, Any] = dict(nested) if is_object(nested) else dict(value)
    headers = {**_header_object(error.pop("headers", None)), **_header_object(value.get("headers"))}
    for name in ("sequence_number", "stream_id", *(() if is_object(nested) else ("type",))):
        error.pop(name, None)
    status = value.get("status", value.get("status_code"))
    if not (isinstance(status, int) and 400 <= status <= 599):
        found = find_error({"error": error})
        status = 502 if found is None else response_status(found)
    code = error.get("code")
    known = code if isinstance(code, str) else ""
    body = compact({"error": error}).encode("utf-8", "replace")
    return ErrorAnswer(status, {**headers, "content-type": "application/json"}, body, known)


def _header_object(value: object) -> dict[str, str]:
    """Return the headers in an error, whose values may be strings, numbers or booleans."""
    found: dict[str, str] = {}
    for name, given in value.items() if is_object(value) else ():
        name = name.lower()
        text = compact(given) if isinstance(given, bool | int | float) else given
        if not isinstance(text, str) or not (text.isascii() and text.isprintable()):
            continue
        if _HEADER_NAME.fullmatch(name) and not _HEADERS_OF_HTTP.fullmatch(name):
            found[name] = text
    return found


def _fields_in(text: bytes | Raw) -> dict[str, Raw]:
    """Return the members of a JSON object; {} for any other text.

    Half a surrogate pair becomes U+FFFD, at which a fast decoder stops: providers send it.
    """
    try:
        return _FIELDS.decode(text)
    except FAST_ERRORS:
        value = object_in(bytes(text).decode(errors="replace"))
        return {name: Raw(compact(member).encode()) for name, member in value.items()}


def _response_in(message: bytes) -> dict[str, Raw]:
    response = _fields_in(message).get("response")
    return {} if response is None else _fields_in(response)


def _items_in(response: dict[str, Raw]) -> list[Raw]:
    try:
        return _ITEMS.decode(response["output"])
    except (KeyError, *FAST_ERRORS):
        return []


def string_in(value: Raw | None) -> str:
    """Return a string of JSON; "" for any other value."""
    try:
        found: object = None if value is None else msgspec.json.decode(value)
    except FAST_ERRORS:
        return ""
    return found if isinstance(found, str) else ""
