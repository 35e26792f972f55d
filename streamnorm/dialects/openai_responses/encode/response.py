"""The `response` object of the first and last events, and its id."""

from __future__ import annotations

from typing import Any

from streamnorm._core.ids import escape_id
from streamnorm._core.json import is_array, is_object

__all__ = ["echoed_fields", "initial_response", "response_id"]

_PREFIX = "resp_"
_FOREIGN_PREFIXES = ("chatcmpl-", "msg_", "gen-")

# Every key that the compliance suite of Open Responses demands, with its value for a
# request without options.
_DEFAULTS: dict[str, Any] = {
    "background": False,
    "completed_at": None,
    "error": None,
    "frequency_penalty": 0.0,
    "incomplete_details": None,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": False,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}

# Of these a response says what became of the request.
_NOT_ECHOED = frozenset(
    {
        *("background", "completed_at", "error", "incomplete_details", "previous_response_id"),
        *("service_tier", "store"),
    }
)
# Fields of a function that a response has even where the request has not.
_FUNCTION: dict[str, Any] = {"description": None, "parameters": None, "strict": None}


def echoed_fields(body: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a request's body that the response repeats, completed as there."""
    echoed: dict[str, Any] = {}
    for name, default in _DEFAULTS.items():
        value = body.get(name)
        if value is None or name in _NOT_ECHOED:
            continue
        if name == "tools" and is_array(value):
            echoed[name] = [_echoed_tool(tool) for tool in value]
        elif is_object(value) and is_object(default):
            echoed[name] = {**default, **value}
        else:
            echoed[name] = value
    return echoed


def _echoed_tool(tool: object) -> object:
    if is_object(tool) and tool.get("type") == "function":
        return {**_FUNCTION, **tool}
    return tool


def response_id(message_id: str) -> str:
    """Return the id of a message as a response id, the same one for the same message."""
    if message_id.startswith(_PREFIX):
        return message_id
    prefix = next((prefix for prefix in _FOREIGN_PREFIXES if message_id.startswith(prefix)), "")
    return _PREFIX + escape_id(message_id.removeprefix(prefix) or "0")


def initial_response(
    id: str, model: str, created_at: object, extra: dict[str, Any]
) -> dict[str, Any]:
    """Return a response without status, output and usage.

    Args:
        id: Its id.
        model: Name of the model.
        created_at: Unix time in seconds; 0 is written for any other type.
        extra: Fields of the source's first response.
    """
    own = {
        "id": id,
        "object": "response",
        "created_at": created_at if isinstance(created_at, int | float) else 0,
        "model": model,
    }
    # `own` comes first for the order of the keys, and last to win over `extra`.
    return {
        **own,
        **_DEFAULTS,
        **extra,
        **own,
        "error": None,
        "incomplete_details": None,
    }
