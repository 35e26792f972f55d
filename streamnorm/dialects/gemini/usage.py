"""Token counts of Gemini.

`promptTokenCount` holds the cached tokens but not those of the provider's own tools, and
`candidatesTokenCount` not the thoughts.  Every count is of the whole message so far.
"""

from __future__ import annotations

from typing import Any

from streamnorm._json import count_of
from streamnorm.events import Usage

__all__ = ["UsageReader"]

_PROMPT, _CANDIDATES = "promptTokenCount", "candidatesTokenCount"
_TOOLS, _THOUGHTS = "toolUsePromptTokenCount", "thoughtsTokenCount"
_CACHED, _TOTAL = "cachedContentTokenCount", "totalTokenCount"
_SUMMED = (_PROMPT, _TOOLS, _CANDIDATES, _THOUGHTS)
_COUNTS = frozenset({*_SUMMED, _CACHED, _TOTAL})


class UsageReader:
    """Merge the usage objects of one stream.

    Attributes:
        usage: The snapshot.
    """

    def __init__(self) -> None:
        self.usage = Usage()
        self._counts: dict[str, int] = {}
        self._extra: dict[str, Any] = {}

    def merge(self, wire: dict[str, Any]) -> bool:
        """Take one more usage object, and tell whether it changes the snapshot."""
        for key, value in wire.items():
            count = count_of(value) if key in _COUNTS else None
            if count is not None:
                self._counts[key] = count
            elif value is not None:
                self._extra[key] = value
        before, self.usage = self.usage, self._snapshot()
        return self.usage != before

    def _snapshot(self) -> Usage:
        counts, extra = self._counts, dict(self._extra)
        if _TOOLS in counts:  # part of `input_tokens`, which nothing else tells
            extra[_TOOLS] = counts[_TOOLS]
        if _TOTAL in counts and counts[_TOTAL] != sum(counts.get(key, 0) for key in _SUMMED):
            extra[_TOTAL] = counts[_TOTAL]
        return Usage(
            input_tokens=_sum(counts, _PROMPT, _TOOLS),
            output_tokens=_sum(counts, _CANDIDATES, _THOUGHTS),
            cache_read_tokens=counts.get(_CACHED),
            reasoning_tokens=counts.get(_THOUGHTS),
            extra=extra or None,
        )


def _sum(counts: dict[str, int], *keys: str) -> int | None:
    said = [counts[key] for key in keys if key in counts]
    return sum(said) if said else None
