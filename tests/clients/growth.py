"""Whether each request of a task begins with the one before it.

Prompt caches need it, and so do vendors that bind reasoning to all that stands before it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from clients.tasks import has_tools
from support.bodies.consecutive_turns import begins_with
from support.bodies.history_rules import PROMPTS

from streamnorm.testing import FakeRequest

__all__ = ["changed_histories"]

# Agents move their marks with each turn.
_MARKS = {"cache_control", "prompt_cache_breakpoint"}


def changed_histories(requests: list[FakeRequest]) -> list[str]:
    """Return which requests have another history than the one before them."""
    found: list[str] = []
    # Requests for a title have no tools, and are no turn of the task.
    turns = [(number, one) for number, one in enumerate(requests, 1) if has_tools(one)]
    for (_, before), (number, after) in pairwise(turns):
        if before.dialect != after.dialect:
            continue
        dialect = str(after.dialect)
        shorter, longer = _unmarked(before.body), _unmarked(after.body)
        if _forbids_calls(shorter) != _forbids_calls(longer):
            # Of a summary, for which no tool may be called: Gemini's choice is one of functions.
            shorter, longer = _without_server_tools(shorter), _without_server_tools(longer)
        # An agent that asks again may leave out the last answer, or add to its last message.
        size = min(len(shorter[PROMPTS[dialect]]), len(longer[PROMPTS[dialect]]) - 1)
        shorter = {**shorter, PROMPTS[dialect]: shorter[PROMPTS[dialect]][:size]}
        if not begins_with(longer, shorter, dialect):
            found.append(f"request {number} does not begin with the one before it")
    return found


def _forbids_calls(body: dict[str, Any]) -> bool:
    """Return whether a body of Gemini forbids all functions."""
    calling = body.get("toolConfig", {}).get("functionCallingConfig", {})
    return bool(calling.get("mode") == "NONE")


def _without_server_tools(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "tools": [tool for tool in body["tools"] if "functionDeclarations" in tool]}


def _is_mark(value: Any) -> bool:
    """Return whether a value is a mark of Bedrock, which stands behind what it marks."""
    return isinstance(value, dict) and value.keys() == {"cachePoint"}


def _unmarked(value: Any) -> Any:
    """Return JSON without marks; a text in a list of its own is that text."""
    if isinstance(value, list):
        parts = [_unmarked(part) for part in value if not _is_mark(part)]
        match parts:
            case [{"type": "text" | "input_text", "text": text, **rest}] if not rest:
                return text
            case _:
                return parts
    if isinstance(value, dict):
        return {name: _unmarked(part) for name, part in value.items() if name not in _MARKS}
    return value
