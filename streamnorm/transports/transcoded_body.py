"""The body of a transcoded response, and the whole body of a provider's."""

from __future__ import annotations

from typing import Any, Self

import anyio

from streamnorm._core.events import Completed, Failed, Truncated
from streamnorm._core.limits import Limits
from streamnorm.aio.sources import AsyncReader, Reader
from streamnorm.transports.family import Family, HTTPResponse
from streamnorm.transports.transcoded_state import StoredTurn, last_response

__all__ = ["TranscodedBody", "read_whole", "read_whole_async"]

# Closing must end even if the network no longer answers.
_CLOSE_S = 1.0
_LIMITS = Limits()


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
        self._is_live = not first  # whether the next chunk is the stream's
        self._ended = False
        self._closed = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        data: bytes = next(self._stream) if self._is_live else self._take_first(StopIteration)
        outcome = self._stream.outcome
        if outcome is None:
            return data
        if isinstance(outcome, (Failed, Truncated)):
            self._end()
            self._stream.close()
        elif self._turn is not None and isinstance(outcome, Completed):
            self._turn.put(last_response(data))
        return data

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        stream = self._stream
        data: bytes = (
            await stream.__anext__() if self._is_live else self._take_first(StopAsyncIteration)
        )
        outcome = stream.outcome
        if outcome is None:
            return data
        if isinstance(outcome, (Failed, Truncated)):
            self._end()
            await stream.aclose()
        elif self._turn is not None and isinstance(outcome, Completed):
            await self._turn.put_async(last_response(data))
        return data

    def close(self) -> None:
        """Close the provider's response."""
        self._closed = True
        self._end()
        self._stream.close()

    async def aclose(self) -> None:
        """Close the provider's response."""
        self._closed = True
        self._end()
        await self._stream.aclose()

    def _take_first(self, end: type[Exception]) -> bytes:
        """Return the first chunk, once.

        Raises:
            StopIteration: Or `end`: the stream has ended.
        """
        if self._closed:
            raise self._family.read_error("read of a body that was closed, expected none")
        if self._ended:
            raise end
        self._is_live = True
        return self._first

    def _end(self) -> None:
        self._ended, self._is_live = True, False


def read_whole(response: HTTPResponse) -> bytes:
    """Return the whole body of a response, and close it."""
    reader = Reader(response)
    parts: list[bytes] = []
    size = 0
    try:
        while size <= _LIMITS.max_accumulated_bytes:
            try:
                parts.append(reader.read())
            except StopIteration:
                break
            size += len(parts[-1])
    finally:
        reader.close()
    return b"".join(parts)


async def read_whole_async(response: HTTPResponse) -> bytes:
    """Return the whole body of a response, and close it."""
    reader = AsyncReader(response)
    parts: list[bytes] = []
    size = 0
    try:
        while size <= _LIMITS.max_accumulated_bytes:
            try:
                parts.append(await reader.read())
            except StopAsyncIteration:
                break
            size += len(parts[-1])
    finally:
        with anyio.move_on_after(_CLOSE_S, shield=True):
            await reader.close()
    return b"".join(parts)
