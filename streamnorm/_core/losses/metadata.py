"""What is told of a message as a whole, cut down to what one dialect has a place for."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from streamnorm._core.events import MessageStop, Usage
from streamnorm._core.losses.capabilities import Capabilities, Losses

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
        self._stopped = False

    def usage(self, usage: Usage) -> Usage:
        """Return what of a snapshot the dialect can carry; losses are those of the last one."""
        self._usage = usage
        output = usage.output_tokens or 0
        if usage.cache_write_tokens and not self._can.cache_write:
            usage = structs.replace(usage, cache_write_tokens=None)
        if (usage.reasoning_tokens or 0) > output and not self._can.excess_reasoning:
            usage = structs.replace(usage, reasoning_tokens=output)
        return usage

    def tier(self, extra: dict[str, Any] | None) -> None:
        """Count a tier of service that the dialect has no word for."""
        tier = (extra or {}).get("service_tier")
        if isinstance(tier, str) and tier != self._tier and tier not in self._can.service_tiers:
            self._losses.add("service_tier", tier, "dropped")
            self._tier = tier

    def stop(self, event: MessageStop) -> MessageStop:
        """Return a stop that the dialect has a word for."""
        can = self._can
        if not self._stopped:
            self._stopped = True
            self._count_usage()
        self.tier(event.extra)
        if self.refused:
            event = structs.replace(event, reason="refusal")
        if event.reason == "other" and event.raw_reason in can.raw_stops:
            return event
        bare = event.reason == "stop_sequence" and event.stop_sequence is None
        if event.reason not in can.stop_reasons or (bare and not can.bare_stop_sequence):
            self._losses.add("stop_reason", event.reason, "written as end_turn")
            event = structs.replace(event, reason="end_turn", stop_sequence=None)
        return event

    def _count_usage(self) -> None:
        """Count what is lost of the last snapshot, the one that the client is told."""
        can, usage = self._can, self._usage
        self.tier(usage.extra)
        told = self.usage(usage)
        if told.cache_write_tokens != usage.cache_write_tokens:
            self._losses.add("usage", "cache_write_tokens", "dropped")
        if told.reasoning_tokens != usage.reasoning_tokens:
            self._losses.add("usage", "reasoning_tokens", "written as output_tokens")
        if can.usage == "always" or (can.usage == "known" and usage != Usage()):
            for name in ("input_tokens", "output_tokens"):
                if getattr(usage, name) is None:
                    self._losses.add("usage_unknown", name, "written as 0")
