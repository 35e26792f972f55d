"""Signatures, citations and opaque fields, in both directions.

https://ai.google.dev/gemini-api/docs/thought-signatures (read 2026-11-22).  Clients decode
signatures as Base64 and raise where they cannot.  A foreign signature is therefore written as
the Base64 of a tagged value that names its issuer.  Google's signatures return to its clients
unchanged.

https://ai.google.dev/api/generate-content#GroundingMetadata (read 2026-11-22).  Citations are in
`groundingMetadata` and `citationMetadata`.  Google counts UTF-8 bytes: in a part for grounding, in
the whole answer for recitations.  Unified citations count the characters of their block.

https://ai.google.dev/api/generate-content (read 2026-11-22): fields without a unified event, and
the object that each is written to.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from streamnorm._core.blocks import Citation, RedactedReasoning
from streamnorm._core.events import Opaque
from streamnorm._core.json import FAST_ERRORS, compact, count_of, is_array, is_object
from streamnorm._core.text import (
    ByteOffsets,
    Signed,
    TextOffsets,
    tag_redacted_reasoning,
    tag_signature,
    untag_redacted_reasoning,
    untag_signature,
    unwrap_base64,
)
from streamnorm.dialects.gemini.outcome import finish_reason_of
from streamnorm.dialects.gemini.wire import PIECES

_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]+|[A-Za-z0-9_-]+)={0,2}")


def signature_from_wire(signature: str) -> Signed:
    """Return a signature with the issuer that its tag names, or with Google if it has no tag."""
    return untag_signature(unwrap_base64(signature)) or Signed(signature, "google")


def signature_to_wire(signed: Signed, *, extras: bool) -> str:
    """Return a signature for the wire, tagged unless Google issued it.

    Args:
        signed: The signature.
        extras: Whether the signature came from Google itself and is written even if it is no
            Base64.  Another server may have cut it, and clients that cannot decode it raise.
    """
    signature, issuer, _ = signed
    # Google refuses a signature that differs from its own by one byte.
    if issuer == "google" and (extras or _is_base64(signature)) and not _is_tagged(signature):
        return signature
    return b64encode(tag_signature(*signed).encode("utf-8", "replace")).decode()


def redacted_from_wire(signature: str) -> RedactedReasoning | None:
    """Return the redacted reasoning in a tagged signature, or None."""
    untagged = untag_redacted_reasoning(unwrap_base64(signature))
    return None if untagged is None else RedactedReasoning(*untagged)


def redacted_to_wire(block: RedactedReasoning) -> str:
    """Return another vendor's redacted reasoning as a tagged signature."""
    tagged = tag_redacted_reasoning(block.data, block.issuer, block.id)
    return b64encode(tagged.encode("utf-8", "replace")).decode()


def is_decodable(signature: str) -> bool:
    """Return whether a signature is Base64 that the API can decode."""
    is_whole = len(signature.rstrip("=")) % 4 != 1
    return is_whole and _BASE64.fullmatch(signature) is not None


def _is_base64(text: str) -> bool:
    """Return whether text is padded Base64."""
    # google-genai refuses unpadded Base64 in either alphabet (3.4.0, read 2026-11-22).
    if len(text) % 4 or _BASE64.fullmatch(text) is None:
        return False
    symbols = b"-_" if "-" in text or "_" in text else b"+/"
    data = b64decode(text, altchars=symbols)
    return b64encode(data, altchars=symbols).decode() == text  # no surplus bits at the end


def _is_tagged(signature: str) -> bool:
    """Return whether a signature is empty or has a tag that streamnorm has added."""
    value = unwrap_base64(signature)
    is_ours = untag_signature(value) is not None or untag_redacted_reasoning(value) is not None
    return is_ours or not signature


_SUPPORTS, _CHUNKS = "groundingSupports", "groundingChunks"
_SCORES = "confidenceScores"
_RECITED = "citation"
"""Kind of the sources in `citationMetadata`, which the answer recites."""


def grounding_from_wire(
    metadata: dict[str, Any], text: TextOffsets | None
) -> tuple[list[Citation], dict[str, Any]]:
    """Return the citations in grounding metadata, and the remaining metadata.

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
    """Return the citations in citation metadata, and the remaining metadata.

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
    """Return a support's citations, each with its source's number; [] if any is unreadable."""
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
    """Return a segment's character range: (None, None) for the whole block; None if illegal."""
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
    """Return a block's citations as fields of its candidate.

    Args:
        citations: Citations of the block.
        text: The contiguous text that the block ends; clients join it to one part.
        start: First character of the block in `text`.
        run_start: First byte of `text` in all text of the answer, for recitations.
        extras: Whether to write Google's unknown fields back.
    """
    recited: list[dict[str, Any]] = []
    grounding = _Grounding()
    offsets = ByteOffsets(text)
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
    """Return several parts' citations as fields of one candidate.

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
    """Return a candidate's metadata with citations merged into it.

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
    """Return grounding metadata with citations added; equal sources are written once."""
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
    """An entry of `groundingSupports`: a text segment, with the numbers of its sources."""

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
    """Builder of `groundingMetadata` with each source and segment written once."""

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


Target: TypeAlias = Literal["candidate", "part", "frame", "dropped"]

CHUNK_LEVEL_FIELDS = frozenset({"createTime", "modelStatus", "promptFeedback"})
"""Fields of `MessageStop.extra` that belong to the chunk, not to its candidate."""

_CANDIDATE_FIELDS = frozenset({"citationMetadata", "groundingMetadata", "logprobsResult"})
_FRAME = "frame"


def replace_half_characters(key: str, value: Any) -> Any:
    """Return an unknown field's value with U+FFFD in place of lone surrogates."""
    return msgspec.json.decode(compact(value)) if key in PIECES else value


def opaque_to_wire(event: Opaque) -> tuple[Target, dict[str, Any]]:
    """Return the object that an opaque event is written to, and the fields to add there."""
    try:
        value: Any = msgspec.json.decode(event.data)
    except FAST_ERRORS:
        return "dropped", {}
    if event.name in _CANDIDATE_FIELDS:
        return "candidate", {event.name: value}
    if event.name == _FRAME:
        return ("frame", value) if is_object(value) else ("dropped", {})
    # A string is the data of a frame with an event name: no field of a part is a string.
    return ("dropped", {}) if isinstance(value, str) else ("part", {event.name: value})


def block_reason(fields: dict[str, Any]) -> str:
    """Return the `blockReason` of a chunk; "" if the prompt was not blocked."""
    feedback = fields.get("promptFeedback")
    reason = feedback.get("blockReason") if is_object(feedback) else None
    return finish_reason_of(reason) if isinstance(reason, str) else ""
