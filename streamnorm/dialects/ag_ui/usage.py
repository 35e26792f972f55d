"""Token usage, in both directions.

`TokenUsage` of `@ag-ui/core` 1.0.0 (read 2026-11-27): an array with one entry per provider and
model; input and output are totals, the other counts parts of them.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import Usage
from streamnorm._core.json import count_of, objects_of

# The client refuses the event, and so the run, for a count that JavaScript cannot hold.
_MAX_COUNT = 2**53 - 1

_FIELDS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "reasoning_tokens": "reasoningTokens",
    "cache_read_tokens": "cachedInputTokens",
    "cache_write_tokens": "cacheWriteInputTokens",
}


def usage_to_wire(usage: Usage, model: str) -> list[dict[str, Any]]:
    """Return the `usage` array; [] if no count is known."""
    # The clients reject null, so an unknown count is left out.
    counts = {wire: getattr(usage, name) for name, wire in _FIELDS.items()}
    if usage.input_tokens is not None and usage.output_tokens is not None:
        counts["totalTokens"] = usage.input_tokens + usage.output_tokens
    counts = {
        wire: count for wire, count in counts.items() if count is not None and count <= _MAX_COUNT
    }
    if not counts:
        return []
    return [{**({"model": model} if model else {}), **counts}]


def usage_from_wire(value: Any) -> Usage:
    """Return the sum of a `usage` array; a count that no entry has stays unknown."""
    sums: dict[str, Any] = {}
    for entry in objects_of(value):
        for name, wire in _FIELDS.items():
            if (count := count_of(entry.get(wire))) is not None:
                sums[name] = sums.get(name, 0) + count
    return Usage(**sums)
