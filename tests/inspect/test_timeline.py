"""The timeline: the bars of the blocks, and their alignment."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from streamnorm.inspect.page import MIN_WIDTH
from streamnorm.inspect.printable import ASCII, BOX, Glyphs, count_columns
from streamnorm.inspect.report import Report, Timing
from streamnorm.inspect.summary import Track
from streamnorm.inspect.timeline import draw_timeline as draw_rows


def draw_timeline(report: Report, width: int, glyphs: Glyphs) -> list[str]:
    """Return the lines of the timeline."""
    return [row.description + row.bar for row in draw_rows(report, width, glyphs)]


def bits(*events: int) -> int:
    return sum(1 << event for event in events)


def text(start: int, stop: int | None, busy: int, choice: int = 0) -> Track:
    return Track("text", "", "", choice, start, stop, busy)


def call(name: str) -> Track:
    return Track("tool call", name, "", 0, 1, 2, bits(1, 2))


def bars(*tracks: Track, events: int, cell_width: int = 1, width: int = 83) -> list[str]:
    """Return the bars with their edges.

    Of 83 columns the table of text blocks takes 31 and the edges two, which leaves 50.
    """
    report = Report(events=events, cell_width=cell_width, tracks=tracks)
    return [row[row.index("│") :] for row in draw_timeline(report, width, BOX)[1:]]


# Bars


def test_overlapping_blocks_overlap() -> None:
    assert bars(text(1, 7, bits(1, 3, 7)), text(2, 9, bits(2, 4, 9)), events=10) == [
        "│     █████─────█████───────────────█████          │",
        "│          █████─────█████────────────────────█████│",
    ]


def test_each_event_has_the_same_number_of_columns() -> None:
    assert bars(text(0, 2, bits(0, 2)), events=3) == ["│" + "█" * 16 + "─" * 16 + "█" * 16 + "│"]
    assert bars(text(20, 20, bits(20)), events=26) == ["│" + " " * 20 + "█" + " " * 5 + "│"]


def test_block_that_never_closed_is_open_to_the_end() -> None:
    assert bars(text(1, None, bits(1)), events=5) == ["│" + " " * 10 + "█" * 10 + "─" * 30 + ">"]


def test_column_is_busy_if_any_of_its_events_is() -> None:
    # Ten events in each column.
    assert bars(
        text(20, 99, bits(20, 99)), text(100, 499, bits(*range(109, 490, 10))), events=500
    ) == [
        "│" + " " * 2 + "█" + "─" * 6 + "█" + " " * 40 + "│",
        "│" + " " * 10 + "█" * 39 + "─" + "│",
    ]


def test_coarse_cells_do_not_lengthen_a_block() -> None:
    # Bit 2 stands for events 128 to 191; the block was open from 150 to 169.
    assert bars(text(150, 169, bits(2)), events=500, cell_width=64) == [
        "│" + " " * 15 + "██" + " " * 33 + "│"
    ]


@given(st.integers(1, 400), st.data())
def test_every_event_of_a_block_is_seen(events: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, events - 1))
    stop = data.draw(st.integers(start, events - 1))
    busy = data.draw(st.sets(st.integers(start, stop)))
    [bar] = bars(text(start, stop, bits(*busy)), events=events)
    cells = bar[1:-1]
    for event in range(events):
        cell = cells[((event + 1) * len(cells) - 1) // events]  # its last, if there are more
        if event in busy:
            assert cell == "█"
        elif start <= event <= stop:
            assert cell in "█─"
    assert " " not in cells.strip(" ")
    assert ("█" in cells) == bool(busy)


def test_ascii_has_bars_of_its_own() -> None:
    report = Report(events=5, tracks=(text(1, None, bits(1)),))
    [_, row] = draw_timeline(report, 83, ASCII)
    assert row.endswith("|" + " " * 10 + "#" * 10 + "-" * 30 + ">")


# The time axis


def timed(end_ms: int, *tracks: Track, cell_width: int = 1, width: int = 83) -> list[str]:
    """Return the part of each line behind the table."""
    timing = Timing(
        first_byte_ms=0,
        first_event_ms=0,
        first_text_ms=0,
        end_ms=end_ms,
        gaps=(),
        tokens_per_s=None,
    )
    report = Report(events=9, cell_width=cell_width, tracks=tracks, timing=timing)
    return [line[31:] for line in draw_timeline(report, width, BOX)]


def block(start_ms: int, stop_ms: int | None, busy: int) -> Track:
    stop = None if stop_ms is None else 3
    return Track("text", "", "", 0, 1, stop, busy, start_ms=start_ms, stop_ms=stop_ms)


def test_columns_of_a_timed_stream_stand_for_as_many_milliseconds() -> None:
    # 1,000 ms in 50 columns, cells of 4 ms.
    busy = bits(200 // 4, 500 // 4, 598 // 4)
    assert timed(999, block(200, 599, busy), cell_width=4) == [
        " 0 s       0.2 s     0.4 s     0.6 s     0.8 s",
        "│" + " " * 10 + "█" + "─" * 14 + "█" + "─" * 3 + "█" + " " * 20 + "│",
    ]


def test_timed_block_that_never_closed_is_open_to_the_end() -> None:
    assert timed(9, block(2, None, bits(2))) == [
        " 0 s       0.002 s   0.004 s   0.006 s   0.008 s",
        "│" + " " * 10 + "█" * 5 + "─" * 35 + ">",
    ]


def test_stream_of_no_time_has_one_column() -> None:
    assert timed(0, block(0, 0, 1)) == [" 0 s", "│" + "█" * 50 + "│"]


@given(st.integers(1, 10**13), st.integers(MIN_WIDTH, 300))
@example(13_974_609_375, 298)
def test_axis_fits_the_bars_and_its_labels_are_apart(end_ms: int, width: int) -> None:
    axis, bar = timed(end_ms, block(0, None, 1), cell_width=2**40, width=width)
    assert len(axis) < len(bar)
    labels = [label.strip() for label in axis.split(" s")[:-1]]
    assert labels[0] == "0"
    assert [float(label) for label in labels] == sorted({float(label) for label in labels})
    assert 2 <= len(labels) <= len(bar) // 9 + 1


# The table


def test_several_choices_have_a_column() -> None:
    report = Report(events=4, tracks=(text(1, 3, 0), text(1, 3, 0, choice=1)))
    assert [line[:20] for line in draw_timeline(report, 100, BOX)] == [
        "  #  choice  kind  n",
        "  0       0  text   ",
        "  1       1  text   ",
    ]


def test_numbers_are_right_aligned() -> None:
    large = text(1, 3, 0)
    large.chars, large.bytes = 1_234_567, 2_000_000
    rows = draw_timeline(Report(events=4, tracks=(large,) + (text(1, 3, 0),) * 10), 100, BOX)
    assert [row.partition("│")[0] for row in (rows[0], rows[1], rows[11])] == [
        "   #  kind  name      chars      bytes  ",
        "   0  text        1,234,567  2,000,000  ",
        "  10  text                0          0  ",
    ]


def test_wide_names_keep_the_bars_aligned() -> None:
    report = Report(events=4, tracks=(call("天気"), call("weather")))
    assert [row.partition("│")[0] for row in draw_timeline(report, 100, BOX)[1:]] == [
        "  0  tool call  天気         0      0  ",
        "  1  tool call  weather      0      0  ",
    ]


def test_long_names_are_cut() -> None:
    [_, row] = draw_timeline(Report(events=4, tracks=(call("n" * 500),)), 100, BOX)
    assert f"  {'n' * 23}…  " in row


def test_widest_table_fits_the_narrowest_page() -> None:
    odd = Track("redacted reasoning", "n" * 99, "", 127, 0, None, 1, 10**9, 10**9)
    rows = draw_timeline(Report(events=9000, tracks=(odd,) * 4096), MIN_WIDTH, BOX)
    assert {count_columns(row) for row in rows[1:]} == {MIN_WIDTH}
    assert "  nnn…  " in rows[1]
