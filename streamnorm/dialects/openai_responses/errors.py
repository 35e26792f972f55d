"""Errors: `error` events, and the `error` of a failed response."""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import StreamError
from streamnorm._core.failures import error_subject, named_error

_EVENT_HEAD = ("type", "sequence_number", "event_id", "stream_id")

# Type and code by HTTP status or by subject of the error; 400 stands for other client errors.
_TYPES_AND_CODES: dict[int | str, tuple[str, str]] = {
    "context": ("invalid_request_error", "context_length_exceeded"),
    "model": ("invalid_request_error", "model_not_found"),
    400: ("invalid_request_error", "invalid_prompt"),
    401: ("authentication_error", "authentication_error"),
    402: ("insufficient_quota", "insufficient_quota"),
    403: ("permission_error", "permission_error"),
    404: ("invalid_request_error", "not_found"),
    413: ("invalid_request_error", "context_length_exceeded"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    503: ("server_error", "server_is_overloaded"),
    529: ("server_error", "server_is_overloaded"),
}

# Codes that clients act on, written for errors of any dialect.
_CLIENT_CODES = frozenset(
    {
        *("server_error", "rate_limit_exceeded", "invalid_prompt", "context_length_exceeded"),
        *("insufficient_quota", "usage_not_included", "cyber_policy", "bio_policy"),
        *("server_is_overloaded", "slow_down", "misalignment_policy_violation"),
    }
)


def error_from_wire(event: dict[str, Any], payload: str) -> StreamError:
    """Return the error of an `error` event, whose fields may be nested or flat."""
    if event.get("error"):
        return named_error(payload, event)
    flat = {key: value for key, value in event.items() if key not in _EVENT_HEAD}
    # An event without `message` has another vendor's shape.
    return named_error(payload, {"error": flat} if "message" in flat else flat)


def error_to_wire(error: StreamError, *, extras: bool) -> dict[str, Any]:
    """Return an error object of the API: message, type, param and code.

    Args:
        error: The error.
        extras: Whether the error was decoded from this dialect; its code and extra fields
            are written back then.
    """
    status = error.status_hint or 500
    fallback = _TYPES_AND_CODES[400] if 400 <= status < 500 else ("server_error", "server_error")
    subject = error_subject(error)
    type, code = _TYPES_AND_CODES.get(subject or status, fallback)
    vendor_code = error.code if error.kind == "upstream" else None
    if subject == "context":
        vendor_code = None  # llama.cpp and others have codes of their own
    if vendor_code is not None and (extras or vendor_code in _CLIENT_CODES):
        code = vendor_code
    extra = dict(error.extra or {}) if extras and error.kind == "upstream" else {}
    return {"message": error.message, "type": type, "param": None, **extra, "code": code}
