"""Responses streams."""

from __future__ import annotations

import json

from support.openai_responses.adversarial import BROKEN, CLEAN, Event

from ..cases import Call, Case, Expected
from .reasons_responses import REASONS
from .responses_servers import server_cases

__all__ = ["cases"]


def cases() -> list[Case]:
    """Return the cases whose source is the Responses API."""
    failed = Expected(text=None, outcome="failed")
    return [
        *(
            _case(name, events, _message(blocks, stop))
            for name, (events, blocks, stop) in CLEAN.items()
        ),
        *(_case(name, events, failed) for name, events in BROKEN.items()),
        *server_cases(),
    ]


def _case(name: str, events: list[Event], expected: Expected) -> Case:
    frames = tuple(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events
    )
    return Case(name, "openai_responses", frames, expected, REASONS[name])


def _message(blocks: list[tuple[str, ...]], stop: str) -> Expected:
    return Expected(
        text="".join(block[1] for block in blocks if block[0] == "text"),
        calls=tuple(
            Call(block[1], block[2], json.loads(block[3])) for block in blocks if block[0] == "call"
        ),
        stop=stop,
        usage=(20, 7),
    )
