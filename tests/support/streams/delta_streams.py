"""Streams of consecutive deltas in every dialect."""

from __future__ import annotations

from support.ag_ui.deltas import AG_UI_DELTAS
from support.anthropic.deltas import ANTHROPIC_DELTAS
from support.gemini.deltas import GEMINI_DELTAS
from support.gemini_interactions.deltas import INTERACTIONS_DELTAS
from support.openai_chat.deltas import CHAT_DELTAS
from support.openai_responses.deltas import RESPONSES_DELTAS
from support.streams.delta_pieces import MARK, DeltaStream
from support.ui_message_stream.deltas import UI_DELTAS

__all__ = ["DELTA_STREAMS", "MARK", "DeltaStream", "delta_stream"]

DELTA_STREAMS = {
    **ANTHROPIC_DELTAS,
    **CHAT_DELTAS,
    **RESPONSES_DELTAS,
    **GEMINI_DELTAS,
    **INTERACTIONS_DELTAS,
    **UI_DELTAS,
    **AG_UI_DELTAS,
}
"""Streams by what they hold, of as many pieces as are asked for."""


def delta_stream(name: str, count: int = 8) -> DeltaStream:
    """Return a stream of deltas with `MARK` in the middle."""
    return DELTA_STREAMS[name](count)
