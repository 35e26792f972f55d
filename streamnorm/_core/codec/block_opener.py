"""The opening of blocks, written once for all rooms: numbers, bounds, minted ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from streamnorm._core.blocks import Block, ServerToolCall, ToolCall
from streamnorm._core.events import BlockStart, Event
from streamnorm._core.failures import too_large
from streamnorm._core.ids import mint_id
from streamnorm._core.limits import Limits

__all__ = ["BlockOpener"]


class BlockOpener:
    """Number the blocks of one stream, and enforce the limits on them.

    Args:
        limits: Bounds.
        note: Counts an accepted deviation by kind and place.

    Attributes:
        limits: Bounds.
        note: Counts an accepted deviation by kind and place.
        seed: Values that minted ids are derived from; the same stream mints the same ids.
        blocks: Number of blocks so far, the index of the next one.
    """

    def __init__(self, limits: Limits, note: Callable[[str, str], None]) -> None:
        self.limits = limits
        self.note = note
        self.seed: tuple[object, ...] = ()
        self.blocks = 0
        self._calls = 0
        self._stored_chars = 0

    def open(
        self,
        block: Block,
        events: list[Event],
        *,
        choice: int = 0,
        extra: dict[str, Any] | None = None,
    ) -> int:
        """Append the start of a block and return its index; a call without id gets one.

        Raises:
            Fatal: There are too many blocks or calls, or an id or name is too long.
        """
        if self.blocks >= self.limits.max_blocks:
            raise too_large("max_blocks", self.limits.max_blocks)
        if isinstance(block, ToolCall | ServerToolCall):
            self.count_call(block.id, block.name)
            if not block.id:
                block = structs.replace(block, id=self.mint_id())
        index = self.blocks
        self.blocks += 1
        events.append(BlockStart(index, block, choice, extra or None))
        return index

    def count_call(self, *names: str) -> None:
        """Count a tool call, given its id and name.

        Raises:
            Fatal: There are too many, or a name is too long.
        """
        self._calls += 1
        if self._calls > self.limits.max_tool_calls:
            raise too_large("max_tool_calls", self.limits.max_tool_calls)
        self.check_names(*names)

    def check_names(self, *names: str) -> None:
        """Bound the length of ids and names.

        Raises:
            Fatal: One is too long.
        """
        if max(map(len, names)) > self.limits.max_id_chars:
            raise too_large("max_id_chars", self.limits.max_id_chars)

    def mint_id(self, *parts: object) -> str:
        """Return an id for a tool call that came without one."""
        self.note("minted_id", "tool call")
        return mint_id(*self.seed, *parts, self.blocks)

    def store(self, chars: int) -> None:
        """Count characters of payloads from which unknown fields are stored.

        Raises:
            Fatal: There are too many.
        """
        self._stored_chars += chars
        if self._stored_chars > self.limits.max_accumulated_bytes:
            raise too_large("max_accumulated_bytes", self.limits.max_accumulated_bytes)
