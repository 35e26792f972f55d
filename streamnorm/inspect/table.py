"""Table of several streams, one row each."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from streamnorm._core.codec import MAX_PROBLEMS
from streamnorm._core.events import Completed, Failed, Outcome, Truncated
from streamnorm.inspect.page import Line, Role, Style, format_count, judge_outcome
from streamnorm.inspect.printable import count_columns, escape_unprintable
from streamnorm.inspect.report import Report

_GAP = "  "
_MIN_NAME_COLUMNS = 16
_UNREADABLE = "unreadable"


class _Row(Struct, frozen=True):
    """The table row of one stream.

    Attributes:
        name: Name of the stream, printable.
        cells: Its cells but the name, by their head; the reason alone if it cannot be read.
        outcome: Its outcome, as text.
        role: What its outcome means.
        reason: Why the file cannot be read; empty if it can.
    """

    name: str
    cells: dict[str, str]
    outcome: str
    role: Role
    reason: str = ""


class Table:
    """A table of several streams.

    Args:
        style: How the table looks.
    """

    def __init__(self, style: Style) -> None:
        self._style = style
        self._rows: list[_Row] = []

    def add(self, name: str, report: Report) -> None:
        """Add the row of a stream.

        Args:
            name: Name of the stream.
            report: Its report.
        """
        outcome = _name_outcome(report.outcome)
        self._rows.append(
            _Row(
                self._escape(name),
                _describe(report, outcome),
                outcome,
                judge_outcome(report.outcome),
            )
        )

    def add_unreadable(self, name: str, reason: str) -> None:
        """Add a row for a file that cannot be read.

        Args:
            name: Name of the file.
            reason: Why it cannot be read.
        """
        self._rows.append(_Row(self._escape(name), {}, _UNREADABLE, "bad", reason))

    def render(self) -> list[Line]:
        """Return the table's head, its rows, and a line with the number of streams.

        The times are left out if no stream has any.
        """
        heads = list(dict.fromkeys(head for row in self._rows for head in row.cells))
        heads = [
            h for h in heads if any(row.cells.get(h, "") not in ("", "-") for row in self._rows)
        ]
        widths = {
            head: max(len(head), *(len(row.cells.get(head, "")) for row in self._rows))
            for head in heads
        }
        room = self._style.width - sum(widths.values()) - len(_GAP) * len(widths)
        names = max([len("file"), *(count_columns(row.name) for row in self._rows)])
        columns = min(max(room, _MIN_NAME_COLUMNS), names)
        lines: list[Line] = []
        if heads:
            shown = [
                head.ljust(w) if _is_text(head) else head.rjust(w) for head, w in widths.items()
            ]
            lines.append([(_GAP.join(["file".ljust(columns), *shown]).rstrip(), "label")])
        lines += [self._render_row(row, columns, widths) for row in self._rows]
        return [*lines, [("", "")], [(self._count(), "")]]

    def _escape(self, name: str) -> str:
        return escape_unprintable(name, ascii=self._style.glyphs.ascii)

    def _render_row(self, row: _Row, columns: int, widths: dict[str, int]) -> Line:
        glyphs = self._style.glyphs
        name = _fit_end(row.name, columns, glyphs.more)
        name += " " * (columns - count_columns(name))
        if row.reason:
            room = self._style.width - columns - len(_GAP)
            return [(name + _GAP, ""), (glyphs.fit(row.reason, room), row.role)]
        line: Line = [(name, "")]
        for head, width in widths.items():
            cell = row.cells.get(head, "-")
            padded = cell.ljust(width) if _is_text(head) else cell.rjust(width)
            line.extend([(_GAP, ""), (padded, row.role if head == "outcome" else "")])
        last, role = line[-1]
        return [*line[:-1], (last.rstrip(), role)]

    def _count(self) -> str:
        counts = Counter(row.outcome for row in self._rows)
        shown = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(counts.items()))
        return f"{format_count(len(self._rows), 'stream')}: {shown}"


def _describe(report: Report, outcome: str) -> dict[str, str]:
    """Return the cells of a table row, by the heads of the columns."""
    timing = report.timing
    first_text_ms = None if timing is None else timing.first_text_ms
    violations = f"{len(report.violations):,}"
    if len(report.violations) > MAX_PROBLEMS:
        violations = f"{MAX_PROBLEMS:,}+"
    cells = {
        "dialect": report.dialect or "-",
        "events": f"{report.events:,}",
        "blocks": f"{len(report.tracks):,}",
        "first text": _format_ms(first_text_ms),
        "duration": _format_ms(None if timing is None else timing.end_ms),
        "outcome": outcome,
        "violations": "-" if report.unchecked else violations,
    }
    if len(report.losses) == 1:
        [losses] = report.losses.values()
        cells["losses"] = f"{sum(loss.count for loss in losses):,}"
    elif report.losses:
        cells["lossy"] = f"{sum(bool(losses) for losses in report.losses.values())}"
    return cells


def _is_text(head: str) -> bool:
    return head in ("dialect", "outcome")


def _format_ms(ms: int | None) -> str:
    return "-" if ms is None else f"{ms / 1000:,.3f} s"


def _name_outcome(outcome: Outcome | None) -> str:
    match outcome:
        case Completed():
            return "completed"
        case Failed(error) | Truncated(error):
            return "error" if error.kind == "upstream" else error.kind.replace("_", " ")
        case _:
            return "open"


def _fit_end(text: str, room: int, more: str) -> str:
    """Return text cut at its start to at most `room` columns, as paths differ at their end."""
    if count_columns(text) <= room:
        return text
    start, used = len(text), len(more)
    while (used := used + count_columns(text[start - 1])) <= room:
        start -= 1
    return more + text[start:]
