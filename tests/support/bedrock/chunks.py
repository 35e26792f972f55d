"""Streams of `InvokeModelWithResponseStream`, framed independently of the package."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any, NamedTuple

from botocore.eventstream import EventStreamBuffer

from streamnorm.eventstream import encode_message
from streamnorm.sse import SSEDecoder

__all__ = ["EVENTS", "Invoked", "chunk", "exception", "invoked", "of_sse", "sse_of"]


EVENTS: tuple[dict[str, Any], ...] = (
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 7, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "It snows."},
    },
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 3},
    },
    {"type": "message_stop"},
)
"""The events of an answer of one text."""


def chunk(event: object, padding: str = "abcdefg") -> bytes:
    """Return the message of one event, padded as by Bedrock."""
    data = event if isinstance(event, bytes) else json.dumps(event, separators=(",", ":")).encode()
    payload = json.dumps({"bytes": b64encode(data).decode(), "p": padding}).encode()
    headers = {":event-type": "chunk", ":content-type": "application/json"}
    return encode_message({**headers, ":message-type": "event"}, payload)


def exception(kind: str, **fields: Any) -> bytes:
    """Return the message of an exception."""
    headers = {":exception-type": kind, ":content-type": "application/json"}
    return encode_message({**headers, ":message-type": "exception"}, json.dumps(fields).encode())


def of_sse(data: bytes) -> bytes:
    """Return an Anthropic event stream as Bedrock sends it."""
    frames = SSEDecoder().feed(data)
    return b"".join([chunk(frame.data.encode()) for frame in frames if frame.event != "ping"])


class Invoked(NamedTuple):
    """A stream as read by botocore's parser.

    Attributes:
        payloads: The bytes in the chunks.
        events: The events in them.
        exceptions: Type and fields of the exceptions.
    """

    payloads: list[bytes]
    events: list[dict[str, Any]]
    exceptions: list[tuple[str, dict[str, Any]]]


def invoked(data: bytes) -> Invoked:
    """Read a stream with botocore's parser, which ignores an incomplete last message."""
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    found = Invoked([], [], [])
    for message in buffer:
        fields = json.loads(message.payload)
        if message.headers[":message-type"] == "exception":
            found.exceptions.append((message.headers[":exception-type"], fields))
        else:
            payload = b64decode(fields["bytes"])
            found.payloads.append(payload)
            found.events.append(json.loads(payload))
    return found


def sse_of(events: Iterable[dict[str, Any]]) -> bytes:
    """Return events as an Anthropic event stream."""
    return b"".join(
        [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
    )
