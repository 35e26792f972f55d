"""The body of a transcoded response."""

from __future__ import annotations

from typing import Any, Self

from streamnorm._core.events import Completed, Failed, Truncated
from streamnorm.transports.family import Family
from streamnorm.transports.transcoded_state import StoredTurn, last_response

__all__ = ["TranscodedBody"]


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
