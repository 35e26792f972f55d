"""The sources that a text of an interaction names.

https://ai.google.dev/api/interactions-api#Resource:Annotation (read 2026-11-22).  Their
places are counted in bytes of the text.  Each has the kind that `generateContent` has for
the same source, so that who reads the vendor needs one word for it.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import Citation
from streamnorm._core.json import clean, count_of
from streamnorm.dialects.gemini.offsets import Offsets

__all__ = ["source"]

_KINDS = {"url_citation": "web", "file_citation": "retrievedContext", "place_citation": "maps"}
_ADDRESSES, _TITLES = ("url", "document_uri"), ("title", "file_name", "name")
_PLACED = frozenset({"type", "start_index", "end_index"})


def source(annotation: dict[str, Any], text: Offsets) -> Citation | None:
    """Return an annotation as a source of a text; None if it is none, or has no place there."""
    kind = annotation.get("type")
    if not isinstance(kind, str) or kind not in _KINDS:
        return None
    place = _place(annotation, text)
    if place is None:
        return None
    rest = {
        key: value for key, value in annotation.items() if key not in _PLACED and value is not None
    }

    def take(names: tuple[str, ...]) -> str | None:
        name = next((name for name in names if isinstance(rest.get(name), str)), None)
        return None if name is None else clean(rest.pop(name))

    url, title = take(_ADDRESSES), take(_TITLES)
    return Citation(_KINDS[kind], url, title, None, *place, extra=rest or None)


def _place(annotation: dict[str, Any], text: Offsets) -> tuple[int | None, int | None] | None:
    """Return the characters that are meant, None and None for the whole text."""
    start, end = annotation.get("start_index"), annotation.get("end_index")
    if end is None:  # zeros may be left out, but not both
        return (None, None) if not start else None
    first, last = count_of(start or 0), count_of(end)
    return None if first is None or last is None else text.find(first, last, None)
