"""Faults that end or delay a body."""

from __future__ import annotations

import math
from typing import ClassVar, Unpack

from msgspec import structs

from streamnorm.recording.exchange import Playback, PlaybackEnd, Step
from streamnorm.recording.faults.dialects import dialect_of, overloaded_frames
from streamnorm.recording.faults.fault import Fault, Misfit, Place, PlacedFault, Where
from streamnorm.recording.faults.layout import boundary, events_of, is_stream, split

__all__ = ["cut", "error_event", "slow_first_byte", "stall", "truncate"]


def cut(**where: Unpack[Where]) -> Fault:
    """Return a fault: the connection is lost at a position.

    Raises:
        ValueError: There is not exactly one position.
    """
    return _Cut(Place(**where))


def truncate(**where: Unpack[Where]) -> Fault:
    """Return a fault: the body ends at a position as if it were complete.

    Raises:
        ValueError: There is not exactly one position.
    """
    return _Truncate(Place(**where))


def stall(*, s: float = math.inf, **where: Unpack[Where]) -> Fault:
    """Return a fault: a pause of `s` seconds at a position.

    Raises:
        ValueError: There is not exactly one position, or no such time.
    """
    return _Stall(Place(**where), s)


def slow_first_byte(s: float) -> Fault:
    """Return a fault: a pause of `s` seconds between the headers and the body.

    Raises:
        ValueError: There is no such time.
    """
    return _SlowFirstByte(s)


def error_event(**where: Unpack[Where]) -> Fault:
    """Return a fault: the provider reports that it is overloaded, and ends the stream.

    The error has the form of the answer's dialect for errors within a stream, and stands
    before the event at the position: providers write whole events.

    Raises:
        ValueError: There is not exactly one position.
    """
    return _ErrorEvent(Place(**where))


class _Cut(PlacedFault, frozen=True):
    name: ClassVar[str] = "cut"
    end: ClassVar[PlaybackEnd] = "reset"

    def inject(self, playback: Playback) -> Playback:
        before, _ = split(playback.steps, self.place.offset(playback.body))
        return structs.replace(playback, steps=tuple(before), end=self.end)


class _Truncate(_Cut, frozen=True):
    name: ClassVar[str] = "truncate"
    end: ClassVar[PlaybackEnd] = "eof"


class _Stall(PlacedFault, frozen=True):
    name: ClassVar[str] = "stall"
    s: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_seconds(self.name, self.s)

    def inject(self, playback: Playback) -> Playback:
        return _later(playback, self.place.offset(playback.body), self.s)

    def details(self) -> list[str]:
        return [*super().details(), f"s={self.s:g}"]


class _SlowFirstByte(Fault, frozen=True):
    name: ClassVar[str] = "slow_first_byte"
    s: float

    def __post_init__(self) -> None:
        _check_seconds(self.name, self.s)

    def inject(self, playback: Playback) -> Playback:
        if not playback.body:
            raise Misfit("body of 0 bytes")
        return _later(playback, 0, self.s)

    def details(self) -> list[str]:
        return [f"{self.s:g}"]


class _ErrorEvent(PlacedFault, frozen=True):
    name: ClassVar[str] = "error_event"

    def inject(self, playback: Playback) -> Playback:
        body = playback.body
        if not is_stream(body):
            raise Misfit("body that is no stream")
        events = events_of(body)
        dialect = dialect_of(playback.dialect, events)
        if dialect is None:
            raise Misfit("stream of an unknown dialect")
        at = boundary(body, self.place.offset(body))
        before, _ = split(playback.steps, at)
        count = sum(event.end <= at for event in events)
        error = overloaded_frames(dialect, body, events, count)
        return structs.replace(playback, steps=(*before, Step(0.0, error)), end="eof")


def _check_seconds(name: str, s: float) -> None:
    if not s > 0:
        raise ValueError(f"{name} of {s:g} seconds, expected more than 0")


def _later(playback: Playback, at: int, s: float) -> Playback:
    """Return an answer with a pause at an offset."""
    before, after = split(playback.steps, at)
    # At the end of the body, the end itself is delayed.
    first, *rest = after or [Step(0.0, b"")]
    late = structs.replace(first, stall_s=first.stall_s + s)
    return structs.replace(playback, steps=(*before, late, *rest))
