"""Body formats of streams other than server-sent events, their detection and conversion."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from streamnorm._core.codec.framing import Splitter
from streamnorm._core.limits import Limits
from streamnorm.sse import Frame, SSEDecoder

_FIELDS = (b"data", b"event", b"id", b"retry")
_NEXT_LINE = re.compile(rb"(?<!\n)\ndata: ")


class FormatReader(Protocol):
    """A converter from the bytes of one body to the bytes of an event stream.

    Attributes:
        ended: Whether the body is complete.
    """

    ended: bool

    def feed(self, data: bytes, /) -> bytes:
        """Return the events that `data` completes, as bytes of an event stream."""
        ...


class BodyFormat(Struct, frozen=True):
    """A format of a dialect's streams other than server-sent events.

    Attributes:
        start: First bytes of a body in this format, after white space.
        reader: Factory of the converter of one body.
        recognises: Function that returns whether the first event is of the dialect, and no error.
    """

    start: bytes
    reader: Callable[[], FormatReader]
    recognises: Callable[[Frame], bool]


class FormatSniffer:
    """Detect by the first event whether a body is a stream in a format.

    Args:
        format: Format whose first bytes the body has.
        limits: Bounds; `max_event_bytes` bounds the bytes that are inspected.

    Attributes:
        format: The format.
    """

    def __init__(self, format: BodyFormat, limits: Limits) -> None:
        self.format = format
        self._reader = format.reader()
        self._sse = SSEDecoder(max_event_bytes=limits.max_event_bytes)

    def feed(self, data: bytes) -> bool | None:
        """Inspect more of the body; return whether it is a stream, or None if still unknown."""
        frames = self._sse.feed(self._reader.feed(data))
        # The first event decides: an error in an array is a body, and no stream.
        if frames:
            return self.format.recognises(frames[0])
        if self._sse.overflowed:
            return True  # the decoder reports that it is too large
        return False if self._reader.ended else None


class Body:
    """A source that starts like JSON or HTML, buffered until it is known to be a stream.

    Args:
        sniffer: Sniffer of the format that the source starts like; None if it matches no format.
        before: Blank lines before the first byte.

    Attributes:
        buffered: Bytes that were not converted to an event stream.
    """

    def __init__(self, sniffer: FormatSniffer | None, before: bytes) -> None:
        self.buffered = bytearray()
        self._sniffer = sniffer
        self._before = before
        self._reader: FormatReader | None = None
        self._events = b""  # the last bytes, converted

    @property
    def is_undecided(self) -> bool:
        """Whether the source may still be a stream."""
        return self._sniffer is not None

    @property
    def is_stream(self) -> bool:
        """Whether the source is a stream in another format."""
        return self._reader is not None

    @property
    def is_cut(self) -> bool:
        """Whether the end of the stream, or of what may be one, has not arrived."""
        return self.is_undecided if self._reader is None else not self._reader.ended

    def feed(self, data: bytes) -> bytes:
        """Return the events that `data` completes; b"" until the source is known as a stream."""
        if self._reader is not None:
            self._events = self._reader.feed(data)
            return self._events
        self.buffered += data
        if self._sniffer is None or (is_stream := self._sniffer.feed(data)) is None:
            return b""
        if is_stream:
            self._reader = self._sniffer.format.reader()
            # Blank lines before the body were passed on already; end them before the first event.
            self._events = self._before + self._reader.feed(bytes(self.buffered))
            self.buffered.clear()
        self._sniffer = None
        return self._events

    def last_events(self) -> bytes:
        """Return the events of the last read, with the data of each on one line."""
        return one_line_each(self._events)


def one_line_each(data: bytes) -> bytes:
    """Return JSON events with the data of each on one line: some clients read no other."""
    # google-genai reads one line per event.
    return _NEXT_LINE.sub(b" ", data)


def holds_no_field(sse: Splitter) -> bool:
    """Return whether a source that has ended is text or binary data, not an event stream.

    A last line without its end may be a field whose name was cut.
    """
    cut_lines = [line for _, line in sse.strays]
    is_cut_field = any(field.startswith(line) for line in cut_lines for field in _FIELDS)
    return sse.frames == 0 and sse.stray_lines > is_cut_field
