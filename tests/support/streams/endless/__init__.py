"""Endless streams of each dialect, for tests of bounded memory.

Each makes its events of texts of some size, and grows in one place alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from support.streams.endless import (
    ag_ui,
    anthropic,
    bedrock_converse,
    gemini,
    gemini_interactions,
    openai_chat,
    openai_responses,
    ui_message_stream,
)

__all__ = ["ENDLESS_STREAMS", "endless_stream"]

Make: TypeAlias = Callable[[str], Iterator[bytes]]
"""Yields the events of a stream, of which each that grows has the text."""

_DIALECTS = {
    "anthropic": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "gemini": gemini,
    "gemini_interactions": gemini_interactions,
    "bedrock_converse": bedrock_converse,
    "ui_message_stream": ui_message_stream,
    "ag_ui": ag_ui,
}
ENDLESS_STREAMS: dict[tuple[str, str], Make] = {
    (dialect, make.__name__): make
    for dialect, module in _DIALECTS.items()
    for make in module.STREAMS
}
"""The streams by dialect and name."""


def endless_stream(dialect: str, name: str, text: str) -> Iterator[bytes]:
    """Yield the events of an endless stream."""
    yield from _DIALECTS[dialect].START
    yield from ENDLESS_STREAMS[dialect, name](text)
