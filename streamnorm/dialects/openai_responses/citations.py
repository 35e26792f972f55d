"""The sources that an output text names."""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import Citation
from streamnorm._core.json import clean

__all__ = ["citation"]


def citation(wire: dict[str, Any]) -> Citation:
    """Return an annotation as a source; its offsets are in characters of its part."""
    more = {key: value for key, value in wire.items() if key != "type" and value is not None}

    def text(key: str) -> str | None:
        return clean(more.pop(key)) if isinstance(more.get(key), str) else None

    def offset(key: str) -> int | None:
        return more.pop(key) if type(more.get(key)) is int else None

    kind = wire.get("type")
    return Citation(
        clean(kind) if isinstance(kind, str) else "",
        url=text("url"),
        title=text("title"),
        cited_text=text("content"),  # which OpenRouter adds
        start=offset("start_index"),
        end=offset("end_index"),
        extra=more or None,
    )
