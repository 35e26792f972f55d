"""uvicorn server with bounded client connections and a shutdown that a second signal forces.

A connection answers a request, or it waits: for the first bytes of a request (a new one), for the
rest of a head, for the rest of a body that was answered before its end, or idle for the next
request.  One that waits is closed after a time, or earlier if another client needs its place.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import sys
from collections.abc import Callable
from enum import Enum
from functools import partial
from http import HTTPStatus
from math import inf
from time import monotonic
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

_LOG = logging.getLogger("streamnorm.server")

MAX_HEAD_BYTES = 64 * 1024
"""Bound on a head that is not complete; also on trailers, and on extensions of a chunk."""

_HEAD_S = 30.0
_KEEP_ALIVE_S = 5.0  # uvicorn's own
# The request of a new connection may have arrived already, and wait for the event loop.
_UNDISTURBED_S = 0.25
_WARN_EVERY_S = 60.0

# More than that is of no use to a gateway of one process.
_DESCRIPTORS = 65_536
_DESCRIPTORS_MACOS = 10_240  # OPEN_MAX: the most that macOS allows whatever the hard limit says
_DESCRIPTORS_WINDOWS = 512  # of `select`, which asyncio uses
# For the event loop, the log, the store and look-ups of names.
_RESERVED = 32
_CONNECTIONS_PER_REQUEST = 4  # most are idle between two requests
_BACKLOG = 2048
_BURST = 16  # connections accepted in one turn of the loop
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_RETRY_S = 1.0


class Part(Enum):
    """The incomplete part of a request on a connection."""

    NONE = "none"
    HEAD = "head"
    BODY = "body"


class Connections:
    """The open client connections of a server, bounded in number.

    Args:
        max_connections: The bound.
        head_s: Seconds in which a head must be complete, and a body whose request was answered.
        keep_alive_s: Seconds that a connection may be idle between two requests.

    Attributes:
        on_room: Called when there may be room for another connection, where there was none.
    """

    def __init__(
        self,
        max_connections: int,
        *,
        head_s: float = _HEAD_S,
        keep_alive_s: float = _KEEP_ALIVE_S,
    ) -> None:
        self.on_room: Callable[[], None] = lambda: None
        self._max = max_connections
        self._open: set[Connection] = set()
        # Connections that wait, and since when: in each, the first has waited longest.
        self._unread: dict[Connection, float] = {}
        self._idle: dict[Connection, float] = {}
        self._waiting = ((self._unread, head_s), (self._idle, keep_alive_s))
        self._warned_at = -_WARN_EVERY_S

    def __len__(self) -> int:
        return len(self._open)

    def has_room(self, coming: int = 0) -> bool:
        """Return whether another connection can be accepted.

        Args:
            coming: Number of connections that have been accepted and are not open yet.
        """
        return len(self._open) + coming < self._max or self._find_replaceable() is not None

    def make_room(self, coming: int = 0) -> None:
        """Close the connection that has waited longest, if the bound on connections is exceeded."""
        replaceable = self._find_replaceable()
        if len(self._open) + coming <= self._max or replaceable is None:
            return
        self.warn(
            "%d connections, the most that there may be: those that have waited longest for a "
            "request are closed for new ones",
            self._max,
        )
        self.remove(replaceable)
        replaceable.end()

    def warn(self, message: str, *arguments: object) -> None:
        """Log a warning, at most once a minute."""
        now = monotonic()
        if now >= self._warned_at + _WARN_EVERY_S:
            self._warned_at = now
            _LOG.warning(message, *arguments)

    def add(self, connection: Connection) -> None:
        """Add a new connection, which now waits for a request."""
        self._open.add(connection)
        self.read(connection)

    def remove(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self._open.discard(connection)
        self.answer(connection)
        self.on_room()

    def read(self, connection: Connection) -> None:
        """Mark a connection as waiting for the remainder of a request."""
        self._idle.pop(connection, None)
        if connection not in self._unread and connection in self._open:
            self._unread[connection] = monotonic()

    def answer(self, connection: Connection) -> None:
        """Mark a connection as busy: its request is being answered."""
        self._unread.pop(connection, None)
        self._idle.pop(connection, None)

    def rest(self, connection: Connection) -> None:
        """Mark a connection as idle between two requests."""
        self._unread.pop(connection, None)
        if connection in self._open:
            self._idle[connection] = monotonic()

    def tick(self) -> None:
        """Close the connections that have waited too long; called several times a second."""
        now = monotonic()
        for waiting, bound_s in self._waiting:
            while waiting:
                connection, since = next(iter(waiting.items()))
                if since > now - bound_s:
                    break
                self.remove(connection)
                connection.end(late=True)
        self.on_room()  # those that have waited for a while can be replaced

    def limit_closing(self) -> None:
        """Start the time limit of connections that are closing.

        A connection whose client reads nothing would stay open.
        """
        for connection in self._open:
            if connection.transport.is_closing():
                self.read(connection)

    def _find_replaceable(self) -> Connection | None:
        """Return the longest-waiting connection; None if no connection has waited long enough."""
        first = [next(iter(waiting.items())) for waiting, _ in self._waiting if waiting]
        if not first:
            return None
        connection, since = min(first, key=lambda entry: entry[1])
        return connection if since <= monotonic() - _UNDISTURBED_S else None


class Connection(asyncio.Protocol):
    """A client connection; base class of the connections for both HTTP parsers.

    Args:
        connections: The connections of the server.
        settings: Arguments of uvicorn's protocol.

    Attributes:
        transport: The transport.
        cycle: The last request and its response; None before the first.
        pipeline: Further requests, which wait for that response.
    """

    transport: asyncio.Transport
    cycle: Any  # each protocol of uvicorn has a class of its own
    pipeline: Any = ()
    ws_protocol_class: Any
    _unset_keepalive_if_required: Callable[[], None]

    def __init__(self, connections: Connections, **settings: Any) -> None:
        super().__init__(**settings)
        self._connections = connections
        self._is_upgraded = False
        if self.ws_protocol_class is not None:
            self.ws_protocol_class = partial(self.ws_protocol_class, self)

    def upgrade(self) -> None:
        """Mark the connection as a WebSocket, which counts as busy until `leave`."""
        self._is_upgraded = True

    def leave(self) -> None:
        """Remove this connection from the server's open connections."""
        self._connections.remove(self)
        self.ws_protocol_class = None  # which holds this object

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to wait for the first request."""
        super().connection_made(transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove this connection from the server's open connections."""
        super().connection_lost(exc)
        # uvicorn leaves the timer running if a client breaks off, and with it all that the
        # connection refers to.
        self._unset_keepalive_if_required()
        self.leave()

    def data_received(self, data: bytes) -> None:
        """Parse bytes of requests; start to answer when a head is complete."""
        before = self.find_unfinished()
        super().data_received(data)
        # A body that ends now is of a request that was answered before.
        self._mark(is_idle=before is Part.BODY and self.find_unfinished() is Part.NONE)

    def on_response_complete(self) -> None:
        """Wait for the next request, or answer it if it has arrived."""
        super().on_response_complete()  # type: ignore[misc]  # of uvicorn's protocols
        is_idle = self.find_unfinished() is Part.NONE and not self.transport.is_closing()
        self._mark(is_idle=is_idle)

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not an HTTP request."""
        self.refuse(HTTPStatus.BAD_REQUEST, msg)

    def refuse(self, status: HTTPStatus, text: str) -> None:
        """Send an error unless a response has begun, then close the connection."""
        is_under_way = self._is_answering() and (self.cycle.response_started or self.pipeline)
        if not is_under_way:
            head = (
                f"HTTP/1.1 {status.value} {status.phrase}\r\n"
                "content-type: text/plain; charset=utf-8\r\n"
                f"content-length: {len(text)}\r\n"
                "connection: close\r\n\r\n"
            )
            self.transport.write(f"{head}{text}".encode("ascii"))
        self.transport.close()

    def end(self, *, late: bool = False) -> None:
        """Close the connection, which is answering no request.

        Args:
            late: Whether it has waited too long.
        """
        if self.transport.is_closing() or self.transport.get_write_buffer_size():
            self.transport.abort()  # the client does not read what was sent
        elif late and self.find_unfinished() is Part.HEAD:
            self.refuse(HTTPStatus.REQUEST_TIMEOUT, "The head of the request did not arrive.")
        else:
            # Without a head, a status would answer a request that may be on its way.
            self.transport.close()

    def find_unfinished(self) -> Part:
        """Return the incomplete part of the last request."""
        raise NotImplementedError

    def _mark(self, *, is_idle: bool) -> None:
        """Mark the connection as busy, idle, or waiting for a request."""
        if self._is_upgraded or self._is_answering():
            self._connections.answer(self)
        elif is_idle:
            self._connections.rest(self)
        else:
            self._connections.read(self)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


def choose_max_connections(max_requests: int) -> int:
    """Return the bound on client connections; raise the descriptor limit.

    Half of the descriptors is for clients, and half for connections to upstreams.

    Args:
        max_requests: How many requests are answered at the same time.
    """
    available = (_raise_descriptor_limit() - _RESERVED) // 2
    return max(1, min(available, _CONNECTIONS_PER_REQUEST * max_requests))


def _raise_descriptor_limit() -> int:
    """Raise the soft limit on open descriptors; return the new limit."""
    if sys.platform == "win32":
        return _DESCRIPTORS_WINDOWS
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (_DESCRIPTORS, _DESCRIPTORS_MACOS):
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            continue
        soft = wanted
    return _DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


class Acceptor:
    """Accepts client connections while there is room for them.

    Others wait in the queue of the socket.  uvicorn closes it as it does an `asyncio.Server`.

    Args:
        listener: The listening socket.
        connections: The connections of the server.
        new_protocol: Returns the protocol of a new connection.
    """

    def __init__(
        self,
        listener: socket.socket,
        connections: Connections,
        new_protocol: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        self._listener = listener
        self._connections = connections
        self._new_protocol = new_protocol
        self._loop = asyncio.get_running_loop()
        self._coming: set[asyncio.Task[None]] = set()
        self._is_waiting = False  # for a connection
        self._retry_at = 0.0
        listener.setblocking(False)
        listener.listen(_BACKLOG)
        connections.on_room = self._resume
        self._resume()

    def close(self) -> None:
        """Stop accepting connections, and free the port."""
        self._pause()
        self._connections.on_room = lambda: None
        self._listener.close()

    async def wait_closed(self) -> None:
        """Return at once: uvicorn itself waits for connections to close."""

    def _resume(self) -> None:
        if not self._is_waiting and self._loop.time() >= self._retry_at:
            self._loop.add_reader(self._listener, self._accept)
            self._is_waiting = True

    def _pause(self) -> None:
        if self._is_waiting:
            self._loop.remove_reader(self._listener)
            self._is_waiting = False

    def _accept(self) -> None:
        for _ in range(_BURST):
            if not self._connections.has_room(len(self._coming)):
                self._pause()
                return
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as exc:
                if exc.errno not in _EXHAUSTED:
                    raise
                reason = os.strerror(exc.errno)
                self._connections.warn("no connection can be accepted: %s", reason)
                self._pause()
                self._retry_at = self._loop.time() + _RETRY_S
                return
            task = self._loop.create_task(self._open(accepted))
            self._coming.add(task)
            task.add_done_callback(self._forget)
            self._connections.make_room(len(self._coming))

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._coming.discard(task)
        self._connections.on_room()  # until now, it counted twice

    async def _open(self, accepted: socket.socket) -> None:
        try:
            accepted.setblocking(False)
            # asyncio sets it only where a socket names its protocol: the body of an answer would
            # wait 40 ms for the client to acknowledge the head.
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(self._new_protocol, accepted)
        except OSError:  # the client has left
            accepted.close()


# A repeated signal counts once within this time: systemd sends it to all processes of a unit, and
# a parent passes it on to its children.
_REPEAT_S = 0.1
_LAST_S = 0.6  # for the last events of streams that end at once
_TICKS_TO_FIND_CLOSING = 50  # some five seconds


class H11Connection(Connection, H11Protocol):
    """A client connection whose bytes h11 parses."""

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not an HTTP request, or an oversized head."""
        if len(self.conn.trailing_data[0]) > MAX_HEAD_BYTES:
            self.refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The head is too large.")
        else:
            super().send_400_response(msg)

    def find_unfinished(self) -> Part:
        """Return the incomplete part of the last request."""
        if self.conn.their_state is h11.SEND_BODY:
            return Part.BODY
        is_head = self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
        return Part.HEAD if is_head else Part.NONE


def choose_connection() -> type[Connection]:
    """Return the connection class: for httptools if it is installed, else for h11."""
    try:
        from streamnorm.cli.httptools_connection import HttpToolsConnection
    except ModuleNotFoundError:
        return H11Connection
    return HttpToolsConnection


class Server(uvicorn.Server):
    """A uvicorn server that a second SIGTERM or SIGINT ends at once.

    Args:
        config: The configuration of uvicorn.
        listener: The listening socket.
        connections: The connections of clients.
        connection_class: Their class.
        on_start: Called once connections are accepted.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        listener: socket.socket,
        connections: Connections,
        connection_class: type[Connection],
        on_start: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(config)
        self._listener = listener
        self._connections = connections
        self._connection_class = connection_class
        self._on_start = on_start
        self.servers = []  # uvicorn sets it at the start, which may fail
        self._repeated_from = inf

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, then accept connections."""
        await super().startup(sockets=[])
        if self.should_exit:
            return
        new_connection = partial(
            self._connection_class,
            self._connections,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        acceptor: Any = Acceptor(self._listener, self._connections, new_connection)
        self.servers = [acceptor]
        if self._on_start is not None:
            self._on_start()

    async def on_tick(self, counter: int) -> bool:
        """Close connections that have waited too long."""
        self._connections.tick()
        if counter % _TICKS_TO_FIND_CLOSING == 0:
            self._connections.limit_closing()
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop at the first signal; stop at once at the second signal."""
        now = monotonic()
        if now >= self._repeated_from:
            self.force_exit = True
            loop = asyncio.get_running_loop()
            loop.call_soon_threadsafe(loop.call_later, _LAST_S, self._abort)
        self._repeated_from = min(self._repeated_from, now + _REPEAT_S)
        super().handle_exit(sig, frame)

    def _abort(self) -> None:
        for connection in [*self.server_state.connections]:
            connection.transport.abort()
