"""Requests that the Interactions API refuses, and the nearest legal ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from support.rules.cases import VendorRefusal

__all__ = ["FUNCTION", "MODEL", "Refusal", "call", "request", "result", "said"]

MODEL = "gemini-3-flash-preview"
FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}}


@dataclass(frozen=True)
class Refusal(VendorRefusal):
    """A request refused by one rule of the Interactions API."""

    dialect: ClassVar[str] = "gemini_interactions"

    model: str = MODEL


def said(text: str = "q") -> dict[str, Any]:
    """Return a user step."""
    return {"type": "user_input", "content": [{"type": "text", "text": text}]}


def request(*steps: Any, **fields: Any) -> dict[str, Any]:
    """Return a request body, by default with one question."""
    return {"model": MODEL, "input": list(steps) or [said()], **fields}


def call(id: str = "c1", **fields: Any) -> dict[str, Any]:
    """Return a call step."""
    return {"type": "function_call", "id": id, "name": "f", "arguments": {}, **fields}


def result(id: str = "c1", **fields: Any) -> dict[str, Any]:
    """Return a result step."""
    return {"type": "function_result", "call_id": id, "result": "r", **fields}
