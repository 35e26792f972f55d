"""Gemini streams."""

from __future__ import annotations

from support.gemini.adversarial import BROKEN, CLEAN, UNFINISHED, Truth

from ..cases import Call, Case, Expected
from .gemini_servers import server_cases
from .reasons_gemini import REASONS

__all__ = ["cases"]

_IDS = {"get_weather": "c1", "get_time": "c2"}
_WITHOUT_IDS = ("fragments that repeat the name", "two calls of one name without ids")


def cases() -> list[Case]:
    """Return the cases whose source is Gemini."""
    rows = {**CLEAN, **UNFINISHED}
    return [
        *(_case(name, frames, _message(name, truth)) for name, (frames, truth) in rows.items()),
        *(_case(name, frames, _failure(name)) for name, frames in BROKEN.items()),
        *server_cases(),
    ]


def _case(name: str, frames: list[bytes], expected: Expected) -> Case:
    return Case(name, "gemini", tuple(frames), expected, REASONS[name])


def _message(name: str, truth: Truth) -> Expected:
    ids = {} if name in _WITHOUT_IDS else _IDS
    whole = [Call(ids.get(tool), tool, arguments) for tool, arguments in truth.calls]
    # Each call of these streams that never ends is of this tool.
    unfinished = [Call(ids.get("get_weather"), "get_weather", "")] * truth.unfinished
    return Expected(
        text=truth.text,
        reasoning=truth.thoughts,
        calls=(*whole, *unfinished),
        stop=truth.stop,
        usage=truth.usage,
    )


def _failure(name: str) -> Expected:
    if name.startswith("cut"):
        return Expected(text=None, outcome="truncated")
    return Expected(text=None, outcome="failed")
