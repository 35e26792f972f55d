"""`connect`: send a request and read its events."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Protocol, cast

from streamnorm._core.events import Event
from streamnorm._core.limits import Limits
from streamnorm._core.losses import OnNote
from streamnorm.aio.pump import Errors, OnEnd
from streamnorm.aio.reading import EventPump
from streamnorm.aio.sources import AsyncReader, AsyncResponse
from streamnorm.aio.stream import Stream

__all__ = ["AsyncClient", "Connection", "connect"]


class AsyncClient(Protocol):
    """An `httpx.AsyncClient` or `httpx2.AsyncClient`."""

    @property
    def stream(self) -> Callable[..., AbstractAsyncContextManager[AsyncResponse]]:
        """Send a request, and return the response before its body."""
        ...


class Connection:
    """A reader that sends its request at the first read.

    Args:
        client: Sends the request.
        method: HTTP method.
        url: URL of the request.
        options: Further arguments of the client's `stream`.
    """

    def __init__(self, client: AsyncClient, method: str, url: str, options: dict[str, Any]) -> None:
        self.status: int | None = None
        self.content_type: str | None = None
        self._request = (client, method, url, options)
        self._exits = AsyncExitStack()
        self._reader: AsyncReader | None = None

    def __del__(self) -> None:
        if self._reader is not None:
            text = "stream of connect() was not closed"
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)

    @property
    def read(self) -> Callable[[], Awaitable[bytes]]:
        """Return the next bytes; the first call sends the request."""
        return self._open if self._reader is None else self._reader.read

    async def close(self) -> None:
        """Close the response, if there is one."""
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.close()
        await self._exits.aclose()

    async def _open(self) -> bytes:
        import httpx
        from httpx_sse import aconnect_sse

        client, method, url, options = self._request
        # httpx_sse adds to the headers, hence a copy.  httpx 0.28 may inflate a few
        # compressed bytes to a gigabyte, and SSE gains little by compression.
        headers = httpx.Headers(options.pop("headers", None))
        headers.setdefault("accept-encoding", "identity")
        source = await self._exits.enter_async_context(
            aconnect_sse(
                cast("httpx.AsyncClient", client),  # or httpx2's: only `stream` is used
                method,
                url,
                headers=headers,
                **options,
            )
        )
        self._reader = reader = AsyncReader(source)
        self.status, self.content_type = reader.status, reader.content_type
        return await reader.read()


def connect(
    client: AsyncClient,
    method: str,
    url: str,
    *,
    dialect: str | None = None,
    server: str | None = None,
    think_tags: bool = False,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    errors: Errors = "raise",
    on_note: OnNote | None = None,
    on_end: OnEnd | None = None,
    **options: object,
) -> Stream[Event]:
    """Return the events of a request, which is sent at the first read.

        async with streamnorm.connect(client, "POST", url, json=body) as stream:
            async for event in stream:
                ...

    The response is closed with the stream.  A request that cannot be sent ends the
    stream like a broken connection.

    Args:
        client: An `httpx.AsyncClient` or `httpx2.AsyncClient`.
        method: HTTP method.
        url: URL of the request.
        dialect: As for `events`, like all up to `on_end`.
        server: Name of the server.
        think_tags: Read `<think>…</think>` as reasoning.
        limits: Bounds of the decoder.
        errors: `raise` or `yield`.
        on_note: Called with each note.
        on_end: Called with the outcome.
        **options: Further arguments of the client's `stream`: `json`, `headers`, ….

    Raises:
        UnknownDialect: There is no such dialect, or it cannot be read.
    """
    connection = Connection(client, method, url, options)
    pump = EventPump(
        connection,
        dialect,
        errors=errors,
        server=server,
        think_tags=think_tags,
        limits=limits,
        on_note=on_note,
        on_end=on_end,
    )
    return Stream(pump, connection)
