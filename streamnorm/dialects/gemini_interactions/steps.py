"""The open steps of one interaction, by their index on the wire.

https://ai.google.dev/api/interactions-api (read 2026-11-22).  This module finds the step of each
event; `blocks.py` and `tool_calls.py` read the content of the steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamnorm._core.events import Event
from streamnorm._core.failures import malformed, too_large
from streamnorm._core.json import compact, is_array, is_object, objects_of, string_of
from streamnorm._core.limits import USUAL_FIELDS_BYTES, value_bytes
from streamnorm._core.shapes import found
from streamnorm.dialects.gemini_interactions.blocks import (
    InteractionBlocks,
    OpenStep,
    OutputStep,
    OutputText,
    ThoughtStep,
    UnknownStep,
)
from streamnorm.dialects.gemini_interactions.tool_calls import (
    CALL_SUFFIX,
    FUNCTION_CALL,
    RESULT_SUFFIX,
    ResultStep,
    ServerToolCallStep,
    ToolCallStep,
    is_same,
)
from streamnorm.dialects.gemini_interactions.wire import RawStep, arguments_text, raw_event

# Steps without a block, which `max_blocks` does not count, cost memory, too.
_STEPS_PER_BLOCK = 4
_FILES = frozenset({"image", "document", "audio", "video"})
_TEXTS = frozenset({"model_output", "text"})
_OUTPUTS = _TEXTS | _FILES


class OpenSteps:
    """The steps of one interaction; several may be open at once.

    Args:
        blocks: State shared by the steps.

    Attributes:
        open: Open steps by index.
        is_resumed: Whether the stream may continue steps that an earlier stream has started.
    """

    def __init__(self, blocks: InteractionBlocks) -> None:
        self.open: dict[int, OpenStep] = {}
        self._blocks = blocks
        self.is_resumed = False
        self._starts: dict[int, int] = {}  # hash of each start, also after the stop
        self._last_index = -1
        self._stored_bytes: dict[int, int] = {}  # of open steps, by index

    def read(self, action: str, value: dict[str, Any], data: str, events: list[Event]) -> None:
        """Append the events of one event of a step.

        Args:
            action: `start`, `delta` or `stop`.
            value: The event.
            data: JSON text of the event.
            events: List to append to.
        """
        raw = raw_event(data)
        index = self._index_of(action, value.get("index"))
        match action:
            case "start":
                step = value.get("step", value.get("content"))
                fields = step if is_object(step) else {}
                if not self._repeats(index, fields):
                    self._store(index, max(value_bytes(fields) - USUAL_FIELDS_BYTES, 0))
                    self._start(index, fields, raw.step or raw.content, events)
            case "delta":
                delta = value.get("delta")
                delta = delta if is_object(delta) else {}
                self._read_delta(index, delta, raw.delta, events)
            case _:
                self._stop(index, events)

    def read_complete(self, interaction: dict[str, Any], data: str, events: list[Event]) -> None:
        """Append the steps of the last event, unless earlier events had steps."""
        # The last event may hold the steps, and alone does so in a stream without step events.
        if not self._starts:
            for step, raw_step in _complete_steps(interaction, data):
                self._add(step, raw_step, events)

    def compare(self, interaction: dict[str, Any], data: str, events: list[Event]) -> None:
        """Compare the last event's steps with the streamed ones; append calls that it adds.

        Raises:
            Fatal: The last event has another answer, or another call of the same id.
        """
        if not self._starts:
            return
        texts: list[OutputText] = []
        for step, raw in _complete_steps(interaction, data):
            kind, id, name = (string_of(step, key) for key in ("type", "id", "name"))
            if kind in _TEXTS:
                texts.append(_text_of(step))
            # Without an id no call of the stream can be named.
            elif kind == FUNCTION_CALL and id:
                known = self._blocks.calls_by_id.get(id)
                if known is None:
                    self._blocks.note("completed_by_whole", "tool call")
                    self._add(step, raw, events)
                elif known[0] != name or not is_same(known[1], arguments_text(step, raw)):
                    raise malformed("a call that the last event repeats with another content")
        # The last event may repeat an answer without its text.
        written = self._blocks.outputs
        if len(texts) == len(written) and any(text.size for text in texts) and texts != written:
            raise malformed("an answer that the last event repeats with another text")

    def _store(self, index: int, size: int) -> None:
        """Count bytes of a step that are stored until it stops."""
        self._blocks.store(size)
        self._stored_bytes[index] = self._stored_bytes.get(index, 0) + size

    def _add(self, step: dict[str, Any], raw: RawStep | None, events: list[Event]) -> None:
        """Append a complete step."""
        self._start(self._last_index + 1, step, raw, events)
        self._stop(self._last_index, events)

    def finish(self, events: list[Event]) -> None:
        """Stop the steps that are still open."""
        for step in self.open.values():
            self._blocks.note("missing_block_stop", "step")
            step.stop(events, explicit=False)
        self.open = {}

    def _index_of(self, action: str, index: object) -> int:
        """Return the index of an event's step; without an index, of the only open step.

        Raises:
            Fatal: The event has no index, and no step or several are open.
        """
        if type(index) is int:
            return index
        if index is not None:
            raise malformed(f"step index is {found(index)}, expected an integer")
        if action == "start":
            return self._last_index + 1
        # Without an index only a single open step can be meant.
        if len(self.open) > 1 or (action == "delta" and not self.open):
            raise malformed(f"step.{action} without an index and {len(self.open)} open steps")
        return next(iter(self.open), self._last_index)

    def _repeats(self, index: int, fields: dict[str, Any]) -> bool:
        """Return whether a start was sent before; store a new one.

        Raises:
            Fatal: The step has started with other fields, or a limit is exceeded.
        """
        found, known = hash(compact(fields)), self._starts.get(index)
        if known is not None and known != found:
            raise malformed(f"step {index} starts again, expected another index")
        if known is None:
            bound = self._blocks.limits.max_blocks
            if len(self._starts) >= _STEPS_PER_BLOCK * bound:
                raise too_large("max_blocks", bound)
        self._starts[index] = found
        if known is not None:
            self._blocks.note("repeated_start", "step")
        return known is not None

    def _start(
        self, index: int, fields: dict[str, Any], raw: RawStep | None, events: list[Event]
    ) -> OpenStep:
        kind = string_of(fields, "type")
        self._blocks.check_names(kind)
        step = _step_class(kind)(kind, fields, arguments_text(fields, raw), self._blocks)
        self.open[index], self._last_index = step, index
        step.start(events)
        return step

    def _read_delta(
        self,
        index: int,
        delta: dict[str, Any],
        raw: RawStep | None,
        events: list[Event],
    ) -> None:
        kind = string_of(delta, "type") or ("text" if "text" in delta else "")
        kind = kind or ("thought_summary" if "content" in delta else "")
        step = self.open.get(index)
        if step is None:
            implied = _step_of_delta(kind)
            if implied is None:
                self._blocks.add_opaque(kind or "delta", delta, events)
                return
            # An empty delta behind the stop of its step loses nothing.
            if index in self._starts and not _has_content(delta):
                self._blocks.note("late_delta", "step")
                return
            # Only a resumed stream lacks the start of a step for a good reason.
            if index in self._starts or not self.is_resumed:
                raise malformed(f"delta of step {index}, which is not open")
            self._blocks.note("misplaced_delta", "step")
            self._repeats(index, {"type": implied})
            step = self._start(index, {"type": implied}, None, events)
        # Stored until the stop, since results come in parts of which some replace others.
        if isinstance(step, ResultStep):
            self._store(index, value_bytes(delta))
        if not step.read_delta(kind, delta, arguments_text(delta, raw), events):
            self._blocks.add_opaque(kind or "delta", delta, events, index=step.index)

    def _stop(self, index: int, events: list[Event]) -> None:
        step = self.open.pop(index, None)
        self._blocks.stored.release(self._stored_bytes.pop(index, 0))
        if step is None:
            self._blocks.note("extra_block_stop", "step")
        else:
            step.stop(events, explicit=True)


def _complete_steps(
    interaction: dict[str, Any], data: str
) -> Iterator[tuple[dict[str, Any], RawStep | None]]:
    """Yield the steps of the last event, each with the JSON text of its arguments."""
    raw = raw_event(data).interaction
    lists = [(interaction.get("steps"), raw.steps), (interaction.get("outputs"), raw.outputs)]
    for steps, raw_steps in lists:
        for position, step in enumerate(steps if is_array(steps) else ()):
            if is_object(step):
                yield step, raw_steps[position] if position < len(raw_steps) else None


def _text_of(step: dict[str, Any]) -> OutputText:
    """Return the text of a complete step of the answer."""
    text = OutputText()
    contents = step.get("content") if string_of(step, "type") == "model_output" else [step]
    for content in objects_of(contents):
        text.append(string_of(content, "text"))
    return text


def _has_content(delta: dict[str, Any]) -> bool:
    return any(value for key, value in delta.items() if key != "type")


def _step_class(kind: str) -> type[OpenStep]:
    if kind in _OUTPUTS:
        return OutputStep
    if kind == "thought":
        return ThoughtStep
    if kind == FUNCTION_CALL:
        return ToolCallStep
    if kind.endswith(CALL_SUFFIX):
        return ServerToolCallStep
    return ResultStep if kind.endswith(RESULT_SUFFIX) else UnknownStep


def _step_of_delta(kind: str) -> str | None:
    """Return the type of step that a delta without a start implies; None for an unknown delta."""
    if kind in ("text", "text_annotation_delta", "text_annotation", *_FILES):
        return "model_output"
    if kind in ("thought_summary", "thought_signature"):
        return "thought"
    if kind == "arguments_delta":
        return FUNCTION_CALL
    return kind if kind.endswith((CALL_SUFFIX, RESULT_SUFFIX)) else None
