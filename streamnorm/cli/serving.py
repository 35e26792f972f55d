"""A server that a signal ends: at once, open streams included, unless they are given time."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from streamnorm.cli.console import UsageError, complain

if TYPE_CHECKING:
    import uvicorn

__all__ = ["LOOPBACK", "serve"]

LOOPBACK = "127.0.0.1"
_INTERRUPTED = 130
_MAX_REQUESTS = 1000  # of the commands that have no bound of their own
# New objects after which the garbage collector runs.  At Python's 700 it took 11 % of the CPU of
# requests, and at 10,000 6 %, where memory grew by 3 MiB in the first ten thousand streams.
_COLLECT_AFTER = 3_000

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
    **settings: Any,
) -> int:
    """Serve an application until a signal ends it, and return the exit status.

    The event loop is uvloop's and the parser httptools, where they are installed; else asyncio's,
    and h11.

    Args:
        app: The application.
        port: Port to listen on; 0 for any free one.
        announce: Called with the URL once connections are accepted.
        host: Address to listen on.
        max_requests: How many requests the application answers at the same time.
        settings: Settings of uvicorn that differ from those of this module.

    Raises:
        UsageError: The port is not available, or uvicorn is not installed.
    """
    try:
        from uvicorn import Config
    except ModuleNotFoundError as exc:
        raise UsageError(
            "no uvicorn, expected the extra `serve`: pip install 'streamnorm[serve]'"
        ) from exc
    from streamnorm.cli.accepting import max_connections
    from streamnorm.cli.connections import MAX_HEAD_BYTES, Connections
    from streamnorm.cli.server import Server, best_connection

    bound = max_connections(max_requests)
    if bound < max_requests:
        complain(f"at most {bound} connections, since few files may be open (see ulimit -n)")
    settings = {**_SETTINGS, "h11_max_incomplete_event_size": MAX_HEAD_BYTES, **settings}
    config = Config(app, **settings)
    connections = Connections(bound, keep_alive_s=config.timeout_keep_alive)
    logging.getLogger("uvicorn.error").addFilter(_is_crash)
    with (
        _listener(host, port) as listener,
        asyncio.Runner(loop_factory=_event_loop()) as runner,
    ):
        ending = _Ending(Server(config, listener, connections, best_connection()))
        shown = f"[{host}]" if ":" in host else host
        announce(f"http://{shown}:{listener.getsockname()[1]}")
        _collect_seldom()
        runner.run(ending.server.serve())
    return ending.status


def _collect_seldom() -> None:
    """Let the garbage collector pass over all that is loaded, which stays to the end anyway."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)


def _event_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the event loop that servers run on: uvloop's, if it is installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.SelectorEventLoop  # also on Windows, whose other one cannot await a socket
    return uvloop.new_event_loop


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
    return listener


def _is_crash(record: logging.LogRecord) -> bool:
    """Pass an application's error; a cancelled stream is no error."""
    error = record.exc_info[1] if record.exc_info else None
    return error is not None and not isinstance(error, asyncio.CancelledError)
