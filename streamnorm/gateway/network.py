"""The upstream side of a gateway, on aiohttp."""

from __future__ import annotations

import asyncio
import io
import re
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from anyio import to_thread
from msgspec import Struct, structs
from yarl import URL

from streamnorm._core.errors import RemoteProtocolError
from streamnorm._core.failures import SourceStopped
from streamnorm._upstream.auxiliary import UpstreamCall
from streamnorm._upstream.requests import UpstreamRequest
from streamnorm.aio.pump import Pump
from streamnorm.gateway.config import Config
from streamnorm.gateway.connections import Connector, Request, UnrequestedBytes
from streamnorm.gateway.large_bodies import LARGE_BYTES
from streamnorm.gateway.observing import FailureReason
from streamnorm.gateway.routing import Target
from streamnorm.gateway.scrubbing import KeyMask, UpstreamKey
from streamnorm.http.codings import CONTENT_ENCODING, ResponseDecoder, content_codings
from streamnorm.http.headers import causes_of, error_type_in

_CONNECT_S = 30.0
_POLL_INTERVAL_S = 0.01  # the timer of an answer fires no more often
_LINES_AT_ONCE = 1000  # decoding an event without text takes up to 20 µs
_LINES = re.compile(rb"(?:[^\r\n]*[\r\n]){%d}" % _LINES_AT_ONCE)
_MAX_HEADER_BYTES = 32 * 1024  # of one header; an answer has at most 128


class _GraceOver(Exception):
    """A finished answer has had its grace, and the server has not closed it."""


class Stalled(TimeoutError):
    """An upstream sent nothing, or nothing of its answer, for too long."""


class ServerStopping(SourceStopped):
    """The gateway stops, and this answer has had its grace."""

    reason = "the gateway stopped"


class BrokenFraming(aiohttp.ClientPayloadError):
    """The body of an answer is not framed as HTTP/1.1 demands: a chunk is broken."""


class Timeouts(Struct, frozen=True):
    """Seconds that an upstream has; see `Config`."""

    first_byte_s: float
    idle_s: float
    progress_s: float
    finish_grace_s: float


class Network:
    """The connections to all upstreams.

    Args:
        config: The configuration.
    """

    def __init__(self, config: Config) -> None:
        self._times = Timeouts(
            config.first_byte_s, config.idle_s, config.progress_s, config.finish_grace_s
        )
        self._sessions: dict[bool, aiohttp.ClientSession] = {}  # by whether connections are reused
        self._answers: set[UpstreamResponse] = set()  # those that are open
        self._heads: set[asyncio.Timeout] = set()  # deadlines of answers that have no head yet
        self._stopped = asyncio.Event()

    async def send(
        self, request: UpstreamRequest | UpstreamCall, target: Target
    ) -> UpstreamResponse:
        """Send a request, and return the answer once its head has arrived.

        Args:
            request: The request.
            target: The upstream.

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
                response = await self._request(request, reuse=target.reuse)
        except TimeoutError as exc:
            if self.is_stopped:
                raise ServerStopping from exc
            raise
        finally:
            self._heads.discard(deadline)
        answer = UpstreamResponse(response, self._times, start, self._answers.discard, target.key)
        self._answers.add(answer)
        return answer

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped.is_set()

    async def pause(self, seconds: float) -> None:
        """Wait, but no longer than until `stop` is called."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()

    def stop(self) -> None:
        """End all answers with `ServerStopping`, and send no further request."""
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
            session = self._sessions[reuse] = aiohttp.ClientSession(
                connector=Connector(reuse=reuse),
                request_class=Request,
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
        return session


class UpstreamResponse:
    """The answer of an upstream; the reader of a `Stream`.

    A read that comes too late fails with `Stalled`.  One timer watches all reads: it is set
    again when it fires, not with each read.  Progress is what the timer finds new: a stream of
    pings, comments or empty frames alone ends after `progress_s`, and at most the shortest of the
    bounds later.  The time in which the client reads nothing is not the upstream's.

    Args:
        response: The response, of which nothing was read.
        times: Time limits of the upstream.
        start: When the request was sent.
        on_close: Called once the answer is closed.
        key: A key that stands as `x` in headers and body; None if there is none.

    Attributes:
        status: HTTP status.
        headers: Headers by lower-case name.
        content_type: `content-type`, or None.
        error_type: Type of the error that the headers state, or None.
        read: Returns the next bytes of the decoded body, or raises: `StopAsyncIteration` at its
            end, `Stalled`, `aiohttp.ClientError` if the connection broke, `RemoteProtocolError`
            if the body cannot be decoded.
    """

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        times: Timeouts,
        start: float,
        on_close: Callable[[UpstreamResponse], None],
        key: UpstreamKey | None = None,
    ) -> None:
        self._response = response
        self._content = response.content
        self._times = times
        self._loop = asyncio.get_running_loop()
        self.status: int | None = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        if key is not None:
            hide = key.replace_in_header
            self.headers = {name: hide(value) for name, value in self.headers.items()}
        self.content_type = self.headers.get("content-type")
        self.error_type = error_type_in(self.headers)
        self._coding = self.headers.get(CONTENT_ENCODING, "")
        self._decoder: ResponseDecoder | None = None
        self._pieces: Iterator[bytes] = iter(())  # decoded from the last read
        self._rest = b""  # lines of the last read that are still to be returned
        plain = not (self._coding and content_codings(self._coding))
        self._uncut_bytes = _LINES_AT_ONCE if plain else sys.maxsize
        self.read: Callable[[], Awaitable[bytes]] = (
            self._read_received if plain else self._read_decoded
        )
        if key is not None:
            self.read = partial(_read_masked, self.read, KeyMask(key))
        self._pump: Pump[bytes] | None = None
        self._waits_since: float | None = None  # since when a read is under way
        self._returned_at = start  # when the last read ended
        self._is_decoding = False  # in a thread, what was read
        self._is_due = False  # a check, once that has ended
        self._is_blocked = False  # whether the timer has fired since then: the client is late
        self._blocked_s = 0.0  # seconds in which it was
        self._progress_at = start  # of a clock that stops while the client is late
        self._reads = 0
        self._last_count: int = 0  # of frames, or of reads, at the last check
        self._on_close = on_close
        connection = response.connection  # None once the whole body has arrived
        protocol = None if connection is None else connection.protocol
        self._lost = None if protocol is None else protocol.closed
        if self._lost is None:
            self._end_lost()
        else:
            self._lost.remove_done_callback(_retrieve)  # of an earlier answer
            self._lost.add_done_callback(_retrieve)
            self._lost.add_done_callback(self._end_lost)
        self._timer = self._loop.call_at(start + times.first_byte_s, self._check)

    async def read_all(self, max_bytes: int) -> bytes:
        """Return the whole body; of a larger one the first reads.

        Raises:
            Stalled: The upstream is late.
            aiohttp.ClientError: The connection broke.
            RemoteProtocolError: The body cannot be decoded.
        """
        parts: list[bytes] = []
        size = 0
        while size <= max_bytes:
            try:
                parts.append(await self.read())
            except StopAsyncIteration:
                break
            size += len(parts[-1])
        return b"".join(parts)

    def watch(self, pump: Pump[bytes]) -> None:
        """Measure progress by the events that a pump has read, and let it say when it may end."""
        self._pump = pump

    @contextmanager
    def being_decoded(self) -> Generator[None]:
        """Hold while a thread decodes what was read: the time is not the client's.

        The pump counts its frames meanwhile, so its progress is judged afterwards.
        """
        self._is_decoding = True
        try:
            yield
        finally:
            self._is_decoding = False
            self._returned_at = self._loop.time()
            if self._is_due:
                self._is_due = False
                self._check()

    def keep_reads(self) -> list[bytes]:
        """Return a list to which each further read is added."""
        kept: list[bytes] = []
        self.read = partial(_read_kept, self.read, kept)
        return kept

    def fail(self, cause: Exception) -> None:
        """End the body with an exception, also a read that is under way."""
        if not self._content.is_eof():
            self._content.set_exception(cause)

    async def close(self) -> None:
        """Close the connection, unless the body has ended: then others may use it."""
        self._timer.cancel()
        self._on_close(self)
        if self._lost is not None:
            self._lost.remove_done_callback(self._end_lost)
        # Bytes of an unread body would be read as the next response.
        if self._content.at_eof():
            self._response.release()
        else:
            self._response.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _read_received(self) -> bytes:
        """Return the next bytes of the body, as they were received, but few lines at once.

        Raises:
            StopAsyncIteration: The body has ended.
            Stalled: The upstream is late.
            aiohttp.ClientError: The connection broke.
        """
        if self._rest:
            await self._give_way()
            return self._first_lines(self._rest)
        self._begin_read()
        try:
            data = await self._content.readany()
        except _GraceOver as exc:
            raise StopAsyncIteration from exc
        except HttpProcessingError as exc:  # of aiohttp's parser in Python
            raise BrokenFraming from exc
        self._end_read()
        if not data:
            raise StopAsyncIteration
        self._reads += 1
        if self._reads == 1:  # in time; no event of it is read before this returns
            self._progress_at, self._is_blocked = self._returned_at, True
            self._last_count = int(self._pump is None)
            self._timer.cancel()
            self._timer = self._loop.call_at(self._next_check(self._returned_at), self._check)
        if len(data) > self._uncut_bytes:
            return self._first_lines(data)
        return data

    def _first_lines(self, data: bytes) -> bytes:
        """Return as many lines as are decoded at once, and keep the rest for the next read."""
        lines = data.count(b"\n") + data.count(b"\r")
        first = _LINES.match(data) if lines > _LINES_AT_ONCE else None
        if first is None:
            self._rest = b""
            return data
        self._rest = data[first.end() :]
        return first[0]

    async def _give_way(self) -> None:
        """Let others work between two pieces of one read."""
        self._begin_read()
        await asyncio.sleep(0)
        self._end_read()

    async def _read_decoded(self) -> bytes:
        """Return the next decoded bytes of a body that is compressed without being asked to."""
        if self._decoder is None:  # a coding that is not supported is a failure of the body
            self._decoder = ResponseDecoder(self._coding)
        data = self._rest or next(self._pieces, None)
        if data is not None:  # a read may become thousands of pieces
            await self._give_way()
        while data is None:
            self._pieces = self._decoder.feed(await self._read_received())
            data = next(self._pieces, None)
        return self._first_lines(data)

    def _begin_read(self) -> None:
        self._waits_since = since = self._loop.time()
        if self._is_blocked:
            self._is_blocked = False
            self._blocked_s += since - self._returned_at

    def _end_read(self) -> None:
        self._waits_since = None
        self._returned_at = self._loop.time()

    def _end_lost(self, _lost: asyncio.Future[None] | None = None) -> None:
        """End a body whose connection is closed.

        aiohttp does so itself, unless it closes the connection because of a broken chunk.
        """
        if self._content.exception() is None:
            self.fail(BrokenFraming())

    def _next_check(self, now: float) -> float:
        """Return when to check again: a read may begin at any time, and read a finish."""
        times = self._times
        poll_interval_s = min(times.finish_grace_s, times.idle_s, times.progress_s)
        return now + max(poll_interval_s, _POLL_INTERVAL_S)

    def _check(self) -> None:
        """End the body if the upstream is late, and check again when it may be."""
        self._timer.cancel()
        if self._is_decoding:
            self._is_due = True
            return
        now, times = self._loop.time(), self._times
        if not self._reads:
            self.fail(Stalled("no first byte"))
            return
        next_check = self._next_check(now)
        # To count in each read would cost as much as all else that is done there.
        count = self._reads if self._pump is None else self._pump.progress
        since = self._waits_since
        self._is_blocked = since is None
        until = self._returned_at if since is None else now
        if count != self._last_count:
            self._last_count, self._progress_at = count, until - self._blocked_s
        progress_at = self._progress_at + self._blocked_s
        if self._pump is not None and self._pump.lacks_only_terminal:
            end = progress_at + times.finish_grace_s  # pings do not extend it
            if until >= end:
                # No `feed_eof`: aiohttp would use the connection for another request.
                self.fail(_GraceOver())
                return
        else:
            # Pings hide a dead upstream for ever: they are no progress (Wei-Shaw/sub2api#1707).
            end = progress_at + times.progress_s
            if since is not None:
                end = min(since + times.idle_s, end)
            if until >= end:
                self.fail(Stalled("nothing, or nothing of the answer"))
                return
        if since is not None:
            next_check = min(end, next_check)
        self._timer = self._loop.call_at(next_check, self._check)


def failure_reason(error: Exception | None) -> FailureReason | None:
    """Return why a request got no answer, or its answer broke; None if the gateway ended it.

    Args:
        error: Exception of `Network.send` or of a read of its answer; None if there is none.
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
    """Return a body in the form that aiohttp sends best.

    It writes bytes at once, and the transport copies what the network does not accept yet.
    """
    if body is None or len(body) <= LARGE_BYTES:
        return body
    return io.BytesIO(body)


async def _read_masked(read: Callable[[], Awaitable[bytes]], mask: KeyMask) -> bytes:
    """Return the next bytes of a body without a key."""
    data = b""
    while not data:
        try:
            data = mask.feed(await read())
        except StopAsyncIteration:
            if held := mask.close():
                return held  # the next read ends again
            raise
    return data


async def _read_kept(read: Callable[[], Awaitable[bytes]], kept: list[bytes]) -> bytes:
    data = await read()
    kept.append(data)
    return data


def _retrieve(lost: asyncio.Future[None]) -> None:
    """Retrieve the exception of a lost connection, which asyncio would log otherwise."""
    if not lost.cancelled():
        lost.exception()
