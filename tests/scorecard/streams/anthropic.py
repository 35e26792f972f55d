"""Anthropic streams."""

from __future__ import annotations

import json
from typing import Any

from support.anthropic.adversarial import BROKEN, CLEAN, UNFINISHED, Row

from ..cases import Call, Case, Expected
from .anthropic_servers import server_cases
from .reasons_anthropic import REASONS

__all__ = ["cases"]


def cases() -> list[Case]:
    """Return the cases whose source is Anthropic."""
    rows = {**CLEAN, **UNFINISHED}
    return [
        *(_case(name, row[0], _message(row)) for name, row in rows.items()),
        *(_case(name, frames, _failure(name)) for name, frames in BROKEN.items()),
        *server_cases(),
    ]


def _case(name: str, frames: list[bytes], expected: Expected) -> Case:
    return Case(name, "anthropic", tuple(frames), expected, REASONS[name])


def _message(row: Row) -> Expected:
    _, blocks, stop = row
    return Expected(
        text="".join(block.get("text", "") for block in blocks),
        reasoning="".join(block.get("thinking", "") for block in blocks),
        calls=tuple(
            Call(block["id"], block["name"], _value(block["input"]))
            for block in blocks
            if block["type"] == "tool_use"
        ),
        stop=stop,
        usage=(20, 7),
    )


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _failure(name: str) -> Expected:
    if name.startswith("cut"):
        return Expected(text=None, outcome="truncated")
    return Expected(text=None, outcome="failed")
