"""Token counts of an interaction.

https://ai.google.dev/api/interactions-api (read 2026-11-22).  `total_input_tokens` leaves out the
tokens of the provider's tools, `total_output_tokens` the thoughts.  Each count covers the whole
interaction so far.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import Usage
from streamnorm._core.json import count_of

_TOOLS, _TOTAL = "toolUsePromptTokenCount", "totalTokenCount"
# A count without a field of `Usage` gets its name in `generateContent`, under which the vendor's
# clients read it.
_COUNTS = {
    "total_input_tokens": "promptTokenCount",
    "total_tool_use_tokens": _TOOLS,
    "total_output_tokens": "candidatesTokenCount",
    "total_thought_tokens": "thoughtsTokenCount",
    "total_cached_tokens": "cachedContentTokenCount",
    "total_tokens": _TOTAL,
}
_NAMES = frozenset(_COUNTS.values())


class UsageReader:
    """Reader of the usage objects of one interaction, merged count by count.

    Attributes:
        usage: Snapshot of all objects so far.
    """

    def __init__(self) -> None:
        self.usage = Usage()
        self._counts: dict[str, int] = {}
        self._extra: dict[str, Any] = {}  # replaced, never changed: snapshots share it

    def merge(self, usage: dict[str, Any]) -> bool:
        """Merge a usage object and return whether the snapshot changes."""
        extra = dict(self._extra)
        for key, value in usage.items():
            name = _COUNTS.get(key, key)
            count = count_of(value) if name in _NAMES else None
            if count is not None:
                self._counts[name] = count
            elif value is not None:
                extra[name] = value
        self._extra = extra
        before, self.usage = self.usage, self._snapshot()
        return self.usage != before

    def _snapshot(self) -> Usage:
        counts, extra = self._counts, self._extra
        prompt, tools = counts.get("promptTokenCount"), counts.get(_TOOLS)
        output, thoughts = counts.get("candidatesTokenCount"), counts.get("thoughtsTokenCount")
        input_tokens = prompt if tools is None else tools + (prompt or 0)
        output_tokens = output if thoughts is None else thoughts + (output or 0)
        if tools is not None:  # part of `input_tokens`, and in no other field
            extra = {**extra, _TOOLS: tools}
        total = counts.get(_TOTAL)
        if total is not None and total != (input_tokens or 0) + (output_tokens or 0):
            extra = {**extra, _TOTAL: total}
        cached = counts.get("cachedContentTokenCount")
        return Usage(input_tokens, output_tokens, cached, None, thoughts, extra or None)
