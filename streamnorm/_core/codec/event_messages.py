"""Framing of Amazon Bedrock's `ConverseStream`: one event in each AWS event stream message.

A message of type `event` is one event: its `:event-type` is the name, its payload the JSON.  What
fails is a message of type `exception` or `error`, which ends the stream (botocore 1.44.5,
`bedrock-runtime/2023-09-30/service-2.json` and `eventstream.py`, read 2026-11-23).

`invoke_chunks` has the events of other dialects in such messages.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final

from streamnorm._core.codec.framing import Framing
from streamnorm._core.codec.message_layout import MessageLayout, PlainContent, StrictMessages
from streamnorm._core.events import StreamError
from streamnorm._core.failures import Fatal, malformed
from streamnorm._core.json import dumps, object_in, string_of
from streamnorm._core.limits import Limits
from streamnorm.eventstream import (
    EventStreamDecoder,
    HeaderValue,
    Message,
    MessageEncoder,
    encode_message,
    message_size,
)
from streamnorm.sse import Fragment, Frame, RawFrame, StrayLine

_FAILED = Fragment(b"")  # has the decoder look at `failure`
_EVENT = b"event: "
_DATA = b"\ndata: "
_EVENT_END = b"\n\n"
_LINE_END = re.compile(r"[\r\n]")
_LINE_ENDS = re.compile(rb"[\r\n]+")

MEDIA_TYPE = "application/vnd.amazon.eventstream"
SUFFIX: Final = ".eventstream"

# HTTP status and whether another request may succeed, by exception (the same model, `errors`).
_STATUSES: dict[str, tuple[int, bool]] = {
    "validationException": (400, False),
    "modelTimeoutException": (408, True),
    "modelStreamErrorException": (424, True),
    "throttlingException": (429, True),
    "internalServerException": (500, True),
    "serviceUnavailableException": (503, True),
}
_BY_STATUS = {status: name for name, (status, _) in _STATUSES.items()} | {
    504: "modelTimeoutException",
    529: "throttlingException",
}
_UNEXPLAINED = "modelStreamErrorException"  # which names the original status

INVOKE_EXCEPTIONS = frozenset(_STATUSES)
"""Exceptions of `InvokeModelWithResponseStream`."""

CONVERSE_EXCEPTIONS = INVOKE_EXCEPTIONS - {"modelTimeoutException"}
"""Exceptions of `ConverseStream`; of any other, boto3 reports no code."""


def exception_error(name: str, payload: str) -> StreamError:
    """Return the error that an exception message reports.

    Args:
        name: Type of the exception.
        payload: The JSON.
    """
    fields: dict[str, Any] = object_in(payload)
    status, retryable = _STATUSES.get(name, (None, None))
    original = fields.get("originalStatusCode")
    if type(original) is int and 400 <= original <= 599:
        status, retryable = original, original in (408, 409, 429) or original >= 500
    extra: dict[str, Any] = {
        key: fields[key] for key in ("originalStatusCode", "originalMessage") if key in fields
    }
    # Both spellings are read by botocore.
    text = string_of(fields, "message") or string_of(fields, "Message") or name or "an exception"
    return StreamError("upstream", text, name or None, status, retryable, extra or None)


def exception_of(error: StreamError, known: Collection[str]) -> tuple[str, dict[str, Any]]:
    """Return the type and the fields of the AWS exception that reports an error.

    Args:
        error: The error.
        known: Exceptions of the operation.
    """
    status = error.status_hint
    name = error.code
    if name not in known:
        name = None
        if error.kind == "upstream" and status is not None:
            name = _BY_STATUS.get(status)
            if name is None and 400 <= status < 500:
                name = "validationException"
            elif name is None and status >= 500:
                name = "internalServerException"
    if name is None or name not in known:
        name = _UNEXPLAINED
    fields: dict[str, Any] = {"message": error.message}
    if name == _UNEXPLAINED:
        fields |= {"originalStatusCode": status or 424, "originalMessage": error.message}
    return name, fields


def encode_exception(name: str, payload: bytes) -> bytes:
    """Return the bytes of an exception message."""
    headers = {":exception-type": name, ":content-type": "application/json"}
    return encode_message({**headers, ":message-type": "exception"}, payload)


class MessageSplitter(ABC):
    """Splits an AWS event stream into the events in its messages; see `Splitter`.

    Args:
        limits: Bounds; `max_event_bytes` bounds a message.
    """

    held = b""
    holds_original = False
    is_irregular = False
    stray_lines = 0
    strays: list[tuple[int, bytes]]

    def __init__(self, limits: Limits) -> None:
        self.failure: StreamError | None = None
        self.overflowed = False
        self.safe_bytes = limits.max_event_bytes - 1
        self.strays = []
        self.reader = EventStreamDecoder(max_message_bytes=limits.max_event_bytes)
        self._last_headers: dict[str, HeaderValue] | None = None  # of the last event
        self.reader.reads_payloads = False  # until the delta run reads those of the last type
        self._unread = 0  # messages that are no event, or behind the failure
        self._run_prefix: bytes | None = None  # lines of the events that the delta run reads
        self._last_line = b""  # the name of the last event, and the start of its data
        self._last: list[RawFrame] = []  # the events that `split` returned last

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of the incomplete message."""
        return self.reader.unfinished_bytes

    @property
    def frames(self) -> int:
        """Number of events read."""
        return self.reader.messages - self._unread

    @property
    def messages(self) -> int:
        """Number of messages read: events, and an exception that ended the stream."""
        return self.frames + (self.failure is not None and self.failure.kind == "upstream")

    def split(self, data: bytes) -> list[RawFrame]:
        """Return the events in the messages that `data` completes.

        An event that the delta run may read is its payload, any other a fragment with its lines.
        """
        frames: list[RawFrame] = []
        reader = self.reader
        self._last, reader.last_message = frames, b""
        if self.failure is not None:
            return frames
        before = reader.messages
        try:
            self._append_events(reader.feed_same_headers(data), frames)
            if reader.has_unread_message:
                for message in reader.feed(b""):
                    if message.headers is not self._last_headers:
                        self._check_headers(message)
                    self._append_events([message.payload], frames)
            self.failure = reader.failure
        except Fatal as exc:
            self.failure = exc.error
        if self.failure is not None:
            self._unread = reader.messages - before - len(frames)
            frames.append(_FAILED)
        return frames

    def payload_reader(
        self, prefix: bytes, decode: Callable[[bytes], str | None]
    ) -> Callable[[bytes], str | None]:
        """Return a fast decoder of chunks that hold a single event; see `Splitter`."""
        self._run_prefix = prefix
        self._set_last_line(self._last_line)
        return self.reader.message_reader(self._decoder(decode))

    def _set_last_line(self, line: bytes) -> None:
        """Store the SSE lines that precede the last event's payload."""
        self._last_line = line
        self.reader.reads_payloads = line == self._run_prefix

    @abstractmethod
    def _decoder(self, decode: Callable[[bytes], str | None]) -> Callable[[bytes], str | None]:
        """Return a decoder of message payloads; its result is None where `decode` fails."""

    @abstractmethod
    def _event_of(self, payload: bytes) -> bytes:
        """Return the event in a message payload."""

    def parse(self, raw: RawFrame) -> list[Frame | StrayLine]:
        """Return the parsed frame of an event from `split`."""
        lines = self._lines_of(raw)
        if not lines:
            self.overflowed = True  # all events before the failure are read
            return []
        name, _, payload = lines.partition(_DATA)
        text = payload.decode(errors="replace")
        return [Frame(name.removeprefix(_EVENT).decode(), text)]

    def as_event_stream(self, data: bytes) -> bytes:
        """Return the events of the last chunk as server-sent events."""
        message = self.reader.last_message
        events = [self._event_of(self.reader.payload_of(message))] if message else self._last
        written: list[bytes] = []
        for lines in map(self._lines_of, events):
            if lines:
                line, _, payload = lines.partition(_DATA)
                # The line ends of JSON stand between its values, where a space does as well.
                written += (line, _DATA, _LINE_ENDS.sub(b" ", payload), b"\n\n")
        return b"".join(written)

    def _lines_of(self, raw: RawFrame) -> bytes:
        """Return the SSE lines of an event."""
        if isinstance(raw, Fragment):
            return raw.data.removesuffix(_EVENT_END)
        return (self._run_prefix or b"") + raw

    def unterminated(self) -> Frame | None:
        """Return None: an incomplete message cannot be verified, and counts as cut."""
        return None

    def _check_headers(self, message: Message) -> None:
        """Check that a message is an event of the operation; raise `Fatal` otherwise."""
        kind = message.text(":message-type")
        if kind == "exception":
            payload = message.payload.decode(errors="replace")
            raise Fatal(exception_error(message.text(":exception-type"), payload))
        if kind == "error":  # which no model describes
            text = message.text(":error-message") or "the server ended the stream"
            raise Fatal(StreamError("upstream", text, message.text(":error-code") or None))
        if kind != "event":
            raise malformed(f"a message of type {kind!r:.64}, expected an event")
        self._check_event_type(message.text(":event-type"))
        self._last_headers = message.headers

    @abstractmethod
    def _check_event_type(self, name: str) -> None:
        """Check that the operation has events of type `name`.

        Raises:
            Fatal: The operation has no such events.
        """

    @abstractmethod
    def _append_events(self, payloads: list[bytes], frames: list[RawFrame]) -> None:
        """Append the events in payloads of messages whose headers equal the headers read last.

        Raises:
            Fatal: The stream ends here.
        """


class MessagePassthrough:
    """Returns the original messages of a stream; see `Passthrough`.

    The splitter holds the beginning of a message, and joins it with its end.

    Args:
        splitter: The splitter of the same bytes.
    """

    shows_errors: bool = False  # in events, which no client takes for the failure that they are

    def __init__(self, splitter: MessageSplitter) -> None:
        self._splitter = splitter
        self._reader = splitter.reader
        self._held: bytes | bytearray = b""  # the beginning of a message, before this read
        self._messages = 0  # before it

    def take_forwarded(self, data: bytes) -> bytes:
        """Return the message that ends with the last chunk; b"" if the message is incomplete."""
        message = self._reader.last_message
        if message:
            self._messages += 1
            self._held = b""
        else:
            self._held = self._reader.held
        return message

    def take(self, data: bytes, unread: int = 0) -> bytes:
        """Return the messages that `data` completes."""
        splitter, reader, held = self._splitter, self._reader, self._held
        self._held = reader.held
        if held:
            if splitter.messages == self._messages:  # one that is returned at its end alone
                return b""
            data = bytes(held) + data
        if splitter.failure is None and not unread:
            end, self._messages = len(data) - len(reader.held), reader.messages
        else:
            # An exception behind an event that is not passed on is not passed on, either.
            read = splitter.frames - unread if unread else splitter.messages
            end = _end_of(data, read - self._messages)
            self._messages = splitter.messages
        return data[:end]

    take_other = take

    def rest(self) -> bytes:
        """Return b"": an incomplete message cannot be passed on."""
        return b""


def _end_of(data: bytes, count: int) -> int:
    """Return the offset after the first `count` messages."""
    end = 0
    for _ in range(count):
        end += message_size(data, end)
    return end


class EventMessageSplitter(MessageSplitter):
    """Splits an AWS event stream whose messages each hold one event."""

    def _decoder(self, decode: Callable[[bytes], str | None]) -> Callable[[bytes], str | None]:
        return decode

    def _event_of(self, payload: bytes) -> bytes:
        return payload

    def _check_event_type(self, name: str) -> None:
        # Another line in the name would be another field of the event.
        if not name or _LINE_END.search(name):
            raise malformed(f"an event type of {len(name)} characters, expected a name")
        self._set_last_line(b"event: %b\ndata: " % name.encode())

    def _append_events(self, payloads: list[bytes], frames: list[RawFrame]) -> None:
        # Nothing at all would be taken for no event.
        is_on_run = self.reader.reads_payloads
        if is_on_run and b"" not in payloads:
            frames += payloads
        else:
            line = self._last_line
            frames += [
                payload if is_on_run and payload else Fragment(line + payload + _EVENT_END)
                for payload in payloads
            ]


# All 5,887 events in recordings of Bedrock have these headers, in this order.
EVENT_HEADERS = {":content-type": "application/json", ":message-type": "event"}


# Converse has six events, with short names; a peer may name very many others.
_MAX_ENCODERS = 8
_EXCEPTION_NAMES = frozenset(name.encode() for name in CONVERSE_EXCEPTIONS)
_MAX_LINE_BYTES = 64


class EventMessageWriter:
    """Writes each server-sent event as an AWS event stream message.

    A client takes the end of the bytes for success (botocore), so an encoder writes a failure as
    an event that is named as its exception, and the exception is a message of its kind.
    """

    def __init__(self) -> None:
        self._encoders: dict[bytes, MessageEncoder] = {}  # by the line that names the event

    def write(self, data: bytes, failure: StreamError | None) -> bytes:
        """Return whole events as messages; see `FrameWriter`."""
        # Encoders write events of two lines each, whose JSON has no line end.
        return b"".join([self._encode(lines) for lines in data.split(_EVENT_END) if lines])

    def delta_writer(self, head: bytes, tail: bytes) -> Callable[[str], bytes]:
        """Return a serializer of delta messages; see `FrameWriter`."""
        line, _, start = head.partition(_DATA)
        end = tail.removesuffix(_EVENT_END)
        return self._encoder(line).payload_encoder(start, dumps, end)

    def _encode(self, lines: bytes) -> bytes:
        line, _, payload = lines.partition(_DATA)
        name = line.removeprefix(_EVENT)
        if name in _EXCEPTION_NAMES:
            return encode_exception(name.decode(), payload)
        return self._encoder(line).encode(payload)

    def _encoder(self, line: bytes) -> MessageEncoder:
        """Return the encoder of AWS messages for events whose SSE `event:` line is `line`."""
        encoder = self._encoders.get(line)
        if encoder is None:
            name = line.removeprefix(_EVENT).decode()
            encoder = MessageEncoder({":event-type": name, **EVENT_HEADERS})
            if len(self._encoders) < _MAX_ENCODERS and len(line) < _MAX_LINE_BYTES:
                self._encoders[line] = encoder
        return encoder


EVENTSTREAM = Framing(
    "eventstream",
    MEDIA_TYPE,
    SUFFIX,
    EventMessageSplitter,
    MessagePassthrough,
    MessageLayout(
        EventMessageSplitter, PlainContent(), partial(StrictMessages, CONVERSE_EXCEPTIONS)
    ),
    EventMessageWriter,
)
"""One event in each message of an AWS event stream, as Amazon Bedrock's Converse has them."""
