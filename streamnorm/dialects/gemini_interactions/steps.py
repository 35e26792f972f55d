"""Open steps of one interaction by index, and steps of tool calls and results.

https://ai.google.dev/api/interactions-api (read 2026-11-22).  `OpenSteps` finds the step of each
event; `blocks.py` has what all steps share, answers, thoughts and unknown steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import structs

from streamnorm._core.blocks import ServerToolCall, ServerToolResult, ToolCall
from streamnorm._core.codec.templates import Extend
from streamnorm._core.events import BlockStop, Event, JSONDelta, SignatureDelta
from streamnorm._core.failures import malformed, too_large
from streamnorm._core.json import (
    InvalidJSON,
    clean,
    compact,
    decode_any,
    is_array,
    is_json,
    is_object,
    objects_of,
    string_of,
)
from streamnorm._core.limits import USUAL_FIELDS_BYTES, text_bytes, value_bytes
from streamnorm._core.shapes import found
from streamnorm._core.text import FreshTexts, TextBuffer
from streamnorm.dialects.gemini_interactions.blocks import (
    GrowingBlock,
    InteractionBlocks,
    OpenStep,
    OutputStep,
    OutputText,
    ThoughtStep,
    UnknownStep,
)
from streamnorm.dialects.gemini_interactions.content import signature_from_wire
from streamnorm.dialects.gemini_interactions.wire import (
    ARGUMENTS_DELTAS,
    CALL_SUFFIX,
    KIND_SUFFIX,
    RESULT_SUFFIX,
    RawEvent,
    RawStep,
    arguments_text,
    raw_event,
    replace_half_characters,
    unknown_fields,
)

# Steps without a block, which `max_blocks` does not count, cost memory, too.
_STEPS_PER_BLOCK = 4
_FILES = frozenset({"image", "document", "audio", "video"})
_TEXTS = frozenset({"model_output", "text"})
_OUTPUTS = _TEXTS | _FILES
_CALLS_AND_RESULTS = (CALL_SUFFIX, RESULT_SUFFIX)


class OpenSteps:
    """The open steps of one interaction; several steps may be open at once.

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

    def read(self, action: str, value: dict[str, Any], data: str, events: list[Event]) -> int:
        """Append the events of a `step.…` event, and return the index of the step.

        Args:
            action: `start`, `delta` or `stop`.
            value: The event.
            data: JSON text of the event.
            events: List to append to.
        """
        index = self._index_of(action, value.get("index"))
        match action:
            case "start":
                step = value.get("step", value.get("content"))
                fields = step if is_object(step) else {}
                if not self._repeats(index, fields):
                    self._store(index, max(value_bytes(fields) - USUAL_FIELDS_BYTES, 0))
                    raw = raw_event(data) if "arguments" in fields else RawEvent()
                    self._start(index, fields, raw.step or raw.content, events)
            case "delta":
                delta = value.get("delta")
                delta = delta if is_object(delta) else {}
                raw = raw_event(data) if "arguments" in delta else RawEvent()
                self._read_delta(index, delta, raw.delta, events)
            case _:
                self._stop(index, events)
        return index

    def read_complete(self, interaction: dict[str, Any], data: str, events: list[Event]) -> None:
        """Append the events of the steps in the final event, unless steps were streamed before."""
        # The last event may hold the steps, and alone does so in a stream without step events.
        if not self._starts:
            for step, raw_step in _complete_steps(interaction, data):
                self._add(step, raw_step, events)

    def compare(self, interaction: dict[str, Any], data: str, events: list[Event]) -> None:
        """Check the final event's steps against the streamed steps; append missing calls.

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
        """Count bytes that are stored until the step stops."""
        self._blocks.store(size)
        self._stored_bytes[index] = self._stored_bytes.get(index, 0) + size

    def _add(self, step: dict[str, Any], raw: RawStep | None, events: list[Event]) -> None:
        """Append the events of a complete step."""
        self._start(self._last_index + 1, step, raw, events)
        self._stop(self._last_index, events)

    def finish(self, events: list[Event]) -> None:
        """Append the stops of all open steps."""
        for step in self.open.values():
            self._blocks.note("missing_block_stop", "step")
            step.stop(events, explicit=False)
        self.open.clear()

    def _index_of(self, action: str, index: object) -> int:
        """Return the step index of an event; if missing, infer it from the open and started steps.

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
        """Return whether a step's start was read before; store a new start.

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
        kind = kind or ("arguments_delta" if isinstance(delta.get("arguments"), str) else "")
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
        if step.read_delta(kind, delta, arguments_text(delta, raw), events):
            return
        if _belongs_elsewhere(kind, step):
            raise malformed(f"{kind} in step {index}, which is of another type")
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
    """Yield the steps of the final event, each with its arguments as undecoded JSON."""
    raw = raw_event(data).interaction
    lists = [(interaction.get("steps"), raw.steps), (interaction.get("outputs"), raw.outputs)]
    for steps, raw_steps in lists:
        for position, step in enumerate(steps if is_array(steps) else ()):
            if is_object(step):
                yield step, raw_steps[position] if position < len(raw_steps) else None


def _text_of(step: dict[str, Any]) -> OutputText:
    """Return size and checksum of the text in a complete output step."""
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


def _belongs_elsewhere(kind: str, step: OpenStep) -> bool:
    """Return whether a delta that a step cannot read must belong to a step of another type.

    A call without its arguments could run.
    """
    if isinstance(step, UnknownStep):
        return False
    if kind == "arguments_delta" or kind.endswith(_CALLS_AND_RESULTS):
        return True
    return kind in ("text", "thought_summary") and not isinstance(step, ResultStep)


def _step_of_delta(kind: str) -> str | None:
    """Return the step type that a delta type implies; None for an unknown delta type."""
    if kind in ("text", "text_annotation_delta", "text_annotation", *_FILES):
        return "model_output"
    if kind in ("thought_summary", "thought_signature"):
        return "thought"
    if kind == "arguments_delta":
        return FUNCTION_CALL
    return kind if kind.endswith(_CALLS_AND_RESULTS) else None


FUNCTION_CALL = "function_call"
_MAPPED = frozenset({"type", "id", "name", "arguments"})

_MAX_DEPTH = 128  # of arguments that are compared


class _CallStep(OpenStep):
    """A step of a tool call, whose arguments arrive at once or in fragments."""

    delta_decoder = ARGUMENTS_DELTAS
    _complete = ""  # complete arguments of a delta
    _id = _name = ""

    def __init__(
        self, kind: str, fields: dict[str, Any], arguments: str, blocks: InteractionBlocks
    ) -> None:
        super().__init__(kind, fields, arguments, blocks)
        self._fragments = TextBuffer()  # the arguments that arrived in fragments
        self._fresh = FreshTexts(blocks.stored)  # the last of them

    def extensible_block(self) -> GrowingBlock | None:
        return None if self._complete else super().extensible_block()

    def text_sinks(self) -> tuple[Extend | None, list[str] | None]:
        return self._extend, self._fresh.open

    def _extend(self, text: str) -> bool:
        fragments = self._join_fresh()
        if not self._blocks.stored.reserve(text_bytes(text)):  # the full reading reports the limit
            return False
        fragments.append(text)
        return True

    def _store(self, text: str) -> None:
        fragments = self._join_fresh()
        self._blocks.store_text(text)
        fragments.append(text)

    def _join_fresh(self) -> TextBuffer:
        """Return the arguments that arrived in fragments, after counting what is in `_fresh`."""
        if self._fresh.texts:
            self._fragments.append(self._fresh.take())
        return self._fragments

    def _open(
        self, call: ToolCall | ServerToolCall, extra: dict[str, Any], events: list[Event]
    ) -> GrowingBlock:
        self._blocks.count_call(call.id, call.name)
        self._id, self._name = call.id, call.name
        index = self._blocks.start(call, extra, events)
        self.block = GrowingBlock(JSONDelta(index, ""))
        return self.block

    def _append_fragment(self, block: GrowingBlock, text: object, events: list[Event]) -> None:
        """Append a fragment of the arguments."""
        if isinstance(text, str) and text:
            # Fragments behind whole arguments would be a second text of one call.
            if self._complete:
                raise malformed(f"{self.kind} goes on behind its arguments")
            self._store(block.append(text, events))

    def _append_complete(self, block: GrowingBlock, text: str, events: list[Event]) -> None:
        """Append the complete arguments in a delta, unless a delta has sent the same arguments."""
        if not text:
            return
        # Google's own tools send their arguments as one object, in the start, in a delta, or in
        # both.
        if text == self._complete:
            self._blocks.note("resent_arguments", self.kind)
            return
        if self._complete or self._join_fresh().size:
            raise malformed(f"{self.kind} with arguments twice")
        self._blocks.store_text(text)
        self._complete = text
        events.append(JSONDelta(block.index, text))

    def _finish(self, block: GrowingBlock, events: list[Event]) -> str:
        """Stop the call's block, and return the complete arguments.

        The arguments of the start are emitted here, if no delta has repeated them.
        """
        if text := block.flush(events):
            self._store(text)
        arguments, in_start = self._complete or self._join_fresh().text(), self._start_arguments
        if in_start and not arguments:
            self._blocks.store_text(in_start)
            arguments = in_start
            events.append(JSONDelta(block.index, arguments))
        if in_start and not is_same(arguments, in_start):
            found = f"{self.kind} with other arguments than its start"
            raise malformed(found)
        events.append(BlockStop(block.index))
        self._blocks.calls_by_id[self._id] = self._name, arguments
        return arguments


class ToolCallStep(_CallStep):
    """A `function_call` step: a call of a client tool."""

    def start(self, events: list[Event]) -> None:
        if string_of(self._fields, "name"):
            self._begin(self._fields, events)

    def read_delta(
        self, kind: str, delta: dict[str, Any], arguments: str, events: list[Event]
    ) -> bool:
        block = self.block
        if kind not in ("arguments_delta", FUNCTION_CALL):
            if kind != "thought_signature" or block is None:
                return False
            self._sign(block, delta, events)
        elif block is None:  # a delta of the former revision holds the complete call
            block = self._begin({**self._fields, **delta}, events)
        elif kind == FUNCTION_CALL:
            self._sign(block, delta, events)
        if kind == "arguments_delta":
            self._append_fragment(block, delta.get("arguments"), events)
        elif kind == FUNCTION_CALL:
            self._append_complete(block, arguments, events)
        return True

    def stop(self, events: list[Event], *, explicit: bool) -> None:
        block = self.block or self._begin(self._fields, events)
        if not (explicit or self._complete or self._fragments.size or self._start_arguments):
            # Neither arguments nor the stop of the step arrived: the call is unfinished.
            self._append_fragment(block, "{", events)
        arguments = self._finish(block, events)
        self._blocks.unfinished += bool(arguments) and not is_json(arguments)

    def _begin(self, fields: dict[str, Any], events: list[Event]) -> GrowingBlock:
        id, name = string_of(fields, "id"), string_of(fields, "name")
        if not name:
            raise malformed("function call without a name, expected one")
        signature = string_of(fields, "signature")
        # Some recorded calls start with `signature: ""`.
        signed = signature_from_wire(signature) if signature else None
        id = id or self._blocks.mint_id("tool call")
        self._blocks.name_call(id, name)
        self._blocks.unanswered[id] = name
        call = ToolCall(id, name)
        if signed is not None:
            call = structs.replace(call, signature=signed.signature, issuer=signed.issuer)
        return self._open(call, unknown_fields(fields, _MAPPED | {"signature"}), events)

    def _sign(self, block: GrowingBlock, fields: dict[str, Any], events: list[Event]) -> None:
        signature = string_of(fields, "signature")
        if signature:
            events.append(SignatureDelta(block.index, *signature_from_wire(signature)))


class ServerToolCallStep(_CallStep):
    """A step with a server tool call."""

    def start(self, events: list[Event]) -> None:
        if string_of(self._fields, "id"):
            self._begin(self._fields, events)

    def read_delta(
        self, kind: str, delta: dict[str, Any], arguments: str, events: list[Event]
    ) -> bool:
        if kind not in ("arguments_delta", self.kind):
            return False
        block = self.block
        if block is None:
            block = self._begin({**self._fields, **delta}, events)
        elif kind == self.kind:
            rest = unknown_fields(delta, _MAPPED)
            # `server_name` stands in the start and in the delta.
            rest = {name: item for name, item in rest.items() if self._fields.get(name) != item}
            if rest:
                self._blocks.add_opaque(kind, rest, events, index=block.index)
        if kind == "arguments_delta":
            self._append_fragment(block, delta.get("arguments"), events)
        else:
            self._append_complete(block, arguments, events)
        return True

    def stop(self, events: list[Event], *, explicit: bool) -> None:
        self._finish(self.block or self._begin(self._fields, events), events)

    def _begin(self, fields: dict[str, Any], events: list[Event]) -> GrowingBlock:
        id = string_of(fields, "id") or self._blocks.mint_id("server tool call")
        name = string_of(fields, "name") or clean(self.kind.removesuffix(CALL_SUFFIX))
        self._blocks.name_call(id, name)
        self._blocks.running.append(id)
        call = ServerToolCall(id, name, kind=clean(self.kind) + KIND_SUFFIX)
        return self._open(call, unknown_fields(fields, _MAPPED), events)


class ResultStep(OpenStep):
    """A step with a tool result from the provider; the step's stop emits the result as a block."""

    def start(self, events: list[Event]) -> None:
        # `google_search_result` starts without its result, which a delta brings
        # (google/search-with-sources).
        self._result: dict[str, Any] = {}
        self._merge(self._fields)

    def read_delta(
        self, kind: str, delta: dict[str, Any], arguments: str, events: list[Event]
    ) -> bool:
        if kind != self.kind:
            return False
        self._merge(delta)
        return True

    def stop(self, events: list[Event], *, explicit: bool) -> None:
        id = string_of(self._result, "call_id")
        if self.kind == "function_result":
            id = self._answer_call(id, string_of(self._result, "name"))
        else:
            id = self._answer_server_call(id)
        self._blocks.check_names(id)
        is_error = self._result.get("is_error") is True
        result = ServerToolResult(id, clean(self.kind) + KIND_SUFFIX, self._result, is_error)
        events.append(BlockStop(self._blocks.start(result, None, events)))

    def _answer_call(self, id: str, name: str) -> str:
        """Mark the client tool call of a result as answered, and return its id."""
        unanswered = self._blocks.unanswered
        if not id:
            id = next((known for known, tool in unanswered.items() if tool == name), "")
        unanswered.pop(id, None)
        return id

    def _answer_server_call(self, id: str) -> str:
        """Mark the server tool call of a result as answered; return its id."""
        running = self._blocks.running
        if not id and len(running) > 1:
            found = f"result without an id after {len(running)} calls, expected one"
            raise malformed(found)
        id = id or next(iter(running), "")
        if id in running:
            running.remove(id)
        return id

    def _merge(self, fields: dict[str, Any]) -> None:
        for key, value in fields.items():
            if key == "type" or value is None or (value == "" and self._result.get(key)):
                continue
            before = self._result.get(key)
            if is_array(before) and is_array(value):
                before += value
            else:
                self._result[key] = replace_half_characters(
                    key, list(value) if is_array(value) else value
                )


def is_same(arguments: str, others: str) -> bool:
    """Return whether two JSON texts of arguments have the same value."""
    # Start and deltas may differ in white space and in the order of keys.
    if arguments == others:
        return True
    texts = (text or "{}" for text in (arguments, others))
    try:
        one, other = (decode_any(text, max_depth=_MAX_DEPTH) for text in texts)
    except InvalidJSON:
        return False
    return bool(one == other)
