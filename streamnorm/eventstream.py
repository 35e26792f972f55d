"""AWS event streams: decoder from bytes to messages, and encoder.

`application/vnd.amazon.eventstream`, as Amazon Bedrock sends it (smithy-lang/smithy,
`amazon-eventstream.rst`, read 2026-11-23).  All numbers are big-endian:

    total length (4) | length of the headers (4) | CRC-32 of both (4)
    headers | payload | CRC-32 of all before (4)

Nothing waits for a length whose checksum was not compared, and time is linear in bytes whatever
the size of the reads.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
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
_read_prelude, _read_checksum = _PRELUDE.unpack_from, _CHECKSUM.unpack_from
_write_checksum = _CHECKSUM.pack
_PRELUDE_SIZE, _LENGTHS_SIZE, _CHECKSUM_SIZE = _PRELUDE.size, _LENGTHS.size, _CHECKSUM.size
_OVERHEAD = _PRELUDE_SIZE + _CHECKSUM_SIZE
# The specification's bound, which services must keep.
_MAX_HEADERS_BYTES = 128 * 1024
# Messages of a stream have some hundred lengths, since a few letters of text are in each.
_MAX_KNOWN = 1024
_MAX_KNOWN_HEAD = 512  # bytes; Bedrock's have less than 100
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

    @property
    def head(self) -> bytes:
        """The headers as bytes."""
        return self.raw[_PRELUDE.size : -_CHECKSUM.size - len(self.payload)]

    def replace(self, head: bytes, payload: bytes) -> bytes:
        """Return the message with new header bytes and a new payload, both of unchanged length."""
        data = b"".join([self.raw[: _PRELUDE.size], head, payload])
        return data + _CHECKSUM.pack(crc32(data))

    def text(self, name: str) -> str:
        """Return a header's value; "" if it is absent or not text."""
        value = self.headers.get(name)
        return value if isinstance(value, str) else ""


class EventStreamDecoder:
    """Splits bytes into messages.

    A message that breaks the format ends the stream: where the next one begins, only its length
    says, and that cannot be trusted any more.

    Args:
        max_message_bytes: Bytes of one message, with its headers and checksums.

    Attributes:
        messages: How many messages were returned.
        offset: Bytes of the messages that were returned.
        failure: Why the stream cannot be read any further; None while it can.
        held: The beginning of a message, whose end has not arrived.
        last_message: The message that ended with the last read of a `message_reader`; b"" if none
            did.
        reads_payloads: Whether a `message_reader` reads messages with the headers of the last one
            that `feed` returned.
    """

    def __init__(self, *, max_message_bytes: int = Limits().max_event_bytes) -> None:
        self.messages = 0
        self.offset = 0
        self.failure: StreamError | None = None
        self.held: bytes | bytearray = b""
        self.last_message = b""
        self.reads_payloads = True
        self._max_message_bytes = max_message_bytes
        self._needed = _PRELUDE_SIZE  # bytes of it that the next step takes
        # Nearly all messages of a stream have the same headers.
        self._last_head = b""
        self._last_headers: dict[str, HeaderValue] = {}
        self._payload_at = 0  # bytes before the payload of a message with these headers
        # Their lengths, and the checksums of prelude and headers, by prelude and headers.
        self._known: dict[bytes, tuple[int, int]] = {}
        # The same the other way round, of messages that a `message_reader` has read.
        self._by_length: dict[int, tuple[bytes, int]] = {}

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that `data` completes."""
        messages: list[Message] = []
        if self.failure is not None or (self.held and not (data := self._with_held(data))):
            return messages
        start, size, self._needed = 0, len(data), _PRELUDE_SIZE
        try:
            while size - start >= _PRELUDE_SIZE:
                total, headers_size, checksum = _read_prelude(data, start)
                # Nothing waits for a length, or allocates it, before its checksum is compared.
                if crc32(data[start : start + _LENGTHS_SIZE]) != checksum:
                    raise _Malformed("lengths that do not match their checksum")
                if not headers_size + _OVERHEAD <= total <= self._max_message_bytes:
                    raise self._wrong_length(total, headers_size)
                end = start + total
                if end > size:
                    _check_headers_size(headers_size, total)
                    self._needed = total
                    break
                messages.append(self._read_message(data, start, end, headers_size))
                start = end
        except _Malformed as exc:
            at = self.offset + start
            self.failure = StreamError("malformed", f"{exc}, in the message at byte {at}")
        except _TooLarge as exc:
            self.failure = StreamError("too_large", str(exc), code="max_event_bytes")
        self.offset += start
        self.messages += len(messages)
        if self.failure is not None:
            self._forget(b"")  # nothing is read like the messages before
        elif start < size:
            self.held = data[start:]
        return messages

    def feed_same_headers(self, data: bytes) -> list[bytes]:
        """Return the payloads of messages with the same headers as the last message from `feed`.

        Nearly all messages of a stream have these.  Any other ends the list: damaged or not, it is
        left to `feed`, to call if `has_unread_message`.
        """
        payloads: list[bytes] = []
        if self.failure is not None or (self.held and not (data := self._with_held(data))):
            return payloads
        known, payload_at = self._known, self._payload_at
        start, size, self._needed = 0, len(data), _PRELUDE_SIZE
        while start < size:
            before = data[start : start + payload_at]
            learned = known.get(before) or self._learn(before)
            if learned is None:
                break
            total, checksum = learned
            end = start + total
            if end > size:
                self._needed = total
                break
            stop = end - _CHECKSUM_SIZE
            payload = data[start + payload_at : stop]
            if crc32(payload, checksum) != _read_checksum(data, stop)[0]:
                break
            payloads.append(payload)
            start = end
        self.offset += start
        self.messages += len(payloads)
        if start < size:
            self.held = data[start:]
        return payloads

    def message_reader(
        self, decode: Callable[[bytes], str | None]
    ) -> Callable[[bytes], str | None]:
        """Return a function that decodes the bytes of one read, which must end exactly one message.

        The function returns what `decode` returns for the payload of the message, which must have
        the headers of the last one that `feed` returned, and "" for the beginning of a message.
        It returns None for any other read, and if `decode` returns None: then nothing changes, and
        the same bytes are still to be read.

        Args:
            decode: Reads a payload.
        """
        known_of = self._by_length.get

        def read(data: bytes) -> str | None:
            if held := self.held:
                # The beginning is joined with no other read before it ends the message.
                if len(held) + len(data) != self._needed and self._needed != _PRELUDE_SIZE:
                    return None
                data = bytes(held) + data
            if not self.reads_payloads:
                return None
            if (known := known_of(len(data))) is None:
                if not held and self._hold_beginning(data):
                    return ""
                if (known := self._learn_length(data)) is None:
                    return None
            before, checksum = known
            payload = data[len(before) : -_CHECKSUM_SIZE]
            # All bytes are compared at once, with those that the payload must stand in.
            if before + payload + _write_checksum(crc32(payload, checksum)) != data:
                return "" if not held and self._hold_beginning(data) else None
            if (text := decode(payload)) is not None:
                self.messages += 1
                self.offset += len(data)
                self.last_message = data
                if held:
                    self.held = b""
            return text

        return read

    def _hold_beginning(self, data: bytes) -> bool:
        """Hold `data` if it begins a message with the known headers; return whether it is held."""
        before = data[: self._payload_at]
        known = self._known.get(before) or self._learn(before)
        if known is None or known[0] <= len(data):
            return False
        self.held, self._needed, self.last_message = data, known[0], b""
        return True

    def _learn_length(self, data: bytes) -> tuple[bytes, int] | None:
        """Return the bytes before the payload of the message `data`, and their checksum."""
        before = data[: self._payload_at]
        known = self._known.get(before) or self._learn(before)
        if known is None or known[0] != len(data):
            return None
        if len(self._by_length) == _MAX_KNOWN:
            self._by_length.clear()
        learned = self._by_length[len(data)] = before, known[1]
        return learned

    def payload_of(self, message: bytes) -> bytes:
        """Return the payload of a message with the same headers as the last message from `feed`."""
        return message[self._payload_at : -_CHECKSUM_SIZE]

    @property
    def has_unread_message(self) -> bool:
        """Whether `feed_same_headers` left a message for `feed`."""
        return len(self.held) >= self._needed

    def _with_held(self, data: bytes) -> bytes:
        """Return the held bytes joined with `data`; b"" if the message is still incomplete."""
        held = self.held
        if len(held) + len(data) < self._needed:
            if isinstance(held, bytes):
                # A message of many reads is joined once: time is linear in its bytes.
                held = self.held = bytearray(held)
            held += data
            return b""
        self.held = b""
        return bytes(held) + data

    def _learn(self, before: bytes) -> tuple[int, int] | None:
        """Return the length of the message that `before` begins, and the checksum of `before`.

        None if the prelude is not whole, or the headers are other ones than the last; a checksum
        of 0 if `before` ends within the headers.
        """
        head = self._last_head
        if len(before) < _PRELUDE_SIZE or not 0 < len(head) <= _MAX_KNOWN_HEAD:
            return None
        total, headers_size, checksum = _read_prelude(before)
        is_sound = headers_size + _OVERHEAD <= total <= self._max_message_bytes
        if headers_size != len(head) or not is_sound or crc32(before[:_LENGTHS_SIZE]) != checksum:
            return None
        if len(before) < self._payload_at:  # a read that ends within the headers
            return int(total), 0
        if before[_PRELUDE_SIZE:] != head:
            return None
        if len(self._known) == _MAX_KNOWN:
            self._known.clear()
        learned = self._known[before] = int(total), crc32(before)
        return learned

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of the incomplete message."""
        return len(self.held)

    def _read_message(self, data: bytes, start: int, end: int, headers_size: int) -> Message:
        """Return the message that stands between two positions of the data."""
        checksum_at = end - _CHECKSUM_SIZE
        if crc32(data[start:checksum_at]) != _read_checksum(data, checksum_at)[0]:
            raise _Malformed("bytes that do not match their checksum")
        head_at = start + _PRELUDE_SIZE
        payload_at = head_at + headers_size
        head = self._last_head
        if headers_size != len(head) or not data.startswith(head, head_at):
            _check_headers_size(headers_size, end - start)
            head = data[head_at:payload_at]
            self._last_headers = _read_headers(head)
            self._forget(head)
        return Message(self._last_headers, data[payload_at:checksum_at], data[start:end])

    def _forget(self, head: bytes) -> None:
        """Replace the known headers, and clear the lengths learned with the former headers."""
        self._last_head, self._payload_at = head, _PRELUDE_SIZE + len(head)
        self._known.clear()
        self._by_length.clear()

    def _wrong_length(self, total: int, headers_size: int) -> _Malformed | _TooLarge:
        if total < headers_size + _OVERHEAD:
            return _Malformed(f"{headers_size} bytes of headers in {total} bytes")
        most = self._max_message_bytes
        return _TooLarge(f"a message of {total} bytes, expected at most {most}")


def _check_headers_size(size: int, total: int) -> None:
    if size > _MAX_HEADERS_BYTES:
        raise _Malformed(f"{size} bytes of headers in {total} bytes")


class _Malformed(Exception):
    """A message violates the format."""


class _TooLarge(Exception):
    """A message exceeds the size bound."""


def _read_headers(data: bytes) -> dict[str, HeaderValue]:
    headers: dict[str, HeaderValue] = {}
    position = 0
    try:
        while position < len(data):
            start = position + 1
            position = start + data[position]
            name = data[start:position].decode()
            if not name or name in headers:
                raise _Malformed("an empty or repeated name of a header")
            headers[name], position = _read_value(data, position + 1, data[position])
    except (IndexError, struct.error, UnicodeDecodeError) as exc:
        raise _Malformed("a header that is cut off or no UTF-8") from exc
    if position > len(data):
        raise _Malformed("a header that is cut off or no UTF-8")
    return headers


def _read_value(data: bytes, position: int, kind: int) -> tuple[HeaderValue, int]:
    """Return a header's value, and the position after it."""
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


def message_size(data: bytes, position: int) -> int:
    """Return the length of the message at a position, from its first four bytes."""
    return int(_CHECKSUM.unpack_from(data, position)[0])


def encode_message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Encode one message.

    Args:
        headers: Texts by name; names have at most 255 bytes, texts at most 65,535.
        payload: The payload.
    """
    return MessageEncoder(headers).encode(payload)


class MessageEncoder:
    """Encodes messages that have the same headers.

    Args:
        headers: As for `encode_message`.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._head = b"".join([_encode_header(name, value) for name, value in headers.items()])
        # What precedes a payload, and its checksum, by the length of the payload.
        self._known: dict[int, tuple[bytes, int]] = {}

    def encode(self, payload: bytes) -> bytes:
        """Return the bytes of the message that holds `payload`."""
        known = self._known.get(len(payload))
        if known is None:
            known = self._learn(len(payload))
        before, checksum = known
        return before + payload + _write_checksum(crc32(payload, checksum))

    def payload_encoder(
        self, start: bytes, serialize: Callable[[str], bytes], end: bytes
    ) -> Callable[[str], bytes]:
        """Return an encoder of messages whose payloads differ only in one text.

        Args:
            start: What the payloads begin with.
            serialize: Returns what stands between for a text.
            end: What the payloads end with.
        """
        known: dict[int, tuple[bytes, int]] = {}  # as `_known`, with `start`, by length of the rest
        known_for, prefix = known.get, self._prefix

        def encode(text: str) -> bytes:
            rest = serialize(text) + end
            size = len(rest)
            if (found := known_for(size)) is None:
                if len(known) == _MAX_KNOWN:
                    known.clear()
                before = prefix(len(start) + size) + start
                found = known[size] = before, crc32(before)
            before, checksum = found
            return before + rest + _write_checksum(crc32(rest, checksum))

        return encode

    def _learn(self, size: int) -> tuple[bytes, int]:
        if len(self._known) == _MAX_KNOWN:
            self._known.clear()
        before = self._prefix(size)
        known = self._known[size] = before, crc32(before)
        return known

    def _prefix(self, size: int) -> bytes:
        """Return the bytes that precede a payload of `size` bytes."""
        head = self._head
        lengths = _LENGTHS.pack(len(head) + size + _OVERHEAD, len(head))
        return b"".join([lengths, _write_checksum(crc32(lengths)), head])


def _encode_header(name: str, value: str) -> bytes:
    key, text = name.encode(), value.encode()
    return b"%c%b%c%b%b" % (len(key), key, _STRING, _SIZE.pack(len(text)), text)
