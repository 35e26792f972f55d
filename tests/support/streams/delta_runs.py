"""Streams decoded with the delta run, and the number of its frames.

Every stream is also read in halves and with every frame in full: events, notes and outcome
must be the same.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, NamedTuple

from streamnorm import Event
from streamnorm._core.codec import Decoder
from streamnorm._core.codec.templates import learn_template
from streamnorm._core.events import delta_factory
from streamnorm.codec import decoder
from support.streams.run_comparison import every_frame_in_full

__all__ = ["Offer", "Reading", "offer", "read_chunks", "read_each_way", "ways_of_reading"]


class Offer(NamedTuple):
    """Result of offering a chunk's frames to the run.

    Attributes:
        events: Its events.
        on_run: Number of frames that the run has read.
    """

    events: list[Event]
    on_run: int


class Reading(NamedTuple):
    """The events of a stream, chunk by chunk.

    Attributes:
        events: The events of each chunk.
        on_run: Number of frames of each chunk that the run has read.
        decoder: The decoder that has read the chunks, frame by frame.
    """

    events: list[list[Event]]
    on_run: list[int]
    decoder: Decoder


def offer(reader: Decoder, chunk: bytes) -> Offer:
    """Offer each frame of a chunk to the run; decode the refused ones in full."""
    events: list[Event] = []
    on_run = 0
    for raw in reader.split(chunk):
        run = reader.run
        text = run.text_of(raw) if run is not None and isinstance(raw, bytes) else None
        if run is None or text is None:
            events += reader.read_raw(raw)
            continue
        on_run += 1
        if text:
            events.append(delta_factory(run.delta)(text))
        if (usage := run.pending_usage()) is not None:
            events.append(usage)
    return Offer(events, on_run)


def read_chunks(dialect: str, *chunks: bytes, **options: Any) -> Reading:
    """Decode chunks in order; check that every path gives the same events.

    So must the end; the returned decoder has not been closed.
    """
    with every_frame_in_full():
        full = decoder(dialect, **options)
        expected = [(full.feed(chunk), _state(full)) for chunk in chunks]
    reader, fed, halved = (decoder(dialect, **options) for _ in range(3))
    offers = []
    for chunk, (events, state) in zip(chunks, expected, strict=True):
        offers.append(offer(reader, chunk))
        given = {
            "offered to the run": (offers[-1].events, reader),
            "fed": (fed.feed(chunk), fed),
            "fed in two": (halved.feed(chunk[:1]) + halved.feed(chunk[1:]), halved),
        }
        for way, (found, by) in given.items():
            assert found == events, f"{chunk!r} gives {found} {way}, expected {events}"
            assert _state(by) == state, f"{chunk!r} leaves {_state(by)} {way}, expected {state}"
    closing = full.close()
    for other in (fed, halved):
        assert (other.close(), other.outcome, other.notes) == (closing, full.outcome, full.notes)
    return Reading([events for events, _ in offers], [count for _, count in offers], reader)


def _state(reader: Decoder) -> tuple[object, ...]:
    # How many frames are counted of a stream that has failed depends on how it is cut.
    frames = reader.frames if reader.outcome is None else None
    return reader.notes, reader.outcome, frames


def read_each_way(dialect: str, *chunks: bytes, **options: Any) -> list[Event]:
    """Return a stream's events, asserted to be equal byte by byte."""
    reading = read_chunks(dialect, *chunks, **options)
    events = [event for given in reading.events for event in given]
    body = b"".join(chunks)
    bytewise = decoder(dialect, **options)
    assert [e for i in range(len(body)) for e in bytewise.feed(body[i : i + 1])] == events
    assert bytewise.notes == reading.decoder.notes
    return events


def ways_of_reading(dialect: str, *chunks: bytes) -> str:
    """Return how each chunk of a stream after the first is read, as a letter.

    `t`: by a template; `l`: decoded, and a template is learned from it; `d`: decoded otherwise.
    """
    reader = decoder(dialect)
    reader.feed(chunks[0])
    assert reader.run is not None
    letters: list[str] = []
    codes = {learn_template.__code__: "l", type(reader.run).decode.__code__: "d"}

    def note(frame: FrameType, event: str, _arg: object) -> None:
        if event == "call":
            letters[-1] = codes.get(frame.f_code, letters[-1])

    for data in chunks[1:]:
        letters.append("t")
        sys.setprofile(note)
        try:
            reader.feed(data)
        finally:
            sys.setprofile(None)
    return "".join(letters)
