"""What is told of a message as a whole, cut down to what one dialect has a place for."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from streamnorm.events import MessageStop, Usage
from streamnorm.losses.capabilities import Capabilities, Losses

__all__ = ["Totals"]


class Totals:
    """Cut down counts, tiers of service and stops.

    Args:
        capabilities: The dialect.
        losses: Where losses are counted.

    Attributes:
        refused: Whether a refusal was written as text.
    """

    def __init__(self, capabilities: Capabilities, losses: Losses) -> None:
        self.refused = False
        self._can = capabilities
        self._losses = losses
        self._usage = Usage()
        self._tier: object = None  # the last one that was lost
        self._lost: set[str] = set()
        self._stopped = False

    def usage(self, usage: Usage) -> Usage:
        """Return what of a snapshot the dialect can carry."""
        if usage.extra is not None:
            self.tier(usage.extra)
        if usage.cache_write_tokens and not self._can.cache_write:
            usage = structs.replace(usage, cache_write_tokens=None)
            self._lose("cache_write_tokens", "dropped")
        output = usage.output_tokens or 0
        if (usage.reasoning_tokens or 0) > output and not self._can.excess_reasoning:
            usage = structs.replace(usage, reasoning_tokens=output)
            self._lose("reasoning_tokens", "written as output_tokens")
        self._usage = usage
        return usage

    def _lose(self, count: str, detail: str) -> None:
        """Count a count that has no place once, however many snapshots tell it."""
        if count not in self._lost:
            self._losses.add("usage", count, detail)
            self._lost.add(count)

    def tier(self, extra: dict[str, Any] | None) -> None:
        """Count a tier of service that the dialect has no word for."""
        tier = (extra or {}).get("service_tier")
        if isinstance(tier, str) and tier != self._tier and tier not in self._can.service_tiers:
            self._losses.add("service_tier", tier, "dropped")
            self._tier = tier

    def stop(self, event: MessageStop) -> MessageStop:
        """Return a stop that the dialect has a word for."""
        can = self._can
        self.tier(event.extra)
        if not self._stopped and (
            can.usage == "always" or (can.usage == "known" and self._usage != Usage())
        ):
            for name in ("input_tokens", "output_tokens"):
                if getattr(self._usage, name) is None:
                    self._losses.add("usage_unknown", name, "written as 0")
        self._stopped = True
        if self.refused:
            event = structs.replace(event, reason="refusal")
        if event.reason == "other" and event.raw_reason in can.raw_stops:
            return event
        bare = event.reason == "stop_sequence" and event.stop_sequence is None
        if event.reason not in can.stop_reasons or (bare and not can.bare_stop_sequence):
            self._losses.add("stop_reason", event.reason, "written as end_turn")
            event = structs.replace(event, reason="end_turn", stop_sequence=None)
        return event
