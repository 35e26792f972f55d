"""Base class of the steps, and the state that all steps of one interaction share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any
from zlib import crc32

from msgspec import Struct, field

from streamnorm._core.blocks import Block, OpaqueBlock
from streamnorm._core.codec.block_opener import BlockOpener
from streamnorm._core.events import BlockStart, BlockStop, Event, Opaque, StreamError
from streamnorm._core.failures import Fatal
from streamnorm._core.ids import Signed, untag_signature, unwrap_base64
from streamnorm._core.json import clean, compact, rejoin
from streamnorm.dialects.gemini_interactions.wire import Delta

__all__ = [
    "DIALECT",
    "GrowingBlock",
    "InteractionBlocks",
    "OpenStep",
    "OutputText",
    "UnknownStep",
    "signature_from_wire",
]

DIALECT = "gemini_interactions"


class OutputText(Struct):
    """Length and checksum of the text of one step, which need not be stored."""

    size: int = 0  # bytes
    crc: int = 0

    def append(self, text: str) -> None:
        """Append a piece of the text."""
        data = text.encode("utf-8", "replace")
        self.size += len(data)
        self.crc = crc32(data, self.crc)


class InteractionBlocks(BlockOpener):
    """State that the steps of one interaction share.

    Attributes:
        unanswered: Names of the client tool calls without a result, by call id.
        running: Ids of the provider's calls without a result.
        calls_by_id: Name and arguments of all calls, by id.
        outputs: Text of each step of the answer.
        unfinished: Number of client tool calls whose arguments are no whole JSON.
    """

    unanswered: dict[str, str] = field(default_factory=dict)
    running: list[str] = field(default_factory=list)
    calls_by_id: dict[str, tuple[str, str]] = field(default_factory=dict)
    outputs: list[OutputText] = field(default_factory=list)
    unfinished: int = 0

    def start(self, block: Block, extra: dict[str, Any] | None, events: list[Event]) -> int:
        """Append the start of a block and return its index."""
        index = self.next_index()
        events.append(BlockStart(index, block, extra=extra or None))
        return index

    def name_call(self, id: str, name: str) -> None:
        """Store the id of a call, which no other call may have.

        Raises:
            Fatal: Another call has it.
        """
        if id in self.calls_by_id:
            raise Fatal(StreamError("malformed", "two calls of one id, expected different ids"))
        self.calls_by_id[id] = name, ""

    def opaque(
        self, name: str, value: Any, events: list[Event], *, index: int | None = None
    ) -> None:
        """Append data that has no unified event."""
        events.append(Opaque(DIALECT, clean(name), compact(value), index))


class GrowingBlock:
    """An open block that deltas extend.

    Args:
        index: Index of the block.
        delta_of: Makes the delta event of a text.

    Attributes:
        carry: High surrogate that the last delta ended in.
    """

    def __init__(self, index: int, delta_of: Callable[[str], Event]) -> None:
        self.index = index
        self.carry = ""
        self._delta_of = delta_of

    def append(self, text: str, events: list[Event]) -> str:
        """Append a delta and return its text, without a high surrogate at its end."""
        text, self.carry = rejoin(self.carry, text)
        if text:
            events.append(self._delta_of(text))
        return text

    def flush(self, events: list[Event]) -> str:
        """Append the replacement of a high surrogate without its pair, and return it."""
        carry, self.carry = clean(self.carry), ""
        if carry:
            events.append(self._delta_of(carry))
        return carry


class OpenStep(ABC):
    """One open step.

    Args:
        kind: Type of the step.
        fields: Fields of its start.
        arguments: JSON text of the arguments in its start; empty if there are none.
        blocks: State shared with the other steps.
    """

    def __init__(
        self, kind: str, fields: dict[str, Any], arguments: str, blocks: InteractionBlocks
    ) -> None:
        self.kind = kind
        self._fields = fields
        self._start_arguments = arguments
        self._blocks = blocks
        self._block: GrowingBlock | None = None

    @property
    def index(self) -> int | None:
        """Index of the open block; None if none is open."""
        return None if self._block is None else self._block.index

    @abstractmethod
    def start(self, events: list[Event]) -> None:
        """Append the events of the start."""

    def append(self, delta: Delta, events: list[Event]) -> bool:
        """Append a plain delta; False leaves the step unchanged: read the frame in full."""
        return False

    @abstractmethod
    def read_delta(
        self, kind: str, delta: dict[str, Any], arguments: str, events: list[Event]
    ) -> bool:
        """Append the events of a delta; False if the step has no deltas of this type.

        Args:
            kind: Type of the delta.
            delta: The delta.
            arguments: JSON text of its arguments; empty if there are none.
            events: Where to append.
        """

    @abstractmethod
    def stop(self, events: list[Event], *, explicit: bool) -> None:
        """Append the events of the end.

        Args:
            events: Where to append.
            explicit: Whether the step itself was stopped, and not only the interaction.
        """


class UnknownStep(OpenStep):
    """A step of a type without a unified block, or of the user's own input."""

    _index: int | None = None

    @property
    def index(self) -> int | None:
        return self._index

    def start(self, events: list[Event]) -> None:
        block = OpaqueBlock(DIALECT, clean(self.kind), compact(self._fields))
        self._index = self._blocks.start(block, None, events)

    def read_delta(
        self, kind: str, delta: dict[str, Any], arguments: str, events: list[Event]
    ) -> bool:
        return False

    def stop(self, events: list[Event], *, explicit: bool) -> None:
        # A step whose start passed a limit was never opened.
        events += [] if self._index is None else [BlockStop(self._index)]


def signature_from_wire(signature: str) -> Signed:
    """Return a signature and its issuer: the one in our tag, else Google."""
    return untag_signature(unwrap_base64(signature)) or Signed(signature, "google")
