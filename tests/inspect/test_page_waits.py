"""The page of a stream whose blocks overlap: what waits, and arguments as they grew."""

from __future__ import annotations

import pytest
from msgspec import structs

from streamnorm import Completed, Failed, StreamError, Truncated, Usage
from streamnorm.inspect.page import Style, judge_outcome, render, render_page
from streamnorm.inspect.printable import ASCII, BOX, rule
from streamnorm.inspect.report import Hold, Rate, Report, Timing
from streamnorm.inspect.summary import Track
from streamnorm.inspect.timeline import count_open_at_once, draw_timeline

HOLD = Hold(block=1, behind=0, deltas=3, chars=22, start=4, stop=7)
TIMING = Timing(
    first_byte_ms=0,
    first_event_ms=0,
    first_text_ms=None,
    end_ms=999,
    gaps=(),
    tokens_per_s=None,
)


def call(start: int, stop: int | None, **fields: object) -> Track:
    return structs.replace(Track("call", "f", "", 0, start, stop, 0, 4, 4, '{"a"}'), **fields)


FIRST, SECOND = call(1, 7), call(2, 9)


def lines_of(report: Report, label: str) -> list[str]:
    """Return the lines of a field, without the margin."""
    lines = [line for line in render(report, "x") if line]
    start = next(n for n, line in enumerate(lines) if line.startswith(label))
    more = [*lines[start + 1 :], "end"]
    stop = next(n for n, line in enumerate(more) if not line.startswith(" "))
    return [line[10:] for line in lines[start : start + 1 + stop]]


# The bars


def hold_rows(*holds: Hold, timing: Timing | None = None, targets: int = 1) -> list[str]:
    """Return the rows of what waits; of 83 columns the bars have 50 and their edges two."""
    report = Report(
        events=10,
        tracks=(FIRST, SECOND),
        timing=timing,
        holds={str(n): holds for n in range(targets)},
    )
    rows = draw_timeline(report, 83, BOX)
    return [row.description + row.bar for row in rows if row.waits]


def test_wait_is_drawn_below_its_block() -> None:
    assert hold_rows(HOLD) == [
        "                  waits for 0  │" + " " * 20 + "═" * 20 + " " * 10 + "│"
    ]


def test_waits_of_one_block_share_a_row() -> None:
    later = structs.replace(HOLD, behind=2, start=9, stop=9)
    [row] = hold_rows(HOLD, later)
    assert row == "               waits for 0, 2  │" + " " * 20 + "═" * 20 + "     " + "═" * 5 + "│"


def test_wait_for_the_own_end_names_no_block() -> None:
    [row] = hold_rows(structs.replace(HOLD, behind=1))
    assert row.startswith("            waits for its end  │")


def test_wait_that_never_ended_lasts_to_the_end() -> None:
    [row] = hold_rows(structs.replace(HOLD, stop=None))
    assert row.endswith("│" + " " * 20 + "═" * 30 + ">")


def test_wait_of_a_timed_stream_is_drawn_at_its_times() -> None:
    [row] = hold_rows(structs.replace(HOLD, start_ms=200, stop_ms=419), timing=TIMING)
    assert row.endswith("│" + " " * 10 + "═" * 11 + " " * 29 + "│")


@pytest.mark.parametrize("targets", [0, 2])
def test_waits_are_not_drawn_for_several_targets(targets: int) -> None:
    assert hold_rows(HOLD, targets=targets) == []


def test_many_waits_are_cut_to_the_table() -> None:
    holds = [structs.replace(HOLD, behind=1000 + n) for n in range(9)]
    [row] = hold_rows(*holds)
    assert row.startswith("  waits for 1000, 1001, 1002…  │")


@pytest.mark.parametrize(
    ("tracks", "count"),
    [
        ((), 0),
        ((call(1, 3), call(3, 5)), 1),
        ((call(1, 3), call(2, 5), call(4, 6)), 2),
        ((call(1, None), call(2, 5), call(3, None)), 3),
    ],
)
def test_blocks_that_are_open_at_once_are_counted(tracks: tuple[Track, ...], count: int) -> None:
    assert count_open_at_once(tracks) == count


def test_legend_names_overlaps_and_waits() -> None:
    report = Report(events=10, tracks=(FIRST, SECOND), holds={"anthropic": (HOLD,)})
    assert lines_of(report, "blocks")[0] == (
        "2 in 10 events, 2 at once: █ of the block, ─ of others while it is open, ═ waiting"
    )


# The field


def test_waits_are_named_with_the_targets_for_which_they_are() -> None:
    own = Hold(block=0, behind=0, deltas=1, chars=1, start=2, stop=3)
    report = Report(
        holds={"anthropic": (HOLD,), "gemini": (own, HOLD), "openai_chat": ()}, timing=TIMING
    )
    assert lines_of(report, "waits") == [
        "anthropic, gemini: block 1 for block 0, events 4 to 7, 3 deltas of 22 characters",
        "gemini: block 0 for its own end, events 2 to 3, 1 delta of 1 character",
    ]


def test_wait_has_its_duration_or_was_never_written() -> None:
    timed = structs.replace(HOLD, start_ms=1000, stop_ms=1310)
    never = structs.replace(HOLD, start_ms=1000, stop=None)
    assert lines_of(Report(holds={"anthropic": (timed, never)}), "waits") == [
        "anthropic: block 1 for block 0, events 4 to 7, 0.310 s, 3 deltas of 22 characters",
        "anthropic: block 1 for block 0, events 4 to the end, 3 deltas of 22 characters, never",
        "written",
    ]


def test_waits_are_shown_up_to_ten() -> None:
    holds = tuple(structs.replace(HOLD, block=n) for n in range(1, 13))
    lines = lines_of(Report(holds={"anthropic": holds}), "waits")
    assert (len(lines), lines[10]) == (11, "anthropic: and 2 more")


def test_stream_without_waits_has_no_such_field() -> None:
    assert not any(line.startswith("waits") for line in render(Report(holds={"a": ()}), "x"))


# Arguments


def test_arguments_have_a_mark_where_each_delta_begins() -> None:
    report = Report(events=4, tracks=(call(1, 2, cuts=0b10101, deltas=3, id="c1"),))
    lines = render(report, "x")
    assert lines[lines.index("content") + 1 :][:3] == [
        '  0  {"a"}',
        "     ┴─┴─┴",
        "     in 3 deltas, id c1",
    ]


def test_arguments_of_one_delta_have_no_marks() -> None:
    lines = render(Report(events=4, tracks=(call(1, 2, cuts=1, deltas=1),)), "x")
    assert lines[lines.index("content") + 2] == ""


def test_marks_stand_below_wide_and_escaped_characters() -> None:
    #            a  今  ESC (4 columns)  b
    assert rule("a今\x1bb", 0b1101, 8, BOX) == "┴──┴───┴"
    assert rule("abc", 0b111, 2, ASCII) == "++"


# Rates and roles


def test_rates_are_shown_where_they_are_known() -> None:
    rate = Rate(events_per_s=12.34, bytes_per_s=4567.8, chars_per_s=89.1)
    assert lines_of(Report(timing=TIMING, rate=rate), "times")[1] == (
        "12.3 events, 4,568 bytes and 89.1 characters of content a second"
    )


@pytest.mark.parametrize(
    ("outcome", "role"),
    [
        (Completed("end_turn", Usage()), "good"),
        (Failed(StreamError("upstream", "no")), "bad"),
        (Truncated(StreamError("truncated", "cut")), "bad"),
        (None, ""),
    ],
)
def test_outcome_has_the_role_of_what_it_means(outcome: Completed | None, role: str) -> None:
    assert judge_outcome(outcome) == role
    lines = render_page(Report(outcome=outcome), "x", Style())
    [line] = [line for line in lines if line[0] == ("outcome", "label")]
    assert line[-1][1] == role


def test_spans_of_a_bar_are_apart_from_its_description() -> None:
    report = Report(events=10, tracks=(FIRST, SECOND), holds={"anthropic": (HOLD,)})
    rows = [line for line in render_page(report, "x", Style()) if len(line) == 2]
    assert [line[1][1] for line in rows if line[1][0].startswith("│")] == ["bar", "bar", "waits"]
