"""Strict validator of an item's texts: start, deltas, complete text, end.

    part k  = added(k) delta* done(k) part_done(k), k dense from 0, one open at a time
    command = added(k) delta* done(k)
    other   = delta* done

Each later statement of a text must equal the earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from streamnorm._core.json import is_array, is_object, string_of
from streamnorm._core.shapes import is_count
from streamnorm.dialects.openai_responses.items import types

Action: TypeAlias = Literal["start", "delta", "annotation", "complete", "end"]


class TextEvent(Struct, frozen=True):
    """The effect that an event of one type has on a text.

    Attributes:
        text: Type of the text, or of another one with the same parts.
        action: Effect of the event.
        text_key: Field of the event with the delta or the complete text.
        part: Required type of the part; empty for any.
    """

    text: types.TextType
    action: Action
    text_key: str = ""
    part: str = ""


def events_of(text: types.TextType) -> dict[str, TextEvent]:
    """Return the effects of the events of a text and of its part, by event type."""
    part = text.part if text.field == "content" else ""  # summaries have one type only
    events: dict[str, TextEvent] = {}
    if text.part_events:
        events[text.part_added] = TextEvent(text, "start")
        events[text.part_done] = TextEvent(text, "end")
    if text is types.OUTPUT_TEXT:
        events[types.ANNOTATION_ADDED] = TextEvent(text, "annotation", part=part)
    # The last event of a command is its complete text.
    events[text.delta] = TextEvent(text, "delta", "delta", part)
    events[text.done] = TextEvent(text, "complete", text.key, part)
    return events


_TEXTS = [text for row in types.ITEM_TYPES.values() for text in row.texts]

TEXT_EVENTS = {type: event for text in _TEXTS for type, event in events_of(text).items()}
"""Events that start, extend or end a text, by type."""

_TEXT_DONE = {text.part: text.done for text in _TEXTS if text.part}
_NOUNS = {"content": "part", "summary": "summary", "commands": "command"}
# Types of items that must have their text before they are done.
_REQUIRED = ("function_call", "custom_tool_call")


class _TextState(Struct):
    """Validation state of a text.

    Attributes:
        part_type: Type of its part; empty for a text without parts, or if a problem reported it.
        deltas: The deltas.
        complete: The last complete text that an event stated.
        is_ended: Whether its last event was received.
        annotations: The annotations.
    """

    part_type: str
    deltas: list[str] = field(default_factory=list)
    complete: str | None = None
    is_ended: bool = False
    annotations: list[object] = field(default_factory=list)


class _TextGroup(Struct):
    """The texts in one field of an item.

    Attributes:
        type: Type of the texts, or one of their types.
        output_index: Index of the item.
        texts: The texts by index.
        next_index: Index of the next text.
        open: Indexes of texts that have not ended, except those already reported.
    """

    type: types.TextType
    output_index: int
    texts: dict[int, _TextState] = field(default_factory=dict)
    next_index: int = 0
    open: dict[int, None] = field(default_factory=dict)

    @property
    def noun(self) -> str:
        """Noun for a text of this field in problem messages."""
        return _NOUNS[self.type.field]

    @property
    def last_event(self) -> str:
        """Type of the event that ends a text."""
        return self.type.part_done if self.type.part_events else self.type.done

    def label(self, index: int) -> str:
        """Return the name of one text for problem messages."""
        text = f"{self.noun} {index}" if self.type.index_key else self.type.key
        return f"{text} of item {self.output_index}"

    def start(self, index: int, part_type: str) -> _TextState:
        """Add a text; return its state."""
        text = self.texts[index] = _TextState(part_type)
        self.next_index = max(self.next_index, index + 1)
        self.open[index] = None
        return text


class ItemTexts:
    """Strict validator of the texts of one item.

    Args:
        item_type: Type of the item.
        output_index: Index of the item.
    """

    def __init__(self, item_type: str, output_index: int) -> None:
        self._output_index = output_index
        self._groups: dict[str, _TextGroup] = {}
        if item_type in _REQUIRED:
            (text,) = types.ITEM_TYPES[item_type].texts
            self._group(text).start(0, "")

    def read(self, event_type: str, text_event: TextEvent, event: dict[str, Any]) -> Iterator[str]:
        """Yield the problems of an event, except wrong field names and types."""
        group, index_key = self._group(text_event.text), text_event.text.index_key
        index = event.get(index_key) if index_key else 0
        if text_event.action == "start":
            yield from _start(group, index, event)
            return
        if not is_count(index):
            return
        label = group.label(index)
        text = group.texts.get(index)
        if text is None:
            if index_key:  # reported once: the text is added
                yield f"{event_type} of {label}, expected an open {group.noun}"
            text = group.start(index, text_event.part)
        elif text.is_ended and index_key:
            yield f"{event_type} of {label}, expected an open {group.noun}"
            return
        if text_event.part and text.part_type not in ("", text_event.part):
            yield f"{event_type} in {label}, expected an event of {text.part_type}"
        elif text_event.action == "end":
            yield from _end(event_type, text, event, label)
        else:
            if text.complete is not None:
                yield f"{event_type} of {label} behind its whole text, expected it before"
            yield from _update(event_type, text_event, text, event, label)
        if text.is_ended:
            group.open.pop(index, None)

    def finish(self, item: dict[str, Any]) -> Iterator[str]:
        """Yield a problem for each text that is open or contradicts the complete item."""
        event_type = "response.output_item.done"
        for group in self._groups.values():
            for index in group.open:
                found = f"{event_type} while {group.label(index)} is open"
                yield f"{found}, expected {group.last_event}"
        yield from self.compare(event_type, item)

    def compare(self, event_type: str, item: dict[str, Any]) -> Iterator[str]:
        """Yield a problem for each text that contradicts the item in an event."""
        texts = types.item_type_of(string_of(item, "type")).texts
        for group in {text.field: self._group(text) for text in texts}.values():
            values = _texts_in(item, group.type)
            if values is None:
                continue
            if group.type.index_key and len(values) != len(group.texts):
                where = f"{group.type.field} of item {self._output_index}"
                yield f"{event_type} has {len(values)} in {where}, expected {len(group.texts)}"
            for index, value in enumerate(values):
                if (known := group.texts.get(index)) is not None:
                    label = group.label(index)
                    yield from _compare_text(event_type, known, _text_of(value), label)
                    if is_object(value):
                        yield from _compare_annotations(event_type, known, value, label)

    def _group(self, text: types.TextType) -> _TextGroup:
        return self._groups.setdefault(text.field, _TextGroup(text, self._output_index))


def _start(group: _TextGroup, stated_index: object, event: dict[str, Any]) -> Iterator[str]:
    index = stated_index if is_count(stated_index) else group.next_index
    label = group.label(index)
    if index in group.texts or index > group.next_index:
        yield f"{label} begins, expected {group.noun} {group.next_index}"
    for other in group.open:
        yield f"{label} begins while {group.noun} {other} is open, expected {group.last_event}"
    group.open.clear()
    part = event.get("part")
    part_type = part.get("type") if is_object(part) else None
    if not isinstance(part_type, str) or part_type not in _TEXT_DONE:
        part_type = ""
    group.start(index, part_type)


def _update(
    event_type: str, text_event: TextEvent, text: _TextState, event: dict[str, Any], label: str
) -> Iterator[str]:
    if text_event.action == "annotation":
        yield from _annotate(text, event, label)
    elif text.complete is not None:
        return
    elif text_event.action == "delta":
        if isinstance(delta := event.get(text_event.text_key), str):
            text.deltas.append(delta)
    else:
        yield from _compare_text(event_type, text, event.get(text_event.text_key), label)
        if text.complete is None:  # not a string: a problem of the shape
            text.complete = "".join(text.deltas)
        text.is_ended = not text_event.text.part


def _end(event_type: str, text: _TextState, event: dict[str, Any], label: str) -> Iterator[str]:
    text.is_ended = True
    part = event.get("part")
    if not is_object(part):
        return
    if text.part_type and part.get("type") != text.part_type:
        yield f"{event_type} of {label} is of another type, expected {text.part_type}"
        return
    if text.complete is None and text.part_type:
        expected = _TEXT_DONE[text.part_type]
        yield f"{event_type} of {label} before its whole text, expected {expected}"
    yield from _compare_text(event_type, text, _text_of(part), label)
    yield from _compare_annotations(event_type, text, part, label)


def _annotate(text: _TextState, event: dict[str, Any], label: str) -> Iterator[str]:
    index, expected = event.get("annotation_index"), len(text.annotations)
    if is_count(index) and index != expected:
        yield f"annotation_index in {label} is {index}, expected {expected}"
    text.annotations.append(event.get("annotation"))


def _compare_text(event_type: str, text: _TextState, value: object, label: str) -> Iterator[str]:
    """Yield a problem if a complete text differs from its deltas or an earlier copy."""
    if not isinstance(value, str):
        return
    known = "".join(text.deltas) if text.complete is None else text.complete
    if value != known:
        found = f"{event_type} has {label} in {len(value)} characters"
        yield f"{found}, expected its {len(known)} of before"
    text.complete = value


def _compare_annotations(
    event_type: str, text: _TextState, part: dict[str, Any], label: str
) -> Iterator[str]:
    """Yield a problem if a part's annotations differ from the annotations that events added."""
    annotations = part.get("annotations")
    if is_array(annotations) and annotations != text.annotations:
        found = f"{event_type} has {len(annotations)} annotations of {label}"
        yield f"{found}, expected the {len(text.annotations)} that were added"
        text.annotations = annotations


def _texts_in(item: dict[str, Any], text: types.TextType) -> list[object] | None:
    """Return the texts or parts in a field of a complete item; None if the field is no array."""
    if not text.index_key:
        return [item.get(text.field)]
    action = item.get("action")  # of a shell call, with its commands
    holder = action if text is types.COMMAND and is_object(action) else item
    return texts if is_array(texts := holder.get(text.field)) else None


def _text_of(part: object) -> object:
    """Return the text of a part; return other values unchanged."""
    if not is_object(part):
        return part
    is_refusal = part.get("type") == types.REFUSAL.part
    return part.get(types.REFUSAL.key if is_refusal else types.OUTPUT_TEXT.key)
