"""One exchange of a transcoding transport: what it lost, and how it ended."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from streamnorm._core.events import Abandoned, Outcome, StreamError, Truncated
from streamnorm._core.failures import broken_connection, error_outcome
from streamnorm._core.losses import Loss, OnLoss
from streamnorm._upstream.passing import PassedAnswer
from streamnorm.aio import Stream, SyncStream


class Exchange:
    """A request and its answer, and how it ended if an exception leaves the `with` block."""

    def __init__(self) -> None:
        self.stream: Stream[bytes] | SyncStream[bytes] | None = None
        self._losses: tuple[Loss, ...] = ()
        self._outcome: Outcome | None = None

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses so far."""
        return self._losses if self.stream is None else self._losses + self.stream.losses

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; None before that."""
        return self._outcome if self.stream is None else self.stream.outcome

    def add_losses(self, losses: tuple[Loss, ...], on_loss: OnLoss | None) -> None:
        """Add losses, and report each."""
        self._losses += losses
        if on_loss is not None:
            for loss in losses:
                on_loss(loss)

    def end(self, outcome: Outcome) -> None:
        """Set the outcome."""
        self._outcome = outcome

    def end_beside(self, answer: object) -> None:
        """Set the outcome of a request for no message, if it failed; else it has none."""
        error = answer.error if isinstance(answer, PassedAnswer) else answer
        if isinstance(error, StreamError):
            self.end(error_outcome(error))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(exc, Exception):
            self.end(Truncated(broken_connection(exc, 0)))
        elif exc is not None:
            self.end(Abandoned())
