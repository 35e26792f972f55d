"""Errors in a stream, in both directions.

`_core.failures` reads frames with the event line or the type `error`; this module reads errors
that have neither, and writes all.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.context_overflow import ContextOverflow, context_overflow
from streamnorm._core.events import StreamError
from streamnorm._core.failures import find_error
from streamnorm._core.json import is_object

# Claude Code compacts the conversation at the first text, and requests fewer tokens at the
# numbers after the second (musistudio/claude-code-router#1799, anthropics/claude-code#86507).
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
    """Return the error in a payload of an unknown type, in the form of any vendor; None if none.

    Compatible servers and proxies send errors of other vendors, without a `type`.  A payload
    with a `type` is an event, unless it has an `error` as well.
    """
    if is_object(value) and isinstance(value.get("type"), str) and not value.get("error"):
        return None
    return find_error(value)


def error_to_wire(error: StreamError, *, extras: bool) -> dict[str, Any]:
    """Return the `error` object; its type follows from the HTTP status of the error.

    Args:
        error: The error.
        extras: Whether to write the API's `details` back, which the SDKs read.
    """
    overflow = context_overflow(error)
    if overflow is not None:
        message = _overflow_message(error.message, overflow)
        return {"type": "invalid_request_error", "message": message}
    details = (error.extra or {}).get("details") if extras else None
    # The SDK's tool runner goes on without threads by `details.error_code`.
    fields = {"details": details} if is_object(details) else {}
    return {"type": _type_of(error), "message": error.message, **fields}


def _overflow_message(message: str, overflow: ContextOverflow) -> str:
    """Return the API's message for a request that is too long: clients match its text."""
    if any(text in message.lower() for text in (_PROMPT, _LIMIT)):
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
