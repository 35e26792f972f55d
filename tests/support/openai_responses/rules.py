"""Responses requests that break one rule, and their check."""

from __future__ import annotations

from typing import Any, NamedTuple

from streamnorm.validation import RequestViolation, validate_request
from support.rules.cases import RefusedRequest

__all__ = [
    "ANSWER",
    "CALL",
    "CUSTOM_CALL",
    "CUSTOM_RESULT",
    "REASONING",
    "RESULT",
    "TOOLS",
    "USER",
    "Case",
    "items",
]

USER: dict[str, Any] = {"role": "user", "content": "Hi"}
ANSWER: dict[str, Any] = {"role": "assistant", "content": "Hm."}
REASONING: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "gAAA",
}
CALL: dict[str, Any] = {
    "type": "function_call",
    "call_id": "call_1",
    "name": "f",
    "arguments": "{}",
}
RESULT: dict[str, Any] = {"type": "function_call_output", "call_id": "call_1", "output": "1"}
CUSTOM_CALL: dict[str, Any] = {
    "type": "custom_tool_call",
    "call_id": "call_1",
    "name": "run",
    "input": "ls",
}
CUSTOM_RESULT: dict[str, Any] = {**RESULT, "type": "custom_tool_call_output"}
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "name": "f",
        "parameters": {"type": "object", "properties": {}},
        "strict": False,
    }
]


def items(*values: dict[str, Any]) -> dict[str, Any]:
    """Return the `input` field with items after a user message."""
    return {"input": [USER, *values]}


class Case(NamedTuple):
    """A request that breaks a rule, and the nearest legal one.

    Attributes:
        rule: Name of the rule.
        refused: Fields of the body that is refused, besides the model and one message.
        path: Where it is refused.
        message: What the server says.
        accepted: Fields that make the body legal; None removes a field.
        server: Server that has the rule; None is the vendor.
        model: Model that it holds for.
        free: A server that does not have the rule; behind a `/`, a model of it.
        status: HTTP status of the answer.
        code: Code of the error.
    """

    rule: str
    refused: dict[str, Any]
    path: str
    message: str
    accepted: dict[str, Any]
    server: str | None = None
    model: str = "gpt-4.1"
    free: str = "ollama"
    status: int = 400
    code: str | None = "invalid_value"

    def __str__(self) -> str:
        return f"{self.rule}-{self.server or 'vendor'}-{self.model}-{self.path}"

    @property
    def dialect(self) -> str:
        return "openai_responses"

    @property
    def request(self) -> RefusedRequest:
        return RefusedRequest({"model": self.model, **items(), **self.refused}, self.model)

    @property
    def elsewhere(self) -> list[tuple[str | None, str]]:
        server, _, model = self.free.partition("/")
        return [(server or None, model or self.model)]

    def check(self) -> None:
        """Check that the rule refuses the one body, and not the other or other servers."""
        (found,) = self._violations(self.refused, self.server, self.model)
        assert (found.path, found.message) == (self.path, self.message)
        assert (found.status, found.type, found.code) == (self.status, None, self.code)
        merged = {**self.refused, **self.accepted}
        accepted = {name: value for name, value in merged.items() if value is not None}
        legal = {"model": self.model, **items(), **accepted}
        assert validate_request(legal, "openai_responses", server=self.server) == []
        for server, model in self.elsewhere:
            assert self._violations(self.refused, server, model) == []

    def _violations(
        self, fields: dict[str, Any], server: str | None, model: str
    ) -> list[RequestViolation]:
        body = {"model": model, **items(), **fields}
        found = validate_request(body, "openai_responses", server=server)
        return [violation for violation in found if violation.rule == self.rule]
