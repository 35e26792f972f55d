"""Whole messages."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from streamnorm._core.blocks import Block, Text, ToolCall
from streamnorm._core.events import Opaque, StopReason, Usage


class Message(Struct, frozen=True, omit_defaults=True, eq=False):
    """One answer of a model, complete or partial.

    Two messages are equal if they say the same: `opaque` and `source` are not compared.

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
        opaque: Data that only its own dialect knows, such as log probabilities; `index` is the
            number of a block.
        source: What the message was decoded from; None if it was not a whole response.
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
        """The text for the user: all `Text` blocks, one after the other."""
        return "".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls that the client is asked to execute, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolCall))


_COMPARED = tuple(name for name in Message.__struct_fields__ if name not in ("opaque", "source"))


class MessageSource(Struct, frozen=True):
    """What a message was decoded from.

    A whole response is written again, spelt as it was, where the message goes to the same
    dialect unchanged but for its model.

    Attributes:
        dialect: The dialect.
        body: The whole response, decoded; None if it was a stream.
        message: The message itself, without its source.
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
    """Return the response that a message was decoded from, or None if it must be written anew.

    It must be written anew if anything but the model was changed since, or if it came from
    another dialect.
    """
    if not came_from(message, dialect):
        return None
    before = message.source.message
    for name in message.__struct_fields__:
        if name not in ("model", "source") and getattr(message, name) is not getattr(before, name):
            return None
    body: dict[str, Any] | None = message.source.body
    return body
