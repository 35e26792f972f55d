"""A misbehaving upstream on a loopback port, scripted by steps."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from enum import Enum
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

from support.http.strict_upstreams import COMPATIBLE, refused

__all__ = ["Act", "Drip", "Endless", "FaultyUpstream", "Pause", "Step", "run_steps"]


class Act(Enum):
    """A step of an upstream on its connection that is not bytes."""

    RESET = "reset"  # RST
    CLOSE = "close"  # FIN, and no more reads
    END = "end"  # FIN; reads until the gateway closes
    STALL = "stall"  # nothing, until the gateway closes


class Drip(NamedTuple):
    """Bytes sent one by one."""

    data: bytes


class Endless(NamedTuple):
    """Bytes sent repeatedly, until the gateway closes or a bound is reached."""

    data: bytes
    pause_s: float = 0.0
    most: int = 20_000


class Pause(NamedTuple):
    """Seconds of silence."""

    seconds: float


Step: TypeAlias = bytes | Act | Drip | Endless | Pause

_RESET_AT_CLOSE = struct.pack("ii", 1, 0)
_HANDSHAKE = b"\x16"  # the first byte of TLS
_WAIT_S = 5.0


class FaultyUpstream:
    """An upstream that reads one request per connection, then runs its script.

    It refuses what its provider would refuse.  After the script it waits until the gateway
    closes the connection.

    Attributes:
        url: Its URL, without a path.
        script: What to answer.
        requests: The requests that it has read, head and body.
        connections: How many connections it has accepted.
        open: How many of them are open.
    """

    def __init__(self) -> None:
        self.url = ""
        self.script: Sequence[Step] = ()
        self.requests: list[bytes] = []
        self.connections = 0
        self.open = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[FaultyUpstream]:
        """Serve on a loopback port."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for _ in range(200):
                if not self.open:
                    break
                await asyncio.sleep(0.01)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                async with asyncio.timeout(_WAIT_S):
                    request = await _read_request(reader)
                    self.requests.append(request)
                    if (refusal := _refusal(request)) is not None:
                        writer.write(refusal)
                    elif await run_steps(self.script, reader, writer):
                        await _until_closed(reader)
        finally:
            self.open -= 1
            writer.close()


async def run_steps(
    steps: Sequence[Step],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    is_over: Callable[[], bool] = lambda: False,
) -> bool:
    """Run an answer's steps; return whether the connection stays open for the gateway.

    Args:
        steps: The steps.
        reader: Reads from the connection.
        writer: Writes to it.
        is_over: Whether nothing more may be sent; asked before each step.
    """
    for step in steps:
        if is_over():
            return not reader.at_eof()
        match step:
            case bytes(data):
                writer.write(data)
                await writer.drain()
            case Drip(data):
                for at in range(len(data)):
                    if writer.is_closing():
                        return False
                    writer.write(data[at : at + 1])
                    await asyncio.sleep(0)
            case Endless(data, pause_s, most):
                for _ in range(most):
                    if reader.at_eof() or writer.is_closing() or is_over():
                        return False
                    writer.write(data)
                    await writer.drain()
                    await asyncio.sleep(pause_s)
            case Pause(seconds):
                await asyncio.sleep(seconds)
            case Act.RESET:
                connection = writer.get_extra_info("socket")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
                return False
            case Act.CLOSE:
                return False
            case Act.END:
                writer.write_eof()
            case Act.STALL:
                await _until_closed(reader)
                return False
    return True


async def _read_request(reader: asyncio.StreamReader) -> bytes:
    start = await reader.readexactly(1)
    if start == _HANDSHAKE:
        return start
    head = start + await reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return head + await reader.readexactly(int(length or b"0"))


def _refusal(request: bytes) -> bytes | None:
    """Return the provider's response to an invalid request; None if the request is valid."""
    head, _, content = request.partition(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").split("\r\n")
    method, target, *_ = [*line.split(" "), ""]
    headers = dict(field.lower().split(": ", 1) for field in fields)
    answer = refused(method, unquote(urlsplit(target).path), headers, content, COMPATIBLE)
    if answer is None:
        return None
    lines = (
        f"HTTP/1.1 {answer.status} Refused",
        "content-type: application/json",
        f"content-length: {len(answer.body)}",
        "\r\n",
    )
    return "\r\n".join(lines).encode() + answer.body


async def _until_closed(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass
