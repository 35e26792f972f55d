"""Whole messages, and the responses that they were decoded from."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from streamnorm._core.blocks import Block, Text, ToolCall
from streamnorm._core.events import Opaque, StopReason, Usage


class Message(Struct, frozen=True, omit_defaults=True, eq=False):
    """One answer of a model, complete or partial.

    Equality ignores `opaque` and `source`.

    Attributes:
        id: The provider's id; empty if it sent none.
        model: The model that answered.
        blocks: The content, in order.
        stop_reason: Unified stop reason; None if the message has not ended.
        raw_stop_reason: The vendor's finish reason, as spelt on the wire.
        stop_sequence: The sequence that ended the message, if the vendor reports it.
        usage: Token counts.
        extra: Other fields of the vendor's first object.
        stop_extra: Other fields of the vendor's last object.
        block_extras: The vendor's other fields of each block, or None; () if no block has any.
        opaque: Data that only its own dialect knows, such as log probabilities; `index` is the
            number of a block.
        source: The `MessageSource` of a whole response; None for any other message.
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
    opaque: tuple[Opaque, ...] = ()
    source: Any = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return self._said() == other._said()

    def __hash__(self) -> int:
        return hash(self._said())

    def _said(self) -> tuple[object, ...]:
        return tuple([getattr(self, name) for name in _COMPARED])

    @property
    def text(self) -> str:
        """The text for the user: all `Text` blocks, concatenated."""
        return "".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls that the client is asked to execute, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolCall))


_COMPARED = tuple(name for name in Message.__struct_fields__ if name not in ("opaque", "source"))


class MessageSource(Struct, frozen=True):
    """The response that a message was decoded from.

    If only the model of the message changes, and the dialect stays, the response is written
    again as it was read.

    Attributes:
        dialect: Name of the dialect.
        body: The decoded response; None if it was a stream.
        message: The message as it was decoded, without its source.
        choices: Numbers of the other answers in the body.
    """

    dialect: str
    body: dict[str, Any] | None
    message: Message
    choices: tuple[int, ...] = ()


def came_from(message: Message, dialect: str) -> bool:
    """Return whether a message was decoded from a dialect, changed since or not."""
    return isinstance(message.source, MessageSource) and message.source.dialect == dialect


def unchanged_body(message: Message, dialect: str) -> dict[str, Any] | None:
    """Return the response that a message was decoded from, if it can be written again.

    None if the message came from another dialect, or if a field besides the model was replaced.
    """
    if not came_from(message, dialect):
        return None
    before = message.source.message
    for name in message.__struct_fields__:
        if name not in ("model", "source") and getattr(message, name) is not getattr(before, name):
            return None
    body: dict[str, Any] | None = message.source.body
    return body
