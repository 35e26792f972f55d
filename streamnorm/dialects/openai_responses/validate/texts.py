"""The letter of the texts of an item: begun, told in pieces, told whole, ended.

    part k  = added(k) delta* done(k) part_done(k), k dense from 0, one open at a time
    command = added(k) delta* done(k)
    other   = delta* done

Each later form of a text says the same as the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from streamnorm._core.json import is_array, is_object
from streamnorm._core.shapes import is_count

__all__ = ["STEPS", "Step", "Texts"]

Move: TypeAlias = Literal["begin", "more", "cite", "whole", "end"]


class Step(Struct, frozen=True):
    """What an event does with a text.

    Attributes:
        items: Types of the items that have such texts.
        lane: Which of their texts.
        move: What becomes of it.
        number: The field with its number; empty where an item has but one.
        text: The field with text of it.
        kind: The type of part that it must be.
    """

    items: tuple[str, ...]
    lane: str
    move: Move
    number: str = ""
    text: str = ""
    kind: str = ""


_WHOLE = {
    "output_text": "response.output_text.done",
    "refusal": "response.refusal.done",
    "reasoning_text": "response.reasoning_text.done",
    "summary_text": "response.reasoning_summary_text.done",
}
_NAMES = {"content": "part", "summary": "summary", "commands": "command"}
_ENDS = {
    "content": "response.content_part.done",
    "summary": "response.reasoning_summary_part.done",
    "commands": "response.shell_call_command.done",
    "arguments": "response.function_call_arguments.done",
    "input": "response.custom_tool_call_input.done",
    "code": "response.code_interpreter_call_code.done",
    "mcp_arguments": "response.mcp_call_arguments.done",
}
_REQUIRED = {"function_call": "arguments", "custom_tool_call": "input"}
"""The texts that an item cannot be done without."""

_MESSAGE, _REASONING, _PARTS = ("message",), ("reasoning",), ("message", "reasoning")
_CONTENT, _SUMMARY, _COMMAND = "content_index", "summary_index", "command_index"

STEPS: dict[str, Step] = {
    "response.content_part.added": Step(_PARTS, "content", "begin", _CONTENT),
    "response.content_part.done": Step(_PARTS, "content", "end", _CONTENT),
    "response.output_text.delta": Step(
        _MESSAGE, "content", "more", _CONTENT, "delta", "output_text"
    ),
    "response.output_text.done": Step(
        _MESSAGE, "content", "whole", _CONTENT, "text", "output_text"
    ),
    "response.output_text.annotation.added": Step(
        _MESSAGE, "content", "cite", _CONTENT, kind="output_text"
    ),
    "response.refusal.delta": Step(_MESSAGE, "content", "more", _CONTENT, "delta", "refusal"),
    "response.refusal.done": Step(_MESSAGE, "content", "whole", _CONTENT, "refusal", "refusal"),
    "response.reasoning_text.delta": Step(
        _REASONING, "content", "more", _CONTENT, "delta", "reasoning_text"
    ),
    "response.reasoning_text.done": Step(
        _REASONING, "content", "whole", _CONTENT, "text", "reasoning_text"
    ),
    "response.reasoning_summary_part.added": Step(_REASONING, "summary", "begin", _SUMMARY),
    "response.reasoning_summary_part.done": Step(_REASONING, "summary", "end", _SUMMARY),
    "response.reasoning_summary_text.delta": Step(_REASONING, "summary", "more", _SUMMARY, "delta"),
    "response.reasoning_summary_text.done": Step(_REASONING, "summary", "whole", _SUMMARY, "text"),
    "response.function_call_arguments.delta": Step(
        ("function_call",), "arguments", "more", text="delta"
    ),
    "response.function_call_arguments.done": Step(
        ("function_call",), "arguments", "whole", text="arguments"
    ),
    "response.custom_tool_call_input.delta": Step(
        ("custom_tool_call",), "input", "more", text="delta"
    ),
    "response.custom_tool_call_input.done": Step(
        ("custom_tool_call",), "input", "whole", text="input"
    ),
    "response.mcp_call_arguments.delta": Step(("mcp_call",), "mcp_arguments", "more", text="delta"),
    "response.mcp_call_arguments.done": Step(
        ("mcp_call",), "mcp_arguments", "whole", text="arguments"
    ),
    "response.code_interpreter_call_code.delta": Step(
        ("code_interpreter_call",), "code", "more", text="delta"
    ),
    "response.code_interpreter_call_code.done": Step(
        ("code_interpreter_call",), "code", "whole", text="code"
    ),
    "response.shell_call_command.added": Step(("shell_call",), "commands", "begin", _COMMAND),
    "response.shell_call_command.delta": Step(
        ("shell_call",), "commands", "more", _COMMAND, "delta"
    ),
    "response.shell_call_command.done": Step(
        ("shell_call",), "commands", "whole", _COMMAND, "command"
    ),
}
"""The events that tell texts."""


class _Text(Struct):
    kind: str  # type of part; empty if it has none, or one that was told
    pieces: list[str] = field(default_factory=list)
    text: str | None = None  # as an event told it whole
    is_over: bool = False
    annotations: list[object] = field(default_factory=list)


class _Lane(Struct):
    texts: dict[int, _Text] = field(default_factory=dict)
    next: int = 0
    untold: dict[int, None] = field(default_factory=dict)  # those whose lack of an end is not told

    def begin(self, number: int, kind: str) -> _Text:
        """Put in a text, and return it."""
        text = self.texts[number] = _Text(kind)
        self.next = max(self.next, number + 1)
        self.untold[number] = None
        return text


class Texts:
    """The texts of one item.

    Args:
        kind: Type of the item.
        index: Its number.
    """

    def __init__(self, kind: str, index: int) -> None:
        self._index = index
        self._lanes: dict[str, _Lane] = {}
        if (name := _REQUIRED.get(kind)) is not None:
            self._lanes[name] = _Lane()
            self._lanes[name].begin(0, "")

    def take(self, event: str, step: Step, value: dict[str, Any]) -> Iterator[str]:
        """Yield what is wrong with an event, but for its shape.

        Args:
            event: Its type.
            step: What it does.
            value: The event.
        """
        lane = self._lanes.setdefault(step.lane, _Lane())
        number = value.get(step.number) if step.number else 0
        if step.move == "begin":
            yield from self._begin(step.lane, lane, number, value)
            return
        if not is_count(number):
            return
        label = self._label(step.lane, number)
        text = lane.texts.get(number)
        if text is None:
            if step.number:  # its lack is told once
                yield f"{event} of {label}, expected an open {_NAMES[step.lane]}"
            text = lane.begin(number, step.kind)
        elif text.is_over and step.number:
            yield f"{event} of {label}, expected an open {_NAMES[step.lane]}"
            return
        if step.kind and text.kind not in ("", step.kind):
            yield f"{event} in {label}, expected an event of {text.kind}"
        elif step.move == "end":
            yield from _end(event, text, value, label)
        else:
            if text.text is not None:
                yield f"{event} of {label} behind its whole text, expected it before"
            yield from _grow(event, step, text, value, label)
        if text.is_over:
            lane.untold.pop(number, None)

    def whole(self, item: dict[str, Any]) -> Iterator[str]:
        """Yield what is wrong with the end of the item, and what it says of its texts."""
        event = "response.output_item.done"
        for name, lane in self._lanes.items():
            for number in lane.untold:
                label = self._label(name, number)
                yield f"{event} while {label} is open, expected {_ENDS[name]}"
        for name, values in _held(item):
            texts = self._lanes[name].texts if name in self._lanes else {}
            if name in _NAMES and len(values) != len(texts):
                what = f"{name} of item {self._index}"
                yield f"{event} has {len(values)} in {what}, expected {len(texts)}"
            for number, value in enumerate(values):
                label = self._label(name, number)
                if (known := texts.get(number)) is not None:
                    yield from _agree(event, known, _text_of(value), label)
                    if is_object(value):
                        yield from _agree_on_sources(event, known, value, label)

    def _label(self, lane: str, number: int) -> str:
        name = _NAMES.get(lane)
        what = f"{name} {number}" if name is not None else lane.removeprefix("mcp_")
        return f"{what} of item {self._index}"

    def _begin(self, name: str, lane: _Lane, told: object, value: dict[str, Any]) -> Iterator[str]:
        number = told if is_count(told) else lane.next
        label = self._label(name, number)
        if number in lane.texts or number > lane.next:
            yield f"{label} begins, expected {_NAMES[name]} {lane.next}"
        for other in lane.untold:
            yield f"{label} begins while {_NAMES[name]} {other} is open, expected {_ENDS[name]}"
        lane.untold.clear()
        part = value.get("part")
        kind = part.get("type") if is_object(part) else None
        lane.begin(number, kind if isinstance(kind, str) and kind in _WHOLE else "")


def _grow(event: str, step: Step, text: _Text, value: dict[str, Any], label: str) -> Iterator[str]:
    if step.move == "cite":
        yield from _cite(text, value, label)
    elif text.text is not None:
        return
    elif step.move == "more":
        if isinstance(piece := value.get(step.text), str):
            text.pieces.append(piece)
    else:
        yield from _agree(event, text, value.get(step.text), label)
        if text.text is None:  # which was told to be none
            text.text = "".join(text.pieces)
        text.is_over = step.lane not in ("content", "summary")


def _end(event: str, text: _Text, value: dict[str, Any], label: str) -> Iterator[str]:
    text.is_over = True
    part = value.get("part")
    if not is_object(part):
        return
    if text.kind and part.get("type") != text.kind:
        yield f"{event} of {label} is of another type, expected {text.kind}"
        return
    if text.text is None and text.kind:
        yield f"{event} of {label} before its whole text, expected {_WHOLE[text.kind]}"
    yield from _agree(event, text, _text_of(part), label)
    yield from _agree_on_sources(event, text, part, label)


def _cite(text: _Text, value: dict[str, Any], label: str) -> Iterator[str]:
    number, expected = value.get("annotation_index"), len(text.annotations)
    if is_count(number) and number != expected:
        yield f"annotation_index in {label} is {number}, expected {expected}"
    text.annotations.append(value.get("annotation"))


def _agree(event: str, text: _Text, value: object, label: str) -> Iterator[str]:
    """Yield whether a text is another than was told before."""
    if not isinstance(value, str):
        return
    known = "".join(text.pieces) if text.text is None else text.text
    if value != known:
        yield f"{event} has {label} in {len(value)} characters, expected its {len(known)} of before"
    text.text = value


def _agree_on_sources(event: str, text: _Text, part: dict[str, Any], label: str) -> Iterator[str]:
    """Yield whether the sources of a text are others than were told before."""
    annotations = part.get("annotations")
    if is_array(annotations) and annotations != text.annotations:
        found = f"{event} has {len(annotations)} annotations of {label}"
        yield f"{found}, expected the {len(text.annotations)} that were added"
        text.annotations = annotations


def _held(item: Mapping[str, Any]) -> Iterator[tuple[str, list[object]]]:
    """Yield the texts, or parts, that an item that is done holds, by lane."""
    kind = item.get("type")
    match kind:
        case "message" | "reasoning":
            for name in ("content", "summary"):
                if is_array(parts := item.get(name)):
                    yield name, list(parts)
        case "function_call" | "custom_tool_call" | "code_interpreter_call":
            name = {"function_call": "arguments", "custom_tool_call": "input"}.get(kind, "code")
            yield name, [item.get(name)]
        case "mcp_call":
            yield "mcp_arguments", [item.get("arguments")]
        case "shell_call" if is_object(action := item.get("action")):
            if is_array(commands := action.get("commands")):
                yield "commands", list(commands)
        case _:
            return


def _text_of(part: object) -> object:
    """Return a text, or that of a part of whatever type."""
    if not is_object(part):
        return part
    return part.get("refusal" if part.get("type") == "refusal" else "text")
