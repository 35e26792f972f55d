"""The body of a provider's response: decoded within bounds, piece by piece or whole."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Self

import anyio
import anyio.lowlevel

from streamnorm._core.errors import RemoteProtocolError
from streamnorm._core.events import StreamError
from streamnorm._core.failures import broken_connection
from streamnorm._core.limits import Limits
from streamnorm.aio.sources import AsyncReader, Reader
from streamnorm.recording.recorder import RecordingWriter
from streamnorm.transports.family import HTTPResponse, ResponseT

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


# Closing must end even if the network no longer answers.
_CLOSE_S = 1.0
# Decoders accept no more of one answer.
_MAX_BYTES = Limits().max_accumulated_bytes


class ProviderResponse:
    """A response of the network, read without the decoders of its package.

    Their generators cost more than the transcoding of a small event, and they inflate a read
    at once, however large it becomes.

    Args:
        response: The response, of which nothing was read.
    """

    def __init__(self, response: HTTPResponse) -> None:
        self.status_code = response.status_code
        self.headers = response.headers
        self._coding = response.headers.get("content-encoding", "")
        self._response = response
        self._inflated: _Inflated | None = None

    def iter_bytes(self) -> Iterator[bytes]:
        """Iterate over the decoded body."""
        source: Iterator[bytes] = iter(self._response.stream)
        return source if is_plain(self._coding) else _Inflated(source, self._coding)

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Iterate over the decoded body of an asynchronous response."""
        source: AsyncIterator[bytes] = aiter(self._response.stream)
        if is_plain(self._coding):
            return source
        self._inflated = _Inflated(source, self._coding)
        return self._inflated

    def close(self) -> None:
        """Close the response."""
        self._response.close()

    async def aclose(self) -> None:
        """Close the asynchronous response."""
        if self._inflated is not None:
            self._inflated.discard()  # so that the next read ends the generators of the source
        await self._response.aclose()


class _Inflated:
    """The pieces of a compressed body, synchronous or asynchronous.

    Args:
        source: Iterator over the reads of the body.
        coding: Its `content-encoding`.
    """

    def __init__(self, source: Any, coding: str) -> None:
        self._source = source
        self._coding = coding
        self._inflation: Inflation | None = None
        self._pieces: Iterator[bytes] = iter(())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        decoder = self._begin()
        while (piece := next(self._pieces, None)) is None:
            self._pieces = decoder.pieces(next(self._source))
        return piece

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        decoder = self._begin()
        if (piece := next(self._pieces, None)) is not None:
            await anyio.lowlevel.checkpoint()  # a read may become thousands of pieces
            return piece
        while piece is None:
            self._pieces = decoder.pieces(await anext(self._source))
            piece = next(self._pieces, None)
        return piece

    def discard(self) -> None:
        """Drop what was read and not returned."""
        self._pieces = iter(())

    def _begin(self) -> Inflation:
        """Return the decoder; by a read, so that a failure is one of the body.

        Raises:
            RemoteProtocolError: The coding is not supported.
        """
        if self._inflation is None:
            self._inflation = inflation(self._coding)
        return self._inflation


def readable(response: ResponseT) -> ResponseT | ProviderResponse:
    """Return a response to read its decoded body from."""
    return response if response.is_closed else ProviderResponse(response)


def read_whole(response: HTTPResponse, max_bytes: int = _MAX_BYTES) -> bytes | StreamError:
    """Return the whole body of a response, and close it; of a larger one the first reads.

    A body that cannot be decoded is an error.
    """
    reader = Reader(readable(response))
    parts: list[bytes] = []
    size = 0
    try:
        while size <= max_bytes:
            try:
                parts.append(reader.read())
            except StopIteration:
                break
            size += len(parts[-1])
    except RemoteProtocolError as exc:
        return broken_connection(exc, 0)
    finally:
        reader.close()
    return b"".join(parts)


async def read_whole_async(
    response: HTTPResponse, max_bytes: int = _MAX_BYTES
) -> bytes | StreamError:
    """Return the whole body of a response; the twin of `read_whole`."""
    reader = AsyncReader(readable(response))
    parts: list[bytes] = []
    size = 0
    try:
        while size <= max_bytes:
            try:
                parts.append(await reader.read())
            except StopAsyncIteration:
                break
            size += len(parts[-1])
    except RemoteProtocolError as exc:
        return broken_connection(exc, 0)
    finally:
        with anyio.move_on_after(_CLOSE_S, shield=True):
            await reader.close()
    return b"".join(parts)
