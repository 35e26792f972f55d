"""Sample bodies of each dialect: recorded, generated and damaged."""

from __future__ import annotations

from collections.abc import Callable

from support.anthropic.strategies import make_anthropic_stream
from support.bedrock_converse.strategies import make_converse_stream
from support.draws import Draws
from support.gemini.strategies import make_gemini_stream
from support.gemini_interactions.strategies import make_interactions_stream
from support.openai_chat.strategies import make_chat_stream
from support.openai_responses.strategies import make_responses_stream
from support.streams.corpus import recordings
from support.streams.generated import Source
from support.streams.mutations import damaged, noise

__all__ = ["any_body", "make_source"]

_MAKERS: dict[str, Callable[[Draws], Source]] = {
    "anthropic": make_anthropic_stream,
    "bedrock_converse": make_converse_stream,
    "gemini": make_gemini_stream,
    "gemini_interactions": make_interactions_stream,
    "openai_chat": make_chat_stream,
    "openai_responses": make_responses_stream,
}


def make_source(d: Draws, dialect: str) -> Source:
    """Return a complete stream of a dialect, and its messages."""
    return _MAKERS[dialect](d)


def any_body(d: Draws, dialect: str) -> bytes:
    """Return a damaged stream, or bytes that are no stream."""
    if d.flag(3):
        return noise(d)
    written = d.pick(recordings(dialect)).body
    return damaged(d, written if d.flag() else make_source(d, dialect).body)
