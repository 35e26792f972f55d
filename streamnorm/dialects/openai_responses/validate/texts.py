"""Strict validator of the texts of an item: start, deltas, complete text, end.

    part k  = added(k) delta* done(k) part_done(k), k dense from 0, one open at a time
    command = added(k) delta* done(k)
    other   = delta* done

Each later statement of a text must equal the earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from streamnorm._core.json import is_array, is_object
from streamnorm._core.shapes import is_count

Action: TypeAlias = Literal["start", "delta", "annotation", "complete", "end"]


class TextEvent(Struct, frozen=True):
    """The effect of an event type on a text.

    Attributes:
        item_types: Types of the items that have the text.
        group: Name of the group of texts in the item.
        action: Effect of the event.
        index_key: Key of the index of the text; empty if an item has a single text.
        text_key: Key of the delta or the complete text.
        part_type: Required type of the part; empty for any.
    """

    item_types: tuple[str, ...]
    group: str
    action: Action
    index_key: str = ""
    text_key: str = ""
    part_type: str = ""


_TEXT_DONE = {
    "output_text": "response.output_text.done",
    "refusal": "response.refusal.done",
    "reasoning_text": "response.reasoning_text.done",
    "summary_text": "response.reasoning_summary_text.done",
}
_LABELS = {"content": "part", "summary": "summary", "commands": "command"}
_END_EVENTS = {
    "content": "response.content_part.done",
    "summary": "response.reasoning_summary_part.done",
    "commands": "response.shell_call_command.done",
    "arguments": "response.function_call_arguments.done",
    "input": "response.custom_tool_call_input.done",
    "code": "response.code_interpreter_call_code.done",
    "mcp_arguments": "response.mcp_call_arguments.done",
}
_REQUIRED = {"function_call": "arguments", "custom_tool_call": "input"}
"""Texts that an item must have before it is done, by item type."""

_MESSAGE, _REASONING, _PARTS = ("message",), ("reasoning",), ("message", "reasoning")
_CONTENT, _SUMMARY, _COMMAND = "content_index", "summary_index", "command_index"


def _single_text(item_type: str, event_prefix: str, group: str, key: str) -> dict[str, TextEvent]:
    """Return the events of a text that an item has once."""
    return {
        f"{event_prefix}.delta": TextEvent((item_type,), group, "delta", text_key="delta"),
        f"{event_prefix}.done": TextEvent((item_type,), group, "complete", text_key=key),
    }


def _part_text(
    item_types: tuple[str, ...], group: str, index_key: str, part_type: str, text_key: str = "text"
) -> dict[str, TextEvent]:
    """Return the events of the text of a part."""
    done = _TEXT_DONE[part_type]
    type = "" if group == "summary" else part_type  # summaries have one type only
    return {
        f"{done.removesuffix('.done')}.delta": TextEvent(
            item_types, group, "delta", index_key, "delta", type
        ),
        done: TextEvent(item_types, group, "complete", index_key, text_key, type),
    }


TEXT_EVENTS: dict[str, TextEvent] = {
    "response.content_part.added": TextEvent(_PARTS, "content", "start", _CONTENT),
    "response.content_part.done": TextEvent(_PARTS, "content", "end", _CONTENT),
    **_part_text(_MESSAGE, "content", _CONTENT, "output_text"),
    "response.output_text.annotation.added": TextEvent(
        _MESSAGE, "content", "annotation", _CONTENT, part_type="output_text"
    ),
    **_part_text(_MESSAGE, "content", _CONTENT, "refusal", "refusal"),
    **_part_text(_REASONING, "content", _CONTENT, "reasoning_text"),
    "response.reasoning_summary_part.added": TextEvent(_REASONING, "summary", "start", _SUMMARY),
    "response.reasoning_summary_part.done": TextEvent(_REASONING, "summary", "end", _SUMMARY),
    **_part_text(_REASONING, "summary", _SUMMARY, "summary_text"),
    **_single_text("function_call", "response.function_call_arguments", "arguments", "arguments"),
    **_single_text("custom_tool_call", "response.custom_tool_call_input", "input", "input"),
    **_single_text("mcp_call", "response.mcp_call_arguments", "mcp_arguments", "arguments"),
    **_single_text("code_interpreter_call", "response.code_interpreter_call_code", "code", "code"),
    "response.shell_call_command.added": TextEvent(("shell_call",), "commands", "start", _COMMAND),
    "response.shell_call_command.delta": TextEvent(
        ("shell_call",), "commands", "delta", _COMMAND, "delta"
    ),
    "response.shell_call_command.done": TextEvent(
        ("shell_call",), "commands", "complete", _COMMAND, "command"
    ),
}
"""Events that start, extend or end a text, by type."""


class _TextState(Struct):
    """The received state of a text.

    Attributes:
        part_type: Type of its part; empty for a text without parts, or if a problem reported it.
        deltas: Its deltas.
        complete: The last complete text that an event stated.
        is_ended: Whether its last event was received.
        annotations: Its annotations.
    """

    part_type: str
    deltas: list[str] = field(default_factory=list)
    complete: str | None = None
    is_ended: bool = False
    annotations: list[object] = field(default_factory=list)


class _TextGroup(Struct):
    """The texts of one group of an item.

    Attributes:
        texts: The texts by index.
        next_index: Index of the next text.
        open: Indexes of texts that have not ended, except those already reported.
    """

    texts: dict[int, _TextState] = field(default_factory=dict)
    next_index: int = 0
    open: dict[int, None] = field(default_factory=dict)

    def start(self, index: int, part_type: str) -> _TextState:
        """Add a text and return it."""
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
        if (name := _REQUIRED.get(item_type)) is not None:
            self._groups[name] = _TextGroup()
            self._groups[name].start(0, "")

    def read(self, event_type: str, text_event: TextEvent, event: dict[str, Any]) -> Iterator[str]:
        """Yield the problems of an event, except those of its shape."""
        name = text_event.group
        group = self._groups.setdefault(name, _TextGroup())
        index = event.get(text_event.index_key) if text_event.index_key else 0
        if text_event.action == "start":
            yield from self._start(name, group, index, event)
            return
        if not is_count(index):
            return
        label = self._label(name, index)
        text = group.texts.get(index)
        if text is None:
            if text_event.index_key:  # reported once: the text is added
                yield f"{event_type} of {label}, expected an open {_LABELS[name]}"
            text = group.start(index, text_event.part_type)
        elif text.is_ended and text_event.index_key:
            yield f"{event_type} of {label}, expected an open {_LABELS[name]}"
            return
        if text_event.part_type and text.part_type not in ("", text_event.part_type):
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
        """Yield open texts, and contradictions between the complete item and its texts."""
        event_type = "response.output_item.done"
        for name, group in self._groups.items():
            for index in group.open:
                label = self._label(name, index)
                yield f"{event_type} while {label} is open, expected {_END_EVENTS[name]}"
        yield from self.compare(event_type, item)

    def compare(self, event_type: str, item: dict[str, Any]) -> Iterator[str]:
        """Yield the contradictions between an item in an event and its texts."""
        for name, values in _texts_of(item):
            texts = self._groups[name].texts if name in self._groups else {}
            if name in _LABELS and len(values) != len(texts):
                where = f"{name} of item {self._output_index}"
                yield f"{event_type} has {len(values)} in {where}, expected {len(texts)}"
            for index, value in enumerate(values):
                label = self._label(name, index)
                if (known := texts.get(index)) is not None:
                    yield from _compare_text(event_type, known, _text_of(value), label)
                    if is_object(value):
                        yield from _compare_annotations(event_type, known, value, label)

    def _label(self, group: str, index: int) -> str:
        name = _LABELS.get(group)
        text = f"{name} {index}" if name is not None else group.removeprefix("mcp_")
        return f"{text} of item {self._output_index}"

    def _start(
        self, name: str, group: _TextGroup, stated_index: object, event: dict[str, Any]
    ) -> Iterator[str]:
        index = stated_index if is_count(stated_index) else group.next_index
        label = self._label(name, index)
        if index in group.texts or index > group.next_index:
            yield f"{label} begins, expected {_LABELS[name]} {group.next_index}"
        for other in group.open:
            found = f"{label} begins while {_LABELS[name]} {other} is open"
            yield f"{found}, expected {_END_EVENTS[name]}"
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
        text.is_ended = text_event.group not in ("content", "summary")


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
    """Yield a problem if a complete text differs from its deltas or an earlier complete text."""
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
    """Yield a problem if the annotations of a part differ from the added annotations."""
    annotations = part.get("annotations")
    if is_array(annotations) and annotations != text.annotations:
        found = f"{event_type} has {len(annotations)} annotations of {label}"
        yield f"{found}, expected the {len(text.annotations)} that were added"
        text.annotations = annotations


def _texts_of(item: Mapping[str, Any]) -> Iterator[tuple[str, list[object]]]:
    """Yield the texts or parts of a complete item, by group."""
    item_type = item.get("type")
    match item_type:
        case "message" | "reasoning":
            for name in ("content", "summary"):
                if is_array(parts := item.get(name)):
                    yield name, list(parts)
        case "function_call" | "custom_tool_call" | "code_interpreter_call":
            name = {"function_call": "arguments", "custom_tool_call": "input"}.get(
                item_type, "code"
            )
            yield name, [item.get(name)]
        case "mcp_call":
            yield "mcp_arguments", [item.get("arguments")]
        case "shell_call" if is_object(action := item.get("action")):
            if is_array(commands := action.get("commands")):
                yield "commands", list(commands)
        case _:
            return


def _text_of(part: object) -> object:
    """Return the text of a part; any other value as it is."""
    if not is_object(part):
        return part
    return part.get("refusal" if part.get("type") == "refusal" else "text")
