"""What a fault is, and the place that one is at."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeAlias, TypedDict

from msgspec import Struct

from streamnorm.recording.exchange import Playback
from streamnorm.recording.faults.layout import Located, events_of
from streamnorm.sse import Frame

__all__ = ["Fault", "Misfit", "Place", "PlacedFault", "When", "Where"]

When: TypeAlias = Callable[[Frame], bool]
"""Tells whether an event is the one that is looked for."""


class Where(TypedDict, total=False):
    """One place in a body: exactly one of these.

    Attributes:
        byte: So many bytes from its beginning.
        event: The event of that number, from 0, or negative from the end.
        when: The first event that this is true for.
    """

    byte: int
    event: int
    when: When


class Misfit(Exception):
    """An answer does not have what a fault needs.  Never leaves a fault."""


class Fault(Struct, frozen=True):
    """Something that goes wrong with an answer.

    Attributes:
        name: What makes it, as `cut`.
    """

    name: ClassVar[str]

    @property
    def replaces(self) -> bool:
        """Whether it answers in place of the recording, which is then not used up."""
        return False

    @property
    def times(self) -> int | None:
        """How many requests it spoils, the first of all; None for every one."""
        return None

    def __call__(self, playback: Playback) -> Playback:
        """Return the answer that the fault makes of another.

        Raises:
            ValueError: The answer does not have what the fault needs.
        """
        try:
            return self.spoil(playback)
        except Misfit as misfit:
            raise ValueError(f"{self}: {misfit}") from None

    def spoil(self, playback: Playback) -> Playback:
        """Return the spoilt answer.

        Raises:
            Misfit: The answer does not have what the fault needs.
        """
        raise NotImplementedError

    def details(self) -> list[str]:
        """Return what tells it from others of its kind."""
        return []

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(self.details())})"


class Place(Struct, frozen=True):
    """One place in a body, of the three kinds of `Where`."""

    byte: int | None = None
    event: int | None = None
    when: When | None = None

    def check(self, name: str) -> None:
        """Check that it is one place.

        Raises:
            ValueError: It is none, or two, or lies before the body.
        """
        count = sum(kind is not None for kind in (self.byte, self.event, self.when))
        if count != 1:
            raise ValueError(f"{name} with {count} places, expected one of byte, event, when")
        if self.byte is not None and self.byte < 0:
            raise ValueError(f"{name} at byte {self.byte}, expected 0 or more")

    def offset(self, body: bytes) -> int:
        """Return how many bytes stand before it.

        Raises:
            Misfit: There is no such place.
        """
        if self.byte is None:
            return self.located(events_of(body))[1].start
        if self.byte > len(body):
            raise Misfit(f"body of {len(body)} bytes")
        return self.byte

    def located(self, events: list[Located]) -> tuple[int, Located]:
        """Return the event that is there, and its number.

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
    """A fault at one place."""

    place: Place

    def __post_init__(self) -> None:
        self.place.check(self.name)

    def details(self) -> list[str]:  # noqa: D102 - as declared
        return [str(self.place)]
