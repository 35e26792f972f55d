"""Strict readers of the messages of an AWS event stream, for validation.

They share the cutting of messages with the decoders, since a wrong length or checksum can be read
in one way alone; what stands in the messages is judged here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from streamnorm._core.json import FAST_ERRORS, object_in
from streamnorm.eventstream import EventStreamDecoder, Message
from streamnorm.sse import Frame

_UNREAD = Frame("message", "")  # counts as a frame, and is not checked


class StrictMessages:
    """Yields the frames and the problems of messages that are one event each.

    Args:
        exceptions: Types of the exceptions of the operation.
        max_event_bytes: Bytes of one message.

    Attributes:
        has_failed: Whether no further frames can be read, of an error or a wrong message.
    """

    def __init__(self, exceptions: Collection[str], max_event_bytes: int) -> None:
        self.has_failed = False
        self._exceptions = exceptions
        self._messages = EventStreamDecoder(max_message_bytes=max_event_bytes)
        self._is_broken = False

    def feed(self, data: bytes) -> Iterator[Frame | str]:
        """Yield the frames and problems that are known with `data`."""
        for message in self._messages.feed(data):
            if self.has_failed:
                yield "message after an error, expected the end"
                yield _UNREAD
                continue
            yield from self._read(message)
        failure = self._messages.failure
        if failure is not None and not self._is_broken:
            self._is_broken = self.has_failed = True
            is_malformed = failure.kind == "malformed"
            yield f"{failure.message}, expected a message" if is_malformed else failure.message

    def close(self) -> Iterator[Frame | str]:
        """Yield the problem of half a message at the end."""
        if size := self._messages.unfinished_bytes:
            yield f"{size} bytes of a message without its end, expected a whole message"

    def _read(self, message: Message) -> Iterator[Frame | str]:
        match message.text(":message-type"):
            case "event":
                if message.text(":content-type") != "application/json":
                    yield "event without :content-type, expected application/json"
                yield from self._read_event(message.text(":event-type"), message.payload)
            case "exception":
                yield from self._read_exception(message.text(":exception-type"), message.payload)
            case "error":
                self.has_failed = True
                if not message.text(":error-code"):
                    yield "error without :error-code, expected one"
                yield _UNREAD
            case _:
                yield "message without a known :message-type, expected event, exception or error"
                yield _UNREAD

    def _read_event(self, name: str, payload: bytes) -> Iterator[Frame | str]:
        if not name:
            yield "event without :event-type, expected one"
        elif name in self._exceptions:  # which no client of the operation takes for a failure
            yield "event named as an exception, expected a message of type exception"
        yield from _read_text(name, payload)

    def _read_exception(self, name: str, payload: bytes) -> Iterator[Frame | str]:
        """Yield an exception of the operation as a frame: the dialect says where it may stand."""
        if name in self._exceptions:
            yield from _read_text(name, payload)
            return
        # As a frame it might pass for the event of its name.
        self.has_failed = True
        yield _unknown_exception(self._exceptions)
        yield _UNREAD


class _Chunk(Struct, rename={"data": "bytes"}):
    data: bytes


class _Typed(Struct):
    type: str


_decode_chunk = msgspec.json.Decoder(_Chunk).decode
_decode_typed = msgspec.json.Decoder(_Typed).decode


class StrictChunks(StrictMessages):
    """Yields the frames and the problems of chunks, each with an event in base64."""

    def _read_event(self, name: str, payload: bytes) -> Iterator[Frame | str]:
        if name != "chunk":
            yield "event of an unknown :event-type, expected chunk"
            yield _UNREAD
            return
        try:
            data = _decode_chunk(payload).data
        except FAST_ERRORS:
            yield "chunk without bytes, expected an event in base64"
            yield _UNREAD
            return
        try:
            name = _decode_typed(data).type
        except FAST_ERRORS:
            yield "chunk that is no event, expected JSON with its type"
            yield _UNREAD
            return
        if name == "error":  # which no client of the operation takes for a failure
            yield "error event in a chunk, expected an exception"
        yield from _read_text(name, data)

    def _read_exception(self, name: str, payload: bytes) -> Iterator[Frame | str]:
        self.has_failed = True
        if name not in self._exceptions:
            yield _unknown_exception(self._exceptions)
        fields: dict[str, Any] = object_in(payload.decode(errors="replace"))
        if not isinstance(fields.get("message"), str):
            yield "exception without a message, expected JSON with one"
        yield _UNREAD


def _unknown_exception(known: Collection[str]) -> str:
    return f"exception of an unknown type, expected {', '.join(sorted(known))}"


def _read_text(name: str, data: bytes) -> Iterator[Frame | str]:
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        yield f"byte {exc.start} of the payload is no UTF-8, expected JSON"
        yield _UNREAD
        return
    if not text:
        yield "event without a payload, expected JSON"
    yield Frame(name or "message", text)
