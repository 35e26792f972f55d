"""Faults that change the bytes of a body."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Unpack

from msgspec import structs

from streamnorm.recording.exchange import Playback, Step
from streamnorm.recording.faults.dialects import dialect_of, terminals
from streamnorm.recording.faults.fault import Fault, Misfit, Place, PlacedFault, Where
from streamnorm.recording.faults.layout import (
    Located,
    events_of,
    inserted,
    line_end,
    removed,
    unended,
)

__all__ = ["bom", "crlf", "drop", "drop_terminal", "duplicate", "garbage", "reorder"]

_BOM = b"\xef\xbb\xbf"
# Neither UTF-8 nor a line end, so that it corrupts the line it is inserted into.
_GARBAGE = b"\x80\xfe\xff\x00\xc3\x28"
_BARE_LINE_END = re.compile(rb"(?<!\r)\n|\r(?!\n)")
_SHOWN_BYTES = 16


def garbage(*, data: bytes = _GARBAGE, **where: Unpack[Where]) -> Fault:
    """Return a fault: bytes inserted at a position.

    Args:
        data: The bytes; by default invalid UTF-8 without a line end.
        where: The position.

    Raises:
        ValueError: There is not exactly one position, or there are no bytes.
    """
    return _Garbage(Place(**where), data)


def drop(**where: Unpack[Where]) -> Fault:
    """Return a fault: one event is missing.

    Raises:
        ValueError: There is not exactly one position.
    """
    return _Drop(Place(**where))


def duplicate(**where: Unpack[Where]) -> Fault:
    """Return a fault: one event comes twice.

    Raises:
        ValueError: There is not exactly one position.
    """
    return _Duplicate(Place(**where))


def reorder(**where: Unpack[Where]) -> Fault:
    """Return a fault: one event comes after the next.

    Raises:
        ValueError: There is not exactly one position.
    """
    return _Reorder(Place(**where))


def drop_terminal() -> Fault:
    """Return a fault: the terminal is missing, wherever the stream has one.

    That is every event that `Dialect.is_terminal` is true for, such as `[DONE]`.
    """
    return _DropTerminal()


def crlf() -> Fault:
    """Return a fault: every line ends in CRLF."""
    return _CRLF()


def bom() -> Fault:
    """Return a fault: a byte order mark comes first, if none does already."""
    return _BOMFirst()


class _Garbage(PlacedFault, frozen=True):
    name: ClassVar[str] = "garbage"
    data: bytes

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.data:
            raise ValueError("garbage of 0 bytes, expected some")

    def inject(self, playback: Playback) -> Playback:
        at = self.place.offset(playback.body)
        return _with(playback, inserted(playback.steps, at, self.data))

    def details(self) -> list[str]:
        if self.data == _GARBAGE:
            return super().details()
        short = len(self.data) <= _SHOWN_BYTES
        return [
            *super().details(),
            f"data={self.data!r}" if short else f"data={len(self.data)} bytes",
        ]


class _Drop(PlacedFault, frozen=True):
    name: ClassVar[str] = "drop"

    def inject(self, playback: Playback) -> Playback:
        _, event = self.place.located(events_of(playback.body))
        return _with(playback, removed(playback.steps, event.start, event.end))


class _Duplicate(PlacedFault, frozen=True):
    name: ClassVar[str] = "duplicate"

    def inject(self, playback: Playback) -> Playback:
        body = playback.body
        _, event = self.place.located(events_of(body))
        steps = list(playback.steps)
        return _with(playback, _insert_after(steps, body, event, body[event.start : event.end]))


class _Reorder(PlacedFault, frozen=True):
    name: ClassVar[str] = "reorder"

    def inject(self, playback: Playback) -> Playback:
        body = playback.body
        events = events_of(body)
        number, event = self.place.located(events)
        if number + 1 == len(events):
            raise Misfit(f"event {number} of {len(events)} has no next")
        following = events[number + 1]
        steps = _insert_after(list(playback.steps), body, following, body[event.start : event.end])
        return _with(playback, removed(steps, event.start, event.end))


class _DropTerminal(Fault, frozen=True):
    name: ClassVar[str] = "drop_terminal"

    def inject(self, playback: Playback) -> Playback:
        events = events_of(playback.body)
        found = terminals(dialect_of(playback.dialect, events), events)
        if not found:
            raise Misfit(f"no terminal in {len(events)} events")
        steps = list(playback.steps)
        for number in reversed(found):
            steps = removed(steps, events[number].start, events[number].end)
        return _with(playback, steps)


class _CRLF(Fault, frozen=True):
    name: ClassVar[str] = "crlf"

    def inject(self, playback: Playback) -> Playback:
        return _with(playback, list(_with_crlf(playback)))


class _BOMFirst(Fault, frozen=True):
    name: ClassVar[str] = "bom"

    def inject(self, playback: Playback) -> Playback:
        if playback.body.startswith(_BOM):
            return playback
        first, *rest = playback.steps or (Step(0.0, b""),)
        return _with(playback, [structs.replace(first, data=_BOM + first.data), *rest])


def _with(playback: Playback, steps: list[Step]) -> Playback:
    return structs.replace(playback, steps=tuple(steps))


def _insert_after(steps: list[Step], body: bytes, event: Located, data: bytes) -> list[Step]:
    """Return the steps with an event inserted after another, which gets a missing blank line."""
    if event.end == len(body) and unended(body):
        newline = line_end(body, b"\n")
        missing = newline if body.endswith((b"\r", b"\n")) else newline * 2
        data = missing + data
    return inserted(steps, event.end, data)


def _with_crlf(playback: Playback) -> Iterator[Step]:
    """Yield the steps with CRLF as every line end, divided as before."""
    body = playback.body
    bare = _BARE_LINE_END.finditer(body)
    next_bare = next(bare, None)
    position = end = 0
    for step in playback.steps:
        end += len(step.data)
        pieces: list[bytes] = []
        while next_bare is not None and next_bare.start() < end:
            pieces += [body[position : next_bare.start()], b"\r\n"]
            position = next_bare.end()
            next_bare = next(bare, None)
        pieces.append(body[position:end])
        position = end
        yield structs.replace(step, data=b"".join(pieces))
