"""Fake byte sources, the only fakes in tests of the I/O layers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import anyio
import pytest

__all__ = ["AsyncBytes", "AsyncResponse", "Bytes", "Cut"]


class Cut(OSError):
    """A way in which a fake connection breaks."""


class AsyncBytes:
    """A source of chunks that then ends, breaks or stays silent.

    Attributes:
        reads: Number of chunks returned.
        closed: Number of times it was closed.
        silent: Set when a read waits for ever.
        left: Set when it was closed.
    """

    def __init__(
        self,
        chunks: Iterable[object],
        *,
        error: BaseException | None = None,
        stays_open: bool = False,
        waits: bool = False,
        close_error: Exception | None = None,
    ) -> None:
        self.reads = 0
        self.closed = 0
        self.silent = anyio.Event()
        self.left = anyio.Event()
        self._chunks = iter(chunks)
        self._ended = False
        self._error = error
        self._stays_open = stays_open
        self._waits = waits
        self._close_error = close_error

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> object:
        if self.closed or self._ended:
            pytest.fail("read after the end")
        if self._waits:
            await anyio.lowlevel.checkpoint()
        for chunk in self._chunks:
            self.reads += 1
            return chunk
        self._ended = True
        if self._error is not None:
            raise self._error
        if self._stays_open:
            self.silent.set()
            await anyio.sleep_forever()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.closed += 1
        self.left.set()
        # Closing a connection takes time; it must have it even when all else is cancelled.
        await anyio.lowlevel.checkpoint()
        if self._close_error is not None:
            raise self._close_error


class AsyncResponse(AsyncBytes):
    """An `AsyncBytes` with status and headers."""

    def __init__(
        self,
        chunks: Iterable[object],
        status: int = 200,
        content_type: str | None = "text/event-stream",
        **options: object,
    ) -> None:
        super().__init__(chunks, **options)  # type: ignore[arg-type]
        self.status_code = status
        self.headers = {} if content_type is None else {"content-type": content_type}


class Bytes:
    """Synchronous version of `AsyncBytes`."""

    def __init__(
        self,
        chunks: Iterable[object],
        *,
        error: BaseException | None = None,
        close_error: Exception | None = None,
    ) -> None:
        self.reads = 0
        self.closed = 0
        self._chunks = iter(chunks)
        self._ended = False
        self._error = error
        self._close_error = close_error

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> object:
        if self.closed or self._ended:
            pytest.fail("read after the end")
        for chunk in self._chunks:
            self.reads += 1
            return chunk
        self._ended = True
        if self._error is not None:
            raise self._error
        raise StopIteration

    def close(self) -> None:
        self.closed += 1
        if self._close_error is not None:
            raise self._close_error
