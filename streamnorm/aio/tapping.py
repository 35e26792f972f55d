"""`tap`: bytes in, the same bytes out, while their events are observed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from streamnorm._core.events import Completed, Event, Failed, StreamError, Truncated
from streamnorm.aio.pump import DecodingPump, Head, ReadOptions
from streamnorm.aio.sources import AsyncReader, AsyncSource
from streamnorm.aio.stream import Stream

__all__ = ["TapPump", "tap"]


class TapOptions(ReadOptions, total=False):
    """What `tap` takes besides the dialect."""

    keep_message: bool


class TapPump(DecodingPump[bytes]):
    """Bytes in, the same bytes out, and their events to an observer."""

    def __init__(
        self,
        head: Head,
        dialect: str | None,
        observer: Callable[[Event], object],
        **options: Unpack[TapOptions],
    ) -> None:
        self._keeps = True  # whether the message is not too large to be kept
        self._observer = observer
        self._begun = False  # whether bytes went out
        super().__init__(head, dialect, **options)

    def feed(self, data: bytes) -> bytes | None:
        if not self._open:
            passed = self._knock(data)
            if passed is None:
                return None
            data = passed
        self._observe(self._decoder.feed(data))
        if not data:
            return None
        self._begun = True
        return data

    def _close(self) -> None:
        self._observe(self._decoder.close())
        match self._decoder.outcome:
            case Failed(error) | Truncated(error) if not self._begun:
                self._fail(error)
            case _:
                pass  # the bytes end as they ended

    def _abort(self, cause: BaseException) -> None:
        self._observe(self._decoder.abort(cause))
        if not isinstance(self._decoder.outcome, Completed):
            # The bytes are cut, whatever was wrong with them before.
            message = f"{type(cause).__name__} after {self._decoder.frames} frames"
            self._fail(StreamError("transport", message))

    def _refuse(self, error: StreamError) -> None:
        self._observe([error])
        super()._refuse(error)

    def _observe(self, events: list[Event]) -> None:
        for event in events:
            self._observer(event)
        if self._keeps and self._accumulator.take(events) is not events:
            self._keeps = False  # which does not concern the bytes


def tap(
    source: AsyncSource,
    observer: Callable[[Event], object],
    *,
    dialect: str | None = None,
    **options: Unpack[TapOptions],
) -> Stream[bytes]:
    """Return the bytes of a response untouched, and show their events to an observer.

    What the events say never changes the bytes; `outcome` tells it.  Raised are only
    what the gate refuses, an empty stream, and a connection that breaks.

    Args:
        source: What `events` takes.  It is closed with the stream.
        observer: Called with each event, before the bytes that complete it go out.  What
            it raises ends the stream.
        dialect: Dialect to read; None to find out from the first frames, at most 16.
        **options: Those of `events`: `server`, `think_tags`, `limits`, `on_note`, `on_end`;
            and `keep_message`: whether to accumulate `message`, besides outcome and usage.

    Raises:
        UnknownDialect: There is no such dialect, or it cannot be read.
        TypeError: `source` is no source.
    """
    reader = AsyncReader(source)
    return Stream(TapPump(reader, dialect, observer, **options), reader)
