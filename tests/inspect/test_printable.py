"""Text of a peer for a terminal: nothing in it is executed, hidden or unbounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnorm.inspect.printable import count_columns, escape_unprintable, fit

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("\x1b[2J", r"\x1b[2J", id="escape sequence"),
        pytest.param("\x1b]0;title\x07", r"\x1b]0;title\x07", id="terminal title"),
        pytest.param("\x9b2J", r"\x9b2J", id="C1 control"),
        pytest.param("\x7f\b", r"\x7f\x08", id="delete and backspace"),
        pytest.param("a\r\nb\tc\0", r"a\r\nb\tc\x00", id="line ends, tab, NUL"),
        pytest.param("\u2028\u2029", r"\u2028\u2029", id="line separators"),
        pytest.param("\u202egnp.exe", r"\u202egnp.exe", id="bidirectional override"),
        pytest.param("a\u200bb\ufeff", r"a\u200bb\ufeff", id="zero width"),
        pytest.param("\U000e0041", r"\U000e0041", id="invisible tag"),
        pytest.param("\ud83d", r"\ud83d", id="lone surrogate"),
        pytest.param("\xa0", r"\xa0", id="space that is none"),
        pytest.param("Grüß 今日 🙂", "Grüß 今日 🙂", id="words"),
        pytest.param(r'{"a":"\n"}', r'{"a":"\n"}', id="JSON"),
    ],
)
def test_control_and_invisible_characters_are_escaped(text: str, shown: str) -> None:
    assert escape_unprintable(text) == shown


def test_ascii_mode_escapes_all_other_characters() -> None:
    assert escape_unprintable("Grüß 🙂\n", ascii=True) == r"Gr\xfc\xdf \U0001f642\n"
    assert escape_unprintable("plain", ascii=True) == "plain"


@given(ANY_TEXT, st.booleans())
def test_any_output_is_printable(text: str, ascii: bool) -> None:
    shown = escape_unprintable(text, ascii=ascii)
    assert shown.isprintable()
    assert shown.isascii() or not ascii
    assert escape_unprintable(shown, ascii=ascii) == shown


def test_wide_characters_take_two_columns() -> None:
    assert count_columns("今日") == 4
    assert count_columns("\uff41") == 2  # fullwidth a
    assert count_columns("🙂!") == 3
    assert count_columns("Grüß") == 4


def test_combining_characters_count_as_a_column() -> None:
    assert count_columns("e\u0301") == 2
    assert fit("e" + "\u0301" * 9, 5, more="…") == "e" + "\u0301" * 3 + "…"


@pytest.mark.parametrize(
    ("text", "room", "shown"),
    [
        pytest.param("", 3, "", id="nothing"),
        pytest.param("abc", 3, "abc", id="just fits"),
        pytest.param("abcd", 3, "ab…", id="one more"),
        pytest.param("今日は", 5, "今日…", id="wide"),
        pytest.param("今日は", 4, "今…", id="no half of a wide character"),
        pytest.param("a\nbc", 4, "a\\n…", id="an escape is not cut"),
        pytest.param("a\x1bc", 4, "a…", id="an escape that has no room"),
    ],
)
def test_text_is_cut_to_the_width(text: str, room: int, shown: str) -> None:
    assert fit(text, room, more="…") == shown


def test_cut_in_ascii_ends_in_dots() -> None:
    assert fit("übergroß", 8, more="...", ascii=True) == r"\xfcb..."


@given(ANY_TEXT, st.integers(3, 30), st.booleans())
def test_fitted_text_is_printable_and_fits(text: str, room: int, ascii: bool) -> None:
    shown = fit(text, room, more="..." if ascii else "…", ascii=ascii)
    assert count_columns(shown) <= room
    assert shown.isprintable()
    assert shown.isascii() or not ascii
