"""What is known of one request and its answer: for logs, metrics and traces.

Nothing of it is content: no prompt, no answer, no key, no URL.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from streamnorm._core.events import Outcome

__all__ = ["CallRecord", "Observer"]


class CallRecord(Struct, kw_only=True):
    """One request.

    Attributes:
        client: The client's dialect.
        operation: What it asked for.
        model: The model that it named, if the configuration names it; else "other".
        upstream: Name of the upstream that answered, or was asked last; "" if none was.
        started_at: When the request arrived, in seconds of the loop's clock.
        first_event_at: When the first piece of the answer was there; None before that.
        ended_at: When the answer ended.
        status: HTTP status that the client got; 0 if it left before.
        outcome: How the answer ended; None if it has no outcome, as a list of models.
        attempts: Number of requests to upstreams.
        losses: How often each feature was lost.
    """

    client: str
    operation: str
    started_at: float
    model: str = ""
    upstream: str = ""
    first_event_at: float | None = None
    ended_at: float = 0.0
    status: int = 0
    outcome: Outcome | None = None
    attempts: int = 0
    losses: dict[str, int] = {}


class Observer(Protocol):
    """Somebody who is told of each request."""

    def begin(self, call: CallRecord) -> None:
        """Note that a request has arrived."""
        ...

    def end(self, call: CallRecord) -> None:
        """Note how it ended."""
        ...
