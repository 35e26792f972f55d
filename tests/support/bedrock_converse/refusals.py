"""Requests that Bedrock refuses, and the nearest legal ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from support.rules.cases import VendorRefusal

__all__ = ["CLAUDE", "NOVA", "TOOLS", "Refusal", "call", "request", "result", "said", "spec"]

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
NOVA = "us.amazon.nova-2-lite-v1:0"


@dataclass(frozen=True)
class Refusal(VendorRefusal):
    """A request refused by one rule of Bedrock."""

    dialect: ClassVar[str] = "bedrock_converse"

    model: str = CLAUDE


def said(role: str, *blocks: Any) -> dict[str, Any]:
    """Return a message of a text or blocks."""
    return {
        "role": role,
        "content": [{"text": block} if isinstance(block, str) else block for block in blocks],
    }


def request(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a request body, by default with one question."""
    return {"messages": list(messages) or [said("user", "q")], **fields}


def call(id: str = "c1", name: str = "f", input: Any = None) -> dict[str, Any]:
    """Return a call block."""
    return {"toolUse": {"toolUseId": id, "name": name, "input": {} if input is None else input}}


def result(id: str = "c1", *content: dict[str, Any]) -> dict[str, Any]:
    """Return a result block, by default with a text."""
    return {"toolResult": {"toolUseId": id, "content": list(content) or [{"text": "r"}]}}


def spec(name: str = "f", **fields: Any) -> dict[str, Any]:
    """Return an entry of `tools`."""
    schema = {"json": {"type": "object", "properties": {}}}
    return {"toolSpec": {"name": name, "inputSchema": schema, **fields}}


TOOLS = {"tools": [spec()]}
"""A `toolConfig`."""
