"""Errors in a stream, in both directions.

Frames with the event line or type `error` are read by `_core.provider_errors` alone.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.context_overflow import ContextOverflow, context_overflow
from streamnorm._core.events import StreamError
from streamnorm._core.failures import find_error
from streamnorm._core.json import is_object

# Claude Code compacts the conversation at the first words, and asks for fewer tokens at the
# numbers behind the second (musistudio/claude-code-router#1799, anthropics/claude-code#86507).
_PROMPT = "prompt is too long"
_LIMIT = "exceed context limit"
_ADVICE = "decrease input length or `max_tokens` and try again"

_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def untyped_error_from_wire(value: Any) -> StreamError | None:
    """Return the error in a payload of an unknown type, in the form of any vendor.

    Compatible servers and proxies send such errors without a `type`.  A payload that has
    one is an event, unless it has an `error` as well.
    """
    if is_object(value) and isinstance(value.get("type"), str) and not value.get("error"):
        return None
    return find_error(value)


def error_to_wire(error: StreamError, *, extras: bool) -> dict[str, Any]:
    """Return the `error` object, its type by the status that the error stands for.

    Args:
        error: The error.
        extras: Whether to write the API's `details` back, by which the SDK decides.
    """
    overflow = context_overflow(error)
    if overflow is not None:
        message = _overflow_message(error.message, overflow)
        return {"type": "invalid_request_error", "message": message}
    details = (error.extra or {}).get("details") if extras else None
    told = {"details": details} if is_object(details) else {}
    return {"type": _type_of(error), "message": error.message, **told}


def _overflow_message(message: str, overflow: ContextOverflow) -> str:
    """Return the API's own words for a request that is too long, by which clients decide."""
    if any(words in message.lower() for words in (_PROMPT, _LIMIT)):
        return message
    size = f"{overflow.input_tokens} + {overflow.output_tokens} > {overflow.limit}"
    if overflow.input_fits:
        return f"{_PROMPT}: input length and `max_tokens` {_LIMIT}: {size}, {_ADVICE}"
    if overflow.input_tokens is not None and overflow.limit is not None:
        return f"{_PROMPT}: {overflow.input_tokens} tokens > {overflow.limit} maximum"
    return f"{_PROMPT}: {message}"


def _type_of(error: StreamError) -> str:
    status = error.status_hint
    if status is not None and 400 <= status < 500:
        return _TYPES.get(status, "invalid_request_error")
    if error.kind == "stalled":
        return "timeout_error"
    return _TYPES.get(status or 0, "api_error")
