"""`response.create` messages for upstreams: with the whole input, or with new items only.

A request becomes a `response.create`.  The provider remembers the latest response of a connection:
a create that continues it has only what is new of the input.

https://developers.openai.com/api/docs/guides/websocket-mode (read 2026-11-23), and the events of
openai 3.54.0 (`types/responses/responses_client_event.py`).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from streamnorm._core.json import FAST_ERRORS, dumps, is_array, is_object

_FIELDS: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
_ITEMS: msgspec.json.Decoder[list[Raw]] = msgspec.json.Decoder(list[Raw])
_OBJECT: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])
_SORTED = msgspec.json.Encoder(order="sorted")  # the members of objects, whose order may change

# Of requests over HTTP alone: every answer on a WebSocket is a stream.
_HTTP_FIELDS = frozenset({"stream", "stream_options", "background"})
# What Codex sends as headers over HTTP, such as the id of a turn: the model gets none of it.
_OWN_FIELDS = _HTTP_FIELDS | {"client_metadata"}
# They name state of the provider, which an increment would add to.
_STATE_FIELDS = frozenset({"previous_response_id", "conversation"})
_TRUE = b"true"
# Says where a cached beginning ends: a client moves it on with each turn, and the provider keeps
# that of the turn before.
_MARK = "prompt_cache_breakpoint"
_QUOTED_MARK = b'"%b"' % _MARK.encode()
_DIGEST_BYTES = 16
# What items have beside that of which a digest is made, for each byte of it: names of members, ids,
# escapes instead of characters.
_SCANNED_BYTES = 8
_MIN_SCANNED_BYTES = 16 * 1024


class UpstreamCreate(Struct, frozen=True):
    """A request to an upstream as a `response.create` message.

    Attributes:
        fields: JSON of its fields but the input, by name.
        input: JSON of the input; None without one.
        items: JSON of the items of the input.
        digests: At index n, a digest of all fields and the first n items, without marks of a cache
            and what concerns one request alone; empty if the request continues no response of
            the connection.
    """

    fields: dict[str, Raw]
    input: Raw | None
    items: list[Raw]
    digests: list[bytes]

    @property
    def end(self) -> InputEnd | None:
        """Size and digest of the input; None if no later request can continue the response."""
        return InputEnd(len(self.digests) - 1, self.digests[-1]) if self.digests else None

    def message(self, known: KnownResponse | None = None, start: int = 0) -> bytes:
        """Return the message, with the whole input or with the items from `start`.

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
    """Size and digest of an input, by which a longer input with the same beginning is recognized.

    Attributes:
        item_count: Number of its items.
        digest: Digest of the fields of the request, and of the items.
    """

    item_count: int
    digest: bytes


def read_upstream_create(body: bytes) -> UpstreamCreate | None:
    """Return a request's body as an `UpstreamCreate`; None if it must be sent over HTTP.

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
        sent = {name: fields[name] for name in sorted(fields) if name not in _OWN_FIELDS}
        digest = blake2b(msgspec.json.encode(sent), digest_size=_DIGEST_BYTES)
        digests.append(digest.digest())
        is_marked = _QUOTED_MARK in body
        for given_item in items:
            item = _remove_marks(given_item) if is_marked else given_item
            digest.update(b"%d:" % len(item))
            digest.update(item)
            digests.append(digest.copy().digest())
    fields = {name: value for name, value in fields.items() if name not in (*_HTTP_FIELDS, "type")}
    return UpstreamCreate(fields, given, items or [], digests)


def _remove_marks(item: Raw) -> Raw | bytes:
    """Return an item as the gateway writes it without marks of a cache."""
    if _QUOTED_MARK not in bytes(item):
        return item
    try:
        fields = _OBJECT.decode(item)
    except FAST_ERRORS:
        return item
    name = "output" if "output" in fields else "content"
    parts = fields.get(name)
    if not is_array(parts):
        return item
    plain = [
        {key: part[key] for key in part if key != _MARK} if is_object(part) else part
        for part in parts
    ]
    match plain:
        case [{"type": "input_text", "text": str(text), **rest}] if not rest:
            return dumps({**fields, name: text})
        case _:
            return dumps({**fields, name: plain})


def _items_of(given: Raw) -> list[Raw] | None:
    """Return the items of an input; a string is a user message."""
    match bytes(memoryview(given)[:1]):
        case b"[":
            return _ITEMS.decode(given)
        case b'"':
            return [Raw(b'{"role":"user","content":%b}' % bytes(given))]
        case _:
            return None


class KnownResponse(Struct, frozen=True):
    """The latest response of a connection, which a further `response.create` may continue.

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

    def may_precede(self, create: UpstreamCreate) -> bool:
        """Return whether a request's input begins with this response's whole input."""
        count, digest = self.input
        return len(create.digests) > count and create.digests[count] == digest

    def first_new_item(self, create: UpstreamCreate) -> int | None:
        """Return the index of a request's first input item after this response's output.

        Items without content at the end of the output are old ones, too.

        Args:
            create: A create with the same beginning.

        Returns:
            The number; None if the output does not follow the beginning.
        """
        start: int | None = None
        found = OutputDigest()
        # A client may send any number of items that have no content.
        free_bytes = _SCANNED_BYTES * self.output_size + _MIN_SCANNED_BYTES
        for at in range(self.input.item_count, len(create.items)):
            item = create.items[at]
            free_bytes -= len(item)
            if free_bytes < 0 or found.size > self.output_size:
                break
            found.add(item)
            if found.digest == self.output:
                start = at + 1
            elif start is not None:
                break
        return start


class OutputDigest:
    """Digest of output items, equal for the same items in the next request's input.

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
        """The digest of the items added so far."""
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
    """Return the value of a call's JSON arguments, the same for every spelling of the JSON."""
    try:
        return _OBJECT.decode(arguments)
    except FAST_ERRORS:
        return arguments
