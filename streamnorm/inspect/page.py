"""A report rendered as lines of text, with the timeline of its blocks.

#  kind       name         chars  bytes   0 s        0.2 s      0.4 s      0.6 s
0  tool call  get_weather     15     15  │   ██████──────███───███───██████         │
1  tool call  get_time        22     22  │         ██████───███───███─────────███   │

Each column of a bar stands for as many milliseconds, or as many events.

Lines hold printable characters only, whatever the stream holds, and none is wider than the
requested width.
"""

from __future__ import annotations

import textwrap
from typing import Any, Literal
from unicodedata import east_asian_width

from msgspec import Struct

from streamnorm._core.codec.framing import SSE
from streamnorm._core.events import (
    Completed,
    Failed,
    MessageStop,
    Outcome,
    StreamError,
    Truncated,
    Usage,
)
from streamnorm.inspect.report import Report, Timing
from streamnorm.inspect.summary import Track
from streamnorm.sse import Frame

MIN_WIDTH = 80
"""Columns that the widest table of blocks needs."""

_GAP = "  "
_MAX_NAME_COLUMNS = 24
_MIN_BAR_COLUMNS = 10
_MIN_TICK_COLUMNS = 9  # one more than the longest label

BOX_CHARACTERS = "█─│…×"
"""Characters that an encoding must have for lines that are not ASCII."""

_LABEL_COLUMNS = 10
_FIELD_LINES = 4
_MAX_VIOLATIONS = 10

_MAX_REPEATED_CHARS = 4096
_MIN_REPEATED_CHARS = 20


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


class Style(Struct, frozen=True, kw_only=True):
    """How a page looks.

    Attributes:
        width: Columns, `MIN_WIDTH` or more.
        glyphs: Characters to write with.
        bold: Whether to print labels in bold, by ANSI escape sequences.
    """

    width: int = 100
    glyphs: Glyphs = BOX
    bold: bool = False


def render(report: Report, name: str, style: Style = Style()) -> list[str]:  # noqa: B008 - frozen
    """Return a report as lines.

    Args:
        report: The report.
        name: Name of the stream.
        style: How the page looks.
    """
    glyphs = style.glyphs
    page = _Page(style.width, glyphs, bold=style.bold)
    (_, sizes), *head = describe_head(report)
    page.add_field("stream", name, *sizes)
    for label, lines in head:
        page.add_field(label, *lines)
    page.add_line()
    page.add_blocks(report)
    page.add_line()
    if report.tracks:
        page.add_content(report.tracks)
        page.add_line()
    for label, lines in describe_end(report, glyphs.times):
        page.add_field(label, *lines)
    return page.lines


def describe_head(report: Report) -> list[tuple[str, list[str]]]:
    """Return the sizes and the names of a stream, as labels with their paragraphs."""
    sizes = ((report.bytes, "byte"), (report.frames, "frame"), (report.events, "event"))
    # Nearly all streams are server-sent events.
    in_framing = "" if report.framing == SSE.name else f", framing {report.framing}"
    return [
        ("size", [", ".join(format_count(count, noun) for count, noun in sizes)]),
        ("dialect", [f"{report.dialect or 'not known'}{in_framing}"]),
        ("server", [report.server or "not said"]),
        ("message", [report.id or "without id"]),
        ("model", [report.model or "not said"]),
    ]


def describe_end(report: Report, times: str = BOX.times) -> list[tuple[str, list[str]]]:
    """Return the times, the end and the defects of a stream, as labels with their paragraphs.

    Args:
        report: The report.
        times: Multiplication sign after a count.
    """
    notes = [f"{note.kind} in {note.where}, {note.count:,} {times}" for note in report.notes]
    return [
        ("times", _describe_times(report.timing)),
        ("usage", [_describe_usage(report.usage)]),
        ("stop", _describe_stops(report.stops)),
        ("outcome", [_describe_outcome(report.outcome)]),
        *([] if report.state is None else [("state", [report.state])]),
        ("losses", _describe_losses(report, times)),
        ("validity", _describe_violations(report)),
        ("notes", notes or ["none"]),
    ]


class _Page:
    """Lines of printable text, none wider than the page."""

    def __init__(self, width: int, glyphs: Glyphs, *, bold: bool) -> None:
        self.lines: list[str] = []
        self._width = width
        self._glyphs = glyphs
        self._bold = bold

    def add_line(self, text: str = "", *, label: str = "") -> None:
        """Add a line; unprintable characters are escaped."""
        text = escape_unprintable(text, ascii=self._glyphs.ascii)
        if label:
            gap = " " * (_LABEL_COLUMNS - len(label))
            label = f"\x1b[1m{label}\x1b[0m" if self._bold else label
            text = f"{label}{gap}{text}"
        self.lines.append(text.rstrip())

    def add_field(self, label: str, *paragraphs: str) -> None:
        """Add paragraphs to the right of a label, each of a few lines at most."""
        room = self._width - _LABEL_COLUMNS
        for paragraph in paragraphs:
            text = self._glyphs.fit(paragraph, _FIELD_LINES * room)
            # textwrap counts characters, and some take two columns.
            wrap_at = room if count_columns(text) == len(text) else room // 2
            for line in textwrap.wrap(text, wrap_at, break_on_hyphens=False) or [""]:
                self.add_line(line if label else " " * _LABEL_COLUMNS + line, label=label)
                label = ""

    def add_blocks(self, report: Report) -> None:
        """Add the timeline of the blocks."""
        if not report.tracks:
            self.add_field("blocks", "none")
            return
        course, idle = format_count(report.events, "event"), "of others"
        if report.timing is not None:
            course, idle = f"{course} over {_format_seconds(report.timing.end_ms)}", "no event"
        legend = (
            f"{len(report.tracks):,} in {course}: {self._glyphs.busy} of the block, "
            f"{self._glyphs.idle} {idle} while it is open"
        )
        if any(track.stop is None for track in report.tracks):
            legend += f", {self._glyphs.torn} never closed"
        self.add_field("blocks", legend)
        for line in draw_timeline(report, self._width, self._glyphs):
            self.add_line(line)

    def add_content(self, tracks: tuple[Track, ...]) -> None:
        """Add the first characters and the facts of each block."""
        self.add_line(label="content")
        digits = len(str(len(tracks) - 1))
        margin = " " * (digits + 4)
        room = self._width - len(margin)
        for number, track in enumerate(tracks):
            head = self._glyphs.fit(track.head, room) or "(empty)"
            self.add_line(f"  {number:>{digits}}  {head}")
            if facts := describe_track(track):
                self.add_line(margin + self._glyphs.fit(facts, room))


def describe_track(track: Track) -> str:
    """Return the defects, citations, signature and id of a block, as text."""
    facts = [track.problem] if track.problem else []
    if track.stop is None:
        facts.append("never closed")
    if track.citations:
        facts.append(format_count(track.citations, "citation"))
    if track.signature_chars is not None:
        facts.append(f"signature of {format_count(track.signature_chars, 'character')}")
    if track.issuer is not None:
        facts.append(f"issuer {track.issuer}")
    if track.id:
        facts.append(f"id {track.id}")
    return ", ".join(facts)


def _describe_times(timing: Timing | None) -> list[str]:
    if timing is None:
        return ["not recorded"]
    moments = (
        ("first bytes", timing.first_byte_ms),
        ("first event", timing.first_event_ms),
        ("first text", timing.first_text_ms),
        ("end", timing.end_ms),
    )
    lines = [
        ", ".join(f"{what} after {_format_seconds(ms)}" for what, ms in moments if ms is not None)
    ]
    if timing.tokens_per_s is not None:
        lines.append(f"{timing.tokens_per_s:,.1f} output tokens a second of content")
    if timing.gaps:
        gaps = [f"{_format_seconds(gap.ms)} before frame {gap.frame:,}" for gap in timing.gaps]
        lines.append(f"longest gaps {', '.join(gaps)}")
    return lines


def _format_seconds(ms: int) -> str:
    return f"{ms / 1000:,.3f} s"


def _describe_violations(report: Report) -> list[str]:
    if report.unchecked:
        return [f"not checked: {report.unchecked}"]
    shown = report.violations[:_MAX_VIOLATIONS]
    lines = [f"frame {each.position:,}: {each.message}" for each in shown]
    more = len(report.violations) - len(shown)
    return [*lines, f"and {more:,} more"] if more else lines or ["no violations"]


def format_count(count: int, noun: str) -> str:
    """Return a count with its noun: `1 frame`, `2,000 frames`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _describe_usage(usage: Usage) -> str:
    into = (("from cache", usage.cache_read_tokens), ("to cache", usage.cache_write_tokens))
    out = (("reasoning", usage.reasoning_tokens),)
    return (
        f"{_describe_tokens('input', usage.input_tokens, into)}, "
        f"{_describe_tokens('output', usage.output_tokens, out)}"
    )


def _describe_tokens(
    name: str, total: int | None, parts: tuple[tuple[str, int | None], ...]
) -> str:
    said = [f"{count:,} {what}" for what, count in parts if count is not None]
    shown = "not said" if total is None else f"{total:,}"
    return f"{name} {shown} ({', '.join(said)})" if said else f"{name} {shown}"


def _describe_stops(stops: tuple[MessageStop, ...]) -> list[str]:
    several = any(stop.choice for stop in stops)
    return [
        (f"choice {stop.choice}: " if several else "")
        + stop.reason
        + (f" ({stop.raw_reason})" if stop.raw_reason is not None else "")
        + (f", sequence {stop.stop_sequence!r}" if stop.stop_sequence is not None else "")
        for stop in stops
    ] or ["none"]


def _describe_outcome(outcome: Outcome | None) -> str:
    match outcome:
        case Completed(lenient=lenient):
            return f"completed, forgiven: {', '.join(lenient)}" if lenient else "completed"
        case Failed(StreamError("upstream", message, code, status, retryable)):
            # Some providers' code is the status itself.
            known = list(dict.fromkeys(str(part) for part in (code, status) if part is not None))
            known += ["retryable"] if retryable else []
            about = f" ({', '.join(known)})" if known else ""
            return f"failed, the provider reported an error{about}: {message}"
        case Failed(error):
            return f"failed, {error.kind.replace('_', ' ')}: {error.message}"
        case Truncated(error):
            return f"{error.kind}: {error.message}"
        case _:
            return "still open"


def _describe_losses(report: Report, times: str) -> list[str]:
    lines: list[str] = []
    for target, losses in report.losses.items():
        lines += [
            f"{target}: {loss.feature} in {loss.where}, {loss.count:,} {times} {loss.detail}"
            for loss in losses
        ] or [f"{target}: none"]
    return lines


class FrameLines:
    """The frames of one stream as lines of text.

    Frames repeat their ids and names: a line leaves out the start of the data that equals that
    of the frame before.

    Args:
        style: How the lines look.
    """

    def __init__(self, style: Style) -> None:
        self._style = style
        self._before = ""  # the start of the data of the frame before

    def format(self, number: int, frame: Frame, at_ms: int | None) -> str:
        """Return the number of a frame, its time, its event type and its data.

        Args:
            number: Number of the frame, from 0, as violations name it.
            frame: The next frame.
            at_ms: The arrival since the request; None if it is unknown.
        """
        glyphs, width = self._style.glyphs, self._style.width
        line = f"{number:>6}  "
        if at_ms is not None:
            line += f"{at_ms / 1000:>8.3f} s  "
        if frame.event != "message":
            line += f"{glyphs.fit(frame.event, width // 3)}  "
        start = self._skip_repeated(frame.data)
        if start:
            line += glyphs.more
        return line + glyphs.fit(frame.data[start:], width - count_columns(line))

    def _skip_repeated(self, data: str) -> int:
        """Return where the part of the data starts that differs, behind a comma."""
        before, self._before = self._before, data[:_MAX_REPEATED_CHARS]
        pairs = enumerate(zip(before, self._before, strict=False))
        equal = next((at for at, (one, other) in pairs if one != other), len(before))
        start = data.rfind(",", 0, equal) + 1
        return start if start >= _MIN_REPEATED_CHARS else 0


def describe_frame(number: int, frame: Frame, at_ms: int | None) -> dict[str, Any]:
    """Return a frame as JSON fields, with its whole data."""
    time = {} if at_ms is None else {"ms": at_ms}
    return {"frame": number, **time, "event": frame.event, "data": frame.data}
