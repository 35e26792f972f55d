"""State machine of a stream between source and consumer, without I/O.

`Stream` and `SyncStream` only read, return items and close.  The pump holds the pending
items, the outcome and the exception to raise.  Each kind of stream has its pump.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from math import isfinite
from time import time
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar, Unpack
from uuid import uuid4

import msgspec
from msgspec import structs

from streamnorm._core.codec import DecodeOptions
from streamnorm._core.codec.framing import Framing
from streamnorm._core.context_overflow import context_overflow
from streamnorm._core.errors import (
    LimitExceeded,
    LocalProtocolError,
)
from streamnorm._core.events import Abandoned, Failed, Outcome, StreamError, Truncated, Usage
from streamnorm._core.failures import as_exception, error_outcome, find_error
from streamnorm._core.gate import Gate
from streamnorm._core.json import object_in
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss, Note
from streamnorm._core.messages import Accumulator, Message, UsageAccumulator
from streamnorm._core.source_failures import broken_connection
from streamnorm._registry import decoder, encoder, framing_of, stated_framing
from streamnorm._transcoder import TranscodeOptions, Transcoder
from streamnorm._upstream.passthrough import PassthroughStream
from streamnorm.http.headers import request_id_in, retry_after_in

T = TypeVar("T")

Errors: TypeAlias = Literal["raise", "yield"]
"""How a `StreamError` is reported: raised as its exception, or yielded as the last event."""

OnEnd: TypeAlias = Callable[[Outcome], None]
"""Called once with the outcome of a stream."""


class DecoderKeywords(DecodeOptions, total=False):
    """Keyword arguments of `decoder`, including options of single dialects."""

    think_tags: bool


class ReadOptions(DecoderKeywords, total=False):
    """Options that `events` and `tap` share."""

    on_end: OnEnd | None


class Head(Protocol):
    """Status and headers of the response; None where unknown, or if the source is no response.

    Read once the first bytes have arrived: a reader may learn them by its first read.
    """

    status: int | None
    content_type: str | None
    error_type: str | None

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the response; empty if there is none."""
        ...


class Core(Protocol):
    """A decoder, transcoder or agent run: the consumer of the stream's bytes."""

    @property
    def outcome(self) -> Outcome | None:
        """How the stream ended; None until its end."""
        ...

    @property
    def dialect(self) -> str:
        """Name of the dialect that is read; "" until it is detected."""
        ...

    @property
    def frames(self) -> int:
        """Number of frames read."""
        ...

    @property
    def progress(self) -> int:
        """Number of frames with events, plus one at the end of the message."""
        ...

    @property
    def lacks_only_terminal(self) -> bool:
        """Whether the message lacks only its terminal event."""
        ...

    @property
    def notes(self) -> tuple[Note, ...]:
        """Accepted deviations from the protocol."""
        ...


class Pump(ABC, Generic[T]):
    """The state machine of one stream.

    The stream calls `feed` with each chunk, and `close` or `abort` at the end of the
    source.  It returns `pending` items from the end of the list, stops reading when
    `ended`, then raises `failure` if there is one.  It calls `abandon` if the consumer
    stops early, and `settle` last, on every path.

    Attributes:
        pending: Items for the consumer in reverse order: `pending.pop()` is the next.
        ended: Whether to stop reading.
        exhausted: Whether the source has ended or failed.
        failure: Exception to raise once `pending` is empty.
        cause: Cause of that exception: the source's, if it failed.
        settled: Whether `on_end` was called.
        is_failure_written: Whether the items report `failure` to the client.
        framing: Framing of the bytes that are returned, or that are read if none are.
    """

    framing: Framing
    settled = True  # for `__del__`, if `__init__` raises

    def __init__(
        self,
        head: Head,
        core: Core,
        *,
        dialect: str | None,
        limits: Limits,
        on_end: OnEnd | None,
    ) -> None:
        self.pending: list[T] = []
        self.ended = False
        self.exhausted = False
        self.failure: Exception | None = None
        self.cause: Exception | None = None
        self.is_failure_written = False
        self._head = head
        self._core = core
        self._dialect = dialect
        self._limits = limits
        self._on_end = on_end
        self._gate: Gate | None = None
        self._open = False  # whether the gate is open
        self._refusal: StreamError | None = None  # an error that the core does not know of
        self._outcome: Outcome | None = None  # of the core, once it has ended
        self._abandoned = False
        self.settled = False

    def __del__(self) -> None:
        # A consumer that breaks out of its loop and drops the stream has abandoned it.
        self.abandon()
        self.settle()

    @abstractmethod
    def feed(self, data: bytes) -> T | None:
        """Process the next chunk, through `_gate_feed` until the gate is open.

        Returns:
            The item, if the chunk gives exactly one and it is not the last; otherwise
            None, with the items in `pending`.
        """

    def close(self) -> None:
        """Process the end of the source."""
        self.ended = self.exhausted = True
        gate = self._gate or self._make_gate()
        gate.close()
        if gate.error is None:
            self._close()
        else:
            self._refuse(self._with_retry_after(gate.error))

    def abort(self, cause: Exception) -> None:
        """Process a failure of the source."""
        self.ended = self.exhausted = True
        self.cause = cause
        gate = self._gate or self._make_gate()
        failure = broken_connection(cause, 0)
        # An error status is more exact than the lost connection.
        gate.abort(failure.message if failure.kind == "malformed" else "")
        if gate.error is None:
            self._abort(cause)
        else:
            self._refuse(self._with_retry_after(gate.error))

    def abandon(self) -> None:
        """Discard pending items; set the outcome to `Abandoned` if the stream has no outcome."""
        if not self.settled and self.outcome is None:
            self._abandoned = True
        self.pending = []

    def settle(self) -> None:
        """Call `on_end` with the outcome, once."""
        if not self.settled:
            self.settled = True
            if self._on_end is not None:
                # On every path, cancellation included: an answer that nobody counts is still
                # billed.
                self._on_end(self.outcome or Abandoned())

    @property
    def outcome(self) -> Outcome | None:
        """How the stream ended; None until its last item is returned."""
        if self._abandoned:
            return Abandoned()
        # The consumer has not received the end that the decoder has read.
        if self.pending:
            return None
        if self._refusal is not None:
            return error_outcome(self._refusal)
        outcome = self._outcome
        if outcome is None:
            outcome = self._core.outcome
            if self.ended:
                self._outcome = outcome
        return outcome

    @property
    def dialect(self) -> str | None:
        """Name of the dialect that is read; None until it is detected."""
        return self._core.dialect or None

    @property
    def progress(self) -> int:
        """Number of frames with events, plus one at the end of the message."""
        return self._core.progress

    @property
    def lacks_only_terminal(self) -> bool:
        """Whether the message lacks only its terminal event, which some servers never send."""
        return self._core.lacks_only_terminal

    @property
    def notes(self) -> tuple[Note, ...]:
        """Deviations from the protocol that the decoder accepted."""
        return self._core.notes

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Losses in the target dialect."""
        return ()

    @property
    @abstractmethod
    def message(self) -> Message:
        """The message accumulated so far."""

    @property
    @abstractmethod
    def usage(self) -> Usage:
        """The last usage snapshot."""

    @property
    def response_headers(self) -> Mapping[str, str]:
        """Response headers that clients of the written dialect expect."""
        return self.framing.headers

    @property
    def error_media_type(self) -> str:
        """The `content-type` of `error_body`."""
        return "application/json"

    def ping(self) -> bytes:
        """Return a ping in the client's dialect; b"" if no dialect is written."""
        return b""

    def error_body(self, error: StreamError) -> bytes:
        """Return the body of the error response for a stream that never begins."""
        # The client's dialect is unknown; most clients read this form.
        fields = {"message": error.message, "type": error.kind, "code": error.code}
        return msgspec.json.encode({"error": fields})

    @abstractmethod
    def _close(self) -> None:
        """Process the end of a source after the gate has opened."""

    @abstractmethod
    def _abort(self, cause: Exception) -> None:
        """Process a failure of a source after the gate has opened."""

    def _refuse(self, error: StreamError) -> None:
        """End the stream with the error of the gate."""
        self._refusal = error
        self._fail(error)

    def _with_retry_after(self, error: StreamError) -> StreamError:
        """Return the provider's error with the time that the headers of its response name.

        OpenAI and Anthropic name it nowhere else.
        """
        seconds = retry_after_in(self._head.headers, time())
        # Whoever sleeps for `Retry-After: inf` never asks again.
        if seconds is None or not isfinite(seconds) or error.kind != "upstream":
            return error
        return structs.replace(error, retry_after=seconds)

    def _gate_feed(self, data: object) -> bytes | None:
        """Feed the gate; return the bytes that pass, or None while the gate is closed."""
        if not isinstance(data, bytes):
            raise TypeError(f"source gives {type(data).__name__}, expected bytes")
        gate = self._gate or self._make_gate()
        passed = gate.feed(data)
        self._open = gate.open
        if gate.error is not None:
            self.ended = True
            self._refuse(self._with_retry_after(gate.error))
        return passed if gate.open else None

    def _read_head(self, head: Head) -> None:
        """Read the response's status and headers, before its first byte."""

    def _make_gate(self) -> Gate:
        self._read_head(self._head)
        dialect, limits = self._dialect, self._limits
        self._gate = Gate(
            self._head.status,
            self._head.content_type,
            judge_body=lambda body: decoder(dialect, limits=limits).judge_body(body),
            sniffer=lambda start: decoder(dialect, limits=limits).sniffer(start),
            limits=limits,
            error_type=self._head.error_type,
        )
        return self._gate

    def _fail(self, error: StreamError) -> None:
        self.failure = as_exception(
            error,
            status=self._head.status,
            dialect=self.dialect,
            frames=self._core.frames,
            # What the user has read already belongs to the error.
            partial=self._partial(),
        )

    def _partial(self) -> Message | None:
        """Return the message so far; None if it is too large or not accumulated."""
        try:
            return self.message
        except (LimitExceeded, LocalProtocolError):
            return None


class DecodingPump(Pump[T]):
    """A pump that decodes and accumulates the message."""

    def __init__(
        self,
        head: Head,
        dialect: str | None,
        *,
        on_end: OnEnd | None = None,
        keep_message: bool = True,
        **options: Unpack[DecoderKeywords],
    ) -> None:
        limits = options.get("limits", Limits())
        self.framing = framing_of(dialect, options.get("framing"))
        self._options = options
        self._decoder = decoder(dialect, **options)
        self._accumulator = Accumulator(limits=limits) if keep_message else UsageAccumulator()
        super().__init__(head, self._decoder, dialect=dialect, limits=limits, on_end=on_end)

    def _read_head(self, head: Head) -> None:
        if self._dialect is None and self._options.get("framing") is None:
            framing = stated_framing(head.content_type, head.headers)
            if framing is not None:
                options: DecoderKeywords = {**self._options, "framing": framing}
                self.framing = framing
                self._core = self._decoder = decoder(**options)
        self._decoder.response_id = request_id_in(head.headers)

    @property
    def message(self) -> Message:
        """The message accumulated so far."""
        return self._accumulator.message()

    @property
    def usage(self) -> Usage:
        """The last usage snapshot."""
        return self._accumulator.usage


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
        self._options = options
        self._transcoder = self._make_transcoder(dialect, to, options)
        self.framing = self._transcoder.to_framing
        limits = options.get("limits", Limits())
        self._to = to
        self._bytes_sent = False
        super().__init__(head, self._transcoder, dialect=dialect, limits=limits, on_end=on_end)

    def _make_transcoder(
        self, dialect: str | None, to: str, options: TranscodeOptions
    ) -> Transcoder:
        transcoder = Transcoder(dialect, to, **options)
        transcoder.set_minted_id(uuid4().hex)
        return transcoder

    def _read_head(self, head: Head) -> None:
        if self._dialect is None and self._options.get("framing") is None:
            framing = stated_framing(head.content_type, head.headers)
            if framing is not None:
                options: TranscodeOptions = {**self._options, "framing": framing}
                self._core = self._transcoder = self._make_transcoder(None, self._to, options)
        self._transcoder.set_response_id(request_id_in(head.headers))

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
        """Number of stored bytes that the next read may process; see `Transcoder`."""
        return self._transcoder.waiting_bytes

    @property
    def has_blocks(self) -> bool:
        """Whether a block of the message has begun."""
        return self._transcoder.has_blocks

    @property
    def response_headers(self) -> Mapping[str, str]:
        return {**self.framing.headers, **encoder(self._to).response_headers}

    @property
    def error_media_type(self) -> str:
        return encoder(self._to).error_media_type

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


class PassthroughPump(TranscodePump):
    """The pump of a `PassthroughStream`.

    Args:
        head: Status and content type.
        dialect: Dialect of the stream and of its client.
        on_end: Called with the outcome.
    """

    def __init__(self, head: Head, dialect: str, *, on_end: OnEnd | None = None) -> None:
        super().__init__(head, dialect, dialect, on_end=on_end, keep_message=False)
        self._core = self._transcoder = PassthroughStream(dialect, limits=Limits())


def _is_reworded(error: StreamError, written: bytes) -> bool:
    """Return whether a context overflow error must replace the server's own wording.

    Clients act on the words of their vendor, which a compatible server may not have.
    """
    if context_overflow(error) is None:
        return False
    reported = find_error(object_in(written.decode()))
    return reported is None or (reported.code, reported.message) != (error.code, error.message)


class LargeEventPump(TranscodePump):
    """A pump that can decode a chunk before the stream feeds it."""

    _is_fed = False  # ahead of the stream
    _fed: bytes | None = None  # bytes for the client
    _fault: Exception | None = None  # of the decoding ahead
    _is_closed = False  # ahead of the stream

    def feed(self, data: bytes) -> bytes | None:
        """Process the next chunk, unless that was done ahead; return the client's bytes."""
        if not self._is_fed:
            return super().feed(data)
        if self._fault is not None:
            raise self._fault
        fed, self._is_fed, self._fed = self._fed, False, None
        return fed

    @property
    def is_fed(self) -> bool:
        """Whether the next chunk was processed ahead of `feed`."""
        return self._is_fed

    def feed_ahead(self, data: bytes) -> None:
        """Process the next chunk ahead of `feed`, which then only returns the written bytes."""
        self._fed = super().feed(data)
        self._is_fed = True

    def pass_on(self, data: bytes, write: Callable[[bytes], bool]) -> bool:
        """Process the next chunk ahead of `feed`, and write the bytes for the client.

        Args:
            data: The chunk.
            write: Returns whether it has written the bytes.

        Returns:
            Whether nothing is left for the stream; if something is, `feed` has to be called.
        """
        if self.ended:
            return False
        try:
            written = super().feed(data)
            if not self.ended and (written is None or write(written)):
                return True
            self._fed = written
        except Exception as exc:  # noqa: BLE001 - `feed` raises it
            self._fault = exc
        self._is_fed = True
        return False

    def close(self) -> None:
        """Process the end of the source, unless `close_ahead` did."""
        if not self._is_closed:
            self.close_ahead()

    def close_ahead(self) -> None:
        """Process the end of the source ahead of `close`, which then does nothing."""
        self._is_closed = True
        super().close()
