r"""Text of a peer, made fit for a terminal.

What a terminal would obey or a reader would not see (control and format characters,
line separators, lone surrogates, unassigned code points) is written as an escape, such
as `\x1b` or `\u202e`.  A backslash stays what it is: JSON is full of them.
"""

from __future__ import annotations

from unicodedata import east_asian_width

__all__ = ["columns", "fit", "printable"]


def printable(text: str, *, ascii: bool = False) -> str:
    """Return text with escapes for characters that are not printable, or not ASCII."""
    if text.isprintable() and (text.isascii() or not ascii):
        return text
    return "".join([_shown(character, ascii) for character in text])


def columns(text: str) -> int:
    """Return how many columns of a terminal text takes, or a few more.

    A combining character counts as one, so that no run of them is endless.
    """
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def fit(text: str, room: int, *, more: str, ascii: bool = False) -> str:
    """Return printable text that takes at most `room` columns.

    Args:
        text: The text.  No more of it is looked at than could fit.
        room: Columns.
        more: What ends it where it is cut.
        ascii: Whether to write nothing but ASCII.
    """
    pieces: list[str] = []
    used = kept = 0
    for character in text:
        piece = _shown(character, ascii)
        used += columns(piece)
        if used > room:
            return "".join(pieces[:kept]) + more
        pieces.append(piece)
        if used + len(more) <= room:
            kept = len(pieces)
    return "".join(pieces)


def _shown(character: str, ascii: bool) -> str:
    if character.isprintable() and (character.isascii() or not ascii):
        return character
    return character.encode("unicode_escape").decode()
