"""The unified blocks of one response: their numbers and their bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from streamnorm._core.blocks import Block, Refusal, ServerToolCall, ToolCall
from streamnorm._core.events import BlockStart, Event
from streamnorm._core.failures import too_large
from streamnorm._core.ids import mint_id
from streamnorm._core.limits import Limits

__all__ = ["DIALECT", "Blocks"]

DIALECT = "openai_responses"

# A reasoning block has one for each of its summaries, a message with one part has two.
_KEYS_PER_BLOCK = 16


class Blocks:
    """Number the blocks of one response.

    Args:
        limits: Bounds.
        note: Counts something that was forgiven.
        server: Who sends it.

    Attributes:
        called: Whether there is a client tool call.
        refused: Whether there is a refusal.
        seed: What minted ids are made of.
        note: Counts something that was forgiven.
        server: Who sends it.
    """

    def __init__(
        self, limits: Limits, note: Callable[[str, str], None], server: str | None = None
    ) -> None:
        self.called = False
        self.refused = False
        self.seed = ""
        self.note = note
        self.server = server
        self._limits = limits
        self._count = 0
        self._calls = 0
        self._keys = 0
        self._kept_chars = 0

    def begin(self, block: Block, extra: dict[str, Any] | None, events: list[Event]) -> int:
        """Start a block, and return its number."""
        limits = self._limits
        if self._count >= limits.max_blocks:
            raise too_large("max_blocks", limits.max_blocks)
        if isinstance(block, ToolCall | ServerToolCall):
            self._calls += 1
            if self._calls > limits.max_tool_calls:
                raise too_large("max_tool_calls", limits.max_tool_calls)
            if max(len(block.id), len(block.name)) > limits.max_id_chars:
                raise too_large("max_id_chars", limits.max_id_chars)
            if not block.id:
                block = structs.replace(block, id=mint_id(self.seed, self._count))
                self.note("minted_id", "tool call")
        self.called = self.called or isinstance(block, ToolCall)
        self.refused = self.refused or isinstance(block, Refusal)
        index = self._count
        self._count += 1
        events.append(BlockStart(index, block, extra=extra or None))
        return index

    def keep(self, chars: int = 0) -> None:
        """Count something that is kept: an item with what is known of it, or a part of one."""
        self._keys += 1
        self._kept_chars += chars
        if self._kept_chars > self._limits.max_accumulated_bytes:
            raise too_large("max_accumulated_bytes", self._limits.max_accumulated_bytes)
        if self._keys > _KEYS_PER_BLOCK * self._limits.max_blocks:
            raise too_large("max_blocks", self._limits.max_blocks)
