"""The fault, its position in a body, and the queue of the faults of the next playbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias

from msgspec import Struct, structs

from streamnorm.recording.faults.offsets import Located, events_of
from streamnorm.recording.format import Playback
from streamnorm.sse import Frame

When: TypeAlias = Callable[[Frame], bool]
"""Returns whether an event is the one at which the fault is injected."""

_SHOWN_BYTES = 16


class ReplayFault(Protocol):
    """A fault that changes playbacks."""

    @property
    def times(self) -> int | None:
        """Number of requests that it affects; None for all."""
        ...

    @property
    def replaces(self) -> bool:
        """Whether it answers instead of a recording, which remains unplayed."""
        ...

    def __call__(self, playback: Playback, /) -> Playback:
        """Return the playback with the fault."""
        ...


class FaultQueue:
    """The faults that remain, counted request by request; not thread-safe.

    Args:
        faults: All faults, in the order in which they are applied.
    """

    def __init__(self, faults: Iterable[ReplayFault]) -> None:
        self._faults = tuple(faults)
        self._times_left = [fault.times for fault in self._faults]

    def take(self) -> Sequence[ReplayFault]:
        """Return the faults of the next request, and count them.

        A fault that replaces the recording comes first, and is the only one of its request.
        """
        ready = [n for n, left in enumerate(self._times_left) if left != 0]
        ready = [n for n in ready if self._faults[n].replaces][:1] or ready
        for n in ready:
            if (left := self._times_left[n]) is not None:
                self._times_left[n] = left - 1
        return [self._faults[n] for n in ready]


class Fault(Struct, frozen=True):
    """A failure to inject into a played answer.

    Attributes:
        replaces: Whether it answers instead of a recording, which remains unplayed.
    """

    replaces: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Name of the kind, such as `cut`."""
        return type(self).__name__

    @property
    def times(self) -> int | None:
        """Number of requests it applies to, the first ones; None for all."""
        return None

    def __call__(self, playback: Playback) -> Playback:
        """Return the answer with the fault injected.

        Raises:
            ValueError: The answer lacks what the fault needs.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        """Return the call that makes the fault, without keyword arguments of default value.

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
    """A fault at one position of the body: exactly one of `byte`, `event` and `when`.

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
        """Return the offset of the position in bytes."""
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
    """A fault that answers instead of a recording.

    Attributes:
        times: Number of requests it answers; None for all.
    """

    replaces: ClassVar[bool] = True

    # A field is read as the property is.
    times: int | None = 1  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        if self.times is not None and self.times < 1:
            raise ValueError(f"{self.name} {self.times} times, expected 1 or more")
