"""The record of one request and its answer, for logs, metrics and traces.

A record has no content: no prompt, no answer, no key, no URL; of a path that no endpoint has,
only plain words.  The text of an upstream's error alone is the upstream's own, and may quote the
request; no log of the gateway's has it.
"""

from __future__ import annotations

import re
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from streamnorm._core.events import Abandoned, Completed, Outcome, StreamError, Truncated, Usage
from streamnorm._core.losses import Loss

Ending: TypeAlias = Literal["completed", "refused", "failed", "truncated", "abandoned"]
"""How a request ended: answered; refused by the gateway, before an upstream was asked; failed;
answered in part, without its end; left by its client."""

FailureReason: TypeAlias = Literal[
    "refused", "dns", "tls", "connect", "timeout", "reset", "protocol"
]
"""Why an upstream could not be reached, or its connection broke: it refused the connection; its
name does not resolve; the TLS handshake failed; the connection failed otherwise, as without a
route; it sent nothing in time; it closed the connection in the middle; it sent what is no HTTP."""

# Clients can name any model, with any text.
_MAX_MODEL_CHARS = 128
# A field that a peer made up is lost under its own name, which may hold anything.
_FEATURE = re.compile(r"[A-Za-z_.]{1,64}", re.ASCII)
_OTHER = "other"
# A path that a peer made up may hold a key, which has digits, capitals in a row or no end.
_SEGMENT = re.compile(
    r"(?=.{1,24}\Z)[a-z]+(?:[A-Z][a-z]+|[_.-][a-z]+)*|v[0-9]{1,2}(?:alpha|beta)?", re.ASCII
)
_MAX_SEGMENTS = 8
# The first status of an error.
_ERROR_STATUS = 400


class CallRecord(Struct, kw_only=True):
    """One request.

    Attributes:
        client: The client's dialect.
        operation: Operation that the request asks for.
        model: The model that it named.
        path: Its path, as `plain_path` returns it, if the gateway has no such endpoint; else "".
        upstream: Name of the upstream that answered, or was asked last; "" if none was.
        trace: Its `traceparent` and `tracestate`, if it sent them.
        started_at: When the request arrived, in seconds of the loop's clock.
        first_event_at: When the first piece of the answer was there; None before that.
        ended_at: When the answer ended.
        status: HTTP status that the client got; 0 if it left before.
        outcome: How the answer ended; None if it has no outcome, as a list of models.
        reason: Why an upstream could not be reached, or its connection broke; None if the answer
            is complete, or the upstream itself reported the error.
        partial_usage: The tokens of a stream that did not complete, as far as they are known.
        attempts: Number of requests to upstreams.
        losses: How often each feature was lost; `other` are those that have no plain word for
            a name.
    """

    client: str
    operation: str
    started_at: float
    model: str = ""
    path: str = ""
    upstream: str = ""
    trace: dict[str, str] = {}
    first_event_at: float | None = None
    ended_at: float = 0.0
    status: int = 0
    outcome: Outcome | None = None
    reason: FailureReason | None = None
    partial_usage: Usage = Usage()
    attempts: int = 0
    losses: dict[str, int] = {}

    @property
    def model_name(self) -> str:
        """The model that it named, cut to 128 characters, all of which UTF-8 can encode."""
        return self.model[:_MAX_MODEL_CHARS].encode("utf-8", "replace").decode()

    @property
    def seconds(self) -> float:
        """Seconds from the request to the end of its answer."""
        return self.ended_at - self.started_at

    @property
    def first_event_s(self) -> float | None:
        """Seconds to the first piece of a stream; None if there was none."""
        if self.first_event_at is None or self.operation != "stream":
            return None
        return self.first_event_at - self.started_at

    @property
    def usage(self) -> Usage:
        """The tokens, as far as they are known."""
        return self.outcome.usage if isinstance(self.outcome, Completed) else self.partial_usage

    @property
    def error(self) -> StreamError | None:
        """Why it has no complete answer; None if it has one, or its client left."""
        match self.outcome:
            case None | Completed() | Abandoned():
                return None
            case outcome:
                return outcome.error

    @property
    def ending(self) -> Ending:
        """How it ended."""
        match self.outcome:
            case Completed():
                return "completed"
            case Abandoned():
                return "abandoned"
            case None if not self.status:
                return "abandoned"
            case Truncated() if self.status < _ERROR_STATUS:
                return "truncated"
            case None if self.status < _ERROR_STATUS:
                return "completed"
            case _:
                return "failed" if self.upstream else "refused"


def plain_path(path: str) -> str:
    """Return the path of a request that the gateway refuses, for a log or its client.

    Its first segments are shown, and of those only plain words and versions of an API: `*` stands
    for any other, which may be a key.
    """
    *segments, rest = path.removeprefix("/").split("/", _MAX_SEGMENTS)
    segments.append("..." if len(segments) == _MAX_SEGMENTS else _plain_segment(rest))
    return "/" + "/".join([*map(_plain_segment, segments[:-1]), segments[-1]])


def _plain_segment(segment: str) -> str:
    # Gemini's clients name an operation behind the model.
    name, colon, operation = segment.partition(":")
    parts = (name, operation) if colon else (name,)
    return ":".join(part if _SEGMENT.fullmatch(part) else "*" for part in parts)


def add_loss(call: CallRecord, loss: Loss) -> None:
    """Count a loss in a record."""
    feature = loss.feature if _FEATURE.fullmatch(loss.feature) else _OTHER
    call.losses[feature] = call.losses.get(feature, 0) + loss.count


class Observer(Protocol):
    """An observer of requests, such as a log."""

    def begin(self, call: CallRecord) -> None:
        """Handle the arrival of a request."""
        ...

    def end(self, call: CallRecord) -> None:
        """Handle the end of a request; the record is complete."""
        ...
