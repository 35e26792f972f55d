"""Requests that Google refuses, and the nearest legal ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from support.rules.cases import VendorRefusal

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


@dataclass(frozen=True)
class Refusal(VendorRefusal):
    """A request refused by one rule of Google."""

    dialect: ClassVar[str] = "gemini"

    model: str = "gemini-2.5-flash"


def request(*contents: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a request body, by default with one question."""
    return {"contents": list(contents) or [user("q")], **fields}


def options(**fields: Any) -> dict[str, Any]:
    """Return a request with `generationConfig` options."""
    return request(generationConfig=fields)


def thinking(**fields: Any) -> dict[str, Any]:
    """Return a request with `thinkingConfig` options."""
    return options(thinkingConfig=fields)


def answer(name: str, value: Any) -> dict[str, Any]:
    """Return a request with one field of `generationConfig`."""
    return options(**{name: value})


def user(*parts: Any) -> dict[str, Any]:
    """Return a user content of a text or parts."""
    return {"role": "user", "parts": _parts(parts)}


def model(*parts: Any) -> dict[str, Any]:
    """Return a model content of a text or parts."""
    return {"role": "model", "parts": _parts(parts)}


def _parts(parts: tuple[Any, ...]) -> list[Any]:
    return [{"text": part} if isinstance(part, str) else part for part in parts]


def call(signature: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a part with a call of `f`."""
    part = {"functionCall": {"name": "f", "args": {}, **fields}}
    return part if signature is None else {**part, "thoughtSignature": signature}


def result(**fields: Any) -> dict[str, Any]:
    """Return a part with a response of `f`."""
    return {"functionResponse": {"name": "f", "response": {"output": "r"}, **fields}}


def declared(*names: str, **fields: Any) -> dict[str, Any]:
    """Return a tool with function declarations."""
    return {"functionDeclarations": [{"name": name, **fields} for name in names or ("f",)]}
