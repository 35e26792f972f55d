"""Streams written as Responses, for tests of what is written."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from streamnorm import Event, MessageStart
from streamnorm.dialects.openai_responses.encode import ResponsesEncoder

__all__ = ["BEGUN", "encode", "find", "payloads_of", "types", "write"]

BEGUN = MessageStart("resp_1", "gpt")


def payloads_of(wire: bytes) -> list[dict[str, Any]]:
    """Return the payload of each event, which is named as its frame is."""
    payloads: list[dict[str, Any]] = []
    for frame in wire.decode().split("\n\n")[:-1]:
        name, data = frame.split("\n")
        payload = json.loads(data.removeprefix("data: "))
        assert name == f"event: {payload['type']}"
        payloads.append(payload)
    return payloads


def write(events: Iterable[Event], **options: Any) -> tuple[list[dict[str, Any]], ResponsesEncoder]:
    """Return the payloads of a stream, numbered without a gap, and what wrote them."""
    writer = ResponsesEncoder(**options)
    payloads = payloads_of(b"".join([*map(writer.encode, events), writer.close()]))
    numbers = [payload.pop("sequence_number") for payload in payloads]
    assert numbers == list(range(len(payloads)))
    return payloads, writer


def encode(*events: Event, **options: Any) -> list[dict[str, Any]]:
    """Return the payloads behind the two that begin a response, without their numbers."""
    return write((BEGUN, *events), **options)[0][2:]


def types(payloads: list[dict[str, Any]]) -> list[str]:
    """Return the types of events, without what all of them begin with."""
    return [payload["type"].removeprefix("response.") for payload in payloads]


def find(payloads: list[dict[str, Any]], type: str) -> list[dict[str, Any]]:
    """Return the events of a type."""
    return [payload for payload in payloads if payload["type"] == f"response.{type}"]
