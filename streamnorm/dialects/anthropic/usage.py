"""Token usage, in both directions.

https://docs.anthropic.com/en/docs/build-with-claude/streaming (read 2026-11-21).  Anthropic's
`input_tokens` excludes tokens read from the cache or written to it.  Every count covers the
whole message so far: a later count replaces an earlier one, even by a smaller number, as after
a compaction.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import Usage
from streamnorm._core.json import count_of, is_object
from streamnorm.dialects.anthropic.wire import unknown_fields

_INPUTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_THINKING = "thinking_tokens"


class UsageReader:
    """The merged `usage` objects of one stream.

    Attributes:
        usage: Snapshot of all objects so far.
    """

    def __init__(self) -> None:
        self.usage = Usage()
        self._counts: dict[str, int] = {}
        self._extra: dict[str, Any] = {}

    def merge(self, counts: dict[str, Any]) -> bool:
        """Merge a `usage` object and return whether the snapshot changed."""
        # Servers that count the input in `message_start` send zeros for it in `message_delta`.
        # A zero next to another input count is genuine: the API has replaced 55,096 cached
        # tokens by 181 uncached and 0 cached ones.
        has_input = any(count_of(counts.get(key)) for key in _INPUTS)
        for key, value in counts.items():
            count = count_of(value)
            if key == "output_tokens_details" and is_object(value):
                self._merge_details(value)
            elif count is None or key not in (*_INPUTS, "output_tokens"):
                if value is not None:
                    self._extra[key] = value
            # SGLang and vLLM count the input only in `message_delta`, others only in the start
            # (proxy/zeros-in-message-delta).
            elif has_input or key == "output_tokens" or not self._counts.get(key):
                self._counts[key] = count
        before, self.usage = self.usage, self._snapshot()
        return self.usage != before

    def _merge_details(self, details: dict[str, Any]) -> None:
        unknown = unknown_fields(details)
        count = count_of(unknown.get(_THINKING))
        if count is not None:
            self._counts[_THINKING] = count
            del unknown[_THINKING]
        if unknown:
            self._extra["output_tokens_details"] = unknown

    def _snapshot(self) -> Usage:
        counts = self._counts
        # The unified count includes the cache, as all other vendors count.
        inputs = [counts[key] for key in _INPUTS if key in counts]
        return Usage(
            input_tokens=sum(inputs) if inputs else None,
            output_tokens=counts.get("output_tokens"),
            cache_read_tokens=counts.get("cache_read_input_tokens"),
            cache_write_tokens=counts.get("cache_creation_input_tokens"),
            reasoning_tokens=counts.get(_THINKING),
            extra=dict(self._extra) or None,
        )


def usage_to_wire(usage: Usage) -> dict[str, Any]:
    """Return the `usage` object of a snapshot; unknown counts are 0.

    Claude Code crashes without input and output tokens (glidea/claude-worker-proxy#19).
    """
    read, write = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    counts: dict[str, Any] = {
        # Servers may report more cached tokens than tokens of input; no count is negative here.
        "input_tokens": max((usage.input_tokens or 0) - read - write, 0),
        "cache_creation_input_tokens": write,
        "cache_read_input_tokens": read,
        "output_tokens": usage.output_tokens or 0,
    }
    if usage.reasoning_tokens is not None:
        counts["output_tokens_details"] = {_THINKING: usage.reasoning_tokens}
    return counts
