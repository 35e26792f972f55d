"""`transcode` and `iter_transcode`: bytes of one dialect in, bytes of another out."""

from __future__ import annotations

from streamnorm._registry import encoder
from streamnorm.aio.pump import Head, OnEnd, Pump
from streamnorm.aio.sources import AsyncReader, AsyncSource, Reader, Source
from streamnorm.aio.stream import Stream, SyncStream
from streamnorm.events import Failed, StreamError, Truncated, Usage
from streamnorm.limits import Limits
from streamnorm.losses import Loss, OnLoss, OnNote
from streamnorm.messages import Message
from streamnorm.transcode import Ordering, Transcoder

__all__ = ["TranscodePump", "iter_transcode", "transcode"]


class TranscodePump(Pump[bytes]):
    """Bytes of one dialect in, bytes of another out."""

    def __init__(
        self,
        head: Head,
        dialect: str | None,
        to: str,
        *,
        ordering: Ordering,
        strict: bool,
        limits: Limits,
        server: str | None,
        think_tags: bool,
        model: str | None,
        on_loss: OnLoss | None,
        on_note: OnNote | None,
        on_end: OnEnd | None,
    ) -> None:
        self._transcoder = Transcoder(
            dialect,
            to,
            ordering=ordering,
            strict=strict,
            limits=limits,
            on_loss=on_loss,
            on_note=on_note,
            server=server,
            think_tags=think_tags,
            model=model,
        )
        self._to = to
        self._begun = False  # whether bytes went out
        super().__init__(head, self._transcoder, dialect=dialect, limits=limits, on_end=on_end)

    @property
    def losses(self) -> tuple[Loss, ...]:
        return self._transcoder.losses

    @property
    def message(self) -> Message:
        return self._transcoder.message

    @property
    def usage(self) -> Usage:
        return self._transcoder.usage

    def ping(self) -> bytes:
        return self._transcoder.ping()

    def error_body(self, error: StreamError) -> bytes:
        return encoder(self._to).error_body(error)

    def feed(self, data: bytes) -> bytes | None:
        if not self._open:
            passed = self._knock(data)
            if passed is None:
                return None
            data = passed
        pieces = self._transcoder.feed(data)
        if self._transcoder.outcome is not None:
            self._finish(pieces)
        elif pieces:
            self._begun = True
            return pieces[0]
        return None

    def _close(self) -> None:
        self._finish(self._transcoder.close())

    def _abort(self, cause: BaseException) -> None:
        self._finish(self._transcoder.abort(cause))

    def _finish(self, pieces: list[bytes]) -> None:
        self.ended = True
        match self._transcoder.outcome:
            case Failed(error) | Truncated(error) if (
                not self._begun and self._partial() == Message()
            ):
                # No header went out yet: the client can still get an HTTP status.
                self._fail(error)
            case _:
                self.pending = [b"".join(pieces)] if pieces else []


def transcode(
    source: AsyncSource,
    *,
    to: str,
    dialect: str | None = None,
    ordering: Ordering = "sequential",
    strict: bool = False,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    server: str | None = None,
    think_tags: bool = False,
    model: str | None = None,
    on_loss: OnLoss | None = None,
    on_note: OnNote | None = None,
    on_end: OnEnd | None = None,
) -> Stream[bytes]:
    """Return a response in the bytes of another dialect.

    A chunk in gives at most one chunk out.  What goes wrong before the first of them is
    raised by the first read, so that the client can still get an HTTP status; what goes
    wrong later is written as an error of the client's dialect, which ends the stream
    (`outcome` tells).

    Args:
        source: What `events` takes.  It is closed with the stream.
        to: Dialect to write.
        dialect: Dialect to read; None to find out from the first frames, at most 16.
        ordering: `sequential` writes one block at a time, as most clients need;
            `interleaved` writes blocks as they come, for clients known to cope.
        strict: Whether to raise `LossyEncoding` at the first loss.
        limits: Bounds.
        server: Who sends, where that decides between two readings.
        think_tags: Read `<think>…</think>` at the start of an answer as reasoning.
        model: Model to name in place of the one that answered.
        on_loss: Called with each loss as it happens.
        on_note: Called with each note as it happens.
        on_end: Called with the outcome, once, on every path.

    Raises:
        UnknownDialect: A dialect does not exist, or does not do its part.
        TypeError: `source` is no source.
    """
    reader = AsyncReader(source)
    pump = TranscodePump(
        reader,
        dialect,
        to,
        ordering=ordering,
        strict=strict,
        limits=limits,
        server=server,
        think_tags=think_tags,
        model=model,
        on_loss=on_loss,
        on_note=on_note,
        on_end=on_end,
    )
    return Stream(pump, reader)


def iter_transcode(
    source: Source,
    *,
    to: str,
    dialect: str | None = None,
    ordering: Ordering = "sequential",
    strict: bool = False,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    server: str | None = None,
    think_tags: bool = False,
    model: str | None = None,
    on_loss: OnLoss | None = None,
    on_note: OnNote | None = None,
    on_end: OnEnd | None = None,
) -> SyncStream[bytes]:
    """Return a synchronous source in the bytes of another dialect; the twin of `transcode`.

    Args:
        source: What `iter_events` takes.  It is closed with the stream.
        to: Dialect to write.
        dialect: As for `transcode`, like all that follow.
        ordering: `sequential` or `interleaved`.
        strict: Whether to raise `LossyEncoding`.
        limits: Bounds.
        server: Who sends.
        think_tags: Read `<think>…</think>` as reasoning.
        model: Model to name.
        on_loss: Called with each loss.
        on_note: Called with each note.
        on_end: Called with the outcome.

    Raises:
        UnknownDialect: A dialect does not exist, or does not do its part.
        TypeError: `source` is no source.
    """
    reader = Reader(source)
    pump = TranscodePump(
        reader,
        dialect,
        to,
        ordering=ordering,
        strict=strict,
        limits=limits,
        server=server,
        think_tags=think_tags,
        model=model,
        on_loss=on_loss,
        on_note=on_note,
        on_end=on_end,
    )
    return SyncStream(pump, reader)
