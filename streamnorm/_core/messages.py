"""Whole messages."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from streamnorm._core.blocks import Block, Text, ToolCall
from streamnorm._core.events import StopReason, Usage

__all__ = ["Message"]


class Message(Struct, frozen=True, omit_defaults=True):
    """One answer of a model, complete or partial.

    Attributes:
        id: The provider's id; empty if it sent none.
        model: The model that answered.
        blocks: The content, in order.
        stop_reason: Why it ended; None if it has not.
        raw_stop_reason: The vendor's finish reason, as spelt on the wire.
        stop_sequence: The sequence that ended it, if the vendor reports it.
        usage: Token counts.
        extra: Other fields of the vendor's first object.
        stop_extra: Other fields of the vendor's last object.
        block_extras: For each block the vendor's fields that have no place in it, or None;
            empty where no block has any.
    """

    id: str = ""
    model: str = ""
    blocks: tuple[Block, ...] = ()
    stop_reason: StopReason | None = None
    raw_stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Usage = Usage()
    extra: dict[str, Any] | None = None
    stop_extra: dict[str, Any] | None = None
    block_extras: tuple[dict[str, Any] | None, ...] = ()

    @property
    def text(self) -> str:
        """The text for the user: all `Text` blocks, one after the other."""
        return "".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls that the client is asked to execute, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolCall))
