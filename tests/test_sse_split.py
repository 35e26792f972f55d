"""Cutting: whole events out of any reads, the rest in fragments, and their lines read apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnorm.sse import Fragment, Frame, RawFrame, SSEDecoder, StrayLine

BLANK = b"\n\n"


def begin(**options: int) -> SSEDecoder:
    """Return a decoder behind its first event, where no byte order mark may stand."""
    decoder = SSEDecoder(**options)
    for raw in decoder.split(b"data: 0\n\n"):
        decoder.parse(raw)
    assert decoder.frames == 1
    return decoder


def split(decoder: SSEDecoder, *reads: bytes) -> list[list[RawFrame]]:
    """Return what each read gives."""
    return [decoder.split(data) for data in reads]


def parse(decoder: SSEDecoder, *reads: bytes) -> list[Frame | StrayLine]:
    """Return the frames and stray lines of reads."""
    return [item for data in reads for raw in decoder.split(data) for item in decoder.parse(raw)]


# Whole events


@pytest.mark.parametrize(
    "lines",
    [
        b"data: 1",
        b"data:1",
        b"event: x\ndata: 1",
        b"id: 1\nevent: x\ndata: 1\ndata: 2\nretry: 1",
        b": hi",
        b"odd",
        b"data: \xff",
        b"data: " + b"x" * 5000,
    ],
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_read_of_one_event_is_returned_unparsed(lines: bytes, end: bytes) -> None:
    event = (lines + BLANK).replace(b"\n", end)
    assert split(begin(), event, event) == [[lines], [lines]]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_read_may_be_several_events(end: bytes) -> None:
    lines = [b"data: 1", b"event: x\ndata: 2", b"id: 3\ndata: 3\ndata: 4"]
    read = b"".join(each + BLANK for each in lines).replace(b"\n", end)
    decoder = begin()
    assert split(decoder, read, read) == [lines, lines]
    assert decoder.frames == 7


def test_line_may_end_with_a_cr_alone() -> None:
    decoder = begin()
    assert split(decoder, b"event: x\rdata: 1\r\rdata: 2\r\r") == [
        [b"event: x\ndata: 1", b"data: 2"]
    ]
    assert split(decoder, b"data: 3\n\r") == [[b"data: 3"]]
    assert split(decoder, b"data: 4\r\n\n") == [[b"data: 4"]]


def test_cr_at_the_end_of_a_read_ends_its_line() -> None:
    decoder = begin()
    assert split(decoder, b"data: 1\r\n\r", b"\ndata: 2\r\n\r", b"data: 3\r", b"\n\r\n") == [
        [b"data: 1"],
        [b"data: 2"],
        [],
        [b"data: 3"],
    ]


def test_lf_in_the_next_read_belongs_to_its_cr() -> None:
    decoder = begin()
    assert split(decoder, b"data: 1\r\n\r", b"\n", b"", b"data: 2\r\n\r\n") == [
        [b"data: 1"],
        [],
        [],
        [b"data: 2"],
    ]
    assert split(decoder, b"data: 3\r", b"\n", b"\n") == [[], [], [b"data: 3"]]


def test_event_in_two_reads_is_returned_unparsed() -> None:
    event = b"event: x\ndata: 12\n\n"
    for data in (event, event.replace(b"\n", b"\r\n")):
        for at in range(1, data.index(b"12") + 3):
            decoder = begin()
            assert split(decoder, data[:at], data[at:]) == [[], [b"event: x\ndata: 12"]]
            assert decoder.frames == 2


def test_event_begun_at_the_end_of_a_read_is_returned_unparsed() -> None:
    decoder = begin()
    reads = [b"data: 1\n\ndata: ", b"2\n\ndata: 3\n", b"\n"]
    assert split(decoder, *reads) == [[b"data: 1"], [b"data: 2"], [b"data: 3"]]
    assert not decoder.held
    assert not decoder.is_irregular


# Fragments


def test_event_in_three_reads_is_returned_in_fragments() -> None:
    decoder = begin()
    assert split(decoder, b"data: ", b"1", b"2", b"\n", b"\ndata: 3\n\n") == [
        [],
        [Fragment(b"data: 1")],
        [Fragment(b"2")],
        [Fragment(b"\n")],
        [Fragment(b"\n"), b"data: 3"],
    ]


def test_fragmented_frame_is_returned_at_its_blank_line() -> None:
    decoder = begin()
    reads = [b"da", b"ta: 1", b"2", b"\n", b"\n", b"data: 3\n\n"]
    found = [[item for raw in decoder.split(data) for item in decoder.parse(raw)] for data in reads]
    assert found == [[], [], [], [], [Frame("message", "12")], [Frame("message", "3")]]
    assert decoder.frames == 3


@pytest.mark.parametrize("line", [b"odd\n", b": hi\n", b'{"error":\n', b"id: 1\n", b"data\n"])
def test_event_that_does_not_begin_with_data_is_not_held(line: bytes) -> None:
    """It may be an error that no blank line follows, or a comment."""
    decoder = begin()
    assert split(decoder, line, b"data: 1\n\n")[0] == [Fragment(line)]


@pytest.mark.parametrize("lines", [b"event: x\ndata: 1\n", b"data: 1\nodd\n", b"data: 1\nid: 1\nx"])
def test_event_with_a_complete_second_line_is_not_held(lines: bytes) -> None:
    assert split(begin(), lines) == [[Fragment(lines)]]


def test_endless_comment_is_not_held() -> None:
    decoder = begin(max_event_bytes=1000)
    for _ in range(9):
        assert parse(decoder, b": " + b"x" * 90) == []
        assert len(decoder.held) + len(decoder._line) <= 92  # the first read
    assert parse(decoder, b"\nda", b"ta: 1\n", b"\n") == [Frame("message", "1")]


def test_empty_reads_change_nothing() -> None:
    decoder = begin()
    assert parse(decoder, b"", b"data: 1", b"", b"\n\n", b"", b"data: 2\n\n", b"") == [
        Frame("message", "1"),
        Frame("message", "2"),
    ]


# The start of a stream


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_byte_order_mark_is_dropped_at_the_start_alone(mark: bytes, size: int) -> None:
    data = mark + b"data: 1\n\n\xef\xbb\xbfdata: 2\n\ndata: 3\n\n"
    decoder = SSEDecoder()
    items = parse(decoder, *[data[at : at + size] for at in range(0, len(data), size)])
    assert items == [
        Frame("message", "1"),
        StrayLine(b"\xef\xbb\xbfdata: 2"),
        Frame("message", "3"),
    ]


@pytest.mark.parametrize("start", [b"\xef", b"\xef\xbb", b"\xef\xbb\xbe", b"\xef\xbb\xbf"])
def test_incomplete_byte_order_mark_is_not_dropped(start: bytes) -> None:
    decoder = SSEDecoder()
    items = parse(decoder, start, b"data: 1\n\n")
    whole = start == b"\xef\xbb\xbf"
    assert items == [Frame("message", "1") if whole else StrayLine(start + b"data: 1")]


# Lines


def test_frames_and_stray_lines_come_in_their_order() -> None:
    read = b"data: 1\nodd 1\n\nodd 2\n\ndata: 2\n\nodd 3\ndata: 3\n\n"
    expected = [
        StrayLine(b"odd 1"),
        Frame("message", "1"),
        StrayLine(b"odd 2"),
        Frame("message", "2"),
        StrayLine(b"odd 3"),
        Frame("message", "3"),
    ]
    for size in (1, 7, 100):
        assert (
            parse(begin(), *[read[at : at + size] for at in range(0, len(read), size)]) == expected
        )


def test_id_and_retry_are_known_when_their_lines_are_parsed() -> None:
    decoder = begin()
    (raws,) = split(decoder, b"id: a\nretry: 7\ndata: 1\n\nid: b\n\ndata: 2\n\nid: c\ndata: 3\n\n")
    known = [(decoder.parse(raw), decoder.last_event_id, decoder.retry_ms) for raw in raws]
    assert known == [
        ([Frame("message", "1", "a", 7)], "a", 7),
        ([], "b", 7),
        ([Frame("message", "2", "b")], "b", 7),
        ([Frame("message", "3", "c")], "c", 7),
    ]


def test_only_events_with_data_are_frames() -> None:
    decoder = begin()
    assert len(parse(decoder, b": hi\n\nevent: x\n\ndata\n\n\n\nid: 1\n\ndata: 2\n\n")) == 2
    assert decoder.frames == 3


def test_unparsed_event_counts_as_a_frame() -> None:
    decoder = begin()
    decoder.split(b"data: 1\n\ndata: 2\n\n")
    assert decoder.frames == 3


def test_incomplete_line_at_the_end_is_reported() -> None:
    for reads in ([b"data: 1"], [b"data: ", b"1"], [b"da", b"ta: ", b"1"], [b"data: 1\n"]):
        decoder = begin()
        assert parse(decoder, *reads) == []
        assert decoder.unterminated() == Frame("message", "1")


# Bounds


@pytest.mark.parametrize(
    "lines",
    [
        *(b"data: 123", b"event: x\ndata: 1", b"id: 1\ndata: 1\ndata: 2"),
        *(b": 2\ndata: 1", b"data: 1\n: 2", b": 1\n: 2\ndata: 3", b"odd: 1\ndata: 2"),
    ],
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 4, 7, 1000])
def test_event_is_bounded_in_any_reads(lines: bytes, end: bytes, size: int) -> None:
    before, after = b"data: 0\n\n", b"data\n\n"
    data = before + (lines + BLANK).replace(b"\n", end) + after
    counted = len(lines) + 1  # each line with its end, which counts as one byte
    for bound, frames in ((counted + 1, 3), (counted, 3), (counted - 1, 1)):
        decoder = SSEDecoder(max_event_bytes=bound)
        items = parse(decoder, *[data[at : at + size] for at in range(0, len(data), size)])
        assert sum(isinstance(item, Frame) for item in items) == frames
        assert decoder.overflowed is (frames == 1)
        assert len(parse(decoder, after)) == (0 if frames == 1 else 1)


def test_read_larger_than_the_bound_may_hold_small_events() -> None:
    decoder = begin(max_event_bytes=10)
    assert len(parse(decoder, b"data: 1\n\n" * 20)) == 20
    assert len(parse(decoder, b"data: ", b"1\n\n" + b"data: 1\n\n" * 20)) == 21
    assert not decoder.overflowed


def test_nothing_is_parsed_after_an_event_beyond_the_bound() -> None:
    decoder = begin(max_event_bytes=10)
    raws = decoder.split(b"data: 1\n\ndata: 1234567\n\ndata: 2\n\n")
    assert [item for raw in raws for item in decoder.parse(raw)] == [Frame("message", "1")]
    assert decoder.overflowed
    assert parse(decoder, b"data: 3\n\n") == []


@pytest.mark.parametrize("size", [1, 3, 100])
def test_comments_of_other_events_and_blank_lines_are_not_counted(size: int) -> None:
    data = (b": 23456\n\n" + b"data: 1\n\n\n\n\n") * 5
    decoder = begin(max_event_bytes=8)
    items = parse(decoder, *[data[at : at + size] for at in range(0, len(data), size)])
    assert items == [Frame("message", "1")] * 5


# Any bytes


TOKENS = (
    *(b"\n", b"\n\n", b"\r", b"\r\n", b"\r\n\r\n", b"data: ", b"data", b"event: x", b"id: 1"),
    *(b": c", b"odd", b"\xef\xbb\xbf", b"x", b"\0", b"retry: 7", b" "),
)


@given(st.lists(st.sampled_from(TOKENS), max_size=30).map(b"".join), st.data())
def test_no_byte_is_lost_or_returned_twice(data: bytes, draw: st.DataObject) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=8)))
    reads = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    decoder = SSEDecoder()
    raws = [raw for read in reads for raw in decoder.split(read)]
    joined = b"".join(raw.data if isinstance(raw, Fragment) else raw + BLANK for raw in raws)
    lf_only = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert lf_only.startswith(joined)
    # What is held is not a whole event; half a byte order mark is held, too.
    assert BLANK not in lf_only[len(joined) :]
    for raw in raws:
        if not isinstance(raw, Fragment):
            assert BLANK not in raw
            assert b"\r" not in raw


@given(st.lists(st.sampled_from(TOKENS), max_size=30).map(b"".join), st.data())
def test_frames_and_stray_lines_do_not_depend_on_the_reads(
    data: bytes, draw: st.DataObject
) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=8)))
    reads = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    bound = draw.draw(st.sampled_from([8, 12, 20, 1000]))
    whole, parts = SSEDecoder(max_event_bytes=bound), SSEDecoder(max_event_bytes=bound)
    expected, found = parse(whole, data), parse(parts, *reads)
    assert found == expected
    assert parts.overflowed is whole.overflowed
    if not whole.overflowed:
        state = (whole.frames, whole.last_event_id, whole.retry_ms)
        assert (parts.frames, parts.last_event_id, parts.retry_ms) == state
        assert parts.unterminated() == whole.unterminated()
        assert parts.strays == whole.strays
