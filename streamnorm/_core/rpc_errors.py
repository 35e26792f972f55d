"""Encoder of errors in Google's API format, which several dialects share.

https://cloud.google.com/apis/design/errors (read 2026-11-22).
"""

from __future__ import annotations

import re
from typing import Any

from streamnorm._core.context_overflow import ContextOverflow, context_overflow
from streamnorm._core.events import StreamError
from streamnorm._core.json import objects_of

_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_TOO_LONG = "input token count"

_STATUSES = {
    401: "UNAUTHENTICATED",
    # Google has no status for a bill that is due; this one covers quotas.
    402: "RESOURCE_EXHAUSTED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
_MAX_DELAY_S = 999_999_999
_OVERLOADED = 529  # of Anthropic; google-genai retries 503 and knows no 529


def error_to_wire(error: StreamError, *, extras: bool) -> dict[str, Any]:
    """Return the response body for an error.

    google-genai raises only if the payload begins with `{"error":`.

    Args:
        error: The error.
        extras: Whether to write the status and the fields of Google's own error back.
    """
    code, message = status_and_message(error)
    status = _STATUSES.get(code, "INVALID_ARGUMENT" if code < 500 else "INTERNAL")
    body: dict[str, Any] = {"code": code, "message": message, "status": status}
    if extras and error.kind == "upstream":
        if error.code and error.code.isupper():  # one of Google's statuses
            body["status"] = error.code
        body |= error.extra or {}
    if error.retry_after is not None and "details" not in body:
        body["details"] = retry_info(error.retry_after)
    return {"error": body}


def retry_info(seconds: float) -> list[dict[str, Any]]:
    """Return the details of an error that say when the request is accepted again."""
    delay = f"{min(seconds, _MAX_DELAY_S):.3f}".rstrip("0").rstrip(".")
    return [{"@type": _RETRY_INFO, "retryDelay": f"{delay}s"}]


def retry_info_in(details: object) -> float | None:
    """Return the seconds that an error's details ask a client to wait, or None."""
    for detail in objects_of(details):
        delay = detail.get("retryDelay")
        if detail.get("@type") == _RETRY_INFO and isinstance(delay, str):
            # A duration of protobuf: `12s`, `0.25s`.
            found = _DELAY.fullmatch(delay)
            return (float(found[1]) or None) if found else None
    return None


def status_and_message(error: StreamError) -> tuple[int, str]:
    """Return an error's HTTP status, and its message as Google phrases it."""
    overflow = context_overflow(error)
    if overflow is not None:
        return 400, _overflow_message(error.message, overflow)
    status = 504 if error.kind == "stalled" else 500
    if error.status_hint is not None:
        status = 503 if error.status_hint == _OVERLOADED else error.status_hint
    return status, error.message


def _overflow_message(message: str, overflow: ContextOverflow) -> str:
    """Return Google's message for a context overflow, which clients match."""
    if _TOO_LONG in message.lower():
        return message
    if overflow.input_tokens is None or overflow.limit is None or overflow.input_fits:
        return f"The {_TOO_LONG} exceeds the maximum number of tokens allowed: {message}"
    count, limit = overflow.input_tokens, overflow.limit
    return f"The {_TOO_LONG} ({count}) exceeds the maximum number of tokens allowed ({limit})."
