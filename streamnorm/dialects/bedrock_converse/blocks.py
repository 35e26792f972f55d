"""Content blocks of one message, decoded from wire events to unified events.

`OpenBlock` is a block between its first event and its stop, `MessageBlocks` finds the block of
each event by `contentBlockIndex`, which is a key and no more: Nova leaves gaps.

Text, reasoning and citations have no `contentBlockStart`: the first delta opens their block.
Blocks whose unified form is whole (results, images, redacted reasoning, and those that no
unified one stands for) wait for their stop.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from streamnorm._core.blocks import (
    Block,
    Image,
    Reasoning,
    ServerToolCall,
    Text,
    ToolCall,
)
from streamnorm._core.codec import BlockOpener, Delta
from streamnorm._core.events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    Event,
    JSONDelta,
    ReasoningDelta,
    SignatureDelta,
    TextDelta,
)
from streamnorm._core.failures import malformed
from streamnorm._core.json import clean, is_array, is_object, rejoin, string_of
from streamnorm._core.limits import OBJECT_BYTES, Limits, text_bytes, value_bytes
from streamnorm.dialects.bedrock_converse.content import (
    TOOL_RESULT,
    TOOL_USE,
    blob_from_wire,
    call_extra,
    call_from_wire,
    citation_from_wire,
    event_from_wire,
    opaque_from_wire,
    redacted_from_wire,
    result_from_wire,
    signature_from_wire,
)
from streamnorm.dialects.bedrock_converse.wire import (
    BLOCK_DELTA,
    INDEX,
    REASONING,
    text_of,
    unknown_fields,
)

_NAMES: dict[type[Block], str] = {Text: "text", Reasoning: "reasoning"}


class OpenBlock(Struct):
    """An open block that deltas extend.

    Attributes:
        index: Unified index.
        delta: Empty delta of the block.
        has_text: Whether a delta with text has arrived.
        carry: High surrogate at the end of the last delta.
        signature: Signature of the block, as spelt on the wire.
    """

    index: int
    delta: Delta
    has_text: bool = False
    carry: str = ""
    signature: str = ""


class HeldBlock(Struct):
    """A block that is held until its stop, since no unified delta can extend the block.

    Attributes:
        start: `start` of its `contentBlockStart`; None if it had none.
        deltas: `delta` of each of its deltas.
        stored_bytes: Bytes counted as stored until the block stops.
    """

    start: dict[str, Any] | None = None
    deltas: list[dict[str, Any]] = field(default_factory=list)
    stored_bytes: int = 0


class MessageBlocks:
    """The open blocks of one message.

    Args:
        limits: Bounds on blocks, calls and stored bytes.
        note: Called with each deviation that is accepted.

    Attributes:
        has_client_call: Whether the message contains a client tool call.
        opener: Opener of the blocks, and counter of stored bytes.
        open: The open blocks by `contentBlockIndex`.
    """

    def __init__(self, limits: Limits, note: Callable[[str, str], None]) -> None:
        self.has_client_call = False
        self.opener = BlockOpener(limits, note)
        self._note = note
        self.open: dict[int | None, OpenBlock | HeldBlock] = {}
        self._indexes: dict[int | None, int] = {}  # unified index by wire index, also when stopped
        self._call_ids: set[str] = set()

    @property
    def is_empty(self) -> bool:
        """Whether no block has begun."""
        return not self.open and not self._indexes

    def start(self, wire_index: int | None, start: dict[str, Any], events: list[Event]) -> None:
        """Open the block of a `contentBlockStart`.

        Raises:
            Fatal: The block lacks a required field, its index or the id of its call was used
                before, or a limit is exceeded.
        """
        self._check_new(wire_index)
        members = unknown_fields(start)
        if not members:  # which says no more than no start: the first delta opens the block
            return
        if len(members) > 1:
            raise malformed(f"start with {len(members)} members, expected one")
        tool_use = members.get(TOOL_USE)
        if not is_object(tool_use):
            self._hold(wire_index, HeldBlock(members))
            return
        call = call_from_wire(tool_use)
        # A tool result names its call by the id alone.
        if call.id in self._call_ids:
            raise malformed("second call of one id, expected another id")
        if call.id:
            self._call_ids.add(call.id)
        self.has_client_call = self.has_client_call or isinstance(call, ToolCall)
        self._begin(wire_index, call, events, call_extra(tool_use))

    def append(self, wire_index: int | None, delta: dict[str, Any], events: list[Event]) -> None:
        """Add a delta to the block at `wire_index`.

        Raises:
            Fatal: The delta has more than one member, or does not fit its block; or a limit is
                exceeded.
        """
        members = unknown_fields(delta)
        if not members:  # which adds nothing
            return
        if len(members) > 1:
            raise malformed(f"delta with {len(members)} members, expected one")
        block = self.open.get(wire_index)
        if isinstance(block, HeldBlock):
            self._extend_held(wire_index, block, members, events)
            return
        ((member, value),) = members.items()
        if member == "text":
            self.append_text(wire_index, Text, text_of(members, member), events)
        elif member == TOOL_USE and is_object(value):
            self.append_input(wire_index, text_of(value, "input"), events)
        elif member == REASONING and is_object(value):
            self._append_reasoning(wire_index, unknown_fields(value), events)
        elif member == "citation" and is_object(value):
            text = self._block_for(wire_index, Text, events)
            events.append(CitationDelta(text.index, citation_from_wire(value)))
        elif block is None:
            self._check_new(wire_index)
            self._hold(wire_index, HeldBlock(deltas=[members]))
        else:
            self._add_unknown_delta(wire_index, members, events)

    def append_text(
        self,
        wire_index: int | None,
        kind: type[Text | Reasoning],
        text: str,
        events: list[Event],
    ) -> None:
        """Append text or reasoning; the first delta opens its block."""
        block = self._block_for(wire_index, kind, events)
        # A signature covers only what precedes it.
        if text and block.signature:
            self._stop_open(block, events)
            del self.open[wire_index]
            block = self._begin(wire_index, Reasoning(), events)
        self._append_to(block, text, events)

    def append_input(self, wire_index: int | None, text: str, events: list[Event]) -> None:
        """Append a piece of a call's input."""
        block = self.open.get(wire_index)
        # No call is opened for a stray input: it would have neither id nor name.
        if not isinstance(block, OpenBlock) or type(block.delta) is not JSONDelta:
            raise malformed("input of no open toolUse, expected one at its index")
        self._append_to(block, text, events)

    def _append_to(self, block: OpenBlock, text: str, events: list[Event]) -> None:
        if text:
            text, block.carry = rejoin(block.carry, text)
        if text:
            block.has_text = True
            events.append(type(block.delta)(block.index, text))

    def _append_reasoning(
        self, wire_index: int | None, members: dict[str, Any], events: list[Event]
    ) -> None:
        if not members:
            return
        if len(members) > 1:
            raise malformed(f"reasoningContent with {len(members)} members, expected one")
        match members:
            case {"text": _}:
                self.append_text(wire_index, Reasoning, text_of(members, "text"), events)
            case {"signature": str(signature)}:
                self._sign(wire_index, signature, events)
            case {"redactedContent": str()}:
                if wire_index in self.open:  # reasoning, which a whole block cannot be a part of
                    self._block_for(wire_index, Reasoning, events)
                    self._note("mixed_block", "reasoning")
                    self.stop(wire_index, events)
                else:
                    self._check_new(wire_index)
                self._hold(wire_index, HeldBlock(deltas=[{REASONING: members}]))
            case _:
                self._block_for(wire_index, Reasoning, events)
                self._add_unknown_delta(wire_index, {REASONING: members}, events)

    def _sign(self, wire_index: int | None, signature: str, events: list[Event]) -> None:
        """Sign a reasoning block; a second, different signature opens a new, empty block."""
        block = self._block_for(wire_index, Reasoning, events)
        if not signature:
            return
        if block.signature == signature:
            self._note("resent_signature", "reasoning")
            return
        if block.signature:
            self._stop_open(block, events)
            del self.open[wire_index]
            block = self._begin(wire_index, Reasoning(), events)
        self.opener.store(text_bytes(signature))
        block.signature = signature
        # The signature covers the text before it, half a character included.
        self._flush_carry(block, events)
        events.append(SignatureDelta(block.index, *signature_from_wire(clean(signature))))

    def _block_for(
        self, wire_index: int | None, kind: type[Text | Reasoning], events: list[Event]
    ) -> OpenBlock:
        """Return the open block at an index, or open a block of `kind` at the index.

        Raises:
            Fatal: The block at the index has another kind, or has stopped.
        """
        block = self.open.get(wire_index)
        if block is None:
            self._check_new(wire_index)
            return self._begin(wire_index, kind(), events)
        expected = TextDelta if kind is Text else ReasoningDelta
        if not isinstance(block, OpenBlock) or type(block.delta) is not expected:
            raise malformed(f"delta of {_NAMES[kind]} in another block, expected one of its kind")
        return block

    def _check_new(self, wire_index: int | None) -> None:
        # Clients find a block by its index.
        if wire_index in self.open or wire_index in self._indexes:
            raise malformed("a block begins at an index in use, expected a new index")

    def _begin(
        self,
        wire_index: int | None,
        block: Text | Reasoning | ToolCall | ServerToolCall,
        events: list[Event],
        extra: dict[str, Any] | None = None,
    ) -> OpenBlock:
        index = self.opener.open(block, events, extra=extra)
        self._indexes[wire_index] = index
        delta: Delta
        match block:
            case Text():
                delta = TextDelta(index, "")
            case Reasoning():
                delta = ReasoningDelta(index, "")
            case _:
                delta = JSONDelta(index, "")
        opened = self.open[wire_index] = OpenBlock(index, delta)
        return opened

    def add_unknown(
        self, wire_index: int | None, name: str, value: object, events: list[Event]
    ) -> None:
        """Emit an unknown event as opaque data, with the unified index of its block, if any.

        Raises:
            Fatal: Its name is longer than `max_id_chars`.
        """
        # A header of the message has no room for more than 65,535 bytes.
        self.opener.check_names(name)
        events.append(event_from_wire(name, value, self._indexes.get(wire_index)))

    def _add_unknown_delta(
        self, wire_index: int | None, delta: dict[str, Any], events: list[Event]
    ) -> None:
        self.add_unknown(wire_index, BLOCK_DELTA, {INDEX: wire_index, "delta": delta}, events)

    def stop(self, wire_index: int | None, events: list[Event]) -> None:
        """Close a block."""
        block = self.open.pop(wire_index, None)
        if isinstance(block, OpenBlock):
            self._stop_open(block, events)
        elif block is not None:
            self._emit_held(wire_index, block, events)
        else:
            self._note("extra_block_stop", "block")

    def finish(self, events: list[Event]) -> None:
        """Close all open blocks at the end of the message."""
        for wire_index in list(self.open):
            self._note("missing_block_stop", "block")
            self.stop(wire_index, events)

    def _stop_open(self, block: OpenBlock, events: list[Event]) -> None:
        self._flush_carry(block, events)
        self.opener.stored.release(text_bytes(block.signature))
        events.append(BlockStop(block.index))

    def _flush_carry(self, block: OpenBlock, events: list[Event]) -> None:
        if block.carry:
            carry, block.carry = clean(block.carry), ""
            events.append(type(block.delta)(block.index, carry))

    # Blocks that come whole

    def _hold(self, wire_index: int | None, block: HeldBlock) -> None:
        self._store(block, value_bytes(block.start) + value_bytes(block.deltas))
        self.open[wire_index] = block

    def _extend_held(
        self,
        wire_index: int | None,
        block: HeldBlock,
        members: dict[str, Any],
        events: list[Event],
    ) -> None:
        first = block.deltas[0] if block.deltas else {}
        # Redacted reasoning may precede readable reasoning.
        if REASONING in first and _read_redacted(members) is None:
            self._note("mixed_block", "reasoning")
            del self.open[wire_index]
            self._emit_held(wire_index, block, events)
            del self._indexes[wire_index]
            self.append(wire_index, members, events)
            return
        self._store(block, value_bytes(members))
        block.deltas.append(members)

    def _store(self, block: HeldBlock, size: int) -> None:
        self.opener.store(size + OBJECT_BYTES)
        block.stored_bytes += size + OBJECT_BYTES

    def _emit_held(self, wire_index: int | None, held: HeldBlock, events: list[Event]) -> None:
        self.opener.stored.release(held.stored_bytes)
        block, extra = _complete(held)
        index = self.opener.next_index()
        self._indexes[wire_index] = index
        events += [BlockStart(index, block, extra=extra or None), BlockStop(index)]


def _read_redacted(delta: dict[str, Any]) -> str | None:
    """Return the `redactedContent` of a delta; None if the delta has none."""
    reasoning = delta.get(REASONING)
    blob = reasoning.get("redactedContent") if is_object(reasoning) else None
    return blob if isinstance(blob, str) else None


def _complete(held: HeldBlock) -> tuple[Block, dict[str, Any]]:
    """Return the unified block of a held block, and the unknown fields of its start."""
    start = held.start or {}
    if REASONING in (held.deltas[0] if held.deltas else {}):
        # Pieces of a blob are joined as bytes: each ends its own Base64.
        blobs = [blob_from_wire(_read_redacted(delta) or "") for delta in held.deltas]
        return redacted_from_wire(b"".join(blobs)), {}
    result, image = start.get(TOOL_RESULT), start.get("image")
    if is_object(result) and _all(held.deltas, TOOL_RESULT):
        content = [part for delta in held.deltas for part in delta[TOOL_RESULT]]
        return result_from_wire(result, content), unknown_fields(result, "toolUseId")
    if is_object(image) and (data := _image_data(held.deltas)) is not None:
        format = string_of(image, "format")
        return Image(f"image/{format}", data), unknown_fields(image, "format")
    return opaque_from_wire(held.start, held.deltas), {}


def _all(deltas: list[dict[str, Any]], member: str) -> bool:
    return all(is_array(delta.get(member)) for delta in deltas)


def _image_data(deltas: list[dict[str, Any]]) -> str | None:
    """Return an image's Base64; None if its deltas hold anything but bytes."""
    blobs: list[bytes] = []
    for delta in deltas:
        image = delta.get("image")
        source = image.get("source") if is_object(image) and image.keys() == {"source"} else None
        if not is_object(source) or source.keys() != {"bytes"}:
            return None
        blobs.append(blob_from_wire(string_of(source, "bytes")))
    return base64.b64encode(b"".join(blobs)).decode() if blobs else None
