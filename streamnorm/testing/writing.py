"""The answers of a fake provider as HTTP responses in a dialect."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from streamnorm._core.codec import StreamWriter
from streamnorm._core.errors import UnrecordedRequest
from streamnorm._core.events import Event, Failed, MessageStart, StreamError, Truncated
from streamnorm._core.losses import Loss
from streamnorm._core.provider_errors import NOT_A_STREAM
from streamnorm._registry import encoder
from streamnorm._transcoder import Transcoder
from streamnorm.recording.exchange import Playback, PlaybackEnd, Step
from streamnorm.recording.recording import Recording

__all__ = ["STREAM", "Writer"]

STREAM = {"content-type": "text/event-stream"}
_JSON = {"content-type": "application/json"}

# No provider sends these errors: its connection ends, and the client notices.
_ENDS: dict[str, PlaybackEnd] = {"truncated": "eof", "transport": "reset", "stalled": "timeout"}


class Writer:
    """The writer of one answer.

    Args:
        dialect: Dialect to write.
        model: Model to write; None for that of the answer.
        asked_model: Model to write if the answer has none.
        include_usage: Whether the client asked for usage.

    Raises:
        UnknownDialect: There is no such dialect, or it cannot be written.

    Attributes:
        losses: What the dialect could not carry.
    """

    def __init__(
        self, dialect: str, *, model: str | None, asked_model: str, include_usage: bool
    ) -> None:
        self._encoder = encoder(dialect, model=model, include_usage=include_usage)
        self._model = model
        self._asked_model = asked_model
        self._include_usage = include_usage
        self.losses: tuple[Loss, ...] = ()

    def told(self, events: list[Event], id: str) -> Playback:
        """Return events as a stream, or a single error as an error response.

        Args:
            events: The events.
            id: Id of the message if the events have none.
        """
        match events:
            case [StreamError(kind=kind) as error] if kind not in _ENDS:
                return self.refused(error)
            case _:
                pass
        end: PlaybackEnd = "eof"
        if events and isinstance(last := events[-1], StreamError) and last.kind in _ENDS:
            end = _ENDS[last.kind]
            events = events[:-1]
        named = (self._named(event, id) for event in events)
        steps = tuple(Step(0.0, data) for data in self._encoded(named) if data)
        self.losses = self._encoder.losses
        return Playback(200, STREAM, steps, end, self._encoder.dialect)

    def refused(self, error: StreamError, status: int | None = None) -> Playback:
        """Return an error response instead of a stream.

        Args:
            error: The error to write.
            status: HTTP status; None for the error's `status_hint`.
        """
        status = status or error.status_hint or 500
        body = self._encoder.error_body(error)
        return Playback(status, _JSON, (Step(0.0, body),), dialect=self._encoder.dialect)

    def played(self, recording: Recording) -> Playback:
        """Return a recorded answer, transcoded if its dialect differs.

        Raises:
            UnrecordedRequest: Its body is no stream, and cannot be transcoded.
            UnknownDialect: Its dialect differs, and cannot be read.
        """
        target = self._encoder.dialect
        if recording.dialect == target:
            return recording.playback()
        if not recording.is_stream:
            return self._refused_as(recording)
        transcoder = Transcoder(
            recording.dialect, target, model=self._model, include_usage=self._include_usage
        )
        playback = recording.playback()
        steps = tuple(_transcoded(playback, transcoder))
        if transcoder.dialect == target:  # detected: the recording has no dialect
            return structs.replace(playback, dialect=target)
        self.losses = transcoder.losses
        return Playback(playback.status, STREAM, steps, playback.end, target)

    def _refused_as(self, recording: Recording) -> Playback:
        """Return the error response of a recording whose body is no stream."""
        match recording.outcome:
            case Failed(error) if error.code != NOT_A_STREAM:
                return self.refused(error, recording.response.status)
            case _:
                raise UnrecordedRequest(
                    f"recording {recording.name} is no stream and of dialect "
                    f"{recording.dialect}, expected a stream or {self._encoder.dialect}"
                )

    def _named(self, event: Event, id: str) -> Event:
        if not isinstance(event, MessageStart):
            return event
        return structs.replace(event, id=event.id or id, model=event.model or self._asked_model)

    def _encoded(self, events: Iterator[Event]) -> Iterator[bytes]:
        writer = StreamWriter(self._encoder)
        for event in events:
            yield b"".join(writer.write((event,)))
        yield self._encoder.close()


def _transcoded(playback: Playback, transcoder: Transcoder) -> Iterator[Step]:
    """Yield the chunks of a playback in another dialect, each when its original arrived."""
    waited_s = 0.0
    for step in playback.steps:
        waited_s += step.delay_s
        if data := b"".join(transcoder.feed(step.data)):
            yield Step(waited_s, data)
            waited_s = 0.0
    rest = b"".join(transcoder.close())
    # A provider whose connection is cut sends no error event.
    if rest and not isinstance(transcoder.outcome, Truncated):
        yield Step(waited_s, rest)
