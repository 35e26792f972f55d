"""Finish reasons of Chat Completions and its relatives."""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import MessageStop, StopReason, StreamError
from streamnorm._core.failures import upstream_error

__all__ = ["failed_finish", "message_stop"]

_NATURAL = frozenset({"stop", "eos", "end_turn", ""})
_TOOLS = frozenset({"tool_calls", "function_call", "tool_use"})
_LENGTH = frozenset({"length", "max_tokens", "model_length", "max_output_tokens"})
_REFUSED = frozenset({"content_filter", "sensitive", "safety"})
_FAILED = frozenset(
    {"error", "network_error", "abort", "insufficient_system_resource", "malformed_function_call"}
)


def message_stop(
    word: str | None,
    *,
    choice: int,
    called: bool,
    unfinished: bool,
    refused: bool,
    extra: dict[str, Any],
) -> MessageStop:
    """Return the end of one answer.

    Args:
        word: The last finish reason; None if none was sent.
        choice: Number of the answer.
        called: Whether it holds a client tool call.
        unfinished: Whether the arguments of one are incomplete.
        refused: Whether it holds a refusal.
        extra: Other fields of the choice's last chunk.
    """
    matched = next(
        (
            extra.pop(key)
            for key in ("stop_reason", "matched_stop")
            if isinstance(extra.get(key), str)
        ),
        None,
    )
    reason = _reason((word or "").lower(), called, matched)
    if word is None and called and unfinished:
        reason = "other"
    # OpenRouter says tool_calls where the upstream ran out of tokens within a call.
    if str(extra.get("native_finish_reason")).lower() in _LENGTH:
        reason = "max_tokens"
    if refused:
        reason = "refusal"
    return MessageStop(reason, word, matched, choice, extra or None)


def _reason(word: str, called: bool, matched: str | None) -> StopReason:
    if word in _LENGTH:
        return "max_tokens"
    if word in _REFUSED:
        return "refusal"
    if called:
        return "tool_use"
    if matched is not None:
        return "stop_sequence"
    return "end_turn" if word in _NATURAL or word in _TOOLS else "other"


def failed_finish(word: str) -> StreamError | None:
    """Return the error that a finish reason stands for, or None."""
    if word.lower() not in _FAILED:
        return None
    return upstream_error(f"the provider ended with {word!r}", code=word)
