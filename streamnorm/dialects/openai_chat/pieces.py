"""Chunks that only continue what the chunk before them did, read by their shape."""

from __future__ import annotations

from collections.abc import Callable

from streamnorm._json import FAST_ERRORS
from streamnorm.codec import Decoder, Delta, more_like
from streamnorm.dialects.openai_chat.answer import Answer
from streamnorm.dialects.openai_chat.more import more_arguments, reasoning_of, text_of
from streamnorm.events import Event, JSONDelta, ReasoningDelta, TextDelta
from streamnorm.limits import Limits
from streamnorm.losses import OnNote

__all__ = ["PieceDecoder"]

_MAX_HOPES = 8


class PieceDecoder(Decoder):
    """Read such chunks; all others are for `read`."""

    def __init__(self, *, limits: Limits, on_note: OnNote | None) -> None:
        super().__init__(limits=limits, on_note=on_note)
        self._answers: dict[int, Answer] = {}
        # How the next chunk is read if it only continues this one.
        self._more: Callable[[str, list[Event]], bool] | None = None
        self._piece_of: Callable[[str | bytes], str | None] = text_of
        self._make: Callable[[str], Delta]
        self._call = -1  # index of the call that its arguments are of
        self._turning = False  # whether other calls may take their turn
        self._answer: Answer  # which those calls belong to
        self._hopes = _MAX_HOPES

    @property
    def more(self) -> Callable[[bytes], str | None]:
        self._turning = False
        return self._read_more

    @property
    def turns(self) -> Callable[[bytes], str | None]:
        self._turning = True
        return self._read_more

    def _read_more(self, data: bytes) -> str | None:
        if self.continued is None or (payload := self._sse.data_line(data)) is None:
            return None
        try:
            text = self._piece_of(payload)
        except FAST_ERRORS:
            return None
        self._sse.frames += text is not None
        return text

    def _expect_more(self, data: str, last: Event) -> None:
        """Expect the next chunk to have the shape of this one, if it is a plain one.

        A server whose chunks always say more than these shapes is soon left alone.
        """
        answer = self._answers.get(0)
        if answer is None or not self._hopes:
            return
        try:
            match last:
                case TextDelta(index) if index == answer.extensible:
                    self._piece_of = text_of
                case ReasoningDelta(index) if index == answer.extensible:
                    self._piece_of = reasoning_of
                case JSONDelta():
                    self._call = more_arguments(data).index
                    self._more, self._piece_of = self._more_arguments, self._arguments_of
                    self._answer, self.continued = answer, last
                    return
                case _:
                    return
            self._piece_of(data)
            self._more, self._make, self.continued = self._more_piece, more_like(last), last
        except FAST_ERRORS:
            self._hopes -= 1

    def _forget(self) -> None:
        """Expect no such chunk."""
        self.continued = self._more = None

    def _more_piece(self, data: str, events: list[Event]) -> bool:
        try:
            text = self._piece_of(data)
        except FAST_ERRORS:
            return False
        if text:
            events.append(self._make(text))
        return True

    def _more_arguments(self, data: str, events: list[Event]) -> bool:
        try:
            piece = more_arguments(data)
        except FAST_ERRORS:
            return False
        before = len(events)
        if not self._answer.more_arguments(piece.index, piece.function.arguments, events):
            return False
        if len(events) > before:  # a piece without text continues nothing
            self._call, last = piece.index, events[-1]
            self.continued = last if isinstance(last, JSONDelta) else None
        return True

    def _arguments_of(self, data: str | bytes) -> str | None:
        piece = more_arguments(data)
        text = piece.function.arguments
        is_other = piece.index != self._call
        if is_other and not self._turning:
            return None
        block = self._answer.only_more(piece.index, text)
        if is_other and block is not None:
            self._call, self.continued = piece.index, JSONDelta(block, text)
        return None if block is None else text
