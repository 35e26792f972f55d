"""The contracts of strict validation: checkers of streams, and checks of requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar, TypeAlias

from msgspec import Struct

from streamnorm.sse import Frame

# A frame may be wrong a million times: one of a peer's making must not fill the memory.
MAX_PROBLEMS = 1000
"""Bound on the problems reported of one stream."""


class Checker(ABC):
    """Strict validator of one stream.

    Independent of the decoders: it accepts what the vendor documents and its clients need,
    not what decoders forgive.  A problem says what was found, then what was expected, with
    types, sizes and indexes, never text of the payload.  A mistake is reported once.
    """

    rejects_id_and_retry: ClassVar[bool] = False
    """Whether the dialect's clients break on `id` and `retry` lines."""

    rejects_comments: ClassVar[bool] = False
    """Whether its clients break on comments, and on `data:` without a space."""

    rejects_carriage_returns: ClassVar[bool] = False
    """Whether its clients end lines at line feeds alone."""

    def check(self, frame: Frame) -> list[str]:
        """Return the problems of the next frame, at most `MAX_PROBLEMS`."""
        return list(islice(self.read(frame), MAX_PROBLEMS))

    @abstractmethod
    def read(self, frame: Frame) -> Iterator[str]:
        """Yield the problems of the next frame."""

    @abstractmethod
    def missing(self) -> list[str]:
        """Return the problems of a stream that ends here."""


ANY = "*"
"""All events that a state of an `OrderTable` does not name."""

OrderTable: TypeAlias = Mapping[str, Mapping[str, str | tuple[str, str]]]
"""The order of events: by state and event, the next state, a problem, or both.

A problem alone leaves the state as it is, as does an event without an entry.  `{event}` and
further names are filled in.  The first state is the initial one.
"""


class Order:
    """The state of a stream, or of a part of it, in a table.

    Args:
        table: The table.
        names: Values of the names in its problems.

    Attributes:
        state: The current state.
    """

    def __init__(self, table: OrderTable, **names: object) -> None:
        self.state = next(iter(table))
        self._table = table
        self._names = names

    def advance(self, event: str) -> Iterator[str]:
        """Enter the state after an event; yield the problem of one that is out of order."""
        row = self._table[self.state]
        after = row.get(event) or row.get(ANY, self.state)
        state, problem = after if isinstance(after, tuple) else (after, after)
        self.state = state if state in self._table else self.state
        if problem not in self._table:
            yield problem.format(event=event, **self._names)


class RequestFacts(Struct, frozen=True):
    """A request as a provider receives it.

    Attributes:
        body: The JSON object.
        model: Name of the model, from the body or the path; "" if unknown.
        server: Name of the server; None is the vendor.
        path: Path of the URL; "" if unknown.
        headers: Headers, names in lower case.
        stream: Whether the request asks for a stream.
        lone_surrogate: Path of the first text with a lone surrogate, which is U+FFFD in `body`;
            None if there is none.
    """

    body: dict[str, Any]
    model: str = ""
    server: str | None = None
    path: str = ""
    headers: Mapping[str, str] = {}
    stream: bool = False
    lone_surrogate: str | None = None


class Finding(Struct, frozen=True):
    """A position in a request that breaks a rule.

    The attributes besides `path` fill the placeholders in the vendor's text.

    Attributes:
        path: Path in the body, such as `input[2].id`; "" for the whole body.
        value: Value at the path; a text is quoted if it is short and no secret.
        name: Name of a tool, a field or an item.
        count: Number of items or characters found.
        limit: Number of items or characters allowed.
        context: The vendor's words for a position within a schema.
    """

    path: str
    value: object = None
    name: str = ""
    count: int | None = None
    limit: int | float | None = None
    context: str = ""


RequestCheck: TypeAlias = Callable[[RequestFacts], Iterator[Finding]]
"""A generator of the positions in a request that break one rule; total over any JSON."""


class RequestViolation(Struct, frozen=True):
    """A broken rule, with the error that the provider would answer.

    Attributes:
        rule: Name of the rule.
        path: Path in the body, such as `input[2].id`; "" for the whole body.
        message: Message of the provider's error.
        status: HTTP status of the provider's response.
        type: Type of the error; None = the usual one of the status.
        code: Code of the error; None = none.
    """

    rule: str
    path: str
    message: str
    status: int = 400
    type: str | None = None
    code: str | None = None
