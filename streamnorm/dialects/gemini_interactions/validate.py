"""Strict validator of streams of the Interactions API: order and fields of events.

google-genai 3.6.1, `_gaos/types/interactions` (read 2026-11-27), and the order in 19 recordings:

    stream = interaction.created interaction.status_update* step* interaction.completed done
           | … error
    step k = step.start(k) step.delta(k)* step.stop(k)

Steps come one after the other, and their indexes rise by one over all types.  Arguments of a
function follow its start, which has an empty object; they may be incomplete JSON if the status
explains it, and no arguments stand for `{}`.

Additional fields are legal.  The start of a step of Google's own tools may lack the arguments or
the result, which its delta has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from streamnorm._core.codec import ANY, DONE, Checker, Order, OrderTable
from streamnorm._core.json import is_object
from streamnorm._core.shapes import (
    ARRAY,
    BOOLEAN,
    COUNT,
    NAME,
    OBJECT,
    TEXT,
    array,
    either,
    holds_object,
    is_count,
    object_of,
    parse_object,
    problems,
    tagged,
    word,
)
from streamnorm.sse import Frame

STATUSES = (
    *("in_progress", "requires_action", "completed", "failed", "cancelled", "incomplete"),
    *("budget_exceeded", "queued", "idle", "requires_continuation"),
)
_RUNNING = ("in_progress", "queued", "idle")

_SPAN = {"start_index": COUNT, "end_index": COUNT}
_ANNOTATION = tagged(
    {
        "url_citation": object_of({}, {**_SPAN, "url": TEXT, "title": TEXT}),
        "file_citation": object_of(
            {},
            {
                **_SPAN,
                "document_uri": TEXT,
                "file_name": TEXT,
                "source": TEXT,
                "media_id": TEXT,
                "page_number": COUNT,
                "custom_metadata": OBJECT,
            },
        ),
        "place_citation": object_of(
            {},
            {**_SPAN, "name": TEXT, "place_id": TEXT, "url": TEXT, "review_snippets": ARRAY},
        ),
        "speech_metadata": OBJECT,
        "word_info": OBJECT,
    }
)
_FILE = object_of({}, {"data": TEXT, "uri": TEXT, "mime_type": TEXT})
_FILES = dict.fromkeys(("image", "audio", "video", "document"), _FILE)
_TEXT = object_of({"text": TEXT}, {"annotations": array(_ANNOTATION)})

CONTENT = tagged({"text": _TEXT, **_FILES})
"""A content of an answer."""

_SUMMARY = tagged({"text": _TEXT, "image": _FILE})
_RESULT = either(TEXT, ARRAY, OBJECT)
_ARGUMENTS = {"arguments": OBJECT, "signature": TEXT}

# Tools that Google runs, by the type of their results.
_TOOLS = {
    "code_execution": _RESULT,
    "file_search": ARRAY,
    "google_maps": ARRAY,
    "google_search": ARRAY,
    "processing": _RESULT,
    "retrieval": ARRAY,
    "tool_search": _RESULT,
    "url_context": ARRAY,
}
_MCP = {"name": NAME, "server_name": TEXT}

STEPS = {
    "user_input": object_of({}, {"content": array(CONTENT)}),
    "model_output": object_of({}, {"content": array(CONTENT), "error": OBJECT}),
    "thought": object_of({}, {"summary": array(_SUMMARY), "signature": TEXT}),
    "function_call": object_of({"id": NAME, "name": NAME, "arguments": OBJECT}),
    "function_result": object_of(
        {"call_id": NAME, "result": _RESULT}, {"name": TEXT, "is_error": BOOLEAN}
    ),
    "mcp_server_tool_call": object_of({"id": TEXT, **_MCP}, {"arguments": OBJECT}),
    "mcp_server_tool_result": object_of({"call_id": TEXT}, {"result": _RESULT}),
    **{f"{tool}_call": object_of({"id": TEXT}, _ARGUMENTS) for tool in _TOOLS},
    **{
        f"{tool}_result": object_of({"call_id": TEXT}, {"result": result, "is_error": BOOLEAN})
        for tool, result in _TOOLS.items()
    },
}
"""Steps by type."""

DELTAS = {
    "text": object_of({"text": TEXT}),
    "text_annotation_delta": object_of({}, {"annotations": array(_ANNOTATION)}),
    **_FILES,
    "thought_summary": object_of({}, {"content": _SUMMARY}),
    "thought_signature": object_of({}, {"signature": TEXT}),
    "arguments_delta": object_of({}, {"arguments": TEXT}),
    "function_result": object_of({"result": _RESULT}, {"is_error": BOOLEAN}),
    "mcp_server_tool_call": object_of({**_MCP, "arguments": OBJECT}),
    "mcp_server_tool_result": object_of({"result": _RESULT}),
    **{f"{tool}_call": object_of({}, _ARGUMENTS) for tool in _TOOLS},
    **{f"{tool}_result": object_of({}, {"result": result}) for tool, result in _TOOLS.items()},
}
"""Deltas by type."""

_COUNTS = (
    *("total_input_tokens", "total_output_tokens", "total_thought_tokens"),
    "total_tool_use_tokens",
)
_USAGE = object_of(
    {},
    {
        **dict.fromkeys((*_COUNTS, "total_tokens", "total_cached_tokens"), COUNT),
        **dict.fromkeys(
            [f"{what}_by_modality" for what in ("input_tokens", "output_tokens", "cached_tokens")],
            ARRAY,
        ),
    },
)
_INTERACTION = object_of(
    {"id": TEXT, "status": word(*STATUSES)},
    {
        **dict.fromkeys(("model", "agent", "object", "created", "updated"), TEXT),
        "continuation_token": TEXT,
        "service_tier": word("flex", "standard", "priority", "deferred"),
        "steps": array(tagged(STEPS)),
        "usage": _USAGE,
    },
)

_CREATED, _UPDATE, _COMPLETED = (
    *("interaction.created", "interaction.status_update"),
    "interaction.completed",
)
_START, _DELTA, _STOP = "step.start", "step.delta", "step.stop"
_ERROR, _DONE = "error", "done"
EVENTS = {
    _CREATED: object_of({"interaction": _INTERACTION}),
    _UPDATE: object_of({"interaction_id": TEXT, "status": word(*STATUSES)}, {"usage": _USAGE}),
    _START: object_of({"index": COUNT, "step": tagged(STEPS)}),
    _DELTA: object_of(
        {"index": COUNT, "delta": tagged(DELTAS)},
        {"metadata": object_of({}, {"total_usage": _USAGE})},
    ),
    _STOP: object_of({"index": COUNT}, {"usage": _USAGE, "step_usage": _USAGE}),
    _COMPLETED: object_of({"interaction": _INTERACTION}),
    _ERROR: object_of({}, {"error": object_of({}, {"code": TEXT, "message": TEXT})}),
}
"""Events by type."""

_FIRST = "{event} comes first, expected interaction.created"
_LATE = "{event} after interaction.completed, expected done"
_ORDER: OrderTable = {
    "nothing": {
        _CREATED: "running",
        **dict.fromkeys((_UPDATE, _START, _DELTA, _STOP), ("running", _FIRST)),
        _COMPLETED: ("completed", _FIRST),
        _ERROR: "end",
        _DONE: ("end", _FIRST),
    },
    "running": {
        _CREATED: "second interaction.created, expected one",
        _COMPLETED: "completed",
        _ERROR: "end",
        _DONE: ("end", "done before interaction.completed, expected it first"),
    },
    "completed": {
        _DONE: "end",
        ANY: _LATE,
    },
    "end": {ANY: "frame after the end, expected nothing"},
}

# Deltas of each type of step; those of Google's tools have one of its own type.
_OF_OUTPUT = ("text", "text_annotation_delta", *_FILES)
_DELTAS_OF = {
    "model_output": _OF_OUTPUT,
    "thought": ("thought_summary", "thought_signature"),
    "function_call": ("arguments_delta",),
}
_CUT_SHORT = ("incomplete", "budget_exceeded", "requires_continuation")


class InteractionsChecker(Checker):
    """Strict validator of one stream of the Interactions API."""

    def __init__(self) -> None:
        self._order = Order(_ORDER)
        self._steps = StepChecker()
        self._id: str | None = None

    def read(self, frame: Frame) -> Iterator[str]:
        if frame.data == DONE:
            if frame.event != _DONE:
                yield f"[DONE] in an event of {len(frame.event)} characters, expected done"
            yield from self._order.advance(_DONE)
            return
        event, parse_problems = parse_object(frame.data)
        yield from parse_problems
        if event is None:
            return
        kind = event.get("event_type", "")
        if not isinstance(kind, str) or kind not in EVENTS:
            # By its length alone: a type that is wrong may be any text of the payload.
            size = len(kind) if isinstance(kind, str) else 0
            yield f"event_type is unknown in {size} characters, expected one of the protocol"
            return
        if frame.event != kind:
            said = frame.event if frame.event in EVENTS else f"{len(frame.event)} characters"
            yield f"event line says {said}, expected {kind}"
        yield from self._order.advance(kind)
        yield from problems(EVENTS[kind], event, "")
        yield from self._check_event(kind, event)

    def missing(self) -> list[str]:
        match self._order.state:
            case "end":
                return []
            case "completed":
                return ["no done, expected it last"]
            case "nothing":
                return ["no interaction.created, expected it first"]
            case _:
                open_steps = self._steps.report_open("the stream ends")
                return [*open_steps, "no interaction.completed, expected one"]

    def _check_event(self, kind: str, event: dict[str, Any]) -> Iterator[str]:
        match kind:
            case "step.start" | "step.delta" | "step.stop":
                index = event.get("index")
                if is_count(index):
                    yield from self._steps.check(kind, index, event)
            case "interaction.status_update":
                yield from self._check_id(event.get("interaction_id"))
            case _:
                interaction = event.get("interaction")
                if is_object(interaction):
                    yield from self._check_id(interaction.get("id"))
                    yield from self._check_interaction(kind, interaction)

    def _check_id(self, id: object) -> Iterator[str]:
        if isinstance(id, str):
            if id != (id if self._id is None else self._id):
                yield "id of another interaction, expected that of the first event"
            self._id = id

    def _check_interaction(self, kind: str, interaction: dict[str, Any]) -> Iterator[str]:
        status = interaction.get("status")
        if kind != _COMPLETED:
            return
        if status in _RUNNING:
            yield f"status is {status}, expected one of an end"
        yield from self._steps.report_open(kind)
        yield from self._steps.check_message(status)
        yield from _token_problems(interaction.get("usage"))


def _token_problems(usage: object) -> Iterator[str]:
    """Yield a problem if the counts of a usage object do not add up to its total."""
    total = usage.get("total_tokens") if is_object(usage) else None
    if is_object(usage) and is_count(total):
        counts = [count for name in _COUNTS if is_count(count := usage.get(name))]
        if counts and total != sum(counts):
            yield f"usage.total_tokens is {total}, expected {sum(counts)}"


class _CheckedStep(Struct):
    kind: str
    arguments: list[str] = field(default_factory=list)


class StepChecker:
    """Strict validator of the order of steps in one interaction."""

    def __init__(self) -> None:
        self._open: dict[int, _CheckedStep] = {}
        # Open steps whose missing stop has not been reported.
        self._unreported: dict[int, None] = {}
        self._next_index = 0
        self._unanswered: dict[str, None] = {}  # ids of calls without a result
        self._bad_arguments: dict[int, int] = {}  # size by index

    def check(self, event: str, index: int, value: dict[str, Any]) -> Iterator[str]:
        """Yield the problems of a `step.…` event, except wrong field names and types."""
        if event == _START:
            yield from self._start(index, value.get("step"))
        elif (step := self._open.get(index)) is None:
            yield f"{event} of step {index}, expected an open step"
        elif event == _DELTA:
            yield from self._delta(index, step, value.get("delta"))
        else:
            self._stop(index, step)

    def _start(self, index: int, step: object) -> Iterator[str]:
        if index != self._next_index:
            yield f"step {index} starts, expected {self._next_index}"
        yield from self.report_open(_START)
        self._next_index = index + 1
        self._unreported[index] = None
        fields = step if is_object(step) else {}
        kind = fields.get("type")
        self._open[index] = _CheckedStep(kind if isinstance(kind, str) else "")
        if kind == "function_call":
            yield from self._call(index, fields)
        elif kind == "function_result" and isinstance(fields.get("call_id"), str):
            self._unanswered.pop(fields["call_id"], None)

    def _call(self, index: int, fields: dict[str, Any]) -> Iterator[str]:
        id = fields.get("id")
        if isinstance(id, str):
            if id in self._unanswered:
                yield f"id of step {index} is that of another call, expected its own"
            self._unanswered[id] = None
        if is_object(fields.get("arguments")) and fields["arguments"]:
            yield f"arguments in the start of step {index}, expected them in its deltas"

    def _delta(self, index: int, step: _CheckedStep, delta: object) -> Iterator[str]:
        kind = delta.get("type") if is_object(delta) else None
        if not is_object(delta) or not isinstance(kind, str) or kind not in DELTAS:
            return
        if step.kind in STEPS and kind not in _DELTAS_OF.get(step.kind, (step.kind,)):
            yield f"{kind} in step {index}, expected a delta of {step.kind}"
        text = delta.get("arguments")
        if kind == "arguments_delta" and isinstance(text, str):
            step.arguments.append(text)

    def _stop(self, index: int, step: _CheckedStep) -> None:
        del self._open[index]
        self._unreported.pop(index, None)
        text = "".join(step.arguments)
        if text and not holds_object(text):
            self._bad_arguments[index] = len(text)

    def report_open(self, event: str) -> Iterator[str]:
        """Yield a problem for each step that is still open at `event` and not reported yet."""
        for index in self._unreported:
            yield f"{event} while step {index} is open, expected step.stop"
        self._unreported.clear()

    def check_message(self, status: object) -> Iterator[str]:
        """Yield the problems of steps that depend on the final status."""
        for index, size in self._bad_arguments.items():
            # A limit can only cut short the last step.
            if status not in _CUT_SHORT or index != self._next_index - 1:
                found = f"arguments of step {index} in {size} characters are no JSON object"
                yield f"{found}, expected one"
        if status == "completed" and self._unanswered:
            yield "status is completed with a call of the client, expected requires_action"
        if status == "requires_action" and not self._unanswered:
            yield "status is requires_action without a call of the client, expected completed"
