"""The content blocks of one Anthropic message: from the wire's numbers to events.

Anthropic's own streams send one block after the other.  Compatible servers overlap them,
use an index twice, forget to stop a block, or send a delta to a block that cannot take
it; what was meant is known all the same, and each departure is a note.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct, structs

from streamnorm._core.blocks import Block, OpaqueBlock, Reasoning, ServerToolCall, Text, ToolCall
from streamnorm._core.codec import Delta
from streamnorm._core.events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    Event,
    JSONDelta,
    Opaque,
    ReasoningDelta,
    SignatureDelta,
    StreamError,
    TextDelta,
)
from streamnorm._core.failures import Fatal, too_large
from streamnorm._core.ids import mint_id
from streamnorm._core.json import clean, compact, is_json, rejoin
from streamnorm._core.limits import Limits
from streamnorm.dialects.anthropic import wire
from streamnorm.dialects.anthropic.starts import DIALECT, Start, citation, signed_by

__all__ = ["Content", "Open"]

_CALLS = (ToolCall, ServerToolCall)
_IMPLIED = "implied"  # key of a block that deltas have opened
_DELTAS: dict[type[Block], type[Delta]] = {
    Text: TextDelta,
    Reasoning: ReasoningDelta,
    ToolCall: JSONDelta,
    ServerToolCall: JSONDelta,
}
_WIRE_DELTAS: dict[type[wire.Delta], type[Delta]] = {
    wire.TextDelta: TextDelta,
    wire.ThinkingDelta: ReasoningDelta,
    wire.InputJSONDelta: JSONDelta,
}


class Open(Struct):
    """A block that has started and not stopped.

    Attributes:
        start: What its start told.
        kind: The class of its block.
        index: Its unified number; -1 while its start waits.
        delta: A delta of it; None before it has begun, and of blocks that never grow.
        pieces: The arguments of a client's call so far.
        input: The input that stood in its start.
        fresh: Whether no text of it has come by deltas.
        carry: High surrogate that its text ended in.
        signature: Its signature as spelt on the wire, once that came.
    """

    start: Start
    kind: type[Block]
    index: int = -1
    delta: Delta | None = None
    pieces: list[str] | None = None
    input: str = ""
    fresh: bool = True
    carry: str = ""
    signature: str = ""


class Content:
    """Follow the blocks of one message.

    Args:
        server: Who sends.
        limits: Bounds.
        note: Counts something that was forgiven.

    Attributes:
        called: Whether there is a client tool call.
        unfinished: Whether the arguments of a client's call are no whole JSON.
        surrogates: Whether the payload at hand may hold lone surrogates.
        seed: What minted ids are made of.
    """

    def __init__(
        self, server: str | None, limits: Limits, note: Callable[[str, str], None]
    ) -> None:
        self.called = False
        self.unfinished = False
        self.surrogates = False
        self.seed = ""
        self._server = server
        self._limits = limits
        self._note = note
        self._open: dict[object, Open] = {}
        self._numbers: dict[object, int] = {}  # the wire's to ours, stopped blocks too
        self._blocks = 0
        self._calls = 0

    @property
    def is_open(self) -> bool:
        """Whether a block has not stopped."""
        return bool(self._open)

    def appendable_block(self, number: object, kind: type[wire.Delta]) -> Open | None:
        """Return the open block that a delta only extends; None if it is to be read in full."""
        block = self._open.get(number)
        if block is None or block.fresh or block.carry or block.signature:
            return None
        return block if _WIRE_DELTAS[kind] is type(block.delta) else None

    def start(self, number: object, start: Start, input: str, events: list[Event]) -> None:
        """Take the start of a block.

        Args:
            number: Its index on the wire; None if there is none.
            start: What it tells.
            input: The JSON text of the input within it.
            events: Where to append.
        """
        self._end_implied(events)
        if number in self._open:
            self._note("reused_index", "block")
            self.stop(number, events)
        block = Open(start, type(start.block), input=input if start.input else "")
        self._open[object() if number is None else number] = block
        if isinstance(start.block, OpaqueBlock) and start.block.kind == "compaction":
            return  # which is whole once its delta is here
        self._begin(number, block, events)
        if start.text:
            events.append(_DELTAS[block.kind](block.index, start.text))
        events += [CitationDelta(block.index, source) for source in start.citations]

    def whole(self, start: Start, input: str, events: list[Event]) -> None:
        """Take a block that has no stop of its own."""
        key = object()
        self.start(key, start, input, events)
        self.stop(key, events)

    def text(self, number: object, text: str, events: list[Event]) -> None:
        """Take more text."""
        block = self._open.get(number)
        if block is None or block.kind is not Text:
            if not text:
                return
            block = self._find(Text, events)
        if (text := self._fresh(block, text)) and (text := self._joined(block, text)):
            events.append(TextDelta(block.index, text))

    def thinking(self, number: object, text: str, events: list[Event]) -> None:
        """Take more thinking."""
        block = self._open.get(number)
        if block is None or block.kind is not Reasoning:
            if not text:
                return
            block = self._find(Reasoning, events)
        if not (text := self._fresh(block, text)):
            return
        if block.signature:
            self._renew(block, events)
        if text := self._joined(block, text):
            events.append(ReasoningDelta(block.index, text))

    def input(self, number: object, text: str, events: list[Event]) -> None:
        """Take more of a tool's input."""
        block = self._open.get(number)
        if block is None or block.kind not in _CALLS:
            if not text:
                return
            block = self._find(ToolCall, events)
        if text:
            block.fresh = False
            if text := self._joined(block, text):
                if block.pieces is not None:
                    block.pieces.append(text)
                events.append(JSONDelta(block.index, text))

    def sign(self, number: object, signature: str, events: list[Event]) -> None:
        """Take the signature of a thinking block."""
        if not signature:
            return
        block = self._open.get(number)
        if block is None or block.kind is not Reasoning:
            block = self._find(Reasoning, events)
        if block.signature == signature:
            self._note("resent_signature", "thinking")
            return
        if block.signature:
            self._renew(block, events)
        block.signature = signature
        self._flush(block, events)
        events.append(SignatureDelta(block.index, *signed_by(clean(signature), self._server)))

    def cite(self, number: object, wire: dict[str, Any], events: list[Event]) -> None:
        """Take a source of a text block."""
        block = self._open.get(number)
        if block is None or block.kind is not Text:
            block = self._find(Text, events)
        events.append(CitationDelta(block.index, citation(wire)))

    def compact(self, number: object, fields: dict[str, Any], events: list[Event]) -> bool:
        """Take what a compaction gave.  Return False if none waits for it."""
        block = self._open.get(number)
        if block is None or block.index >= 0 or not isinstance(block.start.block, OpaqueBlock):
            return False
        opaque = block.start.block
        start = msgspec.json.decode(opaque.data)
        block.start.block = OpaqueBlock(DIALECT, opaque.kind, compact({**start, **fields}))
        self._begin(number, block, events)
        return True

    def unknown(self, number: object, name: str, value: Any, events: list[Event]) -> None:
        """Take an event that only Anthropic's clients may know."""
        index = self._numbers.get(number) if isinstance(number, int) else None
        events.append(Opaque(DIALECT, name, compact(value), index))

    def stop(self, number: object, events: list[Event]) -> None:
        """Take the stop of a block."""
        block = self._open.pop(number, None)
        if block is None:
            self._note("extra_block_stop", "block")
            return
        self._end(number, block, events)

    def finish(self, events: list[Event]) -> None:
        """Stop what is still open."""
        self._end_implied(events)
        for key, block in sorted(self._open.items(), key=lambda item: item[1].index):
            self._note("missing_block_stop", "block")
            self._end(key, block, events)
        self._open.clear()

    # One block

    def _begin(self, number: object, block: Open, events: list[Event]) -> None:
        limits = self._limits
        if self._blocks >= limits.max_blocks:
            raise too_large("max_blocks", limits.max_blocks)
        started = block.start.block
        if isinstance(started, _CALLS):
            self._calls += 1
            if self._calls > limits.max_tool_calls:
                raise too_large("max_tool_calls", limits.max_tool_calls)
            if max(len(started.id), len(started.name)) > limits.max_id_chars:
                raise too_large("max_id_chars", limits.max_id_chars)
            if isinstance(started, ToolCall):
                self.called, block.pieces = True, []
            if not started.id:
                started = structs.replace(started, id=mint_id(self.seed, self._blocks))
                self._note("minted_id", "tool call")
        block.index = self._blocks
        if block.kind in _DELTAS:
            block.delta = _DELTAS[block.kind](block.index, "")
        self._blocks += 1
        if isinstance(number, int):
            self._numbers[number] = block.index
        events.append(BlockStart(block.index, started, extra=block.start.extra))

    def _renew(self, block: Open, events: list[Event]) -> None:
        """Go on in a new block behind a signature, which covers what came before it."""
        key = next(key for key, open_block in self._open.items() if open_block is block)
        self._flush(block, events)
        events.append(BlockStop(block.index))
        block.start = Start(Reasoning())
        block.signature = ""
        self._begin(key, block, events)

    def _end(self, number: object, block: Open, events: list[Event]) -> None:
        if block.index < 0:
            self._begin(number, block, events)
        self._flush(block, events)
        if block.input and block.fresh:
            events.append(JSONDelta(block.index, block.input))
        if block.start.signature and not block.signature:
            signature = signed_by(block.start.signature, self._server)
            events.append(SignatureDelta(block.index, *signature))
        events.append(BlockStop(block.index))
        if block.pieces:
            self.unfinished = self.unfinished or not is_json("".join(block.pieces))

    def _end_implied(self, events: list[Event]) -> None:
        if _IMPLIED in self._open:
            self.stop(_IMPLIED, events)

    def _find(self, kind: type[Block], events: list[Event]) -> Open:
        """Return the block that a misplaced delta belongs to, a new one if need be."""
        self._note("misplaced_delta", kind.__name__)
        kinds = _CALLS if kind is ToolCall else (kind,)
        for block in reversed(self._open.values()):
            if block.kind in kinds:
                return block
        if kind is ToolCall:
            raise Fatal(StreamError("malformed", "input of no open tool call, expected one"))
        self._end_implied(events)
        start = Start(Text() if kind is Text else Reasoning())
        implied = self._open[_IMPLIED] = Open(start, kind)
        self._begin(_IMPLIED, implied, events)
        return implied

    def _fresh(self, block: Open, text: str) -> str:
        """Return text, but for the first that only repeats what stood in the start."""
        if not block.fresh or not text:
            return text
        block.fresh = False
        if text != block.start.text:
            return text
        self._note("resent_text", block.kind.__name__)
        return ""

    def _joined(self, block: Open, text: str) -> str:
        if self.surrogates or block.carry:
            text, block.carry = rejoin(block.carry, text)
        return text

    def _flush(self, block: Open, events: list[Event]) -> None:
        if block.carry:
            carry, block.carry = clean(block.carry), ""
            events.append(_DELTAS[block.kind](block.index, carry))
