"""HTTP/1.1 in bytes: a client, and an upstream that stores its requests."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

__all__ = ["EMPTY_RESPONSE", "RawUpstream", "raw_exchange", "raw_upstream", "serving"]

EMPTY_RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class RawUpstream:
    """A server that answers each connection once, with fixed bytes.

    Attributes:
        url: Its URL.
        requests: The requests received, each a head of lines and a body.
    """

    def __init__(self, response: bytes, context: ssl.SSLContext | None) -> None:
        self.url = ""
        self.requests: list[tuple[list[bytes], bytes]] = []
        self._response = response
        self._context = context

    def respond(self, accepted: socket.socket) -> None:
        """Read a request, and send the response."""
        connection = accepted
        if self._context is not None:
            connection = self._context.wrap_socket(accepted, server_side=True)
        with connection, connection.makefile("rb") as file:
            head = list(iter(lambda: file.readline().rstrip(b"\r\n"), b""))
            lengths = [line for line in head if line.lower().startswith(b"content-length: ")]
            body = file.read(int(lengths[0].rpartition(b" ")[2])) if lengths else b""
            self.requests.append((head, body))
            connection.sendall(self._response)

    @property
    def targets(self) -> list[bytes]:
        """The received requests' targets."""
        return [head[0].split(b" ")[1] for head, _ in self.requests]


@contextmanager
def serving(respond: Callable[[socket.socket], object]) -> Iterator[str]:
    """Serve connections, each closed after its response; yield host and port."""

    def serve() -> None:
        with suppress(OSError):  # the listener was shut down
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):  # the client left
                    respond(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextmanager
def raw_upstream(
    response: bytes = EMPTY_RESPONSE, *, context: ssl.SSLContext | None = None
) -> Iterator[RawUpstream]:
    """Serve one response on loopback, over TLS if a context is given."""
    upstream = RawUpstream(response, context)
    with serving(upstream.respond) as address:
        upstream.url = f"{'http' if context is None else 'https'}://{address}"
        yield upstream


def raw_exchange(url: str, request: bytes) -> bytes:
    """Send bytes to a server; return everything it sends until it closes."""
    address = urlsplit(url)
    with socket.create_connection((str(address.hostname), address.port or 80), 30) as connection:
        connection.sendall(request)
        with connection.makefile("rb") as file:
            return file.read()


def refuse_tls(connection: socket.socket) -> None:
    """Answer a TLS client with an error in plain text."""
    connection.recv(100_000)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def reset(connection: socket.socket) -> None:
    """Make closing a connection send a reset."""
    connection.recv(1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
