"""Strict validator of the UI message stream: the order of chunks, and their fields.

npm `ai` 7.0.173, `src/ui/process-ui-message-stream.ts`, and 6.0.326 (read 2026-11-23):

    stream = start step* finish [DONE] | … error [DONE]
    step   = start-step part* finish-step

Parts of a step interleave by their ids.  The clients up to v6 forget open texts at the end of a
step, and fail at what follows of them, so that each part ends within its step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamnorm._core.codec import ANY, DONE, Checker, Order, OrderTable
from streamnorm._core.shapes import parse_object, problems
from streamnorm.dialects.ui_message_stream.validate.shapes import CHUNKS, DATA
from streamnorm.sse import Frame

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


class UIMessageChecker(Checker):
    """Strict validator of one UI message stream."""

    def __init__(self) -> None:
        self._order = Order(_ORDER)
        self._open: dict[tuple[str, str], None] = {}
        self._calls: dict[str, bool] = {}  # whether the input of a call is still open

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
        if not found:
            yield from self._check_part(kind, chunk)

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

    def _check_part(self, kind: str, chunk: dict[str, Any]) -> Iterator[str]:
        family, _, action = kind.rpartition("-")
        if family in ("text", "reasoning"):
            yield from self._check_text(family, action, chunk["id"])
        elif kind.startswith("tool-input-"):
            yield from self._check_input(action, chunk["toolCallId"])
        elif kind.startswith("tool-output-") and chunk["toolCallId"] not in self._calls:
            yield f"{kind} of an unknown call, expected its input before it"
        elif kind in ("finish-step", "finish"):
            for part, _ in self._open:
                yield f"{kind} while a part of {part} is open, expected {part}-end"
            self._open.clear()
            yield from self._end_calls(kind)

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
        is_open = self._calls.get(id)
        if action == "start":
            if is_open:
                yield "tool-input-start of an open call, expected another id"
            self._calls[id] = True
        elif action == "delta":
            if not is_open:
                yield "tool-input-delta of no open call, expected tool-input-start"
        else:
            self._calls[id] = False

    def _end_calls(self, kind: str) -> Iterator[str]:
        for id, is_open in self._calls.items():
            if is_open:
                # The page shows such a call for ever as one that is being written.
                yield f"{kind} while the input of a call is open, expected tool-input-available"
                self._calls[id] = False
