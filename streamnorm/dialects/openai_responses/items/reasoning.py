"""Reasoning items, with a block for summaries and one for reasoning text."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec
from msgspec import Struct

from streamnorm._core.blocks import Reasoning
from streamnorm._core.events import BlockStop, Event, ReasoningDelta, SignatureDelta
from streamnorm._core.failures import malformed
from streamnorm._core.json import objects_of, string_of
from streamnorm._core.text import TextBuffer
from streamnorm.dialects.openai_responses.content import redacted_from_wire, signature_from_wire
from streamnorm.dialects.openai_responses.items.item import (
    Item,
    OpenText,
    ResponseBlockOpener,
    TextProgress,
    align_parts,
    extra_fields,
    part_position,
)
from streamnorm.dialects.openai_responses.items.types import REASONING_TEXT, SUMMARY_TEXT
from streamnorm.dialects.openai_responses.wire import DeltaEvent, SummaryTextDelta

SUMMARY, CONTENT = SUMMARY_TEXT.field, REASONING_TEXT.field
"""Fields of the item: its summaries, and its reasoning text."""


def field_of(delta: DeltaEvent) -> str:
    """Return the field of the item that a delta extends."""
    return SUMMARY if isinstance(delta, SummaryTextDelta) else CONTENT


class _ReasoningPart(Struct):
    """A summary or a `reasoning_text` part.

    Attributes:
        part: The number within the block.
        progress: Length and checksum of its text so far.
        is_whole: Whether an event stated the text as a whole.
        has_started: Whether an event started it.
        has_ended: Whether an event completed it.
        held: Text held until an earlier part ends.
        held_bytes: Bytes of the held text.
    """

    part: int
    progress: TextProgress
    is_whole: bool = False
    has_started: bool = False
    has_ended: bool = False
    held: TextBuffer = msgspec.field(default_factory=TextBuffer)
    held_bytes: int = 0


class _FieldBlock(Struct):
    """The block of one field of a reasoning item.

    Attributes:
        index: Index of the block.
        is_open: Whether the block is open.
        parts: The parts by `summary_index` or `content_index`.
        ordered: The parts by number.
        started: The parts that an event has started and none has ended, in order.
    """

    index: int
    is_open: bool
    parts: dict[int, _ReasoningPart]
    ordered: list[_ReasoningPart] = []
    started: deque[_ReasoningPart] = msgspec.field(default_factory=deque[_ReasoningPart])

    def is_held(self, part: _ReasoningPart) -> bool:
        """Return whether a part's text must wait because an earlier part is open."""
        return bool(self.started) and self.started[0].part < part.part

    def end(self, part: _ReasoningPart) -> list[_ReasoningPart]:
        """End a part; return the parts that waited for this end, in order."""
        part.has_ended = True
        if not self.started or self.started[0] is not part:
            return []
        while self.started and self.started[0].has_ended:
            self.started.popleft()
        last = self.started[0].part if self.started else len(self.ordered) - 1
        return self.ordered[part.part + 1 : last + 1]


class ReasoningItem(Item):
    """A reasoning item.

    The first field with text gets the block opened at the item's start, the second field a
    block of its own.
    """

    def __init__(self, initial: dict[str, Any], opener: ResponseBlockOpener) -> None:
        super().__init__(initial, opener)
        self._blocks: dict[str, _FieldBlock] = {}
        self._is_open = False  # block of the start, before a field gets it

    def start(self, events: list[Event]) -> None:
        """Append the block start; append redacted reasoning of another vendor as a whole block."""
        extra = extra_fields(self._initial, SUMMARY, CONTENT, "encrypted_content", "format")
        redacted = redacted_from_wire(self._initial)
        if redacted is not None:
            self.index = self._opener.open(redacted, extra, events)
            events.append(BlockStop(self.index))
            return
        self.index = self._opener.open(Reasoning(), extra, events)
        self._is_open = True

    @property
    def has_content(self) -> bool:
        return bool(self._blocks)

    def start_part(
        self, field: str, part_index: int | None, text: str, events: list[Event]
    ) -> None:
        """Start a part, and append the text in its start."""
        part = self._part(field, part_index, events)
        if part.progress.length or self.is_done:
            self._opener.note("resent_item", "reasoning part")
            return
        if not part.has_started:
            part.has_started = True
            self._blocks[field].started.append(part)
        self._append(field, part, part.progress.add(text), events)

    def append_text(
        self, field: str, part_index: int | None, delta: str, events: list[Event]
    ) -> None:
        """Append a delta of a part.

        Raises:
            Fatal: The text of the part is complete.
        """
        if not delta:
            return
        part = self._part(field, part_index, events)
        if not (part.is_whole or self.is_done):
            self._append(field, part, part.progress.add(delta), events)
        elif part.progress.holds(delta):
            self._opener.note("resent_text", "Reasoning")
        else:
            raise malformed("delta of reasoning that is complete, expected an open one")

    def open_text(self, delta: DeltaEvent) -> OpenText | None:
        """Return the open text that deltas like `delta` extend; None to keep the slow path."""
        block = self._blocks.get(field_of(delta))
        part = self._find_part(block, delta.part) if block is not None and block.is_open else None
        if block is None or part is None or part.is_whole or part.progress.high_surrogate:
            return None
        if block.is_held(part):
            return None
        unified = ReasoningDelta(block.index, "", part.part)
        return OpenText(unified, part.progress, delta.output_index, delta.part)

    def complete_text(
        self, field: str, part_index: int | None, text: str, events: list[Event]
    ) -> None:
        """Append the rest of a part's complete text that the deltas lacked; end the part."""
        if not text:
            block = self._blocks.get(field)
            part = None if block is None else self._find_part(block, part_index)
            if part is not None:
                self._end_part(field, part, events)
        elif self.is_done:
            self._opener.note("resent_text", "Reasoning")
        else:
            self._reconcile(field, self._part(field, part_index, events), text, events)

    def complete(self, item: dict[str, Any], events: list[Event]) -> None:
        for field in (SUMMARY, CONTENT):
            block = self._blocks.get(field)
            parts = objects_of(item.get(field))
            received = align_parts(block.parts if block is not None else {}, [*range(len(parts))])
            for position, part in enumerate(parts):
                if text := string_of(part, "text"):
                    known = received.get(position) or self._part(field, position, events)
                    self._reconcile(field, known, text, events)
        self._stop(item, events)

    def close_incomplete(self, events: list[Event]) -> None:
        """Stop the blocks unsigned, since the signature in the item's start may not be final."""
        self.complete({**self._initial, "encrypted_content": None}, events)

    # Parts

    @staticmethod
    def _find_part(block: _FieldBlock, part_index: int | None) -> _ReasoningPart | None:
        """Return the part that an event is about; None if the part never started."""
        return block.parts.get(part_position(part_index, block.parts))

    def _part(self, field: str, part_index: int | None, events: list[Event]) -> _ReasoningPart:
        """Return the part that an event is about; open a part that never started."""
        block = self._open_block(field, events)
        part = self._find_part(block, part_index)
        if part is None:
            if self.is_done:
                raise malformed("new part of reasoning that is complete, expected those it has")
            self._opener.count_stored()
            part = _ReasoningPart(len(block.parts), TextProgress())
            block.parts[part_index or 0] = part
            block.ordered.append(part)
        return part

    def _open_block(self, field: str, events: list[Event]) -> _FieldBlock:
        block = self._blocks.get(field)
        if self.is_done:
            if block is None:
                raise malformed("new part of reasoning that is complete, expected those it has")
            return block
        if block is None:
            if not self._blocks:
                block = _FieldBlock(self.index, self._is_open, {})
            else:
                index = self.index = self._opener.open(Reasoning(), None, events)
                block = _FieldBlock(index, True, {})
            self._blocks[field] = block
        if not block.is_open:  # redacted reasoning, whose block is complete
            self._opener.note("misplaced_delta", "Reasoning")
            block.index = self.index = self._opener.open(Reasoning(), None, events)
            block.is_open = True
        return block

    def _append(
        self, field: str, part: _ReasoningPart, text: str | None, events: list[Event]
    ) -> None:
        if not text:
            return
        block = self._blocks[field]
        if block.is_held(part):
            part.held_bytes += self._opener.store_text(text)
            part.held.append(text)
        else:
            events.append(ReasoningDelta(block.index, text, part.part))

    def _end_part(self, field: str, part: _ReasoningPart, events: list[Event]) -> None:
        """End a part, and append the text that waited for its end."""
        block = self._blocks[field]
        for later in block.end(part):
            self._release(block, later, events)

    def _release(self, block: _FieldBlock, part: _ReasoningPart, events: list[Event]) -> None:
        """Append the held text of a part once no earlier part is open."""
        if part.held_bytes:
            events.append(ReasoningDelta(block.index, part.held.text(), part.part))
            self._opener.stored.release(part.held_bytes)
            part.held, part.held_bytes = TextBuffer(), 0

    def _reconcile(self, field: str, part: _ReasoningPart, text: str, events: list[Event]) -> None:
        """Append the rest of a complete text that the deltas lacked, or note a contradiction."""
        length = part.progress.length
        if part.is_whole:
            tail = "" if part.progress.holds(text) else None
        else:
            tail = part.progress.add_missing_tail(text)
        if tail is None:
            self._opener.note("resent_text", "Reasoning")
        elif tail and length:
            self._opener.note("completed_by_whole", "Reasoning")
        part.is_whole = True
        self._append(field, part, tail, events)
        self._end_part(field, part, events)

    def _stop(self, item: dict[str, Any], events: list[Event]) -> None:
        """Stop the open blocks; sign the first block with the item's signature."""
        open_indexes = [block.index for block in self._blocks.values()]
        if not self._blocks and self._is_open:
            open_indexes = [self.index]
        for field, block in self._blocks.items():
            block.started.clear()
            for part in block.ordered:
                self._release(block, part, events)
                self._append(field, part, part.progress.flush(), events)
            block.is_open = False
        self._is_open = False
        signature = signature_from_wire(item, self._opener.server)
        for index in sorted(open_indexes):
            if signature is not None:
                events.append(SignatureDelta(index, *signature))
                signature = None
            events.append(BlockStop(index))
