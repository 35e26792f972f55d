"""Faults: failures to inject between a provider and its client.

`fault(playback)` returns a played answer with the fault injected; a list of faults is applied
in order.  Faults with equal arguments are equal, and `str(fault)` is an id for a parametrised
test, such as `cut(byte=900)`.

    cut(…)                 the connection is lost
    truncate(…)            the body ends as if it were complete
    stall(…, s=inf)        a pause of `s` seconds
    slow_first_byte(s)     a pause before the body
    garbage(…, data=…)     inserted bytes
    error_event(…)         the provider's own error before an event, and the end of the stream
    drop_terminal()        the terminal is missing
    drop(…)                one event is missing
    duplicate(…)           one event comes twice
    reorder(…)             one event comes after the next
    crlf()                 every line ends in CRLF
    bom()                  a byte order mark comes first
    content_type(value)    another content type
    http(status, times=1)  an error response with the provider's own body, for `times` requests;
                           None for all

`…` is one position: `byte=` an offset in the body, `event=` before the event of that number
(from 0; negative from the end), or `when=` before the first event whose `streamnorm.sse.Frame`
it returns true for.  For `drop`, `duplicate` and `reorder` it is the event that begins there,
or that holds the byte.  Comments and blank lines are no events; data at the end of the body
without a blank line is one.  In an event stream of AWS each whole message is an event, of which
`when` gets the event in it; `crlf` and `bom` are for lines of text alone.

All other bytes arrive when they would have.  A position that the answer does not have is a
`ValueError` when the fault is applied; none, or several, when it is made.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import TypedDict

from msgspec import structs

from streamnorm._core.codec import Dialect
from streamnorm._core.codec.framing import SSE
from streamnorm.recording.faults.fault import (
    Fault,
    FaultQueue,
    Located,
    PositionedFault,
    ReplacingFault,
    ReplayFault,
    When,
    delay,
    encode_error,
    encode_overload,
    events_of,
    find_dialect,
    find_event_boundary,
    find_overloaded_status,
    find_terminals,
    insert,
    insert_after,
    is_stream,
    make_error,
    remove,
    split,
)
from streamnorm.recording.format import Playback, Step
from streamnorm.recording.recording import Recording, split_at

__all__ = [
    "Fault",
    "FaultQueue",
    "ReplayFault",
    "When",
    "bom",
    "content_type",
    "crlf",
    "cut",
    "drop",
    "drop_terminal",
    "duplicate",
    "error_event",
    "every",
    "garbage",
    "http",
    "reorder",
    "slow_first_byte",
    "stall",
    "truncate",
]

_BOM = b"\xef\xbb\xbf"
# Neither UTF-8 nor a line end, so that it corrupts the line it is inserted into.
_GARBAGE = b"\x80\xfe\xff\x00\xc3\x28"
_BARE_LINE_END = re.compile(rb"(?<!\r)\n|\r(?!\n)")
# Statuses that clients retry as soon as the server allows it.
_WITH_RETRY_AFTER = (429, 503, 529)
_INSIDE_CHARACTER = re.compile(rb"[\xc2-\xf4](?=[\x80-\xbf])")
_NO_LINES = "event stream in messages, expected lines"
# Longer than the timeouts of HTTP clients, shorter than those of SDKs.
_SLOW_S = 60.0


class cut(PositionedFault, frozen=True):
    """Fault: the connection is lost at a position."""

    def __call__(self, playback: Playback) -> Playback:
        before, _ = split(playback.steps, self._find_offset(playback))
        return structs.replace(playback, steps=tuple(before), end="reset")


class truncate(PositionedFault, frozen=True):
    """Fault: the body ends at a position as if it were complete."""

    def __call__(self, playback: Playback) -> Playback:
        before, _ = split(playback.steps, self._find_offset(playback))
        return structs.replace(playback, steps=tuple(before), end="eof")


class stall(PositionedFault, frozen=True, kw_only=True):
    """Fault: a pause at a position.

    Attributes:
        s: Seconds, more than 0.
    """

    s: float = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_seconds(self.name, self.s)

    def __call__(self, playback: Playback) -> Playback:
        return delay(playback, self._find_offset(playback), self.s)


class slow_first_byte(Fault, frozen=True):
    """Fault: a pause between the headers and the body.

    Attributes:
        s: Seconds, more than 0.
    """

    s: float

    def __post_init__(self) -> None:
        _check_seconds(self.name, self.s)

    def __call__(self, playback: Playback) -> Playback:
        if not playback.body:
            raise self._make_error("body of 0 bytes")
        return delay(playback, 0, self.s)


def _check_seconds(name: str, s: float) -> None:
    if not s > 0:
        raise ValueError(f"{name} of {s:g} seconds, expected more than 0")


class error_event(PositionedFault, frozen=True):
    """Fault: the provider reports that it is overloaded, and ends the stream.

    The error has the form of the answer's dialect for errors within a stream, and stands
    before the event at the position: providers write whole events.  In an event stream of AWS
    it is an exception.
    """

    def __call__(self, playback: Playback) -> Playback:
        if not is_stream(playback):
            raise self._make_error("body that is no stream")
        events = events_of(playback)
        dialect = find_dialect(playback.dialect, events)
        if dialect is None:
            raise self._make_error("stream of an unknown dialect")
        at = find_event_boundary(playback, self._find_offset(playback))
        before, _ = split(playback.steps, at)
        count = sum(event.end <= at for event in events)
        error = encode_overload(dialect, playback, events, count)
        return structs.replace(playback, steps=(*before, Step(0.0, error)), end="eof")


class garbage(PositionedFault, frozen=True, kw_only=True):
    """Fault: inserted bytes at a position.

    Attributes:
        data: The bytes; by default invalid UTF-8 without a line end.
    """

    data: bytes = _GARBAGE

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.data:
            raise ValueError("garbage of 0 bytes, expected some")

    def __call__(self, playback: Playback) -> Playback:
        return insert(playback, self._find_offset(playback), self.data)


class drop(PositionedFault, frozen=True):
    """Fault: one event is missing."""

    def __call__(self, playback: Playback) -> Playback:
        _, event = self._locate(events_of(playback))
        return remove(playback, event)


class duplicate(PositionedFault, frozen=True):
    """Fault: one event is sent twice."""

    def __call__(self, playback: Playback) -> Playback:
        _, event = self._locate(events_of(playback))
        return insert_after(playback, event, playback.body[event.start : event.end])


class reorder(PositionedFault, frozen=True):
    """Fault: one event changes places with the event after it."""

    def __call__(self, playback: Playback) -> Playback:
        events = events_of(playback)
        number, event = self._locate(events)
        if number + 1 == len(events):
            raise self._make_error(f"event {number} of {len(events)} has no next")
        following = events[number + 1]
        data = playback.body[event.start : event.end]
        return remove(insert_after(playback, following, data), event)


class drop_terminal(Fault, frozen=True):
    """Fault: all terminal events, such as `[DONE]`, are missing."""

    def __call__(self, playback: Playback) -> Playback:
        events = events_of(playback)
        terminals = find_terminals(find_dialect(playback.dialect, events), events)
        if not terminals:
            raise self._make_error(f"no terminal in {len(events)} events")
        for number in reversed(terminals):
            playback = remove(playback, events[number])
        return playback


class crlf(Fault, frozen=True):
    """Fault: every line ends in CRLF."""

    def __call__(self, playback: Playback) -> Playback:
        if not _is_text(playback):
            raise self._make_error(_NO_LINES)
        body = playback.body
        added = [match.start() for match in _BARE_LINE_END.finditer(body)]
        ends = accumulate(len(step.data) for step in playback.steps)
        ends_with_added = [end + bisect_left(added, end) for end in ends]
        chunks = split_at(_BARE_LINE_END.sub(b"\r\n", body), ends_with_added)
        steps = zip(playback.steps, chunks, strict=True)
        return structs.replace(
            playback, steps=tuple(structs.replace(step, data=data) for step, data in steps)
        )


class bom(Fault, frozen=True):
    """Fault: the body starts with a byte order mark."""

    def __call__(self, playback: Playback) -> Playback:
        if not _is_text(playback):
            raise self._make_error(_NO_LINES)
        if playback.body.startswith(_BOM):
            return playback
        first, *rest = playback.steps or (Step(0.0, b""),)
        return structs.replace(
            playback, steps=(structs.replace(first, data=_BOM + first.data), *rest)
        )


class content_type(Fault, frozen=True):
    """Fault: the `content-type` header is replaced.

    Attributes:
        value: The content type.
    """

    value: str = "text/html"

    def __call__(self, playback: Playback) -> Playback:
        return structs.replace(playback, headers={**playback.headers, "content-type": self.value})


class http(ReplacingFault, frozen=True):
    """Fault: an error response answers a request, whose recording remains unplayed.

    Its body is the provider's error of that status; if the dialect is unknown, an error of
    Chat Completions.

    Attributes:
        status: HTTP status from 400 to 599.
    """

    status: int

    def __post_init__(self) -> None:
        if not 400 <= self.status <= 599:
            raise ValueError(f"http of status {self.status}, expected 400 to 599")
        super().__post_init__()

    def __call__(self, playback: Playback) -> Playback:
        dialect = find_dialect(playback.dialect, events_of(playback))
        headers = {"content-type": "application/json"}
        if self.status in _WITH_RETRY_AFTER:
            # The official SDKs read the second first, and ignore one of 0.
            headers |= {"retry-after": "0", "retry-after-ms": "1"}
        body = encode_error(dialect, self.status)
        if (cloud := playback.cloud) is not None:
            error = make_error(self.status)
            body = cloud.error_body(error.message)
            headers |= cloud.error_headers(error)
        steps = (Step(0.0, body),)
        return structs.replace(
            playback, status=self.status, headers=headers, steps=steps, end="eof"
        )


def _is_text(playback: Playback) -> bool:
    return playback.framing is SSE


class _Position(TypedDict, total=False):
    byte: int
    event: int


def every(recording: Recording) -> Iterator[Fault]:
    """Yield each kind of fault that fits a recording, some at several positions.

    Faults that end or delay the body are injected before and inside the first event, inside
    a character, halfway, and before the terminal.  A recording that is no stream gets only
    the faults that need no event.
    """
    playback = recording.playback()
    events = events_of(playback)
    dialect = find_dialect(playback.dialect, events)
    if events:
        yield from dict.fromkeys(_choose_stream_faults(playback, events, dialect))
    elif playback.body:
        yield from dict.fromkeys(_choose_body_faults(len(playback.body)))
    yield content_type()
    statuses = (401, 429, 500, find_overloaded_status(dialect, playback.cloud))
    yield from dict.fromkeys(map(http, statuses))


def _choose_body_faults(size: int) -> Iterator[Fault]:
    yield slow_first_byte(_SLOW_S)
    for byte in (0, size // 2):
        yield cut(byte=byte)
        yield truncate(byte=byte)
        yield stall(byte=byte)
    yield garbage(byte=size // 2)


def _choose_stream_faults(
    playback: Playback, events: list[Located], dialect: Dialect | None
) -> Iterator[Fault]:
    count = len(events)
    half = count // 2
    ends = find_terminals(dialect, events)
    last = ends[0] if ends else count - 1
    yield slow_first_byte(_SLOW_S)
    for position in _choose_break_positions(playback, events, last):
        yield cut(**position)
        yield truncate(**position)
        yield stall(**position)
    yield garbage(event=0)
    yield garbage(event=half)
    yield garbage(byte=_middle_of(events[half]))
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
    if _is_text(playback):
        yield from (fault for fault in (crlf(), bom()) if fault(playback) != playback)


def _choose_break_positions(
    playback: Playback, events: list[Located], last: int
) -> list[_Position]:
    """Return the positions, with distinct offsets, at which to cut, truncate or stall a stream."""
    half = len(events) // 2
    positions: dict[int, _Position] = {}
    for number, event in ((0, 0), (last, last - len(events)), (half, half)):
        positions.setdefault(events[number].start, {"event": event})
    offsets = [_middle_of(events[0]), _middle_of(events[half])]
    if not _is_text(playback):
        # Inside the lengths, behind them, and inside the checksum at the end.
        offsets += [events[half].start + 2, events[half].start + 8, events[half].end - 2]
    elif (character := _INSIDE_CHARACTER.search(playback.body)) is not None:
        offsets.append(character.end())
    for offset in offsets:
        positions.setdefault(offset, {"byte": offset})
    return [*positions.values()]


def _middle_of(event: Located) -> int:
    return (event.start + event.end) // 2
