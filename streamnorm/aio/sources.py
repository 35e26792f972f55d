"""The kinds of sources, and their readers.

A source is a response of an HTTP client or a plain iterable.  It is recognised by its methods, so
that no HTTP client is imported.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

import anyio

from streamnorm._core.errors import LocalProtocolError
from streamnorm._core.source_failures import is_fault
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
        """The response of the event source."""
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
        """The response of the event source."""
        ...


AsyncSource: TypeAlias = AsyncResponse | AsyncEventSource | AiohttpResponse | AsyncIterable[bytes]
"""The sources of `events`, `transcode` and `tap`."""

Source: TypeAlias = SyncResponse | SyncEventSource | Iterable[bytes]
"""The sources of `iter_events` and `iter_transcode`."""


class AsyncReader:
    """A reader of an asynchronous source, which it finally closes.

    Attributes:
        read: Returns the next chunk, or raises `StopAsyncIteration`.
        status: HTTP status; None if the source is no response.
        content_type: `content-type` of the response, or None.
        error_type: Type of the error that a header of the response states, or None.
        headers: Headers of the response; empty if the source is no response.

    Raises:
        TypeError: It is no source, or the response of a synchronous client.
        LocalProtocolError: It is a response that was closed, or whose body was read in part.
    """

    def __init__(self, source: AsyncSource) -> None:
        inner = getattr(source, "response", None)
        owner: Any = inner if isinstance(inner, AsyncResponse) else source
        self._owner = owner
        self.status, self.content_type, self.error_type, self.headers = _head(owner)
        if isinstance(owner, AsyncResponse):
            _check_unread(owner, _ASYNC, _SYNC)
            iterable: AsyncIterable[bytes] = owner.aiter_bytes()
        elif hasattr(getattr(owner, "content", None), "iter_any"):
            iterable = _body_of_aiohttp(owner)
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
        """Close the iterator over the body, and the response."""
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
        """End a response's nested generators now, not in the garbage collector.

        httpx nests six of them and closes none; one failing read ends them all.
        """
        with anyio.CancelScope() as scope, suppress(Exception):
            scope.cancel()
            for _ in range(_MAX_BUFFERED_READS):
                await self.read()


class _HeldBody:
    """An asynchronous iterator over a body that was read before."""

    def __init__(self, body: bytes) -> None:
        self._chunks = iter([body])

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        for chunk in self._chunks:
            return chunk
        raise StopAsyncIteration


def _body_of_aiohttp(response: Any) -> AsyncIterable[bytes]:
    """Return the body of an aiohttp response, from its first byte.

    Raises:
        LocalProtocolError: A part of the body was read, which the response does not hold.
    """
    # aiohttp 3.14 has no public name for either: `text()` and `read()` hold what they have read,
    # and the content counts the bytes that were taken from it.
    held: bytes | None = getattr(response, "_body", None)
    consumed: int = getattr(response.content, "_cursor", 0)
    if consumed > (0 if held is None else len(held)):
        found = f"body of which {consumed} bytes were consumed before"
        raise LocalProtocolError(f"{found}, expected one that was not read, or read whole")
    if held is not None:
        return _HeldBody(held)
    # As the bytes arrive; the iteration over `content` is by lines, bounded in length.
    body: AsyncIterable[bytes] = response.content.iter_any()
    return body


class _Kind(NamedTuple):
    """A kind of clients, and the method by which the bodies of its responses are read."""

    name: str
    method: str


_ASYNC = _Kind("an asynchronous client", "__aiter__")
_SYNC = _Kind("a synchronous client", "__iter__")


def _check_unread(response: Any, expected: _Kind, other: _Kind) -> None:
    """Check that a response of httpx can be read from its first byte.

    Clients of both kinds have one class of responses, so only the body tells which they are.

    Raises:
        TypeError: The response is that of a client of the other kind.
        LocalProtocolError: The response was closed, or its body was read in part.
    """
    # httpx 0.28 has no public name for it: a body that was read whole is held, and read again.
    if hasattr(response, "_content"):
        return
    body = getattr(response, "stream", None)
    if hasattr(body, other.method) and not hasattr(body, expected.method):
        raise TypeError(f"a response of {other.name}, expected a response of {expected.name}")
    if getattr(response, "is_stream_consumed", False) is True:
        found = "body that was consumed before"
        raise LocalProtocolError(f"{found}, expected one that was not read, or read whole")
    if getattr(response, "is_closed", False) is True:
        raise LocalProtocolError("response that was closed before, expected an open one")


class Reader:
    """A reader of a synchronous source, which it finally closes; like `AsyncReader`.

    Raises:
        TypeError: It is no source, or the response of an asynchronous client.
        LocalProtocolError: It is a response that was closed, or whose body was read in part.
    """

    def __init__(self, source: Source) -> None:
        inner = getattr(source, "response", None)
        owner: Any = inner if isinstance(inner, SyncResponse) else source
        self._owner = owner
        self.status, self.content_type, self.error_type, self.headers = _head(owner)
        if isinstance(owner, SyncResponse):
            _check_unread(owner, _SYNC, _ASYNC)
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
        """Close the iterator over the body, and the response."""
        try:
            if hasattr(self._iterator, "close"):
                self._iterator.close()
        finally:
            if self._owner is not self._iterator and hasattr(self._owner, "close"):
                self._owner.close()


def _head(owner: Any) -> tuple[int | None, str | None, str | None, Mapping[str, str]]:
    """Return a response's status, content type, error type and headers.

    None for any other source, which has no headers.
    """
    # httpx and httpx2 have the first name, aiohttp the second.
    status = getattr(owner, "status_code", getattr(owner, "status", None))
    headers: Any = getattr(owner, "headers", None)
    if not isinstance(status, int) or not hasattr(headers, "get"):
        return None, None, None, {}
    kind = headers.get("content-type") or headers.get("Content-Type")
    return status, kind, error_type_in(headers), headers


class NotSent(Exception):
    """Raised by a reader whose request was not sent, through a mistake of the caller.

    Attributes:
        mistake: The exception for the caller.
    """

    def __init__(self, mistake: Exception) -> None:
        super().__init__()
        self.mistake = mistake


@contextmanager
def opening() -> Generator[None]:
    """Report a mistake of the caller while a request is sent, which no stream has caused.

    Raises:
        NotSent: The request was not sent through such a mistake.
    """
    try:
        yield
    except Exception as exc:
        if is_fault(exc):
            raise NotSent(exc) from exc
        raise
