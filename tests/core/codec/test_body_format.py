"""A stream in another form than server-sent events is found out, and read as they are."""

from __future__ import annotations

import pytest

from streamnorm import Completed, Event, Failed, Limits, MessageStart, StreamError, Truncated, Usage
from streamnorm._core.codec import BodyFormat, Decoder
from streamnorm._core.codec.framing import FormatSniffer, one_line_each
from streamnorm.sse import Frame


class Lines:
    """Events by the line, up to one that says `end`."""

    def __init__(self) -> None:
        self.ended = False
        self._line = b""

    def feed(self, data: bytes) -> bytes:
        *lines, self._line = (self._line + data).split(b"\n")
        self.ended = self.ended or b"end" in lines
        return b"".join([b"data: %b\n\n" % line for line in lines])


LINES = BodyFormat(b"[", Lines, lambda frame: frame.data.startswith("[id"))


class LinesDecoder(Decoder):
    dialect = "lines"
    formats = (LINES,)

    def read(self, frame: Frame, events: list[Event]) -> None:
        events.append(MessageStart(frame.data))

    def complete_without_terminal(self, events: list[Event]) -> tuple[str, ...]:
        self.outcome = Completed("end_turn", Usage())
        return ()


def read(data: bytes, size: int, **limits: int) -> tuple[list[Event], LinesDecoder]:
    reader = LinesDecoder(limits=Limits(**limits))
    events: list[Event] = []
    for at in range(0, len(data), size):
        events += reader.feed(data[at : at + size])
    return events + reader.close(), reader


each_size = pytest.mark.parametrize("size", [1, 3, 100])


@each_size
@pytest.mark.parametrize("before", [b"", b"\n", b" \r\n", b"\xef\xbb\xbf"])
def test_stream_in_another_form_gives_its_events(before: bytes, size: int) -> None:
    events, reader = read(before + b"[id\nb\nend\n", size)
    assert events == [MessageStart("[id"), MessageStart("b"), MessageStart("end")]
    assert isinstance(reader.outcome, Completed)
    assert reader.frames == 3


def test_each_event_comes_with_the_byte_that_ends_it() -> None:
    reader = LinesDecoder()
    assert reader.feed(b"[id") == []
    assert reader.is_body
    assert reader.feed(b"\nb\nc") == [MessageStart("[id"), MessageStart("b")]
    assert not reader.is_body
    assert reader.feed(b"\n") == [MessageStart("c")]


@each_size
def test_other_body_that_begins_so_is_none(size: int) -> None:
    events, reader = read(b'[{"error":{"message":"no"}}]\n', size)
    assert events == [StreamError("upstream", "no")]
    assert reader.error_outside_stream
    events, reader = read(b"[1,2]\n[id\n", size)
    assert isinstance(reader.outcome, Failed)
    assert reader.outcome.error.code == "not_a_stream"


@each_size
def test_cut_before_it_is_known_is_a_cut(size: int) -> None:
    events, reader = read(b"[id", size)
    assert isinstance(reader.outcome, Truncated)
    assert len(events) == 1


@each_size
def test_stream_that_is_not_closed_is_a_cut_in_any_dialect(size: int) -> None:
    events, reader = read(b"[id\nb\n", size)
    assert events[:-1] == [MessageStart("[id"), MessageStart("b")]
    assert isinstance(reader.outcome, Truncated)


@each_size
def test_first_event_is_bounded_as_others_are(size: int) -> None:
    bounds = {"max_event_bytes": 60, "max_error_body_bytes": 8}
    events, _ = read(b"[id" + b"x" * 40 + b"\n", size, **bounds)
    assert events[0] == MessageStart("[id" + "x" * 40)
    events, reader = read(b"[id" + b"x" * 90 + b"\n", size, **bounds)
    assert isinstance(reader.outcome, Failed)
    assert reader.outcome.error.code == "max_event_bytes"


def test_body_without_a_first_event_is_none() -> None:
    class Empty(Lines):
        def feed(self, data: bytes) -> bytes:
            self.ended = b"]" in data
            return b""

    sniffer = FormatSniffer(BodyFormat(b"[", Empty, LINES.recognises), Limits())
    assert sniffer.feed(b"[") is None
    assert sniffer.feed(b"]") is False


def test_bytes_are_known_as_the_event_stream_that_they_are() -> None:
    reader = LinesDecoder()
    for data, told in [
        (b" ", b" "),
        (b"[i", b""),
        (b"d", b""),
        (b"\nb\nc", b"\n\ndata: [id\n\ndata: b\n\n"),
        (b"", b""),
        (b"\n", b"data: c\n\n"),
    ]:
        reader.feed(data)
        assert reader.as_event_stream(data) == told
    assert not reader.is_plain
    plain = LinesDecoder()
    plain.feed(b"data: a\n\n")
    assert plain.is_plain
    assert plain.as_event_stream(b"data: a\n\n") == b"data: a\n\n"


def test_data_goes_on_one_line() -> None:
    assert (
        one_line_each(b"data: {\ndata:  1\ndata: }\n\ndata: 2\n\n")
        == b"data: {  1 }\n\ndata: 2\n\n"
    )
    assert one_line_each(b"\ndata: }\n\n") == b" }\n\n"


def test_input_that_is_framed_already_has_no_form() -> None:
    reader = LinesDecoder()
    assert reader.feed_frame(Frame("message", "[id")) == [MessageStart("[id")]
    assert reader.feed(b"data: b\n\n") == [MessageStart("b")]
