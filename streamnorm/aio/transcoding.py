"""`transcode` and `iter_transcode`: bytes of one dialect in, bytes of another out."""

from __future__ import annotations

from typing import Unpack

from streamnorm._core.context_overflow import context_overflow
from streamnorm._core.events import Failed, StreamError, Truncated, Usage
from streamnorm._core.failures import find_error
from streamnorm._core.json import object_in
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss
from streamnorm._core.messages import Message
from streamnorm._registry import encoder, framing_of
from streamnorm._transcoder import TranscodeOptions, Transcoder
from streamnorm._upstream.passthrough import PassthroughStream
from streamnorm.aio.pump import Head, OnEnd, Pump
from streamnorm.aio.sources import AsyncReader, AsyncSource, Reader, Source
from streamnorm.aio.stream import Stream, SyncStream


class TranscodePump(Pump[bytes]):
    """The pump of `transcode` and `iter_transcode`."""

    def __init__(
        self,
        head: Head,
        dialect: str | None,
        to: str,
        *,
        on_end: OnEnd | None,
        **options: Unpack[TranscodeOptions],
    ) -> None:
        self._transcoder = Transcoder(dialect, to, **options)
        self.media_type = framing_of(to, options.get("to_framing")).media_type
        limits = options.get("limits", Limits())
        self._to = to
        self._bytes_sent = False
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

    @property
    def waiting_bytes(self) -> int:
        """Bytes that the next read may have to decode; see `Transcoder.waiting_bytes`."""
        return self._transcoder.waiting_bytes

    @property
    def has_blocks(self) -> bool:
        """Whether a block of the message has begun."""
        return self._transcoder.has_blocks

    def ping(self) -> bytes:
        return self._transcoder.ping()

    def error_body(self, error: StreamError) -> bytes:
        # If the stream would pass unchanged, so does the error body in its place.
        passed = self._gate.refusal if self._gate and self._transcoder.untouched else None
        written = encoder(self._to).error_body(error)
        return written if passed is None or _is_reworded(error, written) else passed

    def feed(self, data: bytes) -> bytes | None:
        if not self._open:
            passed = self._gate_feed(data)
            if passed is None:
                return None
            data = passed
        pieces = self._transcoder.feed(data)
        if self._transcoder.outcome is not None:
            self._finish(pieces)
        elif pieces:
            self._bytes_sent = True
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
                not self._bytes_sent and self._transcoder.is_empty
            ):
                # No header was sent yet: the client can still get an HTTP status.
                self._fail(error)
            case _:
                self.pending = [b"".join(pieces)] if pieces else []


def _is_reworded(error: StreamError, written: bytes) -> bool:
    """Return whether the error for a full context must replace the server's own error.

    Clients act on the words of their vendor, which a compatible server may not have.
    """
    if context_overflow(error) is None:
        return False
    reported = find_error(object_in(written.decode()))
    return reported is None or (reported.code, reported.message) != (error.code, error.message)


def transcode(
    source: AsyncSource,
    *,
    to: str,
    dialect: str | None = None,
    on_end: OnEnd | None = None,
    **options: Unpack[TranscodeOptions],
) -> Stream[bytes]:
    """Return a response in the bytes of another dialect.

    A chunk in gives at most one chunk out.  A failure before the first chunk is raised by
    the first read, so that the client can still get an HTTP status.  A later failure is
    written as an error of the client's dialect, which ends the stream; `outcome` has it.

    Args:
        source: A source, as for `events`.  It is closed with the stream.
        to: Dialect to write.  If it equals the dialect that is read, the bytes pass
            unchanged, unless `verbatim=False` or another option changes them.
        dialect: Dialect to read; None detects it from the first frames, at most 16.
        on_end: Called with the outcome, once, on every path.
        options: Those of `Transcoder`: `ordering`, `verbatim`, `strict`, `limits`, `on_loss`,
            `on_note`, `server`, `think_tags`, `model`, `include_usage`, `reasoning`,
            `keep_message`, `reply`.

    Raises:
        UnknownDialect: A dialect does not exist, cannot be read or cannot be written.
        TypeError: `source` is no source.
    """
    reader = AsyncReader(source)
    return Stream(TranscodePump(reader, dialect, to, on_end=on_end, **options), reader)


def iter_transcode(
    source: Source,
    *,
    to: str,
    dialect: str | None = None,
    on_end: OnEnd | None = None,
    **options: Unpack[TranscodeOptions],
) -> SyncStream[bytes]:
    """Return a synchronous source in the bytes of another dialect; the twin of `transcode`.

    Args:
        source: A source, as for `iter_events`.  It is closed with the stream.
        to: Dialect to write.
        dialect: As for `transcode`, like all that follow.
        on_end: Called with the outcome.
        options: Those of `Transcoder`.

    Raises:
        UnknownDialect: A dialect does not exist, cannot be read or cannot be written.
        TypeError: `source` is no source.
    """
    reader = Reader(source)
    return SyncStream(TranscodePump(reader, dialect, to, on_end=on_end, **options), reader)


class PassthroughPump(TranscodePump):
    """Pump of a stream that a `PassthroughStream` passes on.

    Args:
        head: Status and content type.
        dialect: Dialect of the stream and of its client.
        on_end: Called with the outcome.
    """

    def __init__(self, head: Head, dialect: str, *, on_end: OnEnd | None = None) -> None:
        super().__init__(head, dialect, dialect, on_end=on_end, keep_message=False)
        self._core = self._transcoder = PassthroughStream(dialect, limits=Limits())
