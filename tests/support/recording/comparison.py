"""Decoding and comparison of recordings."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from streamnorm import (
    Completed,
    Event,
    Failed,
    MessageStop,
    StreamError,
    Truncated,
    Usage,
    UsageUpdate,
)
from streamnorm._core.codec import Decoder
from streamnorm.codec import decoder
from streamnorm.recording import Recording

__all__ = ["assert_outcome", "comparable", "decode"]


def comparable(events: list[Event]) -> list[Any]:
    """Return events without the texts of this library's errors."""
    return [
        {"event": "stream_error", "kind": event.kind}
        if isinstance(event, StreamError) and event.kind != "upstream"
        else msgspec.to_builtins(event)
        for event in events
    ]


def decode(recording: Recording, size: int = 1 << 20) -> tuple[list[Event], Decoder]:
    """Return a recording's events, read `size` bytes at a time, and the decoder."""
    source = decoder(recording.dialect, server=recording.server, framing=recording.framing)
    body = recording.body
    events = [e for at in range(0, len(body), size) for e in source.feed(body[at : at + size])]
    return events + source.close(), source


def assert_outcome(recording: Recording, lenient: tuple[str, ...]) -> None:
    """Assert that the outcome agrees with a recording's last expected event."""
    _, source = decode(recording)
    expected = recording.expected
    stops = [event for event in expected if isinstance(event, MessageStop)]
    match expected[-1]:
        case MessageStop():
            usages = [event.usage for event in expected if isinstance(event, UsageUpdate)]
            usage = usages[-1] if usages else Usage()
            assert source.outcome == Completed(stops[0].reason, usage, lenient)
        case StreamError("truncated"):
            assert isinstance(source.outcome, Truncated)
        case StreamError():
            assert isinstance(source.outcome, Failed)
        case last:
            pytest.fail(f"a stream ends in {last}")
