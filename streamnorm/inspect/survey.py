"""One stream from its bytes to a report."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from streamnorm._core.events import MessageStop, Outcome, Usage
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss, Note
from streamnorm._registry import DIALECTS, decoder
from streamnorm._transcoder import Transcoder
from streamnorm.inspect.course import Course, Track
from streamnorm.sse import SSEDecoder

__all__ = ["Report", "Survey", "writable"]


class Report(Struct, frozen=True, kw_only=True):
    """What is known of one stream.

    Attributes:
        dialect: Name of its dialect; empty where that is not known.
        server: Who it was read as from; None where nobody said.
        id: The provider's id of the message; empty where it sent none.
        model: The model that answered; empty where the provider did not say.
        bytes: How many bytes there were, those after the end of the message too.
        frames: How many frames they made.
        events: How many events the message has.
        cell_events: How many events a bit of `Track.busy` stands for.
        tracks: The blocks, in order of their start.
        usage: The last snapshot of the tokens.
        stops: How each answer ended.
        outcome: How the stream ended; None if it has not.
        losses: For each dialect that was asked about, what it could not carry.
        notes: What the decoder forgave.
    """

    dialect: str = ""
    server: str | None = None
    id: str = ""
    model: str = ""
    bytes: int = 0
    frames: int = 0
    events: int = 0
    cell_events: int = 1
    tracks: tuple[Track, ...] = ()
    usage: Usage = Usage()
    stops: tuple[MessageStop, ...] = ()
    outcome: Outcome | None = None
    losses: dict[str, tuple[Loss, ...]] = {}
    notes: tuple[Note, ...] = ()


class Survey:
    """Read one stream, and keep what there is to report.

    Of its text that is the beginning of each block (see `Course`); each target keeps what
    a `Transcoder` does.

    Args:
        dialect: Dialect to read; None to find out.
        targets: Names of the dialects whose losses are of interest.
        server: Who sent it, where that decides between two readings.
        think_tags: Read `<think>…</think>` at the start of an answer as reasoning.
        limits: Bounds.

    Raises:
        UnknownDialect: A dialect does not exist, or does not do its part.
    """

    def __init__(
        self,
        dialect: str | None = None,
        *,
        targets: Iterable[str] = (),
        server: str | None = None,
        think_tags: bool = False,
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> None:
        self._decoder = decoder(dialect, server=server, think_tags=think_tags, limits=limits)
        self._transcoders = {
            name: Transcoder(dialect, name, server=server, think_tags=think_tags, limits=limits)
            for name in targets
        }
        self._course = Course(limits=limits)
        # Of what follows the end of the message a decoder reads no more.
        self._sse = SSEDecoder(max_event_bytes=limits.max_event_bytes)
        self._server = server
        self._bytes = 0

    def feed(self, data: bytes) -> None:
        """Read more of the stream."""
        self._bytes += len(data)
        self._sse.feed(data)
        self._course.extend(self._decoder.feed(data))
        for transcoder in self._transcoders.values():
            if transcoder.outcome is None:
                transcoder.feed(data)

    def close(self) -> None:
        """Take note that the source has ended."""
        self._course.extend(self._decoder.close())
        self._course.close()
        for transcoder in self._transcoders.values():
            transcoder.close()

    @property
    def outcome(self) -> Outcome | None:
        """How the stream ended; None until it has."""
        return self._decoder.outcome

    def report(self) -> Report:
        """Return what is known so far."""
        course = self._course
        return Report(
            dialect=self._decoder.dialect,
            server=self._server,
            id=course.start.id,
            model=course.start.model,
            bytes=self._bytes,
            # A stream in another form has none of its own.
            frames=max(self._sse.frames, self._decoder.frames),
            events=course.events,
            cell_events=course.cell_events,
            tracks=tuple(course.tracks),
            usage=course.usage,
            stops=tuple(course.stops),
            outcome=self._decoder.outcome,
            losses={name: each.losses for name, each in self._transcoders.items()},
            notes=self._decoder.notes,
        )


def writable() -> list[str]:
    """Return the names of the dialects that can be written."""
    return [name for name, known in DIALECTS.items() if known.encoder is not None]
