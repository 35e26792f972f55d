"""The request of a client for each stream: one question, and the tools that the answer calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["client_request"]

_QUESTION = "What is the weather, and what time is it?"
_SCHEMA = {"type": "object", "additionalProperties": True}


def client_request(target: str, tools: Iterable[str] = ()) -> dict[str, Any]:
    """Return the body that a client of a dialect asks with for a stream with reasoning.

    Args:
        target: The client's dialect.
        tools: Names of the tools that the client has.
    """
    return _REQUESTS[target](sorted(set(tools)))


def _chat(tools: list[str]) -> dict[str, Any]:
    functions = [{"name": name, "description": name, "parameters": _SCHEMA} for name in tools]
    return {
        "model": "m",
        "messages": [{"role": "user", "content": _QUESTION}],
        "stream": True,
        "stream_options": {"include_usage": True},
        **_some("tools", [{"type": "function", "function": each} for each in functions]),
    }


def _anthropic(tools: list[str]) -> dict[str, Any]:
    described = [{"name": name, "description": name, "input_schema": _SCHEMA} for name in tools]
    return {
        "model": "m",
        "max_tokens": 8192,
        "thinking": {"type": "enabled", "budget_tokens": 2048},
        "messages": [{"role": "user", "content": _QUESTION}],
        "stream": True,
        **_some("tools", described),
    }


def _responses(tools: list[str]) -> dict[str, Any]:
    function = {"type": "function", "parameters": _SCHEMA, "strict": False}
    return {
        "model": "m",
        "input": [{"role": "user", "content": _QUESTION}],
        "stream": True,
        **_some("tools", [{**function, "name": name, "description": name} for name in tools]),
    }


def _gemini(tools: list[str]) -> dict[str, Any]:
    schema = {"type": "OBJECT", "properties": {}}
    functions = [{"name": name, "description": name, "parameters": schema} for name in tools]
    return {
        "contents": [{"role": "user", "parts": [{"text": _QUESTION}]}],
        "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
        **_some("tools", functions and [{"functionDeclarations": functions}]),
    }


def _some(key: str, values: list[Any]) -> dict[str, Any]:
    return {key: values} if values else {}


_REQUESTS = {
    "openai_chat": _chat,
    "anthropic": _anthropic,
    "openai_responses": _responses,
    "gemini": _gemini,
}
