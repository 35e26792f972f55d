"""A reasoning item: a block of its summaries, or of the reasoning itself."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from streamnorm._core.blocks import Reasoning, RedactedReasoning
from streamnorm._core.events import BlockStop, Event, ReasoningDelta, SignatureDelta
from streamnorm._core.ids import sealed_reasoning, untag_signature
from streamnorm._core.json import objects_of, string_of
from streamnorm.dialects.openai_responses.delta_run import OpenText
from streamnorm.dialects.openai_responses.items.block_opener import Blocks
from streamnorm.dialects.openai_responses.items.item import Item, pair, rest
from streamnorm.dialects.openai_responses.items.text_progress import Growth
from streamnorm.dialects.openai_responses.wire import Piece

__all__ = ["CONTENT", "SUMMARY", "ReasoningItem"]

SUMMARY, CONTENT = "summary", "content"
"""The fields of the item that hold summaries and the reasoning itself."""

# OpenRouter names who issued what it passes on.
_FORMATS = {
    "anthropic-claude-v1": "anthropic",
    "google-gemini-v1": "google",
    "xai-responses-v1": "xai",
}
# Servers that seal for themselves.
_SERVERS = {"xai": "xai"}


class _Part(Struct):
    """One summary, or one content part.

    Attributes:
        place: Its number within the block.
        growth: How far it has come.
    """

    place: int
    growth: Growth


class _Lane(Struct):
    """The parts of one field.

    Attributes:
        index: Number of their block.
        is_open: Whether it has not stopped.
        parts: They, by the wire's numbers.
    """

    index: int
    is_open: bool
    parts: dict[int, _Part]


class ReasoningItem(Item):
    """Reasoning.  The field that comes first has the item's block; the other gets its own."""

    def __init__(self, wire: dict[str, Any], blocks: Blocks) -> None:
        super().__init__(wire, blocks)
        self._lanes: dict[str, _Lane] = {}
        self._is_open = False  # the item's block, before a field has it

    def start(self, events: list[Event]) -> None:
        """Append the start of the block, or one that is whole of what may not be seen."""
        extra = rest(self._wire, SUMMARY, CONTENT, "encrypted_content", "format")
        redacted = sealed_reasoning(string_of(self._wire, "encrypted_content"))
        if redacted is not None:
            self.index = self._blocks.begin(RedactedReasoning(*redacted), extra, events)
            events.append(BlockStop(self.index))
            return
        self.index = self._blocks.begin(Reasoning(), extra, events)
        self._is_open = True

    def begin_part(self, field: str, number: int | None, text: str, events: list[Event]) -> None:
        """Take the start of a part, with what of its text stands there."""
        part = self._part(field, number, events)
        self._append(field, part, part.growth.rest(text), events)

    def more(self, field: str, number: int | None, delta: str, events: list[Event]) -> None:
        """Take more of a part."""
        if delta:
            part = self._part(field, number, events)
            self._append(field, part, part.growth.add(delta), events)

    def open_text(self, field: str, piece: Piece) -> OpenText | None:
        """Return the text that deltas like `piece` extend, if its block is open."""
        lane = self._lanes.get(field)
        part = lane.parts.get(piece.part or 0) if lane is not None and lane.is_open else None
        if lane is None or part is None or part.growth.carry:
            return None
        delta = ReasoningDelta(lane.index, "", part.place)
        return OpenText(delta, part.growth, piece.output_index, piece.part)

    def whole(self, field: str, number: int | None, text: str, events: list[Event]) -> None:
        """Take the whole text of a part."""
        if text and not self.is_done:
            self._reconcile(field, number, None, text, events)

    def complete(self, wire: dict[str, Any], events: list[Event]) -> None:
        """Append what of the parts has not come yet, what seals the item, and the ends."""
        for field in (SUMMARY, CONTENT):
            lane = self._lanes.get(field)
            whole = objects_of(wire.get(field))
            seen = pair(lane.parts if lane is not None else {}, list(range(len(whole))))
            for number, told in enumerate(whole):
                if text := string_of(told, "text"):
                    self._reconcile(field, number, seen.get(number), text, events)
        self._stop(wire, events)

    def finish(self, events: list[Event]) -> None:
        """Append the ends of the blocks, unsealed."""
        # What is sealed at an item's start may not be complete.
        self.complete({**self._wire, "encrypted_content": None}, events)

    def close(self, events: list[Event]) -> None:
        """Append the ends of blocks that opened again."""
        self._stop({}, events)

    # Parts

    def _part(self, field: str, number: int | None, events: list[Event]) -> _Part:
        lane = self._lane(field, events)
        part = lane.parts.get(number or 0)
        if part is None:
            self._blocks.keep()
            part = lane.parts[number or 0] = _Part(len(lane.parts), Growth())
        return part

    def _lane(self, field: str, events: list[Event]) -> _Lane:
        lane = self._lanes.get(field)
        if lane is None:
            if not self._lanes:
                lane = _Lane(self.index, self._is_open, {})
            else:
                index = self.index = self._blocks.begin(Reasoning(), None, events)
                lane = _Lane(index, True, {})
            self._lanes[field] = lane
        if not lane.is_open:
            self._blocks.note("misplaced_delta", "Reasoning")
            lane.index = self.index = self._blocks.begin(Reasoning(), None, events)
            lane.is_open, lane.parts = True, {}
        return lane

    def _append(self, field: str, part: _Part, text: str | None, events: list[Event]) -> None:
        if text:
            events.append(ReasoningDelta(self._lanes[field].index, text, part.place))

    def _reconcile(
        self, field: str, number: int | None, part: _Part | None, text: str, events: list[Event]
    ) -> None:
        """Append what a whole text has more than came in pieces."""
        if part is None:
            part = self._part(field, number, events)
        more = part.growth.rest(text)
        if more is None:
            self._blocks.note("resent_text", "Reasoning")
        self._append(field, part, more, events)

    def _stop(self, wire: dict[str, Any], events: list[Event]) -> None:
        """Append the ends of the blocks, and what seals the item on the first of them."""
        lanes = list(self._lanes.items())
        open_blocks = [lane.index for _, lane in lanes if lane.is_open]
        if not lanes and self._is_open:
            open_blocks = [self.index]
        for field, lane in lanes:
            for part in lane.parts.values():
                if lane.is_open:
                    self._append(field, part, part.growth.flush(), events)
            lane.is_open = False
        self._is_open = False
        sealed = string_of(wire, "encrypted_content")
        for place, index in enumerate(sorted(open_blocks)):
            if sealed and not place:
                events.append(SignatureDelta(index, *self._issued(sealed, wire)))
            events.append(BlockStop(index))

    def _issued(self, sealed: str, wire: dict[str, Any]) -> tuple[str, str | None]:
        """Return what seals the item as its issuer wrote it, and who that is."""
        tagged = untag_signature(sealed)
        if tagged is not None:
            return tagged
        issuer = _FORMATS.get(string_of(wire, "format")) or _SERVERS.get(self._blocks.server or "")
        return sealed, issuer or "openai"
