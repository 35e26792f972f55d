"""The timeline of a stream: each block as a bar over its times, or else over its events.

#  kind       name         chars  bytes   0 s        0.2 s      0.4 s      0.6 s
0  tool call  get_weather     15     15  │   ██████──────███───███───██████         │
1  tool call  get_time        22     22  │         ██████───███───███─────────███   │

Each column of a bar stands for as many milliseconds, or as many events.
"""

from __future__ import annotations

from typing import Literal
from unicodedata import east_asian_width

from msgspec import Struct

from streamnorm.inspect.summary import Track
from streamnorm.inspect.survey import Report

MIN_WIDTH = 80
"""Columns that the widest table of blocks needs."""

_GAP = "  "
_MAX_NAME_COLUMNS = 24
_MIN_BAR_COLUMNS = 10
_MIN_TICK_COLUMNS = 9  # one more than the longest label


def escape_unprintable(text: str, *, ascii: bool = False) -> str:
    """Return text with escapes for unprintable, or also for non-ASCII characters."""
    return text if is_printable(text, ascii) else "".join([_escape(each, ascii) for each in text])


def is_printable(text: str, ascii: bool) -> bool:
    """Return whether all characters are printable, and also ASCII if only that may be written."""
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
        piece = _escape(character, ascii)
        used += count_columns(piece)
        if used > room:
            return "".join(pieces[:kept]) + more
        pieces.append(piece)
        if used + len(more) <= room:
            kept = len(pieces)
    return "".join(pieces)


def _escape(character: str, ascii: bool) -> str:
    if is_printable(character, ascii):
        return character
    return character.encode("unicode_escape").decode()


class Glyphs(Struct, frozen=True):
    """The characters of a page.

    Attributes:
        busy: Column of a bar in which the block has events.
        idle: Column in which the block is open, and has no event.
        edge: Begin and end of the stream.
        torn: End of the stream for a block that never stopped.
        more: Ending of a text that is cut.
        times: Multiplication sign after a count.
        ascii: Whether only ASCII may be written.
    """

    busy: str
    idle: str
    edge: str
    torn: str
    more: str
    times: str
    ascii: bool

    def fit(self, text: str, room: int) -> str:
        """Return printable text that takes at most `room` columns."""
        return fit(text, room, more=self.more, ascii=self.ascii)


BOX = Glyphs("█", "─", "│", ">", "…", "×", ascii=False)
ASCII = Glyphs("#", "-", "|", ">", "...", "x", ascii=True)


def draw_timeline(report: Report, width: int, glyphs: Glyphs) -> list[str]:
    """Return a head line, and for each block a row with its description and its bar."""
    head, *rows = _draw_table(report.tracks, width, glyphs)
    room = width - count_columns(head) - 2  # edges
    length = _count_positions(report)
    if length <= room:  # the same number of columns for each position
        room -= room % length
    lines = [head if report.timing is None else f"{head} {_draw_axis(length, room)}"]
    for row, track in zip(rows, report.tracks, strict=True):
        end = glyphs.torn if track.stop is None else glyphs.edge
        lines.append(f"{row}{glyphs.edge}{_draw_bar(track, report, room, glyphs)}{end}")
    return lines


def _count_positions(report: Report) -> int:
    """Return the number of positions: milliseconds if the times are known, else events."""
    return report.events if report.timing is None else report.timing.end_ms + 1


def _draw_axis(length: int, room: int) -> str:
    """Return the labels of a time axis, each of which begins in the column of its time."""
    # Steps of 1, 2, 5, 10, … ms.
    steps = (digit * 10**power for power in range(20) for digit in (1, 2, 5))
    step = next(step for step in steps if step * room >= _MIN_TICK_COLUMNS * length)
    axis = ""
    for ms in range(0, length, step):
        label = f"{ms / 1000:g} s"
        column = ms * room // length
        # Times of months have longer labels than two ticks have columns between them.
        if (column > len(axis) or not axis) and column + len(label) <= room:
            axis = axis.ljust(column) + label
    return axis


def _draw_table(tracks: tuple[Track, ...], width: int, glyphs: Glyphs) -> list[str]:
    """Return the head line and the rows up to the bar, padded to the same width."""
    before = [
        _draw_column("#", [str(number) for number in range(len(tracks))], ">"),
        _draw_column("kind", [track.kind for track in tracks]),
    ]
    if any(track.choice for track in tracks):
        before.insert(1, _draw_column("choice", [str(track.choice) for track in tracks], ">"))
    after = [
        _draw_column("chars", [f"{track.chars:,}" for track in tracks], ">"),
        _draw_column("bytes", [f"{track.bytes:,}" for track in tracks], ">"),
    ]
    taken = sum(len(column[0]) + len(_GAP) for column in before + after)
    room = width - taken - 2 * len(_GAP) - 2 - _MIN_BAR_COLUMNS
    room = min(max(room, len("name")), _MAX_NAME_COLUMNS)
    names = _draw_column("name", [glyphs.fit(track.name, room) for track in tracks])
    rows = zip(*before, names, *after, strict=True)
    return [_GAP + _GAP.join(row) + _GAP for row in rows]


def _draw_column(head: str, cells: list[str], align: Literal["<", ">"] = "<") -> list[str]:
    """Return the cells of a column, head first, padded to the same width."""
    cells = [head, *cells]
    width = max(count_columns(cell) for cell in cells)
    pads = [" " * (width - count_columns(cell)) for cell in cells]
    padded = zip(cells, pads, strict=True)
    return [cell + pad if align == "<" else pad + cell for cell, pad in padded]


def _draw_bar(track: Track, report: Report, width: int, glyphs: Glyphs) -> str:
    """Return the bar of a block: when it was open, and when it had events."""
    length = _count_positions(report)
    start, stop = track.start, track.stop
    if report.timing is not None:
        start, stop = track.start_ms or 0, track.stop_ms
    stop = length - 1 if stop is None else stop
    bar: list[str] = []
    for column in range(width):
        first = column * length // width
        last = max(first, (column + 1) * length // width - 1)
        if last < start or first > stop:
            bar.append(" ")
            continue
        low, high = (
            position // report.cell_width for position in (max(first, start), min(last, stop))
        )
        busy = track.busy >> low & (1 << (high - low + 1)) - 1
        bar.append(glyphs.busy if busy else glyphs.idle)
    return "".join(bar)
