"""Requests that Anthropic or its clouds refuse, and the nearest legal ones."""

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
    """A request refused by one rule of Anthropic or of a cloud."""

    dialect: ClassVar[str] = "anthropic"

    model: str = "claude-opus-4-5"


def request(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a request body; None removes a default field."""
    asked = list(messages) or [user("q")]
    body = {"model": "m", "max_tokens": 4096, "messages": asked, **fields}
    return {name: value for name, value in body.items() if value is not None}


def cloud_request(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a request body for a cloud, with the model in its URL."""
    return request(*messages, model=None, anthropic_version="bedrock-2023-05-31", **fields)


def user(*content: Any) -> dict[str, Any]:
    """Return a user message of a text or blocks."""
    return {"role": "user", "content": _content(content)}


def assistant(*content: Any) -> dict[str, Any]:
    """Return an assistant message of a text or blocks."""
    return {"role": "assistant", "content": _content(content)}


def system(*content: Any) -> dict[str, Any]:
    """Return a system message of a text or blocks."""
    return {"role": "system", "content": _content(content)}


def _content(content: tuple[Any, ...]) -> Any:
    return content[0] if len(content) == 1 and isinstance(content[0], str) else list(content)


def text(value: str, **fields: Any) -> dict[str, Any]:
    """Return a text block."""
    return {"type": "text", "text": value, **fields}


def thinking(signature: str = SIGNATURE) -> dict[str, Any]:
    """Return a thinking block."""
    return {"type": "thinking", "thinking": "hm", "signature": signature}


def call(id: str = "toolu_1", **fields: Any) -> dict[str, Any]:
    """Return a call of the client tool `f`."""
    return {"type": "tool_use", "id": id, "name": "f", "input": {}, **fields}


def result(id: str = "toolu_1", **fields: Any) -> dict[str, Any]:
    """Return the result of a call."""
    return {"type": "tool_result", "tool_use_id": id, "content": "r", **fields}


def tool(name: str = "f", **fields: Any) -> dict[str, Any]:
    """Return a client tool."""
    return {"name": name, "input_schema": {"type": "object"}, **fields}


def image(media_type: str) -> dict[str, Any]:
    """Return an inline image."""
    source = {"type": "base64", "media_type": media_type, "data": "AAAA"}
    return {"type": "image", "source": source}
