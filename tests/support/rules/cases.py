"""Base classes of the cases of request rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol

from streamnorm.validation import RequestViolation, validate_request

__all__ = ["RefusedRequest", "RuleCase", "VendorRefusal", "is_refused_by"]


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
    """Protocol of cases: a request that breaks a rule, and the nearest legal one."""

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
        """Servers and models at which the request is legal; None = the vendor."""

    def check(self) -> None:
        """Check the refusal's path and words, the legal request, and `elsewhere`."""


@dataclass(frozen=True)
class VendorRefusal:
    """A request that one rule of a vendor, or of its cloud, refuses.

    Attributes:
        dialect: Dialect of the request.
        rule: The rule.
        refused: The body that is refused.
        path: Where.
        message: What the provider says.
        legal: The nearest body that is accepted.
        model: The model.
        server: The server; None is the vendor.
        others: Servers and models that the rule does not hold for.
        headers: Headers of the request.
    """

    dialect: ClassVar[str]

    rule: str
    refused: dict[str, Any]
    path: str
    message: str
    legal: dict[str, Any]
    model: str
    server: str | None = None
    others: tuple[tuple[str | None, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.rule}-{self.path}-{self.model}"

    @property
    def request(self) -> RefusedRequest:
        """The request that is refused."""
        return RefusedRequest(self.refused, self.model, self.headers)

    @property
    def elsewhere(self) -> tuple[tuple[str | None, str], ...]:
        """Servers and models at which the request is legal."""
        return self.others

    def check(self) -> None:
        """Check the refusal of the request, and both legal variants."""
        found = self._violations(self.refused, self.server, self.model)
        assert [(v.path, v.message) for v in found if v.rule == self.rule] == [
            (self.path, self.message)
        ]
        assert self._violations(self.legal, self.server, self.model) == []
        for server, name in self.others:
            elsewhere = self._violations(self.refused, server, name)
            assert self.rule not in [violation.rule for violation in elsewhere]

    def _violations(
        self, body: dict[str, Any], server: str | None, name: str
    ) -> list[RequestViolation]:
        return validate_request(body, self.dialect, model=name, server=server, headers=self.headers)


def is_refused_by(case: RuleCase, server: str | None) -> bool:
    """Return whether a case's rule refuses its request at a server."""
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
