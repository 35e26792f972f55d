"""Undoing the content coding of a body on its way to a writer."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from streamnorm.recording.recorder import RecordingWriter

__all__ = ["decoded_writes"]

_GZIP_BITS = 16 + zlib.MAX_WBITS
# A few compressed bytes may stand for a gigabyte.
_MAX_PIECE_BYTES = 1024 * 1024


def decoded_writes(writer: RecordingWriter, coding: str) -> Callable[[bytes], object]:
    """Return what takes the reads of a body and writes them down decoded.

    Where the coding cannot be undone the recording is given up, and the reads are ignored.

    Args:
        writer: Where to.
        coding: The response's `content-encoding`; empty for none.
    """
    match coding.strip().lower():
        case "" | "identity":
            return writer.write
        case "gzip" | "x-gzip":
            return _Inflation(writer, _GZIP_BITS).write
        case "deflate":
            return _Inflation(writer, None).write
        case _:
            writer.fail("the response has a content-encoding other than gzip and deflate")
            return len


class _Inflation:
    """A body of zlib's format, decoded.

    Args:
        writer: Where to.
        window_bits: What zlib calls so; None to find out from the first byte, as servers
            mean two formats by `deflate`.
    """

    def __init__(self, writer: RecordingWriter, window_bits: int | None) -> None:
        self._writer = writer
        self._zlib = None if window_bits is None else zlib.decompressobj(window_bits)

    def write(self, data: bytes) -> None:
        """Take a read of the body, as it was sent."""
        if not data:
            return
        try:
            self._inflate(data)
        except zlib.error:
            self._writer.fail("the response's body is not of its content-encoding")

    def _inflate(self, data: bytes) -> None:
        if self._zlib is None:
            # RFC 1950: the low half of a header's first byte is 8; what comes without a
            # header never begins so.
            with_header = data[0] & 0x0F == 8
            self._zlib = zlib.decompressobj(zlib.MAX_WBITS if with_header else -zlib.MAX_WBITS)
        if self._zlib.eof:
            return  # the clients ignore what follows, and zlib would collect it
        piece = self._zlib.decompress(data, _MAX_PIECE_BYTES)
        while piece:
            self._writer.write(piece)
            piece = self._zlib.decompress(self._zlib.unconsumed_tail, _MAX_PIECE_BYTES)
