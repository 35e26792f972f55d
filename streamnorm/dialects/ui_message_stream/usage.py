"""Token usage, in both directions: `usage` of the message's metadata.

The protocol has no field for it.  The names are those of `LanguageModelUsage` of `ai` 5 to 7,
whose `inputTokens` includes the cached ones.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import Usage
from streamnorm._core.json import count_of

_NAMES = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cachedInputTokens": "cache_read_tokens",
    "cacheWriteInputTokens": "cache_write_tokens",
    "reasoningTokens": "reasoning_tokens",
}
_TOTAL = "totalTokens"


def usage_to_wire(usage: Usage) -> dict[str, Any]:
    """Return the counts that are known."""
    counts = {name: getattr(usage, field) for name, field in _NAMES.items()}
    if usage.input_tokens is not None and usage.output_tokens is not None:
        counts[_TOTAL] = usage.input_tokens + usage.output_tokens
    return {name: count for name, count in counts.items() if count is not None}


def usage_from_wire(counts: dict[str, Any]) -> Usage | None:
    """Return the tokens of a `usage`; None if it has none of the AI SDK's counts."""
    known = {field: count_of(counts.get(name)) for name, field in _NAMES.items()}
    if all(count is None for count in known.values()):
        return None
    rest = {name: item for name, item in counts.items() if name not in _NAMES and name != _TOTAL}
    return Usage(**known, extra=rest or None)
