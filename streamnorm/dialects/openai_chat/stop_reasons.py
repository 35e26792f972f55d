"""Finish reasons of Chat Completions and compatible servers, and the unified stop reasons.

A finish reason of a compatible server goes, in lower case, into the set of its meaning.
`validate` knows the vendor's finish reasons only.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import MessageStop, StopReason

# `eos` is Together's (together/eos).
_NATURAL = frozenset({"stop", "eos", "end_turn", ""})
# `function_call` is the legacy reason, `tool_use` that of proxies before Anthropic.
_TOOLS = frozenset({"tool_calls", "function_call", "tool_use"})
# `model_length` is Mistral's (mistral/model-length), the longer names are those of proxied vendors.
_LENGTH = frozenset(
    {"length", "max_tokens", "model_length", "max_output_tokens", "model_context_window_exceeded"}
)
# `sensitive` is GLM's (zai/sensitive), `safety` Gemini's.
_REFUSED = frozenset({"content_filter", "sensitive", "safety"})

_TO_WIRE = {
    "end_turn": "stop",
    "max_tokens": "length",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


def stop_reason_from_wire(
    finish_reason: str | None,
    *,
    choice: int,
    has_calls: bool,
    is_cut: bool,
    is_refused: bool,
    extra: dict[str, Any],
) -> MessageStop:
    """Return the stop of one choice.

    Args:
        finish_reason: The last finish reason; None if none was sent.
        choice: Index of the choice.
        has_calls: Whether the choice holds a client tool call.
        is_cut: Whether a call has incomplete arguments without a finish reason behind them.
        is_refused: Whether the choice holds a refusal.
        extra: Unknown fields of the last chunk; the stop sequence is removed from them.
    """
    # Strings alone: vLLM's `stop_reason` and SGLang's `matched_stop` are numbers where a token, and
    # no sequence, ended the text (sglang/matched-stop-sequence).
    fields = [key for key in ("stop_reason", "matched_stop") if isinstance(extra.get(key), str)]
    sequence = extra.pop(fields[0]) if fields else None
    reason = _reason((finish_reason or "").lower(), sequence, has_calls=has_calls)
    # No reason vouches for the arguments: the client must not run them.
    if is_cut and reason == "tool_use":
        reason = "other"
    # OpenRouter says tool_calls where the upstream ran out of tokens within a call.
    if str(extra.get("native_finish_reason")).lower() in _LENGTH:
        reason = "max_tokens"
    # The vendor ends refusals with `stop` (openai/refusal).
    if is_refused:
        reason = "refusal"
    return MessageStop(reason, finish_reason, sequence, choice, extra or None)


def _reason(finish_reason: str, sequence: str | None, *, has_calls: bool) -> StopReason:
    if finish_reason in _LENGTH:
        return "max_tokens"
    if finish_reason in _REFUSED:
        return "refusal"
    # Calls decide: OpenAI ends forced tools, and Gemini's endpoint all calls, with `stop`.
    if has_calls:
        return "tool_use"
    if sequence is not None:
        return "stop_sequence"
    # vLLM sends `tool_calls` where its parser found none (vllm/tool-calls-finish-without-a-call).
    return "end_turn" if finish_reason in _NATURAL or finish_reason in _TOOLS else "other"


def stop_reason_to_wire(reason: StopReason, *, is_refused: bool) -> str:
    """Return the finish reason of a choice; `stop` if a refusal was written, as the vendor does."""
    return "stop" if reason == "refusal" and is_refused else _TO_WIRE[reason]
