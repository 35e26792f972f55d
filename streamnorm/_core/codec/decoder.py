"""What every decoder does: framing, limits, a body that is no stream, notes, the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from streamnorm._core.codec.body_format import Form, FormReader, Opening, one_line_each
from streamnorm._core.codec.delta_run import DeltaRun
from streamnorm._core.errors import LocalProtocolError
from streamnorm._core.events import (
    ErrorKind,
    Event,
    Outcome,
    StreamError,
    Usage,
)
from streamnorm._core.failures import NOT_A_STREAM, Fatal, error_outcome, too_large
from streamnorm._core.json import InvalidJSON, decode_any
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Note, OnNote
from streamnorm._core.provider_errors import find_error, named_error
from streamnorm.sse import Fragment, Frame, RawFrame, SSEDecoder, StrayLine

__all__ = ["Decoder"]


class Decoder(ABC):
    """Turn the bytes of one stream into events.

    Never raises because of the peer: what goes wrong becomes one `StreamError`, the
    last event.  After its end it says nothing.

    Args:
        limits: Bounds.
        on_note: Called with each note as it happens, with a count of 1.

    Attributes:
        dialect: Name of the dialect that is read; empty while that is not known.
        forms: The forms that its streams may have beside server-sent events.
        outcome: How the stream ended; None until it has.
        first_usage: The tokens that came with the start of the message, in one frame, so
            that who writes can tell them with it, too.
        split: Return the frames that bytes complete, each for the run or for `read_raw`; it
            raises `LocalProtocolError` once the decoder was closed.
        framing: What cuts the bytes of the stream.
        is_plain: Whether the bytes are an event stream as they came; else `framed` is it.
        run: The fast path; None before the stream has begun, and once it has ended.
        offers_run: Whether there is a `run`; tests switch it off to read every frame in full.
        unframed: Whether the error at the end stood in no event, so that no client of the
            stream's own has seen it.
    """

    dialect: str = ""
    forms: tuple[Form, ...] = ()
    first_usage: Usage | None = None
    offers_run: ClassVar[bool] = True
    unframed: bool = False

    def __init__(self, *, limits: Limits = Limits(), on_note: OnNote | None = None) -> None:  # noqa: B008 - frozen
        self.outcome: Outcome | None = None
        self.run: DeltaRun | None = None
        self.is_plain = True
        self._limits = limits
        self.framing = SSEDecoder(
            max_event_bytes=limits.max_event_bytes, max_stray_bytes=limits.max_error_body_bytes
        )
        self._on_note = on_note
        self._notes: dict[Note, int] = {}
        # What the bytes are, which are a stream once their first character is known: a stream
        # is cut by `SSEDecoder.split` itself.
        self.split: Callable[[bytes], list[RawFrame]] = self._split_start
        self._blank = False  # whether white space came before all else
        self._body: bytearray | None = None  # of a response that is no event stream
        self._opening: Opening | None = None  # what tells whether that is a stream, though
        self._form: FormReader | None = None  # what makes an event stream of it
        self._framed = b""  # the event stream that the last bytes were
        self._strays = b""
        self._refusal: StreamError | None = None  # of a body that is no stream

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that `data` makes known.

        Raises:
            LocalProtocolError: The decoder was closed.
        """
        run = self.run
        events: list[Event] = []
        if run is not None and run.reads_are_events:
            text = run.text_of_read(data)
            if text is not None:
                run.append_events(text, events)
                return events
        frames = self.split(data)
        for raw in frames:
            if run is None or type(raw) is not bytes or (text := run.text_of(raw)) is None:
                events += self.read_raw(raw)
                run = self.run
            else:
                run.append_events(text, events)
        if run is not None:
            run.reads_are_events = len(frames) == 1
        return events

    def read_raw(self, raw: RawFrame) -> list[Event]:
        """Return the events of what `split` returned, in the order in which it did."""
        events: list[Event] = []
        if self.outcome is not None:
            return events
        try:
            if self._refusal is not None:
                raise Fatal(self._refusal)
            for item in self.framing.parse(raw):
                if isinstance(item, StrayLine):
                    self._read_stray(item.line)
                else:
                    self.read(item, events)
                    if self.outcome is not None:
                        self.run = None
                        return events
            if self.framing.overflowed:
                raise too_large("max_event_bytes", self._limits.max_event_bytes)
        except Fatal as fatal:
            self._fail(fatal.error, events)
        return events

    @property
    def next_sequence_number(self) -> int:
        """The number of the next event, where the dialect numbers them."""
        return 0

    def feed_frame(self, frame: Frame) -> list[Event]:
        """Return the events of input that is already framed.

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
        """Return the events that the end of the source makes known."""
        self.split, self.run = _split_closed, None
        events: list[Event] = []
        if self.outcome is not None:
            return events
        try:
            if self._opening is not None:
                raise Fatal(self._truncated())
            if self._body is not None:
                raise Fatal(self._judge_body(bytes(self._body)))
            rest = self.framing.unterminated()
            for _, line in self.framing.strays:  # the last line, if it has no end
                self._read_stray(line)
                rest = rest or Frame("message", "")  # a cut, even if in a field's name
            self.end(rest, events)
            if self.outcome is None:
                self._judge_strays()
                raise Fatal(self._truncated())
        except Fatal as fatal:
            self._fail(fatal.error, events)
        return events

    def abort(self, cause: BaseException) -> list[Event]:
        """Return the events that the failure of the source makes known."""
        self.split, self.run = _split_closed, None
        events: list[Event] = []
        if self.outcome is None:
            kind: ErrorKind = "stalled" if isinstance(cause, TimeoutError) else "transport"
            message = f"{type(cause).__name__} after {self.framing.frames} frames"
            error = StreamError(kind, message, retryable=True, extra=self.resume)
            self._fail(error, events)
        return events

    def adopt_framing(self, other: Decoder) -> None:
        """Go on where another decoder of the same bytes stopped."""
        self.framing, self._strays = other.framing, other._strays
        self._form, self._framed, self.is_plain = other._form, other._framed, other.is_plain
        if self._form is None:
            self._begin_stream()
        else:
            self.split = self._split_form

    @property
    def is_body(self) -> bool:
        """Whether the source is a body that is, or may be, no stream; it is judged at its end."""
        return self._body is not None

    def opening(self, start: bytes) -> Opening | None:
        """Return what tells whether a body that begins so is a stream, if it may be one."""
        form = next((form for form in self.forms if start.startswith(form.start)), None)
        return None if form is None else Opening(form, self._limits)

    def framed(self, data: bytes) -> bytes:
        """Return bytes that were just fed as the event stream that they are.

        They are that as they came; nothing, as long as they may be a body that is none; or
        what the form that they have makes of them.
        """
        if self._form is not None:
            return one_line_each(self._framed)
        return data if self._body is None else b""

    @property
    def frames(self) -> int:
        """How many frames were read from bytes."""
        return self.framing.frames

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was forgiven, in order of first appearance."""
        return tuple(Note(note.kind, note.where, count) for note, count in self._notes.items())

    def _delta_run(self) -> DeltaRun | None:
        """Return the room's fast path, the same one each time."""
        return None

    @abstractmethod
    def read(self, frame: Frame, events: list[Event]) -> None:
        """Append the events of one frame.  The terminal sets `outcome`.

        Raises:
            Fatal: The stream ends here.
        """

    @abstractmethod
    def end(self, rest: Frame | None, events: list[Event]) -> None:
        """Append the events of the end, and set `outcome` if it is a success.

        Args:
            rest: A last frame without its blank line.
            events: Where to append.

        Raises:
            Fatal: The stream ends here.
        """

    def stray(self, line: str) -> StreamError | None:
        """Return the provider's error that a line outside of any field tells, if it does."""
        name, colon, value = line.partition(":")
        if colon and name == "error":  # llama.cpp until late 2025, and GPUStack
            value = value.removeprefix(" ")
            return named_error(value, self.json_of(value))
        return find_error(self.json_of(line))

    def body_error(self, body: str) -> StreamError | None:
        """Return the provider's error that a JSON body tells, if it does."""
        return find_error(self.json_of(body))

    def read_joined(self, frame: Frame, event: str, events: list[Event]) -> None:
        """Read the events of a frame, a line each, that came without blank lines between.

        Args:
            frame: All of them.
            event: The name that each is read under.
            events: What they tell is appended.
        """
        self.note("joined_frames", "frame")
        for line in frame.data.split("\n"):
            if self.outcome is None:
                self.read(Frame(event, line), events)

    def json_of(self, text: str) -> Any:
        """Return the value of JSON text, or None if it is none."""
        try:
            return decode_any(text, max_depth=self._limits.max_json_depth)
        except InvalidJSON:
            return None

    @property
    def resume(self) -> dict[str, Any] | None:
        """What the vendor can go on from with a stream that broke off here, if it can."""
        return None

    def note(self, kind: str, where: str) -> None:
        """Count something that was forgiven."""
        note = Note(kind, where)
        self._notes[note] = self._notes.get(note, 0) + 1
        if self._on_note is not None:
            self._on_note(note)

    def malformed(self, message: str) -> Fatal:
        """Return the end of a stream that breaks its protocol."""
        return Fatal(StreamError("malformed", message))

    def invalid(self, problem: InvalidJSON) -> Fatal:
        """Return the end of a stream with a payload that cannot be read."""
        if problem.too_deep:
            return too_large("max_json_depth", self._limits.max_json_depth)
        return self.malformed(str(problem))

    def _fail(self, error: StreamError, events: list[Event]) -> None:
        self.outcome, self.run = error_outcome(error), None
        events.append(error)

    def _truncated(self) -> StreamError:
        return StreamError(
            "truncated",
            f"stream ended after {self.framing.frames} frames, expected the end of its message",
            retryable=True,
            extra=self.resume,
        )

    def _split_start(self, data: bytes) -> list[RawFrame]:
        """Find out what the bytes are: no event stream begins as JSON or HTML do."""
        start = data.lstrip(b" \t\r\n\xef\xbb\xbf")
        if not start:
            self._blank = self._blank or bool(data)
            return self.framing.split(data)
        if start[0] not in b"{[<":
            self._begin_stream()
            return self.framing.split(data)
        self.is_plain = False
        self._body = bytearray()
        self._opening = self.opening(start)
        self.split = self._split_body
        return self._split_body(start)

    def _begin_stream(self) -> None:
        self.split = self.framing.split
        run = self._delta_run()
        if run is not None and self.offers_run:
            self.run = run
            run.framing = self.framing

    def _split_body(self, data: bytes) -> list[RawFrame]:
        """Set aside a body that is no stream, or of which that is not known yet."""
        if self._body is None or self.outcome is not None:
            return []
        self._body += data
        is_stream = False if self._opening is None else self._opening.feed(data)
        if self._opening is not None and is_stream:
            self._form = self._opening.form.reader()
            # What came before, and went on, must not stand in the first line.
            before, body = b"\n\n" * self._blank, bytes(self._body)
            self._body = self._opening = None
            self.split = self._split_form
            return self._split_form(body, before=before)
        if is_stream is None:
            return []
        self._opening = None
        bound = self._limits.max_error_body_bytes
        if len(self._body) <= bound:
            return []
        self._refusal = self._judge_body(bytes(self._body[:bound]))
        return [Fragment(b"")]

    def _split_form(self, data: bytes, *, before: bytes = b"") -> list[RawFrame]:
        """Cut the event stream that a body in another form is turned into."""
        if self._form is None or self.outcome is not None:
            self._framed = b""
            return []
        self._framed = before + self._form.feed(data)
        self.run = self._delta_run() if self.offers_run else None
        return self.framing.split(self._framed)

    def _judge_body(self, body: bytes) -> StreamError:
        self.unframed = True
        error = self.body_error(str(body, "utf-8", "replace"))
        if error is not None:
            return error
        message = f"body that begins with {chr(body[0])!r}, expected an event stream"
        return StreamError("malformed", message, code=NOT_A_STREAM)

    def _read_stray(self, line: bytes) -> None:
        text = str(line, "utf-8", "replace")
        error = self.stray(text)
        if error is not None:
            self.unframed = True
            raise Fatal(error)
        self._strays += line + b"\n"

    def _judge_strays(self) -> None:
        """Look for an error that was printed over several lines."""
        error = self.body_error(str(self._strays, "utf-8", "replace")) if self._strays else None
        if error is not None:
            self.unframed = True
            raise Fatal(error)


def _split_closed(data: bytes) -> list[RawFrame]:
    raise LocalProtocolError("feed after close, expected nothing")
