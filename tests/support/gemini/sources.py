"""Random grounding metadata of Gemini, and the expected citations."""

from __future__ import annotations

from typing import Any

from streamnorm import Citation
from support.draws import Draws

__all__ = ["make_sources"]

_CHUNKS: tuple[dict[str, Any], ...] = (
    {"web": {"uri": "https://u", "title": "é"}},
    {"retrievedContext": {"uri": "gs://d", "title": "D", "text": "words"}},
    {"web": {"uri": "https://w", "domain": "w"}},
)


def make_sources(d: Draws, text: str, base: int) -> tuple[list[Citation], dict[str, Any]]:
    """Return random citations of a text, and the candidate's fields with them.

    Args:
        d: Draws.
        text: The text.
        base: Bytes of the texts before it.
    """
    told: dict[str, Any] = {}
    recited: list[Citation] = []
    if d.flag(4):
        start, end = _span(d, text)
        source = {"uri": "https://r", "license": "mit", **_place(text, start, end, base)}
        told["citationMetadata"] = {"citations": [source]}
        recited = [
            Citation("citation", "https://r", start=start, end=end, extra={"license": "mit"})
        ]
    supports: list[dict[str, Any]] = []
    found: list[Citation] = []
    for _ in range(d.below(3)):
        numbers = [number for number in range(len(_CHUNKS)) if d.flag()]
        support, citations = _support(d, text, base, numbers)
        supports.append(support)
        found += [citation for citation in citations if citation not in found]
    metadata: dict[str, Any] = {"groundingChunks": list(_CHUNKS), "groundingSupports": supports}
    if d.flag():
        metadata["webSearchQueries"] = ["q"]
    if supports or d.flag():
        told["groundingMetadata"] = metadata
    return [*recited, *found], told


def _support(
    d: Draws, text: str, base: int, numbers: list[int]
) -> tuple[dict[str, Any], list[Citation]]:
    start, end = _span(d, text)
    data, words = text.encode(), text[start:end]
    within = len(text[:start].encode())
    # Counted from the start of all text, where it cannot be taken for a place within this.
    shifted = data[base + within : base + within + len(words.encode())] != words.encode()
    place = _place(text, start, end, base if shifted and d.flag() else 0)
    if not place["startIndex"] and d.flag():
        del place["startIndex"]
    scored = d.flag(3)
    support: dict[str, Any] = {
        "segment": {**place, "text": words},
        "groundingChunkIndices": numbers,
    }
    if scored:
        support["confidenceScores"] = [0.5 for _ in numbers]
    return support, [_citation(_CHUNKS[number], start, end, scored=scored) for number in numbers]


def _citation(chunk: dict[str, Any], start: int, end: int, *, scored: bool) -> Citation:
    ((kind, fields),) = chunk.items()
    extra = {key: fields[key] for key in ("domain",) if key in fields}
    extra |= {"confidenceScores": [0.5]} if scored else {}
    words = fields.get("text")
    title = fields.get("title")
    return Citation(kind, fields["uri"], title, words, start, end, extra=extra or None)


def _span(d: Draws, text: str) -> tuple[int, int]:
    """Return a random range of characters in a text."""
    start = d.below(len(text))
    return start, start + 1 + d.below(len(text) - start)


def _place(text: str, start: int, end: int, base: int) -> dict[str, int]:
    """Return a range of characters as a range of bytes."""
    first, last = (base + len(text[:at].encode()) for at in (start, end))
    return {"startIndex": first, "endIndex": last}
