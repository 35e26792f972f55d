"""Unified events encoded as Responses payloads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from streamnorm import Event, MessageStart
from streamnorm.codec import Encoder, encoder

__all__ = ["MESSAGE_START", "encode", "find", "payloads_of", "types", "write"]

MESSAGE_START = MessageStart("resp_1", "gpt")


def payloads_of(wire: bytes) -> list[dict[str, Any]]:
    """Return each frame's payload; assert that event name and type are equal."""
    payloads: list[dict[str, Any]] = []
    for frame in wire.decode().split("\n\n")[:-1]:
        name, data = frame.split("\n")
        payload = json.loads(data.removeprefix("data: "))
        assert name == f"event: {payload['type']}"
        payloads.append(payload)
    return payloads


def write(events: Iterable[Event], **options: Any) -> tuple[list[dict[str, Any]], Encoder]:
    """Encode events; return the encoder and the payloads, asserted to be numbered without gaps."""
    writer = encoder("openai_responses", **options)
    payloads = payloads_of(b"".join([*map(writer.encode, events), writer.close()]))
    numbers = [payload.pop("sequence_number") for payload in payloads]
    assert numbers == list(range(len(payloads)))
    return payloads, writer


def encode(*events: Event, **options: Any) -> list[dict[str, Any]]:
    """Return the payloads after a response's two start events, without numbers."""
    return write((MESSAGE_START, *events), **options)[0][2:]


def types(payloads: list[dict[str, Any]]) -> list[str]:
    """Return the types of events without the prefix `response.`."""
    return [payload["type"].removeprefix("response.") for payload in payloads]


def find(payloads: list[dict[str, Any]], type: str) -> list[dict[str, Any]]:
    """Return the events of one type."""
    return [payload for payload in payloads if payload["type"] == f"response.{type}"]
