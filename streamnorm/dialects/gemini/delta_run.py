"""Reader of delta runs: chunks that only extend the open text or thought of candidate 0.

Nearly every chunk also reports token counts, which stay pending until `pending_usage`.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.codec import DeltaRun
from streamnorm._core.events import UsageUpdate
from streamnorm._core.json import FAST_ERRORS
from streamnorm.dialects.gemini.blocks import CandidateBlocks
from streamnorm.dialects.gemini.outcome import UsageReader
from streamnorm.dialects.gemini.wire import Counts, decode_text


class GeminiRun(DeltaRun):
    """The reader of chunks that only extend the open block of candidate 0.

    Args:
        candidates: Candidates by index.
        usage: Reader of the message's token counts.
        extra: Unknown fields of the chunks so far.

    Attributes:
        response_id: Id of the message.
    """

    reports_usage = True

    def __init__(
        self,
        candidates: dict[int, CandidateBlocks],
        usage: UsageReader,
        extra: dict[str, Any],
    ) -> None:
        super().__init__()
        self._candidates = candidates
        self._usage = usage
        self._extra = extra
        self._refused: Counts | None = None  # counts of a chunk that is read in full next
        self.response_id = ""

    def decode(self, payload: bytes) -> str | None:
        candidate = self._candidates.get(0)
        if candidate is None:
            return None
        try:
            chunk = decode_text(payload)
        except FAST_ERRORS:
            return None
        counts, created = chunk.usage_metadata, chunk.create_time
        if counts is not None and not self._usage.matches_last(counts):
            self._refused = counts
            return None
        # A chunk of another message is an error, which the slow path reports.
        if chunk.response_id and chunk.response_id != self.response_id:
            return None
        # Vertex AI repeats the time of the first chunk.
        if created is not None and created != self._extra.get("createTime"):
            return None
        part = chunk.candidates[0].content.parts[0]
        text = part.text
        delta = candidate.try_append(text, part.thought)
        if delta is None:
            return None
        if counts is not None:
            self._usage.add_pending(counts)
        self.delta = delta
        return text

    def pending_usage(self) -> UsageUpdate | None:
        return UsageUpdate(self._usage.usage) if self._usage.refresh() else None

    def retract_usage(self) -> None:
        self._usage.retract_pending()

    def compare_with_last_counts(self) -> None:
        """Compare later counts with those of the chunk that was just read in full."""
        counts, self._refused = self._refused, None
        if counts is not None:
            self._usage.set_last(counts)
