"""Bytes of a text become characters of its block."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamnorm._core.text_offsets import TextOffsets


def offsets(*pieces: str, base: int = 0, max_bytes: int = 1 << 20) -> TextOffsets:
    kept = TextOffsets(base, max_bytes=max_bytes)
    for piece in pieces:
        kept.append(piece)
    return kept


@given(st.text("aä—🙂", max_size=60), st.integers(0, 60), st.integers(0, 60))
def test_byte_offsets_become_character_offsets(text: str, start: int, end: int) -> None:
    start, end = sorted((min(start, len(text)), min(end, len(text))))
    first, last = len(text[:start].encode()), len(text[:end].encode())
    for pieces in ([text], [text[:5], text[5:]], list(text)):
        assert offsets(*pieces).find(first, last, None) == (start, end)


def test_offset_beyond_the_text_is_none() -> None:
    kept = offsets("Möwe")
    assert kept.size == 5
    assert kept.find(0, 5, None) == (0, 4)
    assert kept.find(0, 6, None) is None
    assert kept.find(4, 3, None) is None
    assert kept.find(-1, 3, None) is None


def test_offset_in_the_first_block_needs_no_cited_text() -> None:
    """What the vendor says stands there may be spelt otherwise."""
    assert offsets("Möwe am Riff").find(0, 5, "something else") == (0, 4)


def test_later_block_is_found_by_its_cited_text() -> None:
    kept = offsets("Möwe am Riff", base=9)
    assert kept.find(6, 8, "am") == (5, 7)  # counted within the part
    assert kept.find(15, 17, "am") == (5, 7)  # counted within the whole text
    assert kept.find(6, 8, "an") is None
    assert kept.find(0, 2, "am") is None


def test_empty_range_is_found_in_the_block_or_in_the_whole_text() -> None:
    kept = offsets("Möwe", base=9)
    assert kept.find(5, 5, "") == (4, 4)
    assert kept.find(9, 9, "") == (0, 0)
    assert kept.find(15, 15, "") is None
    assert kept.find(3, 5, "") is None


def test_later_block_without_cited_text_is_counted_in_the_whole_text() -> None:
    kept = offsets("Möwe am Riff", base=9)
    assert kept.find(15, 17, None) == (5, 7)
    assert kept.find(0, 4, None) is None


def test_stored_text_is_bounded() -> None:
    kept = offsets("abcdef", "äb", "cä", "d", max_bytes=5)
    assert kept.size == 13
    assert kept.find(5, 9, None) == (5, 8)
    assert kept.find(5, 10, None) is None


def test_long_text_is_counted_incrementally() -> None:
    kept = offsets("ä" * 3000, "b" * 3000)
    assert kept.find(5998, 6001, None) == (2999, 3001)
    assert kept.find(0, 9000, None) == (0, 6000)
    assert kept.find(2, 4, None) == (1, 2)
