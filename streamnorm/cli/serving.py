"""A server on loopback that ends when it is told to, whatever still goes on."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from streamnorm.cli.console import UsageError

if TYPE_CHECKING:
    import uvicorn

    from streamnorm.asgi.application import Application

__all__ = ["serve"]

_HOST = "127.0.0.1"
_INTERRUPTED = 130


def serve(app: Application, port: int, announce: Callable[[str], None]) -> int:
    """Serve an application until a signal ends it, and return the exit status.

    Args:
        app: The application.
        port: Where; 0 for any that is free.
        announce: Called with the URL when connections are accepted.

    Raises:
        UsageError: The port cannot be had, or uvicorn is not installed.
    """
    try:
        from uvicorn import Config, Server
    except ModuleNotFoundError as exc:
        raise UsageError("uvicorn is missing, install it: pip install 'streamnorm[serve]'") from exc
    config = Config(
        app,
        # Nothing but what the command itself says, and of headers what the other side sent.
        log_config=None,
        access_log=False,
        date_header=False,
        server_header=False,
        proxy_headers=False,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="on",
        # Open streams may go on for minutes; who ends the server does not wait for them.
        timeout_graceful_shutdown=0,
    )
    logging.getLogger("uvicorn.error").addFilter(_is_crash)
    with _listener(port) as listener:
        ending = _Ending(Server(config))
        announce(f"http://{_HOST}:{listener.getsockname()[1]}")
        asyncio.run(ending.server.serve(sockets=[listener]))
    return ending.status


class _Ending:
    """Note the signal that ends a server, which repeats it when it has ended.

    Args:
        server: The server; also told of a signal that comes before it listens to any.
    """

    def __init__(self, server: uvicorn.Server) -> None:
        self.server = server
        self.status = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.status = _INTERRUPTED if number == signal.SIGINT else 0
        self.server.should_exit = True


def _listener(port: int) -> socket.socket:
    try:
        return socket.create_server((_HOST, port))
    except OSError as exc:
        # Its own text names the address once more.
        reason = exc.strerror if exc.errno is None else os.strerror(exc.errno)
        raise UsageError(f"port {port}: {reason}") from exc


def _is_crash(record: logging.LogRecord) -> bool:
    """Let through an application's error; that a stream was broken off is on purpose."""
    error = record.exc_info[1] if record.exc_info else None
    return error is not None and not isinstance(error, asyncio.CancelledError)
