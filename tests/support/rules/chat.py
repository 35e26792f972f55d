"""Chat Completions requests that break one rule, and their check."""

from __future__ import annotations

from typing import Any, NamedTuple

from streamnorm import DecodeError, EncodeError, translate_request
from streamnorm.validation import RequestViolation, validate_request
from support.rules.cases import RefusedRequest

__all__ = [
    "CALL",
    "CALLING",
    "IMAGE",
    "RESULT",
    "TOOLS",
    "USER",
    "Case",
    "answered",
    "called",
    "messages",
    "said",
]

USER: dict[str, Any] = {"role": "user", "content": "Hi"}
CALL: dict[str, Any] = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "f", "arguments": "{}"},
}
CALLING: dict[str, Any] = {"role": "assistant", "tool_calls": [CALL]}
RESULT: dict[str, Any] = {"role": "tool", "tool_call_id": "call_1", "content": "1"}
TOOLS: list[dict[str, Any]] = [{"type": "function", "function": {"name": "f"}}]
IMAGE: dict[str, Any] = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}


def messages(*values: dict[str, Any]) -> dict[str, Any]:
    return {"messages": list(values)}


def said(*parts: dict[str, Any]) -> dict[str, Any]:
    return messages({"role": "user", "content": list(parts)})


def called(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{**CALL, "id": id} for id in ids]}


def answered(id: str) -> dict[str, Any]:
    return {**RESULT, "tool_call_id": id}


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
    """

    rule: str
    refused: dict[str, Any]
    path: str
    message: str
    accepted: dict[str, Any]
    server: str | None = None
    model: str = "gpt-4.1"
    free: str = "groq"

    def __str__(self) -> str:
        return f"{self.rule}-{self.server or 'vendor'}-{self.model}-{self.path}"

    @property
    def dialect(self) -> str:
        return "openai_chat"

    @property
    def request(self) -> RefusedRequest:
        return RefusedRequest({"model": self.model, "messages": [USER], **self.refused}, self.model)

    @property
    def elsewhere(self) -> list[tuple[str | None, str]]:
        server, _, model = self.free.partition("/")
        return [(server or None, model or self.model)]

    def check(self) -> None:
        """Check that the rule refuses the one body, and not the other or other servers."""
        (found,) = self._violations(self.refused, self.server, self.model)
        assert (found.path, found.message) == (self.path, self.message)
        merged = {**self.refused, **self.accepted}
        accepted = {name: value for name, value in merged.items() if value is not None}
        legal = {"model": self.model, "messages": [USER], **accepted}
        assert validate_request(legal, "openai_chat", server=self.server) == []
        for server, model in self.elsewhere:
            assert self._violations(self.refused, server, model) == []

    def check_repair(self, server: str) -> None:
        """Check that a refused request is repaired for a named server, or raises an error."""
        body = {"model": self.model, "messages": [USER], **self.refused}
        try:
            made = translate_request(body, dialect="openai_chat", to="openai_chat", server=server)
        except (DecodeError, EncodeError) as exc:
            found = exc
        else:
            assert validate_request(made.body, "openai_chat", server=server) == []
            return
        assert found.path

    def _violations(
        self, fields: dict[str, Any], server: str | None, model: str
    ) -> list[RequestViolation]:
        body = {"model": model, "messages": [USER], **fields}
        found = validate_request(body, "openai_chat", server=server)
        return [violation for violation in found if violation.rule == self.rule]
