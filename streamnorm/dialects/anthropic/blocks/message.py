"""The open content blocks of one message: Anthropic's block events to unified ones.

Anthropic sends one block after the other.  Compatible servers interleave blocks, reuse an
index, omit a `content_block_stop`, or send a delta to a block of another type.  If the
intended block is known, the deviation is a note.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from streamnorm._core.blocks import (
    Block,
    Citation,
    OpaqueBlock,
    Reasoning,
    ServerToolCall,
    Text,
    ToolCall,
)
from streamnorm._core.codec import BlockOpener, Delta
from streamnorm._core.events import (
    BlockStop,
    CitationDelta,
    Event,
    JSONDelta,
    ReasoningDelta,
    SignatureDelta,
    StreamError,
    TextDelta,
)
from streamnorm._core.json import clean, is_json, objects_of, rejoin, string_of
from streamnorm._core.limits import Limits
from streamnorm._core.provider_errors import Fatal
from streamnorm.dialects.anthropic import wire
from streamnorm.dialects.anthropic.citations import citation_from_wire
from streamnorm.dialects.anthropic.opaque import event_from_wire, opaque_from_wire, with_compaction
from streamnorm.dialects.anthropic.reasoning import redacted_from_wire, signature_from_wire
from streamnorm.dialects.anthropic.tool_calls import (
    CALL_TYPES,
    call_from_wire,
    input_from_wire,
    result_from_wire,
)

__all__ = ["MessageBlocks", "OpenBlock"]

_CALLS = (ToolCall, ServerToolCall)
_IMPLIED = "implied"  # key of a block that has no start on the wire
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


class OpenBlock(Struct):
    """A content block between its start and its stop.

    Attributes:
        unified: The unified block, empty if it grows by deltas.
        extra: Fields of the start that are not mapped to `unified`.
        start_text: Text or thinking in the start.
        start_signature: Signature in the start; a signature delta replaces it.
        start_input: Input in the start; deltas replace it.
        start_citations: Citations in the start.
        index: Unified index; -1 while the `BlockStart` is held.
        delta: An empty delta of the block; None before `BlockStart` and if it does not grow.
        has_deltas: Whether a delta with text, thinking or input has arrived.
        fragments: Arguments of a client tool call so far; None for other blocks.
        carry: High surrogate at the end of the last delta.
        signature: Signature of the last signature delta, as spelt on the wire.
    """

    unified: Block
    extra: dict[str, Any] = {}
    start_text: str = ""
    start_signature: str = ""
    start_input: str = ""
    start_citations: tuple[Citation, ...] = ()
    index: int = -1
    delta: Delta | None = None
    has_deltas: bool = False
    fragments: list[str] | None = None
    carry: str = ""
    signature: str = ""


class MessageBlocks:
    """The open blocks of one message.

    Blocks are found by their index on the wire, which is only a key; unified indexes
    count the blocks in the order of their starts.

    Args:
        server: Name of the server, which decides who issued signatures.
        limits: Bounds.
        note: Called with each deviation that is accepted.

    Attributes:
        has_client_call: Whether the message contains a client tool call.
        has_unfinished_call: Whether one has stopped with incomplete arguments.
        may_split_pairs: Whether the current payload may hold halves of surrogate pairs.
    """

    def __init__(
        self, server: str | None, limits: Limits, note: Callable[[str, str], None]
    ) -> None:
        self.has_client_call = False
        self.has_unfinished_call = False
        self.may_split_pairs = False
        self._server = server
        self._opener = BlockOpener(limits, note)
        self._note = note
        self._open: dict[object, OpenBlock] = {}
        self._indexes: dict[object, int] = {}  # unified by wire index, stopped blocks too

    def begin_message(self, id: str) -> None:
        """Mint ids of calls from the id of the message."""
        self._opener.seed = (id,)

    @property
    def is_open(self) -> bool:
        """Whether a block has not stopped."""
        return bool(self._open)

    def appendable_block(self, wire_index: object, kind: type[wire.Delta]) -> OpenBlock | None:
        """Return the open block that a delta only extends; None if it must be read in full."""
        block = self._open.get(wire_index)
        if block is None or not block.has_deltas or block.carry or block.signature:
            return None
        return block if _WIRE_DELTAS[kind] is type(block.delta) else None

    def start(
        self, wire_index: object, block: dict[str, Any], raw_input: str | None, events: list[Event]
    ) -> None:
        """Open the block of a `content_block_start`.

        Args:
            wire_index: Its index on the wire; None if it has none.
            block: The content block.
            raw_input: Its input as spelt on the wire.
            events: Where to append.

        Raises:
            Fatal: It lacks a required field, or passes a bound.
        """
        opened = _open_block(block, raw_input, self._server)
        self._stop_implied(events)
        if wire_index in self._open:
            self._note("reused_index", "block")
            self.stop(wire_index, events)
        self._open[object() if wire_index is None else wire_index] = opened
        if isinstance(opened.unified, OpaqueBlock) and opened.unified.kind == "compaction":
            return  # held until its delta, which completes it
        self._emit_start(wire_index, opened, events)
        if opened.start_text:
            events.append(_DELTAS[type(opened.unified)](opened.index, opened.start_text))
        events += [CitationDelta(opened.index, citation) for citation in opened.start_citations]

    def whole(self, block: dict[str, Any], raw_input: str | None, events: list[Event]) -> None:
        """Emit a block of `message_start`, which has no events of its own."""
        key = object()
        self.start(key, block, raw_input, events)
        self.stop(key, events)

    def text(self, wire_index: object, text: str, events: list[Event]) -> None:
        """Append a text delta."""
        if not text:
            return
        block = self._open.get(wire_index)
        if block is None or not isinstance(block.unified, Text):
            block = self._resolve_misplaced(Text, events)
        if (text := self._without_repeat(block, text)) and (
            text := self._join_surrogates(block, text)
        ):
            events.append(TextDelta(block.index, text))

    def thinking(self, wire_index: object, text: str, events: list[Event]) -> None:
        """Append a thinking delta, in a new block if the open one is signed."""
        if not text:
            return
        block = self._open.get(wire_index)
        if block is None or not isinstance(block.unified, Reasoning):
            block = self._resolve_misplaced(Reasoning, events)
        if not (text := self._without_repeat(block, text)):
            return
        if block.signature:
            block = self._continue_unsigned(block, events)
        if text := self._join_surrogates(block, text):
            events.append(ReasoningDelta(block.index, text))

    def input(self, wire_index: object, text: str, events: list[Event]) -> None:
        """Append a delta of a tool's input."""
        if not text:
            return
        block = self._open.get(wire_index)
        if block is None or not isinstance(block.unified, _CALLS):
            block = self._resolve_misplaced(ToolCall, events)
        block.has_deltas = True
        if text := self._join_surrogates(block, text):
            if block.fragments is not None:
                block.fragments.append(text)
            events.append(JSONDelta(block.index, text))

    def sign(self, wire_index: object, signature: str, events: list[Event]) -> None:
        """Sign a thinking block; a second, different signature signs an empty block."""
        if not signature:
            return
        block = self._open.get(wire_index)
        if block is None or not isinstance(block.unified, Reasoning):
            block = self._resolve_misplaced(Reasoning, events)
        if block.signature == signature:
            self._note("resent_signature", "thinking")
            return
        if block.signature:
            block = self._continue_unsigned(block, events)
        block.signature = signature
        self._flush_carry(block, events)
        issued = signature_from_wire(clean(signature), self._server)
        events.append(SignatureDelta(block.index, *issued))

    def cite(self, wire_index: object, citation: dict[str, Any], events: list[Event]) -> None:
        """Add a citation to a text block."""
        block = self._open.get(wire_index)
        if block is None or not isinstance(block.unified, Text):
            block = self._resolve_misplaced(Text, events)
        events.append(CitationDelta(block.index, citation_from_wire(citation)))

    def compact(self, wire_index: object, fields: dict[str, Any], events: list[Event]) -> bool:
        """Complete a held `compaction` block; False if no such block is held."""
        block = self._open.get(wire_index)
        if block is None or block.index >= 0 or not isinstance(block.unified, OpaqueBlock):
            return False
        block.unified = with_compaction(block.unified, fields)
        self._emit_start(wire_index, block, events)
        return True

    def unknown(self, wire_index: object, name: str, value: Any, events: list[Event]) -> None:
        """Emit an event of an unknown type, with the block that its `index` names."""
        index = self._indexes.get(wire_index) if isinstance(wire_index, int) else None
        events.append(event_from_wire(name, value, index))

    def stop(self, wire_index: object, events: list[Event]) -> None:
        """Close a block."""
        block = self._open.pop(wire_index, None)
        if block is None:
            self._note("extra_block_stop", "block")
            return
        self._emit_stop(wire_index, block, events)

    def finish(self, events: list[Event]) -> None:
        """Close all blocks that are still open."""
        self._stop_implied(events)
        for key, block in sorted(self._open.items(), key=lambda item: item[1].index):
            self._note("missing_block_stop", "block")
            self._emit_stop(key, block, events)
        self._open.clear()

    def _emit_start(self, wire_index: object, block: OpenBlock, events: list[Event]) -> None:
        started = block.unified
        if isinstance(started, ToolCall):
            self.has_client_call, block.fragments = True, []
        block.index = self._opener.open(started, events, extra=block.extra)
        if type(started) in _DELTAS:
            block.delta = _DELTAS[type(started)](block.index, "")
        if isinstance(wire_index, int):
            self._indexes[wire_index] = block.index

    def _emit_stop(self, wire_index: object, block: OpenBlock, events: list[Event]) -> None:
        if block.index < 0:
            self._emit_start(wire_index, block, events)
        self._flush_carry(block, events)
        if block.start_input and not block.has_deltas:
            events.append(JSONDelta(block.index, block.start_input))
        if block.start_signature and not block.signature:
            issued = signature_from_wire(block.start_signature, self._server)
            events.append(SignatureDelta(block.index, *issued))
        events.append(BlockStop(block.index))
        if block.fragments and not is_json("".join(block.fragments)):
            self.has_unfinished_call = True

    def _continue_unsigned(self, signed: OpenBlock, events: list[Event]) -> OpenBlock:
        """Replace a signed block by a new one: a signature covers only what precedes it."""
        key = next(key for key, block in self._open.items() if block is signed)
        self._flush_carry(signed, events)
        events.append(BlockStop(signed.index))
        block = self._open[key] = OpenBlock(Reasoning(), has_deltas=signed.has_deltas)
        self._emit_start(key, block, events)
        return block

    def _stop_implied(self, events: list[Event]) -> None:
        if _IMPLIED in self._open:
            self.stop(_IMPLIED, events)

    def _resolve_misplaced(
        self, kind: type[Text | Reasoning | ToolCall], events: list[Event]
    ) -> OpenBlock:
        """Return the block that a misplaced delta extends: the last open one of its kind.

        If there is none, text and thinking open a block; input is malformed.
        """
        self._note("misplaced_delta", kind.__name__)
        kinds = _CALLS if kind is ToolCall else (kind,)
        for block in reversed(self._open.values()):
            if isinstance(block.unified, kinds):
                return block
        if kind is ToolCall:
            raise _malformed("input of no open tool call, expected one")
        self._stop_implied(events)
        implied = self._open[_IMPLIED] = OpenBlock(Text() if kind is Text else Reasoning())
        self._emit_start(_IMPLIED, implied, events)
        return implied

    def _without_repeat(self, block: OpenBlock, text: str) -> str:
        """Return `text`, or "" if it is a first delta that repeats the text of the start."""
        if block.has_deltas:
            return text
        block.has_deltas = True
        if text != block.start_text:
            return text
        self._note("resent_text", type(block.unified).__name__)
        return ""

    def _join_surrogates(self, block: OpenBlock, text: str) -> str:
        if self.may_split_pairs or block.carry:
            text, block.carry = rejoin(block.carry, text)
        return text

    def _flush_carry(self, block: OpenBlock, events: list[Event]) -> None:
        if block.carry:
            carry, block.carry = clean(block.carry), ""
            events.append(_DELTAS[type(block.unified)](block.index, carry))


def _open_block(block: dict[str, Any], raw_input: str | None, server: str | None) -> OpenBlock:
    """Return the block of a `content_block_start`, not yet numbered."""
    match block:
        case {"type": "text"}:
            return OpenBlock(
                Text(),
                wire.unmapped(block, "type", "text", "citations"),
                start_text=string_of(block, "text"),
                start_citations=tuple(map(citation_from_wire, objects_of(block.get("citations")))),
            )
        case {"type": "thinking"}:
            return OpenBlock(
                Reasoning(),
                wire.unmapped(block, "type", "thinking", "signature"),
                start_text=string_of(block, "thinking"),
                start_signature=string_of(block, "signature"),
            )
        case {"type": "redacted_thinking", "data": str(data)}:
            return OpenBlock(redacted_from_wire(data, server), wire.unmapped(block, "type", "data"))
        case {"type": str(kind), "name": str(name)} if kind in CALL_TYPES and name:
            return OpenBlock(
                call_from_wire(kind, name, block),
                wire.unmapped(block, "type", "id", "name", "input"),
                start_input=input_from_wire(block, raw_input),
            )
        case {"type": str(kind), "tool_use_id": str(id)} if kind.endswith("_tool_result"):
            extra = wire.unmapped(block, "type", "tool_use_id", "content")
            return OpenBlock(result_from_wire(kind, id, block), extra)
        case {"type": str(kind)} if kind in CALL_TYPES or kind == "redacted_thinking":
            raise _malformed(f"{kind} lacks a field, expected all that are required")
        case {"type": str(kind)}:
            return OpenBlock(opaque_from_wire(kind, block))
        case _:
            raise _malformed("content block without a type, expected one")


def _malformed(message: str) -> Fatal:
    return Fatal(StreamError("malformed", message))
