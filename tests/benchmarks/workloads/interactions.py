"""Streams of Google's Interactions API."""

from __future__ import annotations

import json
import random
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from typing import TypeAlias

from workloads.text import argument_pieces, dumps, text_pieces

__all__ = ["call", "frames", "resumable_text", "text", "thought"]

_Fields: TypeAlias = dict[str, object]

_INTERACTION = {
    "id": "v1_ChdVbXNIYXVEUkVacmpxdHNQb3JQeXlBRRIXVW1zSGF1RFJFWnJqcXRzUG9yUHl5QUU",
    "status": "in_progress",
    "object": "interaction",
    "model": "gemini-3-flash-preview",
}
_USAGE = {"total_tokens": 1205, "total_input_tokens": 120, "total_output_tokens": 1000}


def frames(payloads: list[bytes]) -> list[bytes]:
    """Return payloads as frames, `[DONE]` last."""
    named = [(json.loads(payload)["event_type"].encode(), payload) for payload in payloads]
    *begun, last = [b"event: %b\ndata: %b\n\n" % pair for pair in named]
    return [*begun, last + b"event: done\ndata: [DONE]\n\n"]


def text(deltas: int) -> list[bytes]:
    """Return a stream of text only, about a sentence in each delta."""
    pieces = text_pieces(deltas, least=6, most=40)
    return _interaction(
        "completed", {"type": "model_output"}, ({"text": each, "type": "text"} for each in pieces)
    )


def resumable_text(deltas: int) -> list[bytes]:
    """Return a stream of text whose events have ids, after any of which it can be resumed."""
    rng = random.Random("ids")  # noqa: S311 - a seed is the point
    payloads: list[bytes] = []
    for payload in text(deltas):
        id = urlsafe_b64encode(rng.randbytes(24))
        payloads.append(payload.replace(b'"event_type"', b'"event_id":"%b","event_type"' % id))
    return payloads


def thought(deltas: int) -> list[bytes]:
    """Return a stream of a thought's summary."""
    pieces = text_pieces(deltas, least=6, most=40, seed="thought")
    contents = ({"text": each, "type": "text"} for each in pieces)
    return _interaction(
        "completed",
        {"type": "thought"},
        ({"content": each, "type": "thought_summary"} for each in contents),
    )


def call(deltas: int) -> list[bytes]:
    """Return a stream of one call."""
    step = {"id": "61nzpsv4", "type": "function_call", "name": "get_weather", "arguments": {}}
    pieces = argument_pieces(deltas)
    return _interaction(
        "requires_action", step, ({"arguments": each, "type": "arguments_delta"} for each in pieces)
    )


def _interaction(status: str, step: _Fields, deltas: Iterable[_Fields]) -> list[bytes]:
    """Return the events of an interaction with one step."""
    id = _INTERACTION["id"]
    last = {**_INTERACTION, "status": status, "usage": _USAGE}
    return [
        _event("interaction.created", interaction=_INTERACTION),
        _event("interaction.status_update", interaction_id=id, status="in_progress"),
        _event("step.start", index=0, step=step),
        *(_event("step.delta", index=0, delta=delta) for delta in deltas),
        _event("step.stop", index=0),
        _event("interaction.completed", interaction=last),
    ]


def _event(kind: str, **fields: object) -> bytes:
    return dumps({**fields, "event_type": kind})
