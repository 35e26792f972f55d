"""Framing of Amazon Bedrock's `InvokeModelWithResponseStream`: one event in each chunk.

Each event of the model is the base64 in a message of type `chunk`.  What fails is a message of
another type, which ends the stream (botocore 1.44.5, `bedrock-runtime/2023-09-30/service-2.json`
and `eventstream.py`, read 2026-11-23).
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from streamnorm._core.codec.event_messages import (
    EVENT_HEADERS,
    INVOKE_EXCEPTIONS,
    MEDIA_TYPE,
    SUFFIX,
    MessagePassthrough,
    MessageSplitter,
    encode_exception,
    exception_of,
)
from streamnorm._core.codec.framing import Framing
from streamnorm._core.codec.message_layout import (
    Chunk,
    ChunkContent,
    MessageLayout,
    StrictChunks,
    decode_chunk,
)
from streamnorm._core.events import StreamError
from streamnorm._core.failures import NOT_A_STREAM, Fatal, malformed
from streamnorm._core.json import FAST_ERRORS, dumps, object_in
from streamnorm._core.limits import Limits
from streamnorm.eventstream import MessageEncoder
from streamnorm.sse import Fragment, Frame, RawFrame, SSEDecoder

_DATA = b"\ndata: "
_TYPE = re.compile(rb'\{"type":"([a-z_]{1,64})"')

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


class _Typed(Struct):
    type: str | None = None


_decode_type = msgspec.json.Decoder(_Typed).decode


class InvokeChunksSplitter(MessageSplitter):
    """Splits an AWS event stream into the events in its chunks."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._last_start: bytes | tuple[()] = ()  # of an event, with its type

    def _decoder(self, decode: Callable[[bytes], str | None]) -> Callable[[bytes], str | None]:
        def decode_event(payload: bytes) -> str | None:
            try:
                event = decode_chunk(payload).data
            except FAST_ERRORS:
                return None
            return decode(event) if event.startswith(self._last_start) else None

        return decode_event

    def _event_of(self, payload: bytes) -> bytes:
        return decode_chunk(payload).data

    def _check_event_type(self, name: str) -> None:
        if name != "chunk":
            raise malformed(f"an event {name!r:.64}, expected chunk")

    def _append_events(self, payloads: list[bytes], frames: list[RawFrame]) -> None:
        start = self._last_start
        try:
            for payload in payloads:
                event = decode_chunk(payload).data
                if not event.startswith(start):  # nearly all events are of one type
                    self._read_type(event)
                    start = self._last_start
                if self.reader.reads_payloads:
                    frames.append(event)
                else:
                    frames.append(Fragment(self._last_line + event + b"\n\n"))
        except FAST_ERRORS as exc:
            raise malformed("a chunk that holds no event, expected base64 of JSON") from exc

    def _read_type(self, event: bytes) -> None:
        """Read the type at the start of an event, for the event's SSE `event:` line."""
        if named := _TYPE.match(event):
            self._last_start, name = named[0], named[1]
        else:
            self._last_start = ()
            name = (_decode_type(event).type or "").encode()
            if not name or b"\n" in name or b"\r" in name:
                _refuse_foreign(event)
                name = b"message"
        self._set_last_line(b"event: %b\ndata: " % name)


def _refuse_foreign(event: bytes) -> None:
    """Raise `Fatal` for an event of a model family that no dialect reads."""
    value = object_in(event.decode(errors="replace"))
    family = next((_FAMILIES[name] for name in value if name in _FAMILIES), None)
    if family is not None:
        message = f"a stream of {family}, expected events of a known dialect"
        raise Fatal(StreamError("malformed", message, NOT_A_STREAM))


class InvokeChunksWriter:
    """Writes each server-sent event as a chunk.

    A client takes the end of the bytes for success (botocore), so a failure is an exception, and
    an `error` event, which clients of the operation do not read, is never in a chunk.
    """

    def __init__(self) -> None:
        self._encoder = MessageEncoder({":event-type": "chunk", **EVENT_HEADERS})
        self._sse = SSEDecoder()
        self._usage: dict[str, Any] = {}

    def write(self, data: bytes, failure: StreamError | None) -> bytes:
        """Return whole events as messages; see `FrameWriter`."""
        # No recording of the operation has a ping.
        frames = [frame for frame in self._sse.feed(data) if frame.event not in ("ping", "error")]
        out = [self._encode_chunk(frame) for frame in frames]
        if failure is not None:
            name, fields = exception_of(failure, INVOKE_EXCEPTIONS)
            out.append(encode_exception(name, dumps(fields)))
        return b"".join(out)

    def delta_writer(self, head: bytes, tail: bytes) -> Callable[[str], bytes]:
        """Return a serializer of delta chunks; see `FrameWriter`."""
        event = head[head.index(_DATA) + len(_DATA) :]
        end = tail.removesuffix(b"\n\n")
        # Base64 of whole groups of three bytes does not depend on what follows them.
        common, rest = event[: -(len(event) % 3) or None], event[len(event) - len(event) % 3 :]

        def serialize(text: str) -> bytes:
            return b2a_base64(rest + dumps(text) + end, newline=False)

        start = b'{"bytes":"' + b2a_base64(common, newline=False)
        return self._encoder.payload_encoder(start, serialize, b'"}')

    def _encode_chunk(self, frame: Frame) -> bytes:
        text = frame.data
        if frame.event in ("message_start", "message_delta"):
            self._note_usage(frame.event, object_in(text))
        elif frame.event == "message_stop":
            text = self._with_metrics(object_in(text))
        payload = msgspec.json.encode(Chunk(text.encode("utf-8", "replace")))
        return self._encoder.encode(payload)

    def _note_usage(self, kind: str, event: dict[str, Any]) -> None:
        # The encoder has written both, beside fields of any name that an upstream has added.
        usage = (event["message"] if kind == "message_start" else event)["usage"]
        self._usage |= {name: count for name, count in usage.items() if count is not None}

    def _with_metrics(self, event: dict[str, Any]) -> str:
        """Return the last event with token metrics, which clients of Bedrock read."""
        counts = {
            "inputTokenCount": "input_tokens",
            "outputTokenCount": "output_tokens",
            "cacheReadInputTokenCount": "cache_read_input_tokens",
            "cacheWriteInputTokenCount": "cache_creation_input_tokens",
        }
        metrics = {name: self._usage.get(field, 0) for name, field in counts.items()}
        metrics |= {"invocationLatency": 0, "firstByteLatency": 0}  # which only a clock knows
        return dumps({"amazon-bedrock-invocationMetrics": metrics, **event}).decode()


INVOKE_CHUNKS = Framing(
    "invoke_chunks",
    MEDIA_TYPE,
    SUFFIX,
    InvokeChunksSplitter,
    MessagePassthrough,
    MessageLayout(InvokeChunksSplitter, ChunkContent(), partial(StrictChunks, INVOKE_EXCEPTIONS)),
    InvokeChunksWriter,
    # botocore 1.44.5 requires it of the answer.
    {"x-amzn-bedrock-content-type": "application/json"},
)
"""Events of another dialect in the chunks of Amazon Bedrock's `InvokeModelWithResponseStream`."""
