"""Chunking: cut points by hand, and that no chunking loses a byte."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnorm.recording.recording import Rechunk, find_cut_points, split_at

CHUNKINGS: list[Rechunk] = [
    "recorded",
    "event",
    "byte",
    "hostile",
    1,
    3,
    1000,
    "random:a",
    "random:",
]

bodies = st.lists(
    st.sampled_from([b"\r", b"\n", b"\r\n", b"data: ", b"data:", b"x", b"\xc3\xa9", b"\xf0", b": "])
).map(b"".join)


def cut(body: bytes, how: Rechunk, recorded: list[int] | None = None) -> list[bytes]:
    return split_at(body, find_cut_points(body, how, recorded))


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [b"data: a\n\n", b"data: b\n\n"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"data: a\r\n\r\n", b"data: b\r\n\r\n"]),
        (b"data: a\r\rdata: b\r\r", [b"data: a\r\r", b"data: b\r\r"]),
        (b"a\r\n\nb\n\r\nc\r\r\nd", [b"a\r\n\n", b"b\n\r\n", b"c\r\r\n", b"d"]),
        (b"a\nb\r\nc\rd", [b"a\nb\r\nc\rd"]),  # the ends of single lines
        (b"a\n\n\n\r\n\rb", [b"a\n\n\n\r\n\r", b"b"]),  # more blank lines belong to the event
        (b"\n\na\n\n", [b"\n\n", b"a\n\n"]),
        (b"a\n\nb", [b"a\n\n", b"b"]),
        (b"a\n", [b"a\n"]),
        (b"", []),
    ],
)
def test_event_ends_after_its_blank_lines(body: bytes, events: list[bytes]) -> None:
    assert cut(body, "event") == cut(body, "recorded") == events
    assert cut(body, "event", [1] * len(body)) == events


def test_recorded_pieces_are_the_reads() -> None:
    assert cut(b"abcdef", "recorded", [1, 3, 2]) == [b"a", b"bcd", b"ef"]
    assert cut(b"abc", "recorded", [1, 0, 2]) == [b"a", b"", b"bc"]


def test_bytes_and_sizes_are_counted_from_the_start() -> None:
    assert cut(b"abcde", "byte", [5]) == [b"a", b"b", b"c", b"d", b"e"]
    assert cut(b"abcde", 2, [5]) == [b"ab", b"cd", b"e"]
    assert cut(b"abcd", 2) == [b"ab", b"cd"]
    assert cut(b"abcd", 4) == cut(b"abcd", 5) == [b"abcd"]


@pytest.mark.parametrize(
    ("body", "pieces"),
    [
        (b"x\xc3\xa9\xe2\x82\xac", [b"x\xc3", b"\xa9\xe2", b"\x82\xac"]),  # inside characters
        (b"\xf0\x9f\x92\xa1", [b"\xf0", b"\x9f\x92\xa1"]),
        (b"a\r\nb", [b"a\r", b"\nb"]),  # between CR and LF
        (b"a\r\n\r\n", [b"a\r", b"\n", b"\r", b"\n"]),  # and before the blank line
        (b"a\n\nb", [b"a\n", b"\nb"]),
        (b"data: a\ndata:b", [b"dat", b"a: ", b"a\ndat", b"a:b"]),  # inside `data:`
        (b"xdata:b\rdata:", [b"xdata:b\rdat", b"a:"]),  # but only where a line begins
        (b"\xc3", [b"\xc3"]),  # no character
        (b"a\n", [b"a\n"]),
    ],
)
def test_hostile_chunks_end_inside_characters_and_line_ends(
    body: bytes, pieces: list[bytes]
) -> None:
    assert cut(body, "hostile", [len(body)]) == pieces


def test_random_pieces_are_the_same_for_the_same_seed() -> None:
    body = bytes(5000)
    assert cut(body, "random:1") == cut(body, "random:1", [5000])
    assert cut(body, "random:1") != cut(body, "random:2")
    sizes = [len(piece) for piece in cut(body, "random:1")]
    assert 20 < sum(sizes) / len(sizes) < 80
    assert len({*sizes}) > 20


def test_random_pieces_are_the_same_on_every_version_of_python() -> None:
    # `random.Random("stream").random()` begins 0.7349, 0.7861, 0.4357, whatever the version:
    # pieces of 1 + 58, 1 + 62 and 1 + 34 bytes, 40 of them on average.
    assert find_cut_points(bytes(160), "random:stream", None) == [59, 122, 157, 160]


@pytest.mark.parametrize("how", CHUNKINGS)
@given(body=bodies)
def test_every_chunking_preserves_the_bytes_without_empty_chunks(how: Rechunk, body: bytes) -> None:
    ends = find_cut_points(body, how, None)
    assert b"".join(split_at(body, ends)) == body
    assert all(start < end for start, end in pairwise([0, *ends]))


@pytest.mark.parametrize("how", ["bytes", "Random:1", "random", "7", "", 0, -1, 2.0])
@pytest.mark.parametrize("body", [b"", b"data: a\n\n"])
def test_unknown_chunking_is_refused(how: Rechunk, body: bytes) -> None:
    with pytest.raises(ValueError, match="expected recorded, event, byte, hostile"):
        find_cut_points(body, how, None)
