"""Sequence numbers of the events: resent events and gaps."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["SequenceNumbers"]


class SequenceNumbers:
    """The sequence numbers of one stream, if it has any.

    Args:
        note: Records a `Note` of a kind and a location.

    Attributes:
        next: Number of the next event if none is missing; None before the first number.
        is_counting: Whether the numbers advance; False once two events share one.
        last_payload: Payload of the last event that had a number.
    """

    __slots__ = ("_note", "is_counting", "last_payload", "next")

    def __init__(self, note: Callable[[str, str], None]) -> None:
        self.next: int | None = None
        self.is_counting = True
        self.last_payload: str | bytes = ""
        self._note = note

    def accept(self, number: object, payload: str) -> bool:
        """Record the number of an event; False if the event is the last one, resent.

        A gap is a note.  What is no integer is ignored.
        """
        if type(number) is not int:
            return True
        if not self.is_counting:
            self.next = number + 1
            return True
        expected, last = self.next, self.last_payload
        self.next, self.last_payload = number + 1, payload
        if expected is None or number == expected:
            return True
        if number != expected - 1:
            self._note("gap", "sequence_number")
        elif payload == (last if isinstance(last, str) else last.decode(errors="replace")):
            self._note("resent_event", "frame")
            return False
        else:
            self.is_counting, self.last_payload = False, ""
        return True
