"""The reader of delta runs: chunks that only extend the text or thought of candidate 0.

Nearly every chunk of Gemini also reports its tokens: those are pending until asked for.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.codec import DeltaRun
from streamnorm._core.events import UsageUpdate
from streamnorm._core.json import FAST_ERRORS
from streamnorm.dialects.gemini.answer import Answer
from streamnorm.dialects.gemini.usage import UsageReader
from streamnorm.dialects.gemini.wire import Counts, decode_text

__all__ = ["GeminiRun"]


class GeminiRun(DeltaRun):
    """Read the chunks that only extend the open block of candidate 0.

    Args:
        answers: The candidates by number.
        usage: Their tokens.
        said: Fields of the chunks so far that have no place in the events.
    """

    reports_usage = True

    def __init__(
        self, answers: dict[int, Answer], usage: UsageReader, said: dict[str, Any]
    ) -> None:
        super().__init__()
        self._answers = answers
        self._usage = usage
        self._said = said
        self._refused: Counts | None = None  # of a chunk that is read in full

    def decode(self, payload: bytes) -> str | None:
        answer = self._answers.get(0)
        if answer is None:
            return None
        try:
            chunk = decode_text(payload)
        except FAST_ERRORS:
            return None
        counts, created = chunk.usage_metadata, chunk.create_time
        if counts is not None and not self._usage.expects(counts):
            self._refused = counts
            return None
        if created is not None and created != self._said.get("createTime"):
            return None
        part = chunk.candidates[0].content.parts[0]
        text = part.text
        delta = answer.append_plain(text, part.thought)
        if delta is None:
            return None
        if counts is not None:
            self._usage.count(counts)
        self.delta = delta
        return text

    def pending_usage(self) -> UsageUpdate | None:
        return UsageUpdate(self._usage.usage) if self._usage.renew() else None

    def retract_usage(self) -> None:
        self._usage.retract()

    def expect_tokens(self) -> None:
        """Expect tokens like those of the last chunk, which were merged when it was read."""
        counts, self._refused = self._refused, None
        if counts is not None:
            self._usage.expect(counts)
