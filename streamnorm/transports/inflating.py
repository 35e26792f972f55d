"""Content decoding of a body that is recorded: gzip and deflate."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from streamnorm.recording.recorder import RecordingWriter

__all__ = ["decoded_writes"]

_GZIP_BITS = 16 + zlib.MAX_WBITS
# A few compressed bytes may stand for a gigabyte.
_MAX_PIECE_BYTES = 1024 * 1024


def decoded_writes(writer: RecordingWriter, coding: str) -> Callable[[bytes], object]:
    """Return a function that decodes a read of the body and passes it to the writer.

    With an unsupported coding the recording is given up, and the reads are ignored.

    Args:
        writer: Writer of the recording.
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
    """Decoder of a gzip or deflate body.

    Args:
        writer: Writer of the recording.
        window_bits: zlib's `wbits`; None detects from the first byte whether a `deflate` body
            has a zlib header, because servers send both.
    """

    def __init__(self, writer: RecordingWriter, window_bits: int | None) -> None:
        self._writer = writer
        self._zlib = None if window_bits is None else zlib.decompressobj(window_bits)

    def write(self, data: bytes) -> None:
        """Decode a read of the body and write the result."""
        if not data:
            return
        try:
            self._inflate(data)
        except zlib.error:
            self._writer.fail("the response's body is not of its content-encoding")

    def _inflate(self, data: bytes) -> None:
        if self._zlib is None:
            # RFC 1950: the low half of a header's first byte is 8; a raw deflate stream never
            # begins so.
            with_header = data[0] & 0x0F == 8
            self._zlib = zlib.decompressobj(zlib.MAX_WBITS if with_header else -zlib.MAX_WBITS)
        if self._zlib.eof:
            return  # clients ignore trailing bytes, and zlib would accumulate them
        piece = self._zlib.decompress(data, _MAX_PIECE_BYTES)
        while piece:
            self._writer.write(piece)
            piece = self._zlib.decompress(self._zlib.unconsumed_tail, _MAX_PIECE_BYTES)
