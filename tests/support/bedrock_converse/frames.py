"""Builders of `ConverseStream` messages, framed independently of the package, and decoding."""

from __future__ import annotations

import json
from typing import Any

from streamnorm import Event, Note, Outcome
from streamnorm.codec import decoder
from streamnorm.eventstream import encode_message

__all__ = [
    "START",
    "decode",
    "delta",
    "end",
    "event",
    "events_of",
    "exception",
    "metadata",
    "notes_of",
    "outcome_of",
    "payload",
    "start",
    "stop",
    "text",
    "tool",
    "tool_input",
]


def payload(kind: str, data: bytes) -> bytes:
    """Return the message of an event with any payload."""
    headers = {":event-type": kind, ":content-type": "application/json"}
    return encode_message({**headers, ":message-type": "event"}, data)


def event(kind: str, **fields: Any) -> bytes:
    """Return the message of an event, padded as by Bedrock."""
    data = json.dumps({**fields, "p": "abcdefgh"}, separators=(",", ":"), ensure_ascii=False)
    return payload(kind, data.encode("utf-8", "surrogatepass"))


def exception(kind: str, **fields: Any) -> bytes:
    """Return the message of an exception."""
    headers = {":exception-type": kind, ":content-type": "application/json"}
    return encode_message({**headers, ":message-type": "exception"}, json.dumps(fields).encode())


START = event("messageStart", role="assistant")


def start(index: int, **start: Any) -> bytes:
    """Return a `contentBlockStart`."""
    return event("contentBlockStart", contentBlockIndex=index, start=start)


def tool(index: int, id: str = "tooluse_1", name: str = "f", **fields: Any) -> bytes:
    """Return the `contentBlockStart` of a tool call."""
    return start(index, toolUse={"toolUseId": id, "name": name, **fields})


def delta(index: int, **delta: Any) -> bytes:
    """Return a `contentBlockDelta`."""
    return event("contentBlockDelta", contentBlockIndex=index, delta=delta)


def text(index: int, text: str) -> bytes:
    """Return a text `contentBlockDelta`."""
    return delta(index, text=text)


def tool_input(index: int, input: str) -> bytes:
    """Return a tool input `contentBlockDelta`."""
    return delta(index, toolUse={"input": input})


def stop(index: int) -> bytes:
    """Return a `contentBlockStop`."""
    return event("contentBlockStop", contentBlockIndex=index)


def metadata(**fields: Any) -> bytes:
    """Return a `metadata` event with 12 input and 3 output tokens."""
    usage = {"inputTokens": 12, "outputTokens": 3, "totalTokens": 15}
    return event("metadata", **{"usage": usage, "metrics": {"latencyMs": 500}, **fields})


def end(reason: str = "end_turn", **fields: Any) -> bytes:
    """Return `messageStop` and `metadata`."""
    return event("messageStop", stopReason=reason, **fields) + metadata()


def decode(
    *messages: bytes, **options: Any
) -> tuple[list[Event], Outcome | None, tuple[Note, ...]]:
    """Decode a stream in several chunkings with equal results."""
    body = b"".join(messages)
    readings: list[tuple[list[Event], Outcome | None, tuple[Note, ...]]] = []
    for pieces in ([body], list(messages), [body[at : at + 1] for at in range(len(body))]):
        reader = decoder("bedrock_converse", **options)
        found = [each for piece in pieces for each in reader.feed(piece)] + reader.close()
        readings.append((found, reader.outcome, reader.notes))
    assert readings[0] == readings[1] == readings[2]
    return readings[0]


def events_of(*messages: bytes, **options: Any) -> list[Event]:
    """Return the events of a stream."""
    return decode(*messages, **options)[0]


def outcome_of(*messages: bytes, **options: Any) -> Outcome | None:
    """Return the outcome of a stream."""
    return decode(*messages, **options)[1]


def notes_of(*messages: bytes) -> list[str]:
    """Return the kinds of the notes of a stream."""
    return [note.kind for note in decode(*messages)[2]]
