"""Sequence numbers, and the delta run: plain deltas of text, reasoning and arguments."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from streamnorm._core.codec import Delta, DeltaRun
from streamnorm._core.events import StreamError
from streamnorm._core.failures import Fatal
from streamnorm._core.json import FAST_ERRORS
from streamnorm._core.limits import StoredBytes, text_bytes
from streamnorm.dialects.openai_responses import wire
from streamnorm.dialects.openai_responses.items.item import TextProgress


class SequenceNumbers:
    """The sequence numbers of one stream, if it has any.

    A server may omit them, or send the same number with all events.

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
        """Record the number of an event; False if the event repeats the last one.

        A gap is a note.  A number that is not an integer is ignored.

        Raises:
            Fatal: The number is lower than the last, or equal for a different event.
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


# Bounds on `TextProgress.uncounted`: number of deltas, and characters of a single delta.
_MAX_UNCOUNTED = 16
_MAX_UNCOUNTED_CHARS = 256


class OpenText(Struct, frozen=True):
    """A text of an open block, and the indexes in its deltas.

    Attributes:
        delta: A unified delta of the block and part.
        progress: Length and checksum of the text so far.
        output_index: `output_index` of the deltas.
        part: `content_index` or `summary_index` of the deltas.
        stored: Counter of what the decoder stores, if the text is stored.
    """

    delta: Delta
    progress: TextProgress
    output_index: int | None
    part: int | None
    stored: StoredBytes | None = None


# Bytes before the payload and decoder of the payload, by the type of the delta.
_FORMATS = {
    delta_type: (f"event: {name}\ndata: ".encode(), msgspec.json.Decoder(delta_type))
    for delta_type, name in wire.DELTA_TYPES.items()
}


class ResponsesRun(DeltaRun):
    """Reads deltas of one event type that only extend texts of open items.

    Args:
        numbers: The sequence numbers of the stream.
    """

    def __init__(self, numbers: SequenceNumbers) -> None:
        super().__init__()
        self._numbers = numbers
        self._texts: dict[str | None, OpenText] = {}  # by item id
        self._blocks: set[int] = set()  # block indexes of `_texts`
        self._type: type[wire.DeltaEvent] = wire.OutputTextDelta  # of all deltas in the run
        self.prefix, decoder = _FORMATS[self._type]
        self._decode = decoder.decode

    def forget(self) -> None:
        """Forget all texts: items may have changed."""
        self._texts.clear()
        self._blocks.clear()

    def expect(self, event: wire.DeltaEvent, text: OpenText) -> None:
        """Read further deltas of a text, in addition to the texts already expected.

        Args:
            event: A delta of the text that was read in full.
            text: The text.
        """
        if type(event) is not self._type:
            self.forget()
            self._type = type(event)
            self.prefix, decoder = _FORMATS[self._type]
            self._decode = decoder.decode
        index, known = text.delta.index, self._texts.get(event.item_id)
        if known is not None and known.delta == text.delta:
            return  # the delta stays the same object
        # A server may omit the item id of some deltas: only one text of a block is known at a time.
        if index in self._blocks:
            self.forget()
        self._texts[event.item_id] = text
        self._blocks.add(index)

    def decode(self, payload: bytes) -> str | None:
        try:
            event = self._decode(payload)
        except FAST_ERRORS:
            return None
        text, numbers, number = event.delta, self._numbers, event.sequence_number
        known = self._texts.get(event.item_id)
        if (
            known is None
            or number != numbers.next
            or event.output_index != known.output_index
            or event.part != known.part
        ):
            return None
        stored = known.stored
        if stored is not None:
            size = len(text) if text.isascii() else text_bytes(text)
            if size > stored.left:
                return None
            stored.left -= size
        if number is not None:
            numbers.next, numbers.last_payload = number + 1, payload
        progress = known.progress
        progress.uncounted.append(text)
        if len(progress.uncounted) >= _MAX_UNCOUNTED or len(text) > _MAX_UNCOUNTED_CHARS:
            progress.count()
        self.delta = known.delta
        return text
