"""Several streams as a table: its columns, its rows, and files that cannot be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnorm import Completed, Failed, Loss, Outcome, StreamError, Truncated, Usage
from streamnorm.inspect.page import Style, join_spans
from streamnorm.inspect.printable import ASCII, count_columns
from streamnorm.inspect.report import Report, Timing
from streamnorm.inspect.summary import Track
from streamnorm.inspect.table import Table
from streamnorm.validation import Violation

DONE = Completed("end_turn", Usage())
BLOCK = Track("text", "", "", 0, 1, 2)


def report(outcome: Outcome | None = DONE, end_ms: int | None = None, **fields: object) -> Report:
    timing = None
    if end_ms is not None:
        timing = Timing(
            first_byte_ms=1,
            first_event_ms=1,
            first_text_ms=12,
            end_ms=end_ms,
            gaps=(),
            tokens_per_s=None,
        )
    return (
        Report(dialect="openai_chat", events=1200, tracks=(BLOCK,), outcome=outcome, timing=timing)
        if not fields
        else Report(outcome=outcome, timing=timing, **fields)
    )  # type: ignore[arg-type] - fields of a report


def rows(*reports: tuple[str, Report | str], style: Style = Style()) -> list[str]:  # noqa: B008 - frozen
    table = Table(style)
    for name, known in reports:
        if isinstance(known, str):
            table.add_unreadable(name, known)
        else:
            table.add(name, known)
    return join_spans(table.render())


def test_streams_are_rows_and_files_without_one_have_their_reason() -> None:
    cut = Truncated(StreamError("truncated", "cut"))
    assert rows(
        ("a.sse", report(end_ms=4500)),
        ("b/long.sse", report(cut)),
        ("c.sse", "No such file or directory"),
    ) == [
        "file        dialect      events  blocks  first text  duration  outcome    violations",
        "a.sse       openai_chat   1,200       1     0.012 s   4.500 s  completed           0",
        "b/long.sse  openai_chat   1,200       1           -         -  truncated           0",
        "c.sse       No such file or directory",
        "",
        "3 streams: 1 completed, 1 truncated, 1 unreadable",
    ]


def test_times_are_left_out_where_no_stream_has_any() -> None:
    head, row, *_ = rows(("a.sse", report()))
    assert head == "file   dialect      events  blocks  outcome    violations"
    assert row == "a.sse  openai_chat   1,200       1  completed           0"


def test_losses_are_counted_for_one_dialect_and_dialects_for_several() -> None:
    lost = (Loss("extra", "a", 2, "dropped"), Loss("extra", "b", 1, "dropped"))
    head, row, *_ = rows(("a", report(losses={"anthropic": lost}, dialect="gemini")))
    assert (head.split()[-1], row.split()[-1]) == ("losses", "3")
    several = {"anthropic": lost, "gemini": (), "openai_chat": lost}
    head, row, *_ = rows(("a", report(losses=several, dialect="gemini")))
    assert (head.split()[-1], row.split()[-1]) == ("lossy", "2")


@pytest.mark.parametrize(
    ("known", "cell"),
    [
        (report(violations=(Violation(0, "a"),) * 1001, dialect="gemini"), "1,000+"),
        (report(violations=(Violation(0, "a"),) * 2, dialect="gemini"), "2"),
        (report(unchecked="no checker", dialect="gemini"), None),
    ],
)
def test_violations_are_counted_up_to_their_bound(known: Report, cell: str | None) -> None:
    head, row, *_ = rows(("a", known))
    if cell is None:  # no stream of the table was checked
        assert "violations" not in head
    else:
        assert row.split()[-1] == cell


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (DONE, "completed"),
        (Failed(StreamError("upstream", "no")), "error"),
        (Failed(StreamError("too_large", "big")), "too large"),
        (Truncated(StreamError("stalled", "late")), "stalled"),
        (None, "open"),
    ],
)
def test_outcome_is_a_word(outcome: Outcome | None, word: str) -> None:
    assert rows(("a", report(outcome)))[-1] == f"1 stream: 1 {word}"


def test_files_that_cannot_be_read_need_no_head() -> None:
    assert rows(("a", "is empty"), ("b", "gzip data")) == [
        "a     is empty",
        "b     gzip data",
        "",
        "2 streams: 2 unreadable",
    ]


def test_long_names_are_cut_at_their_beginning() -> None:
    [_, row, *_] = rows(("x" * 200 + "/last.sse", report()), style=Style(width=80))
    assert len(row) == 80
    assert row.startswith("…xxx")
    assert "xx/last.sse  openai_chat" in row


def test_table_of_nothing_is_its_count() -> None:
    assert rows() == ["", "0 streams: "]


@given(
    st.text(st.characters(exclude_categories=()), max_size=300),
    st.integers(100, 160),
    st.booleans(),
)
def test_any_name_and_reason_are_printable_and_fit(text: str, width: int, ascii: bool) -> None:
    style = Style(width=width, glyphs=ASCII) if ascii else Style(width=width)
    for line in rows((text, report(end_ms=1)), (text, text), style=style):
        assert line.isprintable()
        assert count_columns(line) <= width
        assert line.isascii() or not ascii
