"""Citations of an answer: `groundingMetadata` and `citationMetadata`, in both directions.

https://ai.google.dev/api/generate-content#GroundingMetadata (read 2026-11-22).  Google counts
UTF-8 bytes: in a part for grounding, in the whole answer for recitations.  Unified citations
count the characters of their block.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from streamnorm._core.blocks import Citation
from streamnorm._core.json import compact, count_of, is_array, is_object
from streamnorm._core.text import TextOffsets

_SUPPORTS, _CHUNKS = "groundingSupports", "groundingChunks"
_SCORES = "confidenceScores"
_RECITED = "citation"
"""Kind of the sources in `citationMetadata`, which the answer recites."""


def grounding_from_wire(
    metadata: dict[str, Any], text: TextOffsets | None
) -> tuple[list[Citation], dict[str, Any]]:
    """Return the citations of a block, and the metadata without them.

    Args:
        metadata: `groundingMetadata`.
        text: Text of the block; None if no text is open.
    """
    chunks = _as_list(metadata.get(_CHUNKS))
    citations: list[Citation] = []
    unread: list[Any] = []
    used: set[int] = set()
    for support in _as_list(metadata.get(_SUPPORTS)):
        found = _read_support(support, chunks, text) if is_object(support) else []
        if not found:
            unread.append(support)
        for number, citation in found:
            used.add(number)
            citations.append(citation)
    rest = {key: value for key, value in metadata.items() if value not in (None, [], {})}
    if unread:
        rest[_SUPPORTS] = unread
    else:
        rest.pop(_SUPPORTS, None)
        if len(used) == len(chunks):
            rest.pop(_CHUNKS, None)
    return citations, rest


def recitations_from_wire(
    metadata: dict[str, Any], text: TextOffsets | None
) -> tuple[list[Citation], dict[str, Any]]:
    """Return the recited sources of a block, and the metadata without them.

    Args:
        metadata: `citationMetadata`, whose list older API versions call `citationSources`.
        text: Text of the block; None if no text is open.
    """
    citations: list[Citation] = []
    rest: dict[str, Any] = {}
    for key, sources in metadata.items():
        if key not in ("citations", "citationSources") or not is_array(sources):
            rest[key] = sources
            continue
        unread: list[Any] = []
        for source in sources:
            span = _read_span(source, text) if is_object(source) else None
            if span is None:
                unread.append(source)
            else:
                fields = {
                    name: value
                    for name, value in source.items()
                    if name not in ("startIndex", "endIndex")
                }
                citations.append(_make_citation(_RECITED, fields, span))
        if unread:
            rest[key] = unread
    return citations, {key: value for key, value in rest.items() if value is not None}


def _read_support(
    support: dict[str, Any], chunks: list[Any], text: TextOffsets | None
) -> list[tuple[int, Citation]]:
    """Return the citations of a support with their chunk numbers; [] if any is not readable."""
    segment = support.get("segment")
    numbers = support.get("groundingChunkIndices")
    span = _read_span(segment if is_object(segment) else {}, text)
    if span is None or not is_array(numbers) or not numbers:
        return []
    scores = _as_list(support.get(_SCORES))
    found: list[tuple[int, Citation]] = []
    for position, number in enumerate(numbers):
        index = count_of(number)
        chunk = chunks[index] if index is not None and index < len(chunks) else None
        # A chunk is a `oneof`: its only key is the kind of the source.
        if index is None or not is_object(chunk) or len(chunk) != 1:
            return []
        kind, source = next(iter(chunk.items()))
        if not is_object(source):
            return []
        fields = dict(source)
        if position < len(scores):
            fields[_SCORES] = [scores[position]]
        found.append((index, _make_citation(kind, fields, span)))
    return found


def _read_span(
    segment: dict[str, Any], text: TextOffsets | None
) -> tuple[int | None, int | None] | None:
    """Return the characters of a segment; None and None for the whole block."""
    if text is None:
        return None
    # Protobuf leaves out 0 (https://protobuf.dev/programming-guides/json/, read 2026-11-23).
    start, end = count_of(segment.get("startIndex", 0)), segment.get("endIndex")
    if end is None and start == 0:
        return None, None
    end = count_of(end)
    if start is None or end is None:
        return None
    cited_text = segment.get("text")
    return text.find(start, end, cited_text if isinstance(cited_text, str) else None)


def _make_citation(
    kind: str, fields: dict[str, Any], span: tuple[int | None, int | None]
) -> Citation:
    unknown = {key: value for key, value in fields.items() if value is not None}

    def pop(key: str) -> str | None:
        return unknown.pop(key) if isinstance(unknown.get(key), str) else None

    url, title = pop("uri"), pop("title")
    cited_text = pop("text") if kind == "retrievedContext" else None
    return Citation(kind, url, title, cited_text, *span, extra=unknown or None)


def _as_list(value: Any) -> list[Any]:
    return value if is_array(value) else []


def citations_to_wire(
    citations: list[Citation], text: str, start: int, run_start: int, *, extras: bool
) -> dict[str, Any]:
    """Return the citations of a block as fields of its candidate.

    Args:
        citations: Citations of the block.
        text: The contiguous text that the block ends; clients join it to one part.
        start: First character of the block in `text`.
        run_start: First byte of `text` in all text of the answer, for recitations.
        extras: Whether to write Google's unknown fields back.
    """
    recited: list[dict[str, Any]] = []
    grounding = _Grounding()
    offsets = _ByteOffsets(text)
    for citation in citations:
        first = min(start + (citation.start or 0), len(text))
        last = len(text) if citation.end is None else min(start + citation.end, len(text))
        last = max(first, last)
        begin, end = offsets.at(first), offsets.at(last)
        fields = _source_fields(citation, extras=extras)
        if citation.kind == _RECITED:
            span = {"startIndex": run_start + begin, "endIndex": run_start + end}
            recited.append({**span, **fields})
        else:
            # The quoted text as well: readers that count in another way find the segment by it.
            segment = {"startIndex": begin, "endIndex": end, "text": text[first:last]}
            grounding.add(citation.kind, fields, segment)
    wire = grounding.to_wire()
    return {**wire, "citationMetadata": {"citations": recited}} if recited else wire


def merge_citations(cited: list[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
    """Return the citations of several parts as the fields of one candidate.

    Args:
        cited: Number of each part, and the result of `citations_to_wire` for it.
    """
    chunks: list[Any] = []
    supports: list[dict[str, Any]] = []
    recited: list[Any] = []
    for part, fields in cited:
        grounding = fields.get("groundingMetadata", {})
        for support in grounding.get(_SUPPORTS, ()):
            # 0 is left out on the wire.
            if part:
                support["segment"]["partIndex"] = part
            numbers = [len(chunks) + number for number in support["groundingChunkIndices"]]
            supports.append({**support, "groundingChunkIndices": numbers})
        chunks += grounding.get(_CHUNKS, ())
        recited += fields.get("citationMetadata", {}).get("citations", ())
    merged: dict[str, Any] = {}
    if supports:
        merged["groundingMetadata"] = {_CHUNKS: chunks, _SUPPORTS: supports}
    return {**merged, "citationMetadata": {"citations": recited}} if recited else merged


def merge_metadata(cited: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    """Return citations merged with the metadata of a candidate that holds no citations.

    Args:
        cited: Result of `merge_citations`.
        metadata: Metadata without its citations, by field.
    """
    written = {**cited, **metadata}
    grounding, rest = cited.get("groundingMetadata"), metadata.get("groundingMetadata")
    if is_object(grounding) and is_object(rest):
        written["groundingMetadata"] = _merge_grounding(rest, grounding)
    recited, rest = cited.get("citationMetadata"), metadata.get("citationMetadata")
    if is_object(recited) and is_object(rest):
        sources = [*recited["citations"], *_as_list(rest.get("citations"))]
        written["citationMetadata"] = {**rest, "citations": sources}
    return written


def _merge_grounding(rest: dict[str, Any], grounding: dict[str, Any]) -> dict[str, Any]:
    """Return grounding metadata with citations added; equal chunks are written once."""
    chunks = [*_as_list(rest.get(_CHUNKS))]
    known = {compact(chunk): number for number, chunk in enumerate(chunks)}
    numbers: list[int] = []
    for chunk in grounding[_CHUNKS]:
        numbers.append(known.setdefault(compact(chunk), len(chunks)))
        if numbers[-1] == len(chunks):
            chunks.append(chunk)
    supports: list[dict[str, Any]] = [
        {**support, "groundingChunkIndices": [numbers[n] for n in support["groundingChunkIndices"]]}
        for support in grounding[_SUPPORTS]
    ]
    return {**rest, _CHUNKS: chunks, _SUPPORTS: [*supports, *_as_list(rest.get(_SUPPORTS))]}


class _Support(Struct):
    """A support: the sources of one segment, by the numbers of their chunks."""

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
    """Builder of `groundingMetadata`: each source once, supports of equal segments joined."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._chunks: list[dict[str, Any]] = []
        self._supports: list[_Support] = []

    def add(self, kind: str, fields: dict[str, Any], segment: dict[str, Any]) -> None:
        scores = _as_list(fields.pop(_SCORES, None))
        # Clients number sources by their position in `groundingChunks`.
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
        if not self._supports:
            return {}
        supports = [support.to_wire() for support in self._supports]
        return {"groundingMetadata": {_CHUNKS: self._chunks, _SUPPORTS: supports}}


def _source_fields(citation: Citation, *, extras: bool) -> dict[str, Any]:
    fields = {"uri": citation.url, "title": citation.title}
    # Only retrieved documents have their text in the chunk.
    if citation.kind == "retrievedContext":
        fields["text"] = citation.cited_text
    named = {key: value for key, value in fields.items() if value is not None}
    return {**((citation.extra or {}) if extras else {}), **named}


class _ByteOffsets:
    """Converter of character offsets into UTF-8 byte offsets, cheapest in rising order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._is_ascii = text.isascii()
        self._last = (0, 0)

    def at(self, character: int) -> int:
        if self._is_ascii:
            return character
        known, size = self._last if self._last[0] <= character else (0, 0)
        size += len(self._text[known:character].encode("utf-8", "replace"))
        self._last = (character, size)
        return size
