"""Numbered frames, as lines of text and as JSON."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamnorm.inspect.page import MIN_WIDTH, FrameLines, Style, describe_frame
from streamnorm.inspect.printable import ASCII, BOX, count_columns
from streamnorm.sse import Frame

HEAD = '{"id":"chatcmpl-1","object":"chat.completion.chunk",'


def lines(*data: str, style: Style = Style(width=80), event: str = "message") -> list[str]:  # noqa: B008 - frozen
    page = FrameLines(style)
    return [page.format(n, Frame(event, each), None) for n, each in enumerate(data)]


def test_line_has_number_time_event_and_data() -> None:
    page = FrameLines(Style(width=80))
    assert page.format(7, Frame("message", "[DONE]"), None) == "     7  [DONE]"
    assert page.format(12, Frame("ping", "{}"), 61_002) == "    12    61.002 s  ping  {}"


def test_data_is_cut_to_the_width() -> None:
    assert lines("a" * 100) == ["     0  " + "a" * 71 + "…"]
    [line] = lines("今" * 100, event="e" * 100)
    assert line.startswith("     0  " + "e" * 25 + "…  今")
    assert count_columns(line) == 79  # the next character takes two


def test_repeated_start_of_the_data_is_left_out() -> None:
    assert lines(HEAD + '"n":1}', HEAD + '"n":12}', HEAD + '"m":1}', "[DONE]") == [
        f'     0  {HEAD}"n":1}}',
        '     1  …"n":12}',
        '     2  …"m":1}',
        "     3  [DONE]",
    ]


def test_equal_data_keeps_its_last_field() -> None:
    assert lines(*[HEAD + '"n":1}'] * 2)[1] == '     1  …"n":1}'


def test_short_repetition_stays() -> None:
    assert lines('{"a":1,"b":2}', '{"a":1,"b":3}')[1] == '     1  {"a":1,"b":3}'


def test_frame_as_json_has_all_data() -> None:
    frame = Frame("ping", "a" * 100_000)
    assert describe_frame(3, frame, None) == {"frame": 3, "event": "ping", "data": frame.data}
    assert describe_frame(3, frame, 9)["ms"] == 9


TEXTS = st.text(st.characters(exclude_categories=()), max_size=200)


@given(TEXTS, st.lists(TEXTS, max_size=3), st.integers(MIN_WIDTH, 200), st.booleans())
def test_any_frame_is_printable_and_fits_the_width(
    event: str, data: list[str], width: int, ascii: bool
) -> None:
    style = Style(width=width, glyphs=ASCII if ascii else BOX)
    for line in lines(*data, *data, style=style, event=event):
        assert line.isprintable()
        assert count_columns(line) <= width
        assert line.isascii() or not ascii
