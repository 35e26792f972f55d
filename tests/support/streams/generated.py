"""Generated streams with their expected messages."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from streamnorm import (
    Block,
    Event,
    Message,
    ServerToolCall,
    ServerToolResult,
    ToolCall,
    Usage,
    accumulate,
)
from support.draws import Draws
from support.openai_chat.chunks import anonymous

__all__ = ["Source", "cut_units", "has_same_messages"]


class Source(NamedTuple):
    """A generated stream and its messages.

    Attributes:
        frames: The bytes, one event or comment each.
        messages: The message of each choice.
        usage: The final usage.
        lenient: Expected `Completed.lenient`.
    """

    frames: list[bytes]
    messages: list[Message]
    usage: Usage
    lenient: tuple[str, ...]

    @property
    def body(self) -> bytes:
        """All bytes of the stream."""
        return b"".join(self.frames)


def cut_units(d: Draws, text: str, most: int) -> list[str]:
    """Return a text in pieces that may split surrogate pairs."""
    units = text.encode("utf-16-le")
    marks = "".join(chr(0x4E00 + number) for number in range(len(units) // 2))
    spans = [(ord(piece[0]) - 0x4E00, len(piece)) for piece in d.cut(marks, most)]
    return [units[2 * a : 2 * (a + n)].decode("utf-16-le", "surrogatepass") for a, n in spans]


def has_same_messages(source: Source, events: list[Event]) -> bool:
    """Return whether events accumulate to a generated stream's messages."""
    return all(
        _anonymous(message) == _anonymous(accumulate(events, choice=choice))
        for choice, message in enumerate(source.messages)
    )


def _anonymous(message: Message) -> Message:
    """Return a message without minted ids."""
    return structs.replace(message, blocks=tuple(_unnamed(block) for block in message.blocks))


def _unnamed(block: Block) -> Block:
    match block:
        case ToolCall(id) | ServerToolCall(id) if not id or anonymous(id):
            return structs.replace(block, id="")
        case ServerToolResult(id) if not id or anonymous(id):
            return structs.replace(block, tool_call_id="")
        case _:
            return block
