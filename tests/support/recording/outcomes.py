"""The outcome of a played response."""

from __future__ import annotations

from streamnorm import Outcome
from streamnorm.codec import decoder
from streamnorm.recording.format import Playback

__all__ = ["outcome"]


def outcome(answer: Playback) -> Outcome | None:
    """Return the outcome of a played response, its dialect detected."""
    reader = decoder()
    for step in answer.steps:
        reader.feed(step.data)
    if answer.end == "eof":
        reader.close()
    else:
        reader.abort(OSError())
    return reader.outcome
