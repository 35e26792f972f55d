"""The report of a stream, and the frames and events of each read.

A report is bounded, however long the stream is.  Frames and events belong to the read that brought
them: who shows all of them collects them.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from streamnorm._core.codec.framing import SSE
from streamnorm._core.events import Event, MessageStop, Outcome, Usage
from streamnorm._core.grammar import Violation
from streamnorm._core.losses import Loss, Note
from streamnorm.inspect.summary import Track
from streamnorm.sse import Frame


class Gap(Struct, frozen=True):
    """A time in which no bytes arrived.

    Attributes:
        ms: Milliseconds.
        frame: Number of the frame that arrived next, from 0.
    """

    ms: int
    frame: int


class Timing(Struct, frozen=True, kw_only=True):
    """The times of a stream, in milliseconds since its request was sent.

    Attributes:
        first_byte_ms: Arrival of the first bytes.
        first_event_ms: Arrival of the first event that is no ping; None without one.
        first_text_ms: Arrival of the first text; None without text.
        end_ms: Arrival of the last bytes.
        gaps: The longest gaps between two reads, at most three, the longest first.
        tokens_per_s: Output tokens a second, from the first to the last delta of content;
            without the tokens of reasoning that was not sent.  None if they are unknown.
    """

    first_byte_ms: int
    first_event_ms: int | None
    first_text_ms: int | None
    end_ms: int
    gaps: tuple[Gap, ...]
    tokens_per_s: float | None


class Rate(Struct, frozen=True, kw_only=True):
    """Events, bytes and characters per second, from the first bytes to the last.

    Attributes:
        events_per_s: Events.
        bytes_per_s: Bytes.
        chars_per_s: Characters of text, reasoning, arguments and other content.
    """

    events_per_s: float
    bytes_per_s: float
    chars_per_s: float


class Hold(Struct, frozen=True, kw_only=True):
    """Deltas of a block that could not be written to a target when they arrived.

    Attributes:
        block: Index of the block.
        behind: Index of the open block that the target must write first; `block` itself if the
            target writes its content only when it is complete.
        deltas: Number of the deltas that waited.
        chars: Their size in characters.
        start: Number of the event that was the first to wait.
        stop: Number of the event with which they were written; None if they never were.
        start_ms: Time of the event that was the first to wait; None if it is unknown.
        stop_ms: Time at which they were written; None if it is unknown, or they never were.
    """

    block: int
    behind: int
    deltas: int
    chars: int
    start: int
    stop: int | None = None
    start_ms: int | None = None
    stop_ms: int | None = None


class TimedEvent(Struct, frozen=True):
    """An event with its arrival time and the bytes written for it.

    Attributes:
        number: Number of the event, from 0.
        frame: Number of the frame that brought it, from 0; the end of the stream belongs to the
            last frame.
        ms: Arrival since the request; None if it is unknown.
        event: The event.
        written: Bytes that were written with it to each target, b"" while the target holds it.
            A target of the dialect of the stream is left out: it gets the original bytes.
    """

    number: int
    frame: int
    ms: int | None
    event: Event
    written: dict[str, bytes] = {}


class Read(Struct, frozen=True):
    """The frames and events that one read of the stream completes.

    Attributes:
        ms: Arrival since the request; None if it is unknown.
        first: Number of the first of the frames, from 0.
        frames: The frames that the read completes.
        events: The events of these frames.
    """

    ms: int | None
    first: int
    frames: list[Frame]
    events: list[TimedEvent]


class Report(Struct, frozen=True, kw_only=True):
    """All facts about one stream that `inspect` shows.

    Attributes:
        dialect: Name of the dialect; empty if unknown.
        framing: Name of the framing in which its events stand.
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
        losses: The losses of each target dialect.
        holds: What each target dialect could not write at once, in order of the start.
        notes: The decoder's notes.
        timing: The times of the stream; None if they are unknown.
        rate: What arrived in a second; None if the times are unknown, or all came at once.
        violations: Departures from the strict rules of the dialect.
        unchecked: Reason why the stream was not validated; empty if it was validated.
        state: State of the stream in its log, such as `cancelled`; None if it is in none.
    """

    dialect: str = ""
    framing: str = SSE.name
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
    holds: dict[str, tuple[Hold, ...]] = {}
    notes: tuple[Note, ...] = ()
    timing: Timing | None = None
    rate: Rate | None = None
    violations: tuple[Violation, ...] = ()
    unchecked: str = ""
    state: str | None = None


def describe_report(report: Report, name: str) -> dict[str, Any]:
    """Return a report as JSON fields, in the order of the page.

    `start` and `stop` of a block are numbers of events, from 0, and `start_ms` and `stop_ms`
    their times; `head` is its first 1,024 characters.  `violations` have the number of a
    frame, from 0.

    Args:
        report: The report.
        name: Name of the stream.
    """
    fields: dict[str, Any] = msgspec.to_builtins(report)
    # The bars are for people, and depend on the times.
    del fields["cell_width"]
    blocks = fields.pop("tracks")
    for block in blocks:
        del block["busy"], block["cuts"]
    return {"stream": name, **fields, "blocks": blocks}
