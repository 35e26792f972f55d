"""The timeline of a stream: a bar for each block, and bars for deltas that a target holds back.

#  kind       name         chars  bytes   0 s        0.2 s      0.4 s      0.6 s
0  tool call  get_weather     15     15  │   ██████──────███───███───██████         │
1  tool call  get_time        22     22  │         ██████───███───███─────────███   │
                            waits for 0  │            ══════════════════            │

Each column of a bar stands for as many milliseconds, or as many events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from streamnorm.inspect.printable import Glyphs, count_columns
from streamnorm.inspect.report import Hold, Report
from streamnorm.inspect.summary import Track

_GAP = "  "
_MAX_NAME_COLUMNS = 24
_MIN_BAR_COLUMNS = 10
_MIN_TICK_COLUMNS = 9  # one more than the longest label


class Row(Struct, frozen=True):
    """A line of the timeline.

    Attributes:
        description: What the bar is of, padded to the columns of the table.
        bar: The bar with its edges; the axis in the head line.
        waits: Whether it shows when deltas of the block above wait.
    """

    description: str
    bar: str
    waits: bool = False


def draw_timeline(report: Report, width: int, glyphs: Glyphs) -> list[Row]:
    """Return a head row, and for each block a row with its description and its bar.

    Where the report is of one target, a block whose deltas wait there has a second row.
    """
    head, *descriptions = _draw_table(report.tracks, width, glyphs)
    room = width - count_columns(head) - 2  # edges
    length = _count_positions(report)
    if length <= room:  # the same number of columns for each position
        room -= room % length
    rows = [Row(head, "" if report.timing is None else f" {_draw_axis(length, room)}")]
    holds = holds_of_one_target(report)
    for number, (text, track) in enumerate(zip(descriptions, report.tracks, strict=True)):
        end = glyphs.torn if track.stop is None else glyphs.edge
        rows.append(Row(text, f"{glyphs.edge}{_draw_bar(track, report, room, glyphs)}{end}"))
        if found := [hold for hold in holds if hold.block == number]:
            bar, end = _draw_holds(found, report, room, glyphs)
            text = glyphs.fit(_describe_holds(found), len(head) - 2 * len(_GAP))
            padded = _GAP + text.rjust(len(head) - 2 * len(_GAP)) + _GAP
            rows.append(Row(padded, f"{glyphs.edge}{bar}{end}", waits=True))
    return rows


def holds_of_one_target(report: Report) -> tuple[Hold, ...]:
    """Return the held deltas of the report's only target; () for no or several targets."""
    return next(iter(report.holds.values())) if len(report.holds) == 1 else ()


def count_open_at_once(tracks: Iterable[Track]) -> int:
    """Return the highest number of blocks that are open at the same time."""
    changes = [(track.start, 1) for track in tracks]
    changes += [(track.stop, -1) for track in tracks if track.stop is not None]
    count = most = 0
    for _, change in sorted(changes):
        count += change
        most = max(most, count)
    return most


def _describe_holds(holds: list[Hold]) -> str:
    others = dict.fromkeys(str(hold.behind) for hold in holds if hold.behind != hold.block)
    return f"waits for {', '.join(others)}" if others else "waits for its end"


def _count_positions(report: Report) -> int:
    """Return the length of the timeline: milliseconds if times are known, else events."""
    return report.events if report.timing is None else report.timing.end_ms + 1


def _draw_axis(length: int, room: int) -> str:
    """Return a time axis: labels that each begin in the column of their time."""
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
    """Return the head line and the rows without their bars, padded to the same width."""
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
    """Return a column's head and cells, padded to the same width."""
    cells = [head, *cells]
    width = max(count_columns(cell) for cell in cells)
    pads = [" " * (width - count_columns(cell)) for cell in cells]
    padded = zip(cells, pads, strict=True)
    return [cell + pad if align == "<" else pad + cell for cell, pad in padded]


def _draw_bar(track: Track, report: Report, width: int, glyphs: Glyphs) -> str:
    """Return the bar of a block, which shows when it was open and when it had events."""
    length = _count_positions(report)
    start, stop = track.start, track.stop
    if report.timing is not None:
        start, stop = track.start_ms or 0, track.stop_ms
    stop = length - 1 if stop is None else stop
    bar: list[str] = []
    for column in range(width):
        first, last = _positions_of(column, length, width)
        if last < start or first > stop:
            bar.append(" ")
            continue
        low, high = (
            position // report.cell_width for position in (max(first, start), min(last, stop))
        )
        busy = track.busy >> low & (1 << (high - low + 1)) - 1
        bar.append(glyphs.busy if busy else glyphs.idle)
    return "".join(bar)


def _draw_holds(holds: list[Hold], report: Report, width: int, glyphs: Glyphs) -> tuple[str, str]:
    """Return the bar of a block's held deltas, and the character that ends it."""
    length = _count_positions(report)
    bar = [" "] * width
    for hold in holds:
        start, stop = hold.start, hold.stop
        if report.timing is not None:
            start, stop = hold.start_ms or 0, hold.stop_ms
        stop = length - 1 if stop is None else stop
        for column in range(start * width // length, width):
            first, _ = _positions_of(column, length, width)
            if first > stop:
                break
            bar[column] = glyphs.waits
    never = any(hold.stop is None for hold in holds)
    return "".join(bar), glyphs.torn if never else glyphs.edge


def _positions_of(column: int, length: int, width: int) -> tuple[int, int]:
    """Return the first and the last position that a column of a bar covers."""
    first = column * length // width
    return first, max(first, (column + 1) * length // width - 1)
