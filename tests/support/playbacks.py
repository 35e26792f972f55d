"""What is left of a stream that is played."""

from __future__ import annotations

from streamnorm import Outcome, decoder
from streamnorm.recording.exchange import Playback

__all__ = ["outcome"]


def outcome(answer: Playback) -> Outcome | None:
    """Return how a stream ends that is played, as one finds out who knows no more."""
    reader = decoder()
    for step in answer.steps:
        reader.feed(step.data)
    if answer.end == "eof":
        reader.close()
    else:
        reader.abort(OSError())
    return reader.outcome
