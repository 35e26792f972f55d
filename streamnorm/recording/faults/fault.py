"""Base class of faults, positions in a body, and the queue of faults to inject.

Events of a body, its terminals and its errors are found by their offsets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from msgspec import Struct, structs

from streamnorm._core.codec import Dialect
from streamnorm._core.codec.endpoints import Cloud
from streamnorm._core.codec.websocket_messages import WS_MESSAGE
from streamnorm._core.events import StreamError
from streamnorm._core.json import compact, object_in
from streamnorm._core.limits import Limits
from streamnorm._registry import DEFAULT_ERROR_DIALECT, DIALECTS, detect, encoder
from streamnorm.recording.format import Playback, Step
from streamnorm.sse import Frame

When: TypeAlias = Callable[[Frame], bool]
"""Returns whether an event is the one at which the fault is injected."""

_SHOWN_BYTES = 16


class ReplayFault(Protocol):
    """Protocol of faults: callables that change a playback, for a number of requests."""

    @property
    def times(self) -> int | None:
        """Number of requests that the fault affects; None for all."""
        ...

    @property
    def replaces(self) -> bool:
        """Whether the fault answers the request, whose recording remains unplayed."""
        ...

    def __call__(self, playback: Playback, /) -> Playback:
        """Return the playback with the fault."""
        ...


class FaultQueue:
    """Faults of a replay, each injected until it has affected `times` requests; not thread-safe.

    Args:
        faults: All faults, in the order in which they are applied.
    """

    def __init__(self, faults: Iterable[ReplayFault]) -> None:
        self._faults = tuple(faults)
        self._times_left = [fault.times for fault in self._faults]

    def take(self) -> Sequence[ReplayFault]:
        """Return the faults to inject into the next answer, and count the request.

        A fault that replaces the recording comes first, and is the only one of its request.
        """
        ready = [n for n, left in enumerate(self._times_left) if left != 0]
        ready = [n for n in ready if self._faults[n].replaces][:1] or ready
        for n in ready:
            if (left := self._times_left[n]) is not None:
                self._times_left[n] = left - 1
        return [self._faults[n] for n in ready]


class Fault(Struct, frozen=True):
    """A fault to inject into a played answer."""

    # No class variable: pyright accepts none for the property of `ReplayFault`.
    @property
    def replaces(self) -> bool:
        """Whether the fault answers instead of a recording, which remains unplayed."""
        return False

    @property
    def name(self) -> str:
        """Name of the kind, such as `cut`."""
        return type(self).__name__

    @property
    def times(self) -> int | None:
        """Number of requests, from the first on, that the fault affects; None for all."""
        return None

    def __call__(self, playback: Playback) -> Playback:
        """Return an answer with the fault injected.

        Raises:
            ValueError: The answer lacks what the fault needs.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        """Return a Python call that creates the fault.

        The seconds of a pause are always part of it.
        """
        positional = frozenset[str](type(self).__match_args__)
        shown: list[str] = []
        for field in structs.fields(self):
            value = getattr(self, field.name)
            if field.name in positional:
                shown.append(_show(value))
            elif value != field.default or isinstance(value, float):
                shown.append(f"{field.name}={_show(value)}")
        return f"{self.name}({', '.join(shown)})"

    def _make_error(self, finding: str) -> ValueError:
        return ValueError(f"{self}: {finding}")


def _show(value: Any) -> str:
    if isinstance(value, bytes):
        return repr(value) if len(value) <= _SHOWN_BYTES else f"{len(value)} bytes"
    if callable(value):
        return str(getattr(value, "__name__", type(value).__name__))
    return f"{value:g}" if isinstance(value, float) else str(value)


class PositionedFault(Fault, frozen=True, kw_only=True):
    """A fault at a position in the body, given by exactly one of `byte`, `event` and `when`.

    Attributes:
        byte: Offset in bytes.
        event: Number of an event, from 0, or negative from the end.
        when: Returns true for the event; the first one counts.
    """

    byte: int | None = None
    event: int | None = None
    when: When | None = None

    def __post_init__(self) -> None:
        count = sum(position is not None for position in (self.byte, self.event, self.when))
        if count != 1:
            raise ValueError(f"{self.name} with {count} places, expected one of byte, event, when")
        if self.byte is not None and self.byte < 0:
            raise ValueError(f"{self.name} at byte {self.byte}, expected 0 or more")

    def _find_offset(self, playback: Playback) -> int:
        """Return the byte offset of the position."""
        if self.byte is None:
            return self._locate(events_of(playback))[1].start
        size = len(playback.body)
        if self.byte > size:
            raise self._make_error(f"body of {size} bytes")
        return self.byte

    def _locate(self, events: list[Located]) -> tuple[int, Located]:
        """Return the number of the event at the position, and the event."""
        if self.event is not None:
            number = self.event + len(events) if self.event < 0 else self.event
            if not 0 <= number < len(events):
                raise self._make_error(f"body of {len(events)} events")
            return number, events[number]
        for number, located in enumerate(events):
            if self.byte is not None:
                if located.start <= self.byte < located.end:
                    return number, located
            elif self.when is not None and self.when(located.frame):
                return number, located
        raise self._make_error(f"none of {len(events)} events is there")


class ReplacingFault(Fault, frozen=True, kw_only=True):
    """A fault that answers a request itself; the recording remains unplayed.

    Attributes:
        times: Number of requests it answers; None for all.
    """

    @property
    def replaces(self) -> bool:
        """True: the fault answers instead of the recording."""
        return True

    # A field is read as the property is.
    times: int | None = 1  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        if self.times is not None and self.times < 1:
            raise ValueError(f"{self.name} {self.times} times, expected 1 or more")


_LINE_END = re.compile(rb"\r\n|\r|\n")
_BLANK = b" \t\r\n\xef\xbb\xbf"


class Located(Struct, frozen=True):
    """An event and its byte range in the body.

    Attributes:
        start: Offset of its first byte.
        end: Offset after its last byte.
        frame: The fields.
    """

    start: int
    end: int
    frame: Frame


def events_of(playback: Playback) -> list[Located]:
    """Return the events of a body; the last one may be incomplete."""
    body, layout = playback.body, playback.framing.layout
    reader = layout.frame_reader(Limits())
    events: list[Located] = []
    start = 0
    for end in layout.find_event_ends(body):
        frames: Sequence[Frame | None] = reader.feed(body[start:end])
        if not frames and end == len(body):
            frames = [reader.unterminated()]
        events += [Located(start, end, frame) for frame in frames if frame is not None]
        start = end
    return events


def is_stream(playback: Playback) -> bool:
    """Return whether a body may be a stream, since it starts as neither JSON nor HTML."""
    start = playback.body.lstrip(_BLANK)[:1]
    return playback.framing is WS_MESSAGE or start not in (b"{", b"[", b"<")


def find_event_boundary(playback: Playback, at: int) -> int:
    """Return the last offset, at most `at`, where an event may begin."""
    body, layout = playback.body, playback.framing.layout
    ends = layout.find_event_ends(body)
    if not layout.is_whole(body):
        del ends[-1]
    return max((end for end in ends if end <= at), default=0)


def find_line_end(body: bytes, default: bytes) -> bytes:
    """Return the line end that a body uses first: LF, CR or CRLF; the default if there is none."""
    found = _LINE_END.search(body)
    return default if found is None else found[0]


def split(steps: Iterable[Step], at: int) -> tuple[list[Step], list[Step]]:
    """Return a playback's steps before and after an offset.

    A step across it becomes two, which arrive at the same time.
    """
    before: list[Step] = []
    after: list[Step] = []
    left = at
    for step in steps:
        size = len(step.data)
        if after or (size > left == 0):
            after.append(step)
        elif size <= left:
            before.append(step)
            left -= size
        else:
            before.append(structs.replace(step, data=step.data[:left]))
            after.append(Step(0.0, step.data[left:]))
            left = 0
    return before, after


def delay(playback: Playback, at: int, s: float) -> Playback:
    """Return a playback with a pause of `s` seconds at an offset."""
    before, after = split(playback.steps, at)
    # At the end of the body, the end itself is delayed.
    first, *rest = after or [Step(0.0, b"")]
    late = structs.replace(first, stall_s=first.stall_s + s)
    return structs.replace(playback, steps=(*before, late, *rest))


def insert(playback: Playback, at: int, data: bytes) -> Playback:
    """Return a playback with bytes inserted at an offset, without a delay of their own."""
    before, after = split(playback.steps, at)
    return structs.replace(playback, steps=(*before, Step(0.0, data), *after))


def insert_after(playback: Playback, event: Located, data: bytes) -> Playback:
    """Return a playback with the bytes of an event inserted after `event`."""
    body = playback.body
    # Only lines can be an event without its end: half a message is none.
    if event.end == len(body) and not playback.framing.layout.is_whole(body):
        newline = find_line_end(body, b"\n")
        missing = newline if body.endswith((b"\r", b"\n")) else newline * 2
        data = missing + data
    return insert(playback, event.end, data)


def remove(playback: Playback, event: Located) -> Playback:
    """Return a playback without an event; later bytes keep their timing."""
    before, rest = split(playback.steps, event.start)
    gone, after = split(rest, event.end - event.start)
    if after:
        first = after[0]
        after[0] = structs.replace(
            first,
            delay_s=first.delay_s + sum(step.delay_s for step in gone),
            stall_s=first.stall_s + sum(step.stall_s for step in gone),
        )
    return structs.replace(playback, steps=(*before, *after))


def find_dialect(name: str | None, events: list[Located]) -> Dialect | None:
    """Return an answer's dialect, by its name or its events; None if unknown.

    A variant may go by the name of its dialect, and is recognised by its first event.
    """
    if name is None or name not in DIALECTS:
        name = next((found for e in events if (found := _detect(e.frame)) is not None), None)
    if name is None:
        return None
    for variant in DIALECTS.values():
        if variant.variant_of == name and events and variant.recognises(events[0].frame):
            return variant
    return DIALECTS[name]


def _detect(frame: Frame) -> str | None:
    # Some recordings hold the type of an event only as its name.  Several dialects have `error`.
    if frame.event not in ("message", "error") and "type" not in (value := object_in(frame.data)):
        named = Frame(frame.event, compact({"type": frame.event, **value}))
        return detect(named) or detect(frame)
    return detect(frame)


def find_terminals(dialect: Dialect | None, events: list[Located]) -> list[int]:
    """Return the numbers of the terminal events."""
    if dialect is None:
        return []
    return [n for n, event in enumerate(events) if dialect.is_terminal(event.frame)]


def find_overloaded_status(dialect: Dialect | None, cloud: Cloud | None) -> int:
    """Return the HTTP status of an overloaded server in a dialect."""
    if cloud is not None:
        return cloud.overloaded_status
    return 503 if dialect is None else dialect.overloaded_status


def make_error(status: int) -> StreamError:
    """Return the error for an error response."""
    # Of a request for an answer only the model can be missing.
    code = "model_not_found" if status == 404 else None
    return StreamError("upstream", f"status {status}, injected as a fault", code, status)


def encode_error(dialect: Dialect | None, status: int) -> bytes:
    """Return the body of an error response."""
    error = make_error(status)
    if dialect is None:
        return encoder(DEFAULT_ERROR_DIALECT).error_body(error)
    if dialect.error_body is not None:
        return dialect.error_body(error)
    name = dialect.name if dialect.encoder is not None else dialect.variant_of
    return encoder(name or DEFAULT_ERROR_DIALECT).error_body(error)


def encode_overload(
    dialect: Dialect, playback: Playback, events: list[Located], before: int
) -> bytes:
    """Return the events that report an overloaded server within a stream.

    Args:
        dialect: Dialect of the stream.
        playback: The stream, whose framing and line ends the events get.
        events: The events of the stream.
        before: Number of events that precede the error.

    Raises:
        UnknownDialect: The dialect cannot be written.
    """
    message = "overloaded, injected as a fault"
    # Only in messages is the error the cloud's: in lines, it is an event of the vendor.
    cloud = playback.cloud if playback.framing.writer is not None else None
    status = find_overloaded_status(dialect, cloud)
    error = StreamError("upstream", message, status_hint=status)
    if dialect.overloaded_frames is not None:
        frames = [event.frame for event in events]
        data = dialect.overloaded_frames(message, frames, before)
    else:
        data = encoder(dialect.name).encode(error)
    if playback.framing.writer is not None:
        return playback.framing.writer().write(data, error)
    ends = find_line_end(playback.body, find_line_end(data, b"\n"))
    return data.replace(b"\r\n", b"\n").replace(b"\n", ends)
