"""The body of a transcoded response, and the whole body of a provider's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

import anyio

from streamnorm._core.events import Completed, Failed, Truncated
from streamnorm._core.limits import Limits
from streamnorm.aio.sources import AsyncReader, Reader
from streamnorm.transports.family import Family, HTTPResponse, ResponseT
from streamnorm.transports.transcoded_state import StoredTurn, last_response

__all__ = ["PlainResponse", "TranscodedBody", "read_whole", "read_whole_async", "readable"]

# Closing must end even if the network no longer answers.
_CLOSE_S = 1.0
# Decoders accept no more of one answer.
_MAX_BYTES = Limits().max_accumulated_bytes


class TranscodedBody:
    """The body of a transcoded response, synchronous or asynchronous.

    The provider's response is closed with the chunk that reports a failure: some SDKs raise
    at it, and close nothing.

    Args:
        first: Its first chunk; empty if there is none.
        stream: The other chunks.
        family: Package of the client.
        turn: Stores the answer before its last chunk is returned; None if it is not stored.
    """

    def __init__(
        self, first: bytes, stream: Any, family: Family[Any, Any], turn: StoredTurn | None
    ) -> None:
        self._turn = turn
        self._first = first
        self._stream = stream
        self._family = family
        self._ended = False
        self._closed = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        if self._first or self._ended or self._closed:
            data = self._first_chunk(StopIteration())
        else:
            data = next(self._stream)
        match self._stream.outcome:
            case None:
                pass
            case Failed() | Truncated():
                self._ended = True
                self._stream.close()
            case Completed() if self._turn is not None:
                self._turn.put(last_response(data))
            case _:
                pass
        return data

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._first or self._ended or self._closed:
            data = self._first_chunk(StopAsyncIteration())
        else:
            data = await anext(self._stream)
        match self._stream.outcome:
            case None:
                pass
            case Failed() | Truncated():
                self._ended = True
                await self._stream.aclose()
            case Completed() if self._turn is not None:
                await self._turn.put_async(last_response(data))
            case _:
                pass
        return data

    def close(self) -> None:
        """Close the provider's response."""
        self._closed = True
        self._stream.close()

    async def aclose(self) -> None:
        """Close the provider's response."""
        self._closed = True
        await self._stream.aclose()

    def _first_chunk(self, end: StopIteration | StopAsyncIteration) -> bytes:
        """Return the first chunk.

        Raises:
            StopIteration: The body has ended.
            StopAsyncIteration: The same, of an asynchronous body.
            Exception: The body was closed.
        """
        if self._closed:
            raise self._family.read_error("read of a body that was closed, expected none")
        if self._ended:
            raise end
        first, self._first = self._first, b""
        return first


class PlainResponse:
    """A response without content-encoding, read without the decoders of its package.

    Its generators cost more than the transcoding of a small event.

    Args:
        response: The response, of which nothing was read.
    """

    def __init__(self, response: HTTPResponse) -> None:
        self.status_code = response.status_code
        self.headers = response.headers
        self._response = response

    def iter_bytes(self) -> Iterator[bytes]:
        """Iterate over the body."""
        return iter(self._response.stream)

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Iterate over the body of an asynchronous response."""
        return aiter(self._response.stream)

    def close(self) -> None:
        """Close the response."""
        self._response.close()

    async def aclose(self) -> None:
        """Close the asynchronous response."""
        await self._response.aclose()


def readable(response: ResponseT) -> ResponseT | PlainResponse:
    """Return a response to read its decoded body from."""
    is_plain = response.headers.get("content-encoding", "identity").lower() == "identity"
    return PlainResponse(response) if is_plain and not response.is_closed else response


def read_whole(response: HTTPResponse, max_bytes: int = _MAX_BYTES) -> bytes:
    """Return the whole body of a response, and close it; of a larger one the first reads."""
    reader = Reader(response)
    parts: list[bytes] = []
    size = 0
    try:
        while size <= max_bytes:
            try:
                parts.append(reader.read())
            except StopIteration:
                break
            size += len(parts[-1])
    finally:
        reader.close()
    return b"".join(parts)


async def read_whole_async(response: HTTPResponse, max_bytes: int = _MAX_BYTES) -> bytes:
    """Return the whole body of a response, and close it; of a larger one the first reads."""
    reader = AsyncReader(response)
    parts: list[bytes] = []
    size = 0
    try:
        while size <= max_bytes:
            try:
                parts.append(await reader.read())
            except StopAsyncIteration:
                break
            size += len(parts[-1])
    finally:
        with anyio.move_on_after(_CLOSE_S, shield=True):
            await reader.close()
    return b"".join(parts)
