"""Schemas that break one rule of a provider, and their check."""

from __future__ import annotations

from typing import Any, NamedTuple

from streamnorm.validation import RequestViolation, validate_request
from support.bodies.schema_requests import CLOSED, calling
from support.rules.cases import RefusedRequest

__all__ = [
    "ANTHROPIC",
    "CHAT",
    "GEMINI",
    "RESPONSES",
    "TEXT",
    "SchemaCase",
    "closed",
    "parameters",
    "strict",
]

CHAT, RESPONSES, ANTHROPIC, GEMINI = "openai_chat", "openai_responses", "anthropic", "gemini"
MODELS = {
    CHAT: "gpt-4.1",
    RESPONSES: "gpt-4.1",
    ANTHROPIC: "claude-opus-4-5",
    GEMINI: "gemini-2.5-pro",
}
TEXT = {"type": "string"}


def parameters(**properties: Any) -> dict[str, Any]:
    """Return a function's schema with some parameters."""
    return {"type": "object", "properties": properties}


def closed(**properties: Any) -> dict[str, Any]:
    """Return a strict function's schema with some parameters."""
    return {**CLOSED, "properties": properties, "required": [*properties]}


def strict(dialect: str, schema: Any) -> dict[str, Any]:
    return calling(dialect, schema, strict=True)


class SchemaCase(NamedTuple):
    """A request that breaks a schema rule, and the nearest legal one.

    Attributes:
        rule: Name of the rule.
        dialect: Dialect of the requests.
        refused: The body that is refused.
        path: Where it is refused.
        message: What the server says.
        legal: The body that is not.
        server: Server that has the rule; None is the vendor.
        free: A server, or a model behind a `/`, that does not have the rule.
    """

    rule: str
    dialect: str
    refused: dict[str, Any]
    path: str
    message: str
    legal: dict[str, Any]
    server: str | None = None
    model: str | None = None
    free: str = "vllm"

    def __str__(self) -> str:
        return f"{self.rule}-{self.dialect}-{self.path}"

    @property
    def request(self) -> RefusedRequest:
        model = self.model or MODELS[self.dialect]
        body = self.refused if self.dialect == GEMINI else {"model": model, **self.refused}
        return RefusedRequest(body, model)

    @property
    def elsewhere(self) -> list[tuple[str | None, str]]:
        server, _, model = self.free.partition("/")
        return [(server or None, model or self.request.model)]

    def check(self) -> None:
        """Check the refusal's path and words, the legal request, and `elsewhere`."""
        found = self.violations(self.refused, self.server)
        said = [(each.path, each.message) for each in found if each.rule == self.rule]
        assert said == [(self.path, self.message)]
        assert self.violations(self.legal, self.server) == []
        for server, model in self.elsewhere:
            if server == "own":  # a rule of every server and model of the dialect
                continue
            found = self.violations(self.refused, server, model)
            assert self.rule not in [each.rule for each in found]

    def violations(
        self, body: dict[str, Any], server: str | None = None, model: str | None = None
    ) -> list[RequestViolation]:
        model = model or self.model or MODELS[self.dialect]
        body = body if self.dialect == GEMINI else {"model": model, **body}
        return validate_request(body, self.dialect, model=model, server=server)
