"""The reader of delta runs: chunks that only extend the text or thought of candidate 0.

Nearly every chunk of Gemini also reports its tokens: those are pending until asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from msgspec import Raw

from streamnorm._json import FAST_ERRORS
from streamnorm.codec import (
    DeltaRun,
    Template,
    constant_template,
    decode_string,
    string_pattern,
    surroundings,
)
from streamnorm.dialects.gemini.answer import Answer
from streamnorm.dialects.gemini.usage import UsageReader
from streamnorm.dialects.gemini.wire import (
    DETAIL_FIELDS,
    Counts,
    counts_decoder,
    decode_text,
    raw_usage,
)
from streamnorm.events import UsageUpdate

__all__ = ["GeminiRun"]

_PREFIX = b"data: "
_LF, _CR = 10, 13
_ABSENT = Raw()
_TEXT = string_pattern("text")


class GeminiRun(DeltaRun):
    """Read the chunks that only extend the open block of candidate 0.

    Args:
        answers: The candidates by number.
        usage: Their tokens.
        said: Fields of the chunks so far that have no place in the events.
    """

    tells_usage = True

    def __init__(
        self, answers: dict[int, Answer], usage: UsageReader, said: dict[str, Any]
    ) -> None:
        super().__init__()
        self._answers = answers
        self._usage = usage
        self._said = said
        self._refused: Counts | None = None  # of a chunk that is read in full

    def decode(self, raw: bytes) -> str | None:
        answer = self._answers.get(0)
        if answer is None or raw[:6] != _PREFIX or _LF in raw:
            return None
        try:
            chunk = decode_text(raw[6:])
        except FAST_ERRORS:
            return None
        counts = chunk.usage_metadata
        if counts is not None and not self._usage.expects(counts):
            self._refused = counts
            return None
        candidate = chunk.candidates[0]
        if candidate.index or (
            chunk.create_time is not None and chunk.create_time != self._said.get("createTime")
        ):
            return None
        part = candidate.content.parts[0]
        delta = answer.append_plain(part.text, part.thought)
        if delta is None:
            return None
        if counts is not None:
            self._usage.count(counts)
        self.delta = delta
        return part.text

    def learn(self, raw: bytes) -> Template | None:
        accepted = decode_text(raw[6:])
        accepted.candidates[0].content.parts[0].text = "?"
        around = surroundings(raw, _TEXT, lambda frame: decode_text(frame[6:]) == accepted)
        if around is None:
            return None
        keep = self._answers[0].text_sink()
        if accepted.usage_metadata is None:
            return _keeping(constant_template(*around), keep)
        counts, reported = accepted.usage_metadata, raw_usage(raw[6:])
        middle, _, rest = around.tail.partition(reported)
        accepted.usage_metadata = Counts(prompt_token_count=1)
        probe = b'%b?%b{"promptTokenCount":1}%b' % (around.head, middle, rest)
        if reported in rest or decode_text(probe[6:]) != accepted:
            return None
        return self._counting_template(around.head, middle, rest, reported, counts, keep)

    def _counting_template(
        self,
        head: bytes,
        middle: bytes,
        rest: bytes,
        reported: bytes,
        counts: Counts,
        keep: Callable[[str], None],
    ) -> Template:
        """Return a template of chunks that report the same counts with other numbers.

        Args:
            head: The bytes before the text.
            middle: Those between the text and the counts.
            rest: Those behind the counts.
            reported: The counts of an accepted chunk as they stand.
            counts: The same.
            keep: What keeps the texts.
        """
        start, skip, stop = len(head), len(middle), -len(rest)
        fields = tuple(name for name in Counts.__struct_fields__ if _has(counts, name))
        decode_counts = counts_decoder(fields).decode
        present = [name for name in fields if name in DETAIL_FIELDS]
        details = attrgetter(*present) if present else type
        known = details(decode_counts(reported))
        usage = self._usage

        def read(raw: bytes) -> str | None:
            if raw[:start] != head or raw[stop:] != rest:
                return None
            end = raw.rfind(middle)
            reported = raw[end + skip : stop]
            if _LF in reported or _CR in reported:  # which JSON allows, but no line
                return None
            try:
                text = decode_string(raw[start - 1 : end + 1])
                counts = decode_counts(reported)
            except FAST_ERRORS:
                return None
            if details(counts) != known:
                return None
            keep(text)
            usage.replace(counts)
            return text

        return read

    def pending_usage(self) -> UsageUpdate | None:
        return UsageUpdate(self._usage.usage) if self._usage.renew() else None

    def retract_usage(self) -> None:
        self._usage.retract()

    def expect_tokens(self) -> None:
        """Expect tokens like those of the last chunk, which were merged when it was read."""
        counts, self._refused = self._refused, None
        if counts is not None:
            self._usage.expect(counts)


def _keeping(template: Template, keep: Callable[[str], None]) -> Template:
    """Return a template that keeps the texts of another."""

    def read(raw: bytes) -> str | None:
        text = template(raw)
        if text is not None:
            keep(text)
        return text

    return read


def _has(counts: Counts, name: str) -> bool:
    return getattr(counts, name) not in (None, _ABSENT)
