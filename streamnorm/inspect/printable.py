"""Printable text: escaped for a terminal, and cut to a number of columns."""

from __future__ import annotations

from unicodedata import east_asian_width

from msgspec import Struct

BOX_CHARACTERS = "█─═│┴…×"
"""Characters that an encoding must have for lines that are not ASCII."""


def escape_unprintable(text: str, *, ascii: bool = False) -> str:
    """Return text with unprintable characters escaped; with `ascii`, also non-ASCII ones."""
    return text if is_printable(text, ascii) else "".join([_escape(each, ascii) for each in text])


def is_printable(text: str, ascii: bool) -> bool:
    """Return whether all characters are printable; with `ascii`, also whether all are ASCII."""
    return text.isprintable() and (text.isascii() or not ascii)


def count_columns(text: str) -> int:
    """Return an upper bound on the terminal columns of a text.

    A combining character counts as one column, so that a run of them is bounded, too.
    """
    if text.isascii():
        return len(text)
    # Unicode's annex 11: W and F are wide everywhere, A (ambiguous) only in East Asian contexts.
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def fit(text: str, room: int, *, more: str, ascii: bool = False) -> str:
    """Return text escaped and cut to at most `room` columns.

    Args:
        text: The text; read only as far as it may fit.
        room: Columns.
        more: Ending of a text that is cut.
        ascii: Whether to write only ASCII.
    """
    pieces: list[str] = []
    used = kept = 0
    for character in text:
        piece = _escape(character, ascii)
        used += count_columns(piece)
        if used > room:
            return "".join(pieces[:kept]) + more
        pieces.append(piece)
        if used + len(more) <= room:
            kept = len(pieces)
    return "".join(pieces)


def rule(text: str, cuts: int, columns: int, glyphs: Glyphs) -> str:
    """Return a line that marks, below printed text, the characters with which deltas begin.

    Args:
        text: The text that `fit` has written.
        cuts: Bit set of its characters with which a delta begins.
        columns: Columns of what `fit` returned.
        glyphs: Characters to write with.
    """
    marks = [glyphs.idle] * columns
    used = 0
    for number, character in enumerate(text):
        if used >= columns:
            break
        if cuts >> number & 1:
            marks[used] = glyphs.cut
        used += count_columns(_escape(character, glyphs.ascii))
    return "".join(marks)


def _escape(character: str, ascii: bool) -> str:
    if is_printable(character, ascii):
        return character
    return character.encode("unicode_escape").decode()


class Glyphs(Struct, frozen=True):
    """The characters that bars, marks and cut texts of a page are drawn with.

    Attributes:
        busy: Column of a bar in which the block has events.
        idle: Column in which the block is open, and has no event.
        waits: Column in which deltas of the block wait.
        edge: Begin and end of the stream.
        torn: End of the stream for a block that never stopped.
        more: Ending of a text that is cut.
        times: Multiplication sign after a count.
        ascii: Whether only ASCII may be written.
    """

    busy: str
    idle: str
    waits: str
    edge: str
    torn: str
    cut: str
    more: str
    times: str
    ascii: bool

    def fit(self, text: str, room: int) -> str:
        """Return text escaped and cut to at most `room` columns."""
        return fit(text, room, more=self.more, ascii=self.ascii)

    def count_columns(self, character: str) -> int:
        """Return an upper bound on the columns of a character as `fit` writes it."""
        return count_columns(_escape(character, self.ascii))


BOX = Glyphs("█", "─", "═", "│", ">", "┴", "…", "×", ascii=False)
ASCII = Glyphs("#", "-", "=", "|", ">", "+", "...", "x", ascii=True)
