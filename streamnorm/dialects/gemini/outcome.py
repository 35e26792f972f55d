"""The end of an answer in both directions: finish reason, token counts, error.

https://ai.google.dev/api/generate-content#FinishReason (read 2026-11-22).  Add a finish reason
of another server to the table of its meaning, and not to `validate`, which knows the vendor's
finish reasons alone.

https://ai.google.dev/api/generate-content#UsageMetadata (read 2026-11-22).
`promptTokenCount` includes cached tokens but not those of the provider's own tools, and
`candidatesTokenCount` leaves out the thoughts.  Each usage object is a snapshot of the whole
message so far and replaces the one before: an absent count is unknown.

Errors are those of all of Google's APIs: `_core/rpc_errors.py`.
"""

from __future__ import annotations

import re
from operator import attrgetter
from typing import Any

from msgspec import Raw

from streamnorm._core.codec.templates import CountPair
from streamnorm._core.events import MessageStop, StopReason, StreamError, Usage
from streamnorm._core.failures import upstream_error
from streamnorm._core.json import clean, count_of
from streamnorm.dialects.gemini.wire import Counts

_UNSPECIFIED = frozenset(
    {"FINISH_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED", "0"}
)
"""Finish and block reasons that count as absent."""

FAILED = frozenset(
    {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"}
    | {"MISSING_THOUGHT_SIGNATURE", "MALFORMED_RESPONSE"}
)
"""Finish reasons of an answer that failed."""

_REFUSALS = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"}
    | {"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"}
    | {"MODEL_ARMOR", "ESCALATION", "PUP_LIMITED_DISABLED"}
)
_OTHERS = frozenset({"OTHER", "NO_IMAGE", "IMAGE_OTHER"})
_KNOWN_OTHERS = _OTHERS | frozenset(map(str, range(5, 32)))  # with the numbers of the enumeration

_FROM_WIRE: dict[str, StopReason] = {
    "STOP": "end_turn",
    "MAX_TOKENS": "max_tokens",
    # The client sends the message back with its continuation token to go on.
    "CONTINUATION": "pause",
    # With `enum-encoding=int`; the numbers above 4 differ between Google's two services.
    "1": "end_turn",
    "2": "max_tokens",
    "3": "refusal",
    "4": "refusal",
}
_TO_WIRE: dict[StopReason, str] = {
    "end_turn": "STOP",
    "tool_use": "STOP",
    "max_tokens": "MAX_TOKENS",
    # The reason that clients show as a refusal; the finer ones name rules of Google's.
    "refusal": "SAFETY",
    "pause": "CONTINUATION",
    "other": "OTHER",
}


def finish_reason_of(value: Any) -> str:
    """Return a finish or block reason; "" if it is absent or unspecified.

    Clients can ask for numbers (`enum-encoding=int`), which become strings here.
    """
    reason = str(value) if type(value) is int else clean(value) if isinstance(value, str) else ""
    return "" if reason in _UNSPECIFIED else reason


def stop_reason_from_wire(finish_reason: str, *, awaits_client: bool) -> StopReason:
    """Return the stop reason for a finish reason; the API has no finish reason for tool calls.

    Args:
        finish_reason: Finish reason as spelt on the wire.
        awaits_client: Whether the answer holds a client tool call without a result.
    """
    if finish_reason in _REFUSALS:
        return "refusal"
    reason = _FROM_WIRE.get(finish_reason, "other")
    # A reason that is newer than this table does not cancel a call that the client must run.
    is_unknown = finish_reason not in _FROM_WIRE and finish_reason not in _KNOWN_OTHERS
    return "tool_use" if awaits_client and (is_unknown or reason == "end_turn") else reason


def stop_reason_to_wire(event: MessageStop) -> str:
    """Return the `finishReason` of a stop; a more specific raw reason takes precedence."""
    raw = event.raw_reason or ""
    # Google's finer reasons return as they came.
    if event.reason == "refusal" and raw in _REFUSALS:
        return raw
    return raw if event.reason == "other" and raw in _OTHERS else _TO_WIRE[event.reason]


def failed_finish(finish_reason: str, message: str) -> StreamError | None:
    """Return the error for a finish reason that means failure; None for other finish reasons.

    Args:
        finish_reason: Finish reason as spelt on the wire.
        message: `finishMessage` of the candidate; "" if it is missing.
    """
    if finish_reason not in FAILED:
        return None
    return upstream_error(
        message or f"the provider ended with {finish_reason!r}", code=finish_reason
    )


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
_NAMES = [b'"%b"' % name.encode() for name in _COUNTS]
_details_of, numbers_of = attrgetter(*_DETAILS), attrgetter(*_COUNTS.values())
_GROWING = tuple(map([*_COUNTS].index, ("candidatesTokenCount", _TOTAL)))
_match_number = re.compile(rb" *: *([0-9]+)").match


class ChangingCounts(CountPair, frozen=True):
    """The two counts of a chunk that may differ in the next chunk.

    Of an answer, `candidatesTokenCount` and `totalTokenCount` grow; of its thoughts,
    `thoughtsTokenCount` and `totalTokenCount`.

    Attributes:
        numbers: All counts of the chunk.
        positions: Indexes of the two in `numbers`, in the order of the payload.
    """

    numbers: tuple[int | None, ...]
    positions: tuple[int, int]

    def replace(self, first: int, second: int) -> tuple[int | None, ...]:
        """Return all counts of the chunk, with new values for the two changing counts."""
        numbers = list(self.numbers)
        one, other = self.positions
        numbers[one], numbers[other] = first, second
        return tuple(numbers)


class UsageReader:
    """Reader of one stream's usage objects, each of which replaces the previous object.

    Attributes:
        usage: Snapshot of the last object; pending counts are not part of it.
    """

    def __init__(self) -> None:
        self.usage = Usage()
        # JSON text of the last chunk's fields other than numbers; None after `read`.
        self._last_details: tuple[Raw, ...] | None = None
        self._known: tuple[int | None, ...] = tuple([None for _ in _COUNTS])
        self._before = self._known  # the counts before `add_pending`
        self._is_stale = False  # whether counts have changed since the snapshot
        self._extra: dict[str, Any] = {}  # replaced, never changed: snapshots share it

    def set_last(self, counts: Counts) -> None:
        """Store the usage fields of the last chunk, except numbers, for `matches_last`."""
        # An uncopied `Raw` holds the memory of its whole frame.
        self._last_details = tuple([detail.copy() for detail in _details_of(counts)])

    def matches_last(self, counts: Counts) -> bool:
        """Return whether all usage fields except numbers equal the fields of the last chunk."""
        return self._last_details is not None and _details_of(counts) == self._last_details

    def add_pending(self, numbers: tuple[int | None, ...]) -> None:
        """Store the counts of a chunk that `matches_last` accepts, for the next `refresh`."""
        self._before, self._known = self._known, numbers
        self._is_stale = True

    def find_changing(
        self, payload: bytes, numbers: tuple[int | None, ...]
    ) -> ChangingCounts | None:
        """Return the two token counts most likely to change in the next chunk.

        Recently changed counts come first.  None if more than two differ, or if they are not found
        in the payload.

        Args:
            payload: A chunk that matches the last.
            numbers: Token counts of the chunk.
        """
        changed = [at for at, number in enumerate(numbers) if number != self._known[at]]
        if len(changed) > 2:
            return None
        spans: list[tuple[int, int, int]] = []
        for at in [*changed, *(at for at in _GROWING if at not in changed)][:2]:
            name = _NAMES[at]
            match = _match_number(payload, payload.find(name) + len(name))
            # Only a name that stands in the payload once is surely that of the count.
            if match is None or payload.count(name) != 1:
                return None
            spans.append((*match.span(1), at))
        (start, first_end, one), (second_start, end, other) = sorted(spans)
        between = payload[first_end:second_start]
        return ChangingCounts(start, end, between, numbers, (one, other))

    def retract_pending(self) -> None:
        """Undo the last call of `add_pending`."""
        self._known = self._before

    def read(self, usage: dict[str, Any]) -> bool:
        """Read a usage object; return whether the snapshot changes."""
        # `matches_last` compares JSON text, which this path does not have.
        self._last_details = None
        extra: dict[str, Any] = {}
        counts: dict[str, int | None] = dict.fromkeys(_COUNTS)
        for key, value in usage.items():
            count = count_of(value) if key in _COUNTS else None
            if count is not None:
                counts[key] = count
            elif value is not None:
                extra[key] = value
        if extra != self._extra:  # else the written order would depend on the reads
            self._extra = extra
        self._known = tuple(counts.values())
        self._is_stale = True
        return self.refresh()

    def refresh(self) -> bool:
        """Move pending counts to the snapshot; return whether the snapshot changes."""
        if not self._is_stale:
            return False
        self._is_stale = False
        prompt, tools, output, thoughts, cached, total = self._known
        input_tokens = prompt if tools is None else tools + (prompt or 0)
        output_tokens = output if thoughts is None else thoughts + (output or 0)
        extra = self._extra
        if tools is not None:  # part of `input_tokens`, and in no other field
            extra = {**extra, _TOOLS: tools}
        if total is not None and total != (input_tokens or 0) + (output_tokens or 0):
            extra = {**extra, _TOTAL: total}
        before = self.usage
        self.usage = Usage(input_tokens, output_tokens, cached, None, thoughts, extra or None)
        return self.usage != before


def usage_to_wire(usage: Usage, *, extras: bool) -> dict[str, Any]:
    """Return a usage snapshot as `usageMetadata`; unreported counts are 0.

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
