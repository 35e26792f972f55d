"""Citations of text, in both directions: an entry each in `metadata` of the message."""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import Citation
from streamnorm._core.json import count_of, is_object, string_of
from streamnorm.dialects.ag_ui.capabilities import URL_CITATION

_TEXTS = {"url": "url", "title": "title", "cited_text": "citedText"}
_EXTRA = "extra"
_POSITIONS = ("start", "end")


def citation_to_wire(citation: Citation) -> dict[str, Any]:
    """Return the entry of a citation."""
    fields = {wire: getattr(citation, name) for name, wire in _TEXTS.items()}
    fields |= {name: getattr(citation, name) for name in _POSITIONS}
    fields[_EXTRA] = citation.extra
    return {name: value for name, value in fields.items() if value is not None}


def citation_from_wire(entry: dict[str, Any]) -> Citation:
    """Return the citation of an entry."""
    fields: dict[str, Any] = {name: string_of(entry, wire) or None for name, wire in _TEXTS.items()}
    fields |= {name: count_of(entry.get(name)) for name in _POSITIONS}
    extra = entry.get(_EXTRA)
    fields["extra"] = extra if is_object(extra) else None
    return Citation(URL_CITATION, **fields)
