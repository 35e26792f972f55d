"""The `response` object that an encoder's first and last events carry, and its errors."""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import StreamError, Usage
from streamnorm._core.ids import escape_id
from streamnorm._core.json import is_object

__all__ = ["error_fields", "response_id", "skeleton", "usage_to_wire"]

_PREFIX = "resp_"
_FOREIGN_PREFIXES = ("chatcmpl-", "msg_", "gen-")

# Every key that the compliance suite of Open Responses asks for, as one who asked for
# nothing has it.
_NOTHING_ASKED: dict[str, Any] = {
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
    "service_tier": None,
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

_ERRORS = {
    400: ("invalid_request_error", "invalid_prompt"),
    401: ("authentication_error", "authentication_error"),
    402: ("insufficient_quota", "insufficient_quota"),
    403: ("permission_error", "permission_error"),
    404: ("invalid_request_error", "model_not_found"),
    413: ("invalid_request_error", "context_length_exceeded"),
    422: ("invalid_request_error", "invalid_prompt"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    503: ("server_error", "server_is_overloaded"),
    529: ("server_error", "server_is_overloaded"),
}

# Those that a client acts on, whoever says them.
_KNOWN_CODES = frozenset(
    {
        *("server_error", "rate_limit_exceeded", "invalid_prompt", "context_length_exceeded"),
        *("insufficient_quota", "usage_not_included", "cyber_policy", "bio_policy"),
        *("server_is_overloaded", "slow_down", "misalignment_policy_violation"),
    }
)


def response_id(id: str) -> str:
    """Return the id of a message as that of a response, the same for the same id."""
    if id.startswith(_PREFIX):
        return id
    prefix = next((prefix for prefix in _FOREIGN_PREFIXES if id.startswith(prefix)), "")
    return _PREFIX + escape_id(id.removeprefix(prefix) or "0")


def skeleton(id: str, model: str, created_at: object, told: dict[str, Any]) -> dict[str, Any]:
    """Return a response with everything but its status, output and tokens.

    Args:
        id: Its id.
        model: Who answers.
        created_at: When, in seconds, if that is a number.
        told: Fields of the source's first object.
    """
    is_known = isinstance(created_at, int | float)
    own = {
        "id": id,
        "object": "response",
        "created_at": created_at if is_known else 0,
        "model": model,
    }
    return {
        **own,
        **_NOTHING_ASKED,
        **told,
        **own,
        "error": None,
        "incomplete_details": None,
    }


def usage_to_wire(usage: Usage, *, extras: bool) -> dict[str, Any]:
    """Return a snapshot as the terminal has it; what nobody said is 0.

    Args:
        usage: The snapshot.
        extras: Whether to write the vendor's other counts back.
    """
    extra: dict[str, Any] = (usage.extra or {}) if extras else {}
    input_tokens, output_tokens = usage.input_tokens or 0, usage.output_tokens or 0
    # Codex fails where the details are there and not complete.
    return {
        **extra,
        "input_tokens": input_tokens,
        "input_tokens_details": {
            **_object(extra.get("input_tokens_details")),
            "cached_tokens": usage.cache_read_tokens or 0,
            "cache_write_tokens": usage.cache_write_tokens or 0,
        },
        "output_tokens": output_tokens,
        "output_tokens_details": {
            **_object(extra.get("output_tokens_details")),
            "reasoning_tokens": usage.reasoning_tokens or 0,
        },
        "total_tokens": input_tokens + output_tokens,
    }


def _object(value: object) -> dict[str, Any]:
    return value if is_object(value) else {}


def error_fields(error: StreamError, *, extras: bool) -> dict[str, Any]:
    """Return an error as the API tells it: message, type, param and code.

    Args:
        error: The error.
        extras: Whether it is an error of this dialect, with words of its own.
    """
    status = error.status_hint or 500
    fallback = _ERRORS[400] if 400 <= status < 500 else ("server_error", "server_error")
    type, code = _ERRORS.get(status, fallback)
    told = error.code if error.kind == "upstream" else None
    if told is not None and (extras or told in _KNOWN_CODES):
        code = told
    own = dict(error.extra or {}) if extras and error.kind == "upstream" else {}
    return {"message": error.message, "type": type, "param": None, **own, "code": code}
