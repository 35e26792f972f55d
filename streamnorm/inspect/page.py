"""The report of a stream as lines of text.

Lines hold printable characters only, whatever the stream holds, and none is wider than the
requested width.  They are cut into spans by what their text means: a terminal colours them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

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
from streamnorm._core.text import common_prefix_size
from streamnorm.inspect.printable import BOX, Glyphs, count_columns, escape_unprintable, rule
from streamnorm.inspect.report import Hold, Rate, Report, Timing
from streamnorm.inspect.summary import Track
from streamnorm.inspect.timeline import count_open_at_once, draw_timeline, holds_of_one_target
from streamnorm.sse import Frame

MIN_WIDTH = 80
"""Columns that the widest table of blocks needs."""

_LABEL_COLUMNS = 10
_FIELD_LINES = 4
_MAX_VIOLATIONS = 10
_MAX_HOLDS = 10

_MAX_REPEATED_CHARS = 4096
_MIN_REPEATED_CHARS = 20


class Style(Struct, frozen=True, kw_only=True):
    """Style of a page of text: width, characters and bold labels.

    Attributes:
        width: Columns, `MIN_WIDTH` or more.
        glyphs: Characters to write with.
        bold: Whether to print labels in bold, by ANSI escape sequences.
    """

    width: int = 100
    glyphs: Glyphs = BOX
    bold: bool = False


Role: TypeAlias = Literal["", "label", "bar", "waits", "quiet", "good", "bad", "doubtful"]
"""What a span means; "" for plain text."""

Line: TypeAlias = list[tuple[str, Role]]
"""The spans of a line: printable text, each with its role."""


def render(report: Report, name: str, style: Style = Style()) -> list[str]:  # noqa: B008 - frozen
    """Return a report as lines.

    Args:
        report: The report.
        name: Name of the stream.
        style: How the page looks.
    """
    return join_spans(render_page(report, name, style), bold=style.bold)


def join_spans(lines: Iterable[Line], *, bold: bool = False) -> list[str]:
    """Return lines of spans as strings.

    Args:
        lines: The lines.
        bold: Whether labels are in bold, by ANSI escape sequences.
    """
    return [
        "".join([f"\x1b[1m{t}\x1b[0m" if bold and role == "label" else t for t, role in line])
        for line in lines
    ]


def render_page(report: Report, name: str, style: Style) -> list[Line]:
    """Return a report as lines, each a list of styled spans.

    Args:
        report: The report.
        name: Name of the stream.
        style: How the page looks.
    """
    glyphs = style.glyphs
    page = Page(style.width, glyphs)
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
    roles = _judge(report)
    for label, lines in describe_end(report, glyphs.times):
        page.add_field(label, *lines, role=roles.get(label, ""))
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
    waits = _describe_holds(report.holds)
    return [
        ("times", _describe_times(report.timing, report.rate)),
        ("usage", [_describe_usage(report.usage)]),
        ("stop", _describe_stops(report.stops)),
        ("outcome", [describe_outcome(report.outcome)]),
        *([] if report.state is None else [("state", [report.state])]),
        *([("waits", waits)] if waits else []),
        ("losses", _describe_losses(report, times)),
        ("validity", _describe_violations(report)),
        ("notes", notes or ["none"]),
    ]


def _judge(report: Report) -> dict[str, Role]:
    """Return the role, such as `good` or `doubtful`, of each field that judges the stream."""
    is_valid = not (report.violations or report.unchecked)
    return {
        "outcome": judge_outcome(report.outcome),
        "losses": "doubtful" if any(report.losses.values()) else "",
        "validity": "good" if is_valid else "doubtful",
    }


class Page:
    """Builds the lines of a page, none wider than the page."""

    def __init__(self, width: int, glyphs: Glyphs) -> None:
        self.lines: list[Line] = []
        self._width = width
        self._glyphs = glyphs

    def add_line(self, text: str = "", *, label: str = "", role: Role = "") -> None:
        """Add a line; escape unprintable characters."""
        text = escape_unprintable(text, ascii=self._glyphs.ascii).rstrip()
        if not label:
            self.lines.append([(text, role)])
            return
        line: Line = [(label, "label")]
        if text:
            line.extend([(" " * (_LABEL_COLUMNS - len(label)), ""), (text, role)])
        self.lines.append(line)

    def add_field(self, label: str, *paragraphs: str, role: Role = "") -> None:
        """Add a label, and paragraphs of at most a few lines to the right of it."""
        room = self._width - _LABEL_COLUMNS
        for paragraph in paragraphs:
            text = self._glyphs.fit(paragraph, _FIELD_LINES * room)
            # textwrap counts characters, and some take two columns.
            wrap_at = room if count_columns(text) == len(text) else room // 2
            for line in textwrap.wrap(text, wrap_at, break_on_hyphens=False) or [""]:
                text = line if label else " " * _LABEL_COLUMNS + line
                self.add_line(text, label=label, role=role)
                label = ""

    def add_blocks(self, report: Report) -> None:
        """Add the timeline of the blocks."""
        if not report.tracks:
            self.add_field("blocks", "none")
            return
        course, idle = format_count(report.events, "event"), "of others"
        if report.timing is not None:
            course, idle = f"{course} over {_format_seconds(report.timing.end_ms)}", "no event"
        at_once = count_open_at_once(report.tracks)
        together = f", {at_once:,} at once" if at_once > 1 else ""
        legend = (
            f"{len(report.tracks):,} in {course}{together}: {self._glyphs.busy} of the block, "
            f"{self._glyphs.idle} {idle} while it is open"
        )
        if any(track.stop is None for track in report.tracks):
            legend += f", {self._glyphs.torn} never closed"
        if holds_of_one_target(report):
            legend += f", {self._glyphs.waits} waiting"
        self.add_field("blocks", legend)
        head, *rows = draw_timeline(report, self._width, self._glyphs)
        self.add_line(head.description + head.bar, role="quiet")
        for row in rows:
            of_text: Role = "quiet" if row.waits else ""
            of_bar: Role = "waits" if row.waits else "bar"
            self.lines.append([(row.description, of_text), (row.bar, of_bar)])

    def add_content(self, tracks: tuple[Track, ...]) -> None:
        """Add the first characters and the facts of each block."""
        self.add_line(label="content")
        digits = len(str(len(tracks) - 1))
        margin = " " * (digits + 4)
        room = self._width - len(margin)
        for number, track in enumerate(tracks):
            head = self._glyphs.fit(track.head, room) or "(empty)"
            self.add_line(f"  {number:>{digits}}  {head}")
            if track.cuts & track.cuts - 1:  # more than one delta
                marks = rule(track.head, track.cuts, count_columns(head), self._glyphs)
                self.add_line(margin + marks, role="quiet")
            if facts := describe_track(track):
                role: Role = "bad" if track.problem or track.stop is None else "quiet"
                self.add_line(margin + self._glyphs.fit(facts, room), role=role)


def judge_outcome(outcome: Outcome | None) -> Role:
    """Return the role of an outcome: `good`, `bad`, or "" while the stream is open."""
    match outcome:
        case Completed():
            return "good"
        case Failed() | Truncated():
            return "bad"
        case _:
            return ""


def describe_track(track: Track) -> str:
    """Return the defects, citations, signature and id of a block, as text."""
    facts = [track.problem] if track.problem else []
    if track.cuts & track.cuts - 1:
        facts.append(f"in {format_count(track.deltas, 'delta')}")
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


def _describe_times(timing: Timing | None, rate: Rate | None) -> list[str]:
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
    if rate is not None:
        lines.append(
            f"{rate.events_per_s:,.1f} events, {rate.bytes_per_s:,.0f} bytes and"
            f" {rate.chars_per_s:,.1f} characters of content a second"
        )
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


def describe_outcome(outcome: Outcome | None) -> str:
    """Return how a stream ended, as text."""
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


def _describe_holds(holds: dict[str, tuple[Hold, ...]]) -> list[str]:
    """Return the held deltas as text, with the targets that hold them."""
    targets: dict[str, list[str]] = {}
    for target, found in holds.items():
        shown = [_describe_hold(hold) for hold in found[:_MAX_HOLDS]]
        if more := len(found) - len(shown):
            shown.append(f"and {more:,} more")
        for text in shown:
            targets.setdefault(text, []).append(target)
    return [f"{', '.join(names)}: {text}" for text, names in targets.items()]


def _describe_hold(hold: Hold) -> str:
    behind = "its own end" if hold.behind == hold.block else f"block {hold.behind:,}"
    until = "the end" if hold.stop is None else f"{hold.stop:,}"
    if hold.stop_ms is not None and hold.start_ms is not None:
        until += f", {_format_seconds(hold.stop_ms - hold.start_ms)}"
    size = f"{format_count(hold.deltas, 'delta')} of {format_count(hold.chars, 'character')}"
    never = ", never written" if hold.stop is None else ""
    return f"block {hold.block:,} for {behind}, events {hold.start:,} to {until}, {size}{never}"


class FrameLines:
    """Formats the frames of one stream as lines of text.

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
        """Return the length of the prefix that `data` shares with the previous frame's data."""
        before, self._before = self._before, data[:_MAX_REPEATED_CHARS]
        equal = common_prefix_size(before, self._before)
        start = data.rfind(",", 0, equal) + 1
        return start if start >= _MIN_REPEATED_CHARS else 0


def describe_frame(number: int, frame: Frame, at_ms: int | None) -> dict[str, Any]:
    """Return a frame as JSON fields, with its whole data."""
    time = {} if at_ms is None else {"ms": at_ms}
    return {"frame": number, **time, "event": frame.event, "data": frame.data}
