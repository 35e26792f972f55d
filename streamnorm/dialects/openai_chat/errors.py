"""Errors: the fields of chunks that report them, and the `error` object on the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamnorm._core.codec import RequestViolation
from streamnorm._core.events import StreamError
from streamnorm._core.failures import (
    error_subject,
    find_error,
    named_error,
    upstream_error,
)
from streamnorm._core.json import dumps
from streamnorm.dialects.openai_chat import wire

# No finish reasons of the vendor: OpenRouter's and Mistral's `error`, DeepSeek's
# `insufficient_system_resource` (deepseek/insufficient-system-resource).
_FAILED = frozenset(
    {"error", "network_error", "abort", "insufficient_system_resource", "malformed_function_call"}
)

# The vendor's type and code by HTTP status or by subject of the error, where they differ from
# the default of the status class.
_TO_WIRE: dict[int | str, tuple[str, str | None]] = {
    "context": ("invalid_request_error", "context_length_exceeded"),
    "model": ("invalid_request_error", "model_not_found"),
    401: ("invalid_request_error", "invalid_api_key"),
    # The vendor answers 429 with this type; servers with a status of their own send 402.
    402: ("insufficient_quota", "insufficient_quota"),
    403: ("permission_error", None),
    409: ("conflict", None),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    # The vendor has no status 529: an overloaded server answers 503.
    503: ("server_error", "overloaded"),
    504: ("server_error", "timeout"),
    529: ("server_error", "overloaded"),
}


def chunk_error(
    chunk: wire.Chunk, value: dict[str, Any], check_depth: Callable[[object], None]
) -> StreamError | None:
    """Return the error of a chunk, of `x_groq`, or of a choice; None if there is none.

    Args:
        chunk: The chunk.
        value: The chunk as plain JSON; read only if the chunk has an `error`.
        check_depth: Raises `Fatal` if a value nests too deep.
    """
    if chunk.error and (error := find_error(value)) is not None:
        return error
    # Groq reports some errors here alone (groq/error-under-x-groq).
    if chunk.x_groq and (groq := chunk.x_groq.get("error")):
        return _nested_error(groq, check_depth)
    for choice in chunk.choices or ():
        # OpenRouter relays the error of an upstream here (openrouter/error-in-the-choice).
        if choice.error:
            return _nested_error(choice.error, check_depth)
        reason = choice.finish_reason
        # An error in a stream has status 200: only the finish reason distinguishes it from an
        # answer.
        if reason and reason.lower() in _FAILED:
            return upstream_error(f"the provider ended with {reason!r}", code=reason)
    return None


def _nested_error(error: object, check_depth: Callable[[object], None]) -> StreamError:
    check_depth(error)
    return find_error({"error": error}) or named_error("", {})


def error_to_wire(error: StreamError, *, extras: bool) -> dict[str, Any]:
    """Return an error object, with the source's own type, code and fields if `extras`."""
    status = error.status_hint or 0
    default = "invalid_request_error" if 400 <= status < 500 else "server_error"
    subject = error_subject(error)
    type, code = _TO_WIRE.get(subject or status, (default, None))
    source_code = error.code if error.kind == "upstream" else error.kind
    if subject == "context":
        source_code = code  # llama.cpp and others have codes of their own
    if extras and error.kind == "upstream":  # decoded from this dialect: its own type and code
        fields = {"type": type, "param": None, **(error.extra or {}), "code": source_code}
    else:
        fields = {"type": type, "param": None, "code": code or source_code}
    return {"error": {"message": error.message, **fields}}


def refusal_body(violation: RequestViolation) -> bytes:
    """Return the response body for a refused request."""
    default = "invalid_request_error" if violation.status < 500 else "server_error"
    type, _ = _TO_WIRE.get(violation.status, (default, None))
    fields = {
        "message": violation.message,
        "type": violation.type or type,
        "param": violation.path or None,
        "code": violation.code,
    }
    return dumps({"error": fields})
