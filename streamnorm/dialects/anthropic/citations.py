"""Citations of text blocks, in both directions.

A citation covers its whole text block and has no range within it.  The fields that locate its
source stay unknown fields, which win over mapped ones when both are written.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import Citation
from streamnorm._core.json import clean, string_of
from streamnorm.dialects.anthropic.wire import unknown_fields

_DOCUMENTS = ("char_location", "page_location", "content_block_location")
# Fields that are sent even as null: the AI SDK rejects a citation without them.
_NULLABLE = {
    **dict.fromkeys(_DOCUMENTS, ("document_title", "file_id")),
    "web_search_result_location": ("title",),
    "search_result_location": ("title",),
}


def citation_from_wire(citation: dict[str, Any]) -> Citation:
    """Return a `citation` object as a citation of its whole block."""
    kind = string_of(citation, "type")
    extra = unknown_fields(citation, "type")

    def pop_string(key: str) -> str | None:
        return clean(extra.pop(key)) if isinstance(extra.get(key), str) else None

    return Citation(
        kind,
        # `source` of a search result is any text of its author, and no URL.
        url=pop_string("url"),
        title=pop_string(_title_field(kind)),
        cited_text=pop_string("cited_text"),
        extra=extra or None,
    )


def citation_to_wire(citation: Citation) -> dict[str, Any]:
    """Return the `citation` object of a `citations_delta`."""
    fields = {
        "url": citation.url,
        _title_field(citation.kind): citation.title,
        "cited_text": citation.cited_text,
    }
    nulls = dict.fromkeys(_NULLABLE.get(citation.kind, ()))
    return {"type": citation.kind, **nulls, **unknown_fields(fields), **(citation.extra or {})}


def _title_field(kind: str) -> str:
    return "document_title" if kind in _DOCUMENTS else "title"
