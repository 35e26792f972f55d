"""Requests that Anthropic and the clouds with its models refuse, and their nearest legal ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from support.rules.cases import VendorRefusal

__all__ = [
    "Refusal",
    "assistant",
    "call",
    "cloud_request",
    "image",
    "request",
    "result",
    "system",
    "text",
    "thinking",
    "tool",
    "user",
]

SIGNATURE = "c2lnbmVk"
"""A signature that may be the vendor's."""


@dataclass(frozen=True)
class Refusal(VendorRefusal):
    """A request that one rule of Anthropic's, or of a cloud, refuses."""

    dialect: ClassVar[str] = "anthropic"

    model: str = "claude-opus-4-5"


def request(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return the body of a request, by default of one question; None removes a field."""
    asked = list(messages) or [user("q")]
    body = {"model": "m", "max_tokens": 4096, "messages": asked, **fields}
    return {name: value for name, value in body.items() if value is not None}


def cloud_request(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return the body of a request for a cloud, which has the model in its URL."""
    return request(*messages, model=None, anthropic_version="bedrock-2023-05-31", **fields)


def user(*content: Any) -> dict[str, Any]:
    """Return a message of the user: one text, or blocks."""
    return {"role": "user", "content": _content(content)}


def assistant(*content: Any) -> dict[str, Any]:
    """Return a message of the assistant: one text, or blocks."""
    return {"role": "assistant", "content": _content(content)}


def system(*content: Any) -> dict[str, Any]:
    """Return a message of the system: one text, or blocks."""
    return {"role": "system", "content": _content(content)}


def _content(content: tuple[Any, ...]) -> Any:
    return content[0] if len(content) == 1 and isinstance(content[0], str) else list(content)


def text(value: str, **fields: Any) -> dict[str, Any]:
    """Return a text block."""
    return {"type": "text", "text": value, **fields}


def thinking(signature: str = SIGNATURE) -> dict[str, Any]:
    """Return a block of thinking."""
    return {"type": "thinking", "thinking": "hm", "signature": signature}


def call(id: str = "toolu_1", **fields: Any) -> dict[str, Any]:
    """Return a call of the client's tool `f`."""
    return {"type": "tool_use", "id": id, "name": "f", "input": {}, **fields}


def result(id: str = "toolu_1", **fields: Any) -> dict[str, Any]:
    """Return the result of a call."""
    return {"type": "tool_result", "tool_use_id": id, "content": "r", **fields}


def tool(name: str = "f", **fields: Any) -> dict[str, Any]:
    """Return a tool of the client's."""
    return {"name": name, "input_schema": {"type": "object"}, **fields}


def image(media_type: str) -> dict[str, Any]:
    """Return an inline image."""
    source = {"type": "base64", "media_type": media_type, "data": "AAAA"}
    return {"type": "image", "source": source}
