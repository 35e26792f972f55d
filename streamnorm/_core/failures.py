"""How a stream fails: the errors that rooms raise, and what a provider's error means."""

from __future__ import annotations

from streamnorm._core.events import Failed, StreamError, Truncated

__all__ = ["NOT_A_STREAM", "Fatal", "error_outcome", "too_large", "upstream_error"]

NOT_A_STREAM = "not_a_stream"
"""Code of the `StreamError("malformed")` for a body that is no event stream."""


class Fatal(Exception):
    """Raised within a room: the stream ends here, with this error.  Never leaves a decoder."""

    def __init__(self, error: StreamError) -> None:
        super().__init__(error.kind)
        self.error = error


def error_outcome(error: StreamError) -> Failed | Truncated:
    """Return how a stream ended that ends in `error`."""
    if error.kind in ("truncated", "transport", "stalled"):
        return Truncated(error)
    return Failed(error)


def too_large(limit: str, bound: int) -> Fatal:
    """Return the end of a stream that passes a limit."""
    return Fatal(StreamError("too_large", f"{limit} of {bound} passed", code=limit))


# The words of vendors' error types and codes, most telling first.
_STATUS_WORDS = (
    ("insufficient_quota", 402),
    ("billing", 402),
    ("payment", 402),
    ("rate_limit", 429),
    ("too_many_requests", 429),
    ("throttl", 429),
    ("quota", 429),
    ("resource_exhausted", 429),
    ("overloaded", 529),
    ("unavailable", 503),
    ("capacity", 503),
    ("insufficient_system_resource", 503),
    ("timeout", 504),
    ("deadline_exceeded", 504),
    ("api_key", 401),
    ("authentication", 401),
    ("unauthorized", 401),
    ("unauthenticated", 401),
    ("permission", 403),
    ("forbidden", 403),
    ("not_found", 404),
    ("conflict", 409),
    ("too_large", 413),
    ("context_length", 400),
    ("content_policy", 400),
    ("tool_use_failed", 400),
    ("invalid", 400),
    ("bad_request", 400),
    ("server", 500),
    ("internal", 500),
    ("api_error", 500),
)


def upstream_error(
    message: str,
    *,
    code: str | None = None,
    type: str | None = None,
    status: int | None = None,
    extra: dict[str, object] | None = None,
) -> StreamError:
    """Return a provider's error, with the HTTP status that it stands for.

    Args:
        message: The provider's words.
        code: Its code.
        type: Its type, which is the code where there is none.
        status: Its HTTP status, where it says one.
        extra: Its other fields.
    """
    if status is None or not 400 <= status <= 599:
        words = f"{code or ''} {type or ''}".lower()
        status = next((status for word, status in _STATUS_WORDS if word in words), None)
    retryable = None if status is None else status in (408, 409, 429) or status >= 500
    if code and type and code != type:
        extra = {"type": type, **(extra or {})}
    return StreamError(
        "upstream", message, code or type, status, retryable, dict(extra) if extra else None
    )
