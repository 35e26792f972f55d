"""Length and checksum of a text that arrives in deltas."""

from __future__ import annotations

import pytest

from streamnorm._core.limits import StoredBytes
from streamnorm._core.text import MAX_FRESH
from streamnorm.dialects.openai_responses.items.item import StoredText, TextProgress


def progress_after(*deltas: str) -> TextProgress:
    progress = TextProgress()
    for delta in deltas:
        progress.add(delta)
    return progress


@pytest.mark.parametrize(
    ("deltas", "complete_text", "tail"),
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
def test_missing_tail_is_what_no_delta_carried(
    deltas: tuple[str, ...], complete_text: str, tail: str | None
) -> None:
    progress = progress_after(*deltas)
    assert progress.add_missing_tail(complete_text) == tail
    if tail is not None:
        assert progress.add_missing_tail(complete_text) == ""


def test_half_a_surrogate_pair_waits_for_the_other_half() -> None:
    progress = TextProgress()
    assert progress.add("a\ud83c") == "a"
    assert progress.add("\udf0ab") == "🌊b"
    assert (progress.length, progress.flush()) == (3, "")


def test_lone_half_of_a_surrogate_pair_is_replaced() -> None:
    progress = progress_after("a\ud83c")
    assert progress.flush() == "\ufffd"
    assert progress.add("\udf0a") == "\ufffd"
    assert progress.length == 3


@pytest.mark.parametrize(
    ("complete_text", "tail"),
    [("a🌊b", "🌊b"), ("a\ufffd", "\ufffd"), ("a", None), ("ab", None), ("a🀀", "🀀"), ("a😀", None)],
)
def test_complete_text_goes_on_from_half_a_surrogate_pair(
    complete_text: str, tail: str | None
) -> None:
    assert progress_after("a", "\ud83c").add_missing_tail(complete_text) == tail


def test_text_holds_what_arrived() -> None:
    assert progress_after("a", "b").holds("ab")
    for text in ("a", "abc", "ba"):
        assert not progress_after("a", "b").holds(text)
    assert not progress_after("a", "\ud83c").holds("a")


def test_stored_text_is_counted_as_it_is_added() -> None:
    counted: list[str] = []
    stored = StoredText(counted.append, StoredBytes())
    stored.add("ab")
    stored.uncounted.append("c")  # by the delta run, which counts it
    stored.add("\r\n")
    assert stored.add_missing_tail("abc\r\nd") == "d"
    assert (stored.text, stored.length) == ("abc\r\nd", 6)
    assert counted == ["ab", "\r\n", "d"]


def test_stored_deltas_that_nobody_has_asked_about_are_counted_together() -> None:
    counter = StoredBytes(1024 * 1024 + 6)
    stored = StoredText(lambda _: None, counter)
    fresh = stored.fresh
    assert fresh == []
    stored.uncounted.append("a")
    fresh += ["é", "c"]
    stored.take_fresh()
    assert (stored.text, stored.length, counter.left) == ("aéc", 3, 1024 * 1024 + 3)
    assert stored.fresh is fresh
    fresh += ["de", "ff"]
    assert stored.holds("aécdeff")
    assert (counter.left, len(fresh), stored.fresh) == (1024 * 1024 - 1, MAX_FRESH, None)


def test_half_a_surrogate_pair_is_no_text_that_is_held() -> None:
    progress = progress_after("a")
    assert not progress.holds("\ude00")
    assert not progress.holds("\ud83c")
    assert progress.holds("a")
