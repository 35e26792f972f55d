"""The end of a message in both directions: stop reason, token usage, error.

https://docs.anthropic.com/en/docs/build-with-claude/streaming (read 2026-11-21).  Anthropic's
`input_tokens` excludes tokens read from the cache or written to it.  Every count covers the
whole message so far: a later count replaces an earlier one, even by a smaller number, as after
a compaction.

`_core.failures` reads error frames with the event line or the type `error`; this module reads
errors that have neither, and writes all.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.context_overflow import ContextOverflow, context_overflow
from streamnorm._core.events import StopReason, StreamError, Usage
from streamnorm._core.failures import find_error
from streamnorm._core.json import count_of, is_object
from streamnorm.dialects.anthropic.wire import unknown_fields

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    # To a client the answer is cut either way; the raw reason names the bound.
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_use",
    "refusal": "refusal",
    "pause_turn": "pause",
    # After a compaction with `pause_after_compaction` the client sends it back to continue.
    "compaction": "pause",
}


def stop_reason_from_wire(
    raw: str | None, *, has_client_call: bool, has_unfinished_call: bool
) -> StopReason:
    """Return the unified stop reason of a message.

    Args:
        raw: `stop_reason` as spelt on the wire; None if none was sent.
        has_client_call: Whether the message contains a client tool call.
        has_unfinished_call: Whether a client tool call has incomplete arguments.
    """
    # Nothing shows that the arguments are whole (proxy/no-message-delta-in-arguments).
    if raw is None and has_unfinished_call:
        return "other"
    reason = "end_turn" if raw is None else _STOP_REASONS.get(raw, "other")
    # Compatible servers end a message with calls by `end_turn`, and one without by `tool_use`.
    if reason in ("end_turn", "tool_use"):
        return "tool_use" if has_client_call else "end_turn"
    return reason


def stop_reason_to_wire(reason: StopReason, raw: str | None) -> str:
    """Return the `stop_reason` for a unified reason: `raw` if `raw` maps to that reason."""
    # The API's finer reasons return unchanged: a compaction as a compaction.
    if raw is not None and _STOP_REASONS.get(raw) == reason:
        return raw
    return "pause_turn" if reason == "pause" else reason


_INPUTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_COUNTS = frozenset({*_INPUTS, "output_tokens"})
_THINKING = "thinking_tokens"


class UsageReader:
    """A reader that merges the `usage` objects of one stream.

    Attributes:
        usage: Snapshot of all objects so far.
    """

    def __init__(self) -> None:
        self.usage = Usage()
        self._counts: dict[str, int] = {}
        self._extra: dict[str, Any] = {}

    def merge(self, counts: dict[str, Any]) -> bool:
        """Merge a `usage` object; return whether the accumulated counts changed."""
        # Servers that count the input in `message_start` send zeros for it in `message_delta`.
        # A zero next to another input count is genuine: the API has replaced 55,096 cached
        # tokens by 181 uncached and 0 cached ones.
        has_input = any(map(count_of, map(counts.get, _INPUTS)))
        for key, value in counts.items():
            if key in _COUNTS and (count := count_of(value)) is not None:
                # SGLang and vLLM count the input only in `message_delta`, others only in the start
                # (proxy/zeros-in-message-delta).
                if has_input or key == "output_tokens" or not self._counts.get(key):
                    self._counts[key] = count
            elif key == "output_tokens_details" and is_object(value):
                self._merge_details(value)
            elif value is not None:
                self._extra[key] = value
        before, self.usage = self.usage, self._snapshot()
        return self.usage != before

    def _merge_details(self, details: dict[str, Any]) -> None:
        unknown = unknown_fields(details)
        count = count_of(unknown.get(_THINKING))
        if count is not None:
            self._counts[_THINKING] = count
            del unknown[_THINKING]
        if unknown:
            self._extra["output_tokens_details"] = unknown

    def _snapshot(self) -> Usage:
        counts = self._counts
        # The unified count includes the cache, as all other vendors count.
        inputs = [counts[key] for key in _INPUTS if key in counts]
        return Usage(
            input_tokens=sum(inputs) if inputs else None,
            output_tokens=counts.get("output_tokens"),
            cache_read_tokens=counts.get("cache_read_input_tokens"),
            cache_write_tokens=counts.get("cache_creation_input_tokens"),
            reasoning_tokens=counts.get(_THINKING),
            extra=dict(self._extra) or None,
        )


def usage_to_wire(usage: Usage) -> dict[str, Any]:
    """Return token counts as a `usage` object; unknown counts are 0.

    Claude Code crashes without input and output tokens (glidea/claude-worker-proxy#19).
    """
    read, write = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    counts: dict[str, Any] = {
        # Servers may report more cached tokens than tokens of input; no count is negative here.
        "input_tokens": max((usage.input_tokens or 0) - read - write, 0),
        "cache_creation_input_tokens": write,
        "cache_read_input_tokens": read,
        "output_tokens": usage.output_tokens or 0,
    }
    if usage.reasoning_tokens is not None:
        counts["output_tokens_details"] = {_THINKING: usage.reasoning_tokens}
    return counts


# Claude Code compacts the conversation at the first text, and requests fewer tokens at the
# numbers after the second (musistudio/claude-code-router#1799, anthropics/claude-code#86507).
_PROMPT = "prompt is too long"
_LIMIT = "exceed context limit"
_ADVICE = "decrease input length or `max_tokens` and try again"

_ERROR_TYPES = {
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
    """Return the error in a payload without a known type, in any vendor's format.

    Compatible servers and proxies send errors of other vendors, without a `type`.  A payload
    with a `type` is an event, unless it has an `error` as well.
    """
    if is_object(value) and isinstance(value.get("type"), str) and not value.get("error"):
        return None
    return find_error(value)


def error_to_wire(error: StreamError, *, extras: bool) -> dict[str, Any]:
    """Return the `error` object, with the type for the error's HTTP status.

    Args:
        error: The error.
        extras: Whether to write the API's `details` back, which the SDKs read.
    """
    overflow = context_overflow(error)
    if overflow is not None:
        message = _overflow_message(error.message, overflow)
        return {"type": "invalid_request_error", "message": message}
    details = (error.extra or {}).get("details") if extras else None
    # The SDK's tool runner goes on without threads by `details.error_code`.
    fields = {"details": details} if is_object(details) else {}
    return {"type": _type_of(error), "message": error.message, **fields}


def _overflow_message(message: str, overflow: ContextOverflow) -> str:
    """Return Anthropic's message for a context overflow, which clients match."""
    if any(text in message.lower() for text in (_PROMPT, _LIMIT)):
        return message
    size = f"{overflow.input_tokens} + {overflow.output_tokens} > {overflow.limit}"
    if overflow.input_fits:
        return f"{_PROMPT}: input length and `max_tokens` {_LIMIT}: {size}, {_ADVICE}"
    if overflow.input_tokens is not None and overflow.limit is not None:
        return f"{_PROMPT}: {overflow.input_tokens} tokens > {overflow.limit} maximum"
    return f"{_PROMPT}: {message}"


def _type_of(error: StreamError) -> str:
    status = error.status_hint
    if status is not None and 400 <= status < 500:
        return _ERROR_TYPES.get(status, "invalid_request_error")
    if error.kind == "stalled":
        return "timeout_error"
    return _ERROR_TYPES.get(status or 0, "api_error")
