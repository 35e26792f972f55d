"""Token counts of Gemini.

https://ai.google.dev/api/generate-content#UsageMetadata (read 2026-11-22).
`promptTokenCount` includes cached tokens but not those of the provider's own tools, and
`candidatesTokenCount` leaves out the thoughts.  Each usage object is a snapshot of the whole
message so far and replaces the one before: an absent count is unknown.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from streamnorm._core.events import Usage
from streamnorm._core.json import count_of
from streamnorm.dialects.gemini.wire import Counts

_NOTHING = Raw()
_DETAILS = (
    *("prompt_tokens_details", "candidates_tokens_details", "cache_tokens_details"),
    *("tool_use_prompt_tokens_details", "traffic_type", "service_tier"),
)
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
    """Reader of the usage objects of one stream; each replaces the one before.

    Attributes:
        usage: Snapshot of the last object; pending counts are not part of it.
    """

    def __init__(self) -> None:
        self.usage = Usage()
        # Counts of the last chunk, for its fields other than numbers; None after `read`.
        self._last: Counts | None = None
        self._known = Counts()
        self._before = self._known  # the counts before `add_pending`
        self._is_stale = False  # whether counts have changed since the snapshot
        self._extra: dict[str, Any] = {}  # replaced, never changed: snapshots share it

    def set_last(self, counts: Counts) -> None:
        """Store the counts that `read` has just read, for `matches_last`."""
        for name in _DETAILS:  # an uncopied `Raw` holds the memory of its whole frame
            setattr(counts, name, getattr(counts, name).copy())
        self._last = counts

    def matches_last(self, counts: Counts) -> bool:
        """Return whether all fields but the numbers equal those of the last chunk."""
        last = self._last
        return last is not None and (
            counts.prompt_tokens_details == last.prompt_tokens_details
            and counts.candidates_tokens_details == last.candidates_tokens_details
            and counts.cache_tokens_details == last.cache_tokens_details
            and counts.tool_use_prompt_tokens_details == last.tool_use_prompt_tokens_details
            and counts.traffic_type == last.traffic_type
            and counts.service_tier == last.service_tier
        )

    def add_pending(self, counts: Counts) -> None:
        """Add counts that match the last; `refresh` brings them into the snapshot."""
        # Equal to the details of `_last`; each would hold the memory of a whole frame.
        counts.prompt_tokens_details = counts.candidates_tokens_details = _NOTHING
        counts.cache_tokens_details = counts.tool_use_prompt_tokens_details = _NOTHING
        counts.traffic_type = counts.service_tier = _NOTHING
        self._before = self._known
        self._known = counts
        self._is_stale = True

    def retract_pending(self) -> None:
        """Undo the last `add_pending`."""
        self._known = self._before

    def read(self, usage: dict[str, Any]) -> bool:
        """Read a usage object and return whether the snapshot changes."""
        # `matches_last` compares JSON text, which this path does not have.
        self._last = None
        extra: dict[str, Any] = {}
        counts = Counts()
        for key, value in usage.items():
            count = count_of(value) if key in _COUNTS else None
            if count is not None:
                setattr(counts, _COUNTS[key], count)
            elif value is not None:
                extra[key] = value
        self._extra = extra
        self._known = counts
        self._is_stale = True
        return self.refresh()

    def refresh(self) -> bool:
        """Move pending counts into the snapshot and return whether it changes."""
        if not self._is_stale:
            return False
        self._is_stale = False
        known = self._known
        prompt, tools = known.prompt_token_count, known.tool_use_prompt_token_count
        output, thoughts = known.candidates_token_count, known.thoughts_token_count
        input_tokens = prompt if tools is None else tools + (prompt or 0)
        output_tokens = output if thoughts is None else thoughts + (output or 0)
        total, extra = known.total_token_count, self._extra
        if tools is not None:  # part of `input_tokens`, and in no other field
            extra = {**extra, _TOOLS: tools}
        if total is not None and total != (input_tokens or 0) + (output_tokens or 0):
            extra = {**extra, _TOTAL: total}
        before = self.usage
        cached = known.cached_content_token_count
        self.usage = Usage(input_tokens, output_tokens, cached, None, thoughts, extra or None)
        return self.usage != before


def usage_to_wire(usage: Usage, *, extras: bool) -> dict[str, Any]:
    """Return a snapshot as `usageMetadata`; counts that were never reported are 0.

    Args:
        usage: The snapshot.
        extras: Whether to write Google's unknown fields back, such as its tools' tokens.
    """
    wire: dict[str, Any] = dict(usage.extra or {}) if extras else {}
    thoughts = usage.reasoning_tokens or 0
    # Other servers report more reasoning than output; `candidatesTokenCount` must not be negative.
    prompt, output = usage.input_tokens or 0, max(usage.output_tokens or 0, thoughts)
    tools = min(count_of(wire.get("toolUsePromptTokenCount")) or 0, prompt)
    wire |= {
        "promptTokenCount": prompt - tools,
        "candidatesTokenCount": output - thoughts,
        "totalTokenCount": wire.get("totalTokenCount", prompt + output),
    }
    if usage.cache_read_tokens is not None:
        wire["cachedContentTokenCount"] = usage.cache_read_tokens
    if usage.reasoning_tokens is not None:
        wire["thoughtsTokenCount"] = thoughts
    return wire
