"""The contract of the checks behind `validate_request`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

__all__ = ["Finding", "RequestCheck", "RequestFacts", "RequestViolation"]


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
