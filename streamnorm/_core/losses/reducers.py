"""Citations, token counts, service tiers and stop reasons, reduced to what a dialect carries."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from streamnorm._core.blocks import Citation
from streamnorm._core.events import MessageStop, Usage
from streamnorm._core.losses.capabilities import Capabilities
from streamnorm._core.losses.loss import Losses

__all__ = ["Citations", "MessageMetadata"]


class Citations:
    """Reduces the citations of text blocks.

    Args:
        capabilities: Those of the target.
        losses: Counts the citations that are dropped or rewritten.
    """

    def __init__(self, capabilities: Capabilities, losses: Losses) -> None:
        self._can = capabilities
        self._losses = losses
        self._written: dict[str, None] = {}

    def reduce(self, index: int, citation: Citation) -> Citation | None:
        """Return a citation of block `index` as the target has it; None if it has no field."""
        can = self._can
        if citation.kind not in can.citations:
            if can.url_citation is None or citation.url is None:
                self._losses.add("citations", citation.kind, "dropped")
                return None
            self._losses.add("citations", citation.kind, f"written as {can.url_citation}")
            text = citation.cited_text if can.cited_text else None
            citation = Citation(
                *(can.url_citation, citation.url, citation.title, text),
                *(citation.start, citation.end),
            )
        if not can.cited_text:  # citations that differed only in their text are now equal
            key = f"{index} {citation!r}"
            if key in self._written:
                return None
            self._written[key] = None
        return citation

    def drop(self) -> None:
        """Count a citation of a block without text."""
        self._losses.add("citations", "empty text", "dropped")


class MessageMetadata:
    """Reduces token counts, service tiers and stop reasons.

    Args:
        capabilities: Those of the target.
        losses: Counts what is dropped or rewritten.

    Attributes:
        refused: Whether a refusal was written as text.
    """

    def __init__(self, capabilities: Capabilities, losses: Losses) -> None:
        self.refused = False
        self._can = capabilities
        self._losses = losses
        self._usage = Usage()
        self._lost_tier: object = None  # counted last
        self._stopped = False

    def usage(self, usage: Usage) -> Usage:
        """Return a usage snapshot as the target has it; its losses are counted at the stop."""
        self._usage = usage
        output = usage.output_tokens or 0
        if usage.cache_write_tokens and not self._can.cache_write:
            usage = structs.replace(usage, cache_write_tokens=None)
        if (usage.reasoning_tokens or 0) > output and not self._can.excess_reasoning:
            usage = structs.replace(usage, reasoning_tokens=output)
        return usage

    def tier(self, extra: dict[str, Any] | None) -> None:
        """Count the service tier in `extra` if the target has no equivalent."""
        tier = (extra or {}).get("service_tier")
        if (
            isinstance(tier, str)
            and tier != self._lost_tier
            and tier not in self._can.service_tiers
        ):
            self._losses.add("service_tier", tier, "dropped")
            self._lost_tier = tier

    def stop(self, event: MessageStop) -> MessageStop:
        """Return a stop with a reason that the target has a finish reason for."""
        can = self._can
        if not self._stopped:
            self._stopped = True
            self._count_usage()
        self.tier(event.extra)
        if self.refused:
            event = structs.replace(event, reason="refusal")
        if event.reason == "other" and event.raw_reason in can.native_stop_reasons:
            return event
        unnamed = event.reason == "stop_sequence" and event.stop_sequence is None
        if event.reason not in can.stop_reasons or (unnamed and not can.unnamed_stop_sequence):
            self._losses.add("stop_reason", event.reason, "written as end_turn")
            event = structs.replace(event, reason="end_turn", stop_sequence=None)
        return event

    def _count_usage(self) -> None:
        """Count the losses of the last usage snapshot, the one that the client keeps."""
        can, usage = self._can, self._usage
        self.tier(usage.extra)
        reduced = self.usage(usage)
        if reduced.cache_write_tokens != usage.cache_write_tokens:
            self._losses.add("usage", "cache_write_tokens", "dropped")
        if reduced.reasoning_tokens != usage.reasoning_tokens:
            self._losses.add("usage", "reasoning_tokens", "written as output_tokens")
        if can.usage == "always" or (can.usage == "known" and usage != Usage()):
            for name in ("input_tokens", "output_tokens"):
                if getattr(usage, name) is None:
                    self._losses.add("usage_unknown", name, "written as 0")
