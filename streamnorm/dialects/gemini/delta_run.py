"""Chunks that only continue the text of the first answer, and tell how many tokens it is by now."""

from __future__ import annotations

from streamnorm._json import FAST_ERRORS
from streamnorm.dialects.gemini.answer import Answer
from streamnorm.dialects.gemini.usage import UsageReader
from streamnorm.dialects.gemini.wire import Counts, TextChunk, decode_text
from streamnorm.events import Event, JSONDelta, ReasoningDelta, TextDelta, UsageUpdate

__all__ = ["More"]


class More:
    """Read such chunks; whatever else there may be in one is left to who reads with care.

    Args:
        answers: The answers; to be used while there is a first one.
        usage: Their tokens.
    """

    def __init__(self, answers: dict[int, Answer], usage: UsageReader) -> None:
        self._answers = answers
        self._usage = usage
        self._unexpected: Counts | None = None  # of a chunk that was left
        self._counts: Counts | None = None  # of the last chunk whose text alone was asked for

    def read(
        self,
        data: str | bytes,
        last: TextDelta | ReasoningDelta | JSONDelta,
        events: list[Event],
    ) -> bool:
        """Append the events of a chunk, if it is such a one.

        Args:
            data: Its payload.
            last: A delta of the block that it may continue.
            events: Where to append.
        """
        chunk = self._take(data)
        if chunk is None:
            return False
        text, counts = chunk.candidates[0].content.parts[0].text, chunk.usage_metadata
        if text:
            events.append(type(last)(last.index, text))
        if counts is not None and self._usage.count(counts):
            events.append(UsageUpdate(self._usage.usage))
        return True

    def text_of(self, data: bytes) -> str | None:
        """Return the text of a chunk, if it is such a one; its tokens are `counted`."""
        chunk = self._take(data)
        if chunk is None:
            return None
        if chunk.usage_metadata is not None:
            self._counts = chunk.usage_metadata
        return chunk.candidates[0].content.parts[0].text

    def counted(self) -> UsageUpdate | None:
        """Return the tokens that chunks told whose text alone was asked for."""
        counts, self._counts = self._counts, None
        if counts is None or not self._usage.count(counts):
            return None
        return UsageUpdate(self._usage.usage)

    def expect(self) -> None:
        """Expect more counts like those of the chunk that was left, which were merged since."""
        counts, self._unexpected = self._unexpected, None
        if counts is not None:
            self._usage.expect(counts)

    def _take(self, data: str | bytes) -> TextChunk | None:
        try:
            chunk = decode_text(data)
        except FAST_ERRORS:
            return None
        (candidate,) = chunk.candidates
        counts = chunk.usage_metadata
        if counts is not None and not self._usage.expects(counts):
            self._unexpected = counts
            return None
        (part,) = candidate.content.parts
        if candidate.index or not self._answers[0].only_more(part.text, part.thought):
            return None
        return chunk
