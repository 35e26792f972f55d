"""`Stream` and `SyncStream`, which read a source into a pump."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

import anyio

from streamnorm._core.errors import LocalProtocolError
from streamnorm._core.events import Completed, Outcome, StreamError, Usage
from streamnorm._core.losses import Loss, Note
from streamnorm._core.messages import Message
from streamnorm.aio.pump import Head, Pump
from streamnorm.aio.sources import NotSent

T = TypeVar("T")

# Closing must end even if the network no longer answers.
_CLOSE_S = 1.0
# The end of the HTTP body follows the last event; a connection whose body was read to its
# end can be reused.  The bounds are those of the official SDKs.
_DRAIN_S = 0.1
_DRAIN_BYTES = 64 * 1024


class _AsyncRead(Head, Protocol):
    @property
    def read(self) -> Callable[[], Awaitable[bytes]]: ...

    async def close(self) -> None: ...


class _Read(Head, Protocol):
    @property
    def read(self) -> Callable[[], bytes]: ...

    def close(self) -> None: ...


class _StreamBase(Generic[T]):
    """Properties that `Stream` and `SyncStream` share."""

    def __init__(self, pump: Pump[T]) -> None:
        self._pump = pump
        self._idle = True  # whether a read may begin
        self._closed = False
        self._finished = False  # iterated to its end without a failure

    @property
    def outcome(self) -> Outcome | None:
        """How the stream ended; None until its last item is returned.

        `Abandoned()` if the consumer stopped before that.
        """
        return self._pump.outcome

    @property
    def dialect(self) -> str | None:
        """Name of the dialect that is read; None until it is detected."""
        return self._pump.dialect

    @property
    def media_type(self) -> str:
        """The `content-type` of the written bytes; without a target dialect, of the source."""
        return self._pump.framing.media_type

    @property
    def response_headers(self) -> Mapping[str, str]:
        """Response headers that clients of the written dialect expect, by lower-case name."""
        return self._pump.response_headers

    @property
    def error_media_type(self) -> str:
        """The `content-type` of `error_body`."""
        return self._pump.error_media_type

    @property
    def is_failure_written(self) -> bool:
        """Whether the written bytes end with an error event for what the stream then raises.

        So it is with an error of an agent itself: its page reads one, and its server the exception.
        """
        return self._pump.is_failure_written

    @property
    def message(self) -> Message:
        """The message accumulated so far.

        Raises:
            LimitExceeded: It is larger than `max_accumulated_bytes`.
        """
        return self._pump.message

    @property
    def usage(self) -> Usage:
        """The last usage snapshot."""
        return self._pump.usage

    @property
    def notes(self) -> tuple[Note, ...]:
        """Deviations from the protocol that the decoder accepted."""
        return self._pump.notes

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Losses in the target dialect."""
        return self._pump.losses

    def ping(self) -> bytes:
        """Return a ping in the client's dialect, to send between two chunks.

        Empty if no dialect is written, or the stream has ended.
        """
        return self._pump.ping()

    def error_body(self, error: StreamError) -> bytes:
        """Return the body of an error response, in the client's dialect."""
        return self._pump.error_body(error)

    def _misuse(self) -> Exception:
        """Return the error for a read of a closed or broken stream, or during another read."""
        if self._closed or self._pump.settled:
            return LocalProtocolError("read of a stream that was closed or broke, expected none")
        return LocalProtocolError("second read at the same time, expected one reader")


# No asynchronous generator: one that `break` leaves suspended is closed later, in another task, and
# by trio cancelled at once (PEP 789).
class Stream(_StreamBase[T]):
    """An asynchronous iterator over a stream's items; it owns its source.

    Only one task may read it at a time.  Closing it closes the source; so do the end of the
    stream, a failure and a cancelled read.  After a cancelled read a further read raises
    `LocalProtocolError`, so that it is never mistaken for the end.  Made by `events`,
    `transcode`, `tap` and `connect`.
    """

    def __init__(self, pump: Pump[T], reader: _AsyncRead) -> None:
        super().__init__(pump)
        self._reader = reader

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        pump = self._pump
        if pump.pending:
            return pump.pending.pop()
        if not self._idle:
            raise StopAsyncIteration if self._finished else self._misuse()
        self._idle = False
        try:
            while not pump.ended:
                mistake: Exception | None = None
                try:
                    data = await self._reader.read()
                except StopAsyncIteration:
                    pump.close()
                except NotSent as exc:
                    mistake = exc.mistake
                except Exception as exc:  # noqa: BLE001 - whatever a source raises breaks the stream, and the pump says how
                    pump.abort(exc)
                else:
                    item = pump.feed(data)
                    if item is not None:
                        self._idle = True
                        return item
                if mistake is not None:
                    try:
                        raise mistake  # not where `NotSent` is handled, which would be its context
                    finally:
                        del mistake  # its traceback has this frame
                if pump.pending and not pump.ended:
                    self._idle = True
                    return pump.pending.pop()
            if pump.pending:
                return await self._last()
        except BaseException as exc:  # cancelled, or raised by a callback of the caller
            pump.abandon()
            try:
                # A coroutine that is being discarded must not await.
                if not isinstance(exc, GeneratorExit):
                    await self._release_quietly()
            finally:
                pump.settle()
            raise
        return await self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the source without reading on; further calls do nothing.

        Raises:
            LocalProtocolError: A read is under way; cancel that.
        """
        if self._closed:
            return
        if not self._idle and not self._pump.settled:
            raise LocalProtocolError("close during a read, expected none under way")
        self._pump.abandon()
        try:
            await self._release()
        finally:
            self._pump.settle()

    async def _last(self) -> T:
        """Return the next pending item after the end of the source."""
        self._idle = True
        return self._pump.pending.pop()

    async def _end(self) -> T:
        """Close the source, then raise the failure or `StopAsyncIteration`."""
        pump = self._pump
        try:
            await self._release_quietly()
        finally:
            pump.settle()
        if pump.failure is not None:
            raise pump.failure from pump.cause
        self._finished = True
        raise StopAsyncIteration

    async def _release_quietly(self) -> None:
        # The stream has ended or failed already: an error in closing does not matter.
        with suppress(Exception):
            await self._release()

    async def _release(self) -> None:
        self._closed, self._idle = True, False
        try:
            pump = self._pump
            # After a terminal only: before it, the provider would generate for nobody.
            if pump.ended and not pump.exhausted and isinstance(pump.outcome, Completed):
                await self._drain()
        finally:
            # Shielded: httpx 0.28 loses a slot of its connection pool for good if closing is
            # cancelled (encode/httpcore#1093).
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await self._reader.close()

    async def _drain(self) -> None:
        """Read a short remainder of the body, so that the connection can be reused."""
        size = 0
        with anyio.move_on_after(_DRAIN_S), suppress(Exception):
            while size <= _DRAIN_BYTES:
                size += len(await self._reader.read())


class SyncStream(_StreamBase[T]):
    """An iterator over a stream's items; it owns its source.

    Closing it closes the source; so do the end of the stream and a failure.  Made by
    `iter_events` and `iter_transcode`.
    """

    def __init__(self, pump: Pump[T], reader: _Read) -> None:
        super().__init__(pump)
        self._reader = reader

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        pump = self._pump
        if pump.pending:
            return pump.pending.pop()
        if not self._idle:
            raise StopIteration if self._finished else self._misuse()
        self._idle = False
        try:
            while not pump.ended:
                try:
                    data = self._reader.read()
                except StopIteration:
                    pump.close()
                except Exception as exc:  # noqa: BLE001 - whatever a source raises breaks the stream, and the pump says how
                    pump.abort(exc)
                else:
                    item = pump.feed(data)
                    if item is not None:
                        self._idle = True
                        return item
                if pump.pending and not pump.ended:
                    self._idle = True
                    return pump.pending.pop()
            if pump.pending:
                return self._last()
        except BaseException:
            pump.abandon()
            try:
                self._release_quietly()
            finally:
                pump.settle()
            raise
        return self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the source without reading on; further calls do nothing.

        Raises:
            LocalProtocolError: A read is under way.
        """
        if self._closed:
            return
        if not self._idle:
            raise LocalProtocolError("close during a read, expected none under way")
        self._pump.abandon()
        try:
            self._release()
        finally:
            self._pump.settle()

    def _last(self) -> T:
        self._idle = True
        return self._pump.pending.pop()

    def _end(self) -> T:
        pump = self._pump
        self._release_quietly()
        pump.settle()
        if pump.failure is not None:
            raise pump.failure from pump.cause
        self._finished = True
        raise StopIteration

    def _release_quietly(self) -> None:
        with suppress(Exception):
            self._release()

    def _release(self) -> None:
        self._closed, self._idle = True, False
        self._reader.close()
