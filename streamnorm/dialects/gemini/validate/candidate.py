"""Strict validator of one candidate: parts, fragments of calls, sources, finish reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamnorm._core.json import is_array, is_object, objects_of
from streamnorm._core.shapes import is_count
from streamnorm.dialects.gemini.stop_reasons import ending_word
from streamnorm.dialects.gemini.validate.shapes import DATA, MODIFIERS, VALUES

__all__ = ["CandidateChecker"]


class CandidateChecker:
    """Strict validator of one candidate of a stream.

    Args:
        index: Index of the candidate.

    Attributes:
        finished: Whether a finishReason was sent, and no content since.
    """

    def __init__(self, index: int) -> None:
        self.finished = False
        self._index = index
        self._call_goes_on = False

    def read(self, candidate: dict[str, Any], where: str) -> Iterator[str]:
        """Yield the violations of the candidate in the next chunk, except those of its shape.

        Args:
            candidate: An entry of `candidates`.
            where: Path of the entry.
        """
        content = candidate.get("content")
        parts = content.get("parts") if is_object(content) else None
        for number, part in enumerate(parts if is_array(parts) else ()):
            if is_object(part):
                yield from self._part(part, f"{where}.content.parts[{number}]")
        grounding = candidate.get("groundingMetadata")
        if is_object(grounding):
            yield from _check_sources(grounding, f"{where}.groundingMetadata")
        content_fields = [_content_of(part) for part in objects_of(parts)]
        last = next((field for field in reversed(content_fields) if field), "")
        if last:
            self.finished = False
        if ending_word(candidate.get("finishReason")):
            self.finished = last != "executableCode"  # its result follows
            yield from self.left_open("finishReason")

    def left_open(self, what: str) -> Iterator[str]:
        """Yield a violation, once, if a call has not ended before `what`."""
        if self._call_goes_on:
            self._call_goes_on = False
            yield f"{what} while a call of candidate {self._index} goes on, expected its end"

    def _part(self, part: dict[str, Any], where: str) -> Iterator[str]:
        data = [name for name in DATA if name in part]
        if len(data) > 1:
            yield f"{where} holds {' and '.join(data)}, expected one of them"
        elif part.keys() <= MODIFIERS.keys():
            yield f"{where} holds no data, expected one field of it"
        if is_object(call := part.get("functionCall")):
            yield from self._call(call, f"{where}.functionCall")

    def _call(self, call: dict[str, Any], where: str) -> Iterator[str]:
        if "name" in call:
            yield from self.left_open("another call")
        elif not self._call_goes_on:
            yield f"{where}.name is missing, expected one, since no call goes on"
        pieces = call.get("partialArgs")
        goes_on = call.get("willContinue") is True
        for number, piece in enumerate(pieces if is_array(pieces) else ()):
            if not is_object(piece):
                continue
            goes_on = goes_on or piece.get("willContinue") is True
            values = [name for name in VALUES if name in piece]
            if len(values) > 1:
                found = f"{where}.partialArgs[{number}] holds {' and '.join(values)}"
                yield f"{found}, expected one of them"
        self._call_goes_on = goes_on


def _content_of(part: dict[str, Any]) -> str:
    """Return the data field of a part; empty for empty text, which may be signed."""
    return next((name for name in DATA if name in part and part[name] != ""), "")


def _check_sources(grounding: dict[str, Any], where: str) -> Iterator[str]:
    """Yield the supports that name a missing source."""
    chunks, supports = grounding.get("groundingChunks", []), grounding.get("groundingSupports")
    if not is_array(chunks) or not is_array(supports):
        return
    for number, support in enumerate(supports):
        indices = support.get("groundingChunkIndices") if is_object(support) else None
        for index in indices if is_array(indices) else ():
            if is_count(index) and index >= len(chunks):
                found = f"{where}.groundingSupports[{number}] names groundingChunks[{index}]"
                yield f"{found}, expected one of {len(chunks)}"
