"""AWS event streams: bytes to messages, and back.

`application/vnd.amazon.eventstream`, as Amazon Bedrock sends it (smithy-lang/smithy,
`amazon-eventstream.rst`, read 2026-11-23).  All numbers are big-endian:

    total length (4) | length of the headers (4) | CRC-32 of both (4)
    headers | payload | CRC-32 of all before (4)

Nothing waits for a length whose checksum was not compared, and time is linear in bytes whatever
the size of the reads.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TypeAlias
from zlib import crc32

from msgspec import Struct

from streamnorm._core.events import StreamError
from streamnorm._core.limits import Limits

__all__ = ["EventStreamDecoder", "HeaderValue", "Message", "encode_message"]

HeaderValue: TypeAlias = bool | int | bytes | str
"""The value of a header: of a timestamp its milliseconds since 1970, of a UUID its 16 bytes."""

_PRELUDE = struct.Struct(">III")
_LENGTHS = struct.Struct(">II")
_CHECKSUM = struct.Struct(">I")
_SIZE = struct.Struct(">H")
_OVERHEAD = _PRELUDE.size + _CHECKSUM.size
# The specification's bound, which services must keep.
_MAX_HEADERS_BYTES = 128 * 1024
_TRUE, _FALSE, _BYTES, _STRING, _UUID = 0, 1, 6, 7, 9
_UUID_BYTES = 16
# Numbers by the type of their header: 8, 16, 32 and 64 bits, and a timestamp.
_NUMBERS = {
    2: struct.Struct(">b"),
    3: struct.Struct(">h"),
    4: struct.Struct(">i"),
    5: struct.Struct(">q"),
    8: struct.Struct(">q"),
}


class Message(Struct, frozen=True, gc=False):
    """One message of an event stream.

    Attributes:
        headers: Values by name; the same object for equal headers, one after the other.
        payload: The payload; JSON in the streams of Bedrock.
        raw: The whole message as it stands in the stream.
    """

    headers: dict[str, HeaderValue]
    payload: bytes
    raw: bytes

    def text(self, name: str) -> str:
        """Return the value of a header; "" if it is absent, or no text."""
        value = self.headers.get(name)
        return value if isinstance(value, str) else ""


class EventStreamDecoder:
    """Cut bytes into messages.

    A message that breaks the format ends the stream: where the next one begins, only its length
    says, and that cannot be trusted any more.

    Args:
        max_message_bytes: Bytes of one message, with its headers and checksums.

    Attributes:
        messages: How many messages were returned.
        failure: Why the stream cannot be read any further; None while it can.
    """

    def __init__(self, *, max_message_bytes: int = Limits().max_event_bytes) -> None:
        self.messages = 0
        self.failure: StreamError | None = None
        self._max_message_bytes = max_message_bytes
        self._held = bytearray()  # the beginning of a message
        self._needed = _PRELUDE.size  # bytes of it that the next step takes
        self._offset = 0  # of that message within the stream
        self._headers_end = 0  # of its headers within it
        # Nearly all messages of a stream have the same headers.
        self._last_head = b""
        self._last_headers: dict[str, HeaderValue] = {}

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that `data` completes."""
        messages: list[Message] = []
        if self.failure is not None:
            return messages
        held = self._held
        if held:
            held += data
            if len(held) < self._needed:
                return messages
            data = bytes(held)
            held.clear()
        position, size = 0, len(data)
        try:
            while size - position >= self._needed:
                if self._needed == _PRELUDE.size:
                    self._needed = self._read_length(data, position)
                    continue
                end = position + self._needed
                messages.append(self._read_message(data[position:end]))
                self.messages += 1
                self._offset += self._needed
                position, self._needed = end, _PRELUDE.size
        except _Malformed as exc:
            self.failure = StreamError("malformed", f"{exc}, in the message at byte {self._offset}")
        except _TooLarge as exc:
            self.failure = StreamError("too_large", str(exc), code="max_event_bytes")
        if self.failure is None and position < size:
            held += data[position:]
        return messages

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of a message whose end has not arrived: at the end of the source, it was cut."""
        return len(self._held)

    def _read_length(self, data: bytes, position: int) -> int:
        """Return the length of the message that begins at a position."""
        total, headers, checksum = _PRELUDE.unpack_from(data, position)
        if crc32(data[position : position + _LENGTHS.size]) != checksum:
            raise _Malformed("lengths that do not match their checksum")
        if total < headers + _OVERHEAD or headers > _MAX_HEADERS_BYTES:
            raise _Malformed(f"{headers} bytes of headers in {total} bytes")
        if total > self._max_message_bytes:
            most = self._max_message_bytes
            raise _TooLarge(f"a message of {total} bytes, expected at most {most}")
        self._headers_end = _PRELUDE.size + headers
        return int(total)

    def _read_message(self, raw: bytes) -> Message:
        end = len(raw) - _CHECKSUM.size
        if crc32(raw[:end]) != _CHECKSUM.unpack_from(raw, end)[0]:
            raise _Malformed("bytes that do not match their checksum")
        start = self._headers_end
        head = raw[_PRELUDE.size : start]
        if head != self._last_head:
            self._last_headers, self._last_head = _read_headers(head), head
        return Message(self._last_headers, raw[start:end], raw)


class _Malformed(Exception):
    """A message breaks the format."""


class _TooLarge(Exception):
    """A message exceeds the bound."""


def _read_headers(data: bytes) -> dict[str, HeaderValue]:
    headers: dict[str, HeaderValue] = {}
    position = 0
    try:
        while position < len(data):
            start = position + 1
            position = start + data[position]
            name = data[start:position].decode()
            if not name or name in headers:
                raise _Malformed("a header without a name, or with that of another")
            headers[name], position = _read_value(data, position + 1, data[position])
    except (IndexError, struct.error, UnicodeDecodeError) as exc:
        raise _Malformed("a header that is cut off, or no UTF-8") from exc
    if position > len(data):
        raise _Malformed("a header that is cut off, or no UTF-8")
    return headers


def _read_value(data: bytes, position: int, kind: int) -> tuple[HeaderValue, int]:
    """Return the value of a header, and the position behind it."""
    if kind in (_STRING, _BYTES):
        start = position + _SIZE.size
        end = start + int(_SIZE.unpack_from(data, position)[0])
        value = data[start:end]
        return (value.decode() if kind == _STRING else value), end
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, position
    if kind == _UUID:
        end = position + _UUID_BYTES
        return data[position:end], end
    if (number := _NUMBERS.get(kind)) is None:
        raise _Malformed(f"a header of type {kind}")
    return int(number.unpack_from(data, position)[0]), position + number.size


def encode_message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return one message as bytes.

    Args:
        headers: Texts by name; names have at most 255 bytes, texts at most 65,535.
        payload: The payload.
    """
    head = b"".join([_encode_header(name, value) for name, value in headers.items()])
    lengths = _LENGTHS.pack(len(head) + len(payload) + _OVERHEAD, len(head))
    data = b"".join([lengths, _CHECKSUM.pack(crc32(lengths)), head, payload])
    return data + _CHECKSUM.pack(crc32(data))


def _encode_header(name: str, value: str) -> bytes:
    key, text = name.encode(), value.encode()
    return b"%c%b%c%b%b" % (len(key), key, _STRING, _SIZE.pack(len(text)), text)
