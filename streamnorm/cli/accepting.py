"""The listening socket of a server, which is asked for connections only while there is room.

The servers of event loops accept all that come.  Without free descriptors a new client then waits
until another leaves, and asyncio's (Python 3.11) writes 2,048 tracebacks a second meanwhile.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from collections.abc import Callable

from streamnorm.cli.connections import Connections

__all__ = ["Acceptor", "max_connections"]

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


def max_connections(max_requests: int) -> int:
    """Return how many connections of clients may be open, and raise the limit of descriptors.

    Half of the descriptors is for clients, and half for connections to upstreams.

    Args:
        max_requests: How many requests are answered at the same time.
    """
    available = (_raise_descriptor_limit() - _RESERVED) // 2
    return max(1, min(available, _CONNECTIONS_PER_REQUEST * max_requests))


def _raise_descriptor_limit() -> int:
    """Raise the soft limit of open descriptors to the hard one, or a bound, and return it."""
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
    """Accepts connections of clients, as many as there is room for.

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
        """Accept no more connections; the port is free."""
        self._pause()
        self._connections.on_room = lambda: None
        self._listener.close()

    async def wait_closed(self) -> None:
        """Return at once: uvicorn itself waits for connections."""

    def _resume(self) -> None:
        if not self._is_waiting and self._loop.time() >= self._retry_at:
            self._loop.add_reader(self._listener, self._accept)
            self._is_waiting = True

    def _pause(self) -> None:
        if self._is_waiting:
            self._loop.remove_reader(self._listener)
            self._is_waiting = False

    def _has_room(self) -> bool:
        return self._connections.has_room(len(self._coming))

    def _accept(self) -> None:
        for _ in range(_BURST):
            if not self._has_room():
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
            task.add_done_callback(self._has_come)
            self._connections.make_room(len(self._coming))

    def _has_come(self, task: asyncio.Task[None]) -> None:
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
