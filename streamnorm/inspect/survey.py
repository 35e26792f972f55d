"""The survey of one stream: from its bytes to a report."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from streamnorm._core.events import Event, MessageStop, Outcome, Usage
from streamnorm._core.grammar import Violation
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss, Note
from streamnorm._decoding import decoder
from streamnorm._registry import DIALECTS
from streamnorm._transcoder import Transcoder
from streamnorm.inspect.summary import StreamSummary, Track
from streamnorm.inspect.timing import Clock, Timing
from streamnorm.inspect.validity import Judge
from streamnorm.sse import Frame, SSEDecoder

__all__ = ["Report", "Survey", "writable"]


class Report(Struct, frozen=True, kw_only=True):
    """The result of a survey.

    Attributes:
        dialect: Name of the dialect; empty if unknown.
        server: Name of the server whose quirks were enabled; None without.
        id: Id of the message; empty if the provider sent none.
        model: Model of the message; empty if the provider sent none.
        bytes: Number of bytes, including those after the end of the message.
        frames: Number of frames, including those after the end of the message.
        events: Number of events of the message.
        cell_width: Number of positions that a bit of `Track.busy` stands for.
        tracks: The blocks, in order of their start.
        usage: The last usage snapshot.
        stops: The `MessageStop` of each choice.
        outcome: How the stream ended; None if it has not.
        losses: What each target dialect could not carry.
        notes: The decoder's notes.
        timing: The times of the stream; None if they are unknown.
        violations: Departures from the strict rules of the dialect.
        unchecked: Why there are no violations: the stream was not validated; empty if it was.
    """

    dialect: str = ""
    server: str | None = None
    id: str = ""
    model: str = ""
    bytes: int = 0
    frames: int = 0
    events: int = 0
    cell_width: int = 1
    tracks: tuple[Track, ...] = ()
    usage: Usage = Usage()
    stops: tuple[MessageStop, ...] = ()
    outcome: Outcome | None = None
    losses: dict[str, tuple[Loss, ...]] = {}
    notes: tuple[Note, ...] = ()
    timing: Timing | None = None
    violations: tuple[Violation, ...] = ()
    unchecked: str = ""


class Survey:
    """Reads one stream and accumulates its report.

    It stores what a `StreamSummary` does, and for each target what a `Transcoder` does.

    Args:
        dialect: Dialect to read; None detects it.
        targets: Names of the dialects whose losses to report.
        server: Name of the server (for example `qianfan`); enables its quirks.
        think_tags: Read `<think>…</think>` at the start of an answer as reasoning.
        timed: Whether the times of the reads are known.
        limits: Bounds of the decoder.

    Raises:
        UnknownDialect: A dialect does not exist, cannot be read or cannot be written.
    """

    def __init__(
        self,
        dialect: str | None = None,
        *,
        targets: Iterable[str] = (),
        server: str | None = None,
        think_tags: bool = False,
        timed: bool = False,
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> None:
        self._decoder = decoder(dialect, server=server, think_tags=think_tags, limits=limits)
        self._transcoders = {
            name: Transcoder(dialect, name, server=server, think_tags=think_tags, limits=limits)
            for name in targets
        }
        self._summary = StreamSummary(limits=limits)
        # Counts frames, because a decoder does not read beyond the end of the message.
        self._sse = SSEDecoder(max_event_bytes=limits.max_event_bytes)
        self._clock = Clock() if timed else None
        self._judge = Judge(self._decoder, limits)
        self._server = server
        self._bytes = 0

    def feed(self, data: bytes, gap_ms: int = 0) -> list[Frame]:
        """Read the next bytes of the stream, and return the frames that they complete.

        Args:
            data: The bytes.
            gap_ms: Milliseconds since the read before, or since the request was sent.
        """
        self._bytes += len(data)
        if self._clock is not None:
            self._clock.advance(gap_ms, self._sse.frames)
            self._summary.now_ms = self._clock.now_ms
        self._extend(self._decoder.feed(data))
        # Another format is converted, and what may be a body that is no stream is withheld.
        frames = self._sse.feed(self._decoder.framed(data))
        self._judge.feed(data, frames)
        for transcoder in self._transcoders.values():
            if transcoder.outcome is None:
                transcoder.feed(data)
        return frames

    def close(self) -> None:
        """Handle the end of the source."""
        self._extend(self._decoder.close())
        self._summary.close()
        self._judge.close()
        for transcoder in self._transcoders.values():
            transcoder.close()

    def _extend(self, events: list[Event]) -> None:
        self._summary.extend(events)
        if self._clock is not None:
            self._clock.mark(events)

    @property
    def outcome(self) -> Outcome | None:
        """How the stream ended; None if it has not."""
        return self._decoder.outcome

    def report(self) -> Report:
        """Return the report of the bytes so far."""
        summary = self._summary
        return Report(
            dialect=self._decoder.dialect,
            server=self._server,
            id=summary.start.id,
            model=summary.start.model,
            bytes=self._bytes,
            # A body that is no SSE has only the frames that the decoder makes of it.
            frames=max(self._sse.frames, self._decoder.frames),
            events=summary.events,
            cell_width=summary.cell_width,
            tracks=tuple(summary.tracks),
            usage=summary.usage,
            stops=tuple(summary.stops),
            outcome=self._decoder.outcome,
            losses={name: each.losses for name, each in self._transcoders.items()},
            notes=self._decoder.notes,
            timing=None if self._clock is None else self._clock.timing(summary.usage),
            violations=tuple(self._judge.violations),
            unchecked=self._judge.unchecked,
        )


def writable() -> list[str]:
    """Return the names of the dialects that can be written."""
    return [name for name, known in DIALECTS.items() if known.encoder is not None]
