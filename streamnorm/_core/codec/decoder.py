"""The base class of all decoders: framing, body formats, errors, and the end of a stream."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Container
from functools import partial
from typing import Any, ClassVar, Literal

from streamnorm._core.codec.delta_run import DeltaEvents, DeltaRun
from streamnorm._core.codec.framing import (
    SSE,
    Body,
    BodyFormat,
    FormatSniffer,
    Framing,
    holds_no_field,
)
from streamnorm._core.errors import LocalProtocolError
from streamnorm._core.events import Completed, Event, Opaque, Outcome, Ping, StreamError, Usage
from streamnorm._core.failures import (
    Fatal,
    error_outcome,
    find_error,
    malformed,
    named_error,
    not_a_stream,
    too_large,
)
from streamnorm._core.json import InvalidJSON, clean, compact, decode_any, is_object
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Note, OnNote
from streamnorm._core.source_failures import broken_connection, cut_stream
from streamnorm.sse import Fragment, Frame, RawFrame, StrayLine

ALL_EVENTS = sys.maxsize
"""Value of `Decoder.refused` if the stream failed in an event before its dialect was detected."""


class Notes:
    """Counts of accepted deviations from the protocol.

    Args:
        on_note: Called with each note as it happens, with a count of 1.
    """

    def __init__(self, on_note: OnNote | None) -> None:
        self._on_note = on_note
        self._counts: dict[Note, int] = {}

    def add(self, kind: str, where: str) -> None:
        """Count an accepted deviation from the protocol."""
        note = Note(kind, where)
        self._counts[note] = self._counts.get(note, 0) + 1
        if self._on_note is not None:
            self._on_note(note)

    def list_counts(self) -> tuple[Note, ...]:
        """Return the notes with their counts, in order of first appearance."""
        return tuple(Note(note.kind, note.where, count) for note, count in self._counts.items())

    def share(self, other: Notes) -> None:
        """Count into the counts of `other` from now on, and call the callback of `other`."""
        self._counts, self._on_note = other._counts, other._on_note


class Decoder(ABC):
    """Decode the bytes of one stream into events.

    `feed` never raises because of the peer: a malformed, oversized or failed stream ends in
    exactly one `StreamError`, after which the decoder returns nothing.

    Args:
        server: Name of the server; enables its quirks in the dialects that have some.
        limits: Bounds.
        on_note: Called with each note as it happens, with a count of 1.
        framing: How the events stand in the bytes.

    Attributes:
        dialect: Name of the dialect; empty while it is not detected.
        formats: Body formats of the dialect's streams other than server-sent events.
        outcome: Outcome of the stream; None until it has ended.
        response_id: Id of the response in its headers, which names the message in dialects whose
            messages have no id; "" if it is unknown.
        first_usage: Usage of the frame that started the message, for the encoder's own start.
        split: Cuts the next bytes into frames; the state of the decoder is which function it is.
        framing: The reading half of the stream's framing.
        is_plain: Whether the original bytes are an event stream; if not, `as_event_stream`
            converts them.
        run: The fast path; None before the stream has begun and after it has ended.
        offers_run: Whether `run` is used; tests switch it off to read every frame in full.
        error_outside_stream: Whether the final error stood outside any event, for no client.
        refused: Number of the events read last that no client shall read, or `ALL_EVENTS`.
        active: Decoder to use from now on, once detection has found the dialect; else None.
        executes_calls: Who executes calls of its messages, which then go on with the result: the
            agent of a page, or the provider, known before the first such call; None if the client
            executes all.
        makes_deltas: Whether `feed` makes events of the delta run's texts.
    """

    dialect: str = ""
    formats: tuple[BodyFormat, ...] = ()
    response_id: str = ""
    first_usage: Usage | None = None
    offers_run: ClassVar[bool] = True
    error_outside_stream: bool = False
    refused: int = 0
    active: Decoder | None = None
    executes_calls: Literal["agent", "provider"] | None = None
    makes_deltas: bool = True

    def __init__(
        self,
        *,
        server: str | None = None,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        on_note: OnNote | None = None,
        framing: Framing = SSE,
    ) -> None:
        self.outcome: Outcome | None = None
        self.run: DeltaRun | None = None
        self._delta_run: DeltaRun | None = None  # set by rooms that have one
        self._consumer: DeltaEvents | None = None  # of `run`, since the last frame read in full
        self.is_plain = True
        self._limits = limits
        self._idle_frames = 0  # idle frames that were read in full
        self.framing = framing.splitter(limits)
        self._notes = Notes(on_note)
        self.split: Callable[[bytes], list[RawFrame]] = self._split_start
        # Compatible servers that leave the terminal out send server-sent events.
        self._may_lack_terminal = framing is SSE
        if framing is not SSE:  # whose bytes no other body can be taken for
            self.split = self._split_framed
            self.is_plain = False
        self._blank = False  # white space came before the first other byte
        self._body: Body | None = None  # JSON or HTML: another format, or judged at its end
        self._strays = b""  # lines outside events
        self._refusal: StreamError | None = None  # the error of a body that is no stream

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that `data` completes.

        Raises:
            LocalProtocolError: The decoder was closed.
        """
        run, consumer = self.run, self._consumer
        events: list[Event] = []
        if run is not None and consumer is not None:
            consumer.out = events
            data = run.forward(data, events, consumer)
            if not data:
                return events
        frames = self.split(data)
        position = 0
        while position < len(frames):
            raw = frames[position]
            if run is not None and consumer is not None and type(raw) is bytes:
                position = run.forward_frames(frames, position, events, consumer)
                if position == len(frames):
                    break
                raw = frames[position]
            read = self.read_raw(raw)
            position += 1
            if read or run is not self.run:
                events += read
                if (run := self.run) is not None:
                    consumer = DeltaEvents(run, events, makes_deltas=self.makes_deltas)
                    self._consumer = consumer
        return events

    def read_raw(self, raw: RawFrame) -> list[Event]:
        """Decode one frame from `split` on the slow path; frames must be passed in order."""
        events: list[Event] = []
        if self.outcome is not None:
            return events
        item: Frame | StrayLine | None = None
        try:
            if self._refusal is not None:
                raise Fatal(self._refusal)
            for item in self.framing.parse(raw):
                if isinstance(item, StrayLine):
                    self._read_stray(item.line)
                else:
                    before = len(events)
                    self.read(item, events)
                    if self.outcome is not None:
                        self._end_run()
                        return events
                    self._idle_frames += len(events) == before or type(events[-1]) is Ping
            if self.framing.overflowed:
                raise self._broken_framing()
        except Fatal as fatal:
            # A frame that failed is withheld from a client in passthrough: it would fail at the
            # frame before it reads our error.
            self.refused = self.refused or int(isinstance(item, Frame))
            self._fail(fatal.error, events)
        return events

    @property
    def next_sequence_number(self) -> int:
        """Sequence number of the next event; 0 if the dialect does not number events."""
        return 0

    def feed_frame(self, frame: Frame) -> list[Event]:
        """Return the events of a parsed frame.

        Raises:
            LocalProtocolError: The decoder was closed.
        """
        self.split(b"")  # raises if the decoder was closed
        events: list[Event] = []
        if self.outcome is not None:
            return events
        self.split = self.framing.split
        try:
            self.read(frame, events)
        except Fatal as fatal:
            self._fail(fatal.error, events)
        return events

    def close(self) -> list[Event]:
        """Signal the end of the source, and return the remaining events."""
        self.split = _split_closed
        events: list[Event] = []
        if self.outcome is None:
            try:
                self._end_source(events)
            except Fatal as fatal:
                self._fail(fatal.error, events)
        self._end_run()
        return events

    def abort(self, cause: BaseException) -> list[Event]:
        """Signal that the source has failed, and return the remaining events."""
        self.split = _split_closed
        events: list[Event] = []
        if self.outcome is None:
            self._fail(broken_connection(cause, self.frames, self.resume_token), events)
        self._end_run()
        return events

    def adopt_framing(self, other: Decoder) -> None:
        """Adopt the framing, the notes and the buffered bytes of another decoder."""
        self.dialect, self.framing, self._strays = other.dialect, other.framing, other._strays
        self._notes.share(other._notes)
        self._idle_frames = other._idle_frames
        self._body, self.is_plain = other._body, other.is_plain
        if self._body is None:
            self._begin_stream()
        else:
            self.split = partial(self._split_body, self._body)

    @property
    def is_body(self) -> bool:
        """Whether the source starts like JSON or HTML and is not known to be a stream."""
        return self._body is not None and not self._body.is_stream

    def sniffer(self, start: bytes) -> FormatSniffer | None:
        """Return a sniffer for the body format that `start` suggests; None if no format matches."""
        for format in self.formats:
            if start.startswith(format.start):
                return FormatSniffer(format, self._limits)
        return None

    def as_event_stream(self, data: bytes) -> bytes:
        """Return the last chunk, `data`, as server-sent events, converted if necessary.

        b"" while the source may still be a body that is no stream.
        """
        if self._body is not None:
            return self._body.last_events()
        return self.framing.as_event_stream(data)

    @property
    def frames(self) -> int:
        """Number of frames split from the source's bytes so far."""
        return self.framing.frames

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of the event that is not yet complete."""
        return self.framing.unfinished_bytes

    @property
    def idle_frames(self) -> int:
        """Number of frames without an event, or with a ping only."""
        run = self._delta_run
        return self._idle_frames + (0 if run is None else run.idle_frames)

    @property
    def progress(self) -> int:
        """Number of frames with events, plus one at the end of the message."""
        # Pings, comments and empty frames are no progress: a server may send them without end.
        return self.framing.frames - self.idle_frames + self.lacks_only_terminal

    @property
    def notes(self) -> tuple[Note, ...]:
        """Accepted deviations from the protocol, in order of first appearance."""
        return self._notes.list_counts()

    @abstractmethod
    def read(self, frame: Frame, events: list[Event]) -> None:
        """Append the events of one frame; the terminal frame sets `outcome`.

        Raises:
            Fatal: The stream ends here.
        """

    def end(self, rest: Frame | None, events: list[Event]) -> None:
        """Append the events for the end of the source; set `outcome` on success.

        `rest` is a last frame without its blank line.  Servers leave the blank line out, so a
        complete frame is read; half a frame is a cut stream.

        Raises:
            Fatal: The stream ends here.
        """
        lenient: tuple[str, ...] = ()
        if rest is not None:
            if not self.may_end_with(rest, self.json_of(rest.data)):
                return
            # Dropping a terminal would make clients ask again for an answer that they have (WHATWG
            # HTML, section 9.2.6, discards it).
            self.note("unterminated", "last frame")
            lenient = ("unterminated",)
            self.read(rest, events)
        if self.outcome is None and self._may_lack_terminal:
            lenient = (*self.complete_without_terminal(events), *lenient)
        if lenient and isinstance(self.outcome, Completed):
            lenient = (*lenient, *self.outcome.lenient)
            self.outcome = Completed(self.outcome.reason, self.outcome.usage, lenient)

    def may_end_with(self, frame: Frame, value: Any) -> bool:
        """Return whether an unterminated frame is complete and may end the stream.

        True for errors; rooms add the terminal and the frames after which a message may be
        complete without it, which are more than `Dialect.is_terminal` accepts.  `value` is the
        decoded data; None if it is no JSON.
        """
        return is_object(value) and find_error(value) is not None

    def complete_without_terminal(self, events: list[Event]) -> tuple[str, ...]:
        """Complete a message that lacks only the terminal event; return missing frames' names."""
        return ()

    def stray(self, line: str) -> StreamError | None:
        """Return the provider's error in a line outside any event, or None."""
        name, colon, value = line.partition(":")
        if colon and name == "error":  # llama.cpp until late 2025, and GPUStack
            value = value.removeprefix(" ")
            return named_error(value, self.json_of(value))
        return find_error(self.json_of(line))

    def body_error(self, body: str) -> StreamError | None:
        """Return the provider's error in a JSON body, or None."""
        return find_error(self.json_of(body))

    def judge_body(self, body: bytes | bytearray) -> StreamError:
        """Return the error for a body that is not a stream: the provider's, or `NOT_A_STREAM`."""
        return self.body_error(str(body, "utf-8", "replace")) or not_a_stream(body)

    def read_done(self, events: list[Event]) -> None:
        """Append the events of a `[DONE]` frame; most dialects have no such frame."""
        self.note("stray_done", "frame")

    def json_of(self, text: str) -> Any:
        """Return the value of JSON text; None if the text is invalid."""
        try:
            return decode_any(text, max_depth=self._limits.max_json_depth)
        except InvalidJSON:
            return None

    @property
    def lacks_only_terminal(self) -> bool:
        """Whether only the terminal event, which a server may omit, is missing from the message."""
        return False

    @property
    def resume_token(self) -> dict[str, Any] | None:
        """Token from which the vendor can resume a broken stream, or None."""
        return None

    @property
    def note(self) -> Callable[[str, str], None]:
        """Function that counts an accepted deviation, given the kind and the location."""
        return self._notes.add  # no method of the decoder, to which its blocks would refer then

    def malformed(self, message: str) -> Fatal:
        """Return the error that ends a stream which violates its protocol."""
        return malformed(message)

    def invalid(self, problem: InvalidJSON) -> Fatal:
        """Return the error that ends a stream with an undecodable payload."""
        if problem.too_deep:
            return too_large("max_json_depth", self._limits.max_json_depth)
        return self.malformed(str(problem))

    def _end_run(self) -> None:
        self.run = None
        if self._delta_run is not None:
            self._delta_run.close()

    def _end_source(self, events: list[Event]) -> None:
        """Append the events for the end of the source; set `outcome` on success.

        Raises:
            Fatal: The stream was cut, or is none.
        """
        if self._body is not None:
            if self._body.is_cut:
                # A clean end of the connection is no success: only the dialect's terminal is.
                # No official SDK distinguishes the two (read 2026-11-21).
                raise Fatal(self._truncated())
            if not self._body.is_stream:
                self.error_outside_stream = True
                raise Fatal(self.judge_body(self._body.buffered))
        rest = self.framing.unterminated()
        is_text = rest is None and holds_no_field(self.framing)
        for _, line in self.framing.strays:  # the last line, if it has no end
            self._read_stray(line)
            rest = rest or Frame("message", "")  # a line without its end is a cut stream
        self.end(rest, events)
        if self.outcome is None:
            self._judge_strays()
            if is_text:  # `_strays` is empty if a line exceeds `max_error_body_bytes`
                raise Fatal(self.judge_body(self._strays or b"\0"))
            raise Fatal(self._truncated())

    def _broken_framing(self) -> Fatal:
        failure = self.framing.failure
        if failure is None:
            return too_large("max_event_bytes", self._limits.max_event_bytes)
        self.error_outside_stream = True
        return Fatal(failure)

    def _fail(self, error: StreamError, events: list[Event]) -> None:
        self.outcome = error_outcome(error)
        self._end_run()
        events.append(error)

    def _truncated(self) -> StreamError:
        return cut_stream(self.frames, self.resume_token)

    def _split_start(self, data: bytes) -> list[RawFrame]:
        """Split the first bytes of the source; set `split` to read the rest as a body or as SSE."""
        # An error body may come with status 200 and any content type: SDKs yield an empty stream
        # from it.
        start = data.lstrip(b" \t\r\n\xef\xbb\xbf")
        if not start:
            self._blank = self._blank or bool(data)
            return self.framing.split(data)
        if start[0] not in b"{[<":
            self._begin_stream()
            return self.framing.split(data)
        self.is_plain = False
        self._body = Body(self.sniffer(start), b"\n\n" * self._blank)
        self.split = partial(self._split_body, self._body)
        return self.split(start)

    def _split_framed(self, data: bytes) -> list[RawFrame]:
        self._begin_stream()
        return self.split(data)

    def _begin_stream(self) -> None:
        self.split = self.framing.split
        if self._delta_run is not None and self.offers_run:
            self.run = self._delta_run
            self.run.read_from(self.framing)

    def _split_body(self, body: Body, data: bytes) -> list[RawFrame]:
        """Buffer a body, or split it if it proves to be a stream in another format."""
        # After the outcome a stream is still converted, for the passthrough of its bytes.
        keeps = self.outcome is None or body.is_stream
        events = body.feed(data if keeps else b"")
        if self.outcome is not None:
            return []
        if body.is_stream:
            self.run = self._delta_run if self.offers_run else None
            return self.framing.split(events)
        if body.is_undecided:  # perhaps endless white space, of which no event is made
            if len(body.buffered) > self._limits.max_event_bytes:
                bound = self._limits.max_event_bytes
                self._refusal = too_large("max_event_bytes", bound).error
                return [Fragment(b"")]
            return []
        bound = self._limits.max_error_body_bytes
        # The first bytes of a page or an error suffice to name it.
        if len(body.buffered) <= bound:
            return []
        self.error_outside_stream = True
        self._refusal = self.judge_body(body.buffered[:bound])
        return [Fragment(b"")]

    def _read_stray(self, line: bytes) -> None:
        error = self.stray(str(line, "utf-8", "replace"))
        if error is not None:
            self.error_outside_stream = True
            raise Fatal(error)
        if line.strip():
            self.note("stray_line", "frame")
        self._strays += line + b"\n"

    def _judge_strays(self) -> None:
        """Raise the error, if any, that the server wrote as several lines outside events."""
        # Google ends a stream by an error object of several lines without `data:`.
        error = self.body_error(str(self._strays, "utf-8", "replace")) if self._strays else None
        if error is not None:
            self.error_outside_stream = True
            raise Fatal(error)


def _split_closed(data: bytes) -> list[RawFrame]:
    raise LocalProtocolError("feed after close, expected nothing")


DONE = "[DONE]"
"""Data of the last frame of Chat Completions; gateways send it in other dialects, too."""


def read_no_json(
    decoder: Decoder,
    frame: Frame,
    problem: InvalidJSON,
    events: list[Event],
    names: Container[str] = (),
) -> None:
    """Append the events of a frame whose data is not JSON.

    Args:
        decoder: The decoder of the stream, which reads joined events one by one.
        frame: The frame.
        problem: Error of the JSON decoder.
        events: The list to append to.
        names: Names of the dialect's events; empty if its events have no names.

    Raises:
        Fatal: The frame is an error, or an event of the dialect, whose data must be JSON.
    """
    data = frame.data
    if data.startswith(DONE):
        decoder.read_done(events)
    # An empty `data` line carries nothing, although OpenAI's SDKs fail at it.
    elif not data.strip():
        pass
    elif frame.event == "error":
        raise Fatal(named_error(data, None))
    # Several `data` lines that are no JSON together: the blank lines between events are missing.
    elif "\n" in data and not problem.too_deep:
        decoder.note("joined_frames", "frame")
        # Only one event line was kept; `message` makes each event name itself by its `type`.
        name = "message" if names else frame.event
        for line in data.split("\n"):
            if decoder.outcome is None:
                decoder.read(Frame(name, line), events)
    elif frame.event == "message" or frame.event in names:
        raise decoder.invalid(problem) from problem
    else:
        events.append(Opaque(decoder.dialect, clean(frame.event), compact(data)))
