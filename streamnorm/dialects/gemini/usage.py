"""Token counts of Gemini.

`promptTokenCount` holds the cached tokens but not those of the provider's own tools, and
`candidatesTokenCount` not the thoughts.  Every count is of the whole message so far.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import Usage
from streamnorm._core.json import count_of
from streamnorm.dialects.gemini.wire import Counts

__all__ = ["UsageReader"]

_TOOLS, _TOTAL = "toolUsePromptTokenCount", "totalTokenCount"
_COUNTS = {
    "promptTokenCount": "prompt_token_count",
    _TOOLS: "tool_use_prompt_token_count",
    "candidatesTokenCount": "candidates_token_count",
    "thoughtsTokenCount": "thoughts_token_count",
    "cachedContentTokenCount": "cached_content_token_count",
    _TOTAL: "total_token_count",
}


class UsageReader:
    """Merge the usage objects of one stream.

    Attributes:
        usage: The snapshot.
    """

    def __init__(self) -> None:
        self.usage = Usage()
        self._last: Counts | None = None  # that came, unless `merge` took it
        self._known = Counts()
        self._before = self._known  # the known counts before `count`
        self._is_stale = False  # whether counts have changed since the snapshot
        self._extra: dict[str, Any] = {}  # never changed, since the snapshots share it

    def expect(self, wire: Counts) -> None:
        """Expect more counts like these, which `merge` has just taken."""
        self._last = wire

    def expects(self, wire: Counts) -> bool:
        """Tell whether counts say all else as those did that are expected."""
        last = self._last
        return last is not None and (
            wire.prompt_tokens_details == last.prompt_tokens_details
            and wire.candidates_tokens_details == last.candidates_tokens_details
            and wire.cache_tokens_details == last.cache_tokens_details
            and wire.tool_use_prompt_tokens_details == last.tool_use_prompt_tokens_details
            and wire.traffic_type == last.traffic_type
            and wire.service_tier == last.service_tier
        )

    def count(self, wire: Counts) -> None:
        """Take counts that are expected; `renew` brings them into the snapshot."""
        self._last = wire
        self._before = self._known
        self._merge(wire)

    def retract(self) -> None:
        """Forget the counts that `count` took last."""
        self._known = self._before

    def merge(self, wire: dict[str, Any]) -> bool:
        """Take one more usage object, and tell whether it changes the snapshot."""
        self._last = None
        extra = dict(self._extra)
        counts = Counts()
        for key, value in wire.items():
            count = count_of(value) if key in _COUNTS else None
            if count is not None:
                setattr(counts, _COUNTS[key], count)
            elif value is not None:
                extra[key] = value
        self._extra = extra
        self._merge(counts)
        return self.renew()

    def renew(self) -> bool:
        """Bring the counts into the snapshot, and tell whether that changes it."""
        if not self._is_stale:
            return False
        self._is_stale = False
        known = self._known
        prompt, thoughts = known.prompt_token_count, known.thoughts_token_count
        said, tools = known.candidates_token_count, known.tool_use_prompt_token_count
        came = prompt if tools is None else tools + (prompt or 0)
        went = said if thoughts is None else thoughts + (said or 0)
        total, extra = known.total_token_count, self._extra
        if tools is not None:  # part of `input_tokens`, which nothing else tells
            extra = {**extra, _TOOLS: tools}
        if total is not None and total != (came or 0) + (went or 0):
            extra = {**extra, _TOTAL: total}
        before = self.usage
        cached = known.cached_content_token_count
        self.usage = Usage(came, went, cached, None, thoughts, extra or None)
        return self.usage != before

    def _merge(self, wire: Counts) -> None:
        """Put the counts that are reported in place of the former."""
        known = self._known
        if wire.prompt_token_count is None:
            wire.prompt_token_count = known.prompt_token_count
        if wire.candidates_token_count is None:
            wire.candidates_token_count = known.candidates_token_count
        if wire.thoughts_token_count is None:
            wire.thoughts_token_count = known.thoughts_token_count
        if wire.cached_content_token_count is None:
            wire.cached_content_token_count = known.cached_content_token_count
        if wire.tool_use_prompt_token_count is None:
            wire.tool_use_prompt_token_count = known.tool_use_prompt_token_count
        if wire.total_token_count is None:
            wire.total_token_count = known.total_token_count
        self._known = wire
        self._is_stale = True
