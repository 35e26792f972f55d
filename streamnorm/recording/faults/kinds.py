"""Faults that end or delay a body."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import ClassVar, Unpack

from msgspec import structs

from streamnorm._core.codec import Dialect
from streamnorm.recording.exchange import Playback, PlaybackEnd, Step
from streamnorm.recording.faults.dialects import (
    dialect_of,
    error_body,
    overloaded_frames,
    overloaded_status,
    terminals,
)
from streamnorm.recording.faults.fault import (
    Fault,
    Located,
    Misfit,
    Place,
    PlacedFault,
    Where,
    boundary,
    events_of,
    inserted,
    is_stream,
    line_end,
    removed,
    split,
    unended,
)
from streamnorm.recording.recording import Recording


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


# Statuses that clients retry as soon as the server allows it.
_WITH_RETRY_AFTER = (429, 503, 529)


def content_type(value: str = "text/html") -> Fault:
    """Return a fault: another `content-type`."""
    return _ContentType(value)


def http(status: int, *, times: int | None = 1) -> Fault:
    """Return a fault: an error response that replaces the recording, which is not used up.

    Its body is the provider's error of that status; if the dialect is unknown, an error of
    Chat Completions.

    Args:
        status: From 400 to 599.
        times: Number of requests it answers; None for all.

    Raises:
        ValueError: The status is no error, or `times` is less than 1.
    """
    return _HTTP(status, times)


class _ContentType(Fault, frozen=True):
    name: ClassVar[str] = "content_type"
    value: str

    def inject(self, playback: Playback) -> Playback:
        return structs.replace(playback, headers={**playback.headers, "content-type": self.value})

    def details(self) -> list[str]:
        return [self.value]


class _HTTP(Fault, frozen=True):
    name: ClassVar[str] = "http"
    status: int
    requests: int | None

    def __post_init__(self) -> None:
        if not 400 <= self.status <= 599:
            raise ValueError(f"http of status {self.status}, expected 400 to 599")
        if self.requests is not None and self.requests < 1:
            raise ValueError(f"http {self.requests} times, expected 1 or more")

    @property
    def replaces(self) -> bool:
        return True

    @property
    def times(self) -> int | None:
        return self.requests

    def inject(self, playback: Playback) -> Playback:
        dialect = dialect_of(playback.dialect, events_of(playback.body))
        headers = {"content-type": "application/json"}
        if self.status in _WITH_RETRY_AFTER:
            # The official SDKs read the second first, and ignore one of 0.
            headers |= {"retry-after": "0", "retry-after-ms": "1"}
        body = error_body(dialect, self.status)
        return Playback(self.status, headers, (Step(0.0, body),), "eof", playback.dialect)

    def details(self) -> list[str]:
        times = [] if self.requests == 1 else [f"times={self.requests}"]
        return [str(self.status), *times]


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
