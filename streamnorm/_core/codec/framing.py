"""Framings of streams: how events are split, passed through, and laid out in recordings.

A layout serves recordings, faults and reports; decoders read a stream as it arrives.

Every dialect is defined on server-sent events, and its decoder and encoder know no other form.
Another framing turns its bytes into the lines of such events, and back:

    bytes -> Splitter.split -> raw frames -> the decoder of the dialect
    the encoder of the dialect -> server-sent events -> FrameWriter.write -> bytes

A framing is chosen by the route or the caller, never guessed from the bytes.

A body format is a stream that is no stream of events, such as a JSON array: the first bytes decide,
and a reader converts it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from streamnorm._core.events import StreamError
from streamnorm._core.limits import Limits
from streamnorm.eventstream import Message
from streamnorm.sse import Frame, RawFrame, SSEDecoder, StrayLine, split_events

# The end of an event: the end of its last line, and a blank line.  A CR alone ends a line (WHATWG
# HTML, section 9.2.5).
_EVENT_END = re.compile(rb"(?>\r\n|\r|\n)(?>\r\n|\r|\n)")
# The end of an event with further blank lines, which belong to no event.
_EVENT_ENDS = re.compile(rb"(?>\r\n|\r|\n)(?>\r\n|\r|\n)+")
_LINE_ENDS = re.compile(rb"[\r\n]*")
_OVERLAP = 3  # bytes of an event's end that the previous read may have
_CR = 13

# Atomic groups: CR LF must not match as two line ends.
_BLANK_LINES = re.compile(rb"(?>\r\n|\r|\n)(?:(?>\r\n|\r|\n))+")
_BLANK_END = re.compile(rb"(?:(?>\r\n|\r|\n)){2}\Z")
_HOSTILE = re.compile(rb"[\xc2-\xf4](?=[\x80-\xbf])|\r(?=\n)|\n(?=\r?\n)|(?<![^\r\n])dat(?=a:)|: ")

Replace: TypeAlias = Callable[[list[bytes]], list[bytes]]
"""Returns texts with some of their bytes replaced, each of the same length."""


def as_utf8(data: bytes) -> bytes:
    """Return bytes as valid UTF-8: invalid bytes become U+FFFD.

    Lenient clients decode invalid bytes to U+FFFD anyway; strict clients fail at them.
    """
    if data.isascii():
        return data
    # The SDKs of OpenAI and Anthropic raise at invalid UTF-8 (3.54.0 and 2.12.0, read 2026-11-21).
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode(errors="replace").encode()
    return data


class Passthrough:
    """Return the original bytes of a stream as UTF-8, one or more whole events at a time.

    The beginning of an event is held until its end arrives, so that our own error event never
    follows half an event.

    Args:
        framing: SSE decoder that splits the same bytes.
    """

    shows_errors: bool = True  # of events, and none that stand outside them

    def __init__(self, framing: Splitter) -> None:
        self._framing = framing
        self._held = b""  # beginning of an event, equal to the bytes that the framing holds
        self._behind: list[bytes] = []  # later reads, of which the framing holds other bytes
        self._last = b""  # last bytes of both

    def take_forwarded(self, data: bytes) -> bytes:
        """Return the result of `take` for a read that a delta run has forwarded."""
        if self._behind:
            return self.take(data)
        whole = self._held + data if self._held else data
        if held := self._framing.held:
            whole = whole[: -len(held)]
        self._held = held
        return whole if whole.isascii() else as_utf8(whole)

    def take(self, data: bytes, unread: int = 0) -> bytes:
        """Return the bytes of the events that `data` completes.

        Args:
            data: Bytes of one read, after the framing has split them.
            unread: Number of whole events at the end of `data` that are not passed on.
        """
        framing = self._framing
        if self._behind or unread or not framing.holds_original or framing.overflowed:
            return self.take_other(data, unread)
        if not self._held and not framing.held:
            return as_utf8(data)
        whole = self._held + data if self._held else data
        held = self._held = framing.held
        return as_utf8(whole[: -len(held)] if held else whole)

    def rest(self) -> bytes:
        """Return the held bytes of an unfinished event at the end of the source."""
        return as_utf8(self._rest())

    def take_other(self, data: bytes, unread: int = 0) -> bytes:
        """Return the result of `take` for chunks of which the framing holds no original bytes."""
        if self._framing.overflowed:
            # An event that is too large is not passed on, even if its end is in this read.
            whole = self._rest() + data
            return as_utf8(whole[: _end_within(whole, self._framing.safe_bytes)])
        last = self._last if self._behind else self._held[-_OVERLAP:]
        known = last + data
        end = _end_before(known, unread) if unread else _last_end(known)
        if end or not last:
            # Blank lines keep connections alive: they are passed on at once.
            end = _skip_blank_lines(known, end)
        end -= len(last)
        if end <= 0:
            self._behind.append(data)
            self._last = known[-_OVERLAP:]
            return b""
        passed = self._rest() + data[:end]
        self._hold(data[end:])
        return as_utf8(passed)

    def _rest(self) -> bytes:
        return b"".join([self._held, *self._behind])

    def _hold(self, rest: bytes) -> None:
        framing = self._framing
        if rest == framing.held and not framing.is_irregular:
            self._held, self._behind = rest, []
        else:
            self._held, self._behind = b"", [rest]
        self._last = rest[-_OVERLAP:]


def _skip_blank_lines(data: bytes, end: int) -> int:
    """Return the offset after blank lines at `end`, which belong to no event."""
    blank = _LINE_ENDS.match(data, end)
    return blank.end() if blank else end


def _last_end(data: bytes) -> int:
    """Return the end offset of the last whole event, or 0."""
    if _CR not in data:
        blank = data.rfind(b"\n\n")
        return blank + 2 if blank >= 0 else 0
    # Nearly all streams with CRs have CRLF throughout; the regular expression reads the others.
    blank = data.rfind(b"\r\n\r\n")
    end = blank + 4 if blank >= 0 else 0
    for match in _EVENT_END.finditer(data, end):
        end = match.end()
    return end


def _end_before(data: bytes, unread: int) -> int:
    """Return the end offset of the event that precedes the last `unread` events, or 0."""
    ends = [match.end() for match in _EVENT_ENDS.finditer(data)]
    return ends[-1 - unread] if len(ends) > unread else 0


def _end_within(data: bytes, safe_bytes: int) -> int:
    """Return the end offset of the last event before the first oversized event."""
    end = 0
    for match in _EVENT_END.finditer(data):
        event = data[end : match.end()].replace(b"\r\n", b"\n")
        if len(event) > safe_bytes + len(b"\n\n"):  # `max_event_bytes` includes comments
            break
        end = match.end()
    return end


def list_events(data: bytes) -> list[bytes]:
    """Return the events of an event stream, each with the blank lines after it.

    What is no whole event comes last; together they are the text.
    """
    # What our encoders write, and most servers.
    if _CR not in data and data.find(b"\n\n") == len(data) - 2:
        return [data]
    if _CR not in data and data.endswith(b"\n\n") and b"\n\n\n" not in data:
        return [b"%b\n\n" % event for event in data[:-2].split(b"\n\n")]
    events: list[bytes] = []
    start = 0
    for end in _EVENT_ENDS.finditer(data):
        events.append(data[start : end.end()])
        start = end.end()
    if start < len(data):
        events.append(data[start:])
    return events


def add_id(event: bytes, id: bytes) -> bytes:
    """Return an event with a further `id:` line; incomplete events stay unchanged."""
    if event[-2:] == b"\n\n" and event[-3:-2] not in (b"\n", b"\r"):  # as most events end
        return b"%bid: %b\n\n" % (event[:-1], id)
    fields = event.rstrip(b"\r\n")
    ends = event[len(fields) :]
    line_end = b"\r\n" if ends.startswith(b"\r\n") else ends[:1]
    if ends == line_end:
        return event
    return b"%b%bid: %b%b" % (fields, line_end, id, ends)


class FrameReader(Protocol):
    """Reads the frames of a stream, including error frames that end the stream.

    Attributes:
        frames: Number of frames so far.
    """

    frames: int

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that `data` completes."""
        ...

    def unterminated(self) -> Frame | None:
        """Return the unterminated last frame; None if it cannot be read."""
        ...


class Rewriter(Protocol):
    """Replaces text in binary messages, with correct lengths and checksums."""

    def rewrite(self, messages: Sequence[Message], replace: Replace) -> list[bytes]:
        """Return messages with replaced text, each as long as before."""
        ...

    def rewrite_rest(self, data: bytes, replace: Replace) -> bytes:
        """Return the bytes of an incomplete message with replaced text, as long as before."""
        ...


class StrictReader(Protocol):
    """Validating reader of a stream: yields frames and problems in the bytes.

    Attributes:
        has_failed: Whether no further frames can be read, so that none is missing.
    """

    has_failed: bool

    def feed(self, data: bytes) -> Iterator[Frame | str]:
        """Yield the frames and problems that `data` completes, in order."""
        ...

    def close(self) -> Iterator[Frame | str]:
        """Yield the frames and problems at the end of the stream."""
        ...


class StreamLayout(Protocol):
    """The byte layout of a whole stream in one framing.

    Attributes:
        rewriter: How texts in a stream are replaced; None if a stream is lines of text, whose
            bytes can be replaced where they stand.
        strict_reader: Factory of readers for validation, from the bytes of an event; None for
            that of lines, which each dialect judges.
    """

    rewriter: Rewriter | None
    strict_reader: Callable[[int], StrictReader] | None

    def find_event_ends(self, body: bytes) -> list[int]:
        """Return the end offset of each event; trailing bytes count as one event."""
        ...

    def is_whole(self, body: bytes) -> bool:
        """Return whether the last event is complete."""
        ...

    def find_hostile_cuts(self, body: bytes) -> list[int]:
        """Return offsets where a cut breaks a naive reader, in ascending order."""
        ...

    def frame_reader(self, limits: Limits) -> FrameReader:
        """Return a reader of the frames of one stream."""
        ...


class LineLayout:
    """The byte layout of server-sent events."""

    rewriter: Rewriter | None = None
    strict_reader: Callable[[int], StrictReader] | None = None

    def find_event_ends(self, body: bytes) -> list[int]:
        """Return the end offset of each event, after its blank line."""
        ends = [match.end() for match in _BLANK_LINES.finditer(body)]
        if body and (not ends or ends[-1] < len(body)):
            ends.append(len(body))
        return ends

    def is_whole(self, body: bytes) -> bool:
        """Return whether the last event ends with a blank line."""
        return not body or _BLANK_END.search(body, max(0, len(body) - 4)) is not None

    def find_hostile_cuts(self, body: bytes) -> list[int]:
        """Return the offsets inside characters, between CR and LF, and inside `data:`."""
        return [match.end() for match in _HOSTILE.finditer(body)]

    def frame_reader(self, limits: Limits) -> FrameReader:
        """Return a decoder of server-sent events."""
        return SSEDecoder(max_event_bytes=limits.max_event_bytes)


LINES = LineLayout()
"""Server-sent events: lines of text."""


class Splitter(Protocol):
    """The reading half of a framing; `SSEDecoder` documents the members.

    Attributes:
        failure: Why the stream cannot be read any further, or how the server ended it; None while
            it goes on.  `overflowed` is set with it.
    """

    failure: StreamError | None
    held: bytes
    holds_original: bool
    overflowed: bool
    safe_bytes: int
    stray_lines: int
    strays: list[tuple[int, bytes]]

    @property
    def frames(self) -> int:
        """Number of events read."""
        ...

    @property
    def is_irregular(self) -> bool: ...

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of the incomplete event."""
        ...

    def split(self, data: bytes) -> list[RawFrame]:
        """Return the events that `data` completes, in order."""
        ...

    def parse(self, raw: RawFrame) -> list[Frame | StrayLine]:
        """Return the parsed frame of an event from `split`."""
        ...

    def as_event_stream(self, data: bytes) -> bytes:
        """Return the events that `data`, the last chunk, completed as server-sent events."""
        ...

    def unterminated(self) -> Frame | None:
        """Return the unterminated last event; None if it cannot be read."""
        ...


class PayloadSplitter(Splitter, Protocol):
    """A splitter of events that are no lines."""

    def payload_reader(
        self, prefix: bytes, decode: Callable[[bytes], str | None]
    ) -> Callable[[bytes], str | None]:
        """Return a fast decoder of chunks that end at most one event, which bypasses `split`.

        It returns "" for a read that only begins an event.  It returns None for any other read,
        and if `decode` returns None: then nothing changes, and `split` reads the same bytes.  From
        now on, `split` returns events of the delta run as their payloads alone.

        Args:
            prefix: What precedes the payload in the lines of an event of the delta run.
            decode: Reads a payload.
        """
        ...


AnySplitter: TypeAlias = SSEDecoder | PayloadSplitter
"""The reading half of any framing."""


class FrameWriter(Protocol):
    """The writing half of a framing."""

    def write(self, data: bytes, failure: StreamError | None) -> bytes:
        """Return server-sent events as bytes of the framing.

        Args:
            data: Whole events, as the encoder of the dialect writes them.
            failure: The error that ends the stream with them; None if none does.
        """
        ...

    def delta_writer(self, head: bytes, tail: bytes) -> Callable[[str], bytes]:
        """Return a fast serializer of a block's deltas, equivalent to `write`.

        Args:
            head: What precedes the JSON of the text in a delta, as server-sent event.
            tail: What follows it.
        """
        ...


class StreamPassthrough(Protocol):
    """Returns the original bytes of a stream in whole events; see `Passthrough`.

    Attributes:
        shows_errors: Whether clients read the provider's errors in events, and none outside
            them; otherwise those outside alone.
    """

    shows_errors: bool

    def take_forwarded(self, data: bytes) -> bytes:
        """Return the result of `take` for a read that a delta run has forwarded."""
        ...

    def take(self, data: bytes, unread: int = 0) -> bytes:
        """Return the bytes of the events that `data` completes."""
        ...

    def take_other(self, data: bytes, unread: int = 0) -> bytes:
        """Return the result of `take` for chunks of which the framing holds no original bytes."""
        ...

    def rest(self) -> bytes:
        """Return the held bytes of an unfinished event at the end of the source."""
        ...


class Framing(Struct, frozen=True, eq=False):
    """The encoding of a dialect's events in the bytes of a stream.

    Attributes:
        name: Name of the framing.
        media_type: `content-type` of a stream.
        suffix: Suffix of a file that holds a recorded stream.
        splitter: Factory of the reading half.
        passthrough: Factory of the passthrough of a splitter's original bytes.
        layout: How a whole stream is cut and rewritten.
        writer: Factory of the writing half; None where encoders write the framing themselves.
        headers: Headers of a response with a stream, besides `content-type`.
    """

    name: str
    media_type: str
    suffix: Literal[".sse", ".eventstream", ".ws.jsonl"]
    splitter: Callable[[Limits], AnySplitter]
    passthrough: Callable[[Any], StreamPassthrough]
    layout: StreamLayout
    writer: Callable[[], FrameWriter] | None = None
    headers: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"Framing({self.name!r})"


SSE = Framing("sse", "text/event-stream", ".sse", split_events, Passthrough, LINES)
"""Server-sent events."""


_FIELDS = (b"data", b"event", b"id", b"retry")
_NEXT_LINE = re.compile(rb"(?<!\n)\ndata: ")


class FormatReader(Protocol):
    """A converter of one body in a format other than SSE to server-sent events.

    Attributes:
        ended: Whether the body is complete.
    """

    ended: bool

    def feed(self, data: bytes, /) -> bytes:
        """Return the events that `data` completes, as server-sent events."""
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
    """Detects from the first event of a body whether the body is a stream in `format`.

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
        """Inspect more of the body; return whether it is a stream, None while unknown."""
        frames = self._sse.feed(self._reader.feed(data))
        # The first event decides: an error in an array is a body, and no stream.
        if frames:
            return self.format.recognises(frames[0])
        if self._sse.overflowed:
            return True  # the decoder reports that it is too large
        return False if self._reader.ended else None


class Body:
    """A source that starts like JSON or HTML, buffered until its format is known.

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
        """Whether the source has proved to be a stream in a format other than SSE."""
        return self._reader is not None

    @property
    def is_cut(self) -> bool:
        """Whether the source is, or may still be, a stream whose end is missing."""
        return self.is_undecided if self._reader is None else not self._reader.ended

    def feed(self, data: bytes) -> bytes:
        """Return the events that `data` completes; b"" while the format is unknown."""
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
        """Return the events of the last chunk, each with its data on one line."""
        return one_line_each(self._events)


def one_line_each(data: bytes) -> bytes:
    """Return JSON events, each with its data on one line: some clients read only one line."""
    # google-genai reads one line per event.
    return _NEXT_LINE.sub(b" ", data)


def holds_no_field(sse: Splitter) -> bool:
    """Return whether a completed source has no SSE field: it is text or binary data.

    A last line without its end may be a field whose name was cut.
    """
    cut_lines = [line for _, line in sse.strays]
    is_cut_field = any(field.startswith(line) for line in cut_lines for field in _FIELDS)
    return sse.frames == 0 and sse.stray_lines > is_cut_field
