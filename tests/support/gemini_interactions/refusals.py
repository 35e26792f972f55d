"""Requests that the Interactions API refuses, and their nearest legal ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from support.rules.cases import VendorRefusal

__all__ = ["FUNCTION", "MODEL", "Refusal", "call", "request", "result", "said"]

MODEL = "gemini-3-flash-preview"
FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}}


@dataclass(frozen=True)
class Refusal(VendorRefusal):
    """A request that one rule of the Interactions API refuses."""

    dialect: ClassVar[str] = "gemini_interactions"

    model: str = MODEL


def said(text: str = "q") -> dict[str, Any]:
    """Return a step of the user."""
    return {"type": "user_input", "content": [{"type": "text", "text": text}]}


def request(*steps: Any, **fields: Any) -> dict[str, Any]:
    """Return the body of a request, by default of one question."""
    return {"model": MODEL, "input": list(steps) or [said()], **fields}


def call(id: str = "c1", **fields: Any) -> dict[str, Any]:
    """Return a step of a call."""
    return {"type": "function_call", "id": id, "name": "f", "arguments": {}, **fields}


def result(id: str = "c1", **fields: Any) -> dict[str, Any]:
    """Return a step of a result."""
    return {"type": "function_result", "call_id": id, "result": "r", **fields}
