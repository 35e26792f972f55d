"""Error objects of `error` events and error responses.

They are read by `_core.provider_errors`, since compatible servers send errors in the form
of any vendor.
"""

from __future__ import annotations

from streamnorm._core.events import StreamError

__all__ = ["error_to_wire"]

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


def error_to_wire(error: StreamError) -> dict[str, str]:
    """Return the `error` object, its type by the status that the error stands for."""
    return {"type": _type_of(error), "message": error.message}


def _type_of(error: StreamError) -> str:
    status = error.status_hint
    if status is not None and 400 <= status < 500:
        return _TYPES.get(status, "invalid_request_error")
    if error.kind == "stalled":
        return "timeout_error"
    return _TYPES.get(status or 0, "api_error")
