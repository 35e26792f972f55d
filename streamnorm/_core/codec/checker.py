"""The contract of the strict validators behind `validate`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar, TypeAlias

from msgspec import Struct

from streamnorm.sse import Frame

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

    def check(self, frame: Frame) -> list[str]:
        """Return the problems of the next frame, at most `MAX_PROBLEMS`."""
        return list(islice(self.read(frame), MAX_PROBLEMS))

    @abstractmethod
    def read(self, frame: Frame) -> Iterator[str]:
        """Yield the problems of the next frame."""

    @abstractmethod
    def missing(self) -> list[str]:
        """Return the problems of a stream that ends here."""


class RequestFacts(Struct, frozen=True):
    """A request as a provider receives it.

    Attributes:
        body: The JSON object.
        model: Model that it names, in the body or in the path; "" if unknown.
        server: Name of the server that it is sent to; None is the vendor.
        path: Path of its URL; "" if unknown.
        headers: Its headers, names in lower case.
        stream: Whether it asks for a stream.
        lone_surrogate: Path of the first text with half a surrogate pair, which `body` has as
            U+FFFD; None if there is none.
    """

    body: dict[str, Any]
    model: str = ""
    server: str | None = None
    path: str = ""
    headers: Mapping[str, str] = {}
    stream: bool = False
    lone_surrogate: str | None = None


class Finding(Struct, frozen=True):
    """One place of a request that breaks a rule.

    The other attributes fill the placeholders in the vendor's text.

    Attributes:
        path: Path in the body, such as `input[2].id`; "" for the whole body.
        value: What was found there; a text is quoted if it is short and no secret.
        name: Name of a tool, a field or an item.
        count: Number of items or characters that was found.
        limit: Number that is allowed.
        context: The vendor's words for a place within a schema.
    """

    path: str
    value: object = None
    name: str = ""
    count: int | None = None
    limit: int | float | None = None
    context: str = ""


RequestCheck: TypeAlias = Callable[[RequestFacts], Iterator[Finding]]
"""Yields each place of a request that breaks one rule; it is total over any JSON."""


class RequestViolation(Struct, frozen=True):
    """A place of a request that a provider refuses.

    Attributes:
        rule: Name of the rule that is broken.
        path: Path in the body, such as `input[2].id`; "" for the whole body.
        message: What the provider says.
        status: HTTP status that it answers with.
        type: Type of its error; None = the usual one of the status.
        code: Code of its error; None = none.
    """

    rule: str
    path: str
    message: str
    status: int = 400
    type: str | None = None
    code: str | None = None
