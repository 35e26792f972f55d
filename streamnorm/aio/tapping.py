"""`tap`: bytes pass unchanged, while their events are observed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from streamnorm._core.events import Completed, Event, Failed, StreamError, Truncated
from streamnorm._core.failures import broken_connection
from streamnorm.aio.pump import DecodingPump, Head, ReadOptions
from streamnorm.aio.sources import AsyncReader, AsyncSource
from streamnorm.aio.stream import Stream

__all__ = ["TapPump", "tap"]


class TapOptions(ReadOptions, total=False):
    """The options of `tap`."""

    keep_message: bool


class TapPump(DecodingPump[bytes]):
    """The pump of `tap`: bytes in, the same bytes out, their events to an observer."""

    def __init__(
        self,
        head: Head,
        dialect: str | None,
        observer: Callable[[Event], object],
        **options: Unpack[TapOptions],
    ) -> None:
        self._accumulates = True  # whether the message is within its bound
        self._observer = observer
        self._bytes_sent = False
        super().__init__(head, dialect, **options)

    def feed(self, data: bytes) -> bytes | None:
        if not self._open:
            passed = self._gate_feed(data)
            if passed is None:
                return None
            data = passed
        self._observe(self._decoder.feed(data))
        if not data:
            return None
        self._bytes_sent = True
        return data

    def _close(self) -> None:
        self._observe(self._decoder.close())
        match self._decoder.outcome:
            case Failed(error) | Truncated(error) if not self._bytes_sent:
                self._fail(error)
            case _:
                pass  # the client sees how the bytes end

    def _abort(self, cause: BaseException) -> None:
        self._observe(self._decoder.abort(cause))
        if not isinstance(self._decoder.outcome, Completed):
            # The bytes are cut, whatever the decoder found before.
            self._fail(broken_connection(cause, self._decoder.frames))

    def _refuse(self, error: StreamError) -> None:
        self._observe([error])
        super()._refuse(error)

    def _observe(self, events: list[Event]) -> None:
        for event in events:
            self._observer(event)
        if self._accumulates and self._accumulator.take(events) is not events:
            self._accumulates = False  # the bytes still pass


def tap(
    source: AsyncSource,
    observer: Callable[[Event], object],
    *,
    dialect: str | None = None,
    **options: Unpack[TapOptions],
) -> Stream[bytes]:
    """Return the bytes of a response unchanged, and pass their events to an observer.

    Events never change the bytes; the stream reports them in `outcome`.  It raises only for
    a response that the gate refuses, an empty stream and a broken connection.

    Args:
        source: A source, as for `events`.  It is closed with the stream.
        observer: Called with each event, before the bytes that complete it are returned.
            An exception from it ends the stream.
        dialect: Dialect to read; None detects it from the first frames, at most 16.
        **options: Those of `events`: `server`, `think_tags`, `limits`, `on_note`, `on_end`;
            and `keep_message`: whether to accumulate `message`, besides outcome and usage.

    Raises:
        UnknownDialect: There is no such dialect, or it cannot be read.
        TypeError: `source` is no source.
    """
    reader = AsyncReader(source)
    return Stream(TapPump(reader, dialect, observer, **options), reader)
