"""The body of a transcoded response."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from streamnorm._core.events import Completed, Failed, Truncated
from streamnorm.aio import Stream, SyncStream
from streamnorm.aio.pump import Head, Pump
from streamnorm.aio.sources import AsyncReader, Reader
from streamnorm.transports.family import Family, HTTPResponse
from streamnorm.transports.provider_body import readable
from streamnorm.transports.transcoded_state import StoredTurn, last_response

__all__ = ["SyncTranscodedBody", "TranscodedBody"]


class TranscodedBody(Stream[bytes]):
    """The body of a transcoded response: the stream itself.

    The provider's response is closed with the chunk that reports a failure: some SDKs raise
    at it, and close nothing.

    Args:
        response: The provider's response.
        family: Package of the client.
        turn: Stores the answer before its last chunk is returned; None if it is not stored.
        pump: Makes the pump of the stream.
    """

    def __init__(
        self,
        response: HTTPResponse,
        family: Family[Any, Any],
        turn: StoredTurn | None,
        pump: Callable[[Head], Pump[bytes]],
    ) -> None:
        reader = AsyncReader(readable(response))
        super().__init__(pump(reader), reader)
        self._family = family
        self._turn = turn

    async def begin(self) -> None:
        """Read the first chunk, which a failure may precede; the client still gets it.

        Raises:
            StreamnormError: The stream failed before it.
        """
        if first := await anext(self, b""):
            self._pump.pending.append(first)

    async def aclose(self) -> None:
        """Close the provider's response."""
        self._finished = False
        if self._closed:
            self._pump.abandon()  # the first chunk, if it was the last
        await super().aclose()

    async def _last(self) -> bytes:
        data = await super()._last()
        match self.outcome:
            case Failed() | Truncated():
                with suppress(StopAsyncIteration):
                    await self._end()
            case Completed() if self._turn is not None and self._turn.stores:
                await self._turn.put_async(last_response(data))
            case _:
                pass
        return data

    def _misuse(self) -> Exception:
        return _closed_error(self._family) if self._closed else super()._misuse()


class SyncTranscodedBody(SyncStream[bytes]):
    """The synchronous twin of `TranscodedBody`."""

    def __init__(
        self,
        response: HTTPResponse,
        family: Family[Any, Any],
        turn: StoredTurn | None,
        pump: Callable[[Head], Pump[bytes]],
    ) -> None:
        reader = Reader(readable(response))
        super().__init__(pump(reader), reader)
        self._family = family
        self._turn = turn

    def begin(self) -> None:
        """Read the first chunk, which a failure may precede; the client still gets it."""
        if first := next(self, b""):
            self._pump.pending.append(first)

    def close(self) -> None:
        """Close the provider's response."""
        self._finished = False
        if self._closed:
            self._pump.abandon()
        super().close()

    def _last(self) -> bytes:
        data = super()._last()
        match self.outcome:
            case Failed() | Truncated():
                with suppress(StopIteration):
                    self._end()
            case Completed() if self._turn is not None and self._turn.stores:
                self._turn.put(last_response(data))
            case _:
                pass
        return data

    def _misuse(self) -> Exception:
        return _closed_error(self._family) if self._closed else super()._misuse()


def _closed_error(family: Family[Any, Any]) -> Exception:
    return family.read_error("read of a body that was closed, expected none")
