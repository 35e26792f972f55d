"""Reasoning that a raw model server leaves in the text, between `<think>` and `</think>`."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["Piece", "ThinkTags"]

Piece: TypeAlias = tuple[Literal["text", "reasoning"], str]

_OPEN, _CLOSE = "<think>", "</think>"
_MAX_BLANK_CHARS = 1024


class ThinkTags:
    """Split text into reasoning and text.

    A tag counts where it opens an answer, after some white space at most, and where it
    then closes; any later one is text.  Only what may yet become a tag is held.
    """

    def __init__(self) -> None:
        self._state: Literal["before", "inside", "after"] = "before"
        self._held = ""

    def feed(self, text: str) -> list[Piece]:
        """Return what is known to be reasoning or text."""
        if self._state == "after":
            return [("text", text)]
        text, self._held = self._held + text, ""
        if self._state == "before":
            return self._before(text)
        return self._inside(text)

    def close(self) -> list[Piece]:
        """Return what was held, now that nothing follows."""
        held, self._held = self._held, ""
        kind: Literal["text", "reasoning"] = "reasoning" if self._state == "inside" else "text"
        return [(kind, held)] if held else []

    def _before(self, text: str) -> list[Piece]:
        start = text.lstrip()
        if len(text) - len(start) <= _MAX_BLANK_CHARS:
            if start.startswith(_OPEN):
                self._state = "inside"
                return self._inside(start[len(_OPEN) :])
            if _OPEN.startswith(start):
                self._held = text
                return []
        self._state = "after"
        return [("text", text)]

    def _inside(self, text: str) -> list[Piece]:
        reasoning, tag, rest = text.partition(_CLOSE)
        if tag:
            self._state = "after"
            pieces: list[Piece] = [("reasoning", reasoning), ("text", rest)]
            return [piece for piece in pieces if piece[1]]
        keep = next((n for n in range(len(_CLOSE) - 1, 0, -1) if text.endswith(_CLOSE[:n])), 0)
        self._held = text[len(text) - keep :]
        reasoning = text[: len(text) - keep]
        return [("reasoning", reasoning)] if reasoning else []
