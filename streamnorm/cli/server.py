"""uvicorn's server, with bounds on the connections of clients, and an end that a signal forces."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from math import inf
from time import monotonic
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from streamnorm.cli.connections import MAX_HEAD_BYTES, Acceptor, Connection, Connections, Part

# A repeated signal counts once within this time: systemd sends it to all processes of a unit, and
# a parent passes it on to its children.
_REPEAT_S = 0.1
_LAST_S = 0.6  # for the last events of streams that end at once
_TICKS_TO_FIND_CLOSING = 50  # some five seconds


class H11Connection(Connection, H11Protocol):
    """A connection whose bytes h11 parses; the server sets `h11_max_incomplete_event_size`."""

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are no HTTP request, or a head above the bound."""
        if len(self.conn.trailing_data[0]) > MAX_HEAD_BYTES:
            self.refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The head is too large.")
        else:
            super().send_400_response(msg)

    def find_unfinished(self) -> Part:
        """Return the part of a request that has not arrived to its end."""
        if self.conn.their_state is h11.SEND_BODY:
            return Part.BODY
        is_head = self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
        return Part.HEAD if is_head else Part.NONE


def choose_connection() -> type[Connection]:
    """Return the class of connections: httptools' if it is installed, else h11's."""
    try:
        from streamnorm.cli.httptools_connection import HttpToolsConnection
    except ModuleNotFoundError:
        return H11Connection
    return HttpToolsConnection


class Server(uvicorn.Server):
    """A server that a second SIGTERM ends at once; uvicorn's own knows a second SIGINT.

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
        """Start the application, and accept connections."""
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
        """End connections that have waited too long."""
        self._connections.tick()
        if counter % _TICKS_TO_FIND_CLOSING == 0:
            self._connections.find_closing()
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop at a signal, at once if it is the second one."""
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
