"""The end of an answer in both directions: finish reason, token counts, error.

A finish reason of a compatible server goes, in lower case, into the set of its meaning.
`validate` knows the vendor's finish reasons only.

`prompt_tokens` includes the audio tokens, except at Mistral (pydantic/genai-prices#591), and
the cached tokens, unless there are more of these; `completion_tokens` includes the reasoning
tokens, except at xAI.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from streamnorm._core.codec import RequestViolation
from streamnorm._core.events import MessageStop, StopReason, StreamError, Usage
from streamnorm._core.failures import (
    error_subject,
    find_error,
    named_error,
    upstream_error,
)
from streamnorm._core.json import count_of, dumps, is_object
from streamnorm.dialects.openai_chat import wire

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
# No finish reasons of the vendor: OpenRouter's and Mistral's `error`, DeepSeek's
# `insufficient_system_resource` (deepseek/insufficient-system-resource).
_FAILED = frozenset(
    {"error", "network_error", "abort", "insufficient_system_resource", "malformed_function_call"}
)

_FINISH_REASONS = {
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
    """Return the message stop of one choice, with its stop reason.

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
    """Return the finish reason for a stop reason; `stop` if the choice holds a refusal."""
    return "stop" if reason == "refusal" and is_refused else _FINISH_REASONS[reason]


# The names of each count, with the object that holds it if that is not the usage object itself.
_PROMPT = ((None, "prompt_tokens"),)
_COMPLETION = ((None, "completion_tokens"),)
_TOTAL = ((None, "total_tokens"),)
_CACHE_READ = (
    ("prompt_tokens_details", "cached_tokens"),
    (None, "prompt_cache_hit_tokens"),  # DeepSeek
    (None, "cached_tokens"),  # Moonshot
    (None, "num_cached_tokens"),  # Mistral
    (None, "cache_read_input_tokens"),  # proxies before Anthropic
)
_CACHE_WRITE = (
    ("prompt_tokens_details", "cache_write_tokens"),
    (None, "cache_creation_input_tokens"),
)
_REASONING = (("completion_tokens_details", "reasoning_tokens"), (None, "reasoning_tokens"))


def usage_from_wire(before: Usage, reported: dict[str, Any]) -> Usage:
    """Return the snapshot `before`, updated with the counts of a usage object."""
    rest = _drop_absent(reported)
    prompt = _pop_count(rest, _PROMPT)
    completion = _pop_count(rest, _COMPLETION)
    total = _pop_count(rest, _TOTAL)
    read = _pop_count(rest, _CACHE_READ)
    write = _pop_count(rest, _CACHE_WRITE)
    reasoning = _pop_count(rest, _REASONING)
    # Values of `total_tokens` that show that `completion_tokens` excludes the reasoning.
    totals = {(prompt or 0) + (completion or 0) + (reasoning or 0)}
    # Some of xAI's servers, and proxies before Anthropic, leave the cache out
    # (xai/citations-on-the-last-chunk, Helicone/helicone#5652).
    if prompt is not None and (read or 0) + (write or 0) > prompt:
        prompt += (read or 0) + (
            write or 0
        )  # `prompt_tokens` excludes the cache, the total perhaps too
        totals.add(prompt + (completion or 0) + (reasoning or 0))
        totals.discard(prompt + (completion or 0))
    elif "prompt_audio_seconds" in reported and total is not None:
        prompt = max(total - (completion or 0), prompt or 0)  # Mistral excludes the audio
        totals.clear()
    # xAI's completion excludes the reasoning (xai/reasoning-outside-completion); only the total
    # shows it.
    if reasoning and completion is not None and total in totals:
        completion += reasoning
    return Usage(
        before.input_tokens if prompt is None else prompt,
        before.output_tokens if completion is None else completion,
        before.cache_read_tokens if read is None else read,
        before.cache_write_tokens if write is None else write,
        before.reasoning_tokens if reasoning is None else reasoning,
        {**(before.extra or {}), **rest} or None,
    )


class UsageReader(Struct, eq=False):
    """Reader of one stream's usage objects, which merges each object into a snapshot.

    Attributes:
        usage: The snapshot after the last usage object.
    """

    usage: Usage = Usage()

    def merge(self, reported: dict[str, Any]) -> None:
        """Merge a usage object into the snapshot."""
        # Counts are those of the whole answer: Perplexity's and Baseten's grow with every chunk,
        # and adding them up would count tokens twice.
        self.usage = usage_from_wire(self.usage, reported)


def usage_to_wire(usage: Usage, *, extras: bool) -> dict[str, Any]:
    """Return a usage snapshot as a usage object; required but unknown counts are 0.

    Args:
        usage: The snapshot.
        extras: Whether the counts in `extra` are written as well.
    """
    # The three counts are required by the vendor's types.
    prompt, completion = usage.input_tokens or 0, usage.output_tokens or 0
    fields: dict[str, Any] = dict(usage.extra or {}) if extras else {}
    fields |= {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    for owner, key, count in (
        ("prompt_tokens_details", "cached_tokens", usage.cache_read_tokens),
        ("prompt_tokens_details", "cache_write_tokens", usage.cache_write_tokens),
        ("completion_tokens_details", "reasoning_tokens", usage.reasoning_tokens),
    ):
        if count is not None:
            details = fields.get(owner)
            fields[owner] = {**(details if is_object(details) else {}), key: count}
    return fields


def _pop_count(rest: dict[str, Any], names: tuple[tuple[str | None, str], ...]) -> int | None:
    """Remove the counts of all names from `rest`; return the first count found."""
    first: int | None = None
    for parent, key in names:
        owner = rest if parent is None else rest.get(parent)
        if is_object(owner) and key in owner and (count := count_of(owner[key])) is not None:
            # All names of a count are removed: DeepSeek sends one count under two
            # (deepseek/cache-hit-and-miss).
            del owner[key]
            if parent is not None and not owner:
                del rest[parent]
            first = count if first is None else first
    return first


def _drop_absent(rest: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that are neither null nor empty objects."""
    fields: dict[str, Any] = {}
    for key, value in rest.items():
        item = _drop_absent(value) if is_object(value) else value
        if item is not None and item != {}:
            fields[key] = item
    return fields


# The vendor's type and code by HTTP status or by subject of the error, where they differ from
# the default of the status class.
_TYPES_AND_CODES: dict[int | str, tuple[str, str | None]] = {
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
    """Return the error that a chunk, its `x_groq` or a choice holds; None if there is no error.

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
    """Return an error object, with the provider's own fields if `extras`."""
    status = error.status_hint or 0
    default = "invalid_request_error" if 400 <= status < 500 else "server_error"
    subject = error_subject(error)
    type, code = _TYPES_AND_CODES.get(subject or status, (default, None))
    source_code = error.code if error.kind == "upstream" else error.kind
    if subject == "context":
        source_code = code  # llama.cpp and others have codes of their own
    if extras and error.kind == "upstream":  # decoded from this dialect: its own type and code
        fields = {"type": type, "param": None, **(error.extra or {}), "code": source_code}
    else:
        fields = {"type": type, "param": None, "code": code or source_code}
    return {"error": {"message": error.message, **fields}}


def refusal_body(violation: RequestViolation) -> bytes:
    """Return the body of the error response for a refused request."""
    default = "invalid_request_error" if violation.status < 500 else "server_error"
    type, _ = _TYPES_AND_CODES.get(violation.status, (default, None))
    fields = {
        "message": violation.message,
        "type": violation.type or type,
        "param": violation.path or None,
        "code": violation.code,
    }
    return dumps({"error": fields})
