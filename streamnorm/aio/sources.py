"""Sources of streams: responses of HTTP clients, and plain iterables.

A source is recognised by its methods, so that no HTTP client is imported.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import suppress
from typing import Any, Protocol, TypeAlias, runtime_checkable

import anyio

from streamnorm.http.headers import error_type_in

# More reads than one network read of 64 KiB leaves buffered in the layers of httpx.
_MAX_BUFFERED_READS = 4096


@runtime_checkable
class AsyncResponse(Protocol):
    """A response of httpx or httpx2."""

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Iterate over the decoded body."""
        ...

    async def aclose(self) -> None:
        """Close the connection."""
        ...


@runtime_checkable
class AsyncEventSource(Protocol):
    """An `httpx_sse.EventSource` of an asynchronous client."""

    @property
    def response(self) -> AsyncResponse:
        """The response it reads."""
        ...


class AiohttpContent(Protocol):
    """The body of an `aiohttp.ClientResponse`."""

    def iter_any(self) -> AsyncIterable[bytes]:
        """Iterate over the body in chunks as they arrive."""
        ...


class AiohttpResponse(Protocol):
    """An `aiohttp.ClientResponse`."""

    @property
    def content(self) -> AiohttpContent:
        """The body."""
        ...

    def close(self) -> object:
        """Close the connection."""
        ...


@runtime_checkable
class SyncResponse(Protocol):
    """A response of the synchronous clients of httpx and httpx2."""

    def iter_bytes(self) -> Iterator[bytes]:
        """Iterate over the decoded body."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


@runtime_checkable
class SyncEventSource(Protocol):
    """An `httpx_sse.EventSource` of a synchronous client."""

    @property
    def response(self) -> SyncResponse:
        """The response it reads."""
        ...


AsyncSource: TypeAlias = AsyncResponse | AsyncEventSource | AiohttpResponse | AsyncIterable[bytes]
"""The sources of `events`, `transcode` and `tap`."""

Source: TypeAlias = SyncResponse | SyncEventSource | Iterable[bytes]
"""The sources of `iter_events` and `iter_transcode`."""


class AsyncReader:
    """A reader of an asynchronous source, which it closes.

    Attributes:
        read: Returns the next chunk, or raises `StopAsyncIteration`.
        status: HTTP status; None if the source is no response.
        content_type: `content-type` of the response, or None.
        error_type: Type of the error that a header of the response states, or None.
        headers: Headers of the response; empty if the source is no response.

    Raises:
        TypeError: It is no source.
    """

    def __init__(self, source: AsyncSource) -> None:
        inner = getattr(source, "response", None)
        owner: Any = inner if isinstance(inner, AsyncResponse) else source
        self._owner = owner
        self.status, self.content_type, self.error_type, self.headers = _head(owner)
        if isinstance(owner, AsyncResponse):
            iterable: AsyncIterable[bytes] = owner.aiter_bytes()
        # aiohttp's reads as they arrive; its iteration over `content` is by lines, bounded in
        # length.
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
        """Close the iterator and its response."""
        if isinstance(self._owner, AsyncResponse):
            await self._owner.aclose()
            await self._unwind()
            return
        try:
            # First the iterator: it reads from what its owner would close.
            if hasattr(self._iterator, "aclose"):
                await self._iterator.aclose()
        finally:
            if not hasattr(self._owner, "__aiter__"):  # aiohttp's response
                self._owner.close()
            elif self._owner is not self._iterator and hasattr(self._owner, "aclose"):
                await self._owner.aclose()

    async def _unwind(self) -> None:
        """End the generators of a response here rather than in the garbage collector.

        httpx nests six of them and closes none; one failing read ends them all.
        """
        with anyio.CancelScope() as scope, suppress(Exception):
            scope.cancel()
            for _ in range(_MAX_BUFFERED_READS):
                await self.read()


class Reader:
    """A reader of a synchronous source; the twin of `AsyncReader`.

    Raises:
        TypeError: It is no source.
    """

    def __init__(self, source: Source) -> None:
        inner = getattr(source, "response", None)
        owner: Any = inner if isinstance(inner, SyncResponse) else source
        self._owner = owner
        self.status, self.content_type, self.error_type, self.headers = _head(owner)
        if isinstance(owner, SyncResponse):
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
        """Close the iterator and its response."""
        try:
            if hasattr(self._iterator, "close"):
                self._iterator.close()
        finally:
            if self._owner is not self._iterator and hasattr(self._owner, "close"):
                self._owner.close()


def _head(owner: Any) -> tuple[int | None, str | None, str | None, Mapping[str, str]]:
    """Return status, content type, type of the error, and headers of a response.

    None for any other source, which has no headers.
    """
    # httpx and httpx2 have the first name, aiohttp the second.
    status = getattr(owner, "status_code", getattr(owner, "status", None))
    headers: Any = getattr(owner, "headers", None)
    if not isinstance(status, int) or not hasattr(headers, "get"):
        return None, None, None, {}
    kind = headers.get("content-type") or headers.get("Content-Type")
    return status, kind, error_type_in(headers), headers
