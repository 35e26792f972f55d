"""Rows of the fault matrix: upstream misbehaviour, its moments, and the expected result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from streamnorm import Completed, Failed, Truncated
from support.faults.answers import MOMENTS, Answer, Moment
from support.faults.upstream import Step
from support.http.loopback import chunked

__all__ = [
    "CLOSING",
    "GOOGLE",
    "HEAD",
    "LAST",
    "OK",
    "Expected",
    "Fault",
    "Mode",
    "broken",
    "cut",
    "refused",
    "sent",
]

CLOSING = b"connection: close\r\n"
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
)
LAST = b"0\r\n\r\n"
GOOGLE = ("gemini", "gemini_interactions")
"""Dialects whose errors have the codes of Google; none stands for 529."""

Mode: TypeAlias = Literal["patient", "hasty", "refused", "tls"]
"""The gateway: with time or with little of it, before a closed port, or with TLS to none."""


class Expected(NamedTuple):
    """The expected result at a client of the gateway.

    Attributes:
        outcome: Class of the outcome.
        kind: Kind of its error; "" if it has none.
        status: HTTP status of the client; 200 for an answer that has begun.
        fails: Whether the SDK raises an exception.
        own: Whether an SDK of the upstream's own dialect, which gets the upstream's bytes
            unchanged, has the fault to itself: it may read or raise what it likes.
        reads: Whether the SDK reads exactly the answer, if it does not fail.
    """

    outcome: type = Completed
    kind: str = ""
    status: int = 200
    fails: bool = False
    own: bool = False
    reads: bool = True


OK = Expected()


def refused(status: int, kind: str, outcome: type = Failed) -> Expected:
    """Return the expectation of an error response, before an answer has begun."""
    return Expected(outcome, kind, status, fails=True)


def broken(kind: str, outcome: type = Failed, *, own: bool = False) -> Expected:
    """Return the expectation of an error in a stream that has begun."""
    return Expected(outcome, kind, fails=True, own=own)


def cut(moment: Moment, kind: str) -> Expected:
    """Return the expectation for a connection lost at a moment."""
    match moment:
        case "before headers" | "after headers" | "first line":
            return refused(504 if kind == "stalled" else 502, kind, Truncated)
        case "after terminal":
            return OK
        case _:
            return broken(kind, Truncated)


class Fault(NamedTuple):
    """A row of the fault matrix.

    Attributes:
        name: What the upstream does.
        script: What it sends, given its answer and the moment.
        expected: What is expected, given those.
        moments: Moments at which it does.
        mode: The gateway.
        stream: Whether the client asks for a stream.
        dialects: Upstreams that can do that; all if empty.
        upstreams: How many dialects of upstreams do that.
        clients: How many dialects of clients meet it on each upstream.
        is_easy: Whether the sample leaves it out.
    """

    name: str
    script: Callable[[Answer, Moment], Sequence[Step]]
    expected: Callable[[Answer, Moment], Expected]
    moments: tuple[Moment, ...] = MOMENTS
    mode: Mode = "patient"
    stream: bool = True
    dialects: tuple[str, ...] = ()
    upstreams: int = 5
    clients: int = 1
    is_easy: bool = False


def sent(answer: Answer, moment: Moment) -> list[Step]:
    """Return the steps sent up to a moment: the head and chunks."""
    if moment == "before headers":
        return []
    start = answer.start(moment)
    return [HEAD, chunked(start)] if start else [HEAD]


def always(expected: Expected) -> Callable[[Answer, Moment], Expected]:
    """Return a function with the same expectation for every answer and moment."""
    return lambda _answer, _moment: expected


def steps_always(*steps: Step) -> Callable[[Answer, Moment], Sequence[Step]]:
    """Return a function with the same steps for every answer and moment."""
    return lambda _answer, _moment: steps
