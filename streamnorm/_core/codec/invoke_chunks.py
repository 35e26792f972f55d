"""Amazon Bedrock's `InvokeModelWithResponseStream`: events of another dialect in an event stream.

Each event of the model is the base64 in a message of type `chunk`.  What fails is a message of
another type, which ends the stream (botocore 1.44.5, `bedrock-runtime/2023-09-30/service-2.json`
and `eventstream.py`, read 2026-11-23).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from streamnorm._core.codec.framing import Framing
from streamnorm._core.codec.message_layout import ChunkContent, MessageLayout
from streamnorm._core.events import StreamError
from streamnorm._core.failures import NOT_A_STREAM, Fatal
from streamnorm._core.json import FAST_ERRORS, dumps, object_in, string_of
from streamnorm._core.limits import Limits
from streamnorm.eventstream import (
    EventStreamDecoder,
    HeaderValue,
    Message,
    encode_message,
    message_size,
)
from streamnorm.sse import Fragment, Frame, RawFrame, SSEDecoder, StrayLine

_FAILED = Fragment(b"")  # has the decoder look at `failure`
_LINE_ENDS = re.compile(rb"[\r\n]+")
_DATA = b"\ndata: "
_TYPE = re.compile(rb'\{"type":"([a-z_]{1,64})"')

# HTTP status and whether another request may succeed, by exception (the same model, `errors`).
_EXCEPTIONS: dict[str, tuple[int, bool]] = {
    "validationException": (400, False),
    "modelTimeoutException": (408, True),
    "modelStreamErrorException": (424, True),
    "throttlingException": (429, True),
    "internalServerException": (500, True),
    "serviceUnavailableException": (503, True),
}
_BY_STATUS = {status: name for name, (status, _) in _EXCEPTIONS.items()} | {
    504: "modelTimeoutException",
    529: "throttlingException",
}

# What the other families of models write, by a field that no other family has.
_FAMILIES = {
    "completion": "text completions",
    "outputText": "Amazon Titan",
    "generation": "Meta Llama",
    "outputs": "Mistral",
    "event_type": "Cohere",
    "generations": "Cohere",
    "is_finished": "Cohere",
    "messageStart": "Amazon Nova",
    "contentBlockDelta": "Amazon Nova",
}


class _Chunk(Struct, rename={"data": "bytes"}):
    """The payload of a `chunk`, without the padding `p` that hides the length of the text."""

    data: bytes


class _Typed(Struct):
    type: str | None = None


_decode_chunk = msgspec.json.Decoder(_Chunk).decode
_decode_type = msgspec.json.Decoder(_Typed).decode


class InvokeChunksSplitter:
    """Cuts a stream into the events in its chunks; see `Splitter`.

    Args:
        limits: Bounds; `max_event_bytes` bounds a message.
    """

    carries = True  # a read is never one event as it stands
    held = b""
    holds_original = False
    is_irregular = False
    stray_lines = 0
    strays: list[tuple[int, bytes]]

    def __init__(self, limits: Limits) -> None:
        self.failure: StreamError | None = None
        self.frames = 0
        self.overflowed = False
        self.safe_bytes = limits.max_event_bytes - 1
        self.strays = []
        self._messages = EventStreamDecoder(max_message_bytes=limits.max_event_bytes)
        self._chunk_headers: dict[str, HeaderValue] | None = None  # as those of the last chunk
        self._last_start: bytes | tuple[()] = ()  # of an event, with its type
        self._last_line = b""  # that names the type
        self._last: list[RawFrame] = []  # the events of the last read

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of the message that has begun and not ended."""
        return self._messages.unfinished_bytes

    @property
    def messages(self) -> int:
        """Number of messages that were read: chunks, and what the server ended the stream with."""
        return self.frames + (self.failure is not None and self.failure.kind == "upstream")

    def split(self, data: bytes) -> list[RawFrame]:
        """Return the events in the chunks that `data` completes, each as the lines of one event."""
        frames: list[RawFrame] = []
        self._last = frames
        if self.failure is not None:
            return frames
        reader, start, line = self._messages, self._last_start, self._last_line
        try:
            for payload in reader.feed_alike(data):
                event = _decode_chunk(payload).data
                if event.startswith(start):  # nearly all events are of one type
                    frames.append(line + event)
                else:
                    frames.append(self._lines_of(event))
                    start, line = self._last_start, self._last_line
            if reader.has_other:
                for message in reader.feed(b""):
                    if message.headers is not self._chunk_headers:
                        self._check_headers(message)
                    frames.append(self._lines_of(_decode_chunk(message.payload).data))
            self.failure = reader.failure
        except Fatal as exc:
            self.failure = exc.error
        except FAST_ERRORS:
            self.failure = _malformed("a chunk that holds no event, expected base64 of JSON").error
        self.frames += len(frames)
        if self.failure is not None:
            frames.append(_FAILED)
        return frames

    def read_only_event(
        self, data: bytes, prefix: bytes, decode: Callable[[bytes], str | None]
    ) -> str | None:
        """Return the text of a read that is exactly one event; see `Splitter`."""
        payload = self._messages.payload_of(data)
        if payload is None or prefix != self._last_line:
            return None
        try:
            event = _decode_chunk(payload).data
        except FAST_ERRORS:
            return None
        if not event.startswith(self._last_start) or (text := decode(event)) is None:
            return None
        self._messages.skip(data)
        self.frames += 1
        self._last = [prefix + event]
        return text

    def parse(self, raw: RawFrame) -> list[Frame | StrayLine]:
        """Return the frame of an event that `split` returned."""
        if isinstance(raw, Fragment):
            self.overflowed = True  # all events before the failure are read
            return []
        name, _, payload = raw.partition(_DATA)
        text = payload.decode(errors="replace")
        return [Frame(name.removeprefix(b"event: ").decode(), text)]

    def as_event_stream(self, data: bytes) -> bytes:
        """Return the events of the last read as server-sent events."""
        written: list[bytes] = []
        for raw in self._last:
            if isinstance(raw, bytes):
                line, _, payload = raw.partition(_DATA)
                # The line ends of JSON stand between its values, where a space does as well.
                written += (line, _DATA, _LINE_ENDS.sub(b" ", payload), b"\n\n")
        return b"".join(written)

    def unterminated(self) -> Frame | None:
        """Return None: half a message cannot be checked, and is a cut."""
        return None

    def _check_headers(self, message: Message) -> None:
        """Accept a chunk; the stream ends with any other message."""
        kind, event_type = message.text(":message-type"), message.text(":event-type")
        if kind != "event":
            raise _error_of(message, kind)
        if event_type != "chunk":
            raise _malformed(f"an event {event_type!r:.64}, expected chunk")
        self._chunk_headers = message.headers

    def _lines_of(self, event: bytes) -> bytes:
        """Return an event as lines, the first of which names its type."""
        if named := _TYPE.match(event):
            self._last_start, self._last_line = named[0], b"event: %b\ndata: " % named[1]
            return self._last_line + event
        name = (_decode_type(event).type or "").encode()
        if not name or b"\n" in name or b"\r" in name:
            _refuse_foreign(event)
            name = b"message"
        return b"event: %b\ndata: %b" % (name, event)


def _malformed(message: str) -> Fatal:
    return Fatal(StreamError("malformed", message))


def _refuse_foreign(event: bytes) -> None:
    """End the stream at an event of a family of models that no dialect reads."""
    value = object_in(event.decode(errors="replace"))
    family = next((_FAMILIES[name] for name in value if name in _FAMILIES), None)
    if family is not None:
        message = f"a stream of {family}, expected events of a known dialect"
        raise Fatal(StreamError("malformed", message, NOT_A_STREAM))


def _error_of(message: Message, kind: str) -> Fatal:
    """Return the error that an exception or an error message reports."""
    if kind == "error":  # which no model describes
        text = message.text(":error-message") or "the server ended the stream"
        return Fatal(StreamError("upstream", text, message.text(":error-code") or None))
    if kind != "exception":
        return _malformed(f"a message of type {kind!r:.64}, expected an event")
    name = message.text(":exception-type")
    fields: dict[str, Any] = object_in(message.payload.decode(errors="replace"))
    status, retryable = _EXCEPTIONS.get(name, (None, None))
    original = fields.get("originalStatusCode")
    if type(original) is int and 400 <= original <= 599:
        status, retryable = original, original in (408, 409, 429) or original >= 500
    extra: dict[str, Any] = {
        key: fields[key] for key in ("originalStatusCode", "originalMessage") if key in fields
    }
    # Both spellings are read by botocore.
    text = string_of(fields, "message") or string_of(fields, "Message") or name or "an exception"
    return Fatal(StreamError("upstream", text, name or None, status, retryable, extra or None))


class MessagePassthrough:
    """Returns the original messages of a stream; see `Passthrough`.

    Args:
        splitter: The splitter of the same bytes.
    """

    shows_errors: bool = False  # in chunks, which no client takes for the failure that they are

    def __init__(self, splitter: InvokeChunksSplitter) -> None:
        self._splitter = splitter
        self._held: bytes = b""  # the beginning of a message
        self._messages = 0  # before it

    def take_event(self, data: bytes) -> bytes:
        """Return a read that is exactly one message."""
        self._messages += 1
        return data

    def take(self, data: bytes, unread: int = 0) -> bytes:
        """Return the messages that `data` completes."""
        splitter, data = self._splitter, self._held + data
        if splitter.failure is None and not unread:
            end, self._messages = len(data) - splitter.unfinished_bytes, splitter.frames
        else:
            end = _end_of(data, splitter.messages - self._messages - unread)
            self._messages = splitter.messages
        self._held = data[end:]
        return data[:end]

    take_other = take

    def rest(self) -> bytes:
        """Return nothing: half a message cannot be read."""
        return b""


def _end_of(data: bytes, count: int) -> int:
    """Return the end of the first `count` messages."""
    end = 0
    for _ in range(count):
        end += message_size(data, end)
    return end


_EVENT = {":content-type": "application/json", ":message-type": "event"}


class InvokeChunksWriter:
    """Writes server-sent events as chunks.

    A client takes the end of the bytes for success (botocore), so a failure is an exception, and
    an `error` event, which clients of the operation do not read, is never in a chunk.
    """

    def __init__(self) -> None:
        self._sse = SSEDecoder()
        self._usage: dict[str, Any] = {}

    def write(self, data: bytes, failure: StreamError | None) -> bytes:
        """Return whole events as messages; see `FrameWriter`."""
        # No recording of the operation has a ping.
        frames = [frame for frame in self._sse.feed(data) if frame.event not in ("ping", "error")]
        out = [self._encode_chunk(frame) for frame in frames]
        if failure is not None:
            out.append(_encode_exception(failure))
        return b"".join(out)

    def _encode_chunk(self, frame: Frame) -> bytes:
        text = frame.data
        if frame.event in ("message_start", "message_delta"):
            self._note_usage(object_in(text))
        elif frame.event == "message_stop":
            text = self._with_metrics(object_in(text))
        payload = msgspec.json.encode(_Chunk(text.encode("utf-8", "replace")))
        return encode_message({":event-type": "chunk", **_EVENT}, payload)

    def _note_usage(self, event: dict[str, Any]) -> None:
        usage = event.get("message", event)["usage"]
        self._usage |= {name: count for name, count in usage.items() if count is not None}

    def _with_metrics(self, event: dict[str, Any]) -> str:
        """Return the last event with its metrics, in which clients of Bedrock look for tokens."""
        counts = {
            "inputTokenCount": "input_tokens",
            "outputTokenCount": "output_tokens",
            "cacheReadInputTokenCount": "cache_read_input_tokens",
            "cacheWriteInputTokenCount": "cache_creation_input_tokens",
        }
        metrics = {name: self._usage.get(field, 0) for name, field in counts.items()}
        metrics |= {"invocationLatency": 0, "firstByteLatency": 0}  # which only a clock knows
        return dumps({"amazon-bedrock-invocationMetrics": metrics, **event}).decode()


def _encode_exception(error: StreamError) -> bytes:
    status = error.status_hint
    name = error.code if error.code in _EXCEPTIONS else None
    if name is None and error.kind == "upstream" and status is not None:
        name = _BY_STATUS.get(status)
        if name is None and 400 <= status < 500:
            name = "validationException"
        elif name is None and status >= 500:
            name = "internalServerException"
    name = name or "modelStreamErrorException"
    fields: dict[str, Any] = {"message": error.message}
    if name == "modelStreamErrorException":
        fields |= {"originalStatusCode": status or 424, "originalMessage": error.message}
    headers = {":exception-type": name, ":content-type": "application/json"}
    return encode_message({**headers, ":message-type": "exception"}, dumps(fields))


INVOKE_CHUNKS = Framing(
    "invoke_chunks",
    "application/vnd.amazon.eventstream",
    ".eventstream",
    InvokeChunksSplitter,
    MessagePassthrough,
    MessageLayout(InvokeChunksSplitter, ChunkContent()),
    InvokeChunksWriter,
)
"""Events of another dialect in the chunks of Amazon Bedrock's `InvokeModelWithResponseStream`."""
