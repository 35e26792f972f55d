"""The end of an answer in both directions: stop reason, token usage, error.

`ai` 7.0.173, `finishReason` of the chunk `finish`; another word ends the whole answer with an
error of the schema.  The protocol has no field for usage, which stands in the metadata of the
message: the names are those of `LanguageModelUsage` of `ai` 5 to 7, whose `inputTokens` includes
the cached ones.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import StopReason, StreamError, Usage
from streamnorm._core.failures import upstream_error
from streamnorm._core.json import clean, count_of
from streamnorm.dialects.ui_message_stream.wire import Chunk, chunk, text_field

_TO_WIRE: dict[StopReason, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool-calls",
    "refusal": "content-filter",
    "pause": "other",
    "other": "other",
}
_FROM_WIRE: dict[str, StopReason] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool-calls": "tool_use",
    "content-filter": "refusal",
}

INTERRUPTED = "interrupted"
"""Reason of an answer that was cut (v7)."""

ERROR = "error"
"""Reason of an answer that failed."""


def stop_reason_to_wire(reason: StopReason) -> str:
    """Return a stop reason as `finishReason`."""
    return _TO_WIRE[reason]


def stop_reason_from_wire(raw: str, *, has_open_call: bool) -> StopReason:
    """Return a `finishReason` as unified stop reason.

    Args:
        raw: `finishReason` as spelt on the wire; "" if there was none.
        has_open_call: Whether a client tool call has no result.
    """
    reason = _FROM_WIRE.get(raw, "other") if raw else "end_turn"
    if reason in ("end_turn", "tool_use"):
        return "tool_use" if has_open_call else "end_turn"
    return reason


_NAMES = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cachedInputTokens": "cache_read_tokens",
    "cacheWriteInputTokens": "cache_write_tokens",
    "reasoningTokens": "reasoning_tokens",
}
_TOTAL = "totalTokens"


def usage_to_wire(usage: Usage) -> dict[str, Any]:
    """Return the known counts as a `usage` object."""
    counts = {name: getattr(usage, field) for name, field in _NAMES.items()}
    if usage.input_tokens is not None and usage.output_tokens is not None:
        counts[_TOTAL] = usage.input_tokens + usage.output_tokens
    return {name: count for name, count in counts.items() if count is not None}


def usage_from_wire(counts: dict[str, Any]) -> Usage | None:
    """Return a `usage` object as token counts; None if it has no count that the AI SDK defines."""
    known = {field: count_of(counts.get(name)) for name, field in _NAMES.items()}
    if all(count is None for count in known.values()):
        return None
    rest = {name: item for name, item in counts.items() if name not in _NAMES and name != _TOTAL}
    return Usage(**known, extra=rest or None)


_UNKNOWN = "the provider reported an error"


def error_from_wire(value: Chunk) -> StreamError:
    """Return the error of an `error` chunk, which has only a text."""
    return upstream_error(clean(text_field(value, "errorText")))


def error_to_wire(error: StreamError) -> bytes:
    """Return the `error` chunk of an error; `useChat` shows its text to the user."""
    return chunk({"type": "error", "errorText": error.message or _UNKNOWN})


def error_body(error: StreamError) -> bytes:
    """Return the body of an error response, a text that `useChat` shows."""
    return (error.message or _UNKNOWN).encode("utf-8", "replace")
