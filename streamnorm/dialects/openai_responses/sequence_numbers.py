"""The numbers of a stream's events: which one comes twice, and where some are missing."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Numbers"]


class Numbers:
    """Follow the sequence numbers of one stream, if it has any.

    Args:
        note: Counts something that was forgiven.

    Attributes:
        next: What the next event has if none is missing; None before the first that has one.
        count: Whether they do: a constant numbers nothing.
        latest: The payload of the last event that had one.
    """

    __slots__ = ("_note", "count", "latest", "next")

    def __init__(self, note: Callable[[str, str], None]) -> None:
        self.next: int | None = None
        self.count = True
        self.latest: str | bytes = ""
        self._note = note

    def is_resent(self, number: object, data: str) -> bool:
        """Tell whether an event is the last one again, and note where some are missing.

        Args:
            number: Its number, if it has one.
            data: Its payload.
        """
        if type(number) is not int:
            return False
        if not self.count:
            self.next = number + 1
            return False
        expected, before = self.next, self.latest
        self.next, self.latest = number + 1, data
        if expected is None or number == expected:
            return False
        if number != expected - 1:
            self._note("gap", "sequence_number")
        elif data == (before if isinstance(before, str) else before.decode(errors="replace")):
            self._note("resent_event", "frame")
            return True
        else:
            self.count, self.latest = False, ""
        return False
