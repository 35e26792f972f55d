"""Frames without JSON are read alike in every dialect."""

from __future__ import annotations

import pytest

from streamnorm import Event, Limits, MessageStart, Note, Opaque, StreamError
from streamnorm._core.codec import Decoder, read_no_json
from streamnorm._core.json import InvalidJSON, decode_any
from streamnorm._registry import DIALECTS
from streamnorm.codec import SSE, decoder
from streamnorm.sse import Frame

NOTED = (Note("joined_frames", "frame"),)


class NamedDecoder(Decoder):
    """A decoder of JSON strings, as `MessageStart` with the name of their frame."""

    dialect = "named"
    names: tuple[str, ...] = ("start",)

    def read(self, frame: Frame, events: list[Event]) -> None:
        try:
            text = decode_any(frame.data, max_depth=self._limits.max_json_depth)
        except InvalidJSON as problem:
            read_no_json(self, frame, problem, events, names=self.names)
            return
        events.append(MessageStart(text, frame.event))


class NamelessDecoder(NamedDecoder):
    names = ()


def read(frame: Frame, reader: Decoder | None = None) -> tuple[list[Event], tuple[Note, ...]]:
    reader = reader or NamedDecoder()
    return reader.feed_frame(frame), reader.notes


def test_done_is_a_note() -> None:
    assert read(Frame("start", "[DONE]")) == ([], (Note("stray_done", "frame"),))
    assert read(Frame("error", "[DONE] ")) == ([], (Note("stray_done", "frame"),))


@pytest.mark.parametrize("data", ["", " ", "\n\n", "\t\n"])
@pytest.mark.parametrize("name", ["message", "start", "error", "news"])
def test_blank_data_is_ignored(name: str, data: str) -> None:
    assert read(Frame(name, data)) == ([], ())


@pytest.mark.parametrize("data", ["busy", "busy\nnow", "{"])
def test_text_of_an_error_event_is_the_error(data: str) -> None:
    assert read(Frame("error", data)) == ([StreamError("upstream", data)], ())


def test_joined_events_are_read_one_by_one_without_the_name_of_their_frame() -> None:
    assert read(Frame("start", '"a"\n\n"b"')) == (
        [MessageStart("a", "message"), MessageStart("b", "message")],
        NOTED,
    )


def test_joined_events_keep_a_name_that_says_nothing_in_their_dialect() -> None:
    assert read(Frame("news", '"a"\ntext'), NamelessDecoder()) == (
        [MessageStart("a", "news"), Opaque("named", "news", '"text"')],
        NOTED,
    )


def test_joined_events_end_with_the_stream() -> None:
    events, notes = read(Frame("start", '"a"\n{\n"b"'))
    assert events == [
        MessageStart("a", "message"),
        StreamError("malformed", "no JSON in 1 characters"),
    ]
    assert notes == NOTED


@pytest.mark.parametrize("name", ["message", "start"])
def test_event_of_the_dialect_without_json_is_malformed(name: str) -> None:
    assert read(Frame(name, "{")) == ([StreamError("malformed", "no JSON in 1 characters")], ())


def test_value_over_lines_that_nests_too_deep_is_no_joined_events() -> None:
    reader = NamedDecoder(limits=Limits(max_json_depth=2))
    error = StreamError("too_large", "max_json_depth of 2 passed", "max_json_depth")
    assert read(Frame("start", "[[[[\n]]]]"), reader) == ([error], ())


def test_text_of_an_unknown_event_is_opaque() -> None:
    assert read(Frame("news", 'a "b"')) == ([Opaque("named", "news", '"a \\"b\\""')], ())


@pytest.mark.parametrize("dialect", [name for name, d in DIALECTS.items() if d.framing is SSE])
def test_frame_that_is_cut_short_is_malformed_in_every_dialect(dialect: str) -> None:
    (error,) = decoder(dialect).feed(b'data: {"a":\n\n')
    assert isinstance(error, StreamError)
    assert (error.kind, error.message) == ("malformed", "no JSON in 5 characters")
