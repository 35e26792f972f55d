"""Requests that Google refuses, and their nearest legal ones."""

from __future__ import annotations

from typing import Any, NamedTuple

from streamnorm import RequestViolation, validate_request
from support.rule_cases import RefusedRequest

__all__ = [
    "SIGNATURE",
    "Refusal",
    "answer",
    "call",
    "declared",
    "model",
    "options",
    "request",
    "result",
    "thinking",
    "user",
]

SIGNATURE = "c2lnbmVk"
"""A signature that may be Google's."""


class Refusal(NamedTuple):
    """A request that one rule refuses.

    Attributes:
        rule: The rule.
        refused: The body that is refused.
        path: Where.
        message: What the provider says.
        legal: The nearest body that is accepted.
        model: The model.
        server: The server; None is the Gemini API.
        others: Servers and models that the rule does not hold for.
    """

    rule: str
    refused: dict[str, Any]
    path: str
    message: str
    legal: dict[str, Any]
    model: str = "gemini-2.5-flash"
    server: str | None = None
    others: tuple[tuple[str | None, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.rule}-{self.path}-{self.model}"

    @property
    def dialect(self) -> str:
        """Dialect of the request."""
        return "gemini"

    @property
    def request(self) -> RefusedRequest:
        """The request that is refused."""
        return RefusedRequest(self.refused, self.model)

    @property
    def elsewhere(self) -> tuple[tuple[str | None, str], ...]:
        """Servers and models at which it does not break the rule."""
        return self.others

    def check(self) -> None:
        """Compare what the rules say of both bodies, and of the same body elsewhere."""
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
        return validate_request(body, "gemini", model=name, server=server)


def request(*contents: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return the body of a request, by default of one question."""
    return {"contents": list(contents) or [user("q")], **fields}


def options(**fields: Any) -> dict[str, Any]:
    """Return a request of one question with `generationConfig`."""
    return request(generationConfig=fields)


def thinking(**fields: Any) -> dict[str, Any]:
    """Return a request of one question with `thinkingConfig`."""
    return options(thinkingConfig=fields)


def answer(name: str, value: Any) -> dict[str, Any]:
    """Return a request with one field of `generationConfig`."""
    return options(**{name: value})


def user(*parts: Any) -> dict[str, Any]:
    """Return a content of the user; a text stands for its part."""
    return {"role": "user", "parts": _parts(parts)}


def model(*parts: Any) -> dict[str, Any]:
    """Return a content of the model; a text stands for its part."""
    return {"role": "model", "parts": _parts(parts)}


def _parts(parts: tuple[Any, ...]) -> list[Any]:
    return [{"text": part} if isinstance(part, str) else part for part in parts]


def call(signature: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return the part of a call of `f`."""
    part = {"functionCall": {"name": "f", "args": {}, **fields}}
    return part if signature is None else {**part, "thoughtSignature": signature}


def result(**fields: Any) -> dict[str, Any]:
    """Return the part of a response of `f`."""
    return {"functionResponse": {"name": "f", "response": {"output": "r"}, **fields}}


def declared(*names: str, **fields: Any) -> dict[str, Any]:
    """Return a tool with declarations of functions."""
    return {"functionDeclarations": [{"name": name, **fields} for name in names or ("f",)]}
