"""Server-sent events: bytes to frames, and back.

https://html.spec.whatwg.org/multipage/server-sent-events.html (read 2026-11-21),
sections 9.2.5 and 9.2.6, followed to the letter, with bounds.  Time is linear in
bytes whatever the size of the chunks.
"""

from __future__ import annotations

from msgspec import Struct

from streamnorm.limits import Limits

__all__ = ["Frame", "SSEDecoder", "encode_frame"]

_BOM = b"\xef\xbb\xbf"
_LF, _CR, _COLON = 10, 13, 58
_MAX_RETRY_MS = 2**31 - 1


class Frame(Struct, frozen=True, gc=False):
    """One server-sent event.

    Attributes:
        event: Its type; `message` where none was named.
        data: Its `data` lines, joined by LF.
        id: The last event id at the time it was dispatched.
        retry: Reconnection time in ms, where one was sent since the frame before.
    """

    event: str
    data: str
    id: str = ""
    retry: int | None = None


class SSEDecoder:
    """Cut bytes into frames.

    Each frame is out with the byte that ends its blank line; a CR ends its line at
    once.  Comments are dropped as they arrive, however long.  An event that passes
    `max_event_bytes` sets `overflowed`, after which nothing comes any more.

    Args:
        max_event_bytes: Bytes of one event's lines, each with its line end, comments
            and the blank line left out.
        max_stray_bytes: Bytes of `strays` that are kept.

    Attributes:
        last_event_id: The last id that a blank line committed.
        retry_ms: The last valid reconnection time, if any.
        frames: How many frames were dispatched.
        strays: Lines that no field claims, each with the number of frames dispatched
            before it.  The owner may clear the list.
        overflowed: Whether an event passed `max_event_bytes`.
        disturbed: Whether there are strays, or an overflow.
        plain: Whether an event begins with the next byte, and nothing carries over to it.
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
        self.overflowed = False
        self.disturbed = False
        self.plain = False
        self._max_event_bytes = max_event_bytes
        self._stray_room = max_stray_bytes
        self._prefix: bytes | None = b""  # what could yet become a BOM; None after it
        self._after_cr = False
        self._line = bytearray()  # an incomplete line
        self._in_comment = False  # the incomplete line is a comment, and not kept
        self._event_bytes = 0
        self._reset()
        self._id = ""
        self._retry: int | None = None

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that `data` completes."""
        # Nearly every chunk of a model is one event of one data line, named or not.
        payload = self.data_line(data)
        if payload is not None:
            self.frames += 1
            return [Frame("message", _text(payload), self._id)]
        if (
            data[:7] == b"event: "
            and data[-2:] == b"\n\n"
            and self.plain
            and len(data) <= self._max_event_bytes
        ):
            cut = data.find(_LF) + 1
            payload = data[cut + 6 : -2]
            if data[cut : cut + 6] == b"data: " and _LF not in payload and _CR not in data:
                self.frames += 1
                event = _text(data[7 : cut - 1]) or "message"
                return [Frame(event, _text(payload), self._id)]
        return self._feed(data)

    def data_line(self, data: bytes) -> bytes | None:
        """Return the payload, if the next bytes are one whole event of one line `data: `.

        Whoever reads it counts it in `frames`, instead of feeding it.
        """
        if data[:6] != b"data: " or not self.plain or len(data) > self._max_event_bytes:
            return None
        if data[-2:] == b"\n\n":
            payload = data[6:-2]
        elif data[-4:] == b"\r\n\r\n":
            payload = data[6:-4]
        else:
            return None
        return None if _LF in payload or _CR in payload else payload

    def _feed(self, data: bytes) -> list[Frame]:
        if self._prefix is not None:
            data = self._strip_bom(data)
        if _CR in data or self._after_cr:
            data = self._lf_only(data)
        frames: list[Frame] = []
        if self.overflowed or not data:
            self.plain = self._is_plain()
            return frames
        position = 0
        if self._line or self._in_comment:
            position = self._finish_line(data, frames)
        while (end := data.find(_LF, position)) >= 0:
            if not self._take(data[position:end], frames):
                break
            position = end + 1
        if position < len(data) and not self.overflowed:
            self._keep(data[position:])
        self.frames += len(frames)
        self.disturbed = self.overflowed or bool(self.strays)
        self.plain = self._is_plain()
        return frames

    def close(self) -> list[Frame]:
        """Return nothing: an event without its blank line is discarded."""
        return []

    def abort(self, cause: BaseException) -> list[Frame]:
        """Return nothing: an event without its blank line is discarded."""
        return []

    def unterminated(self) -> Frame | None:
        """Return what the source left without its blank line, for who wants to look.

        To be called once, after the last `feed`.
        """
        frames: list[Frame] = []
        if self._line:  # within the bound, or it would not have been kept
            self._take(bytes(self._line), frames)
        self._dispatch(frames)
        return frames[0] if frames else None

    def _is_plain(self) -> bool:
        """Tell whether an event begins with the next byte, and nothing carries over to it."""
        return not (
            self.overflowed
            or self._prefix is not None
            or self._after_cr
            or self._line
            or self._in_comment
            or self._event_bytes
            or self._retry is not None
        )

    def _strip_bom(self, data: bytes) -> bytes:
        start = (self._prefix or b"") + data
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._prefix = start
            return b""
        self._prefix = None
        return start.removeprefix(_BOM)

    def _lf_only(self, data: bytes) -> bytes:
        """Make every line end an LF.

        A CR becomes one at once, so that nothing waits for the byte behind it; an LF
        that then follows is swallowed.
        """
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if data.endswith(b"\r"):
            self._after_cr = True
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _finish_line(self, data: bytes, frames: list[Frame]) -> int:
        """End the incomplete line, and return where in `data` the next one begins."""
        end = data.find(_LF)
        if end < 0:
            return 0
        if self._in_comment:
            self._in_comment = False
        else:
            line = bytes(self._line) + data[:end]
            self._line.clear()
            if not self._take(line, frames):
                return len(data)
        return end + 1

    def _keep(self, rest: bytes) -> None:
        """Keep the beginning of a line, if it can matter."""
        if self._in_comment:
            return
        if not self._line and rest[0] == _COLON:
            self._in_comment = True
            return
        self._line += rest
        if self._event_bytes + len(self._line) + 1 > self._max_event_bytes:
            self._overflow()

    def _take(self, line: bytes, frames: list[Frame]) -> bool:
        """Interpret one line.  Return False if it passes the bound."""
        if not line:
            self._dispatch(frames)
            return True
        if line[0] == _COLON:
            return True
        self._event_bytes += len(line) + 1
        if self._event_bytes > self._max_event_bytes:
            self._overflow()
            return False
        name, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        match name:
            case b"data":
                self._data.append(_text(value))
            case b"event":
                self._event = _text(value)
            case b"id":
                if b"\0" not in value:
                    self._id = _text(value)
            case b"retry":
                self._set_retry(value)
            case _:
                self._stray(line, len(frames))
        return True

    def _set_retry(self, value: bytes) -> None:
        # bytes.isdigit knows ASCII digits only; a number that cannot be a time is no number.
        if value.isdigit() and len(value) <= 10 and int(value) <= _MAX_RETRY_MS:
            self._retry = self.retry_ms = int(value)

    def _stray(self, line: bytes, pending: int) -> None:
        if len(line) <= self._stray_room:
            self._stray_room -= len(line)
            self.strays.append((self.frames + pending, line))

    def _dispatch(self, frames: list[Frame]) -> None:
        self.last_event_id = self._id
        if self._data:
            frames.append(
                Frame(self._event or "message", "\n".join(self._data), self._id, self._retry)
            )
            self._retry = None
        self._event_bytes = 0
        self._reset()

    def _reset(self) -> None:
        self._data: list[str] = []
        self._event = ""

    def _overflow(self) -> None:
        self.overflowed = True
        self._line.clear()
        self._reset()


def _text(data: bytes) -> str:
    try:
        return data.decode()  # twice as fast as with "replace"
    except UnicodeDecodeError:
        return data.decode(errors="replace")


def encode_frame(data: str, *, event: str | None = None) -> bytes:
    """Return one frame as bytes.

    Args:
        data: Its text; each line (LF, CRLF or CR) becomes a `data` line.
        event: Its type.

    Raises:
        ValueError: `event` holds a line end or a NUL, which would forge a frame.
    """
    lines: list[str] = []
    if event is not None:
        if any(character in event for character in "\r\n\0"):
            raise ValueError("event holds a line end or a NUL, expected neither")
        lines.append(f"event: {event}")
    text = data.replace("\r\n", "\n").replace("\r", "\n")
    lines += [f"data: {line}" for line in text.split("\n")]
    return ("\n".join(lines) + "\n\n").encode("utf-8", "replace")
