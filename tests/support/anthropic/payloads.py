"""Frames written by the Anthropic encoder, as names and payloads."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from streamnorm import Event, MessageStart
from streamnorm.codec import encoder

__all__ = ["START", "delta", "encode", "encode_stream", "start", "stop"]

WrittenFrame: TypeAlias = tuple[str, dict[str, Any]]
"""Name of an event and its payload without `type`, which must be the same."""

START = MessageStart("msg_1", "model-1")


def encode_stream(*events: Event, **options: Any) -> list[WrittenFrame]:
    """Return the frames of an encoded stream."""
    writer = encoder("anthropic", **options)
    wire = b"".join(map(writer.encode, events)) + writer.close()
    frames = []
    for frame in wire.decode().removesuffix("\n\n").split("\n\n"):
        name, data = frame.split("\n")
        payload = json.loads(data.removeprefix("data: "))
        assert name == f"event: {payload['type']}"
        frames.append((payload.pop("type"), payload))
    return frames


def encode(*events: Event, **options: Any) -> list[WrittenFrame]:
    """Return the frames of an encoded stream, without `message_start`."""
    return encode_stream(START, *events, **options)[1:]


def start(index: int, **block: Any) -> WrittenFrame:
    """Return the payload of a `content_block_start`."""
    return "content_block_start", {"index": index, "content_block": block}


def delta(index: int, kind: str, **fields: str | None) -> WrittenFrame:
    """Return the payload of a `content_block_delta`."""
    return "content_block_delta", {"index": index, "delta": {"type": kind, **fields}}


def stop(index: int) -> WrittenFrame:
    """Return the payload of a `content_block_stop`."""
    return "content_block_stop", {"index": index}
