"""Texts that a target joins: blocks that it writes as one, and arguments that it needs whole."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from streamnorm._core.blocks import Reasoning
from streamnorm._core.errors import ArgumentsError
from streamnorm._core.grammar import BlockOrder
from streamnorm._core.limits import StoredBytes
from streamnorm._core.losses import Capabilities, Losses
from streamnorm._core.text import TextBuffer
from streamnorm.partial_json import check_arguments

_WHITE_SPACE = " \t\r\n"

# In JSON the first two occur only between tokens.  The other three occur only in strings; Python's
# `str.splitlines`, among others, splits lines at them.
_LINE_ENDS = (
    *(("\r", " "), ("\n", " ")),
    *(("\x85", "\\u0085"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029")),
)

_MERGED = "written as one block"


class WholeArguments(Struct, eq=False):
    """Buffer the arguments of each call for a target that writes them as one object.

    Attributes:
        losses: Counter of `broken_arguments` and `null_arguments`.
        stored: Counter of the buffered bytes.
        texts: Arguments of the open calls.
    """

    losses: Losses
    stored: StoredBytes
    texts: dict[int, TextBuffer] = {}

    def append(self, index: int, text: str) -> None:
        """Append arguments of a call."""
        if index not in self.texts:
            self.texts[index] = TextBuffer(stored=self.stored)
        self.texts[index].append(text)

    def sink(self, index: int) -> Callable[[str], None] | None:
        """Return a function that appends arguments of a call; None if the call has none yet."""
        buffer = self.texts.get(index)
        return None if buffer is None else buffer.append

    def pop(self, index: int, where: str) -> str | None:
        """Remove and return the arguments of a call, as one line.

        "" if there are no arguments.  None if they are no JSON object: the call must be dropped.
        """
        buffer = self.texts.pop(index, None)
        text = ""
        if buffer is not None:
            text = buffer.text()
            buffer.release()
        # Groq's calls without arguments.
        if text.strip() == "null":
            self.losses.add("null_arguments", "tool call", "written as {}")
            return ""
        try:
            check_arguments(text)
        except ArgumentsError:
            self.losses.add("broken_arguments", where, "call dropped")
            return None
        text = text.strip(_WHITE_SPACE)
        for end, written in _LINE_ENDS:
            text = text.replace(end, written)
        return text

    def discard(self, index: int, where: str) -> None:
        """Count the arguments of an open call as lost when the stream fails."""
        self.texts.pop(index, None)
        self.losses.add("broken_arguments", where, "call dropped")


class _WrittenBlock(Struct):
    """A block that the target writes.

    Attributes:
        type: Type of the block.
        choice: Number of its choice.
        signature_only: Whether it has only a signature.
        previous: Index of the block written before it.
        signed: Whether it has a signature.
        stopped: Whether it has stopped.
        dropped: Whether it was withdrawn at its stop.
    """

    type: type
    choice: int
    signature_only: bool
    previous: int | None = None
    signed: bool = False
    stopped: bool = False
    dropped: bool = False


class _WrittenChoice(Struct):
    """The blocks of one choice, in the order in which a `Sequencer` writes them.

    Attributes:
        order: Order of the held blocks.
        last: Index of the block written last.
    """

    order: BlockOrder = field(default_factory=BlockOrder)
    last: int | None = None


class Boundaries:
    """Find blocks that the target merges with the previous block.

    Args:
        capabilities: Capabilities of the target.
        losses: Counter of `boundaries`.

    Attributes:
        merged: Index of the previous block, by the index of the block that merges with it.
    """

    def __init__(self, capabilities: Capabilities, losses: Losses) -> None:
        self.merged: dict[int, int] = {}
        self._target = capabilities
        self._losses = losses
        self._blocks: dict[int, _WrittenBlock] = {}
        self._choices: dict[int, _WrittenChoice] = {}

    def start(self, index: int, choice: int, type: type, *, signature_only: bool) -> None:
        """Add a block that the target writes.

        Args:
            index: Index of the block.
            choice: Number of its choice.
            type: Type of the block.
            signature_only: Whether it has only a signature.  Readers attribute that of a text to
                the previous block if a block of its type can be signed.
        """
        self._blocks[index] = _WrittenBlock(type, choice, signature_only)
        blocks = self._choices.setdefault(choice, _WrittenChoice())
        if not blocks.order.start(index):
            self._write(index, blocks)

    def sign(self, index: int) -> None:
        """Mark a block as signed: text after a signature belongs to a new block."""
        self._blocks[index].signed = True

    def stop(self, index: int, *, written: bool) -> None:
        """Record that a block has stopped, and whether the target writes the block.

        Args:
            index: Index of the block.
            written: Whether the encoder writes the block; if not, its neighbours are adjacent.
        """
        block = self._blocks[index]
        choice = self._choices[block.choice]
        block.stopped, block.dropped = True, not written
        if block.dropped and index == choice.last:
            choice.last = block.previous
        if index == choice.order.open:
            choice.order.open = None
            while (held := choice.order.next()) is not None:
                if not self._blocks[held].dropped:
                    self._write(held, choice)

    def _write(self, index: int, choice: _WrittenChoice) -> None:
        """Append a written block; count its boundary if the target loses it."""
        block = self._blocks[index]
        if choice.last is not None and self._merge(self._blocks[choice.last], block):
            self._losses.add("boundaries", self._blocks[choice.last].type.__name__, _MERGED)
            self.merged[index] = choice.last
        block.previous, choice.last = choice.last, index
        if not block.stopped and not issubclass(block.type, self._target.overlapping):
            choice.order.open = index

    def _merge(self, previous: _WrittenBlock, block: _WrittenBlock) -> bool:
        """Return whether clients of the target join a block to the previous block."""
        # Google asks clients not to merge signed parts with others.
        if previous.signed or previous.type not in self._target.joined:
            return False
        if block.type is previous.type:
            return True
        # A thought is marked as one even where its text is hidden.
        return (
            block.signature_only
            and block.type is not Reasoning
            and previous.type in self._target.signed
        )
