"""`events` and `iter_events`: bytes in, events out."""

from __future__ import annotations

from typing import Unpack

from streamnorm._core.events import Event, StreamError
from streamnorm.aio.pump import DecodingPump, Errors, Head, ReadOptions
from streamnorm.aio.sources import AsyncReader, AsyncSource, Reader, Source
from streamnorm.aio.stream import Stream, SyncStream

__all__ = ["EventPump", "events", "iter_events"]


class EventPump(DecodingPump[Event]):
    """The pump of `events` and `iter_events`: bytes in, events out."""

    def __init__(
        self,
        head: Head,
        dialect: str | None,
        *,
        errors: Errors,
        **options: Unpack[ReadOptions],
    ) -> None:
        if errors not in ("raise", "yield"):
            raise ValueError(f"errors is {errors!r}, expected 'raise' or 'yield'")
        self._raises = errors == "raise"
        super().__init__(head, dialect, **options)

    def feed(self, data: bytes) -> Event | None:
        if not self._open:
            passed = self._gate_feed(data)
            if passed is None:
                return None
            data = passed
        events = self._decoder.feed(data)
        accumulated = self._accumulator.take(events)
        if self._decoder.outcome is not None or accumulated is not events:
            self._finish(events, accumulated)
            return None
        if len(events) == 1:
            return events[0]
        self.pending = events[::-1]
        return None

    def _close(self) -> None:
        self._end(self._decoder.close())

    def _abort(self, cause: BaseException) -> None:
        self._end(self._decoder.abort(cause))

    def _refuse(self, error: StreamError) -> None:
        self._refusal = error
        self._finish([error], [error])

    def _end(self, events: list[Event]) -> None:
        self._finish(events, self._accumulator.take(events))

    def _finish(self, events: list[Event], accumulated: list[Event]) -> None:
        """End the stream with its last events.

        Args:
            events: The last events.
            accumulated: Those within the accumulator's bound, and its error if not all are.
        """
        self.ended = True
        if accumulated is not events and isinstance(last := accumulated[-1], StreamError):
            self._refusal = last
        if self._raises and accumulated and isinstance(last := accumulated[-1], StreamError):
            self._fail(last)
            accumulated = accumulated[:-1]
        self.pending = accumulated[::-1]


def events(
    source: AsyncSource,
    *,
    dialect: str | None = None,
    errors: Errors = "raise",
    **options: Unpack[ReadOptions],
) -> Stream[Event]:
    """Return the events of a response, or of any iterable of byte chunks.

        async with client.stream("POST", url, json=body) as response:
            async for event in streamnorm.events(response):
                ...

    Args:
        source: An httpx, httpx2 or aiohttp response, an `httpx_sse.EventSource`, or an
            asynchronous iterable of bytes.  It is closed with the stream.
        dialect: Dialect to read; None detects it from the first frames, at most 16.
        errors: `raise` raises a `StreamError` as its exception once the events before it
            are delivered; `yield` delivers it as the last event.
        **options: `server`: name of the server (for example `qianfan`), enables its quirks;
            `think_tags`: read `<think>…</think>` at the start of an answer as reasoning;
            `limits`: bounds of the decoder; `on_note`: called with each note as it happens;
            `on_end`: called with the outcome, once, on every path.

    Raises:
        UnknownDialect: There is no such dialect, or it cannot be read.
        TypeError: `source` is no source.
    """
    reader = AsyncReader(source)
    return Stream(EventPump(reader, dialect, errors=errors, **options), reader)


def iter_events(
    source: Source,
    *,
    dialect: str | None = None,
    errors: Errors = "raise",
    **options: Unpack[ReadOptions],
) -> SyncStream[Event]:
    """Return the events of a synchronous source; the twin of `events`.

    Args:
        source: An httpx or httpx2 response, an `httpx_sse.EventSource`, or an iterable
            of bytes.  It is closed with the stream.
        dialect: As for `events`, like all that follow.
        errors: `raise` or `yield`.
        **options: Those of `events`.

    Raises:
        UnknownDialect: There is no such dialect, or it cannot be read.
        TypeError: `source` is no source.
    """
    reader = Reader(source)
    return SyncStream(EventPump(reader, dialect, errors=errors, **options), reader)
