"""Layout of AWS event streams: offsets and text for recordings, and validation.

They share the cutting of messages with the decoders, since a wrong length or checksum can be read
in one way alone; what stands in the messages is judged here.
"""

from __future__ import annotations

import re
from base64 import b64encode
from binascii import a2b_base64
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate, islice
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from streamnorm._core.codec.framing import Replace, Rewriter, StrictReader
from streamnorm._core.json import FAST_ERRORS, object_in
from streamnorm._core.limits import Limits
from streamnorm.eventstream import EventStreamDecoder, Message
from streamnorm.sse import Frame, RawFrame, StrayLine

_PRELUDE_BYTES = 12  # two lengths, and their checksum
_CHECKSUM_BYTES = 4
_INSIDE_CHARACTER = re.compile(rb"[\xc2-\xf4](?=[\x80-\xbf])")
# Four characters of base64 stand for three bytes; two or three at the end for one or two.  Node's
# decoder reads the alphabet for URLs, too (RFC 4648, section 5).
_BASE64 = re.compile(rb'"bytes"\s*+:\s*+"((?:[A-Za-z0-9+/_-]{4})*+(?:[A-Za-z0-9+/_-]{2,3})?+)')
_FROM_URLS = bytes.maketrans(b"-_", b"+/")
_TO_URLS = bytes.maketrans(b"+/", b"-_")

_UNREAD = Frame("message", "")  # counts as a frame, and is not checked


class EventSplitter(Protocol):
    """The part of a framing's splitter that the layout needs."""

    def split(self, data: bytes) -> list[RawFrame]:
        """Return the events that `data` completes."""
        ...

    def parse(self, raw: RawFrame) -> list[Frame | StrayLine]:
        """Return the parsed frame of an event from `split`."""
        ...


class PayloadContent(Protocol):
    """Reader and replacer of the texts in the payload of a framed message or of its beginning."""

    def texts_of(self, payload: bytes) -> list[bytes]:
        """Return the texts in a payload, in order."""
        ...

    def with_texts(self, payload: bytes, texts: list[bytes]) -> bytes:
        """Return a payload with other texts of the same lengths."""
        ...


class PlainContent:
    """Content of a payload that is a single text, such as JSON."""

    def texts_of(self, payload: bytes) -> list[bytes]:
        """Return the payload as its only text."""
        return [payload]

    def with_texts(self, payload: bytes, texts: list[bytes]) -> bytes:
        """Return the new text as the payload."""
        return texts[0]


class Chunk(Struct, rename={"data": "bytes"}):
    """The payload of a `chunk` message, without its padding `p`."""

    data: bytes


decode_chunk = msgspec.json.Decoder(Chunk).decode


class ChunkContent:
    """Content of a chunk's payload: Base64 of one text, within JSON."""

    def texts_of(self, payload: bytes) -> list[bytes]:
        """Return the decoded text of a chunk, and the JSON before and after it.

        If the payload is not spelt as Bedrock spells it, the whole payload stands behind the text,
        and what all base64 in it stands for: it may lack its padding, and have a second chunk.
        """
        runs = list(_BASE64.finditer(payload))
        data, found = _decode_data(payload), [_decode_run(run[1]) for run in runs]
        if found == [data]:
            return [data, payload[: runs[0].start(1)], payload[runs[0].end(1) :]]
        return [data, payload, *found]

    def with_texts(self, payload: bytes, texts: list[bytes]) -> bytes:
        """Return the payload of a chunk with another text."""
        data, before, *rest = texts
        if len(before) < len(payload):
            # Readers of JSON that found the data know no alphabet but the common one.
            return b"".join([before, b64encode(data).rstrip(b"="), *rest])
        if data:
            # No other spelling is shorter, and white space behind JSON means nothing.
            return (b'{"bytes":"%b"}' % b64encode(data)).ljust(len(payload))
        pieces: list[bytes] = []
        at = 0
        for run, text in zip(_BASE64.finditer(payload), rest, strict=True):
            if text != _decode_run(run[1]):
                pieces += (before[at : run.start(1)], _encode_run(text, run[1]))
                at = run.end(1)
        return b"".join([*pieces, before[at:]])

    def find_encoded(self, data: bytes) -> list[bytes]:
        """Return the decoded Base64 texts in a payload or an incomplete message."""
        found = [_decode_run(run[1]) for run in _BASE64.finditer(data)]
        return list(dict.fromkeys([_decode_data(data), *found]))


def _decode_data(payload: bytes) -> bytes:
    """Return the text that JSON readers find in a chunk; b"" if the chunk is invalid."""
    try:
        return decode_chunk(payload).data
    except FAST_ERRORS:
        return b""


def _decode_run(run: bytes) -> bytes:
    return a2b_base64(run.translate(_FROM_URLS) + b"=" * (-len(run) % 4))


def _encode_run(text: bytes, former: bytes) -> bytes:
    """Return text as Base64, in the alphabet of the Base64 that it replaces."""
    run = b64encode(text).rstrip(b"=")
    return run.translate(_TO_URLS) if b"-" in former or b"_" in former else run


class MessageFrames:
    """Reads the frames of an AWS event stream, including messages that end the stream.

    Args:
        splitter: Splitter of the framing.
        limits: Bounds; `max_event_bytes` bounds a message.

    Attributes:
        frames: Number of frames so far.
    """

    def __init__(self, splitter: EventSplitter, limits: Limits) -> None:
        self.frames = 0
        self._splitter = splitter
        self._messages = EventStreamDecoder(max_message_bytes=limits.max_event_bytes)

    def feed(self, data: bytes) -> list[Frame]:
        """Return one frame for each message that `data` completes."""
        frames = [self._frame_of(message) for message in self._messages.feed(data)]
        self.frames += len(frames)
        return frames

    def unterminated(self) -> Frame | None:
        """Return None: an incomplete message cannot be read."""
        return None

    def _frame_of(self, message: Message) -> Frame:
        splitter = self._splitter
        items = [item for raw in splitter.split(message.raw) for item in splitter.parse(raw)]
        frames = [item for item in items if isinstance(item, Frame)]
        if frames:
            return frames[0]
        # An exception, or an event that the framing does not read.
        names = (":event-type", ":exception-type", ":error-code", ":message-type")
        name = next((text for name in names if (text := message.text(name))), "message")
        return Frame(name, message.payload.decode(errors="replace"))


class MessageLayout:
    """The byte layout of an AWS event stream.

    Args:
        splitter: Factory of the splitter of its framing.
        content: The texts in a payload.
        strict_reader: Factory of readers for validation, from the bytes of a message.
    """

    def __init__(
        self,
        splitter: Callable[[Limits], EventSplitter],
        content: PayloadContent,
        strict_reader: Callable[[int], StrictReader],
    ) -> None:
        self.strict_reader: Callable[[int], StrictReader] | None = strict_reader
        self.rewriter: Rewriter | None = _MessageRewriter(content)
        self._splitter = splitter

    def find_event_ends(self, body: bytes) -> list[int]:
        """Return the end offset of each message; bytes from an invalid message on count as one."""
        ends = list(accumulate(len(message.raw) for message in _messages_of(body)))
        if body and (not ends or ends[-1] < len(body)):
            ends.append(len(body))
        return ends

    def is_whole(self, body: bytes) -> bool:
        """Return whether the last message is complete."""
        return sum(len(message.raw) for message in _messages_of(body)) == len(body)

    def find_hostile_cuts(self, body: bytes) -> list[int]:
        """Return offsets in lengths, checksums, headers and payloads, and between messages."""
        cuts: set[int] = set()
        start = 0
        for message in _messages_of(body):
            end = start + len(message.raw)
            payload = end - _CHECKSUM_BYTES - len(message.payload)
            middle = len(message.payload) // 2
            cuts |= {
                *(start + 2, start + 6, start + 8, start + 10, start + _PRELUDE_BYTES),
                *((start + _PRELUDE_BYTES + payload) // 2, payload),
                *(payload + middle, payload + middle + 1),  # within four characters of base64
                *(end - _CHECKSUM_BYTES, end - 2, end),
            }
            inside = _INSIDE_CHARACTER.finditer(message.payload)
            cuts |= {payload + match.end() for match in inside}
            start = end
        return sorted(cuts)

    def frame_reader(self, limits: Limits) -> MessageFrames:
        """Return a reader of the frames of one stream."""
        return MessageFrames(self._splitter(limits), limits)


def _messages_of(body: bytes) -> list[Message]:
    return EventStreamDecoder(max_message_bytes=len(body)).feed(body)


class _MessageRewriter:
    def __init__(self, content: PayloadContent) -> None:
        self._content = content

    def rewrite(self, messages: Sequence[Message], replace: Replace) -> list[bytes]:
        """Return messages with replaced text in headers and payloads."""
        originals = [[each.head, *self._content.texts_of(each.payload)] for each in messages]
        # All at once: to search texts one by one would be slow.
        replaced = iter(replace([text for texts in originals for text in texts]))
        rewritten: list[bytes] = []
        for message, before in zip(messages, originals, strict=True):
            head, *texts = after = list(islice(replaced, len(before)))
            if after == before:
                rewritten.append(message.raw)
                continue
            payload = self._content.with_texts(message.payload, texts)
            rewritten.append(message.replace(head, payload))
        return rewritten

    def rewrite_rest(self, data: bytes, replace: Replace) -> bytes:
        """Return the bytes of an incomplete message, with replaced text."""
        before = self._content.texts_of(data)
        after = replace(before)
        return data if after == before else self._content.with_texts(data, after)


class StrictMessages:
    """Validating reader of an AWS event stream with one event in each message.

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
        """Yield the frames and problems that `data` completes."""
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
        """Yield the problem of an incomplete last message."""
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
        """Yield a known exception as a frame; the dialect checks its position."""
        if name in self._exceptions:
            yield from _read_text(name, payload)
            return
        # As a frame it might pass for the event of its name.
        self.has_failed = True
        yield _unknown_exception(self._exceptions)
        yield _UNREAD


class _Typed(Struct):
    type: str


_decode_typed = msgspec.json.Decoder(_Typed).decode


class StrictChunks(StrictMessages):
    """Validating reader of an AWS event stream with one event in each chunk."""

    def _read_event(self, name: str, payload: bytes) -> Iterator[Frame | str]:
        if name != "chunk":
            yield "event of an unknown :event-type, expected chunk"
            yield _UNREAD
            return
        try:
            data = decode_chunk(payload).data
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
