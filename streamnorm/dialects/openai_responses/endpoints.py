"""The HTTP interface of Responses: paths, error bodies and error events.

https://platform.openai.com/docs/api-reference/responses-streaming (read 2026-11-21).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from streamnorm._core.codec import Endpoints, RequestViolation, Route
from streamnorm._core.events import StreamError
from streamnorm._core.json import compact, is_object, object_in
from streamnorm.sse import Frame

_STORED = r"/responses/(?P<response_id>[^/]+)"

ENDPOINTS = Endpoints(
    routes=(
        Route("POST", re.compile(r"/responses\Z"), "message"),
        Route("POST", re.compile(r"/responses/input_tokens\Z"), "count"),
        Route("POST", re.compile(r"/responses/compact\Z"), "compact"),
        Route("GET", re.compile(rf"{_STORED}\Z"), "response"),
        Route("DELETE", re.compile(rf"{_STORED}\Z"), "delete"),
        Route("POST", re.compile(rf"{_STORED}/cancel\Z"), "cancel"),
        Route("GET", re.compile(rf"{_STORED}/input_items\Z"), "input_items"),
        Route("GET", re.compile(r"/models\Z"), "models"),
        Route("GET", re.compile(r"\A(?>.*?/models/)(?P<model>.+)\Z"), "model"),
    ),
    versioned_base=True,
    key_headers=("authorization", "api-key"),  # the second is Azure's
    vendor_headers=("openai-beta", "openai-organization", "openai-project"),
    account_headers=frozenset({"openai-organization", "openai-project"}),
    forwarded_query=(
        *("include", "include[]", "include_obfuscation", "stream", "starting_after"),
        *("after", "limit", "order"),
    ),
)

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
    """Return the response body for a refused request."""
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
    """Return `error`, flat as documented and nested as sent, and `response.failed`.

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
