"""Citations: the annotations of an `output_text` part."""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import Citation
from streamnorm._core.json import clean


def citation_from_wire(annotation: dict[str, Any]) -> Citation:
    """Return an annotation as a citation; its offsets are characters of its part."""
    rest = {key: value for key, value in annotation.items() if key != "type" and value is not None}

    def text(key: str) -> str | None:
        return clean(rest.pop(key)) if isinstance(rest.get(key), str) else None

    def offset(key: str) -> int | None:
        return rest.pop(key) if type(rest.get(key)) is int else None

    kind = annotation.get("type")
    return Citation(
        clean(kind) if isinstance(kind, str) else "",
        url=text("url"),
        title=text("title"),
        cited_text=text("content"),  # added by OpenRouter
        start=offset("start_index"),
        end=offset("end_index"),
        extra=rest or None,
    )


def citation_to_wire(citation: Citation, text_length: int) -> dict[str, Any]:
    """Return an annotation; a `url_citation` without an end extends over `text_length`."""
    annotation: dict[str, Any] = {**(citation.extra or {}), "type": citation.kind}
    start, end, url, title = citation.start, citation.end, citation.url, citation.title
    if citation.kind == "url_citation":  # all of its fields are required
        start, end = start or 0, text_length if end is None else end
        url, title = url or "", title or ""
    fields = {"start_index": start, "end_index": end, "url": url, "title": title}
    annotation |= {key: value for key, value in fields.items() if value is not None}
    if citation.cited_text is not None:
        annotation["content"] = citation.cited_text
    return annotation
