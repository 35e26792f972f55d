"""The open messages, reasoning spans and calls of one run, decoded to unified blocks.

Message and call ids are keys and no more; indexes follow the order of appearance.  Messages may
overlap.  A reasoning block is a span, or a message outside of any span; its start waits for the
first text or value, since a value alone is redacted reasoning or a signature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from streamnorm._core.blocks import (
    Block,
    OpaqueBlock,
    Reasoning,
    ServerToolCall,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.codec import BlockOpener, Delta
from streamnorm._core.events import (
    BlockStop,
    CitationDelta,
    Event,
    JSONDelta,
    ReasoningDelta,
    SignatureDelta,
    TextDelta,
    delta_factory,
)
from streamnorm._core.failures import malformed
from streamnorm._core.json import clean, compact, is_array, is_object, objects_of, rejoin, string_of
from streamnorm._core.limits import OBJECT_BYTES, Limits, text_bytes
from streamnorm._core.text import Signed
from streamnorm.dialects.ag_ui import wire
from streamnorm.dialects.ag_ui.content import (
    PYDANTIC_SERVER_CALL,
    citation_from_wire,
    is_made_up,
    is_server_call,
    kind_of,
    redacted_from_wire,
    result_from_wire,
    signature_from_wire,
    value_from_wire,
)


class OpenBlock(Struct):
    """An open block that content events extend.

    Attributes:
        index: Unified index.
        delta: Empty delta of the block and part.
        carry: High surrogate at the end of the last delta.
        signature: Encrypted value of the block, as spelt on the wire.
        has_text: Whether text of it was emitted.
    """

    index: int
    delta: Delta
    carry: str = ""
    signature: str = ""
    has_text: bool = False


class Span(Struct):
    """A reasoning span, or reasoning messages outside of any span.

    Attributes:
        id: Id of the span; "" for a message outside of any span.
        message: Id of the last message; None before the first.
        is_open: Whether the last message is open.
        block: The block; None before the first text or signature.
        parts: Messages with text.
        has_text: Whether the last message has text.
        is_spent: Whether a block was emitted for it.
    """

    id: str
    message: str | None = None
    is_open: bool = False
    block: OpenBlock | None = None
    parts: int = 0
    has_text: bool = False
    is_spent: bool = False


class MessageBlocks:
    """The open messages, reasoning span and tool calls of one run.

    Args:
        limits: Bounds on blocks, calls and stored bytes.
        note: Called with each deviation that is accepted.

    Attributes:
        opener: Opener of the blocks, and counter of stored bytes.
        may_split_pairs: Whether the current payload may hold halves of surrogate pairs.
        texts: Open texts by message id.
        calls: Open calls by call id.
        span: The open reasoning, or None.
        foreign: Ids of open messages of another role than the assistant's.
        lane: Kind and id of what a chunk event has opened, or None.
    """

    def __init__(self, limits: Limits, note: Callable[[str, str], None]) -> None:
        self.opener = BlockOpener(limits, note)
        self.may_split_pairs = False
        self.texts: dict[str, OpenBlock] = {}
        self.calls: dict[str, OpenBlock] = {}
        self.span: Span | None = None
        self.foreign: dict[str, None] = {}
        self.lane: tuple[str, str] | None = None
        self._note = note
        self._all_calls: dict[str, bool] = {}  # whether the provider executes each call
        self._minted_id = ""  # of the call whose own is empty
        self._unanswered: dict[str, None] = {}  # calls of the client without a result

    @property
    def has_client_call(self) -> bool:
        """Whether a client tool call of the run has no result yet."""
        return bool(self._unanswered)

    # Text

    def start_text(self, id: str, extra: dict[str, Any], events: list[Event]) -> None:
        """Open a text message."""
        if id in self.texts or id in self.foreign:
            raise malformed("a text message starts twice, expected its end first")
        self.opener.check_names(id)
        self._end_loose_reasoning(events)
        index = self.opener.open(Text(), events, extra=extra)
        self.texts[id] = OpenBlock(index, TextDelta(index, ""))

    def start_foreign(self, id: str) -> None:
        """Open a message of a role other than the assistant's; the message's content is ignored."""
        if id in self.texts:
            raise malformed("a text message starts twice, expected its end first")
        self.opener.store(text_bytes(id) + OBJECT_BYTES)
        self.foreign[id] = None

    def append_text(self, id: str, text: str, events: list[Event]) -> None:
        """Append text to an open message."""
        block = self.texts.get(id)
        if block is None:
            raise malformed("text of no open message, expected one of its id")
        # A signature covers only what precedes it.
        if text and block.signature:
            self._stop(block, events)
            index = self.opener.open(Text(), events)
            block = self.texts[id] = OpenBlock(index, TextDelta(index, ""))
        self._append(block, text, events)

    def end_text(self, id: str, metadata: Any, events: list[Event]) -> None:
        """Close a text message, and emit the citations in its `metadata`."""
        block = self.texts.pop(id, None)
        if block is None:
            self._note("extra_block_stop", "text")
            return
        if is_object(metadata):
            events += [
                CitationDelta(block.index, citation_from_wire(entry))
                for entry in objects_of(metadata.get(wire.CITATIONS))
            ]
        self._stop(block, events)

    # Calls

    def start_call(
        self, id: str, name: str, metadata: Any, extra: dict[str, Any], events: list[Event]
    ) -> None:
        """Open a call."""
        # A result names its call by the id alone.
        if id in self._all_calls:
            raise malformed("second call of one id, expected another id")
        self._end_loose_reasoning(events)
        own_id = id
        if not id:
            own_id = self._minted_id = self.opener.mint_id("tool call")
        call: ToolCall | ServerToolCall = ToolCall(own_id, name)
        if is_server_call(metadata):
            call = ServerToolCall(own_id, name, kind=kind_of(metadata))
        elif id.startswith(PYDANTIC_SERVER_CALL):
            call = ServerToolCall(id, name)
        index = self.opener.open(call, events, extra=extra)
        self._all_calls[id] = isinstance(call, ServerToolCall)
        if isinstance(call, ToolCall):
            self._unanswered[id] = None
        self.calls[id] = OpenBlock(index, JSONDelta(index, ""))

    def append_arguments(self, id: str, text: str, events: list[Event]) -> None:
        """Append arguments to an open call."""
        if (block := self.calls.get(id)) is None:
            raise malformed("arguments of no open call, expected one of its id")
        self._append(block, text, events)

    def end_call(self, id: str, events: list[Event]) -> None:
        """Close a call."""
        if (block := self.calls.pop(id, None)) is None:
            self._note("extra_block_stop", "tool call")
            return
        self._stop(block, events)

    def add_result(self, id: str, content: Any, metadata: Any, events: list[Event]) -> None:
        """Emit the result of a call, which may be a call of an earlier run."""
        self.opener.check_names(id)
        if id in self.calls:
            self._note("missing_block_stop", "tool call")
            self.end_call(id, events)
        self._unanswered.pop(id, None)
        if is_made_up(metadata):
            return
        by_provider = self._all_calls.get(id) or is_server_call(metadata)
        id = id or self._minted_id
        if not id:
            raise malformed("result without toolCallId, expected one")
        self._end_loose_reasoning(events)
        block: Block
        if by_provider:
            block = result_from_wire(id, content, metadata)
        else:
            is_error = is_object(metadata) and metadata.get(wire.IS_ERROR) is True
            parts = tuple(map(_part_from_wire, _parts_of(content)))
            value = value_from_wire(content, metadata)
            block = ToolResult(id, parts, is_error=is_error, value=value)
        self.opener.add_whole(block, events)

    # Reasoning

    def start_span(self, id: str, events: list[Event]) -> None:
        """Open a reasoning span."""
        self.end_span(events)
        self.opener.check_names(id)
        self.span = Span(id)

    def start_reasoning(self, id: str, events: list[Event]) -> None:
        """Open a reasoning message in the open span, or outside of any span."""
        self.opener.check_names(id)
        span = self.span
        if span is None or not span.id:
            self.end_span(events)
            span = self.span = Span("")
        elif span.is_open:
            raise malformed("a reasoning message starts in another one, expected its end first")
        span.message, span.is_open, span.has_text = id, True, False

    def append_reasoning(self, id: str, text: str, events: list[Event]) -> None:
        """Append text to the open reasoning message."""
        span = self.span
        if span is None or not span.is_open or span.message != id:
            raise malformed("reasoning of no open message, expected one of its id")
        if not text and not span.has_text:
            return
        block = span.block
        if block is None or block.signature:
            block = self._open_reasoning(span, events)
        if not span.has_text:
            # The half of a character has no second half in another message.
            self._flush_carry(block, events)
            span.has_text = True
            span.parts += 1
            block.delta = ReasoningDelta(block.index, "", span.parts - 1)
        self._append(block, text, events)

    def end_reasoning(self, id: str) -> None:
        """Close the open reasoning message; its block stays open for a signature."""
        span = self.span
        if span is None or not span.is_open or span.message != id:
            self._note("extra_block_stop", "reasoning")
            return
        span.is_open = False

    def end_span(self, events: list[Event]) -> None:
        """Close the open reasoning span."""
        span, self.span = self.span, None
        if span is None:
            return
        if span.is_open:
            self._note("missing_block_stop", "reasoning")
        if span.block is None and not span.is_spent:
            self._open_reasoning(span, events)
        if span.block is not None:
            self._stop(span.block, events)

    def _end_loose_reasoning(self, events: list[Event]) -> None:
        """Close the block of reasoning messages outside of any span, when another block starts."""
        if self.span is not None and not self.span.id and not self.span.is_open:
            self.end_span(events)

    def _open_reasoning(self, span: Span, events: list[Event]) -> OpenBlock:
        if span.block is not None:
            self._stop(span.block, events)
        index = self.opener.open(Reasoning(), events)
        span.block, span.is_spent = OpenBlock(index, ReasoningDelta(index, "")), True
        span.parts, span.has_text = 0, False
        return span.block

    # Encrypted values

    def add_value(self, subtype: str, entity: str, value: str, events: list[Event]) -> bool:
        """Add an encrypted value to the message, span or call `entity`.

        Returns:
            False if the value is neither a signature nor redacted reasoning.
        """
        if not value:
            return True
        redacted, signed = redacted_from_wire(clean(value)), signature_from_wire(clean(value))
        span = self.span
        if subtype == "tool-call" and entity not in self.calls:
            self._note("late_signature", "tool call")
        elif signed is not None and (block := self._signed_block(subtype, entity)) is not None:
            self._sign(block, value, signed, events)
        elif redacted is not None:
            self.opener.add_whole(redacted, events)
            if span is not None:
                span.is_spent = True
        elif signed is None:
            return False
        elif span is not None and entity in (span.id, span.message):
            block = span.block
            if block is None or block.signature not in ("", value):
                block = self._open_reasoning(span, events)
            self._sign(block, value, signed, events)
        else:
            # Its message has ended: the value is an empty block of its own.
            self._note("late_signature", "message")
            index = self.opener.open(Reasoning(), events)
            events.append(SignatureDelta(index, *signed))
            events.append(BlockStop(index))
        return True

    def _signed_block(self, subtype: str, entity: str) -> OpenBlock | None:
        return self.calls.get(entity) if subtype == "tool-call" else self.texts.get(entity)

    def _sign(self, block: OpenBlock, value: str, signed: Signed, events: list[Event]) -> None:
        if block.signature:
            self._note("resent_signature", "message")
            return
        self.opener.store(text_bytes(value))
        block.signature = value
        self._flush_carry(block, events)
        events.append(SignatureDelta(block.index, *signed))

    # All blocks

    def finish(self, events: list[Event]) -> None:
        """Close all open blocks at the end of the run."""
        if self.calls:
            raise malformed(f"RUN_FINISHED with {len(self.calls)} open calls, expected none")
        self.end_span(events)
        for id in list(self.texts):
            self._note("missing_block_stop", "text")
            self.end_text(id, None, events)

    def _append(self, block: OpenBlock, text: str, events: list[Event]) -> None:
        if text and (self.may_split_pairs or block.carry):
            text, block.carry = rejoin(block.carry, text)
        if text:
            block.has_text = True
            events.append(delta_factory(block.delta)(text))

    def _flush_carry(self, block: OpenBlock, events: list[Event]) -> None:
        if block.carry:
            carry, block.carry = clean(block.carry), ""
            events.append(delta_factory(block.delta)(carry))

    def _stop(self, block: OpenBlock, events: list[Event]) -> None:
        self._flush_carry(block, events)
        self.opener.stored.release(text_bytes(block.signature))
        events.append(BlockStop(block.index))


def _parts_of(content: Any) -> list[Any]:
    return content if is_array(content) else [content]


def _part_from_wire(part: Any) -> Text | OpaqueBlock:
    """Return one part of a tool result as text, or as an opaque block."""
    if isinstance(part, str):
        return Text(clean(part))
    if is_object(part) and part.get("type") == "text":
        return Text(string_of(part, "text"))
    kind = string_of(part, "type") if is_object(part) else ""
    return OpaqueBlock(dialect=wire.DIALECT, kind=kind, data=compact(part))
