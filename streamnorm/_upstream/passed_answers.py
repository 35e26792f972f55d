"""Answers that only the vendor's own server can give, passed on to its client."""

from __future__ import annotations

from msgspec import Struct

from streamnorm._core.bodies.parsing import body_object
from streamnorm._core.codec import Decoder, Dialect, Passthrough, read_no_json
from streamnorm._core.errors import DecodeError
from streamnorm._core.events import Event, StreamError
from streamnorm._core.failures import Fatal, body_kind, find_error
from streamnorm._core.json import InvalidJSON, count_of, decode_any, is_object
from streamnorm._core.limits import Limits
from streamnorm._decoding import decoder
from streamnorm._registry import lookup
from streamnorm._transcoder import Transcoder
from streamnorm.sse import Frame

__all__ = ["PassedAnswer", "PassedStream", "answer_problem"]


class PassedAnswer(Struct, frozen=True, kw_only=True):
    """The answer of an upstream of the client's dialect, as the client reads it.

    Attributes:
        status: HTTP status.
        content_type: Its `content-type`; "" if it has none.
        body: The whole body.
        error: The error that it reports; None if it reports none.
    """

    status: int
    content_type: str
    body: bytes
    error: StreamError | None = None


def answer_problem(body: bytes, dialect: str) -> StreamError | None:
    """Return the error of a successful answer whose body is none of its dialect; else None."""
    try:
        body_object(body, Limits())
    except DecodeError:
        return StreamError("malformed", f"{body_kind(body)}, expected an answer of {dialect}")
    return None


class PassedStream(Transcoder):
    """Pass on a stream to its own dialect, whichever of its events is the first.

    A stream that is resumed begins within a message, which no decoder can check.  Its events
    are passed unchanged; only its terminal and its errors are read.  What it does not show (a
    cut, a limit, an event that is no JSON) is an error event.

    Args:
        dialect: The dialect.
        limits: Bounds of events; the stream is not bounded, for nothing of it is stored.
    """

    def __init__(
        self,
        dialect: str,
        *,
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(dialect, dialect, limits=limits, keep_message=False)
        self._decoder = _TerminalDecoder(lookup(dialect), limits=limits)
        self._passthrough = Passthrough(self._decoder.framing)


class _TerminalDecoder(Decoder):
    """Reads the terminal and the errors of a stream, and of its other events the numbers."""

    def __init__(self, known: Dialect, *, limits: Limits) -> None:
        super().__init__(limits=limits)
        self.dialect = known.name
        self._known = known
        self._next_sequence_number = 0

    @property
    def next_sequence_number(self) -> int:
        return self._next_sequence_number

    def read(self, frame: Frame, events: list[Event]) -> None:
        try:
            value = decode_any(frame.data, max_depth=self._limits.max_json_depth)
        except InvalidJSON as exc:
            read_no_json(self, frame, exc, events, (frame.event,))
            return
        if is_object(value) and (number := count_of(value.get("sequence_number"))) is not None:
            self._next_sequence_number = number + 1
        if self._known.is_terminal(frame) or find_error(value) is not None:
            self._read_last(frame, events)

    def _read_last(self, frame: Frame, events: list[Event]) -> None:
        """Append the events of a frame that ends the stream, without those before it."""
        room = decoder(self.dialect, limits=self._limits)
        events += room.feed_frame(frame)
        self.outcome = room.outcome
        if events and isinstance(last := events[-1], StreamError):
            del events[-1]
            raise Fatal(last)
