"""Token counts of Chat Completions and its relatives.

`prompt_tokens` holds the cached tokens, except where it evidently does not, and those
of audio, except at Mistral (pydantic/genai-prices#591); `completion_tokens` holds the
reasoning tokens, except at xAI.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from streamnorm._core.events import Usage
from streamnorm._core.json import count_of, is_object

__all__ = ["UsageReader", "merge_usage", "usage_to_wire"]

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


class UsageReader:
    """Merge the usage objects of one stream.

    Attributes:
        usage: The snapshot.
    """

    def __init__(self) -> None:
        self.usage = Usage()

    def merge(self, wire: dict[str, Any]) -> None:
        """Take one more usage object."""
        self.usage = merge_usage(self.usage, wire)


def usage_to_wire(usage: Usage, *, extras: bool) -> dict[str, Any]:
    """Return a snapshot as Chat Completions has it; what nobody said is 0.

    Args:
        usage: The snapshot.
        extras: Whether to write the vendor's other counts back.
    """
    prompt, completion = usage.input_tokens or 0, usage.output_tokens or 0
    wire: dict[str, Any] = dict(usage.extra or {}) if extras else {}
    wire |= {
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
            details = wire.get(owner)
            wire[owner] = {**(details if is_object(details) else {}), key: count}
    return wire


def _take(rest: dict[str, Any], places: tuple[tuple[str, ...], ...]) -> int | None:
    """Take a count out of `rest`, from the first place that has one."""
    taken: int | None = None
    for *parents, key in places:
        owner = rest.get(parents[0]) if parents else rest
        if is_object(owner):
            count = count_of(owner.get(key))
            if count is not None:
                del owner[key]
                taken = count if taken is None else taken
    return taken


def _said(rest: dict[str, Any]) -> dict[str, Any]:
    """Return what is neither null nor an empty object."""
    kept = {key: _said(value) if is_object(value) else value for key, value in rest.items()}
    return {key: value for key, value in kept.items() if value is not None and value != {}}
