"""A stream while it arrives, as lines that fit a screen."""

from __future__ import annotations

from string import ascii_letters, digits, punctuation

from msgspec import Struct, structs

from streamnorm._core.events import JSONDelta, ReasoningDelta, RefusalDelta, TextDelta
from streamnorm.inspect.page import Line, Page, Style, describe_end, describe_head
from streamnorm.inspect.report import Read, Report

_SHOWN_CHARS = 1024
# The longest secret that is found has 8 KiB, and may begin before what is shown.
_TAIL_CHARS = _SHOWN_CHARS + 8 * 1024

# ASCII that may be in a key or token: what separates values in JSON is left out.
_WORD_CHARS = "".join(sorted({*digits, *ascii_letters, *punctuation} - set('"{}[],:')))
_SHOWN_FIELDS = ("times", "usage", "waits")
_MIN_BLOCK_LINES = 4


class Tail(Struct, frozen=True):
    """The last characters of the block that grew last.

    Attributes:
        block: Index of the block; None before the first delta.
        text: The characters.
    """

    block: int | None = None
    text: str = ""


def extend_tail(tail: Tail, read: Read) -> Tail:
    """Return the tail extended by the text in the events of a `Read`.

    Args:
        tail: The tail before.
        read: What the read has brought.
    """
    block, text = tail.block, tail.text
    for timed in read.events:
        match timed.event:
            case (
                TextDelta(index, more)
                | ReasoningDelta(index, more)
                | RefusalDelta(index, more)
                | JSONDelta(index, more)
            ):
                text = (text if index == block else "") + more[-_TAIL_CHARS:]
                block, text = index, text[-_TAIL_CHARS:]
            case _:
                pass
    return Tail(block, text)


def hide_last_word(tail: Tail) -> Tail:
    """Return a tail without its last word, which may still grow into a secret.

    Args:
        tail: The tail, redacted.
    """
    return structs.replace(tail, text=tail.text[-_SHOWN_CHARS:].rstrip(_WORD_CHARS))


def render_live(report: Report, tail: Tail, name: str, style: Style, height: int) -> list[Line]:
    """Return a growing stream as lines that fit the screen: its last blocks and newest text.

    Args:
        report: The report so far.
        tail: The last characters.
        name: Name of the stream.
        style: How the lines look.
        height: Number of lines of the screen.
    """
    page = Page(style.width, style.glyphs)
    (_, sizes), (_, dialect), *_ = describe_head(report)
    page.add_field("stream", name, f"{sizes[0]} of {dialect[0]}")
    end = Page(style.width, style.glyphs)
    if tail.block is not None:
        # Two lines, whose last character is the last that arrived.
        room = 2 * (style.width - 20)
        end.add_field("block", f"{tail.block}: {_fit_end(tail.text[-_SHOWN_CHARS:], room, style)}")
    for label, lines in describe_end(report, style.glyphs.times):
        if label in _SHOWN_FIELDS:
            end.add_field(label, *lines[:3])
    blocks = Page(style.width, style.glyphs)
    blocks.add_blocks(report)
    room = max(height - len(page.lines) - len(end.lines) - 1, _MIN_BLOCK_LINES)
    shown = blocks.lines
    if len(shown) > room:
        shown = [*shown[:2], *shown[len(shown) - room + 2 :]]
    return [*page.lines, *shown, *end.lines][: height - 1]


def _fit_end(text: str, room: int, style: Style) -> str:
    """Return the end of a text, printable, in at most `room` columns."""
    glyphs = style.glyphs
    start, used = len(text), len(glyphs.more)
    while start and (used := used + glyphs.count_columns(text[start - 1])) <= room:
        start -= 1
    more = glyphs.more if start else ""
    return more + glyphs.fit(text[start:], room)
