"""Message items, whose content parts each become a block."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from streamnorm._core.blocks import Refusal, Text
from streamnorm._core.events import BlockStop, CitationDelta, Event, RefusalDelta, TextDelta
from streamnorm._core.failures import malformed
from streamnorm._core.json import clean, is_array, objects_of, string_of
from streamnorm.dialects.openai_responses import wire
from streamnorm.dialects.openai_responses.content import (
    citation_from_wire,
    logprobs_from_wire,
    opaque_from_wire,
)
from streamnorm.dialects.openai_responses.items.item import (
    Item,
    OpenText,
    ResponseBlockOpener,
    TextProgress,
    align_parts,
    extra_fields,
    part_position,
)
from streamnorm.dialects.openai_responses.items.types import OUTPUT_TEXT, REFUSAL

PartKind: TypeAlias = type[Text | Refusal]

_KINDS: dict[str, PartKind] = {OUTPUT_TEXT.part: Text, REFUSAL.part: Refusal}
_TEXT_KEYS: dict[PartKind, str] = {Text: OUTPUT_TEXT.key, Refusal: REFUSAL.key}
_MAPPED = ("type", *_TEXT_KEYS.values(), "annotations", "logprobs")


class _ContentPart(Struct):
    """An `output_text` or `refusal` part.

    Attributes:
        kind: Type of its block.
        progress: Length and checksum of its text so far.
        index: Index of its block.
        is_open: Whether the block is open.
        is_whole: Whether an event stated the text as a whole.
        citations: Number of annotations so far.
        has_logprobs: Whether its deltas carried log probabilities.
    """

    kind: PartKind
    progress: TextProgress
    index: int
    is_open: bool = True
    is_whole: bool = False
    citations: int = 0
    has_logprobs: bool = False


class MessageItem(Item):
    """An output item of the type `message`, whose parts are text, refusals or unknown."""

    def __init__(self, initial: dict[str, Any], opener: ResponseBlockOpener) -> None:
        super().__init__(initial, opener)
        self._extra = extra_fields(initial, "role", OUTPUT_TEXT.field)
        # By `content_index`; a text and a refusal may share one.
        self._parts: dict[PartKind, dict[int, _ContentPart]] = {Text: {}, Refusal: {}}
        self._opaque_parts: dict[int, None] = {}

    @property
    def has_content(self) -> bool:
        return any(self._parts.values())

    @property
    def is_answer(self) -> bool:
        return any(part.progress.length for part in self._all_parts())

    def append_text(
        self, kind: PartKind, part_index: int | None, delta: str, events: list[Event]
    ) -> None:
        """Append a delta of a part.

        Raises:
            Fatal: The text of the part is complete.
        """
        if not delta:
            return
        part = self._part(kind, part_index, events)
        if part.is_whole or not part.is_open:
            if not part.progress.holds(delta):
                raise malformed("delta of a text that is complete, expected an open one")
            self._opener.note("resent_text", kind.__name__)
        elif text := part.progress.add(delta):
            self._append(part, text, events)

    def open_text(self, delta: wire.DeltaEvent) -> OpenText | None:
        """Return the open text that deltas like `delta` extend; None to keep the slow path."""
        part = self._find_part(Text, delta.part)
        if part is None or part.is_whole or not part.is_open or part.progress.high_surrogate:
            return None
        return OpenText(TextDelta(part.index, ""), part.progress, delta.output_index, delta.part)

    def add_logprobs(self, part_index: int | None, tokens: Any, events: list[Event]) -> None:
        """Append the log probabilities of the last delta."""
        if is_array(tokens) and tokens:
            part = self._part(Text, part_index, events)
            if not part.is_open:
                self._opener.note("misplaced_delta", "logprobs")
                return
            part.has_logprobs = True
            events.append(logprobs_from_wire(tokens, part.index))

    def add_citation(
        self,
        part_index: int | None,
        number: object,
        annotation: dict[str, Any],
        events: list[Event],
    ) -> None:
        """Append an annotation.

        Args:
            part_index: Index of its part.
            number: Position among the annotations of the part, as in the event.
            annotation: The annotation.
            events: Receives the event.

        Raises:
            Fatal: The block of the part has stopped without it.
        """
        part = self._part(Text, part_index, events)
        if part.is_open:
            self._cite(part, annotation, events)
        elif isinstance(number, int) and number < part.citations:
            self._opener.note("late_citation", "text")
        else:
            raise malformed("annotation of a part that is complete, expected an open one")

    def start_part(self, part_index: int | None, part: dict[str, Any], events: list[Event]) -> None:
        """Start the block of a part; parts of unknown types wait until complete.

        Raises:
            Fatal: The part has started with another text.
        """
        kind = _KINDS.get(string_of(part, "type"))
        if kind is None:
            return
        started, text = self._find_part(kind, part_index), string_of(part, _TEXT_KEYS[kind])
        if started is None:
            started = self._open_part(kind, part_index or 0, part, events)
            if text := started.progress.add_missing_tail(text) or "":
                self._append(started, text, events)
        elif text and not started.progress.holds(text):
            raise malformed("second start of a part with another text, expected the same")
        else:
            self._opener.note("resent_item", "content part")

    def complete_text(
        self, part_index: int | None, event: dict[str, Any], events: list[Event]
    ) -> None:
        """Append the rest of a complete text that the deltas lacked; the part stays open.

        Raises:
            Fatal: The complete text contradicts the text so far.
        """
        kind: PartKind = Refusal if REFUSAL.key in event else Text
        part = self._find_part(kind, part_index)
        if part is None and string_of(event, _TEXT_KEYS[kind]):
            part = self._open_part(kind, part_index or 0, {}, events)
        if part is not None:
            self._reconcile(part, event, events)

    def complete_part(
        self, part_index: int | None, part: dict[str, Any], events: list[Event]
    ) -> None:
        """Append a complete part's content that no event carried; stop the part's block.

        Raises:
            Fatal: The complete part contradicts the part so far.
        """
        kind = _KINDS.get(string_of(part, "type"))
        if kind is None:
            self._add_opaque_part(part_index or 0, part, events)
            return
        known = self._find_part(kind, part_index)
        self._complete_part(known, kind, part_index or 0, part, events)

    def complete(self, item: dict[str, Any], events: list[Event]) -> None:
        content = objects_of(item.get(OUTPUT_TEXT.field))
        self._check_start(content)
        kinds = [_KINDS.get(string_of(part, "type")) for part in content]
        received = {
            kind: {**align_parts(parts, [n for n, found in enumerate(kinds) if found is kind])}
            for kind, parts in self._parts.items()
        }
        for position, (kind, part) in enumerate(zip(kinds, content, strict=True)):
            if kind is None:
                self._add_opaque_part(position, part, events)
            else:
                known = received[kind].pop(position, None)
                self._complete_part(known, kind, position, part, events)
        missing = [*received[Text].values(), *received[Refusal].values()]
        if content and missing and any(part.progress.length for part in missing):
            raise malformed(
                f"message of {len(content)} parts without a text that came, expected all"
            )
        for received_part in self._all_parts():
            self._stop(received_part, events)

    def compare(self, item: dict[str, Any]) -> None:
        self.complete(item, [])

    def close_incomplete(self, events: list[Event]) -> None:
        """Append the content in the item's start, if the start has content; stop the blocks."""
        content = objects_of(self._initial.get(OUTPUT_TEXT.field))
        is_empty = not any(string_of(part, key) for part in content for key in _TEXT_KEYS.values())
        self.complete({} if is_empty and self.is_answer else self._initial, events)

    # Parts

    def _all_parts(self) -> list[_ContentPart]:
        return [*self._parts[Text].values(), *self._parts[Refusal].values()]

    def _find_part(self, kind: PartKind, part_index: int | None) -> _ContentPart | None:
        """Return the part that an event is about; None if the part never started."""
        return self._parts[kind].get(part_position(part_index, self._parts[kind]))

    def _part(self, kind: PartKind, part_index: int | None, events: list[Event]) -> _ContentPart:
        """Return the part that a delta extends; open a part that never started."""
        part = self._find_part(kind, part_index)
        return part or self._open_part(kind, part_index or 0, {}, events)

    def _open_part(
        self, kind: PartKind, position: int, part: dict[str, Any], events: list[Event]
    ) -> _ContentPart:
        """Open a new part."""
        if self.is_done:
            raise malformed("new part of a message that is complete, expected those it has")
        self._opener.count_stored()
        index = self.index = self._opener.open(kind(), self._pop_extra(part), events)
        opened = self._parts[kind][position] = _ContentPart(kind, TextProgress(), index)
        return opened

    def _check_start(self, content: list[dict[str, Any]]) -> None:
        """Check that the complete texts begin with the texts of the item's start."""
        for started, part in zip(
            objects_of(self._initial.get(OUTPUT_TEXT.field)), content, strict=False
        ):
            for key in _TEXT_KEYS.values():
                if not string_of(part, key).startswith(string_of(started, key)):
                    raise malformed("text that contradicts the start of its item, expected that")

    def _pop_extra(self, part: dict[str, Any]) -> dict[str, Any]:
        """Return a part's extra fields; the first part also gets the item's extra fields."""
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
            if self.is_done and not string_of(part, _TEXT_KEYS[kind]):
                return
            known = self._open_part(kind, position, part, events)
        self._reconcile(known, part, events)
        self._stop(known, events)

    def _reconcile(self, known: _ContentPart, part: dict[str, Any], events: list[Event]) -> None:
        """Append the text, log probabilities and annotations that only the complete part holds."""
        text = part.get(_TEXT_KEYS[known.kind])
        if isinstance(text, str):
            # A text that equals the received text has no lone surrogate.
            holds = known.progress.holds
            if not holds(text) and not holds(text := clean(text)):
                self._append_missing_tail(known, text, events)
            known.is_whole = True
        if known.kind is Refusal:
            return
        annotations = objects_of(part.get("annotations"))[known.citations :]
        if not known.is_open:
            if annotations:
                self._opener.note("late_citation", "text")
            return
        if is_array(part.get("logprobs")) and part["logprobs"] and not known.has_logprobs:
            known.has_logprobs = True
            events.append(logprobs_from_wire(part["logprobs"], known.index))
        for annotation in annotations:
            self._cite(known, annotation, events)

    def _append_missing_tail(self, known: _ContentPart, text: str, events: list[Event]) -> None:
        """Append the rest of a part's complete text that the deltas lacked."""
        progress, length = known.progress, known.progress.length
        is_closed = known.is_whole or not known.is_open or self.is_done
        tail = None if is_closed else progress.add_missing_tail(text)
        if tail is None:
            raise malformed(
                f"complete text of {len(text)} characters that contradicts {length} of deltas,"
                " expected the same"
            )
        if length:
            self._opener.note("completed_by_whole", known.kind.__name__)
        self._append(known, tail, events)

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
        """Append a complete part of an unknown type, unless it was appended before."""
        if position in self._opaque_parts or self.is_done:
            return
        self._opener.count_stored()
        self._opaque_parts[position] = None
        block = opaque_from_wire(part)
        index = self.index = self._opener.open(block, self._pop_extra({}), events)
        events.append(BlockStop(index))
