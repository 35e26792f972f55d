"""Signatures, redacted reasoning, citations and results of the provider's tools.

https://ai.google.dev/gemini-api/docs/thought-signatures (read 2026-11-22).  Signatures are Base64.
A foreign one is therefore written as the Base64 of a tagged value that names its issuer.
google-genai takes the signature of a thought as any text (3.6.1, read 2026-11-28), so one of
Google's that another server has cut passes unchanged.

https://ai.google.dev/api/interactions-api#Resource:Annotation (read 2026-11-22).  Offsets count
bytes of the text.  `Citation.kind` is the name of the same source in `generateContent`, so that
both of Google's APIs have one name for it.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from streamnorm._core.blocks import Citation, RedactedReasoning, ServerToolResult
from streamnorm._core.json import clean, count_of, is_object
from streamnorm._core.losses import Losses
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

ISSUER = "google"
"""Vendor that issues the signatures of this dialect."""

# The one result of a server tool without a field for a failure (google-genai,
# `MCPServerToolResultStep`).
_UNMARKED = "mcp_server_tool_result_step"
_KINDS = {"url_citation": "web", "file_citation": "retrievedContext", "place_citation": "maps"}
_URLS, _TITLES = ("url", "document_uri"), ("title", "file_name", "name")
_MAPPED = frozenset({"type", "start_index", "end_index"})


def signature_from_wire(signature: str) -> Signed:
    """Return a signature with the issuer that its tag names, or with Google if it has no tag."""
    return untag_signature(unwrap_base64(signature)) or Signed(signature, ISSUER)


def signature_to_wire(signed: Signed) -> str:
    """Return a signature for the wire: Google's unchanged, others tagged with the issuer."""
    # Google refuses a signature that differs from its own by one byte.
    if signed.issuer == ISSUER and not _is_tagged(signed.signature):
        return signed.signature
    return _wrap_base64(tag_signature(*signed))


def redacted_from_wire(signature: str) -> RedactedReasoning | None:
    """Return the redacted reasoning in a tagged signature; None if there is none."""
    untagged = untag_redacted_reasoning(unwrap_base64(signature))
    return None if untagged is None else RedactedReasoning(*untagged)


def redacted_to_wire(block: RedactedReasoning) -> str:
    """Return another vendor's redacted reasoning as a tagged signature."""
    return _wrap_base64(tag_redacted_reasoning(block.data, block.issuer, block.id))


def _wrap_base64(tagged: str) -> str:
    return b64encode(tagged.encode("utf-8", "replace")).decode()


def _is_tagged(signature: str) -> bool:
    """Return whether a signature is empty or has a tag that streamnorm has added."""
    value = unwrap_base64(signature)
    is_ours = untag_signature(value) is not None or untag_redacted_reasoning(value) is not None
    return is_ours or not signature


def citation_from_wire(annotation: dict[str, Any], text: TextOffsets) -> Citation | None:
    """Return an annotation as a citation; None if its type or range is unknown."""
    kind = annotation.get("type")
    if not isinstance(kind, str) or kind not in _KINDS:
        return None
    span = _read_span(annotation, text)
    if span is None:
        return None
    unknown = {
        key: value for key, value in annotation.items() if key not in _MAPPED and value is not None
    }

    def pop_first(names: tuple[str, ...]) -> str | None:
        name = next((name for name in names if isinstance(unknown.get(name), str)), None)
        return None if name is None else clean(unknown.pop(name))

    url, title = pop_first(_URLS), pop_first(_TITLES)
    return Citation(_KINDS[kind], url, title, None, *span, extra=unknown or None)


def _read_span(
    annotation: dict[str, Any], text: TextOffsets
) -> tuple[int | None, int | None] | None:
    """Return an annotation's character range: (None, None) for the whole text; None if illegal."""
    start, end = annotation.get("start_index"), annotation.get("end_index")
    if end is None:  # the vendor leaves out zeros, but an end of zero is none
        return (None, None) if not start else None
    first, last = count_of(start or 0), count_of(end)
    return None if first is None or last is None else text.find(first, last, None)


_TYPES = {kind: name for name, kind in _KINDS.items()}
_FIELDS = {
    "url_citation": ("url", "title"),
    "file_citation": ("document_uri", "file_name"),
    "place_citation": ("url", "name"),
}


def citations_to_wire(
    citations: list[Citation], text: str, start: int, *, extras: bool
) -> list[dict[str, Any]]:
    """Return the citations of a block at the end of a step's text as annotations.

    Args:
        citations: Citations of the block.
        text: Text of the step, up to the end of the block.
        start: First character of the block in `text`.
        extras: Whether to write Google's unknown fields back.
    """
    offsets = ByteOffsets(text)
    return [
        {
            **(citation.extra or {} if extras else {}),
            **_source_fields(citation),
            **_span_of(citation, offsets, start, len(text)),
        }
        for citation in citations
    ]


def _source_fields(citation: Citation) -> dict[str, Any]:
    kind = _TYPES[citation.kind]
    values = zip(_FIELDS[kind], (citation.url, citation.title), strict=True)
    return {"type": kind} | {name: value for name, value in values if value is not None}


def _span_of(citation: Citation, offsets: ByteOffsets, start: int, size: int) -> dict[str, int]:
    """Return a citation's byte range as wire fields; {} for the whole text of the step."""
    if not start and citation.start is None and citation.end is None:
        return {}
    first = min(start + (citation.start or 0), size)
    last = size if citation.end is None else min(start + citation.end, size)
    return {"start_index": offsets.at(first), "end_index": offsets.at(max(first, last))}


def result_fields(result: ServerToolResult, losses: Losses) -> dict[str, Any]:
    """Return the fields of the step of a server tool's result, besides its type and call."""
    content = result.content
    fields: dict[str, Any] = {**content} if is_object(content) else {"result": content}
    if result.is_error and fields.get("is_error") is not True:
        if result.kind == _UNMARKED:
            losses.add("is_error", "ServerToolResult", "dropped")
        else:
            fields["is_error"] = True
    return fields
