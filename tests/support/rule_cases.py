"""What the cases of rules have in common, whatever their dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from streamnorm import validate_request

__all__ = ["RefusedRequest", "RuleCase", "is_refused_by"]


class RefusedRequest(NamedTuple):
    """A request that a rule refuses.

    Attributes:
        body: The body.
        model: The model.
        headers: Headers of the request.
        path: Path of the URL; None = none is known.
    """

    body: dict[str, Any]
    model: str
    headers: Mapping[str, str] = MappingProxyType({})
    path: str | None = None


class RuleCase(Protocol):
    """A request that breaks a rule, with the nearest legal one."""

    @property
    def rule(self) -> str:
        """Id of the rule."""

    @property
    def dialect(self) -> str:
        """Dialect of the request."""

    @property
    def request(self) -> RefusedRequest:
        """The request that is refused."""

    @property
    def elsewhere(self) -> Sequence[tuple[str | None, str]]:
        """Servers and models at which the request does not break the rule; None = the vendor."""

    def check(self) -> None:
        """Check the path and the words of the refusal, the legal request, and `elsewhere`."""


def is_refused_by(case: RuleCase, server: str | None) -> bool:
    """Return whether the rule of a case refuses its request at a server; None = the vendor."""
    refused = case.request
    found = validate_request(
        refused.body,
        case.dialect,
        model=refused.model,
        server=server,
        path=refused.path,
        headers=refused.headers,
    )
    return case.rule in [violation.rule for violation in found]
