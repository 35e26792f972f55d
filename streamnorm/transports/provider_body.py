"""The body of a provider's response, decoded in bounded pieces, and read in full."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

import anyio
import anyio.lowlevel

from streamnorm._core.errors import RemoteProtocolError
from streamnorm._core.events import StreamError
from streamnorm._core.failures import broken_connection
from streamnorm._core.limits import Limits
from streamnorm.aio.sources import AsyncReader, Reader
from streamnorm.http.codings import CONTENT_ENCODING, ResponseDecoder, content_codings
from streamnorm.transports.family import HTTPResponse, ResponseT

# Closing must end even if the network no longer answers.
_CLOSE_S = 1.0
# Decoders accept no more of one answer.
_MAX_BYTES = Limits().max_accumulated_bytes


class ProviderResponse:
    """A response whose body is read without the content decoders of its package.

    Those are nested generators, which cost more than the transcoding of a small event, and they
    inflate a read at once, without a bound on its size.

    Args:
        response: The response, of which nothing was read.
    """

    def __init__(self, response: HTTPResponse) -> None:
        self.status_code = response.status_code
        self.headers = response.headers
        self._coding = response.headers.get(CONTENT_ENCODING, "")
        self._is_coded = bool(content_codings(self._coding))
        self._response = response
        self._decoded: _DecodedReads | None = None

    def iter_bytes(self) -> Iterator[bytes]:
        """Iterate over the decoded body."""
        source: Iterator[bytes] = iter(self._response.stream)
        return _DecodedReads(source, self._coding) if self._is_coded else source

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Iterate over the decoded body of an asynchronous response."""
        source: AsyncIterator[bytes] = aiter(self._response.stream)
        if not self._is_coded:
            return source
        self._decoded = _DecodedReads(source, self._coding)
        return self._decoded

    def close(self) -> None:
        """Close the response."""
        self._response.close()

    async def aclose(self) -> None:
        """Close the asynchronous response."""
        if self._decoded is not None:
            self._decoded.discard()  # so that the next read ends the generators of the source
        await self._response.aclose()


class _DecodedReads:
    """The pieces of a compressed body, synchronous or asynchronous.

    Args:
        source: Iterator over the reads of the body.
        coding: Its `content-encoding`.
    """

    def __init__(self, source: Any, coding: str) -> None:
        self._source = source
        self._coding = coding
        self._decoder: ResponseDecoder | None = None
        self._pieces: Iterator[bytes] = iter(())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        decoder = self._begin_decoding()
        while (piece := next(self._pieces, None)) is None:
            self._pieces = decoder.feed(next(self._source))
        return piece

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        decoder = self._begin_decoding()
        if (piece := next(self._pieces, None)) is not None:
            await anyio.lowlevel.checkpoint()  # a read may become thousands of pieces
            return piece
        while piece is None:
            self._pieces = decoder.feed(await anext(self._source))
            piece = next(self._pieces, None)
        return piece

    def discard(self) -> None:
        """Drop decoded pieces that were not returned."""
        self._pieces = iter(())

    def _begin_decoding(self) -> ResponseDecoder:
        """Return the decoder, created by the first read so that its failure is one of the body.

        Raises:
            RemoteProtocolError: The coding is not supported.
        """
        if self._decoder is None:
            self._decoder = ResponseDecoder(self._coding)
        return self._decoder


def open_body(response: ResponseT) -> ResponseT | ProviderResponse:
    """Return a response whose decoded body can be read in bounded pieces."""
    return response if response.is_closed else ProviderResponse(response)


def read_whole(response: HTTPResponse, max_bytes: int = _MAX_BYTES) -> bytes | StreamError:
    """Return the complete body of a response, cut off above `max_bytes`, and close the response.

    A body that cannot be decoded is returned as an error.
    """
    reader = Reader(open_body(response))
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
    """Return the complete body of a response; the twin of `read_whole`."""
    reader = AsyncReader(open_body(response))
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
