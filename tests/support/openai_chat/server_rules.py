"""Requests to Chat-compatible servers that break one rule."""

from __future__ import annotations

from typing import Any

from support.rules.chat import messages, said
from support.rules.rows import RuleRow

__all__ = [
    "ASSISTANT",
    "CALL",
    "CALLING",
    "DETAIL",
    "DEVELOPER",
    "FILE",
    "IMAGE",
    "MARKED",
    "NAMED",
    "OBJECT",
    "OFF",
    "ON",
    "RESULT",
    "SCHEMA",
    "SOUND",
    "SYSTEM",
    "TOOLS",
    "USER",
    "function",
    "messages",
    "said",
    "unforced",
    "without_reasoning",
]

USER: dict[str, Any] = {"role": "user", "content": "Hi"}
SYSTEM: dict[str, Any] = {"role": "system", "content": "Be brief."}
DEVELOPER: dict[str, Any] = {"role": "developer", "content": "Be brief."}
ASSISTANT: dict[str, Any] = {"role": "assistant", "content": "Hello"}
CALL: dict[str, Any] = {
    "id": "call00001",
    "type": "function",
    "function": {"name": "f", "arguments": "{}"},
}
CALLING: dict[str, Any] = {"role": "assistant", "tool_calls": [CALL]}
RESULT: dict[str, Any] = {"role": "tool", "tool_call_id": "call00001", "content": "1"}
OBJECT = {"type": "object"}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": OBJECT}}]
NAMED = {"type": "function", "function": {"name": "f"}}
FILE = {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERg=="}}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "r", "schema": {"type": "object"}}}
OFF = {"thinking": {"type": "disabled"}}
ON = {"thinking": {"type": "enabled"}}
DETAIL = {"type": "reasoning.text", "text": "…", "format": "anthropic-claude-v1"}
MARKED = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}


def function(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "parameters": schema}}


def without_reasoning(
    rule: str, server: str, model: str, message: str, free: str, **fields: Any
) -> RuleRow:
    """Return the row for a server that requires the reasoning of calls."""
    path = "messages[1].reasoning_content"
    legal = messages(USER, {**CALLING, "reasoning_content": ""}, RESULT)
    refused = {**messages(USER, CALLING, RESULT), **fields}
    return RuleRow(rule, server, model, refused, path, message, legal, free)


def unforced(rule: str, server: str, model: str, message: str, free: str, **fields: Any) -> RuleRow:
    """Return the row for a server that refuses forced tools."""
    refused = {**messages(USER), "tools": TOOLS, "tool_choice": NAMED, **fields}
    return RuleRow(
        rule, server, model, refused, "tool_choice", message, {"tool_choice": "auto"}, free
    )
