"""Functions that read a response: `events`, `tap`, `transcode` and `connect`.

`connect` sends the request itself, and reads its response as they do.
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from inspect import signature
from typing import Any, Protocol, TypedDict, Unpack, cast, overload

from streamnorm._core.bodies.request import Reply
from streamnorm._core.codec.framing import SSE, Framing
from streamnorm._core.codec.websocket_messages import WS_MESSAGE
from streamnorm._core.events import Completed, Event, Failed, StreamError, Truncated
from streamnorm._core.limits import Limits
from streamnorm._core.losses import OnLoss, OnNote, ReasoningField
from streamnorm._core.source_failures import broken_connection
from streamnorm._registry import framing_of
from streamnorm._transcoder import Ordering, TranscodeOptions
from streamnorm.aio.pump import DecodingPump, Errors, Head, OnEnd, ReadOptions, TranscodePump
from streamnorm.aio.sources import (
    AsyncReader,
    AsyncResponse,
    AsyncSource,
    Reader,
    Source,
    opening,
)
from streamnorm.aio.stream import Stream, SyncStream
from streamnorm.aio.websocket import WebSocketReader, open_reader
from streamnorm.http.urls import is_websocket_url


class EventPump(DecodingPump[Event]):
    """Turns the bytes of a source into events, for `events` and `iter_events`."""

    def __init__(
        self,
        head: Head,
        dialect: str | None,
        *,
        errors: Errors,
        **options: Unpack[ReadOptions],
    ) -> None:
        if errors not in ("raise", "yield"):
            raise ValueError(f"errors is {errors!r}, expected 'raise' or 'yield'")
        self._raises = errors == "raise"
        super().__init__(head, dialect, **options)

    def feed(self, data: bytes) -> Event | None:
        if not self._open:
            passed = self._gate_feed(data)
            if passed is None:
                return None
            data = passed
        events = self._decoder.feed(data)
        accumulated = self._accumulator.take(events)
        if self._decoder.outcome is not None or accumulated is not events:
            self._finish(events, accumulated)
            return None
        if len(events) == 1:
            return events[0]
        self.pending = events[::-1]
        return None

    def _close(self) -> None:
        self._end(self._decoder.close())

    def _abort(self, cause: BaseException) -> None:
        self._end(self._decoder.abort(cause))

    def _refuse(self, error: StreamError) -> None:
        self._refusal = error
        self._finish([error], [error])

    def _end(self, events: list[Event]) -> None:
        self._finish(events, self._accumulator.take(events))

    def _finish(self, events: list[Event], accumulated: list[Event]) -> None:
        """Set the last events as pending, and the error to raise after these events.

        Args:
            events: The last events.
            accumulated: Those within the accumulator's bound, and its error if not all are.
        """
        self.ended = True
        if accumulated is not events and isinstance(last := accumulated[-1], StreamError):
            self._refusal = last
        if self._raises and accumulated and isinstance(last := accumulated[-1], StreamError):
            self._fail(last)
            accumulated = accumulated[:-1]
        self.pending = accumulated[::-1]


def events(
    source: AsyncSource,
    *,
    dialect: str | None = None,
    errors: Errors = "raise",
    **options: Unpack[ReadOptions],
) -> Stream[Event]:
    """Return the events of a response, or of any iterable of byte chunks.

        async with client.stream("POST", url, json=body) as response:
            async for event in streamnorm.events(response):
                ...

    Args:
        source: An httpx, httpx2 or aiohttp response, an `httpx_sse.EventSource`, or an
            asynchronous iterable of bytes.  It is closed with the stream.
        dialect: Dialect to read; None detects it from the first frames, at most 16, and the framing
            from the headers of the response.
        errors: `raise` raises a `StreamError` as its exception once the events before it
            are delivered; `yield` delivers it as the last event.
        **options: `server`: name of the server (for example `qianfan`), enables its quirks;
            `think_tags`: read `<think>…</think>` at the start of an answer as reasoning;
            `framing`: how events stand in the bytes, such as `codec.INVOKE_CHUNKS`, where neither
            headers nor the dialect name it; `limits`: bounds of the decoder; `on_note`: called
            with each note as it happens; `on_end`: called with the outcome, once, on every path.

    Raises:
        UnknownDialect: There is no such dialect, or it cannot be read.
        TypeError: `source` is no source.
        ValueError: `errors` has another value.
        LocalProtocolError: `source` is a response that was closed, or whose body was read in part.
    """
    reader = AsyncReader(source)
    return Stream(EventPump(reader, dialect, errors=errors, **options), reader)


def iter_events(
    source: Source,
    *,
    dialect: str | None = None,
    errors: Errors = "raise",
    **options: Unpack[ReadOptions],
) -> SyncStream[Event]:
    """Return the events of a synchronous source; like `events`.

    Args:
        source: An httpx or httpx2 response, an `httpx_sse.EventSource`, or an iterable
            of bytes.  It is closed with the stream.
        dialect: As for `events`, like all that follow.
        errors: `raise` or `yield`.
        **options: Those of `events`.

    Raises:
        UnknownDialect: There is no such dialect, or it cannot be read.
        TypeError: `source` is no source.
    """
    reader = Reader(source)
    return SyncStream(EventPump(reader, dialect, errors=errors, **options), reader)


class TapOptions(ReadOptions, total=False):
    """The options of `tap`."""

    keep_message: bool


class TapPump(DecodingPump[bytes]):
    """The pump of `tap`: returns the original bytes, and passes events to an observer."""

    def __init__(
        self,
        head: Head,
        dialect: str | None,
        observer: Callable[[Event], object],
        **options: Unpack[TapOptions],
    ) -> None:
        self._accumulates = True  # whether the message is within its bound
        self._observer = observer
        self._bytes_sent = False
        super().__init__(head, dialect, **options)

    def feed(self, data: bytes) -> bytes | None:
        if not self._open:
            passed = self._gate_feed(data)
            if passed is None:
                return None
            data = passed
        self._observe(self._decoder.feed(data))
        # A chunk without bytes is the end of a chunked body (RFC 9112, section 7.1).
        if not data:
            return None
        self._bytes_sent = True
        return data

    def _close(self) -> None:
        self._observe(self._decoder.close())
        match self._decoder.outcome:
            case Failed(error) | Truncated(error) if not self._bytes_sent:
                self._fail(error)
            case _:
                pass  # the client sees how the bytes end

    def _abort(self, cause: BaseException) -> None:
        self._observe(self._decoder.abort(cause))
        if not isinstance(self._decoder.outcome, Completed):
            # The bytes are cut, whatever the decoder found before.
            self._fail(broken_connection(cause, self._decoder.frames))

    def _refuse(self, error: StreamError) -> None:
        self._observe([error])
        super()._refuse(error)

    def _observe(self, events: list[Event]) -> None:
        for event in events:
            self._observer(event)
        if self._accumulates and self._accumulator.take(events) is not events:
            self._accumulates = False  # the bytes still pass


def tap(
    source: AsyncSource,
    observer: Callable[[Event], object],
    *,
    dialect: str | None = None,
    **options: Unpack[TapOptions],
) -> Stream[bytes]:
    """Return a response's bytes unchanged, and pass their events to an observer.

    Events never change the bytes; the stream reports them in `outcome`.  It raises only for
    a response that the gate refuses, an empty stream and a broken connection.

    Args:
        source: A source, as for `events`.  It is closed with the stream.
        observer: Called with each event, before the bytes that complete it are returned.
            An exception from it ends the stream.
        dialect: Dialect to read; None detects it from the first frames, at most 16, and the framing
            from the headers of the response.
        **options: Those of `events`: `server`, `think_tags`, `framing`, `limits`, `on_note`,
            `on_end`; and `keep_message`: whether to accumulate `message`, besides outcome and
            usage.

    Raises:
        UnknownDialect: There is no such dialect, or it cannot be read.
        TypeError: `source` is no source.
        LocalProtocolError: `source` is a response that was closed, or whose body was read in part.
    """
    reader = AsyncReader(source)
    return Stream(TapPump(reader, dialect, observer, **options), reader)


def transcode(
    source: AsyncSource,
    *,
    to: str,
    dialect: str | None = None,
    on_end: OnEnd | None = None,
    **options: Unpack[TranscodeOptions],
) -> Stream[bytes]:
    """Return a response transcoded to another dialect, as bytes.

    A chunk in gives at most one chunk out.  A failure before the first chunk is raised by
    the first read, so that the client can still get an HTTP status.  A later failure is
    written as an error of the client's dialect, which ends the stream; `outcome` has it.

    Args:
        source: A source, as for `events`.  It is closed with the stream.
        to: Dialect to write.  If it equals the dialect that is read, the bytes pass
            unchanged, unless `verbatim=False` or another option changes them.
        dialect: Dialect to read; None detects it from the first frames, at most 16, and the framing
            from the headers of the response.
        on_end: Called with the outcome, once, on every path.
        options: Those of `Transcoder`: `ordering`, `verbatim`, `strict`, `limits`, `on_loss`,
            `on_note`, `server`, `think_tags`, `model`, `include_usage`, `reasoning`,
            `page_client`, `keep_message`, `reply`, `framing`, `to_framing`.

    Raises:
        UnknownDialect: A dialect does not exist, cannot be read or cannot be written.
        TypeError: `source` is no source.
        ValueError: An option has no such value.
        LocalProtocolError: `source` is a response that was closed, or whose body was read in part.
    """
    reader = AsyncReader(source)
    return Stream(TranscodePump(reader, dialect, to, on_end=on_end, **options), reader)


def iter_transcode(
    source: Source,
    *,
    to: str,
    dialect: str | None = None,
    on_end: OnEnd | None = None,
    **options: Unpack[TranscodeOptions],
) -> SyncStream[bytes]:
    """Return a synchronous source transcoded to another dialect; like `transcode`.

    Args:
        source: A source, as for `iter_events`.  It is closed with the stream.
        to: Dialect to write.
        dialect: As for `transcode`, like all that follow.
        on_end: Called with the outcome.
        options: Those of `Transcoder`.

    Raises:
        UnknownDialect: A dialect does not exist, cannot be read or cannot be written.
        TypeError: `source` is no source.
    """
    reader = Reader(source)
    return SyncStream(TranscodePump(reader, dialect, to, on_end=on_end, **options), reader)


_READ_OPTIONS = {"errors", *ReadOptions.__annotations__} - {"on_end"}
_TRANSCODE_OPTIONS = set(TranscodeOptions.__annotations__)


class RequestOptions(TypedDict, total=False):
    """Arguments of `stream` in httpx and httpx2."""

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
        """Send a request; return the response before its body is read."""
        ...


class Connection:
    """A reader that sends its request on the first read.

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
        """Close the response if there is one."""
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
        with opening():
            headers = httpx.Headers(options.pop("headers", None))
        headers.setdefault("accept-encoding", "identity")
        with opening():
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
    """Send a request; return the events of its response, or its bytes in another dialect.

        async with streamnorm.connect(client, "POST", url, json=body) as stream:
            async for event in stream:
                ...

    The request is sent at the first read, and the response is closed with the stream.  A
    provider that cannot be reached ends the stream like a broken connection; a request that the
    client refuses to send, such as one whose `json` has no JSON form, raises the client's own
    exception at the first read, whatever `errors` is.  Cancelling the first read cancels the
    request.  With `to`, a gateway's whole route is

        stream = streamnorm.connect(client, "POST", url, json=body, to="anthropic")
        return streamnorm.asgi.EventStreamResponse(stream)

    A URL of `wss` asks a server of Responses over a WebSocket, which needs `websockets`, of the
    extra `serve`, and asyncio: `json` is the create, or the body of a request for a stream, and the
    handshake has the headers of the client.  The client's timeouts, or `timeout`, bound the
    handshake (`connect`) and the wait for each message (`read`).  The connection is closed with the
    stream.

    Args:
        client: An `httpx.AsyncClient` or `httpx2.AsyncClient`.
        method: HTTP method; `GET` for a WebSocket.
        url: URL of the request.
        to: Dialect to write, as for `transcode`; None to return events.
        dialect: Dialect to read; None detects it from the first frames, at most 16, and the framing
            from the headers of the response.
        on_end: Called with the outcome, once, on every path.
        **options: Those of `events`, `errors` included; with `to`, those of `transcode`.  All
            others are arguments of the client's `stream`: `json`, `headers`, ….

    Raises:
        UnknownDialect: A dialect does not exist, cannot be read or cannot be written.
        TypeError: An option is none of these, or `client` is no such client.
    """
    names = _READ_OPTIONS if to is None else _TRANSCODE_OPTIONS
    own = {name: options.pop(name) for name in names & options.keys()}
    send: Callable[..., object] | None = getattr(client, "stream", None)
    if send is None:  # as aiohttp's session
        raise TypeError(
            f"{type(client).__name__} has no stream(), expected an httpx.AsyncClient or"
            " httpx2.AsyncClient"
        )
    # The first read would report a synchronous client as a failure of the connection.
    if hasattr(client, "__enter__") and not hasattr(client, "__aenter__"):
        raise TypeError(
            f"{type(client).__name__} is synchronous, expected an httpx.AsyncClient or"
            " httpx2.AsyncClient"
        )
    # The first read would report a misspelt option as a failure of the connection.
    signature(send).bind(method, url, **options)
    connection: Connection | WebSocketReader
    if is_websocket_url(url):
        connection = open_reader(client, url, options)
        own.setdefault("framing", WS_MESSAGE)
    else:
        framing = framing_of(dialect, own.get("framing"))
        connection = Connection(client, method, url, options, framing)
    if to is not None:
        return Stream(TranscodePump(connection, dialect, to, on_end=on_end, **own), connection)
    errors: Errors = own.pop("errors", "raise")
    pump = EventPump(connection, dialect, errors=errors, on_end=on_end, **own)
    return Stream(pump, connection)
