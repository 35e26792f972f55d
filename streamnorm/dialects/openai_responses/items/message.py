"""A message item: each of its content parts is a block."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from streamnorm._core.blocks import OpaqueBlock, Refusal, Text
from streamnorm._core.events import (
    BlockStop,
    CitationDelta,
    Event,
    Opaque,
    RefusalDelta,
    TextDelta,
)
from streamnorm._core.json import compact, is_array, is_object, objects_of, string_of
from streamnorm.dialects.openai_responses import wire as pieces
from streamnorm.dialects.openai_responses.citations import citation
from streamnorm.dialects.openai_responses.delta_run import OpenText
from streamnorm.dialects.openai_responses.items.block_opener import DIALECT, Blocks
from streamnorm.dialects.openai_responses.items.item import Item, pair, rest
from streamnorm.dialects.openai_responses.items.text_progress import Growth

__all__ = ["MessageItem"]

Kind: TypeAlias = type[Text | Refusal]

_KINDS: dict[str, Kind] = {"output_text": Text, "refusal": Refusal}
_FIELDS: dict[Kind, str] = {Text: "text", Refusal: "refusal"}
_KNOWN = ("type", "text", "refusal", "annotations", "logprobs")


class _Part(Struct):
    """A text or a refusal.

    Attributes:
        kind: Which of them.
        growth: How far it has come.
        index: Number of its block.
        is_open: Whether its block has not stopped.
        citations: Sources so far.
        has_logprobs: Whether log probabilities came with its deltas.
    """

    kind: Kind
    growth: Growth
    index: int
    is_open: bool = True
    citations: int = 0
    has_logprobs: bool = False


class MessageItem(Item):
    """A message."""

    def __init__(self, wire: dict[str, Any], blocks: Blocks) -> None:
        super().__init__(wire, blocks)
        self._extra = rest(wire, "role", "content")
        self._parts: dict[Kind, dict[int, _Part]] = {Text: {}, Refusal: {}}
        self._others: dict[int, None] = {}  # parts of other types

    def text(self, number: int | None, delta: str, events: list[Event]) -> None:
        """Take more text of a part."""
        if delta:
            part = self._open(Text, number, {}, events)
            if text := part.growth.add(delta):
                events.append(TextDelta(part.index, text))

    def open_text(self, piece: pieces.TextDelta) -> OpenText | None:
        """Return the text that deltas like `piece` extend, if its block is open."""
        part = self._parts[Text].get(piece.part or 0)
        if part is None or not part.is_open or part.growth.carry:
            return None
        delta = TextDelta(part.index, "")
        return OpenText(delta, part.growth, piece.output_index, piece.part)

    def refusal(self, number: int | None, delta: str, events: list[Event]) -> None:
        """Take more of a refusal."""
        if delta:
            part = self._open(Refusal, number, {}, events)
            if text := part.growth.add(delta):
                events.append(RefusalDelta(part.index, text))

    def logprobs(self, number: int | None, value: Any, events: list[Event]) -> None:
        """Take the log probabilities of the last text."""
        if is_array(value) and value:
            part = self._open(Text, number, {}, events)
            part.has_logprobs = True
            events.append(Opaque(DIALECT, "logprobs", compact(value), part.index))

    def cite(self, number: int | None, annotation: dict[str, Any], events: list[Event]) -> None:
        """Take a source of a text."""
        part = self._open(Text, number, {}, events)
        part.citations += 1
        events.append(CitationDelta(part.index, citation(annotation)))

    def begin_part(self, number: int | None, wire: dict[str, Any], events: list[Event]) -> None:
        """Take the start of a part."""
        kind = _KINDS.get(string_of(wire, "type"))
        if kind is None:
            return  # which is whole at its end
        part = self._open(kind, number, wire, events)
        if text := part.growth.rest(string_of(wire, _FIELDS[kind])):
            self._append(part, text, events)

    def whole_text(self, number: int | None, wire: dict[str, Any], events: list[Event]) -> None:
        """Take the whole text or refusal of a part that may not be complete yet."""
        kind: Kind = Refusal if "refusal" in wire else Text
        part = self._parts[kind].get(number or 0)
        if part is None and string_of(wire, _FIELDS[kind]):
            part = self._open(kind, number, {}, events)
        if part is not None and part.is_open:
            self._reconcile(part, wire, events)

    def end_part(self, number: int | None, wire: dict[str, Any], events: list[Event]) -> None:
        """Take a complete part."""
        number = number or 0
        kind = _KINDS.get(string_of(wire, "type"))
        if kind is None:
            self._whole(number, wire, events)
            return
        self._end(self._parts[kind].get(number), kind, number, wire, events)

    def complete(self, wire: dict[str, Any], events: list[Event]) -> None:
        """Append what of the parts has not come yet, and the ends of their blocks."""
        content = objects_of(wire.get("content"))
        kinds = [_KINDS.get(string_of(part, "type")) for part in content]
        seen = {
            kind: pair(parts, [number for number, found in enumerate(kinds) if found is kind])
            for kind, parts in self._parts.items()
        }
        for number, (found, part) in enumerate(zip(kinds, content, strict=True)):
            if found is None:
                self._whole(number, part, events)
            else:
                self._end(seen[found].get(number), found, number, part, events)
        self.close(events)

    def close(self, events: list[Event]) -> None:
        """Append the ends of the blocks that are open."""
        for parts in self._parts.values():
            for part in parts.values():
                self._stop(part, events)

    # One part

    def _open(
        self, kind: Kind, number: int | None, wire: dict[str, Any], events: list[Event]
    ) -> _Part:
        """Return a part whose block is open, a new one if need be."""
        number = number or 0
        part = self._parts[kind].get(number)
        if part is not None and part.is_open:
            return part
        index = self.index = self._blocks.begin(kind(), self._take_extra(wire), events)
        if part is None:
            self._blocks.keep()
            part = self._parts[kind][number] = _Part(kind, Growth(), index)
        else:
            self._blocks.note("misplaced_delta", kind.__name__)
            part.index, part.is_open = index, True
        return part

    def _take_extra(self, wire: dict[str, Any]) -> dict[str, Any]:
        """Return what else is known of the part, and of the item once."""
        extra, self._extra = self._extra, {k: v for k, v in self._extra.items() if k == "item_id"}
        own = {k: v for k, v in wire.items() if k not in _KNOWN and v is not None}
        return {**own, **extra}

    def _end(
        self,
        part: _Part | None,
        kind: Kind,
        number: int,
        wire: dict[str, Any],
        events: list[Event],
    ) -> None:
        if part is None:
            part = self._open(kind, number, wire, events)
        if part.is_open:
            self._reconcile(part, wire, events)
            self._stop(part, events)
        elif len(objects_of(wire.get("annotations"))) > part.citations:
            self._blocks.note("late_citation", "text")

    def _reconcile(self, part: _Part, wire: dict[str, Any], events: list[Event]) -> None:
        """Append what the whole part has more than came in pieces."""
        if whole := string_of(wire, _FIELDS[part.kind]):
            text = part.growth.rest(whole)
            if text is None:
                self._blocks.note("resent_text", part.kind.__name__)
            elif text:
                self._append(part, text, events)
        if part.kind is Refusal:
            return
        if is_array(wire.get("logprobs")) and wire["logprobs"] and not part.has_logprobs:
            part.has_logprobs = True
            events.append(Opaque(DIALECT, "logprobs", compact(wire["logprobs"]), part.index))
        for annotation in objects_of(wire.get("annotations"))[part.citations :]:
            part.citations += 1
            events.append(CitationDelta(part.index, citation(annotation)))

    def _append(self, part: _Part, text: str, events: list[Event]) -> None:
        make = TextDelta if part.kind is Text else RefusalDelta
        events.append(make(part.index, text))

    def _stop(self, part: _Part, events: list[Event]) -> None:
        if part.is_open:
            if text := part.growth.flush():
                self._append(part, text, events)
            part.is_open = False
            events.append(BlockStop(part.index))

    def _whole(self, number: int, wire: dict[str, Any], events: list[Event]) -> None:
        """Take a part of a type that only the dialect knows."""
        if number in self._others or not is_object(wire):
            return
        self._blocks.keep()
        self._others[number] = None
        block = OpaqueBlock(DIALECT, string_of(wire, "type"), compact(wire))
        index = self.index = self._blocks.begin(block, self._take_extra({}), events)
        events.append(BlockStop(index))
