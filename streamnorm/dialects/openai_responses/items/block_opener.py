"""Block indexes of one response, and bounds on what is stored for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from streamnorm._core.blocks import Block, Refusal, ServerToolCall, ToolCall
from streamnorm._core.events import BlockStart, Event
from streamnorm._core.failures import too_large
from streamnorm._core.ids import mint_id
from streamnorm._core.limits import Limits

__all__ = ["ResponseBlockOpener"]

# A reasoning block stores a key for each summary, a message with one part stores two.
_KEYS_PER_BLOCK = 16


class ResponseBlockOpener:
    """Opens the blocks of one response, within its limits.

    Args:
        limits: Bounds.
        note: Records a `Note` of a kind and a location.
        server: Name of the server, which may decide who issued encrypted reasoning.

    Attributes:
        has_tool_call: Whether a call for the client to execute was opened.
        has_refusal: Whether a refusal was opened.
        id_seed: Id of the response, from which missing call ids are minted.
    """

    def __init__(
        self, limits: Limits, note: Callable[[str, str], None], server: str | None = None
    ) -> None:
        self.has_tool_call = False
        self.has_refusal = False
        self.id_seed = ""
        self.note = note
        self.server = server
        self._limits = limits
        self._blocks = 0
        self._calls = 0
        self._keys = 0
        self._stored_chars = 0

    def open(self, block: Block, extra: dict[str, Any] | None, events: list[Event]) -> int:
        """Append the start of a block and return its index."""
        limits = self._limits
        if self._blocks >= limits.max_blocks:
            raise too_large("max_blocks", limits.max_blocks)
        if isinstance(block, ToolCall | ServerToolCall):
            self._calls += 1
            if self._calls > limits.max_tool_calls:
                raise too_large("max_tool_calls", limits.max_tool_calls)
            if max(len(block.id), len(block.name)) > limits.max_id_chars:
                raise too_large("max_id_chars", limits.max_id_chars)
            if not block.id:
                block = structs.replace(block, id=mint_id(self.id_seed, self._blocks))
                self.note("minted_id", "tool call")
        self.has_tool_call = self.has_tool_call or isinstance(block, ToolCall)
        self.has_refusal = self.has_refusal or isinstance(block, Refusal)
        index = self._blocks
        self._blocks += 1
        events.append(BlockStart(index, block, extra=extra or None))
        return index

    def count_stored(self, chars: int = 0) -> None:
        """Count an item, a part or a key that is stored, with `chars` of text.

        Raises:
            Fatal: More is stored than the limits allow.
        """
        self._keys += 1
        self._stored_chars += chars
        if self._stored_chars > self._limits.max_accumulated_bytes:
            raise too_large("max_accumulated_bytes", self._limits.max_accumulated_bytes)
        if self._keys > _KEYS_PER_BLOCK * self._limits.max_blocks:
            raise too_large("max_blocks", self._limits.max_blocks)
