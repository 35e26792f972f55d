"""The fault, and its position in a body."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeAlias, TypedDict

from msgspec import Struct

from streamnorm.recording.exchange import Playback
from streamnorm.recording.faults.layout import Located, events_of
from streamnorm.sse import Frame

__all__ = ["Fault", "Misfit", "Place", "PlacedFault", "When", "Where"]

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
