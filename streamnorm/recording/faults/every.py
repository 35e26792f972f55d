"""Every kind of fault that fits a recording."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamnorm._core.codec import Dialect
from streamnorm.recording.exchange import Playback
from streamnorm.recording.faults.answers import content_type, http
from streamnorm.recording.faults.breaks import cut, error_event, slow_first_byte, stall, truncate
from streamnorm.recording.faults.changes import (
    bom,
    crlf,
    drop,
    drop_terminal,
    duplicate,
    garbage,
    reorder,
)
from streamnorm.recording.faults.dialects import dialect_of, overloaded_status, terminals
from streamnorm.recording.faults.fault import Fault, Where
from streamnorm.recording.faults.layout import Located, events_of
from streamnorm.recording.recording import Recording

__all__ = ["every"]

_INSIDE_CHARACTER = re.compile(rb"[\xc2-\xf4](?=[\x80-\xbf])")
# Longer than the timeouts of HTTP clients, shorter than those of SDKs.
_SLOW_S = 60.0


def every(recording: Recording) -> Iterator[Fault]:
    """Yield each kind of fault that fits a recording, some at several positions.

    Faults that end or delay the body are injected before and inside the first event, inside
    a character, halfway, and before the terminal.  A recording that is no stream gets only
    the faults that need no event.
    """
    playback = recording.playback()
    events = events_of(playback.body)
    dialect = dialect_of(playback.dialect, events)
    if events:
        yield from dict.fromkeys(_stream(playback, events, dialect))
    elif playback.body:
        yield from dict.fromkeys(_body(len(playback.body)))
    yield content_type()
    for status in (401, 429, 500, overloaded_status(dialect)):
        yield http(status)


def _body(size: int) -> Iterator[Fault]:
    yield slow_first_byte(_SLOW_S)
    for byte in (0, size // 2):
        yield cut(byte=byte)
        yield truncate(byte=byte)
        yield stall(byte=byte)
    yield garbage(byte=size // 2)


def _stream(playback: Playback, events: list[Located], dialect: Dialect | None) -> Iterator[Fault]:
    body, count = playback.body, len(events)
    half = count // 2
    ends = terminals(dialect, events)
    last = ends[0] if ends else count - 1
    yield slow_first_byte(_SLOW_S)
    for where in _places(body, events, last):
        yield cut(**where)
        yield truncate(**where)
        yield stall(**where)
    yield garbage(event=0)
    yield garbage(event=half)
    yield garbage(byte=_inside(events[half]))
    if dialect is not None and (dialect.encoder or dialect.overloaded_frames):
        for event in (0, half, last - count):
            yield error_event(event=event)
    if ends:
        yield drop_terminal()
    for event in (0, half, count - 2):
        if event >= 0:
            yield drop(event=event)
            yield duplicate(event=event)
        if 0 <= event < count - 1 and events[event].frame != events[event + 1].frame:
            yield reorder(event=event)
    if crlf()(playback) != playback:
        yield crlf()
    if bom()(playback) != playback:
        yield bom()


def _places(body: bytes, events: list[Located], last: int) -> Iterator[Where]:
    """Yield the positions of breaks, each offset once."""
    character = _INSIDE_CHARACTER.search(body)
    half = len(events) // 2
    places: list[tuple[int, Where]] = [
        (events[0].start, {"event": 0}),
        (events[last].start, {"event": last - len(events)}),
        (events[half].start, {"event": half}),
        *((at, Where(byte=at)) for at in (_inside(events[0]), _inside(events[half]))),
    ]
    if character is not None:
        places.append((character.end(), {"byte": character.end()}))
    seen: set[int] = set()
    for at, where in places:
        if at not in seen:
            seen.add(at)
            yield where


def _inside(event: Located) -> int:
    """Return the offset of the middle of an event."""
    return (event.start + event.end) // 2
