"""Token usage, in both directions.

`inputTokens` excludes tokens read from the cache or written to it, and `totalTokens` includes
them: so in all recordings with a cache, of Claude and of Nova.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamnorm._core.events import Usage
from streamnorm._core.json import count_of
from streamnorm.dialects.bedrock_converse.wire import unknown_fields

# Nova repeats the counts of the cache under older names, and sends them alone by InvokeModel.
_READ = ("cacheReadInputTokens", "cacheReadInputTokenCount")
_WRITE = ("cacheWriteInputTokens", "cacheWriteInputTokenCount")


def usage_from_wire(counts: dict[str, Any], note: Callable[[str, str], None]) -> Usage:
    """Return the tokens of a `usage`.

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
    """Return the `usage` of a snapshot; unknown counts are 0, since clients of boto3 add them."""
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
