"""Errors of runs, in both directions."""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import StreamError
from streamnorm._core.failures import upstream_error
from streamnorm._core.json import string_of
from streamnorm.dialects.ag_ui.wire import unknown_fields


def error_to_wire(error: StreamError) -> dict[str, Any]:
    """Return `message` and `code` of a `RUN_ERROR`, or of the body of an error response."""
    return {"message": error.message, "code": error.code or error.kind}


def error_from_wire(value: dict[str, Any]) -> StreamError:
    """Return the error of a `RUN_ERROR`."""
    extra = unknown_fields(value, "type", "message", "code", "usage", "timestamp")
    return upstream_error(
        string_of(value, "message"), code=string_of(value, "code") or None, extra=extra
    )
