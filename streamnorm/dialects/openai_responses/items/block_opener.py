"""Block indexes of one response, and bounds on what is stored for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamnorm._core.blocks import Block, Refusal, ToolCall
from streamnorm._core.codec import BlockOpener
from streamnorm._core.events import Event
from streamnorm._core.limits import Limits
from streamnorm._core.provider_errors import too_large

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
    """

    def __init__(
        self, limits: Limits, note: Callable[[str, str], None], server: str | None = None
    ) -> None:
        self.has_tool_call = False
        self.has_refusal = False
        self.note = note
        self.server = server
        self._limits = limits
        self._opener = BlockOpener(limits, note)
        self._keys = 0

    def begin_response(self, id: str) -> None:
        """Mint missing call ids from the id of the response."""
        self._opener.seed = (id,)

    def open(self, block: Block, extra: dict[str, Any] | None, events: list[Event]) -> int:
        """Append the start of a block and return its index."""
        self.has_tool_call = self.has_tool_call or isinstance(block, ToolCall)
        self.has_refusal = self.has_refusal or isinstance(block, Refusal)
        return self._opener.open(block, events, extra=extra)

    def count_stored(self, chars: int = 0) -> None:
        """Count an item, a part or a key that is stored, with `chars` of text.

        Raises:
            Fatal: More is stored than the limits allow.
        """
        self._keys += 1
        self._opener.store(chars)
        if self._keys > _KEYS_PER_BLOCK * self._limits.max_blocks:
            raise too_large("max_blocks", self._limits.max_blocks)
