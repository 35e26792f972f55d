"""The end of a message in both directions: stop reason, token usage, error.

botocore 1.44.5, `StopReason` (read 2026-11-23).  `inputTokens` excludes tokens read from the cache
or written to it, and `totalTokens` includes them: so in all recordings with a cache, of Claude and
of Nova.  In a stream an error is an exception, a message of its own kind, which the framing reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from streamnorm._core.codec.endpoints import BEDROCK
from streamnorm._core.codec.event_messages import (
    CONVERSE_EXCEPTIONS,
    exception_error,
    exception_of,
)
from streamnorm._core.context_overflow import context_overflow
from streamnorm._core.events import StopReason, StreamError, Usage
from streamnorm._core.failures import response_status
from streamnorm._core.json import count_of, is_object, string_of
from streamnorm.dialects.bedrock_converse.wire import unknown_fields
from streamnorm.sse import Frame

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    # To a client the answer is cut either way; the raw reason names the bound.
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "guardrail_intervened": "refusal",
    "content_filtered": "refusal",
    "malformed_model_output": "other",
    "malformed_tool_use": "other",
}

NATIVE_STOP_REASONS = frozenset({"malformed_model_output", "malformed_tool_use"})
"""Reasons that have no unified one."""


def stop_reason_from_wire(raw: str, *, has_client_call: bool) -> StopReason:
    """Return the unified stop reason of a message.

    Args:
        raw: `stopReason` as spelt on the wire.
        has_client_call: Whether the message contains a client tool call.
    """
    reason = _STOP_REASONS.get(raw, "other")
    # A call of a server tool ends a message with `tool_use`, too.
    if reason in ("end_turn", "tool_use"):
        return "tool_use" if has_client_call else "end_turn"
    return reason


def stop_reason_to_wire(reason: StopReason, raw: str | None) -> str:
    """Return the `stopReason` for a unified reason: `raw` if `raw` maps to that reason."""
    if raw is not None and _STOP_REASONS.get(raw) == reason:
        return raw
    return "content_filtered" if reason == "refusal" else reason


def stop_sequence_from_wire(fields: object) -> str | None:
    """Return the stop sequence in `additionalModelResponseFields`, or None.

    Claude has it beside the reason, as in an answer, or in the `delta` of its last event.
    """
    if not is_object(fields):
        return None
    delta: Any = fields.get("delta")
    inner = string_of(delta, "stop_sequence") if is_object(delta) else ""
    return string_of(fields, "stop_sequence") or inner or None


# Nova repeats the counts of the cache under older names, and sends them alone by InvokeModel.
_READ = ("cacheReadInputTokens", "cacheReadInputTokenCount")
_WRITE = ("cacheWriteInputTokens", "cacheWriteInputTokenCount")


def usage_from_wire(counts: dict[str, Any], note: Callable[[str, str], None]) -> Usage:
    """Return a `usage` object as unified token counts.

    Args:
        counts: The object.
        note: Called with each deviation that is accepted.
    """
    read, write = _first_count(counts, _READ), _first_count(counts, _WRITE)
    tokens, output = count_of(counts.get("inputTokens")), count_of(counts.get("outputTokens"))
    cached = (read or 0) + (write or 0)
    if tokens is not None and cached:
        # A server that counts as other vendors do says so by its total.
        if count_of(counts.get("totalTokens")) == tokens + (output or 0):
            note("cached_input", "usage")
        else:
            tokens += cached
    mapped = ("inputTokens", "outputTokens", "totalTokens", *_READ, *_WRITE)
    return Usage(
        input_tokens=tokens,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=write,
        extra=unknown_fields(counts, *mapped) or None,
    )


def _first_count(counts: dict[str, Any], names: tuple[str, ...]) -> int | None:
    known = (count_of(counts.get(name)) for name in names)
    return next((count for count in known if count is not None), None)


def usage_to_wire(usage: Usage) -> dict[str, Any]:
    """Return token counts as `usage`; unknown counts are 0, since clients of boto3 sum counts."""
    read, write = usage.cache_read_tokens, usage.cache_write_tokens
    output = usage.output_tokens or 0
    # Servers may report more cached tokens than tokens of input; no count is negative here.
    fresh = max((usage.input_tokens or 0) - (read or 0) - (write or 0), 0)
    counts = {"cacheReadInputTokens": read, "cacheWriteInputTokens": write}
    return {
        **{name: count for name, count in counts.items() if count is not None},
        "inputTokens": fresh,
        "outputTokens": output,
        "totalTokens": fresh + (read or 0) + (write or 0) + output,
    }


# Clients match the text (anthropics/claude-code#8637).
_TOO_LONG = "Input is too long for requested model"


def error_from_wire(frame: Frame) -> StreamError | None:
    """Return the error in an exception frame; None for other frames."""
    if frame.event not in CONVERSE_EXCEPTIONS:
        return None
    return exception_error(frame.event, frame.data)


def exception_to_wire(error: StreamError) -> tuple[str, dict[str, Any]]:
    """Return the type and fields of the exception for an error."""
    overflow = context_overflow(error)
    if overflow is not None:
        return "validationException", {"message": message_to_wire(error)}
    return exception_of(error, CONVERSE_EXCEPTIONS)


def message_to_wire(error: StreamError) -> str:
    """Return an error's message; for a context overflow, return Amazon's message."""
    if context_overflow(error) is None or _TOO_LONG.lower() in error.message.lower():
        return error.message
    return f"{_TOO_LONG}: {error.message}"


def error_body(error: StreamError) -> dict[str, Any]:
    """Return the body of an error response, with the error type that boto3 reads."""
    stated = structs.replace(error, status_hint=response_status(error))
    return {"__type": BEDROCK.error_type(stated), "message": message_to_wire(error)}
