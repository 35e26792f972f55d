"""The fault, and its position in a body."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, TypeAlias, TypedDict

from msgspec import Struct, structs

from streamnorm.recording.exchange import Playback, Step
from streamnorm.recording.recording import event_ends
from streamnorm.sse import Frame, SSEDecoder

When: TypeAlias = Callable[[Frame], bool]
"""Returns whether an event is the one at which the fault is injected."""


class Where(TypedDict, total=False):
    """A position in a body: exactly one of these.

    Attributes:
        byte: Offset in bytes.
        event: Number of an event, from 0, or negative from the end.
        when: Returns true for the event; the first one counts.
    """

    byte: int
    event: int
    when: When


class Misfit(Exception):
    """Raised within a fault: the answer lacks what it needs.  Becomes a `ValueError`."""


class Fault(Struct, frozen=True):
    """A failure to inject into a played answer.

    Attributes:
        name: Name of the function that makes it, such as `cut`.
    """

    name: ClassVar[str]

    @property
    def replaces(self) -> bool:
        """Whether it replaces the recording, which is then not used up."""
        return False

    @property
    def times(self) -> int | None:
        """Number of requests it applies to, the first ones; None for all."""
        return None

    def __call__(self, playback: Playback) -> Playback:
        """Return the answer with the fault injected.

        Raises:
            ValueError: The answer lacks what the fault needs.
        """
        try:
            return self.inject(playback)
        except Misfit as misfit:
            raise ValueError(f"{self}: {misfit}") from None

    def inject(self, playback: Playback) -> Playback:
        """Return the answer with the fault injected.

        Raises:
            Misfit: The answer lacks what the fault needs.
        """
        raise NotImplementedError

    def details(self) -> list[str]:
        """Return the arguments that `str` shows."""
        return []

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(self.details())})"


class Place(Struct, frozen=True):
    """A position in a body, given in one of the three ways of `Where`."""

    byte: int | None = None
    event: int | None = None
    when: When | None = None

    def check(self, name: str) -> None:
        """Check that exactly one position is given.

        Raises:
            ValueError: None or several are, or it lies before the body.
        """
        count = sum(kind is not None for kind in (self.byte, self.event, self.when))
        if count != 1:
            raise ValueError(f"{name} with {count} places, expected one of byte, event, when")
        if self.byte is not None and self.byte < 0:
            raise ValueError(f"{name} at byte {self.byte}, expected 0 or more")

    def offset(self, body: bytes) -> int:
        """Return the offset of the position in bytes.

        Raises:
            Misfit: The body has no such position.
        """
        if self.byte is None:
            return self.located(events_of(body))[1].start
        if self.byte > len(body):
            raise Misfit(f"body of {len(body)} bytes")
        return self.byte

    def located(self, events: list[Located]) -> tuple[int, Located]:
        """Return the number of the event at the position, and the event.

        Raises:
            Misfit: There is none.
        """
        if self.event is not None:
            number = self.event + len(events) if self.event < 0 else self.event
            if not 0 <= number < len(events):
                raise Misfit(f"body of {len(events)} events")
            return number, events[number]
        for number, located in enumerate(events):
            if self.byte is not None:
                if located.start <= self.byte < located.end:
                    return number, located
            elif self.when is not None and self.when(located.frame):
                return number, located
        raise Misfit(f"none of {len(events)} events is there")

    def __repr__(self) -> str:
        if self.when is not None:
            return f"when={getattr(self.when, '__name__', type(self.when).__name__)}"
        return f"event={self.event}" if self.byte is None else f"byte={self.byte}"


class PlacedFault(Fault, frozen=True):
    """A fault at one position."""

    place: Place

    def __post_init__(self) -> None:
        self.place.check(self.name)

    def details(self) -> list[str]:  # noqa: D102 - as declared
        return [str(self.place)]


_LINE_END = re.compile(rb"\r\n|\r|\n")
_BLANK_END = re.compile(rb"(?:(?>\r\n|\r|\n)){2}\Z")
_BLANK = b" \t\r\n\xef\xbb\xbf"


class Located(Struct, frozen=True):
    """An event and its byte range in the body, including its blank line.

    Attributes:
        start: Offset of its first byte.
        end: Offset after its last byte.
        frame: Its fields.
    """

    start: int
    end: int
    frame: Frame


def events_of(body: bytes) -> list[Located]:
    """Return the events of a body; the last one may lack its blank line."""
    sse = SSEDecoder()
    events: list[Located] = []
    start = 0
    for end in event_ends(body):
        frames: Sequence[Frame | None] = sse.feed(body[start:end])
        if not frames and end == len(body):
            frames = [sse.unterminated()]
        events += [Located(start, end, frame) for frame in frames if frame is not None]
        start = end
    return events


def is_stream(body: bytes) -> bool:
    """Return whether a body may be an event stream: it starts as neither JSON nor HTML."""
    return body.lstrip(_BLANK)[:1] not in (b"{", b"[", b"<")


def boundary(body: bytes, at: int) -> int:
    """Return the last offset up to `at` where an event may begin."""
    ends = event_ends(body)
    if unended(body):
        del ends[-1]
    return max((end for end in ends if end <= at), default=0)


def line_end(body: bytes, default: bytes) -> bytes:
    """Return the first line end of a body, or the default if it has none."""
    found = _LINE_END.search(body)
    return default if found is None else found[0]


def unended(body: bytes) -> bool:
    """Return whether the last event of a body lacks its blank line."""
    return bool(body) and _BLANK_END.search(body, max(0, len(body) - 4)) is None


def split(steps: Iterable[Step], at: int) -> tuple[list[Step], list[Step]]:
    """Return the steps before and after an offset.

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


def inserted(steps: Iterable[Step], at: int, data: bytes) -> list[Step]:
    """Return the steps with bytes inserted; they arrive with the bytes before them."""
    before, after = split(steps, at)
    return [*before, Step(0.0, data), *after]


def removed(steps: Iterable[Step], start: int, end: int) -> list[Step]:
    """Return the steps without a range of bytes; later bytes arrive when they did."""
    before, rest = split(steps, start)
    gone, after = split(rest, end - start)
    if after:
        first = after[0]
        after[0] = structs.replace(
            first,
            delay_s=first.delay_s + sum(step.delay_s for step in gone),
            stall_s=first.stall_s + sum(step.stall_s for step in gone),
        )
    return [*before, *after]
