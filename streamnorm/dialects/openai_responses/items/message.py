"""Message items: each content part is a block."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from streamnorm._core.blocks import Refusal, Text
from streamnorm._core.events import BlockStop, CitationDelta, Event, RefusalDelta, TextDelta
from streamnorm._core.json import is_array, is_object, objects_of, string_of
from streamnorm.dialects.openai_responses import opaque, wire
from streamnorm.dialects.openai_responses.citations import citation_from_wire
from streamnorm.dialects.openai_responses.delta_run import OpenText
from streamnorm.dialects.openai_responses.items.block_opener import ResponseBlockOpener
from streamnorm.dialects.openai_responses.items.item import Item, align_parts, extra_fields
from streamnorm.dialects.openai_responses.items.text_progress import TextProgress

__all__ = ["MessageItem"]

PartKind: TypeAlias = type[Text | Refusal]

_KINDS: dict[str, PartKind] = {"output_text": Text, "refusal": Refusal}
_TEXT_KEYS: dict[PartKind, str] = {Text: "text", Refusal: "refusal"}
_MAPPED = ("type", "text", "refusal", "annotations", "logprobs")


class _ContentPart(Struct):
    """An `output_text` or `refusal` part.

    Attributes:
        kind: Type of its block.
        progress: Length and checksum of its text so far.
        index: Index of its block.
        is_open: Whether the block is open.
        citations: Number of annotations so far.
        has_logprobs: Whether its deltas carried log probabilities.
    """

    kind: PartKind
    progress: TextProgress
    index: int
    is_open: bool = True
    citations: int = 0
    has_logprobs: bool = False


class MessageItem(Item):
    """A message."""

    def __init__(self, initial: dict[str, Any], opener: ResponseBlockOpener) -> None:
        super().__init__(initial, opener)
        self._extra = extra_fields(initial, "role", "content")
        # By `content_index`; a text and a refusal may share one.
        self._parts: dict[PartKind, dict[int, _ContentPart]] = {Text: {}, Refusal: {}}
        self._opaque_parts: dict[int, None] = {}

    def append_text(
        self, kind: PartKind, part_index: int | None, delta: str, events: list[Event]
    ) -> None:
        """Append a delta of a part."""
        if delta:
            part = self._open_part(kind, part_index, {}, events)
            if text := part.progress.add(delta):
                self._append(part, text, events)

    def open_text(self, delta: wire.DeltaEvent) -> OpenText | None:
        if not isinstance(delta, wire.OutputTextDelta):
            return None
        part = self._parts[Text].get(delta.part or 0)
        if part is None or not part.is_open or part.progress.high_surrogate:
            return None
        return OpenText(TextDelta(part.index, ""), part.progress, delta.output_index, delta.part)

    def add_logprobs(self, part_index: int | None, tokens: Any, events: list[Event]) -> None:
        """Append the log probabilities of the last delta."""
        if is_array(tokens) and tokens:
            part = self._open_part(Text, part_index, {}, events)
            part.has_logprobs = True
            events.append(opaque.logprobs_from_wire(tokens, part.index))

    def add_citation(
        self, part_index: int | None, annotation: dict[str, Any], events: list[Event]
    ) -> None:
        """Append an annotation."""
        self._cite(self._open_part(Text, part_index, {}, events), annotation, events)

    def start_part(self, part_index: int | None, part: dict[str, Any], events: list[Event]) -> None:
        """Start the block of a part; a part of an unknown type waits until it is complete."""
        kind = _KINDS.get(string_of(part, "type"))
        if kind is None:
            return
        started = self._open_part(kind, part_index, part, events)
        if text := started.progress.add_missing_tail(string_of(part, _TEXT_KEYS[kind])):
            self._append(started, text, events)

    def complete_text(
        self, part_index: int | None, event: dict[str, Any], events: list[Event]
    ) -> None:
        """Append what no delta carried of the complete text; its part stays open."""
        kind: PartKind = Refusal if "refusal" in event else Text
        part = self._parts[kind].get(part_index or 0)
        if part is None and string_of(event, _TEXT_KEYS[kind]):
            part = self._open_part(kind, part_index, {}, events)
        if part is not None and part.is_open:
            self._reconcile(part, event, events)

    def complete_part(
        self, part_index: int | None, part: dict[str, Any], events: list[Event]
    ) -> None:
        """Append what no event carried of a complete part, and stop its block."""
        position = part_index or 0
        kind = _KINDS.get(string_of(part, "type"))
        if kind is None:
            self._add_opaque_part(position, part, events)
            return
        self._complete_part(self._parts[kind].get(position), kind, position, part, events)

    def complete(self, item: dict[str, Any], events: list[Event]) -> None:
        content = objects_of(item.get("content"))
        kinds = [_KINDS.get(string_of(part, "type")) for part in content]
        received = {
            kind: align_parts(parts, [n for n, found in enumerate(kinds) if found is kind])
            for kind, parts in self._parts.items()
        }
        for position, (kind, part) in enumerate(zip(kinds, content, strict=True)):
            if kind is None:
                self._add_opaque_part(position, part, events)
            else:
                self._complete_part(received[kind].get(position), kind, position, part, events)
        self.close_reopened(events)

    def close_reopened(self, events: list[Event]) -> None:
        """Stop the blocks that are open."""
        for parts in self._parts.values():
            for part in parts.values():
                self._stop(part, events)

    # One part

    def _open_part(
        self, kind: PartKind, part_index: int | None, part: dict[str, Any], events: list[Event]
    ) -> _ContentPart:
        """Return an open part; one that is new or has stopped gets a new block."""
        position = part_index or 0
        known = self._parts[kind].get(position)
        if known is not None and known.is_open:
            return known
        index = self.index = self._opener.open(kind(), self._pop_extra(part), events)
        if known is None:
            self._opener.count_stored()
            known = self._parts[kind][position] = _ContentPart(kind, TextProgress(), index)
        else:
            self._opener.note("misplaced_delta", kind.__name__)
            known.index, known.is_open = index, True
        return known

    def _pop_extra(self, part: dict[str, Any]) -> dict[str, Any]:
        """Return the extra fields of a part, and with the first part those of the item."""
        extra, self._extra = self._extra, {k: v for k, v in self._extra.items() if k == "item_id"}
        own = {k: v for k, v in part.items() if k not in _MAPPED and v is not None}
        return {**own, **extra}

    def _complete_part(
        self,
        known: _ContentPart | None,
        kind: PartKind,
        position: int,
        part: dict[str, Any],
        events: list[Event],
    ) -> None:
        if known is None:
            known = self._open_part(kind, position, part, events)
        if known.is_open:
            self._reconcile(known, part, events)
            self._stop(known, events)
        elif len(objects_of(part.get("annotations"))) > known.citations:
            self._opener.note("late_citation", "text")

    def _reconcile(self, known: _ContentPart, part: dict[str, Any], events: list[Event]) -> None:
        """Append text, log probabilities and annotations that no event carried."""
        if text := string_of(part, _TEXT_KEYS[known.kind]):
            tail = known.progress.add_missing_tail(text)
            if tail is None:
                self._opener.note("resent_text", known.kind.__name__)
            elif tail:
                self._append(known, tail, events)
        if known.kind is Refusal:
            return
        if is_array(part.get("logprobs")) and part["logprobs"] and not known.has_logprobs:
            known.has_logprobs = True
            events.append(opaque.logprobs_from_wire(part["logprobs"], known.index))
        for annotation in objects_of(part.get("annotations"))[known.citations :]:
            self._cite(known, annotation, events)

    def _cite(self, part: _ContentPart, annotation: dict[str, Any], events: list[Event]) -> None:
        part.citations += 1
        events.append(CitationDelta(part.index, citation_from_wire(annotation)))

    def _append(self, part: _ContentPart, text: str, events: list[Event]) -> None:
        make = TextDelta if part.kind is Text else RefusalDelta
        events.append(make(part.index, text))

    def _stop(self, part: _ContentPart, events: list[Event]) -> None:
        if part.is_open:
            if text := part.progress.flush():
                self._append(part, text, events)
            part.is_open = False
            events.append(BlockStop(part.index))

    def _add_opaque_part(self, position: int, part: dict[str, Any], events: list[Event]) -> None:
        """Append a complete part of an unknown type, once."""
        if position in self._opaque_parts or not is_object(part):
            return
        self._opener.count_stored()
        self._opaque_parts[position] = None
        block = opaque.block_from_wire(part)
        index = self.index = self._opener.open(block, self._pop_extra({}), events)
        events.append(BlockStop(index))
