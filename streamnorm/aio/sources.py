"""Where bytes come from: responses of HTTP clients, and plain iterables.

Nothing is imported to recognise them: a source is what has the methods of one.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Protocol, TypeAlias, runtime_checkable

import anyio

__all__ = ["AsyncReader", "AsyncSource", "Reader", "Source"]

# One read of 64 KiB holds no more chunks of HTTP's framing that matter.
_MAX_BUFFERED_READS = 4096


@runtime_checkable
class AsyncResponse(Protocol):
    """A response of httpx or httpx2."""

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Iterate over the decoded body."""
        ...

    async def aclose(self) -> None:
        """Let the connection go."""
        ...


@runtime_checkable
class AsyncEventSource(Protocol):
    """An `httpx_sse.EventSource` of an asynchronous client."""

    @property
    def response(self) -> AsyncResponse:
        """The response it stands on."""
        ...


class AiohttpContent(Protocol):
    """The body of an `aiohttp.ClientResponse`."""

    def iter_any(self) -> AsyncIterable[bytes]:
        """Iterate over the body as it comes."""
        ...


class AiohttpResponse(Protocol):
    """An `aiohttp.ClientResponse`."""

    @property
    def content(self) -> AiohttpContent:
        """The body."""
        ...

    def close(self) -> object:
        """Let the connection go."""
        ...


@runtime_checkable
class Response(Protocol):
    """A response of the synchronous clients of httpx and httpx2."""

    def iter_bytes(self) -> Iterator[bytes]:
        """Iterate over the decoded body."""
        ...

    def close(self) -> None:
        """Let the connection go."""
        ...


@runtime_checkable
class EventSource(Protocol):
    """An `httpx_sse.EventSource` of a synchronous client."""

    @property
    def response(self) -> Response:
        """The response it stands on."""
        ...


AsyncSource: TypeAlias = AsyncResponse | AsyncEventSource | AiohttpResponse | AsyncIterable[bytes]
"""What `events`, `transcode` and `tap` read."""

Source: TypeAlias = Response | EventSource | Iterable[bytes]
"""What `iter_events` and `iter_transcode` read."""


class AsyncReader:
    """Read a source and close it.

    Attributes:
        read: Returns the next bytes, or raises `StopAsyncIteration`.
        status: HTTP status; None where the source is no response.
        content_type: Its `content-type`.

    Raises:
        TypeError: It is no source.
    """

    def __init__(self, source: AsyncSource) -> None:
        inner = getattr(source, "response", None)
        owner: Any = inner if isinstance(inner, AsyncResponse) else source
        self._owner = owner
        self.status, self.content_type = _head(owner)
        if isinstance(owner, AsyncResponse):
            iterable: AsyncIterable[bytes] = owner.aiter_bytes()
        elif hasattr(getattr(owner, "content", None), "iter_any"):
            iterable = owner.content.iter_any()
        elif hasattr(owner, "__aiter__"):
            iterable = owner
        else:
            raise TypeError(
                f"{type(source).__name__} is no source, expected a response with aiter_bytes(),"
                " an EventSource, an aiohttp response or an asynchronous iterable of bytes"
            )
        self._iterator: Any = aiter(iterable)
        self.read: Callable[[], Awaitable[bytes]] = self._iterator.__anext__

    async def close(self) -> None:
        """Close what is read, and let go of what it stands on."""
        if isinstance(self._owner, AsyncResponse):
            await self._owner.aclose()
            await self._unwind()
            return
        try:
            if hasattr(self._iterator, "aclose"):
                await self._iterator.aclose()
        finally:
            if not hasattr(self._owner, "__aiter__"):  # aiohttp's response
                self._owner.close()
            elif self._owner is not self._iterator and hasattr(self._owner, "aclose"):
                await self._owner.aclose()

    async def _unwind(self) -> None:
        """End the generators under a response here, and not in the garbage collector.

        httpx nests six of them and closes none; the failure of one more read ends all.
        """
        with anyio.CancelScope() as scope, suppress(Exception):
            scope.cancel()
            for _ in range(_MAX_BUFFERED_READS):
                await self.read()


class Reader:
    """Read a synchronous source and close it; the twin of `AsyncReader`.

    Raises:
        TypeError: It is no source.
    """

    def __init__(self, source: Source) -> None:
        inner = getattr(source, "response", None)
        owner: Any = inner if isinstance(inner, Response) else source
        self._owner = owner
        self.status, self.content_type = _head(owner)
        if isinstance(owner, Response):
            iterable: Iterable[bytes] = owner.iter_bytes()
        elif hasattr(owner, "__iter__") and not isinstance(owner, (bytes, bytearray, str)):
            iterable = owner
        else:
            raise TypeError(
                f"{type(source).__name__} is no source, expected a response with iter_bytes(),"
                " an EventSource or an iterable of bytes"
            )
        self._iterator: Any = iter(iterable)
        self.read: Callable[[], bytes] = self._iterator.__next__

    def close(self) -> None:
        """Close what is read, and let go of what it stands on."""
        try:
            if hasattr(self._iterator, "close"):
                self._iterator.close()
        finally:
            if self._owner is not self._iterator and hasattr(self._owner, "close"):
                self._owner.close()


def _head(owner: Any) -> tuple[int | None, str | None]:
    """Return status and content type, where there are any."""
    status = getattr(owner, "status_code", getattr(owner, "status", None))
    headers: Any = getattr(owner, "headers", None)
    if not isinstance(status, int) or not hasattr(headers, "get"):
        return None, None
    return status, headers.get("content-type") or headers.get("Content-Type")
