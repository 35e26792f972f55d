"""An upstream on the loopback that answers every request with the stream of one case."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Upstream", "open_upstream"]

# Long enough that a reader sees most events on their own, as it does in life.
_PAUSE_S = 0.002


class Upstream:
    """A server that answers all requests with the same stream.

    Attributes:
        frames: The bytes of the stream, each of them one write.
        media_type: Its media type.
        request: Path, JSON and headers of the last request.
    """

    def __init__(self) -> None:
        self.frames: tuple[bytes, ...] = ()
        self.media_type = "text/event-stream"
        self.request: tuple[str, Any, dict[str, str]] | None = None
        self.url = ""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore that a peer, having read enough, closes its connection."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def open_upstream() -> Iterator[Upstream]:
    """Provide a running upstream."""
    upstream = Upstream()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # A write of an event must not wait for the acknowledgement of the last one.
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            """Answer that there are no models."""
            body = b'{"object":"list","data":[]}'
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            """Answer with the stream."""
            body = self._read_body()
            try:
                value = json.loads(body)
            except ValueError:
                value = None
            headers = {name.lower(): text for name, text in self.headers.items()}
            upstream.request = self.path, value, headers
            self.send_response(200)
            self.send_header("content-type", upstream.media_type)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for number, frame in enumerate(upstream.frames):
                if number:
                    time.sleep(_PAUSE_S)
                self.wfile.write(b"%x\r\n%b\r\n" % (len(frame), frame))
            self.wfile.write(b"0\r\n\r\n")

        def _read_body(self) -> bytes:
            if self.headers.get("transfer-encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("content-length", 0)))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    server = _Server(("127.0.0.1", 0), Handler)
    upstream.url = f"http://127.0.0.1:{server.server_address[1]}"
    # It looks every 10 ms whether it is to end.
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield upstream
    finally:
        server.shutdown()
        server.server_close()
