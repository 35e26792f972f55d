"""Running ASGI applications under uvicorn: in the foreground or in a thread.

Open streams are cut at the end of a server, unless its settings give them time.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from streamnorm.cli.console import UsageError, print_error

if TYPE_CHECKING:
    import uvicorn

    from streamnorm.cli.server import Server


LOOPBACK = "127.0.0.1"
_INTERRUPTED = 130
_MAX_REQUESTS = 1000  # of the commands that have no bound of their own
_STOP_S = 5.0  # for the end of a server in a thread

_SETTINGS: dict[str, Any] = {
    # The command prints its own lines, and headers are those of the recording or provider.
    "log_config": None,
    "access_log": False,
    "date_header": False,
    "server_header": False,
    "proxy_headers": False,
    "ws": "none",
    "lifespan": "on",
    # Open streams may last for minutes; Ctrl-C does not wait for them.
    "timeout_graceful_shutdown": 0,
}


def serve(
    app: Any,
    port: int,
    announce: Callable[[str], None],
    *,
    host: str = LOOPBACK,
    max_requests: int = _MAX_REQUESTS,
    max_message_bytes: int | None = None,
    **settings: Any,
) -> int:
    """Serve an application until a signal ends the server; return the exit status.

    The event loop is uvloop's and the parser httptools, where they are installed; else asyncio's,
    and h11.

    Args:
        app: The application.
        port: Port to listen on; 0 for any free one.
        announce: Called with the URL once connections are accepted.
        host: Address to listen on.
        max_requests: How many requests the application answers at the same time.
        max_message_bytes: Bound on a message of a WebSocket; None for an application that is not
            asked over any.
        settings: Settings of uvicorn that differ from those of this module.

    Raises:
        UsageError: The port is not available, or uvicorn is not installed.
    """
    with (
        open_listener(host, port) as listening,
        asyncio.Runner(loop_factory=_choose_event_loop()) as runner,
    ):
        if max_message_bytes is not None:
            settings |= _websocket_settings(max_message_bytes)
        ending = _Ending(_make_server(app, listening, max_requests, settings))
        shown = f"[{host}]" if ":" in host else host
        announce(f"http://{shown}:{listening.getsockname()[1]}")
        _freeze_loaded()
        runner.run(ending.server.serve())
    return ending.status


@contextmanager
def serve_in_thread(app: Any, listening: socket.socket, *, max_requests: int) -> Generator[None]:
    """Serve an application in a thread until the context exits.

    Signals do not end it.

    Raises:
        UsageError: It does not start, or uvicorn is not installed.
    """
    began = threading.Event()
    server = _make_server(app, listening, max_requests, {}, on_start=began.set)

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=_choose_event_loop()) as runner:
                runner.run(server.serve())
        finally:
            began.set()

    _freeze_loaded()
    # The process ends also if the server does not.
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    began.wait()
    if not server.servers:
        raise UsageError("the server does not start")
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(_STOP_S)


def _make_server(
    app: Any,
    listening: socket.socket,
    max_requests: int,
    settings: dict[str, Any],
    on_start: Callable[[], None] | None = None,
) -> Server:
    """Return a server for a listening socket.

    Args:
        app: The application.
        listening: The socket.
        max_requests: How many requests the application answers at the same time.
        settings: Settings of uvicorn that differ from those of this module.
        on_start: Called once connections are accepted.

    Raises:
        UsageError: uvicorn is not installed.
    """
    try:
        from uvicorn import Config
    except ModuleNotFoundError as exc:
        raise UsageError(
            "no uvicorn, expected the extra `serve`: pip install '.[serve]' in a clone"
        ) from exc
    from streamnorm.cli.server import (
        MAX_HEAD_BYTES,
        Connections,
        Server,
        choose_connection,
        choose_max_connections,
    )

    bound = choose_max_connections(max_requests)
    if bound < max_requests:
        print_error(f"at most {bound} connections, since few files may be open (see ulimit -n)")
    settings = {**_SETTINGS, "h11_max_incomplete_event_size": MAX_HEAD_BYTES, **settings}
    config = Config(app, **settings)
    connections = Connections(bound, keep_alive_s=config.timeout_keep_alive)
    logging.getLogger("uvicorn.error").addFilter(_is_crash)
    return Server(config, listening, connections, choose_connection(), on_start)


def _websocket_settings(max_message_bytes: int) -> dict[str, Any]:
    """Return uvicorn's WebSocket settings; {} if the library is missing or too old."""
    try:
        from streamnorm.cli.websocket_connection import WebSocketConnection
    except ModuleNotFoundError:
        return {}
    return {
        "ws": WebSocketConnection,
        "ws_max_size": max_message_bytes,
        # It costs 5 µs an event, and a few compressed bytes may stand for very many.
        "ws_per_message_deflate": False,
    }


def _freeze_loaded() -> None:
    """Exclude loaded objects from garbage collection."""
    gc.collect()
    gc.freeze()


def _choose_event_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the event loop factory: uvloop's if it is installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.SelectorEventLoop  # also on Windows, whose other one cannot await a socket
    return uvloop.new_event_loop


class _Ending:
    """Exit status of a server that a signal ends.

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


def open_listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a port; port 0 means any free one.

    Raises:
        UsageError: The host or the port is not available.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except socket.gaierror as exc:
        raise UsageError(f"host {host}: {exc.strerror}") from exc
    except OSError as exc:
        # Its text repeats the address.
        reason = exc.strerror if exc.errno is None else os.strerror(exc.errno)
        raise UsageError(f"port {port}: {reason}") from exc


def _is_crash(record: logging.LogRecord) -> bool:
    """Return whether a log record reports an error other than a cancellation."""
    error = record.exc_info[1] if record.exc_info else None
    return error is not None and not isinstance(error, asyncio.CancelledError)
