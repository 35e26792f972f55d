"""Client on a raw socket that reads a server's answer within a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

__all__ = ["RawAnswer", "converse", "count_responses"]


class RawAnswer(NamedTuple):
    """Everything a server sent on one connection.

    Attributes:
        data: The bytes.
        is_answered: Whether they are one whole response or more.
        is_closed: Whether the connection ended within the bound.
    """

    data: bytes
    is_answered: bool
    is_closed: bool


async def converse(
    url: str, pieces: Iterable[bytes | float], *, answer_s: float, close_s: float
) -> RawAnswer:
    """Send bytes, read the whole answer, and close the connection.

    Args:
        url: URL of the server.
        pieces: What to send, and seconds to wait in between.
        answer_s: How long to wait for a whole answer; then, or once it has come, the client
            ends its side.
        close_s: How long the server has to end the other side after that.
    """
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    data = bytearray()
    sending = asyncio.create_task(_send(writer, [*pieces]))
    is_closed = False
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(answer_s):
                while not count_responses(data):
                    piece = await _read(reader)
                    data += piece
                    if not piece:
                        is_closed = True
                        break
                await asyncio.wait([sending])
        is_answered = count_responses(data) > 0
        sending.cancel()
        with suppress(OSError):
            writer.write_eof()
        with suppress(TimeoutError):
            async with asyncio.timeout(close_s):
                while not is_closed:
                    piece = await _read(reader)
                    data += piece
                    is_closed = not piece
        return RawAnswer(bytes(data), is_answered or count_responses(data) > 0, is_closed)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.transport.abort()


async def _send(writer: asyncio.StreamWriter, pieces: list[bytes | float]) -> None:
    with suppress(OSError):
        for piece in pieces:
            if isinstance(piece, bytes):
                writer.write(piece)
                await writer.drain()
            else:
                await asyncio.sleep(piece)


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Return the next bytes; b"" at the end of the connection, or after a reset."""
    try:
        return await reader.read(65_536)
    except OSError:
        return b""


def count_responses(data: bytes | bytearray) -> int:
    """Return the number of whole responses; 0 if the last one is incomplete."""
    at = count = 0
    while at < len(data):
        end = data.find(b"\r\n\r\n", at)
        if end < 0:
            return 0
        head = bytes(data[at:end]).lower()
        at = end + 4
        status = head[9:12]
        if status.startswith(b"1"):
            continue
        if b"transfer-encoding: chunked" in head:
            at = _end_of_chunks(data, at)
        elif b"content-length: " in head and status not in (b"204", b"304"):
            at += int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if at < 0 or at > len(data):
            return 0
        count += 1
    return count


def _end_of_chunks(data: bytes | bytearray, at: int) -> int:
    """Return the end offset of a chunked body; -1 if it is incomplete."""
    while True:
        end = data.find(b"\r\n", at)
        if end < 0:
            return -1
        size = int(data[at:end].partition(b";")[0] or b"0", 16)
        at = end + 2 + size + 2
        if not size or at > len(data):
            return at
