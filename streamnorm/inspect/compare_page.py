"""The differences of two streams, rendered as lines of text."""

from __future__ import annotations

from streamnorm.inspect.compare import Comparison, Difference, FieldDifference, Place
from streamnorm.inspect.page import (
    Line,
    Page,
    Style,
    describe_head,
    describe_outcome,
    format_count,
    judge_outcome,
)
from streamnorm.inspect.report import Report

_MAX_DIFFERENCES = 20


def render_comparison(
    found: Comparison, names: tuple[str, str], reports: tuple[Report, Report], style: Style
) -> list[Line]:
    """Return the differences of two streams as lines.

    Args:
        found: The differences.
        names: Names of the streams.
        reports: Their reports.
        style: How the page looks.
    """
    page = Page(style.width, style.glyphs)
    for label, name, report in zip(("a", "b"), names, reports, strict=True):
        (_, [sizes]), *_ = describe_head(report)
        page.add_field(label, name, f"{sizes} of {report.dialect or 'no known dialect'}")
        page.add_field("", describe_outcome(report.outcome), role=judge_outcome(report.outcome))
    page.add_line()
    page.add_field("compared", _count(found), role="doubtful" if found.differs else "good")
    shown = found.differences[:_MAX_DIFFERENCES]
    for number, difference in enumerate(shown):
        page.add_field("" if number else "differ", _describe(difference))
        for field in difference.fields:
            page.add_field("", f"  {_describe_field(field)}", role="quiet")
    if more := found.changed + found.only_a + found.only_b - len(shown):
        page.add_field("", f"and {more:,} more")
    return page.lines


def _count(found: Comparison) -> str:
    total = found.equal + found.changed + found.only_a + found.only_b
    count = format_count(total, "event")
    if found.compared == "messages":
        count = f"messages of two dialects, {format_count(total, 'part')}"
    if not found.differs:
        return f"{count}, all equal"
    counts = (
        (found.equal, "equal"),
        (found.changed, "changed"),
        (found.only_a, "only in a"),
        (found.only_b, "only in b"),
    )
    return f"{count}: {', '.join(f'{count:,} {what}' for count, what in counts if count)}"


def _describe(difference: Difference) -> str:
    what = difference.event
    if difference.block is not None:
        what += f" of block {difference.block:,}"
    places = [_describe_place(each) for each in (difference.a, difference.b) if each is not None]
    if len(places) == 2:
        return f"{' and '.join(places)}: {what}"
    return f"{places[0]} only in {'a' if difference.b is None else 'b'}: {what}"


def _describe_place(place: Place) -> str:
    if place.frame is None:
        return f"part {place.number:,}"
    return f"event {place.number:,} (frame {place.frame:,})"


def _describe_field(field: FieldDifference) -> str:
    return f"{field.path}: {_or_missing(field.a)} in a, {_or_missing(field.b)} in b"


def _or_missing(value: str | None) -> str:
    return "missing" if value is None else value
