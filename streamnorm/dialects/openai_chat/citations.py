"""Sources of a text, as Chat Completions tells them: once, with their place in the whole."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from streamnorm._core.blocks import Citation

__all__ = ["Sources"]


class _Span(Struct):
    start: int
    end: int | None = None


class Sources:
    """Collect the citations of one answer.

    The python SDK's accumulator raises at a second list without indexes, and a source's
    place is known when its block is complete; so all of them are written at the end.
    """

    def __init__(self) -> None:
        self._characters = 0
        self._spans: dict[int, _Span] = {}
        self._cited: list[tuple[int, Citation]] = []
        self._whole: list[Any] = []

    def begin(self, index: int) -> None:
        """Take the start of a text block."""
        self._spans[index] = _Span(self._characters)

    def end(self, index: int, characters: int) -> None:
        """Take its stop, and how long it was."""
        self._characters += characters
        self._spans[index].end = self._characters

    def add(self, index: int, citation: Citation) -> None:
        """Take a source of a text block."""
        self._cited.append((index, citation))

    def add_whole(self, annotation: Any) -> None:
        """Take what the dialect itself told of a source that no text was open for."""
        self._whole.append(annotation)

    def annotations(self) -> list[Any]:
        """Return all of them, as the message has them."""
        placed = [self._annotation(self._spans[index], source) for index, source in self._cited]
        return [*placed, *self._whole]

    def _annotation(self, span: _Span, citation: Citation) -> dict[str, Any]:
        start = span.start if citation.start is None else span.start + citation.start
        end = span.end if citation.end is None else span.start + citation.end
        fields = {
            "start_index": start,
            "end_index": end,
            "url": citation.url,
            # The reference requires one of a page.
            "title": citation.title or ("" if citation.kind == "url_citation" else None),
            "content": citation.cited_text,
        }
        told = {key: value for key, value in fields.items() if value is not None}
        return {"type": citation.kind, citation.kind: {**(citation.extra or {}), **told}}
