"""Sequence numbers of the events: resent events, gaps, and events out of order."""

from __future__ import annotations

from collections.abc import Callable

from streamnorm._core.events import StreamError
from streamnorm._core.failures import Fatal

__all__ = ["SequenceNumbers"]


class SequenceNumbers:
    """The sequence numbers of one stream, if it has any.

    A server may leave them out, or give all events the same one.

    Args:
        note: Records a `Note` of a kind and a location.

    Attributes:
        next: Number of the next event if none is missing; None before the first number.
        last_payload: Payload of the last event that had a number.
    """

    __slots__ = ("_first", "_note", "last_payload", "next")

    def __init__(self, note: Callable[[str, str], None]) -> None:
        self.next: int | None = None
        self.last_payload: str | bytes = ""
        self._first = 0
        self._note = note

    def accept(self, number: object, payload: str) -> bool:
        """Record the number of an event; False if the event is the last one, resent.

        A gap is a note.  What is no integer is ignored.

        Raises:
            Fatal: The number is lower than the last one, or that of another event.
        """
        if type(number) is not int:
            return True
        expected = self.next
        if expected is None:
            self._first = number
        elif number > expected:
            self._note("gap", "sequence_number")
        elif number < expected:
            return self._accept_again(number, expected - 1, payload)
        self.next, self.last_payload = number + 1, payload
        return True

    def _accept_again(self, number: int, last_number: int, payload: str) -> bool:
        """Accept an event whose number is not higher than the last one."""
        has_advanced = last_number > self._first
        if number == last_number:
            last = self.last_payload
            if payload == (last if isinstance(last, str) else last.decode(errors="replace")):
                self._note("resent_event", "frame")
                return False
        if number < last_number or has_advanced:
            message = f"sequence number {number} after {last_number}, expected a higher one"
            raise Fatal(StreamError("malformed", message))
        self.last_payload = ""  # numbers that stay the first one show no repetition
        return True
