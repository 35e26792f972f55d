"""Sources of a text as Gemini tells them: what supports which bytes of it.

https://ai.google.dev/api/generate-content#GroundingMetadata (read 2026-11-22).
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from streamnorm._core.blocks import Citation
from streamnorm._core.json import compact, is_array

__all__ = ["sources_to_wire"]

_RECITED = "citation"
"""The kind of a source that words were taken from, which is told apart from the others."""

_SCORES = "confidenceScores"


def sources_to_wire(
    citations: list[Citation], text: str, places: tuple[int, int], *, extras: bool
) -> dict[str, Any]:
    """Return the fields of a candidate that tell the sources of a block.

    Args:
        citations: The sources.
        text: The run of text that the block ends.
        places: Where in it the block begins, in characters, and where in all text of the
            answer it begins itself, in bytes: what was recited has no words to tell it by.
        extras: Whether to write the vendor's other fields back.
    """
    recited: list[dict[str, Any]] = []
    supported = _Grounding()
    start, before = places
    offsets = _ByteOffsets(text)
    for citation in citations:
        first = min(start + (citation.start or 0), len(text))
        last = len(text) if citation.end is None else min(start + citation.end, len(text))
        last = max(first, last)
        begin, end = offsets.at(first), offsets.at(last)
        fields = _fields(citation, extras=extras)
        if citation.kind == _RECITED:
            place = {"startIndex": before + begin, "endIndex": before + end}
            recited.append({**place, **fields})
        else:
            segment = {"startIndex": begin, "endIndex": end, "text": text[first:last]}
            supported.add(citation.kind, fields, segment)
    told = supported.to_wire()
    return {**told, "citationMetadata": {"citations": recited}} if recited else told


class _Support(Struct):
    """Sources of the same words."""

    segment: dict[str, Any]
    numbers: dict[int, None] = {}
    scores: list[Any] = []

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {
            "segment": self.segment,
            "groundingChunkIndices": list(self.numbers),
        }
        return {**wire, _SCORES: self.scores} if self.scores else wire


class _Grounding:
    """Chunks, each once, and what they support; several for the same words stand together."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._chunks: list[dict[str, Any]] = []
        self._supports: list[_Support] = []

    def add(self, kind: str, fields: dict[str, Any], segment: dict[str, Any]) -> None:
        """Take one source of some words."""
        found = fields.pop(_SCORES, None)
        scores: list[Any] = found if is_array(found) else []
        number = self._numbers.setdefault(compact([kind, fields]), len(self._chunks))
        if number == len(self._chunks):
            self._chunks.append({kind: fields})
        last = self._supports[-1] if self._supports else None
        if (
            last is None
            or last.segment != segment
            or number in last.numbers
            or bool(last.scores) != bool(scores)
        ):
            last = _Support(segment)
            self._supports.append(last)
        last.numbers[number] = None
        last.scores += scores

    def to_wire(self) -> dict[str, Any]:
        """Return the metadata; empty where no source was taken."""
        if not self._supports:
            return {}
        supports = [support.to_wire() for support in self._supports]
        return {
            "groundingMetadata": {"groundingChunks": self._chunks, "groundingSupports": supports}
        }


def _fields(citation: Citation, *, extras: bool) -> dict[str, Any]:
    fields = {"uri": citation.url, "title": citation.title}
    if citation.kind == "retrievedContext":
        fields["text"] = citation.cited_text
    told = {key: value for key, value in fields.items() if value is not None}
    return {**((citation.extra or {}) if extras else {}), **told}


class _ByteOffsets:
    """Turn numbers of characters into numbers of UTF-8 bytes, cheapest in rising order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ascii = text.isascii()
        self._at = (0, 0)

    def at(self, character: int) -> int:
        if self._ascii:
            return character
        known, size = self._at if self._at[0] <= character else (0, 0)
        size += len(self._text[known:character].encode("utf-8", "replace"))
        self._at = (character, size)
        return size
