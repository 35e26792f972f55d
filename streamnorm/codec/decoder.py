"""What every decoder does: framing, limits, a body that is no stream, notes, the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

from streamnorm._json import InvalidJSON, decode_any
from streamnorm.codec.delta import Delta
from streamnorm.codec.form import Form, FormReader, Opening, one_line_each
from streamnorm.errors import LocalProtocolError
from streamnorm.events import (
    ErrorKind,
    Event,
    Outcome,
    StreamError,
    Usage,
    UsageUpdate,
)
from streamnorm.failures import NOT_A_STREAM, Fatal, error_outcome, too_large
from streamnorm.limits import Limits
from streamnorm.losses import Note, OnNote
from streamnorm.provider_errors import find_error, named_error
from streamnorm.sse import Frame, SSEDecoder

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
        continued: A delta of the block that the next chunk may continue, doing nothing else;
            None once the stream has ended.
        unframed: Whether the error at the end stood in no event, so that no client of the
            stream's own has seen it.
    """

    dialect: str = ""
    forms: ClassVar[tuple[Form, ...]] = ()
    first_usage: Usage | None = None
    continued: Delta | None = None
    unframed: bool = False

    def __init__(self, *, limits: Limits = Limits(), on_note: OnNote | None = None) -> None:  # noqa: B008 - frozen
        self.outcome: Outcome | None = None
        self._limits = limits
        self._sse = SSEDecoder(
            max_event_bytes=limits.max_event_bytes, max_stray_bytes=limits.max_error_body_bytes
        )
        self._on_note = on_note
        self._notes: dict[Note, int] = {}
        self._sniffing = True
        self._blank = False  # whether white space came before all else
        self._body: bytearray | None = None  # of a response that is no event stream
        self._opening: Opening | None = None  # what tells whether that is a stream, though
        self._form: FormReader | None = None  # what makes an event stream of it
        self._framed = b""  # the event stream that the last bytes were
        self._strays = b""
        self._closed = False

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that `data` makes known.

        Raises:
            LocalProtocolError: The decoder was closed.
        """
        if self.outcome is not None:
            return self._ended()
        events: list[Event] = []
        try:
            if self._sniffing:
                data = self._sniff(data)
            frames = self._sse.feed(data)
            if self._sse.disturbed:
                self._read_disturbed(frames, events)
                return events
            for frame in frames:
                self.read(frame, events)
                if self.outcome is not None:
                    break
        except Fatal as fatal:
            self._fail(fatal.error, events)
        return events

    @property
    def more(self) -> Callable[[bytes], str | None]:
        """What returns the text of the next chunk, if that is one more like `continued`.

        It gives None for a chunk that may hold anything else, which is for `feed`, as any
        may be.  To be used until then, while there is a `continued`.  The tokens that such
        chunks tell are `counted`, which is to be asked before anything else is done.
        """
        return _no_more

    @property
    def turns(self) -> Callable[[bytes], str | None]:
        """As `more`, for blocks that take turns: after each chunk `continued` is of its block.

        Each has grown before, and in one part alone.
        """
        return self.more

    @property
    def reader(self) -> Decoder:
        """The decoder that reads the bytes, and has what goes on from chunk to chunk.

        That is this one, if no other: its are `continued`, `more`, `turns`, `counted`, `number`.
        """
        return self

    @property
    def number(self) -> int:
        """What the next event is numbered, where the dialect numbers them."""
        return 0

    def counted(self) -> UsageUpdate | None:
        """Return the tokens that chunks read by `more` told since the last event, if any."""
        return None

    def feed_frame(self, frame: Frame) -> list[Event]:
        """Return the events of input that is already framed.

        Raises:
            LocalProtocolError: The decoder was closed.
        """
        if self.outcome is not None:
            return self._ended()
        self._sniffing = False
        events: list[Event] = []
        try:
            self.read(frame, events)
        except Fatal as fatal:
            self._fail(fatal.error, events)
        return events

    def close(self) -> list[Event]:
        """Return the events that the end of the source makes known."""
        self._closed, self.continued = True, None
        events: list[Event] = []
        if self.outcome is not None:
            return events
        try:
            if self._opening is not None:
                raise Fatal(self._truncated())
            if self._body is not None:
                raise Fatal(self._judge_body(bytes(self._body)))
            rest = self._sse.unterminated()
            for _, line in self._sse.strays:  # the last line, if it has no end
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
        self._closed, self.continued = True, None
        events: list[Event] = []
        if self.outcome is None:
            kind: ErrorKind = "stalled" if isinstance(cause, TimeoutError) else "transport"
            message = f"{type(cause).__name__} after {self._sse.frames} frames"
            error = StreamError(kind, message, retryable=True, extra=self.resume)
            self._fail(error, events)
        return events

    def take_over(self, before: Decoder) -> None:
        """Go on where another decoder of the same bytes stopped."""
        self._sse, self._strays = before._sse, before._strays
        self._form, self._framed = before._form, before._framed
        self._sniffing = self._form is not None

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
        return self._sse.frames

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was forgiven, in order of first appearance."""
        return tuple(Note(note.kind, note.where, count) for note, count in self._notes.items())

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

    def _ended(self) -> list[Event]:
        if self._closed:
            raise LocalProtocolError("feed after close, expected nothing")
        self._framed = b""
        return []

    def _fail(self, error: StreamError, events: list[Event]) -> None:
        self.outcome, self.continued = error_outcome(error), None
        events.append(error)

    def _truncated(self) -> StreamError:
        return StreamError(
            "truncated",
            f"stream ended after {self._sse.frames} frames, expected the end of its message",
            retryable=True,
            extra=self.resume,
        )

    def _sniff(self, data: bytes) -> bytes:
        """Set aside a body that is JSON or HTML: no event stream begins so."""
        if self._form is not None:
            self._framed = self._form.feed(data)
            return self._framed
        if self._body is None:
            start = data.lstrip(b" \t\r\n\xef\xbb\xbf")
            if not start:
                self._blank = self._blank or bool(data)
                return data
            if start[0] not in b"{[<":
                self._sniffing = False
                return data
            self._body = bytearray()
            self._opening = self.opening(start)
            data = start
        self._body += data
        is_stream = False if self._opening is None else self._opening.feed(data)
        if is_stream is None:
            return b""
        if self._opening is not None and is_stream:
            self._form = self._opening.form.reader()
            # What came before, and went on, must not stand in the first line.
            self._framed = b"\n\n" * self._blank + self._form.feed(bytes(self._body))
            self._body = self._opening = None
            return self._framed
        self._opening = None
        if len(self._body) > self._limits.max_error_body_bytes:
            raise Fatal(self._judge_body(bytes(self._body[: self._limits.max_error_body_bytes])))
        return b""

    def _judge_body(self, body: bytes) -> StreamError:
        self.unframed = True
        error = self.body_error(str(body, "utf-8", "replace"))
        if error is not None:
            return error
        message = f"body that begins with {chr(body[0])!r}, expected an event stream"
        return StreamError("malformed", message, code=NOT_A_STREAM)

    def _read_disturbed(self, frames: list[Frame], events: list[Event]) -> None:
        """Read frames and the stray lines between them, in their order."""
        strays, self._sse.strays = deque(self._sse.strays), []
        for number, frame in enumerate(frames, self._sse.frames - len(frames)):
            while strays and strays[0][0] <= number:
                self._read_stray(strays.popleft()[1])
            self.read(frame, events)
            if self.outcome is not None:
                return
        for _, line in strays:
            self._read_stray(line)
        if self._sse.overflowed:
            raise too_large("max_event_bytes", self._limits.max_event_bytes)

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


def _no_more(data: bytes) -> None:
    """Leave every chunk to `feed`."""
