"""Streams encoded by a dialect's own encoder from generated events with small deltas."""

from __future__ import annotations

from collections.abc import Iterator

from streamnorm import Event, JSONDelta, ReasoningDelta, RefusalDelta, TextDelta
from streamnorm._core.grammar import Sequencer
from streamnorm.codec import encoder
from support.draws import Draws
from support.streams.content import ENCODER_OPTIONS
from support.streams.event_strategies import make_stream

__all__ = ["make_encoded_stream"]


def make_encoded_stream(d: Draws, dialect: str) -> list[bytes]:
    """Return the encoded bytes of each generated event."""
    interleaves = d.flag()
    events = make_stream(
        d, 1 + d.below(2), failing=d.flag(4), calls_only=d.flag(), spoken=d.flag(3)
    )
    writer = encoder(dialect, extras=d.flag(), **d.pick(ENCODER_OPTIONS[dialect]))
    overlapping = writer.projector.capabilities.overlapping
    sequencer = Sequencer(overlapping=overlapping)
    written: list[bytes] = []
    for event in events:
        for piece in _in_pieces(d, event):
            for passed in writer.projector.push(piece):
                ordered = (passed,) if interleaves else sequencer.push(passed)
                written += [writer.render(each) for each in ordered]
    return [data for data in (*written, writer.close()) if data]


def _in_pieces(d: Draws, event: Event) -> Iterator[Event]:
    """Yield a delta as several deltas, its text repeated."""
    match event:
        case TextDelta(index, text) | RefusalDelta(index, text):
            yield from (type(event)(index, piece) for piece in d.cut(text * 4, 8))
        case ReasoningDelta(index, text, part):
            yield from (ReasoningDelta(index, piece, part) for piece in d.cut(text * 4, 8))
        case JSONDelta(index, text):
            yield from (JSONDelta(index, piece) for piece in d.cut(text, 12))
        case _:
            yield event
