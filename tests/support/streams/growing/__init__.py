"""Streams of any length in each dialect, to measure growth of work and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from support.streams.growing import (
    anthropic,
    gemini,
    gemini_interactions,
    openai_chat,
    openai_responses,
)

__all__ = ["GROWING_STREAMS", "growing_stream"]

Make: TypeAlias = Callable[[int], Iterator[bytes]]
"""Yields events of a stream without its start and its end; their number grows with the argument."""

_DIALECTS = {
    "anthropic": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "gemini": gemini,
    "gemini_interactions": gemini_interactions,
}
GROWING_STREAMS: dict[tuple[str, str], Make] = {
    (dialect, make.__name__): make
    for dialect, module in _DIALECTS.items()
    for make in module.STREAMS
}
"""The streams by dialect and name."""


def growing_stream(dialect: str, name: str, count: int) -> list[bytes]:
    """Return a stream's events, with start and end."""
    module = _DIALECTS[dialect]
    events = [module.START, *GROWING_STREAMS[dialect, name](count), module.END]
    return [event for event in events if event]
