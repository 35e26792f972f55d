"""Builders of Interactions frames, and helpers to decode them."""

from __future__ import annotations

import json
from typing import Any

from streamnorm import Event
from support.gemini import frames as gemini
from support.openai_chat.chunks import Decoded

__all__ = [
    "CREATED",
    "blocks",
    "completed",
    "decode",
    "delta",
    "event",
    "kinds",
    "start",
    "step",
    "stop",
]


def event(kind: str, **fields: Any) -> bytes:
    """Return one event."""
    data = json.dumps({**fields, "event_type": kind})
    return f"event: {kind}\ndata: {data}\n\n".encode()


CREATED = event("interaction.created", interaction={"id": "v1", "model": "m"})


def completed(status: str | None = "completed", **fields: Any) -> bytes:
    """Return the terminal event of an interaction."""
    told = {} if status is None else {"status": status}
    return event("interaction.completed", interaction={"id": "v1", **told, **fields})


def start(index: int, kind: str, **fields: Any) -> bytes:
    """Return a `step.start`."""
    return event("step.start", index=index, step={"type": kind, **fields})


def delta(index: int, kind: str, **fields: Any) -> bytes:
    """Return a `step.delta`."""
    return event("step.delta", index=index, delta={"type": kind, **fields})


def stop(index: int, **fields: Any) -> bytes:
    """Return a `step.stop`."""
    return event("step.stop", index=index, **fields)


def step(kind: str, *deltas: tuple[str, dict[str, Any]], number: int = 0, **fields: Any) -> bytes:
    """Return the events of a whole step."""
    told = b"".join([delta(number, name, **more) for name, more in deltas])
    return start(number, kind, **fields) + told + stop(number)


def decode(*frames: bytes, **options: Any) -> Decoded:
    """Decode a whole interaction, by its own name and as a variant of `gemini`."""
    decoded = gemini.decode(*frames, dialect="gemini_interactions", **options)
    assert gemini.decode(*frames, **options) == decoded
    return decoded


def blocks(*frames: bytes, **options: Any) -> list[Event]:
    """Return the events between an interaction's start and stop."""
    events = decode(CREATED, *frames, completed(), **options).events
    return events[1:-1]


def kinds(decoded: Decoded) -> dict[str, int]:
    """Return the count of each kind of note."""
    found: dict[str, int] = {}
    for note in decoded.notes:
        found[note.kind] = found.get(note.kind, 0) + note.count
    return found
