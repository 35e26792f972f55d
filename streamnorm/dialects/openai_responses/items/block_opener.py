"""Block indexes of one response, and bounds on what is stored for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamnorm._core.blocks import Block, Refusal, ToolCall
from streamnorm._core.codec import BlockOpener
from streamnorm._core.events import Event, StreamError
from streamnorm._core.failures import Fatal, too_large
from streamnorm._core.limits import Limits, StoredBytes

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
        self._call_ids: dict[str, None] = {}

    def begin_response(self, id: str) -> None:
        """Mint missing call ids from the id of the response."""
        self._opener.seed = (id,)

    def open(self, block: Block, extra: dict[str, Any] | None, events: list[Event]) -> int:
        """Append the start of a block and return its index.

        Raises:
            Fatal: The block is a call of the client's tools with the id of another one.
        """
        if isinstance(block, ToolCall):
            self.has_tool_call = True
            if block.id in self._call_ids:  # the client could not tell their results apart
                raise Fatal(StreamError("malformed", "second call with one id, expected another"))
            if block.id:
                self._call_ids[block.id] = None
        self.has_refusal = self.has_refusal or isinstance(block, Refusal)
        return self._opener.open(block, events, extra=extra)

    def count_stored(self, size: int = 0) -> None:
        """Count an item, a part or a key that is stored, with `size` bytes of text.

        Raises:
            Fatal: More is stored than the limits allow.
        """
        self._keys += 1
        self._opener.store(size)
        if self._keys > _KEYS_PER_BLOCK * self._limits.max_blocks:
            raise too_large("max_blocks", self._limits.max_blocks)

    @property
    def stored(self) -> StoredBytes:
        """Counter of what the decoder stores."""
        return self._opener.stored

    def store_text(self, text: str) -> int:
        """Count text that is stored, and return its bytes.

        Raises:
            Fatal: More is stored than the limits allow.
        """
        return self._opener.store_text(text)

    def store_usage(self, extra: dict[str, Any] | None) -> None:
        """Count the unknown fields of the last usage, in place of those of the one before.

        Raises:
            Fatal: More is stored than the limits allow.
        """
        self._opener.store_usage(extra)
