"""Content decoding of bodies, in bounded steps: gzip and deflate."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

from streamnorm._core.errors import RemoteProtocolError
from streamnorm.recording.recorder import RecordingWriter

__all__ = ["Inflation", "decoded_writes", "inflation", "is_plain"]

_GZIP_BITS = 16 + zlib.MAX_WBITS
# A few compressed bytes may stand for a gigabyte.
_MAX_PIECE_BYTES = 1024 * 1024


def is_plain(coding: str) -> bool:
    """Return whether a `content-encoding`, "" for none, leaves the body as it is."""
    return coding.strip().lower() in ("", "identity")


def inflation(coding: str) -> Inflation:
    """Return the decoder of a body.

    Args:
        coding: The response's `content-encoding`.

    Raises:
        RemoteProtocolError: It is neither gzip nor deflate, or more than one coding.
    """
    match coding.strip().lower():
        case "gzip" | "x-gzip":
            return Inflation(_GZIP_BITS)
        case "deflate":
            return Inflation(None)
        case _:
            raise RemoteProtocolError(
                "a content-encoding other than gzip and deflate, expected none"
            )


def decoded_writes(writer: RecordingWriter, coding: str) -> Callable[[bytes], object]:
    """Return a function that decodes a read of the body and passes it to the writer.

    With an unsupported coding the recording is given up, and the reads are ignored.

    Args:
        writer: Writer of the recording.
        coding: The response's `content-encoding`; empty for none.
    """
    if is_plain(coding):
        return writer.write
    try:
        body = inflation(coding)
    except RemoteProtocolError:
        writer.fail("the response has a content-encoding other than gzip and deflate")
        return len

    def write(data: bytes) -> None:
        try:
            for piece in body.pieces(data):
                writer.write(piece)
        except RemoteProtocolError:
            writer.fail("the response's body is not of its content-encoding")

    return write


class Inflation:
    """Decoder of a gzip or deflate body.

    Args:
        window_bits: zlib's `wbits`; None detects from the first byte whether a `deflate` body
            has a zlib header, because servers send both.
    """

    def __init__(self, window_bits: int | None) -> None:
        self._zlib = None if window_bits is None else zlib.decompressobj(window_bits)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Decode a read of the body, at most 1 MiB at a time.

        Raises:
            RemoteProtocolError: By a step: it is not of the coding.
        """
        try:
            yield from self._inflate(data)
        except zlib.error as exc:
            raise RemoteProtocolError(
                "a body that is not of its content-encoding, expected gzip or deflate"
            ) from exc

    def _inflate(self, data: bytes) -> Iterator[bytes]:
        if not data:
            return
        if self._zlib is None:
            # RFC 1950: the low half of a header's first byte is 8; a raw deflate stream never
            # begins so.
            with_header = data[0] & 0x0F == 8
            self._zlib = zlib.decompressobj(zlib.MAX_WBITS if with_header else -zlib.MAX_WBITS)
        if self._zlib.eof:
            return  # clients ignore trailing bytes, and zlib would accumulate them
        while piece := self._zlib.decompress(data, _MAX_PIECE_BYTES):
            yield piece
            data = self._zlib.unconsumed_tail
