"""Byte offsets of a text become character offsets of its block."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamnorm._core.limits import StoredBytes
from streamnorm._core.text import TextOffsets


def offsets(*pieces: str, base: int = 0, max_bytes: int = 1 << 20) -> TextOffsets:
    stored = TextOffsets(base, room=StoredBytes(max_bytes))
    for piece in pieces:
        stored.append(piece)
    return stored


@given(st.text("aä—🙂", max_size=60), st.integers(0, 60), st.integers(0, 60))
def test_bytes_are_counted_as_characters(text: str, start: int, end: int) -> None:
    start, end = sorted((min(start, len(text)), min(end, len(text))))
    first, last = len(text[:start].encode()), len(text[:end].encode())
    for pieces in ([text], [text[:5], text[5:]], list(text)):
        assert offsets(*pieces).find(first, last, None) == (start, end)


def test_range_beyond_the_text_is_none() -> None:
    stored = offsets("Möwe")
    assert stored.size == 5
    assert stored.find(0, 5, None) == (0, 4)
    assert stored.find(0, 6, None) is None
    assert stored.find(4, 3, None) is None
    assert stored.find(-1, 3, None) is None


def test_first_block_needs_no_words() -> None:
    """The quoted words may differ from the text."""
    assert offsets("Möwe am Riff").find(0, 5, "something else") == (0, 4)


def test_later_block_is_found_by_the_words() -> None:
    stored = offsets("Möwe am Riff", base=9)
    assert stored.find(6, 8, "am") == (5, 7)  # counted within the part
    assert stored.find(15, 17, "am") == (5, 7)  # counted within the whole text
    assert stored.find(6, 8, "an") is None
    assert stored.find(0, 2, "am") is None


def test_empty_range_is_found_in_the_part_or_the_whole_text() -> None:
    stored = offsets("Möwe", base=9)
    assert stored.find(5, 5, "") == (4, 4)
    assert stored.find(9, 9, "") == (0, 0)
    assert stored.find(15, 15, "") is None
    assert stored.find(3, 5, "") is None


def test_later_block_without_words_is_counted_in_the_whole_text() -> None:
    stored = offsets("Möwe am Riff", base=9)
    assert stored.find(15, 17, None) == (5, 7)
    assert stored.find(0, 4, None) is None


def test_offsets_beyond_the_bound_are_not_found() -> None:
    stored = offsets("äb", "cä", "d", "e", max_bytes=5)
    assert stored.size == 8
    assert stored.find(2, 4, None) == (1, 3)
    assert stored.find(2, 6, None) is None


def test_ascii_start_does_not_count_against_the_bound() -> None:
    stored = offsets("a" * 300, "äb", max_bytes=3)
    assert stored.find(299, 303, None) == (299, 302)


def test_long_text_is_counted_in_steps() -> None:
    stored = offsets("ä" * 3000, "b" * 3000)
    assert stored.find(5998, 6001, None) == (2999, 3001)
    assert stored.find(0, 9000, None) == (0, 6000)
    assert stored.find(2, 4, None) == (1, 2)


def test_blocks_of_a_stream_share_the_bound() -> None:
    room = StoredBytes(10)
    first, second = TextOffsets(room=room), TextOffsets(base=12, room=room)
    first.append("ääää")  # eight bytes
    assert (first.size, room.left) == (8, 2)
    second.append("rest")
    assert (second.size, room.left) == (4, 0)
    assert second.find(0, 2, "re") == (0, 2)
    assert second.find(0, 3, "res") is None
    first.release()
    assert room.left == 8
