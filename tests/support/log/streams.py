"""Sources to produce in a log, and helpers to read it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Unpack

import anyio
from anyio.lowlevel import checkpoint

from streamnorm._transcoder import WriterOptions
from streamnorm.log import Log, LogStore
from streamnorm.log.records import Append, Chunk
from streamnorm.state import StoreError

__all__ = ["GatedSource", "append", "follow", "ids_in", "produce", "source_of", "wait_for_reads"]

_ID = re.compile(rb"^id: (\w+-\w+\.[\d.]+)\r?$", re.MULTILINE)


async def source_of(reads: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield reads, each in a new turn of the event loop."""
    for read in reads:
        await checkpoint()
        yield read


class GatedSource:
    """A source that waits in the middle until a test opens its gate.

    Attributes:
        is_closed: Whether its reader has closed it.
    """

    def __init__(self, before: Sequence[bytes], behind: Sequence[bytes] = ()) -> None:
        self.is_closed = False
        self._before = before
        self._behind = behind
        self._gate = anyio.Event()
        self._reads = self._iterate()

    def open(self) -> None:
        """Open the gate."""
        self._gate.set()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._reads

    async def aclose(self) -> None:
        """Record that the reader has closed the source."""
        self.is_closed = True

    async def _iterate(self) -> AsyncIterator[bytes]:
        for read in self._before:
            yield read
        await self._gate.wait()
        for read in self._behind:
            yield read


async def append(
    store: LogStore,
    scope: str,
    id: str,
    epoch: str,
    chunk: Chunk,
    lease_s: float,
    ending: bytes | None = None,
) -> bool:
    """Append reads to one stream; return whether they are stored."""
    [result] = await store.aappend([Append(scope, id, epoch, chunk, lease_s, ending)])
    if isinstance(result, StoreError):
        raise result
    return result


async def produce(log: Log, id: str, reads: Iterable[bytes], **options: object) -> str:
    """Produce a stream to its end; return its state."""
    async with log.produce(id, source_of(reads), **options) as run:  # type: ignore[arg-type]
        return await run.wait()


async def follow(
    log: Log, id: str, to: str, after: str = "", scope: str = "", **options: Unpack[WriterOptions]
) -> bytes:
    """Return a stream's bytes after a cursor."""
    async with await log.follow(id, to=to, after=after, scope=scope, **options) as stream:
        return b"".join([data async for data in stream])


def ids_in(body: bytes) -> list[str]:
    """Return the cursors in a body, in order."""
    return [match.decode() for match in _ID.findall(body)]


async def wait_for_reads(log: Log, id: str, count: int) -> None:
    """Wait until a number of reads are stored."""
    with anyio.fail_after(30):
        while (await log.status(id)).reads < count:  # noqa: ASYNC110 - what a store has
            await anyio.sleep(0.005)
