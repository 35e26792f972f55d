"""Content other than text and calls: annotations of a text as citations.

https://ai.google.dev/api/interactions-api#Resource:Annotation (read 2026-11-22).  Offsets count
bytes of the text.  `Citation.kind` is the name of the same source in `generateContent`, so that
both of Google's APIs have one name for it.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import Citation
from streamnorm._core.json import clean, count_of
from streamnorm._core.text import TextOffsets

_KINDS = {"url_citation": "web", "file_citation": "retrievedContext", "place_citation": "maps"}
_URLS, _TITLES = ("url", "document_uri"), ("title", "file_name", "name")
_MAPPED = frozenset({"type", "start_index", "end_index"})


def citation_from_wire(annotation: dict[str, Any], text: TextOffsets) -> Citation | None:
    """Return an annotation as a citation; None if its type or its range is unknown."""
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
    """Return the characters of an annotation; None and None for the whole text."""
    start, end = annotation.get("start_index"), annotation.get("end_index")
    if end is None:  # the vendor leaves out zeros, but an end of zero is none
        return (None, None) if not start else None
    first, last = count_of(start or 0), count_of(end)
    return None if first is None or last is None else text.find(first, last, None)
