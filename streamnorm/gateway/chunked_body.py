"""Bodies of upstream answers in HTTP/1.1 chunks."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable
from functools import lru_cache

import aiohttp

_HELD_BYTES = 128 * 1024  # beyond which the connection is not read, as aiohttp's bound
_PIECE_BYTES = 64  # that a piece takes beside its content
_MAX_PASSED_BYTES = 16 * 1024  # beyond which other connections get their turn first
_MAX_LINE = 1024  # bytes of a size with its extensions
_MAX_TRAILER_BYTES = 8 * 1024
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_QUOTED = rb'"(?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\[\t -~\x80-\xff])*"'
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;%b(?:=(?:%b|%b))?)*" % (_TOKEN, _TOKEN, _QUOTED))
_FIELD = re.compile(_TOKEN + rb":[^\x00-\x08\x0a-\x1f\x7f]*")
_END = b"\r\n"


class BrokenFraming(aiohttp.ClientPayloadError):
    """The body of an answer has invalid HTTP/1.1 chunks."""


@lru_cache(1024)
def _size_in(line: bytes) -> int:
    """Return the size that a chunk's size line states.

    Raises:
        BrokenFraming: It states none.
    """
    match = _SIZE.fullmatch(line)
    if match is None:
        raise BrokenFraming("no hexadecimal digits, expected the size of a chunk")
    return int(match[1], 16)


class ChunkedBody:
    """Body with the chunked transfer coding, parsed and queued here instead of in aiohttp.

    https://www.rfc-editor.org/rfc/rfc9112#section-7.1 (read 2026-11-28).  Stricter than a client
    must be: what one reader takes for the end of a body and another for its content would be
    delivered to another request.

    Args:
        pause: Stops the reading of the connection.
        resume: Starts it again.

    Attributes:
        pass_on: Called with the bytes that arrive while a read waits, unless they are many;
            returns whether the read goes on waiting, which else returns these bytes.  It raises
            nothing.  None if a read returns all bytes.
    """

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self.pass_on: Callable[[bytes], bool] | None = None
        self._pause, self._resume = pause, resume
        self._loop = asyncio.get_running_loop()
        self._is_paused = self._is_complete = False
        self._pieces: deque[bytes] = deque()
        self._held_bytes = 0
        self._exception: BaseException | None = None
        self._waiter: asyncio.Future[bytes] | None = None  # of a read that waits; b"" to look again
        self._left = 0  # bytes of the chunk that are still to come
        self._is_in_chunk = self._is_in_trailer = False  # a chunk with the end of its line
        self._rest = b""  # of a line that has not ended
        self._is_at_size = True  # whether the next byte is the first of a chunk's size
        self._trailer_bytes = 0

    def feed(self, data: bytes) -> bytes | None:
        """Read received bytes; return the bytes behind the body, or None if the body goes on.

        Raises:
            BrokenFraming: They are no chunks.
        """
        # Most servers write a chunk for each event, which arrives alone.
        if self._is_at_size:
            end = data.find(_END)
            size = _size_in(data[:end]) if 0 < end < _MAX_LINE else 0
            if size and len(data) == end + size + 4 and data.endswith(_END):
                self._append(data[end + 2 : -2])
                self._deliver()
                return None
        if self._rest:
            data, self._rest = self._rest + data, b""
        position = self._read_chunks(data)
        self._is_at_size = not (self._is_in_chunk or self._is_in_trailer or self._rest)
        self._deliver()
        return None if position < 0 else data[position:]

    @property
    def unread_bytes(self) -> int:
        """Number of bytes of the body that have arrived and were not read."""
        return sum(map(len, self._pieces))

    def _read_chunks(self, data: bytes) -> int:
        """Read chunks; return the position behind the body, or -1 if the body goes on."""
        position = 0
        while not self._is_in_trailer:
            if self._is_in_chunk:
                if self._left:
                    piece = data[position : position + self._left]
                    if not piece:
                        return -1
                    self._append(piece)
                    position += len(piece)
                    self._left -= len(piece)
                    if self._left:
                        return -1
                line_end = data[position : position + 2]
                if line_end != _END:
                    if not _END.startswith(line_end):
                        raise BrokenFraming("bytes behind a chunk, expected the end of its line")
                    self._rest = line_end
                    return -1
                position += 2
                self._is_in_chunk = False
            end = data.find(_END, position, position + _MAX_LINE)
            if end < 0:
                self._rest = data[position:]
                if len(self._rest) >= _MAX_LINE or b"\n" in self._rest:
                    raise BrokenFraming("an endless line, expected the size of a chunk")
                return -1
            self._left = _size_in(data[position:end])
            position = end + 2
            self._is_in_chunk, self._is_in_trailer = self._left > 0, not self._left
        return self._read_trailer(data, position)

    def _read_trailer(self, data: bytes, position: int) -> int:
        """Skip the trailer; return the position behind the trailer, or -1 if it goes on."""
        start = position
        while (end := data.find(_END, position)) > position:
            if _FIELD.fullmatch(data, position, end) is None:
                raise BrokenFraming("no field, expected the trailer of the body")
            position = end + 2
        self._trailer_bytes += position - start
        self._rest = b"" if end == position else data[position:]
        if self._trailer_bytes + len(self._rest) > _MAX_TRAILER_BYTES or b"\n" in self._rest:
            raise BrokenFraming("an endless trailer, expected the end of the body")
        self._is_complete = end == position
        return end + 2 if self._is_complete else -1

    def _append(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._held_bytes += len(piece) + _PIECE_BYTES
        if self._held_bytes > _HELD_BYTES and not self._is_paused:
            self._is_paused = True
            self._pause()

    async def readany(self) -> bytes:
        """Return the received bytes, waiting if there are none; b"" at the end of the body."""
        while True:
            if self._exception is not None:
                raise self._exception
            if self._pieces:
                return self._take()
            if self._is_complete:
                return b""
            waiter: asyncio.Future[bytes] = self._loop.create_future()
            self._waiter = waiter
            try:
                data = await waiter
            except asyncio.CancelledError:
                # The bytes came first.
                if waiter.done() and not waiter.cancelled() and (data := waiter.result()):
                    self._pieces.appendleft(data)
                    self._held_bytes += len(data)
                raise
            finally:
                self._waiter = None
            if data:
                return data

    def is_eof(self) -> bool:
        """Return whether the whole body has arrived."""
        return self._is_complete

    def at_eof(self) -> bool:
        """Return whether the whole body was read."""
        return self._is_complete and not self._pieces and self._exception is None

    def exception(self) -> BaseException | None:
        """Return the exception that ends the body, or None."""
        return self._exception

    def set_exception(self, exc: BaseException, /) -> None:
        """End the body with an exception."""
        self._exception = exc
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(b"")

    def _take(self) -> bytes:
        pieces = self._pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._held_bytes = 0
        if self._is_paused:
            self._is_paused = False
            self._resume()
        return data

    def _deliver(self) -> None:
        """Pass on what has arrived, or wake the read that waits for it."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        pass_on = self.pass_on
        if pass_on is None or self._is_complete or not 0 < self._held_bytes <= _MAX_PASSED_BYTES:
            waiter.set_result(b"")
            return
        data = self._take()
        if not pass_on(data):
            waiter.set_result(data)
