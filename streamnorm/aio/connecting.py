"""`connect`: send a request, and read its events or write them in another dialect."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from inspect import signature
from typing import Any, Protocol, TypedDict, Unpack, cast, overload

from streamnorm._core.bodies.request import Reply
from streamnorm._core.codec.framing import SSE, Framing
from streamnorm._core.events import Event
from streamnorm._core.limits import Limits
from streamnorm._core.losses import OnLoss, OnNote, ReasoningField
from streamnorm._registry import framing_of
from streamnorm._transcoder import Ordering, TranscodeOptions
from streamnorm.aio.pump import Errors, OnEnd, ReadOptions, TranscodePump
from streamnorm.aio.sources import AsyncReader, AsyncResponse, AsyncSource
from streamnorm.aio.stream import Stream
from streamnorm.aio.transcoding import EventPump

_READ_OPTIONS = {"errors", *ReadOptions.__annotations__} - {"on_end"}
_TRANSCODE_OPTIONS = set(TranscodeOptions.__annotations__)


class RequestOptions(TypedDict, total=False):
    """Arguments of a client's `stream`, as httpx and httpx2 name them."""

    content: object
    data: object
    files: object
    json: object
    params: object
    headers: Mapping[str, str] | Sequence[tuple[str, str]] | None
    cookies: object
    auth: object
    follow_redirects: bool
    timeout: object
    extensions: Mapping[str, object] | None


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
        framing: Framing of the stream that is asked for.
    """

    def __init__(
        self,
        client: AsyncClient,
        method: str,
        url: str,
        options: dict[str, Any],
        framing: Framing = SSE,
    ) -> None:
        self.status: int | None = None
        self.content_type: str | None = None
        self.error_type: str | None = None
        self.headers: Mapping[str, str] = {}
        self._request = (client, method, url, options)
        self._framing = framing
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
        source: AsyncSource
        if self._framing is SSE:
            source = await self._exits.enter_async_context(
                aconnect_sse(
                    cast("httpx.AsyncClient", client),  # or httpx2's: only `stream` is used
                    method,
                    url,
                    headers=headers,
                    **options,
                )
            )
        else:
            headers.setdefault("accept", self._framing.media_type)
            source = await self._exits.enter_async_context(
                client.stream(method, url, headers=headers, **options)
            )
        self._reader = reader = AsyncReader(source)
        self.status, self.content_type = reader.status, reader.content_type
        self.error_type, self.headers = reader.error_type, reader.headers
        return await reader.read()


@overload
def connect(
    client: AsyncClient,
    method: str,
    url: str,
    *,
    to: None = None,
    dialect: str | None = None,
    server: str | None = None,
    think_tags: bool = False,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    errors: Errors = "raise",
    on_note: OnNote | None = None,
    framing: Framing | None = None,
    on_end: OnEnd | None = None,
    **options: Unpack[RequestOptions],
) -> Stream[Event]: ...


@overload
def connect(
    client: AsyncClient,
    method: str,
    url: str,
    *,
    to: str,
    dialect: str | None = None,
    ordering: Ordering = "sequential",
    verbatim: bool = True,
    strict: bool = False,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    on_loss: OnLoss | None = None,
    on_note: OnNote | None = None,
    server: str | None = None,
    think_tags: bool = False,
    model: str | None = None,
    include_usage: bool = True,
    reasoning: ReasoningField | None = "reasoning_content",
    page_client: str | None = None,
    keep_message: bool = True,
    reply: Reply | None = None,
    framing: Framing | None = None,
    to_framing: Framing | None = None,
    on_end: OnEnd | None = None,
    **options: Unpack[RequestOptions],
) -> Stream[bytes]: ...


def connect(
    client: AsyncClient,
    method: str,
    url: str,
    *,
    to: str | None = None,
    dialect: str | None = None,
    on_end: OnEnd | None = None,
    **options: Any,
) -> Stream[Event] | Stream[bytes]:
    """Return the events of a request, or its bytes in another dialect.

        async with streamnorm.connect(client, "POST", url, json=body) as stream:
            async for event in stream:
                ...

    The request is sent at the first read, and the response is closed with the stream.  A
    request that cannot be sent ends the stream like a broken connection; cancelling the
    first read cancels the request.  With `to`, a gateway's whole route is

        stream = streamnorm.connect(client, "POST", url, json=body, to="anthropic")
        return streamnorm.asgi.EventStreamResponse(stream)

    Args:
        client: An `httpx.AsyncClient` or `httpx2.AsyncClient`.
        method: HTTP method.
        url: URL of the request.
        to: Dialect to write, as for `transcode`; None to return events.
        dialect: Dialect to read; None detects it from the first frames, at most 16, and the framing
            from the headers of the response.
        on_end: Called with the outcome, once, on every path.
        **options: Those of `events`, `errors` included; with `to`, those of `transcode`.  All
            others are arguments of the client's `stream`: `json`, `headers`, ….

    Raises:
        UnknownDialect: A dialect does not exist, cannot be read or cannot be written.
        TypeError: An option is none of these.
    """
    names = _READ_OPTIONS if to is None else _TRANSCODE_OPTIONS
    own = {name: options.pop(name) for name in names & options.keys()}
    # The first read would report a misspelt option as a failure of the connection.
    signature(client.stream).bind(method, url, **options)
    connection = Connection(client, method, url, options, framing_of(dialect, own.get("framing")))
    if to is not None:
        return Stream(TranscodePump(connection, dialect, to, on_end=on_end, **own), connection)
    errors: Errors = own.pop("errors", "raise")
    pump = EventPump(connection, dialect, errors=errors, on_end=on_end, **own)
    return Stream(pump, connection)
