"""Sources of an answer: what supports which of its words.

`groundingMetadata` counts bytes, as do the citations of recitation.
https://ai.google.dev/api/generate-content#GroundingMetadata (read 2026-11-22).
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import Citation
from streamnorm._core.json import count_of, is_array, is_object
from streamnorm._core.text_offsets import TextOffsets

__all__ = ["recited", "supported"]

_SUPPORTS, _CHUNKS = "groundingSupports", "groundingChunks"
_CITATION = "citation"


def supported(
    metadata: dict[str, Any], text: TextOffsets | None
) -> tuple[list[Citation], dict[str, Any]]:
    """Return the sources that support words of a block, and the metadata without them.

    Args:
        metadata: `groundingMetadata`.
        text: The block; None if no text is open.
    """
    chunks = metadata.get(_CHUNKS)
    chunks = chunks if is_array(chunks) else []
    citations: list[Citation] = []
    left: list[Any] = []
    used: set[int] = set()
    for support in _list(metadata.get(_SUPPORTS)):
        found = _support(support, chunks, text) if is_object(support) else []
        if not found:
            left.append(support)
        for number, citation in found:
            used.add(number)
            citations.append(citation)
    rest = {key: value for key, value in metadata.items() if value not in (None, [], {})}
    if left:
        rest[_SUPPORTS] = left
    else:
        rest.pop(_SUPPORTS, None)
        if len(used) == len(chunks):
            rest.pop(_CHUNKS, None)
    return citations, rest


def recited(
    metadata: dict[str, Any], text: TextOffsets | None
) -> tuple[list[Citation], dict[str, Any]]:
    """Return the sources that words of a block are from, and the metadata without them.

    Args:
        metadata: `citationMetadata`, whose list older versions call `citationSources`.
        text: The block; None if no text is open.
    """
    citations: list[Citation] = []
    rest: dict[str, Any] = {}
    for key, sources in metadata.items():
        if key not in ("citations", "citationSources") or not is_array(sources):
            rest[key] = sources
            continue
        left: list[Any] = []
        for source in sources:
            place = _place(source, text) if is_object(source) else None
            if place is None:
                left.append(source)
            else:
                fields = _without(source, "startIndex", "endIndex")
                citations.append(_citation(_CITATION, fields, place))
        if left:
            rest[key] = left
    return citations, {key: value for key, value in rest.items() if value is not None}


def _support(
    support: dict[str, Any], chunks: list[Any], text: TextOffsets | None
) -> list[tuple[int, Citation]]:
    """Return the sources of one support, each with its number; none if they have no place."""
    segment = support.get("segment")
    numbers = support.get("groundingChunkIndices")
    place = _place(segment if is_object(segment) else {}, text)
    if place is None or not is_array(numbers) or not numbers:
        return []
    scores = _list(support.get("confidenceScores"))
    found: list[tuple[int, Citation]] = []
    for position, number in enumerate(numbers):
        index = count_of(number)
        chunk = chunks[index] if index is not None and index < len(chunks) else None
        if index is None or not is_object(chunk) or len(chunk) != 1:
            return []
        kind, source = next(iter(chunk.items()))
        if not is_object(source):
            return []
        fields = dict(source)
        if position < len(scores):
            fields["confidenceScores"] = [scores[position]]
        found.append((index, _citation(kind, fields, place)))
    return found


def _place(
    segment: dict[str, Any], text: TextOffsets | None
) -> tuple[int | None, int | None] | None:
    """Return the characters of a segment, None and None for the whole block."""
    if text is None:
        return None
    start, end = count_of(segment.get("startIndex", 0)), segment.get("endIndex")
    if end is None and start == 0:
        return None, None
    end = count_of(end)
    if start is None or end is None:
        return None
    words = segment.get("text")
    return text.find(start, end, words if isinstance(words, str) else None)


def _citation(kind: str, fields: dict[str, Any], place: tuple[int | None, int | None]) -> Citation:
    rest = {key: value for key, value in fields.items() if value is not None}

    def take(key: str) -> str | None:
        return rest.pop(key) if isinstance(rest.get(key), str) else None

    url, title = take("uri"), take("title")
    words = take("text") if kind == "retrievedContext" else None
    return Citation(kind, url, title, words, *place, extra=rest or None)


def _without(value: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in keys}


def _list(value: Any) -> list[Any]:
    return value if is_array(value) else []
