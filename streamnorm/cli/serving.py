"""A server that a signal ends: at once, open streams included, unless they are given time."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable
from math import inf
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any

from streamnorm.cli.console import UsageError

if TYPE_CHECKING:
    import uvicorn

__all__ = ["LOOPBACK", "serve"]

LOOPBACK = "127.0.0.1"
_INTERRUPTED = 130
# In which a signal that comes again is the same one: systemd sends it to all processes of a unit,
# and a parent passes it on to its children.
_REPEAT_S = 0.1
_LAST_S = 0.6  # for the last events of streams that end at once

_SETTINGS: dict[str, Any] = {
    # The command prints its own lines, and headers are those of the recording or provider.
    "log_config": None,
    "access_log": False,
    "date_header": False,
    "server_header": False,
    "proxy_headers": False,
    "loop": "asyncio",
    "http": "h11",
    "ws": "none",
    "lifespan": "on",
    # Open streams may last for minutes; Ctrl-C does not wait for them.
    "timeout_graceful_shutdown": 0,
}


def serve(
    app: Any, port: int, announce: Callable[[str], None], *, host: str = LOOPBACK, **settings: Any
) -> int:
    """Serve an application until a signal ends it, and return the exit status.

    Args:
        app: The application.
        port: Port to listen on; 0 for any free one.
        announce: Called with the URL once connections are accepted.
        host: Address to listen on.
        settings: Settings of uvicorn that differ from those of this module.

    Raises:
        UsageError: The port is not available, or uvicorn is not installed.
    """
    try:
        from uvicorn import Config, Server
    except ModuleNotFoundError as exc:
        raise UsageError(
            "no uvicorn, expected the extra `serve`: pip install 'streamnorm[serve]'"
        ) from exc

    class StoppableServer(Server):
        """A server that a second SIGTERM ends at once; uvicorn's own knows a second SIGINT."""

        repeated_from = inf

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            now = monotonic()
            if now >= self.repeated_from:
                self.force_exit = True
                asyncio.get_running_loop().call_soon_threadsafe(self.abort_soon)
            self.repeated_from = min(self.repeated_from, now + _REPEAT_S)
            super().handle_exit(sig, frame)

        def abort_soon(self) -> None:
            # From Python 3.12 on the server waits for its connections, as for an upload.
            asyncio.get_running_loop().call_later(_LAST_S, self.abort)

        def abort(self) -> None:
            for connection in [*self.server_state.connections]:
                connection.transport.abort()

    config = Config(app, **{**_SETTINGS, **settings})
    logging.getLogger("uvicorn.error").addFilter(_is_crash)
    with _listener(host, port) as listener:
        ending = _Ending(StoppableServer(config))
        shown = f"[{host}]" if ":" in host else host
        announce(f"http://{shown}:{listener.getsockname()[1]}")
        asyncio.run(ending.server.serve(sockets=[listener]))
    return ending.status


class _Ending:
    """The exit status of a server that a signal ends.

    uvicorn raises the signal again after its shutdown; these handlers then note it.

    Args:
        server: The server; also stopped by a signal that arrives before it handles any.
    """

    def __init__(self, server: uvicorn.Server) -> None:
        self.server = server
        self.status = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.status = _INTERRUPTED if number == signal.SIGINT else 0
        self.server.should_exit = True


def _listener(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family)
    except socket.gaierror as exc:
        raise UsageError(f"host {host}: {exc.strerror}") from exc
    except OSError as exc:
        # Its text repeats the address.
        reason = exc.strerror if exc.errno is None else os.strerror(exc.errno)
        raise UsageError(f"port {port}: {reason}") from exc
    # Connections inherit it.  asyncio sets it only where a socket names its protocol, which this
    # one does not: the body of an answer would wait 40 ms for the client to acknowledge the head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _is_crash(record: logging.LogRecord) -> bool:
    """Pass an application's error; a cancelled stream is no error."""
    error = record.exc_info[1] if record.exc_info else None
    return error is not None and not isinstance(error, asyncio.CancelledError)
