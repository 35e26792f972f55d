"""Strict validator of the UI message stream: order and fields of chunks.

npm `ai` 7.0.173, `src/ui/process-ui-message-stream.ts`, and 6.0.326 (read 2026-11-23):

    stream = start step* finish [DONE] | … error [DONE]
    step   = start-step part* finish-step

Parts of a step interleave by their ids.  The clients up to v6 forget open texts at the end of a
step, and fail at what follows of them, so that each part ends within its step.

The fields are those of `src/ui-message-stream/ui-message-chunks.ts`, the schema by which the client
refuses a whole stream.  A `null` in an optional field is refused, too; fields that the schema does
not name are legal since 5.0.217, 6.0.231 and 7.0.32.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamnorm._core.codec import ANY, DONE, Checker, Order, OrderTable
from streamnorm._core.json import is_object
from streamnorm._core.limits import Limits
from streamnorm._core.shapes import (
    ANYTHING,
    BOOLEAN,
    OBJECT,
    TEXT,
    Shape,
    array,
    found,
    object_of,
    parse_object,
    problems,
    word,
)
from streamnorm.sse import Frame


def _objects(value: dict[str, object], where: str) -> Iterator[str]:
    for item in value.values():
        if not is_object(item):
            # The key is the name of a provider, or any text.
            yield f"{where} has {found(item)}, expected an object for each provider"


_METADATA = {"providerMetadata": Shape("an object", is_object, _objects)}
_ID = {"id": TEXT}
_CALL = {"toolCallId": TEXT, "toolName": TEXT}
_CALL_OPTIONS = {
    "providerExecuted": BOOLEAN,
    "dynamic": BOOLEAN,
    "title": TEXT,
    "toolMetadata": OBJECT,
    **_METADATA,
}
_RESULT_OPTIONS = {
    "providerExecuted": BOOLEAN,
    "dynamic": BOOLEAN,
    "preliminary": BOOLEAN,
    "toolMetadata": OBJECT,
    **_METADATA,
}
_EMPTY = object_of({})
_FILE = object_of({"url": TEXT, "mediaType": TEXT}, _METADATA)
_MESSAGE_METADATA = {"messageMetadata": ANYTHING}

DATA = object_of({"data": ANYTHING}, {"id": TEXT, "transient": BOOLEAN})
"""A chunk of the application: `data-` and its name."""

CHUNKS: dict[str, Shape] = {
    "start": object_of({}, {"messageId": TEXT, **_MESSAGE_METADATA}),
    **dict.fromkeys(("start-step", "finish-step", "reset-step"), _EMPTY),
    **dict.fromkeys(("text-start", "text-end"), object_of(_ID, _METADATA)),
    **dict.fromkeys(("reasoning-start", "reasoning-end"), object_of(_ID, _METADATA)),
    **dict.fromkeys(
        ("text-delta", "reasoning-delta"), object_of({**_ID, "delta": TEXT}, _METADATA)
    ),
    "tool-input-start": object_of(_CALL, {**_CALL_OPTIONS, "inputEncoding": word("json", "text")}),
    "tool-input-delta": object_of({"toolCallId": TEXT, "inputTextDelta": TEXT}),
    "tool-input-available": object_of({**_CALL, "input": ANYTHING}, _CALL_OPTIONS),
    "tool-input-error": object_of({**_CALL, "input": ANYTHING, "errorText": TEXT}, _CALL_OPTIONS),
    "tool-output-available": object_of({"toolCallId": TEXT, "output": ANYTHING}, _RESULT_OPTIONS),
    "tool-output-error": object_of({"toolCallId": TEXT, "errorText": TEXT}, _RESULT_OPTIONS),
    "tool-output-denied": object_of({"toolCallId": TEXT}),
    "tool-approval-request": object_of({"approvalId": TEXT, "toolCallId": TEXT}),
    "tool-approval-response": object_of(
        {"approvalId": TEXT, "approved": BOOLEAN}, {"reason": TEXT, **_METADATA}
    ),
    "source-url": object_of({"sourceId": TEXT, "url": TEXT}, {"title": TEXT, **_METADATA}),
    "source-document": object_of(
        {"sourceId": TEXT, "mediaType": TEXT, "title": TEXT}, {"filename": TEXT, **_METADATA}
    ),
    **dict.fromkeys(("file", "reasoning-file"), _FILE),
    "custom": object_of({"kind": TEXT}, _METADATA),
    "message-metadata": object_of(_MESSAGE_METADATA),
    "steering-message": object_of({"id": TEXT, "parts": array(OBJECT)}),
    "error": object_of({"errorText": TEXT}),
    "abort": object_of({}, {"reason": TEXT}),
    "finish": object_of(
        {},
        {
            "finishReason": word(
                *("stop", "length", "content-filter", "tool-calls", "error", "other"),
                "interrupted",
            ),
            **_MESSAGE_METADATA,
        },
    ),
}


_ENDS = {"finish": "finished", "error": "failed", "abort": "failed"}
_LATE = "{event} after the end of the message, expected [DONE]"
_ORDER: OrderTable = {
    "nothing": {
        "start": "message",
        "error": "failed",
        "start-step": ("step", "{event} comes first, expected start"),
        ANY: ("message", "{event} comes first, expected start"),
    },
    "message": {
        **_ENDS,
        "start": "second start, expected one",
        "start-step": "step",
        "finish-step": "{event} of no step, expected start-step",
    },
    "step": {
        **_ENDS,
        "finish": ("finished", "{event} within a step, expected finish-step"),
        "start": "second start, expected one",
        "start-step": "second start-step, expected finish-step",
        "finish-step": "message",
    },
    "finished": {DONE: "end", ANY: _LATE},
    "failed": {DONE: "end", ANY: _LATE},
    "end": {ANY: "frame after [DONE], expected nothing"},
}


_MAX_IDS = Limits().max_blocks


class UIMessageChecker(Checker):
    """Strict validator of one UI message stream."""

    def __init__(self) -> None:
        self._order = Order(_ORDER)
        self._open: dict[tuple[str, str], None] = {}
        self._open_calls: dict[str, None] = {}  # calls whose input is still open
        self._call_steps: dict[str, int] = {}  # step of the last call of each id
        self._step = 0

    def read(self, frame: Frame) -> Iterator[str]:
        if frame.data.startswith(DONE):
            if self._order.state not in ("finished", "failed"):
                yield "[DONE] before the end of the message, expected finish or error"
            self._order.state = "end"
            return
        chunk, parse_problems = parse_object(frame.data)
        yield from parse_problems
        if chunk is None:
            return
        kind = chunk.get("type")
        shape = DATA if isinstance(kind, str) and kind.startswith("data-") else None
        if not isinstance(kind, str) or (shape := shape or CHUNKS.get(kind)) is None:
            # By no text of its own: a type that is wrong may be any text of the payload.
            yield "type is unknown, expected one of the protocol"
            return
        yield from self._order.advance("data" if shape is DATA else kind)
        found = list(problems(shape, chunk, ""))
        yield from found
        if not found and self._is_followed():
            yield from self._check_part(kind, chunk)
            if not self._is_followed():
                yield f"more than {_MAX_IDS} parts and calls, expected at most that"

    def missing(self) -> list[str]:
        match self._order.state:
            case "end":
                return []
            case "finished" | "failed":
                return ["no [DONE], expected it last"]
            case "nothing":
                return ["no start, expected it first"]
            case _:
                return ["no finish, expected one"]

    def _is_followed(self) -> bool:
        """Return whether few enough ids are stored for further checks of parts."""
        return len(self._open) + len(self._call_steps) <= _MAX_IDS

    def _check_part(self, kind: str, chunk: dict[str, Any]) -> Iterator[str]:
        family, _, action = kind.rpartition("-")
        if family in ("text", "reasoning"):
            yield from self._check_text(family, action, chunk["id"])
        elif kind.startswith("tool-input-"):
            yield from self._check_input(action, chunk["toolCallId"])
        elif kind.startswith("tool-output-"):
            if chunk["toolCallId"] not in self._call_steps:
                yield f"{kind} of an unknown call, expected its input before it"
            # The client shows the call as answered, with the input that has arrived.
            self._open_calls.pop(chunk["toolCallId"], None)
        elif kind in ("finish-step", "finish"):
            for part, _ in self._open:
                yield f"{kind} while a part of {part} is open, expected {part}-end"
            self._open.clear()
            for _ in self._open_calls:
                # The page shows such a call for ever as one that is being written.
                yield f"{kind} while the input of a call is open, expected tool-input-available"
            self._open_calls.clear()
            self._step += 1

    def _check_text(self, family: str, action: str, id: str) -> Iterator[str]:
        key = family, id
        if action == "start":
            if key in self._open:
                yield f"{family}-start of an open id, expected another id"
            self._open[key] = None
        elif key not in self._open:
            yield f"{family}-{action} of no open id, expected {family}-start"
        elif action == "end":
            del self._open[key]

    def _check_input(self, action: str, id: str) -> Iterator[str]:
        is_open = id in self._open_calls
        if action == "delta":
            if not is_open:
                yield "tool-input-delta of no open call, expected tool-input-start"
            return
        if action == "start":
            self._open_calls[id] = None
        else:
            self._open_calls.pop(id, None)
        # The second call would overwrite the input of the first; in a later step it is one more.
        if (action == "start" or not is_open) and self._call_steps.get(id) == self._step:
            yield "second call of one id in a step, expected another id"
        self._call_steps[id] = self._step
