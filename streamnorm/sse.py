"""Server-sent events (SSE): decoder from bytes to frames, and encoder.

https://html.spec.whatwg.org/multipage/server-sent-events.html (read 2026-11-21),
sections 9.2.5 and 9.2.6, all of whose rules hold here, with bounds.  Time is linear in
bytes for reads of any size.

`SSEDecoder.split` cuts whole events out of a read without parsing them, and
`SSEDecoder.parse` parses their lines, so that the fast path can decode an event without
parsing its lines.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from msgspec import Struct

from streamnorm._core.events import StreamError
from streamnorm._core.limits import Limits

__all__ = ["Fragment", "Frame", "RawFrame", "SSEDecoder", "StrayLine", "encode_frame", "is_whole"]

_BOM = b"\xef\xbb\xbf"
_LF, _CR, _COLON = 10, 13, 58
# The largest delay of a timer in browsers and in Node.
_MAX_RETRY_MS = 2**31 - 1
# A compiled expression finds two bytes in half the time that `bytes.split` takes.
_split_lf = re.compile(rb"\n\n").split
_split_crlf = re.compile(rb"\r\n\r\n").split


class Frame(Struct, frozen=True, gc=False):
    """One server-sent event.

    Attributes:
        event: Type of the event; `message` if it has no `event` line.
        data: The `data` lines, joined by LF.
        id: The last event id when the event was dispatched.
        retry: Reconnection time in ms, if one was sent since the previous frame.
    """

    event: str
    data: str
    id: str = ""
    retry: int | None = None


class StrayLine(Struct, frozen=True, gc=False):
    """A line outside any event; some servers print errors this way."""

    line: bytes


class Fragment(Struct, frozen=True, gc=False):
    """A part of an event that is parsed before the event is complete."""

    data: bytes


RawFrame: TypeAlias = bytes | Fragment
"""The lines of one whole event, separated by LF, without the blank line; or a fragment.

A framing without lines has the payload of an event of the delta run in their place, and fragments
that are whole events.
"""


def is_whole(raw: RawFrame) -> bool:
    """Return whether a raw frame completes an event; blank lines alone do not."""
    return bool(raw) if isinstance(raw, bytes) else raw.data.endswith(b"\n\n")


class SSEDecoder:
    """Decoder that splits bytes into frames.

    Each frame is returned with the byte that ends its blank line; a CR ends its line at
    once.  Comments are dropped as they arrive, but count against the bound: a passthrough
    holds them, and a line that never ends is no stream.  An event that exceeds
    `max_event_bytes` sets `overflowed`; no frame follows it.

    Args:
        max_event_bytes: Bound on the lines of one event, of every kind, each with its line end
            and without the blank line.
        max_stray_bytes: Bound on the stray lines that are returned; later lines are dropped.

    Attributes:
        last_event_id: The last id that a blank line committed.
        retry_ms: The last valid reconnection time; None before the first.
        frames: Number of dispatched frames.
        strays: Stray lines that `feed` has read, each with the number of frames dispatched
            before it.  The owner may clear the list.
        stray_lines: Number of stray lines, dropped ones included.
        overflowed: Whether an event has exceeded `max_event_bytes`.
        failure: None: no other failure is possible.
        held: The beginning of an event, not parsed before the end of the event arrives.
        plain_bytes: Size up to which `held` and the next bytes need only be cut at blank lines; -1
            while the next bytes depend on more than `held`.
        holds_original: Whether `held` is the beginning of an event byte for byte.
        safe_bytes: Size up to which a read cannot contain an event above its bound, unless
            `held` is part of it.
    """

    def __init__(
        self,
        *,
        max_event_bytes: int = Limits().max_event_bytes,
        max_stray_bytes: int = Limits().max_error_body_bytes,
    ) -> None:
        self.last_event_id = ""
        self.retry_ms: int | None = None
        self.frames = 0
        self.strays: list[tuple[int, bytes]] = []
        self.stray_lines = 0
        self.overflowed = False
        self.failure: StreamError | None = None
        self.holds_original = False
        self.safe_bytes = max_event_bytes - 1
        self._max_event_bytes = max_event_bytes
        self._stray_room = max_stray_bytes
        # State of `split`: the event whose end has not been read.
        self.plain_bytes = -1  # within fragments, and behind a CR
        self._after_cr = False
        self.held = b""
        self._in_event = True  # a fragment of the event was returned, or a BOM may follow
        self._prefix: bytes | None = b""  # beginning of a possible BOM; None after it
        self._ends_line = False  # the last fragment ended with an LF
        # State of `parse`: the lines of the event so far.
        self._line = bytearray()  # an incomplete line
        self._comment_bytes = 0  # of the incomplete line if it is a comment, which is not stored
        self._event_bytes = 0
        self._data: list[str] = []
        self._event = ""
        self._id = ""
        self._retry: int | None = None

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that `data` completes."""
        before = self.frames
        frames: list[Frame] = []
        for raw in self.split(data):
            for item in self.parse(raw):
                if isinstance(item, StrayLine):
                    self.strays.append((before + len(frames), item.line))
                else:
                    frames.append(item)
        return frames

    def split(self, data: bytes) -> list[RawFrame]:
        """Return the events that `data` completes, in order.

        An event within two reads is returned whole.  An event that needs more reads, or
        begins in an unusual way, is returned in fragments as they arrive: its comments
        must not pile up, and its stray lines may be errors.  Whole events are counted in
        `frames`; a caller that does not `parse` one must know that the event has data.
        """
        if len(self.held) + len(data) > self.plain_bytes:
            return self._split_irregular(data)
        held = self.held
        whole = held + data if held else data
        if _CR not in data:
            pieces = _split_lf(whole)
        else:
            pieces = _split_crlf(whole)
            for piece in pieces:
                if _LF in piece or _CR in piece:  # more than one line
                    return self._split_irregular(data)
        tail = pieces.pop()
        self.frames += len(pieces)
        if tail and self._must_be_parsed(tail, lasts=bool(held) and not pieces):
            self.held, self.holds_original = b"", False
            return [*pieces, self._fragment(tail)]
        self.held, self.holds_original = tail, True
        return pieces

    def parse(self, raw: RawFrame) -> list[Frame | StrayLine]:
        """Return the frames and stray lines of a raw frame from `split`."""
        out: list[Frame | StrayLine] = []
        if self.overflowed:
            return out
        if isinstance(raw, Fragment):
            self._parse_fragment(raw.data, out)
            self.frames += sum(type(item) is Frame for item in out)
            return out
        # Nearly every event is a line of data, after one with its type in some dialects.
        first, _, last = raw.rpartition(b"\n")
        if last[:6] == b"data: " and (not first or (first[:7] == b"event: " and _LF not in first)):
            self.last_event_id = self._id
            event = _text(first[7:]) if first else ""
            frame = Frame(event or "message", _text(last[6:]), self._id, self._retry)
            self._retry = None
            return [frame]
        for line in raw.split(b"\n"):
            self._parse_line(line, out)
        self._dispatch(out)
        if not out or type(out[-1]) is not Frame:
            self.frames -= 1
        return out

    def as_event_stream(self, data: bytes) -> bytes:
        """Return the bytes of a read unchanged: they are server-sent events already."""
        return data

    @property
    def is_irregular(self) -> bool:
        """Whether the next bytes depend on more than `held`."""
        return self.plain_bytes < 0

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of the incomplete event, without a comment line that is still incomplete."""
        return len(self.held) + self._event_bytes + len(self._line)

    def close(self) -> list[Frame]:
        """Return []: an unterminated event is discarded."""
        return []

    def abort(self, cause: BaseException) -> list[Frame]:
        """Return []: an unterminated event is discarded."""
        return []

    def unterminated(self) -> Frame | None:
        """Return the last event of the stream if no blank line follows it, else None.

        Called once, after the last `split` or `feed`; stray lines are added to `strays`.
        """
        out: list[Frame | StrayLine] = []
        held, self.held = self.held, b""
        self._parse_fragment(held, out)
        if self._line:  # within the bound, or it would not be stored
            self._parse_line(bytes(self._line), out)
        # The standard discards an event without its blank line (WHATWG HTML, section 9.2.6);
        # servers leave it out behind a terminal, which the dialect recognises.
        self._dispatch(out)
        self.strays += [(self.frames, item.line) for item in out if isinstance(item, StrayLine)]
        last = out[-1] if out else None
        return last if isinstance(last, Frame) else None

    # Splitting

    def _split_irregular(self, data: bytes) -> list[RawFrame]:
        """Split bytes with mixed line ends, long events, or events beyond the bound."""
        if _CR in data or self._after_cr:
            data = self._normalize_line_ends(data)
        frames: list[RawFrame] = []
        if self._in_event:
            data = self._end_fragments(data, frames)
        if data:
            self._split_lines(data, frames)
        self.plain_bytes = -1 if self._in_event or self._after_cr else self.safe_bytes
        self.holds_original = False
        return frames

    def _split_lines(self, data: bytes, frames: list[RawFrame]) -> None:
        """Append the events that `data`, whose line ends are LF, completes."""
        held, self.held = self.held, b""
        pieces = _split_lf(held + data)
        tail = pieces.pop()
        for piece in pieces:
            if len(piece) > self.safe_bytes:  # to be counted line by line
                frames.append(Fragment(piece + b"\n\n"))
            else:
                frames.append(piece)
                self.frames += 1
        if self._must_be_parsed(tail, lasts=bool(held) and not pieces):
            frames.append(self._fragment(tail))
        else:
            self.held = tail

    def _must_be_parsed(self, tail: bytes, *, lasts: bool) -> bool:
        """Return whether an event must be parsed before it is complete.

        A beginning within one read, whose only complete line is a field, can be held.
        """
        if lasts or len(tail) >= self.safe_bytes:
            return bool(tail)
        end = tail.find(_LF)
        if end < 0:
            return False
        return tail.find(_LF, end + 1) >= 0 or not tail.startswith((b"event:", b"data:"))

    def _end_fragments(self, data: bytes, frames: list[RawFrame]) -> bytes:
        """Append the end of an event that arrives in fragments; return the bytes after it."""
        prefix = self._prefix
        if prefix is not None:
            data = self._strip_bom(data)
            self._in_event = self._prefix is not None
            return data
        end = 1 if self._ends_line and data[:1] == b"\n" else 0
        if not end and (blank := data.find(b"\n\n")) >= 0:
            end = blank + 2
        if end:
            frames.append(Fragment(data[:end]))
            self._in_event = False
            return data[end:]
        if data:
            frames.append(self._fragment(data))
        return b""

    def _fragment(self, data: bytes) -> Fragment:
        self._in_event = not data.endswith(b"\n\n")
        self.plain_bytes = -1 if self._in_event else self.safe_bytes
        self._ends_line = data[-1] == _LF
        return Fragment(data)

    def _strip_bom(self, data: bytes) -> bytes:
        start = (self._prefix or b"") + data
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._prefix = start
            return b""
        # One BOM, and no more: a second one is text (WHATWG HTML, section 9.2.5).
        self._prefix = None
        return start.removeprefix(_BOM)

    def _normalize_line_ends(self, data: bytes) -> bytes:
        """Return bytes with LF for every line end.

        A CR becomes an LF at once, so that no event waits for the next byte; an LF after
        it is dropped.
        """
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        # Waiting for an LF would hold a complete event until the next one arrives.
        if data.endswith(b"\r"):
            self._after_cr = True
        data = data.replace(b"\r\n", b"\n")
        return data.replace(b"\r", b"\n") if _CR in data else data

    # Parsing

    def _parse_fragment(self, data: bytes, out: list[Frame | StrayLine]) -> None:
        position = 0
        while (end := data.find(_LF, position)) >= 0:
            line, position = data[position:end], end + 1
            if self._comment_bytes:
                self._count(self._comment_bytes + len(line) + 1)
                self._comment_bytes = 0
                if self.overflowed:
                    return
                continue
            if self._line:
                line = bytes(self._line) + line
                self._line.clear()
            if line:
                self._parse_line(line, out)
            else:
                self._dispatch(out)
            if self.overflowed:
                return
        if position < len(data):
            self._store(data[position:])

    def _store(self, rest: bytes) -> None:
        """Store the beginning of a line; of a comment, store only the size."""
        # OpenRouter sends comments as long as a model is silent: their text is not stored.
        if self._comment_bytes or (not self._line and rest[0] == _COLON):
            self._comment_bytes += len(rest)
        else:
            self._line += rest
        line_bytes = self._comment_bytes + len(self._line) + 1
        if self._event_bytes + line_bytes > self._max_event_bytes:
            self._overflow()

    def _parse_line(self, line: bytes, out: list[Frame | StrayLine]) -> None:
        """Parse one line of an event."""
        if not line:
            return
        self._count(len(line) + 1)
        if self.overflowed or line[0] == _COLON:
            return
        name, _, value = line.partition(b":")
        # One space, and no tab (WHATWG HTML, section 9.2.6).  Moonshot sends none (recording
        # moonshot/no-space-behind-the-colon).
        if value.startswith(b" "):
            value = value[1:]
        match name:
            case b"data":
                self._data.append(_text(value))
            case b"event":
                self._event = _text(value)
            case b"id":
                # The standard ignores an id with NUL and leaves the one before in force.
                if b"\0" not in value:
                    self._id = _text(value)
            case b"retry":
                # bytes.isdigit knows ASCII digits only; what cannot be a time is no number.
                if value.isdigit() and len(value) <= 10 and int(value) <= _MAX_RETRY_MS:
                    self._retry = self.retry_ms = int(value)
            case _:
                # The standard ignores unknown fields.  GPUStack and Google print errors on lines of
                # this kind.
                self.stray_lines += 1
                if len(line) <= self._stray_room:
                    self._stray_room -= len(line)
                    out.append(StrayLine(line))

    def _dispatch(self, out: list[Frame | StrayLine]) -> None:
        # Also for an event without data (WHATWG HTML, section 9.2.6).
        self.last_event_id = self._id
        # An empty `data` line is an event with empty data, no `data` line is none.
        if self._data:
            data = "\n".join(self._data)
            out.append(Frame(self._event or "message", data, self._id, self._retry))
            self._retry = None
        self._event_bytes = 0
        self._data = []
        self._event = ""

    def _count(self, line_bytes: int) -> None:
        self._event_bytes += line_bytes
        if self._event_bytes > self._max_event_bytes:
            self._overflow()

    def _overflow(self) -> None:
        self.overflowed = True
        self._line.clear()
        self._data = []
        self._event = ""


def split_events(limits: Limits) -> SSEDecoder:
    """Return an SSE decoder with the bounds in `limits`."""
    return SSEDecoder(
        max_event_bytes=limits.max_event_bytes, max_stray_bytes=limits.max_error_body_bytes
    )


def _text(data: bytes) -> str:
    try:
        return data.decode()  # twice as fast as with "replace"
    except UnicodeDecodeError:
        return data.decode(errors="replace")


def encode_frame(data: str, *, event: str | None = None) -> bytes:
    """Encode one frame as bytes.

    Args:
        data: Data of the event; each line (LF, CRLF or CR) becomes a `data` line.
        event: Type of the event; None for no `event` line.

    Raises:
        ValueError: `event` has a line end or a NUL, which would forge a frame.
    """
    lines: list[str] = []
    if event is not None:
        if any(character in event for character in "\r\n\0"):
            raise ValueError("event holds a line end or a NUL, expected neither")
        lines.append(f"event: {event}")
    # Readers end a line at each of the three line ends; U+2028 and others are text.
    text = data.replace("\r\n", "\n").replace("\r", "\n")
    lines += [f"data: {line}" for line in text.split("\n")]
    return ("\n".join(lines) + "\n\n").encode("utf-8", "replace")
