"""What is known of one block on its way to the target."""

from __future__ import annotations

from msgspec import Struct

from streamnorm._core.blocks import Block
from streamnorm._core.events import BlockStart, Event
from streamnorm._core.text_buffer import TextBuffer

__all__ = ["BlockState"]


class BlockState(Struct):
    """One block of the source on its way to the target.

    Attributes:
        start: Its start, as the target has it.
        wrapped: Whether it is free text that is written as a function's one string.
        started: Whether its start went out.
        dropped: Whether nothing of it goes out.
        waiting: What came before its start could go out.
        bare: Whether it is but a signature.
        part: Number of the summary that is written.
        filled: Whether arguments or a summary have begun.
        ended: Whether it is signed or has stopped.
        stopped: Whether it has stopped.
    """

    start: BlockStart
    wrapped: bool = False
    started: bool = True
    dropped: bool = False
    waiting: list[Event | TextBuffer] = []
    bare: bool = False
    part: int = 0
    filled: bool = False
    ended: bool = False
    stopped: bool = False

    @property
    def block(self) -> Block:
        """The block, as the target has it."""
        return self.start.block
