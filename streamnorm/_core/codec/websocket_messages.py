"""Framing of the Responses API over a WebSocket: one event in each message.

A message is the JSON of one event, which names itself by its `type`; there is no terminal but that
of the response, and no comment.  As bytes, a message is one line: JSON has no line end but between
its values, where `message_line` writes a space.  A connection has several responses, and a stream
is one of them: its reader ends at its terminal, and the next response has a reader of its own.

https://developers.openai.com/api/docs/guides/websocket-mode (read 2026-11-23).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import structs

from streamnorm._core.codec.framing import (
    FrameReader,
    Framing,
    Rewriter,
    StrictReader,
    as_utf8,
)
from streamnorm._core.codec.socket_events import (
    NOT_OF_A_RESPONSE,
    TYPE_START,
    drop_stream_id,
    error_message,
    type_of,
)
from streamnorm._core.events import StreamError
from streamnorm._core.failures import response_status
from streamnorm._core.json import compact, dumps, is_object, object_in
from streamnorm._core.limits import Limits
from streamnorm.sse import Fragment, Frame, RawFrame, SSEDecoder, StrayLine

_FAILED = Fragment(b"")  # has the decoder report that a message is too large
_EVENT, _DATA, _EVENT_END = b"event: ", b"\ndata: ", b"\n\n"
_LINE = re.compile(rb"[^\n]*\n(?:[ \t\r]*\n)*")
_LINE_END = re.compile(rb"\n")
_NUMBER = re.compile(r'("sequence_number":)([0-9]+)')
_PINGS = ("ping", "keepalive")
_SUFFIX: Final = ".ws.jsonl"
_INSIDE_CHARACTER = re.compile(rb"[\xc2-\xf4](?=[\x80-\xbf])")


class WebSocketSplitter:
    """Splits a stream into its WebSocket messages; see `Splitter`.

    Args:
        limits: Bounds; `max_event_bytes` bounds a message.
    """

    held = b""
    holds_original = False
    is_irregular = False
    stray_lines = 0
    strays: list[tuple[int, bytes]]

    def __init__(self, limits: Limits) -> None:
        self.failure: StreamError | None = None
        self.overflowed = False
        self.frames = 0
        self.safe_bytes = limits.max_event_bytes - 1
        self.strays = []
        self._max_bytes = limits.max_event_bytes
        self._has_failed = False
        self._begun: list[bytes] = []  # the message whose end has not arrived, in pieces
        self._begun_bytes = 0
        self._run_name: bytes | None = None  # name of the events that the delta run reads
        self._start: bytes | tuple[()] = ()  # of the last message, with its type
        self._name = b""
        self._last: list[RawFrame] = []  # the messages that `split` returned last

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of the incomplete message."""
        return self._begun_bytes

    def split(self, data: bytes) -> list[RawFrame]:
        """Return the messages that `data` completes.

        One that the delta run may read is its JSON, any other a fragment with its lines.
        """
        frames: list[RawFrame] = []
        self._last = frames
        if self._has_failed:
            return frames
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = self._take_begun(lines[0])
        if rest:
            self._begun.append(rest)
            self._begun_bytes += len(rest)
        for line in lines:
            if len(line) > self._max_bytes:
                break
            if line and not line.isspace():
                frames.append(self._raw_of(line))
                self.frames += 1
        else:
            if self._begun_bytes <= self._max_bytes:
                return frames
        self._has_failed = True
        self._take_begun(b"")
        frames.append(_FAILED)
        return frames

    def payload_reader(
        self, prefix: bytes, decode: Callable[[bytes], str | None]
    ) -> Callable[[bytes], str | None]:
        """Return a fast decoder of chunks that hold a single message; see `Splitter`."""
        self._run_name = prefix.removeprefix(_EVENT).removesuffix(_DATA)

        def read(data: bytes) -> str | None:
            end = len(data) - 1
            if data.find(b"\n") != end or not end or self._has_failed:
                return None
            line = data[:end]
            if self._begun:
                line = b"".join([*self._begun, line])
            if not line.startswith(self._start) or self._name != self._run_name:
                return None
            if len(line) > self._max_bytes or (text := decode(line)) is None:
                return None
            self._take_begun(b"")
            self.frames += 1
            self._last = [line]
            return text

        return read

    def parse(self, raw: RawFrame) -> list[Frame | StrayLine]:
        """Return the parsed frame of a message from `split`."""
        if raw is _FAILED:
            self.overflowed = True  # all messages before it are read
            return []
        name, payload = self._event_of(raw)
        return [Frame(name.decode(), payload.decode(errors="replace"))]

    def as_event_stream(self, data: bytes) -> bytes:
        """Return the messages of the last chunk as server-sent events."""
        written: list[bytes] = []
        for raw in self._last:
            if raw is not _FAILED:
                name, payload = self._event_of(raw)
                # A CR alone ends a line of server-sent events; in JSON it is a space.
                written += (_EVENT, name, _DATA, payload.replace(b"\r", b" "), _EVENT_END)
        return b"".join(written)

    def unterminated(self) -> Frame | None:
        """Return the last message, which may be complete without its line end."""
        rest = self._take_begun(b"")
        return None if not rest else self.parse(self._raw_of(rest))[0]  # type: ignore[return-value]  # no stray line

    def _take_begun(self, end: bytes) -> bytes:
        """Return the message whose beginning is held, completed by `end`."""
        if not self._begun:
            return end
        line = b"".join([*self._begun, end])
        self._begun.clear()
        self._begun_bytes = 0
        return line

    def _raw_of(self, line: bytes) -> RawFrame:
        if not line.startswith(self._start):  # nearly all messages are of one type
            self._name, self._start = _name_of(line)
        if self._name == self._run_name:
            return line
        return Fragment(b"%b%b%b%b\n\n" % (_EVENT, self._name, _DATA, drop_stream_id(line)))

    def _event_of(self, raw: RawFrame) -> tuple[bytes, bytes]:
        """Return the name and the JSON of an event."""
        if isinstance(raw, bytes):
            # The delta run may have gone on to events of another type since.
            return _name_of(raw)[0], drop_stream_id(raw)
        name, _, payload = raw.data.removesuffix(_EVENT_END).partition(_DATA)
        return name.removeprefix(_EVENT), payload


def _name_of(message: bytes) -> tuple[bytes, bytes | tuple[()]]:
    """Return a message's event name, and the bytes with which other messages of that name start.

    The name is `message`, and the start an empty tuple, if the type is none.
    """
    if named := TYPE_START.match(message):
        return named[1], named[0]
    name = (type_of(message) or "").encode(errors="replace")
    # The decoder of the dialect reads the type of an event that is named `message`.
    return (b"message" if not name or b"\n" in name or b"\r" in name else name), ()


class WebSocketPassthrough:
    """Returns the original messages of a stream; see `Passthrough`.

    Args:
        splitter: The splitter of the same bytes.
    """

    shows_errors: bool = True

    def __init__(self, splitter: WebSocketSplitter) -> None:
        self._splitter = splitter
        self._held: list[bytes] = []  # the beginning of a message, before this read
        self._passed = 0  # messages

    def take_forwarded(self, data: bytes) -> bytes:
        """Return the message that `data`, at most one message, completes."""
        return self.take(data)

    def take(self, data: bytes, unread: int = 0) -> bytes:
        """Return the messages that `data` completes."""
        self._held.append(data)
        count = self._splitter.frames - unread - self._passed
        if count <= 0:
            return b""
        self._passed += count
        whole = b"".join(self._held)
        end = 0
        while count:
            start, end = end, whole.index(b"\n", end) + 1
            count -= not whole[start:end].isspace()
        self._held = [whole[end:]]
        return as_utf8(whole[:end])

    take_other = take

    def rest(self) -> bytes:
        """Return b"": an incomplete message is not passed on."""
        return b""


class WebSocketWriter:
    """Writes each server-sent event as a WebSocket message.

    A failure before the response has begun is an `error` with a status, and any other
    `response.failed`: never both, as the vendor's.
    """

    def __init__(self) -> None:
        self._sse = SSEDecoder()
        self._has_begun = False

    def write(self, data: bytes, failure: StreamError | None) -> bytes:
        """Return whole events as messages; see `FrameWriter`."""
        out: list[str] = []
        left_out = 0
        for frame in self._sse.feed(data):
            text = frame.data
            if frame.event == "error" and failure is not None:
                if not self._has_begun:
                    out.append(_error_event(text, failure))
                    break
                left_out = 1
            # `[DONE]` has no message, and pings are those of the WebSocket.
            elif text.startswith("{") and frame.event not in _PINGS:
                self._has_begun = True
                out.append(_NUMBER.sub(_one_less, text, count=left_out) if left_out else text)
        return "".join([f"{text}\n" for text in out]).encode("utf-8", "replace")

    def delta_writer(self, head: bytes, tail: bytes) -> Callable[[str], bytes]:
        """Return a serializer of delta messages; see `FrameWriter`."""
        start = head.partition(_DATA)[2]
        end = tail.removesuffix(_EVENT_END) + b"\n"
        return lambda text: b"%b%b%b" % (start, dumps(text), end)


def _error_event(event: str, failure: StreamError) -> str:
    error: dict[str, Any] = object_in(event)["error"]
    headers = error.pop("headers", None)  # which stand beside it
    body = compact({"error": error}).encode()
    return error_message(response_status(failure), body, headers if is_object(headers) else {})


def _one_less(number: re.Match[str]) -> str:
    return f"{number[1]}{int(number[2]) - 1}"


class WebSocketFrames:
    """Reads the frames of a stream of WebSocket messages; see `FrameReader`."""

    def __init__(self, limits: Limits) -> None:
        self.frames = 0
        self._splitter = WebSocketSplitter(limits)

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames of the messages that `data` completes."""
        frames = _frames_of(self._splitter, data)
        self.frames += len(frames)
        return frames

    def unterminated(self) -> Frame | None:
        """Return the last message of a transcript, which may lack its line end."""
        return self._splitter.unterminated()


def _frames_of(splitter: WebSocketSplitter, data: bytes) -> list[Frame]:
    items = [item for raw in splitter.split(data) for item in splitter.parse(raw)]
    return [item for item in items if isinstance(item, Frame)]


# Counts as a frame, and is not checked.
_UNREAD = Frame("message", "")


class StrictWebSocketMessages:
    """Validating reader of WebSocket messages; see `StrictReader`."""

    def __init__(self, max_event_bytes: int) -> None:
        self.has_failed = False
        self._max_bytes = max_event_bytes
        self._splitter = WebSocketSplitter(
            structs.replace(Limits(), max_event_bytes=max_event_bytes)
        )

    def feed(self, data: bytes) -> Iterator[Frame | str]:
        """Yield the frames and problems that `data` completes."""
        for frame in _frames_of(self._splitter, data):
            yield from self._check(frame)
        if self._splitter.overflowed and not self.has_failed:
            self.has_failed = True
            yield f"max_event_bytes of {self._max_bytes} passed"

    def close(self) -> Iterator[Frame | str]:
        """Yield the problem of an incomplete last message."""
        if size := self._splitter.unfinished_bytes:
            yield f"{size} bytes of a message without its end, expected a whole message"

    def _check(self, frame: Frame) -> Iterator[Frame | str]:
        """Yield a message's frame, or the problems of an `error` message."""
        if frame.event == "error":
            self.has_failed = True
            event = object_in(frame.data)
            if not isinstance(event.get("status"), int):
                yield "error without a status, expected that of a response"
            error = event.get("error")
            fields = error if is_object(error) else {}
            if not all(isinstance(fields.get(name), str) for name in ("message", "type")):
                yield "error without error.message and error.type, expected both"
            yield _UNREAD
        elif NOT_OF_A_RESPONSE.match(frame.event):
            yield _UNREAD
        else:
            yield frame


class WebSocketLayout:
    """The byte layout of a stream of WebSocket messages: lines of JSON."""

    rewriter: Rewriter | None = None
    strict_reader: Callable[[int], StrictReader] | None = StrictWebSocketMessages

    def find_event_ends(self, body: bytes) -> list[int]:
        """Return the end offset of each message, after its line end."""
        ends = [match.end() for match in _LINE.finditer(body)]
        if body and (not ends or ends[-1] < len(body)):
            ends.append(len(body))
        return ends

    def is_whole(self, body: bytes) -> bool:
        """Return whether the last message ends with a line end."""
        return not body or body.endswith(b"\n")

    def find_hostile_cuts(self, body: bytes) -> list[int]:
        """Return the offsets inside characters and around line ends."""
        inside = [match.end() for match in _INSIDE_CHARACTER.finditer(body)]
        ends = [match.start() for match in _LINE_END.finditer(body)]
        return sorted({*inside, *ends, *[end + 1 for end in ends]} - {0})

    def frame_reader(self, limits: Limits) -> FrameReader:
        """Return a reader of the frames of one stream."""
        return WebSocketFrames(limits)


WS_MESSAGE = Framing(
    "ws_message",
    "application/jsonl",
    _SUFFIX,
    WebSocketSplitter,
    WebSocketPassthrough,
    WebSocketLayout(),
    WebSocketWriter,
)
"""One event in each message of a WebSocket, as those of the Responses API; a message is a line."""
