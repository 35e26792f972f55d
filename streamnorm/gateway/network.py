"""Requests to upstreams by aiohttp, on connections that are closed if unrequested bytes arrive.

A connection is used again only while nothing is on it that was not asked for.  HTTP/1.1 matches
responses to requests by their order alone.  A response that an upstream sends without a request (a
second one, a late 408) would answer the next request on the connection, which may be that of
another client.  So a connection is closed once a byte arrives while no request is on it: behind the
end of a response, while it is idle, and before the first byte of the next request is written.  What
arrives after that byte cannot be told apart from its response (RFC 9112, section 9.2).
"""

from __future__ import annotations

import asyncio
import io
import select
import socket
import ssl
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Self

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from anyio import to_thread
from msgspec import structs
from yarl import URL

from streamnorm._core.errors import LocalProtocolError, RemoteProtocolError
from streamnorm._upstream.auxiliary import UpstreamCall
from streamnorm._upstream.requests import UpstreamRequest
from streamnorm.gateway.chunked_body import BrokenFraming, ChunkedBody
from streamnorm.gateway.config import Config, upstream_timeouts
from streamnorm.gateway.observing import FailureReason
from streamnorm.gateway.receiving import (
    LARGE_BYTES,
    BodyThread,
    ServerStopping,
    UpstreamResponse,
)
from streamnorm.gateway.routing import Target
from streamnorm.http.headers import causes_of

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.connector import Connection
    from aiohttp.http import RawResponseMessage
    from aiohttp.streams import StreamReader
    from aiohttp.tracing import Trace

    from streamnorm.gateway.websocket_answers import SocketAnswer
    from streamnorm.gateway.websocket_upstreams import UpstreamSockets

_CONNECT_S = 30.0
_MAX_HEADER_BYTES = 32 * 1024  # of one header; an answer has at most 128


class Network:
    """Client for requests to all upstreams, which holds the connections.

    Args:
        config: The configuration.
        bodies: The thread for large bodies.
    """

    def __init__(self, config: Config, bodies: BodyThread | None = None) -> None:
        self._times = upstream_timeouts(config)
        self._sessions: dict[bool, aiohttp.ClientSession] = {}  # by whether connections are reused
        self._answers: set[UpstreamResponse] = set()  # those that are open
        self._heads: set[asyncio.Timeout] = set()  # deadlines of answers that have no head yet
        self._stopped = asyncio.Event()
        self._sockets: UpstreamSockets | None = None
        if any(upstream.transport == "websocket" for upstream in config.upstreams.values()):
            from streamnorm.gateway.websocket_upstreams import UpstreamSockets

            self._sockets = UpstreamSockets(config.max_event_bytes, bodies or BodyThread())

    async def send(
        self,
        request: UpstreamRequest | UpstreamCall,
        target: Target,
        begun: SocketAnswer | None = None,
    ) -> UpstreamResponse:
        """Send a request; return the response once the response's head has arrived.

        Args:
            request: The request.
            target: The upstream.
            begun: The answer, if the upstream gives it without the request.

        Raises:
            CredentialsError: The request cannot be signed.
            aiohttp.ClientError: There is no answer.
            TimeoutError: The answer did not begin in time.
            ServerStopping: `stop` was called.
        """
        if self.is_stopped:
            raise ServerStopping
        if target.signer is not None:
            # aiohttp sends `%3A` as a colon; a signature is over the path as it arrives.
            request = structs.replace(request, url=str(URL(request.url)))
            # The signer may read files, and ask the network.
            request = await to_thread.run_sync(target.signer.sign_request, request)
        start = asyncio.get_running_loop().time()
        deadline = asyncio.timeout(self._times.first_byte_s)
        self._heads.add(deadline)
        try:
            async with deadline:
                response, lost = await self._ask(request, target, begun)
        except TimeoutError as exc:
            if self.is_stopped:
                raise ServerStopping from exc
            raise
        finally:
            self._heads.discard(deadline)
        body = response.body if isinstance(response, Response) else None
        answer = UpstreamResponse(
            response, lost, self._times, start, self._answers.discard, target.key, body
        )
        if not isinstance(response, aiohttp.ClientResponse) and response.steering is not None:
            answer.steering = response.steering
            answer.steering.target = target
        self._answers.add(answer)
        if self.is_stopped:  # as the head arrived
            answer.fail(ServerStopping())
        return answer

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped.is_set()

    async def pause(self, seconds: float) -> None:
        """Wait for some seconds, or until `stop` is called."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()

    def drain(self) -> None:
        """Close idle WebSockets now, and each busy WebSocket after its answer."""
        if self._sockets is not None:
            self._sockets.drain()

    def stop(self) -> None:
        """End all answers with `ServerStopping`, and send no further requests."""
        self._stopped.set()
        now = asyncio.get_running_loop().time()
        for deadline in self._heads:
            if not deadline.expired():
                deadline.reschedule(now)
        # Their clients get an error event with the reason; a closed connection has none.
        for answer in self._answers:
            answer.fail(ServerStopping())

    async def aclose(self) -> None:
        """Close all connections; the next request opens new ones."""
        self._stopped = asyncio.Event()
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()
        if self._sockets is not None:
            await self._sockets.aclose()

    async def _ask(
        self,
        request: UpstreamRequest | UpstreamCall,
        target: Target,
        begun: SocketAnswer | None,
    ) -> tuple[aiohttp.ClientResponse | SocketAnswer, asyncio.Future[None] | None]:
        """Return the response to a request, and a future that is done when the connection ends.

        The future is None if the whole body has arrived already.
        """
        if begun is not None:
            return begun, begun.lost
        if self._sockets is not None and target.websocket and isinstance(request, UpstreamRequest):
            answer = await self._sockets.ask(request, target)
            if answer is not None:
                return answer, answer.lost
        response = await self._request(request, reuse=target.reuse)
        connection = response.connection  # None once the whole body has arrived
        protocol = None if connection is None else connection.protocol
        return response, None if protocol is None else protocol.closed

    async def _request(
        self, request: UpstreamRequest | UpstreamCall, *, reuse: bool
    ) -> aiohttp.ClientResponse:
        while True:
            try:
                return await self._open_session(reuse=reuse).request(
                    request.method,
                    request.url,
                    headers=request.headers,
                    data=_payload(request.body),
                    # A redirect would send the key and the prompt to another host.
                    allow_redirects=False,
                )
            except UnrequestedBytes as exc:
                # Nothing was sent.  The connections of the pool come to an end, and then a new
                # one is opened.
                if exc.is_new:
                    raise

    def _open_session(self, *, reuse: bool) -> aiohttp.ClientSession:
        session = self._sessions.get(reuse)
        if session is None:
            connector = Connector(reuse=reuse)
            session = self._sessions[reuse] = open_session(
                connector, request_class=Request, response_class=Response
            )
        return session


def open_session(
    connector: aiohttp.TCPConnector,
    *,
    request_class: type[aiohttp.ClientRequest] = aiohttp.ClientRequest,
    response_class: type[aiohttp.ClientResponse] = aiohttp.ClientResponse,
    socket_class: type[aiohttp.ClientWebSocketResponse] = aiohttp.ClientWebSocketResponse,
) -> aiohttp.ClientSession:
    """Return an HTTP session without environment settings and cookies."""
    return aiohttp.ClientSession(
        connector=connector,
        request_class=request_class,
        response_class=response_class,
        ws_response_class=socket_class,
        # A cookie of one client's answer would go with the request of another.
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
        # aiohttp would inflate a read without a bound.
        auto_decompress=False,
        # A proxy or a netrc of the environment is not in the configuration.
        trust_env=False,
        skip_auto_headers=("User-Agent",),
        max_field_size=_MAX_HEADER_BYTES,
    )


def failure_reason(error: Exception | None) -> FailureReason | None:
    """Return why a request to an upstream failed; None without an error or if the gateway stopped.

    Args:
        error: Exception of `Network.send` or of a read of its answer, or None.
    """
    match error:
        case None | ServerStopping():
            return None
        case TimeoutError():
            return "timeout"
        case aiohttp.ClientResponseError() | BrokenFraming() | UnrequestedBytes():
            return "protocol"
        case RemoteProtocolError():  # of a body that cannot be decoded
            return "protocol"
        case _:
            pass
    causes = list(causes_of(error))
    for cause in causes:
        match cause:
            case ssl.SSLError():
                return "tls"
            case socket.gaierror():
                return "dns"
            case ConnectionRefusedError():
                return "refused"
            case _:
                pass
    is_reset = any(isinstance(cause, ConnectionResetError) for cause in causes)
    never_connected = isinstance(error, aiohttp.ClientConnectorError)
    return "connect" if never_connected and not is_reset else "reset"


def _payload(body: bytes | None) -> bytes | io.BytesIO | None:
    """Return a body in the form that aiohttp sends with the least copying.

    It writes bytes at once, and the transport copies what the network does not accept yet.
    """
    if body is None or len(body) <= LARGE_BYTES:
        return body
    return io.BytesIO(body)


_REQUEST_TIMEOUT = 408
_SWITCHING_PROTOCOLS = 101
_MAX_FIRST_BYTES = 64 * 1024  # behind a head; more of them are held twice
_HEAD_END = b"\r\n\r\n"


class UnrequestedBytes(aiohttp.ClientConnectionError):
    """The server sent bytes before a request, which was therefore not sent.

    Attributes:
        is_new: Whether the connection had no request before.
    """

    def __init__(self, *, is_new: bool) -> None:
        super().__init__("bytes of the server before the request, expected none")
        self.is_new = is_new


class _Protocol(ResponseHandler):
    """A connection to an upstream that rejects unrequested bytes.

    Attributes:
        is_new: Whether no request was written.
        body: The body of the last response; None if aiohttp reads it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.is_new = True
        self._is_asked = False  # a request was written, and its response has not ended
        self._has_response = False  # the head of that response, not an informational one, is read
        self._has_more = False  # another head was read behind it
        self._received = b""  # the last bytes before the end of the head
        self._reads_chunks = False  # and not aiohttp
        self._is_chunked = False
        self._open_body: ChunkedBody | None = None  # `body` until its end
        self.body: ChunkedBody | None = None

    def begin_request(self, response_class: type[aiohttp.ClientResponse]) -> None:
        """Expect the response to a request that is about to be written.

        Args:
            response_class: Class of the response; `Response` has a body that aiohttp does not read.

        Raises:
            UnrequestedBytes: Bytes have arrived, which belong to no request.
        """
        if self.has_unrequested_bytes():
            self._drop()
            raise UnrequestedBytes(is_new=self.is_new)
        self._is_asked, self.is_new = True, False
        self._has_response = self._has_more = False
        self._reads_chunks = issubclass(response_class, Response)
        self._received, self.body = b"", None

    def has_unrequested_bytes(self) -> bool:
        """Return whether bytes arrived after the last response, or the connection is closed.

        Those that the loop has not read are in the buffer of the socket.
        """
        transport = self.transport
        if transport is None or transport.is_closing():
            return True
        if self.is_new and transport.get_extra_info("ssl_object") is not None:
            return False  # TLS 1.3: session tickets follow the handshake, as bytes of the socket
        return _is_readable(transport.get_extra_info("socket").fileno())

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Queue a response whose head was parsed."""
        code = data[0].code
        if self._has_response:
            self._has_more = True
        elif not 100 <= code <= 199 or code == _SWITCHING_PROTOCOLS:
            self._has_response = True
            self._is_chunked = data[0].chunked and not data[0].upgrade
            if code == _REQUEST_TIMEOUT:
                # It may have been sent before the request arrived, whose response then follows.
                self.force_close()
        super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        """Parse bytes of a response; close the connection if no response is expected."""
        if self._open_body is not None:
            if data:
                self._feed_body(self._open_body, data)
        elif self._is_asked:
            begins = not self._has_response
            super().data_received(data)
            body = self._payload  # of the last head
            if self._has_more or (self._has_response and (body is None or body.is_eof())):
                self._end_response()
            elif begins and self._reads_chunks:
                self._received += data
                if self._has_response:
                    self._begin_body()
                self._received = self._received[-3:]
        elif data:  # without any, aiohttp resumes reading
            self._drop()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Fail the incomplete body of a response because the connection was closed."""
        body, self._open_body = self._open_body, None
        if body is not None and body.exception() is None:
            lost = aiohttp.ClientPayloadError("the connection was closed within a chunked body")
            lost.__cause__ = exc
            body.set_exception(lost)
        super().connection_lost(exc)

    def _begin_body(self) -> None:
        """Let `ChunkedBody` parse a chunked body, if it reads the first bytes as aiohttp does."""
        payload = self._payload
        if not self._is_chunked or payload is None or payload.exception() is not None:
            return
        # A head that ends in another way, as in bare line feeds, is left to aiohttp.
        _, head_end, first = self._received.partition(_HEAD_END)
        if not head_end or len(first) > _MAX_FIRST_BYTES:
            return
        body = ChunkedBody(self.pause_reading, self.resume_reading)
        try:
            rest = body.feed(first)
        except BrokenFraming:
            return
        if rest is None and body.unread_bytes == getattr(payload, "total_bytes", None):
            self.body = self._open_body = body

    def _feed_body(self, body: ChunkedBody, data: bytes) -> None:
        payload = self._payload
        try:
            rest = body.feed(data)
        except BrokenFraming as exc:
            self._open_body = None
            body.set_exception(exc)
            self.close()
            return
        if rest is None:
            return
        self._open_body, self._is_asked = None, False
        if rest:
            self._drop()
        # To aiohttp, too, the response has ended: it returns the connection to the pool.
        if payload is not None:
            payload.feed_eof()

    def _end_response(self) -> None:
        self._is_asked = False
        # Nothing may follow in the segment with the end of the response.  If a part of a head does,
        # two blank lines complete it or break it; between two messages, the parsers ignore them.
        # They end in LF alone, which aiohttp's parser in Python expects of servers.
        if not (self._has_more or self.upgraded or self._parser is None):
            try:
                heads, _, _ = self._parser.feed_data(b"\n\n")
                self._has_more = bool(heads)
            except HttpProcessingError:
                self._has_more = True
        if self._has_more:
            self._drop()

    def _drop(self) -> None:
        """Close the connection, and fail the request that waits for it."""
        self.close()
        self.set_exception(UnrequestedBytes(is_new=self.is_new))


class Connector(aiohttp.TCPConnector):
    """aiohttp's connection pool without a bound, whose connections reject unrequested bytes.

    Args:
        reuse: Whether a connection serves one request after the other.
    """

    def __init__(self, *, reuse: bool = True) -> None:
        super().__init__(limit=0, force_close=not reuse)  # pyright: ignore[reportUnknownMemberType] - of aiohttp
        # aiohttp has no parameter for it.
        self._factory = partial(_new_protocol, asyncio.get_running_loop())

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - of aiohttp
    ) -> Connection:
        """Return a connection without unrequested bytes, idle or new."""
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = _protocol_of(connection)
            # A new one is checked when the request is written.
            if protocol.is_new or not protocol.has_unrequested_bytes():
                return connection
            connection.close()


class Request(aiohttp.ClientRequest):
    """A request that is sent only on a connection without unrequested bytes."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        """Send the request's head, and start a task that sends the body."""
        if not self.body:
            _protocol_of(conn).begin_request(self.response_class)
        return await super().send(conn)

    async def write_bytes(
        self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
    ) -> None:
        """Write head and body, unless unrequested bytes have arrived."""
        try:
            if self.body:
                _protocol_of(conn).begin_request(self.response_class)
        except UnrequestedBytes:
            return
        await super().write_bytes(writer, conn, content_length)


class Response(aiohttp.ClientResponse):
    """A response whose body is parsed by `ChunkedBody` or by aiohttp.

    Attributes:
        body: The body; None if aiohttp reads it, as `content`.
    """

    body: ChunkedBody | None = None

    async def start(self, connection: Connection) -> Self:
        """Wait for the head of the response."""
        protocol = _protocol_of(connection)
        await super().start(connection)
        self.body = protocol.body
        return self


def _new_protocol(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return _Protocol(loop)


def _protocol_of(connection: Connection) -> _Protocol:
    protocol = connection.protocol
    if not isinstance(protocol, _Protocol):
        raise LocalProtocolError("a connection of another connector, expected one of `Connector`")
    return protocol


def _is_readable(descriptor: int) -> bool:
    """Return whether a socket has unread bytes, or was closed by the peer."""
    if sys.platform == "win32":
        return bool(select.select([descriptor], [], [], 0)[0])
    # `select` knows no descriptor above 1,023.
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
