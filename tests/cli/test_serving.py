"""The server that `serve`, `record` and `replay` start."""

from __future__ import annotations

import socket

import pytest

from streamnorm.cli.serving import _listener


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_connections_send_without_delay(host: str) -> None:
    """Else the body of a whole answer waits 40 ms for the acknowledgement of its head."""
    with (
        _listener(host, 0) as listener,
        socket.create_connection(listener.getsockname()[:2]),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
