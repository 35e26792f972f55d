"""`streamnorm serve` as a process with limits, and its resource usage."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

__all__ = ["BODY", "HEAD", "LimitedGateway", "limited_gateway", "received"]

BODY = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hello"}]}'
HEAD = (
    b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n" % len(BODY)
)
_RUN = "; import sys; from streamnorm.cli import main; sys.exit(main(sys.argv[1:]))"


class LimitedGateway(NamedTuple):
    """A running gateway.

    Attributes:
        process: Its process.
        port: Where it listens.
        errors: The file with what it has written on stderr.
    """

    process: subprocess.Popen[bytes]
    port: int
    errors: Path

    def cpu_s(self) -> float:
        """Return the used CPU time in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100  # ticks of user and system

    def peak_bytes(self) -> int:
        """Return the peak memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def ask(self) -> bytes:
        """Send a message request; return the answer."""
        with self.connect() as client:
            client.sendall(HEAD.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n") + BODY)
            return received(client)


def received(client: socket.socket) -> bytes:
    """Return everything that a server sends before it closes the connection."""
    chunks: list[bytes] = []
    with suppress(ConnectionError):
        while chunk := client.recv(65536):
            chunks.append(chunk)
    return b"".join(chunks)


@contextmanager
def limited_gateway(
    directory: Path,
    config: str,
    *,
    descriptors: tuple[int, int] = (1024, 1024),
    before: str = "pass",
) -> Iterator[LimitedGateway]:
    """Run a gateway with limits.

    Args:
        directory: For its configuration, and what it writes on stderr.
        config: The configuration.
        descriptors: Its limits of open descriptors, the soft and the hard one.
        before: A statement of Python that runs in its process before the command.
    """
    path, errors = directory / "gateway.toml", directory / "errors"
    path.write_text(config)
    with errors.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", before + _RUN, "serve", "--config", str(path)],
            stdout=subprocess.DEVNULL,
            stderr=log,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, descriptors),
        )
        with process:
            try:
                yield LimitedGateway(process, _port_of(errors), errors)
            finally:
                process.kill()


def _port_of(errors: Path) -> int:
    """Return the port in a gateway's announcement."""
    ends_at = time.monotonic() + 300
    while time.monotonic() < ends_at:
        _, _, said = errors.read_text().partition("listening on http://127.0.0.1:")
        if "_BASE_URL" in said:
            return int(said.partition("\n")[0])
        time.sleep(0.02)
    raise TimeoutError("the gateway does not listen")
