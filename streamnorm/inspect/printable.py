r"""Text of a peer, escaped for a terminal.

Characters that a terminal would execute or a reader would not see (control and format
characters, line separators, lone surrogates, unassigned code points) are written as escapes
such as `\x1b` or `\u202e`.  Backslashes are not escaped: JSON is full of them.
"""

from __future__ import annotations

from unicodedata import east_asian_width

__all__ = ["columns", "fit", "printable"]


def printable(text: str, *, ascii: bool = False) -> str:
    """Return text with escapes for unprintable, or also for non-ASCII characters."""
    if text.isprintable() and (text.isascii() or not ascii):
        return text
    return "".join([_shown(character, ascii) for character in text])


def columns(text: str) -> int:
    """Return an upper bound on the terminal columns of a text.

    A combining character counts as one column, so that a run of them is bounded, too.
    """
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def fit(text: str, room: int, *, more: str, ascii: bool = False) -> str:
    """Return printable text that takes at most `room` columns.

    Args:
        text: The text; read only as far as it may fit.
        room: Columns.
        more: Ending of a text that is cut.
        ascii: Whether to write only ASCII.
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
