"""Requests that Google refuses, and their nearest legal ones."""

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
    """A request that one rule of Google's refuses."""

    dialect: ClassVar[str] = "gemini"

    model: str = "gemini-2.5-flash"


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
