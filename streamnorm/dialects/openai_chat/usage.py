"""Token counts of Chat Completions and compatible servers.

`prompt_tokens` includes the audio tokens, except at Mistral (pydantic/genai-prices#591), and
the cached tokens, unless there are more of these; `completion_tokens` includes the reasoning
tokens, except at xAI.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from streamnorm._core.events import Usage
from streamnorm._core.json import count_of, is_object

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


def usage_from_wire(before: Usage, reported: dict[str, Any]) -> Usage:
    """Return the snapshot `before` with the counts of a usage object; absent counts stay."""
    rest: dict[str, Any] = {
        key: dict(value) if is_object(value) else value for key, value in reported.items()
    }
    prompt = _pop_count(rest, (("prompt_tokens",),))
    completion = _pop_count(rest, (("completion_tokens",),))
    total = _pop_count(rest, (("total_tokens",),))
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
    elif "prompt_audio_seconds" in rest and total is not None:
        prompt = max(total - (completion or 0), prompt or 0)  # Mistral excludes the audio
        totals.clear()
    # xAI's completion excludes the reasoning (xai/reasoning-outside-completion); only the total
    # shows it.
    if reasoning and completion is not None and total in totals:
        completion += reasoning
    counts = {
        "input_tokens": prompt,
        "output_tokens": completion,
        "cache_read_tokens": read,
        "cache_write_tokens": write,
        "reasoning_tokens": reasoning,
        "extra": {**(before.extra or {}), **_drop_absent(rest)} or None,
    }
    return structs.replace(
        before, **{key: value for key, value in counts.items() if value is not None}
    )


class UsageReader:
    """Merges the usage objects of one stream.

    Attributes:
        usage: The snapshot after the last usage object.
    """

    def __init__(self) -> None:
        self.usage = Usage()

    def merge(self, reported: dict[str, Any]) -> None:
        """Merge a usage object into the snapshot."""
        # Counts are those of the whole answer: Perplexity's and Baseten's grow with every chunk,
        # and adding them up would count tokens twice.
        self.usage = usage_from_wire(self.usage, reported)


def usage_to_wire(usage: Usage, *, extras: bool) -> dict[str, Any]:
    """Return a usage object; unknown counts that clients require are 0.

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


def _pop_count(rest: dict[str, Any], paths: tuple[tuple[str, ...], ...]) -> int | None:
    """Remove the counts at all paths from `rest`, and return the first."""
    first: int | None = None
    for *parents, key in paths:
        owner = rest.get(parents[0]) if parents else rest
        if is_object(owner):
            count = count_of(owner.get(key))
            # All names of a count are removed: DeepSeek sends one count under two
            # (deepseek/cache-hit-and-miss).
            if count is not None:
                del owner[key]
                first = count if first is None else first
    return first


def _drop_absent(rest: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that are neither null nor an empty object."""
    inner = {key: _drop_absent(value) if is_object(value) else value for key, value in rest.items()}
    return {key: value for key, value in inner.items() if value is not None and value != {}}
