"""Token counts of Chat Completions and its relatives.

`prompt_tokens` holds the cached tokens, except where it evidently does not, and those
of audio, except at Mistral (pydantic/genai-prices#591); `completion_tokens` holds the
reasoning tokens, except at xAI.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from streamnorm._json import is_object
from streamnorm.events import Usage

__all__ = ["merge_usage"]

_CACHE_READ = (
    ("prompt_tokens_details", "cached_tokens"),
    ("prompt_cache_hit_tokens",),  # DeepSeek
    ("cached_tokens",),  # Moonshot
    ("num_cached_tokens",),  # Mistral
    ("cache_read_input_tokens",),  # proxies before Anthropic
)
_CACHE_WRITE = (
    ("prompt_tokens_details", "cache_write_tokens"),
    ("cache_creation_input_tokens",),
)
_TOO_MANY = 2**63
_REASONING = (("completion_tokens_details", "reasoning_tokens"), ("reasoning_tokens",))


def merge_usage(before: Usage, wire: dict[str, Any]) -> Usage:
    """Return the snapshot after one more usage object; what it does not say stays."""
    rest: dict[str, Any] = {
        key: dict(value) if is_object(value) else value for key, value in wire.items()
    }
    prompt = _take(rest, (("prompt_tokens",),))
    completion = _take(rest, (("completion_tokens",),))
    total = _take(rest, (("total_tokens",),))
    read = _take(rest, _CACHE_READ)
    write = _take(rest, _CACHE_WRITE)
    reasoning = _take(rest, _REASONING)
    if prompt is not None and (read or 0) + (write or 0) > prompt:
        prompt += (read or 0) + (write or 0)  # so the cache was left out of it
    elif "prompt_audio_seconds" in rest and total is not None:
        prompt = max(total - (completion or 0), prompt or 0)  # Mistral leaves out the audio
    elif reasoning and completion is not None and total == (prompt or 0) + completion + reasoning:
        completion += reasoning  # so it was left out of it
    said = {
        "input_tokens": prompt,
        "output_tokens": completion,
        "cache_read_tokens": read,
        "cache_write_tokens": write,
        "reasoning_tokens": reasoning,
        "extra": {**(before.extra or {}), **_said(rest)} or None,
    }
    return structs.replace(
        before, **{key: value for key, value in said.items() if value is not None}
    )


def _take(rest: dict[str, Any], places: tuple[tuple[str, ...], ...]) -> int | None:
    """Take a count out of `rest`, from the first place that has one."""
    taken: int | None = None
    for *parents, key in places:
        owner = rest.get(parents[0]) if parents else rest
        if is_object(owner):
            value = owner.get(key)
            # JSON numbers such as 12.0 are counts; true is none, nor are -1 and 1e300.
            if (
                isinstance(value, (int, float))
                and not isinstance(value, bool)
                and 0 <= value < _TOO_MANY
                and value == value // 1
            ):
                count = int(owner.pop(key))
                taken = count if taken is None else taken
    return taken


def _said(rest: dict[str, Any]) -> dict[str, Any]:
    """Return what is neither null nor an empty object."""
    kept = {key: _said(value) if is_object(value) else value for key, value in rest.items()}
    return {key: value for key, value in kept.items() if value is not None and value != {}}
