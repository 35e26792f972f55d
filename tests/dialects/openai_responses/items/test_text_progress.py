"""Text that grows, and its whole."""

from __future__ import annotations

import pytest

from streamnorm.dialects.openai_responses.items.text_progress import Growth


def grown(*pieces: str) -> Growth:
    growth = Growth()
    for piece in pieces:
        growth.add(piece)
    return growth


@pytest.mark.parametrize(
    ("pieces", "whole", "rest"),
    [
        ((), "abc", "abc"),
        (("a", "b"), "abc", "c"),
        (("a", "bc"), "abc", ""),
        (("é🌊",), "é🌊ü", "ü"),
        (("a", "b"), "acb", None),
        (("ab",), "a", None),
        (("ab",), "", None),
        (("a\ud83c",), "a🌊b", "🌊b"),
    ],
)
def test_rest_is_what_the_whole_has_more(pieces: tuple[str], whole: str, rest: str | None) -> None:
    growth = grown(*pieces)
    assert growth.rest(whole) == rest
    if rest is not None:
        assert growth.rest(whole) == ""


def test_half_a_character_waits_for_the_other() -> None:
    growth = Growth()
    assert growth.add("a\ud83c") == "a"
    assert growth.add("\udf0ab") == "🌊b"
    assert (growth.size, growth.flush()) == (3, "")


def test_half_a_character_alone_is_replaced() -> None:
    growth = grown("a\ud83c")
    assert growth.flush() == "\ufffd"
    assert growth.add("\udf0a") == "\ufffd"
    assert growth.size == 3
