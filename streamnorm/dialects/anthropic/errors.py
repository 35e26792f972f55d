"""Errors in a stream, in both directions.

Frames with the event line or type `error` are read by `_core.provider_errors` alone.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import StreamError
from streamnorm._core.json import is_object
from streamnorm._core.provider_errors import find_error

__all__ = ["error_to_wire", "untyped_error_from_wire"]

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
