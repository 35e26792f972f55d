"""Rows of requests that servers refuse, and their check."""

from __future__ import annotations

from typing import Any, NamedTuple

from streamnorm.validation import RequestViolation, validate_request
from support.rules.cases import RefusedRequest

__all__ = ["RuleRow"]


class RuleRow(NamedTuple):
    """A request that breaks a rule, and a similar legal one.

    Attributes:
        rule: Name of the rule.
        server: Server that has it.
        model: Model that it holds for.
        refused: Fields of the body that is refused.
        path: Where it is refused.
        message: What the server says.
        accepted: Fields that make the body legal; None removes a field.
        free: A server that does not have the rule, or another model of the same server.
        dialect: Dialect of the request.
    """

    rule: str
    server: str
    model: str
    refused: dict[str, Any]
    path: str
    message: str
    accepted: dict[str, Any]
    free: str = "groq"
    dialect: str = "openai_chat"

    def __str__(self) -> str:
        return f"{self.rule}-{self.server}-{self.model}"

    @property
    def request(self) -> RefusedRequest:
        return RefusedRequest(self.refused, self.model)

    @property
    def elsewhere(self) -> list[tuple[str | None, str]]:
        server, _, model = self.free.partition("/")
        return [(None, self.model), (server, model or self.model)]

    def check(self) -> None:
        """Check that the rule refuses the one body, and not the other or other servers."""
        (found,) = self._violations(self.refused, self.server, self.model)
        assert (found.path, found.message) == (self.path, self.message)
        merged = {**self.refused, **self.accepted}
        accepted = {name: value for name, value in merged.items() if value is not None}
        assert self._violations(accepted, self.server, self.model) == []
        for server, model in self.elsewhere:
            assert self._violations(self.refused, server, model) == []

    def _violations(
        self, body: dict[str, Any], server: str | None, model: str
    ) -> list[RequestViolation]:
        found = validate_request(body, self.dialect, model=model, server=server)
        return [violation for violation in found if violation.rule == self.rule]
