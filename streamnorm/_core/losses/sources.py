"""The sources of a text, cut down to what one dialect has a place for."""

from __future__ import annotations

from streamnorm._core.blocks import Citation
from streamnorm._core.losses.capabilities import Capabilities, Losses

__all__ = ["Sources"]


class Sources:
    """Cut down citations.

    Args:
        capabilities: The dialect.
        losses: Where losses are counted.
    """

    def __init__(self, capabilities: Capabilities, losses: Losses) -> None:
        self._can = capabilities
        self._losses = losses
        self._told: dict[str, None] = {}

    def take(self, index: int, citation: Citation) -> Citation | None:
        """Return what the dialect can carry of a source of a block; None if that is nothing."""
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
        if not can.cited_text:  # some differ in nothing else
            key = f"{index} {citation!r}"
            if key in self._told:
                return None
            self._told[key] = None
        return citation

    def drop(self) -> None:
        """Count a source of a text that is empty."""
        self._losses.add("citations", "empty text", "dropped")
