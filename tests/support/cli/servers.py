"""Servers for command line tests: a running command, and a provider."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

_BASE_URL = re.compile(r"_BASE_URL=|_ENDPOINT_URL")

__all__ = ["Running", "provider", "running"]


class Running:
    """A running server command.

    Attributes:
        url: URL of the server.
        said: Lines that the command printed at its start.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.said: list[str] = []
        while not self.said or not _BASE_URL.search(self.said[-1]):
            self.said.append(self._read_line())
        self.url = self.said[0].removeprefix("listening on ")

    def line(self) -> str:
        """Return the next line of stderr after the start."""
        while _BASE_URL.search(line := self._read_line()):
            self.said.append(line)
        return line

    def _read_line(self) -> str:
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        assert line, "it has ended"
        return line.rstrip("\n")

    def end(self, number: signal.Signals) -> tuple[int, list[str]]:
        """Send a signal; return the exit status and the remaining lines."""
        assert self._process.stderr is not None
        self._process.send_signal(number)
        late = threading.Timer(30, self._process.kill)
        late.start()
        said = self._process.stderr.read().splitlines()
        late.cancel()
        self.said += [line for line in said if _BASE_URL.search(line)]
        return self._process.wait(30), [line for line in said if not _BASE_URL.search(line)]


@contextmanager
def running(*arguments: object) -> Iterator[Running]:
    """Run a server command."""
    process = subprocess.Popen(
        [sys.executable, "-m", "streamnorm", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that starts the tests in its background has them ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    with process:
        try:
            yield Running(process)
        finally:
            process.kill()  # unless it has ended


@contextmanager
def provider(
    app: Any, *, has_websockets: bool = False, has_lifespan: bool = False
) -> Iterator[str]:
    """Serve an application in this process; yield its URL."""
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",
        lifespan="on" if has_lifespan else "off",
        http="h11",
        ws="websockets-sansio" if has_websockets else "none",
    )
    config.timeout_graceful_shutdown = 0
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio does not
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
