"""The end of a response in both directions: status, stop reason, token counts, error.

`input_tokens` includes tokens read from and written to the cache, `output_tokens` includes
reasoning tokens.  An error is an `error` event, or the `error` of a failed response.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from streamnorm._core.codec import RequestViolation
from streamnorm._core.events import MessageStop, StopReason, StreamError, Usage
from streamnorm._core.failures import error_subject, named_error
from streamnorm._core.json import compact, count_of, is_object, object_in
from streamnorm.sse import Frame

_INCOMPLETE: dict[str, StopReason] = {
    "max_output_tokens": "max_tokens",
    "content_filter": "refusal",
}


def stop_reason_from_wire(
    status: str, incomplete_reason: str, *, has_tool_call: bool, has_refusal: bool
) -> StopReason:
    """Return the stop reason of a response.

    Args:
        status: `completed` or `incomplete`.
        incomplete_reason: `incomplete_details.reason`; empty if absent.
        has_tool_call: Whether the response holds a call for the client to execute.
        has_refusal: Whether the response holds a refusal.
    """
    if status == "incomplete":
        return _INCOMPLETE.get(incomplete_reason, "other")
    if has_tool_call:
        return "tool_use"
    return "refusal" if has_refusal else "end_turn"


def stop_reason_to_wire(stop: MessageStop, *, has_tool_call: bool, has_refusal: bool) -> str | None:
    """Return the `incomplete_details.reason` of a message stop; None for a `completed` response."""
    if stop.reason == "max_tokens":
        return "max_output_tokens"
    # A refusal part alone decodes as a refusal; together with calls it would decode as `tool_use`.
    if stop.reason == "refusal" and (has_tool_call or not has_refusal):
        return "content_filter"
    return stop.raw_reason if stop.reason == "other" else None


_INPUT, _OUTPUT = "input_tokens_details", "output_tokens_details"


def usage_from_wire(previous: Usage, usage: dict[str, Any]) -> Usage:
    """Return `previous`, updated with the counts of a usage object."""
    rest: dict[str, Any] = {
        key: dict(value) if is_object(value) else value for key, value in usage.items()
    }
    _pop_count(rest, "total_tokens")  # the sum of two others
    fields: dict[str, Any] = {
        "input_tokens": _pop_count(rest, "input_tokens"),
        "output_tokens": _pop_count(rest, "output_tokens"),
        "cache_read_tokens": _pop_count(rest.get(_INPUT), "cached_tokens"),
        "cache_write_tokens": _pop_count(rest.get(_INPUT), "cache_write_tokens"),
        "reasoning_tokens": _pop_count(rest.get(_OUTPUT), "reasoning_tokens"),
    }
    for key in (_INPUT, _OUTPUT):
        if rest.get(key) == {}:
            del rest[key]
    extra = {key: value for key, value in rest.items() if value is not None}
    fields["extra"] = {**(previous.extra or {}), **extra} or None
    return structs.replace(
        previous, **{key: value for key, value in fields.items() if value is not None}
    )


def _pop_count(owner: Any, key: str) -> int | None:
    """Remove and return a count; values of other types stay in `owner`."""
    count = count_of(owner.get(key)) if is_object(owner) else None
    if count is not None:
        del owner[key]
    return count


def usage_to_wire(usage: Usage, *, extras: bool) -> dict[str, Any]:
    """Return a usage snapshot as a usage object; unknown counts are 0.

    Args:
        usage: The counts.
        extras: Whether to write `usage.extra` back.
    """
    extra: dict[str, Any] = (usage.extra or {}) if extras else {}
    input_tokens, output_tokens = usage.input_tokens or 0, usage.output_tokens or 0
    # Codex fails at incomplete details.
    return {
        **extra,
        "input_tokens": input_tokens,
        _INPUT: {
            **_object(extra.get(_INPUT)),
            "cached_tokens": usage.cache_read_tokens or 0,
            "cache_write_tokens": usage.cache_write_tokens or 0,
        },
        "output_tokens": output_tokens,
        _OUTPUT: {
            **_object(extra.get(_OUTPUT)),
            "reasoning_tokens": usage.reasoning_tokens or 0,
        },
        "total_tokens": input_tokens + output_tokens,
    }


def _object(value: object) -> dict[str, Any]:
    return value if is_object(value) else {}


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
        "previous_response_not_found",  # at which clients send their whole input
    }
)


def error_from_wire(event: dict[str, Any], payload: str) -> StreamError:
    """Return the error in an `error` event, with nested or flat fields."""
    error = event.get("error")
    if is_object(error):
        # Behind a WebSocket the response to the request has no status and headers of its own.
        head = {key: event[key] for key in ("status", "headers") if event.get(key) is not None}
        return named_error(payload, {**event, "error": {**head, **error}})
    if error:
        return named_error(payload, event)
    flat = {key: value for key, value in event.items() if key not in _EVENT_HEAD}
    # An event without `message` has another vendor's shape.
    return named_error(payload, {"error": flat} if "message" in flat else flat)


def error_to_wire(error: StreamError, *, extras: bool) -> dict[str, Any]:
    """Return an error object: message, type, param and code.

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


# Type and code in the body of an error response, by HTTP status.  All of OpenAI's endpoints
# share them; `error` events have other codes.
_BODY_ERRORS = {
    401: ("invalid_request_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    403: ("permission_error", None),
    404: ("invalid_request_error", "model_not_found"),
    409: ("conflict", None),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    503: ("server_error", "overloaded"),
    504: ("server_error", "timeout"),
    529: ("server_error", "overloaded"),
}


def error_body(error: StreamError) -> bytes:
    """Return the body of an error response."""
    type, code = _type_and_code(error.status_hint or 500)
    fields = {"message": error.message, "type": type, "param": None, "code": code}
    return compact({"error": fields}).encode()


def refusal_body(violation: RequestViolation) -> bytes:
    """Return the body of the error response for a refused request."""
    type, _ = _type_and_code(violation.status)
    fields = {
        "message": violation.message,
        "type": violation.type or type,
        "param": violation.path or None,
        "code": violation.code,
    }
    return compact({"error": fields}).encode()


def _type_and_code(status: int) -> tuple[str, str | None]:
    default = "invalid_request_error" if status < 500 else "server_error"
    return _BODY_ERRORS.get(status, (default, None))


def overloaded_frames(message: str, stream: Sequence[Frame], before: int) -> bytes:
    """Return the events of an overloaded server: both forms of `error`, and `response.failed`.

    `response.failed` is left out if no earlier frame holds a response to repeat.

    Args:
        message: Message of the error.
        stream: The frames of the stream without the error.
        before: Number of frames that precede the error.
    """
    values = [object_in(frame.data) for frame in stream[:before]]
    numbers = [value["sequence_number"] for value in values if "sequence_number" in value]
    number = numbers[-1] + 1 if numbers and isinstance(numbers[-1], int) else 0
    fields = {"code": "server_is_overloaded", "message": message, "param": None}
    nested = {"type": "server_error", **fields}
    data = _frame("error", {"sequence_number": number, **fields, "error": nested})
    responses = [value["response"] for value in values if is_object(value.get("response"))]
    if responses:
        reason = {"code": fields["code"], "message": message}
        failed = {**responses[-1], "status": "failed", "error": reason}
        data += _frame("response.failed", {"sequence_number": number + 1, "response": failed})
    return data


def _frame(type: str, fields: dict[str, Any]) -> bytes:
    return f"event: {type}\ndata: {compact({'type': type, **fields})}\n\n".encode()
