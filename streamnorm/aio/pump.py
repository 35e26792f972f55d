"""What stands between a source and its consumer, without I/O.

`Stream` and `SyncStream` read, hand out and close, and nothing else; what waits, how
it ended and what to raise is known here.  Each kind of stream has its pump.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, Literal, Protocol, TypeAlias, TypedDict, TypeVar, Unpack

import msgspec

from streamnorm._core.accumulate import Accumulator, UsageAccumulator
from streamnorm._core.codec import Decoder
from streamnorm._core.errors import LimitExceeded, LocalProtocolError, StreamnormError
from streamnorm._core.events import Abandoned, Outcome, StreamError, Usage
from streamnorm._core.failures import error_outcome
from streamnorm._core.gate import Gate
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss, Note, OnNote
from streamnorm._core.messages import Message
from streamnorm._registry import decoder
from streamnorm._transcoder import Transcoder
from streamnorm.aio.raising import as_exception

__all__ = ["DecodingPump", "Errors", "Head", "OnEnd", "Pump", "ReadOptions"]

T = TypeVar("T")

Errors: TypeAlias = Literal["raise", "yield"]
"""What becomes of a `StreamError`: raised as its exception, or the last event."""

OnEnd: TypeAlias = Callable[[Outcome], None]


class DecodeOptions(TypedDict, total=False):
    """What `decoder` takes besides the dialect."""

    server: str | None
    think_tags: bool
    limits: Limits
    on_note: OnNote | None


class ReadOptions(DecodeOptions, total=False):
    """What `events` and `tap` take besides the dialect."""

    on_end: OnEnd | None


class Head(Protocol):
    """What a reader knows of the response it reads; None where there is none.

    Asked when the first bytes are there, so that it may be found out by reading.
    """

    status: int | None
    content_type: str | None


class Pump(ABC, Generic[T]):
    """Know everything about one stream but how to read it.

    The reader calls `feed` with each piece, and `close` or `abort` at the end of the
    source; it hands out `pending` from its end, stops when `ended`, then raises
    `failure` if there is one.  `leave` is for a consumer that wants no more; `settle`
    comes last, on every path.

    Attributes:
        pending: What waits for the consumer, the next one last.
        ended: Whether nothing more is to be read.
        exhausted: Whether the source has ended or failed.
        failure: What to raise once `pending` is empty.
        cause: The source's exception, if it failed.
        settled: Whether the outcome was announced.
    """

    settled = True  # there is nothing to announce before there is a pump

    def __init__(
        self,
        head: Head,
        core: Decoder | Transcoder,
        *,
        dialect: str | None,
        limits: Limits,
        on_end: OnEnd | None,
    ) -> None:
        self.pending: list[T] = []
        self.ended = False
        self.exhausted = False
        self.failure: StreamnormError | None = None
        self.cause: Exception | None = None
        self._head = head
        self._core = core
        self._dialect = dialect
        self._limits = limits
        self._on_end = on_end
        self._gate: Gate | None = None
        self._open = False  # whether the gate is
        self._refusal: StreamError | None = None  # what ended it where the core did not
        self._abandoned = False
        self.settled = False

    def __del__(self) -> None:
        # Who breaks out of a loop and drops the stream has left it, too.
        self.leave()
        self.settle()

    @abstractmethod
    def feed(self, data: bytes) -> T | None:
        """Take the next bytes; while the gate is not open, they are for `_knock`.

        Returns:
            What they give, if that is one item and not the last; all else is `pending`.
        """

    def close(self) -> None:
        """Take the end of the source."""
        self.ended = self.exhausted = True
        gate = self._gate or self._judge()
        gate.close()
        if gate.error is None:
            self._close()
        else:
            self._refuse(gate.error)

    def abort(self, cause: Exception) -> None:
        """Take the failure of the source."""
        self.ended = self.exhausted = True
        self.cause = cause
        gate = self._gate or self._judge()
        gate.abort()
        if gate.error is None:
            self._abort(_plain(cause))
        else:
            self._refuse(gate.error)

    def leave(self) -> None:
        """Take it that the consumer wants no more."""
        if not self.settled and self.outcome is None:
            self._abandoned = True
        self.pending = []

    def settle(self) -> None:
        """Announce the outcome, once."""
        if not self.settled:
            self.settled = True
            if self._on_end is not None:
                self._on_end(self.outcome or Abandoned())

    @property
    def outcome(self) -> Outcome | None:
        """How the stream ended; None before its last item was handed out."""
        if self._abandoned:
            return Abandoned()
        if self.pending:
            return None
        return self._core.outcome if self._refusal is None else error_outcome(self._refusal)

    @property
    def dialect(self) -> str | None:
        """The dialect that is read, once it is known."""
        return self._core.dialect or None

    @property
    def notes(self) -> tuple[Note, ...]:
        """What the decoder forgave."""
        return self._core.notes

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What the target could not carry."""
        return ()

    @property
    @abstractmethod
    def message(self) -> Message:
        """What has arrived so far."""

    @property
    @abstractmethod
    def usage(self) -> Usage:
        """The last snapshot of the tokens."""

    def ping(self) -> bytes:
        """Return a sign of life for the client, where there is a form for it."""
        return b""

    def error_body(self, error: StreamError) -> bytes:
        """Return the body of a response that fails before its stream begins."""
        # Without a client's dialect, the form that most of them understand.
        told = {"message": error.message, "type": error.kind, "code": error.code}
        return msgspec.json.encode({"error": told})

    @abstractmethod
    def _close(self) -> None:
        """Take the end of a source that the gate let through."""

    @abstractmethod
    def _abort(self, cause: BaseException) -> None:
        """Take the failure of a source that the gate let through."""

    def _refuse(self, error: StreamError) -> None:
        """Take it that the gate stays closed."""
        self._refusal = error
        self._fail(error)

    def _knock(self, data: object) -> bytes | None:
        """Return the bytes that go on, or None while the gate is not open."""
        if not isinstance(data, bytes):
            raise TypeError(f"source gives {type(data).__name__}, expected bytes")
        gate = self._gate or self._judge()
        passed = gate.feed(data)
        self._open = gate.open
        if gate.error is not None:
            self.ended = True
            self._refuse(gate.error)
        return passed if gate.open else None

    def _judge(self) -> Gate:
        dialect, limits = self._dialect, self._limits
        self._gate = Gate(
            self._head.status,
            self._head.content_type,
            body_error=lambda body: decoder(dialect, limits=limits).body_error(body),
            opening=lambda start: decoder(dialect, limits=limits).opening(start),
            limits=limits,
        )
        return self._gate

    def _fail(self, error: StreamError) -> None:
        self.failure = as_exception(
            error,
            status=self._head.status,
            dialect=self.dialect,
            frames=self._core.frames,
            partial=self._partial(),
        )

    def _partial(self) -> Message | None:
        """Return what has arrived, if it is kept and no more than may be."""
        try:
            return self.message
        except (LimitExceeded, LocalProtocolError):
            return None


class DecodingPump(Pump[T]):
    """A pump that decodes, and keeps the message."""

    def __init__(
        self,
        head: Head,
        dialect: str | None,
        *,
        on_end: OnEnd | None = None,
        keep_message: bool = True,
        **options: Unpack[DecodeOptions],
    ) -> None:
        limits = options.get("limits", Limits())
        self._decoder = decoder(dialect, **options)
        self._accumulator = Accumulator(limits=limits) if keep_message else UsageAccumulator()
        super().__init__(head, self._decoder, dialect=dialect, limits=limits, on_end=on_end)

    @property
    def message(self) -> Message:
        """What has arrived so far."""
        return self._accumulator.message()

    @property
    def usage(self) -> Usage:
        """The last snapshot of the tokens."""
        return self._accumulator.usage


def _plain(cause: Exception) -> BaseException:
    """Return a failure by a name that the core knows.

    Timeouts of httpx and httpx2 are no `TimeoutError`, nor always caused by one; a silent
    peer is told apart from a broken line all the same.
    """
    names = {base.__name__ for base in type(cause).__mro__}
    return TimeoutError() if "TimeoutException" in names else cause
