"""Citations of text blocks, in both directions.

A citation covers its whole block.  Its location names a range of the source, never of the
answer, and stays an unknown field.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import Citation
from streamnorm._core.json import clean, is_object, objects_of, string_of
from streamnorm.dialects.bedrock_converse.wire import unknown_fields

WEB = "web"
UNLOCATED = "citationsContent"
"""Kind of a citation without a location."""

LOCATIONS = frozenset(
    {WEB, "documentChar", "documentPage", "documentChunk", "searchResultLocation"}
)


def citation_from_wire(citation: dict[str, Any]) -> Citation:
    """Return a `citation` as a citation of its whole block."""
    extra = unknown_fields(citation, "title", "sourceContent", "location")
    kind, url = UNLOCATED, None
    location = citation.get("location")
    if is_object(location):
        kind, where = next(iter(unknown_fields(location).items()), (UNLOCATED, None))
        if is_object(where):
            where = dict(where)
            if isinstance(where.get("url"), str):
                url = clean(where.pop("url"))
            extra["location"] = where
    texts = [string_of(part, "text") for part in objects_of(citation.get("sourceContent"))]
    return Citation(
        clean(kind),
        url=url,
        title=string_of(citation, "title") or None,
        cited_text="".join(texts) or None,
        extra=extra or None,
    )


def citation_to_wire(citation: Citation) -> dict[str, Any]:
    """Return the `citation` of a delta."""
    extra = dict(citation.extra or {})
    where = extra.pop("location", None)
    # Those of other vendors have other fields.
    fields: dict[str, Any] = {"source": extra["source"]} if "source" in extra else {}
    if citation.kind in LOCATIONS:
        place = dict(where) if is_object(where) else {}
        if citation.url is not None:
            place["url"] = citation.url
        fields["location"] = {citation.kind: place}
    if citation.cited_text is not None:
        fields["sourceContent"] = [{"text": citation.cited_text}]
    if citation.title is not None:
        fields["title"] = citation.title
    return fields
