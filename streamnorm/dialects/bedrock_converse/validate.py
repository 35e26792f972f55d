"""Strict validator of `ConverseStream`: order and fields of events.

botocore 1.44.5, `bedrock-runtime/2023-09-30/service-2.json`, and the order in 93 recordings (read
2026-11-23):

    stream  = messageStart block* messageStop metadata | … exception
    block k = [contentBlockStart(k)] contentBlockDelta(k)* contentBlockStop(k)

Text, reasoning and citations have no start; a tool, its result and an image have one.  Blocks
come one after the other, and their indexes rise, with gaps where Nova leaves them.  The model
names no event of another type, and boto3 drops such.

Input may be incomplete JSON if the stop reason explains it, and no input stands for `{}`.

Additional fields are legal, as the padding `p`.  A union has exactly one member, and one of the
model: boto3 raises at two, and drops one that it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from streamnorm._core.codec import ANY, Checker, Order, OrderTable
from streamnorm._core.codec.event_messages import CONVERSE_EXCEPTIONS
from streamnorm._core.json import is_object
from streamnorm._core.shapes import (
    ANYTHING,
    COUNT,
    NAME,
    OBJECT,
    TEXT,
    Shape,
    array,
    holds_object,
    is_count,
    object_of,
    parse_object,
    problems,
    word,
)
from streamnorm.dialects.bedrock_converse import wire
from streamnorm.sse import Frame


def union_of(members: Mapping[str, Shape]) -> Shape:
    """Return the shape of an object with exactly one of several members."""

    def inside(value: dict[str, object], where: str) -> Iterator[str]:
        if len(value) != 1:
            yield f"{where} has {len(value)} members, expected one"
            return
        ((name, member),) = value.items()
        if name not in members:
            # By its length alone: a name that is wrong may be any text of the payload.
            yield f"{where} is unknown in {len(name)} characters, expected a member of the union"
        else:
            yield from problems(members[name], member, f"{where}.{name}")

    return Shape("an object", is_object, inside)


_RANGE = {"start": COUNT, "end": COUNT}
_LOCATION = union_of(
    {
        "web": object_of({}, {"url": TEXT, "domain": TEXT}),
        **dict.fromkeys(
            ("documentChar", "documentPage", "documentChunk"),
            object_of({}, {"documentIndex": COUNT, **_RANGE}),
        ),
        "searchResultLocation": object_of({}, {"searchResultIndex": COUNT, **_RANGE}),
    }
)
_CITATION = object_of(
    {},
    {
        "title": TEXT,
        "source": TEXT,
        "sourceContent": array(object_of({}, {"text": TEXT})),
        "location": _LOCATION,
    },
)
_SOURCE = union_of({"bytes": TEXT, "s3Location": object_of({"uri": TEXT})})

START = union_of(
    {
        "toolUse": object_of({"toolUseId": NAME, "name": NAME}, {"type": TEXT}),
        "toolResult": object_of(
            {"toolUseId": NAME}, {"type": TEXT, "status": word("success", "error")}
        ),
        "image": object_of({"format": word("png", "jpeg", "gif", "webp")}),
    }
)
"""What a `contentBlockStart` begins."""

DELTAS: dict[str, Shape] = {
    "text": TEXT,
    "toolUse": object_of({"input": TEXT}),
    "toolResult": array(union_of({"text": TEXT, "json": ANYTHING})),
    "reasoningContent": union_of({"text": TEXT, "signature": TEXT, "redactedContent": TEXT}),
    "citation": _CITATION,
    "image": object_of({}, {"source": _SOURCE, "error": object_of({}, {"message": TEXT})}),
}
"""Members of a `delta`."""

_USAGE = object_of(
    {"inputTokens": COUNT, "outputTokens": COUNT, "totalTokens": COUNT},
    {
        "cacheReadInputTokens": COUNT,
        "cacheWriteInputTokens": COUNT,
        "cacheDetails": array(object_of({"ttl": TEXT, "inputTokens": COUNT})),
    },
)

STOP_REASONS = (
    *("end_turn", "tool_use", "max_tokens", "stop_sequence", "guardrail_intervened"),
    *("content_filtered", "malformed_model_output", "malformed_tool_use"),
    "model_context_window_exceeded",
)

EVENTS = {
    wire.MESSAGE_START: object_of({"role": word("assistant")}),
    wire.BLOCK_START: object_of({wire.INDEX: COUNT, "start": START}),
    wire.BLOCK_DELTA: object_of({wire.INDEX: COUNT, "delta": union_of(DELTAS)}),
    wire.BLOCK_STOP: object_of({wire.INDEX: COUNT}),
    wire.MESSAGE_STOP: object_of({"stopReason": word(*STOP_REASONS)}),
    wire.METADATA: object_of(
        {"usage": _USAGE, "metrics": object_of({"latencyMs": COUNT})},
        {
            "trace": OBJECT,
            "performanceConfig": object_of({"latency": TEXT}),
            "serviceTier": object_of({"type": word("priority", "default", "flex", "reserved")}),
        },
    ),
}
"""Events by name."""


_BLOCK_EVENTS = (wire.BLOCK_START, wire.BLOCK_DELTA, wire.BLOCK_STOP)
_FIRST = "{event} comes first, expected messageStart"
_SECOND = "second messageStart, expected one"
_LATE = "{event} after messageStop, expected metadata"
_EXCEPTION = "exception"
_ORDER: OrderTable = {
    "nothing": {
        wire.MESSAGE_START: "message",
        **dict.fromkeys(_BLOCK_EVENTS, ("message", _FIRST)),
        wire.MESSAGE_STOP: ("stopped", _FIRST),
        wire.METADATA: ("message", _FIRST),
        _EXCEPTION: _EXCEPTION,
    },
    "message": {
        wire.MESSAGE_START: _SECOND,
        wire.MESSAGE_STOP: "stopped",
        wire.METADATA: ("counted", "metadata before messageStop, expected it last"),
        _EXCEPTION: _EXCEPTION,
    },
    # The position of the tokens was reported.
    "counted": {wire.MESSAGE_START: _SECOND, wire.MESSAGE_STOP: "end", _EXCEPTION: _EXCEPTION},
    "stopped": {
        **dict.fromkeys((wire.MESSAGE_START, *_BLOCK_EVENTS, wire.MESSAGE_STOP), _LATE),
        wire.METADATA: "end",
        _EXCEPTION: _EXCEPTION,
    },
    "end": {ANY: "frame after metadata, expected nothing"},
    _EXCEPTION: {ANY: "frame after an exception, expected nothing"},
}
_DELTAS_OF = {
    "text": ("text", "citation"),
    "citation": ("text", "citation"),
    "reasoningContent": ("reasoningContent",),
    "toolUse": ("toolUse",),
    "toolResult": ("toolResult",),
    "image": ("image",),
}
_STARTED = ("toolUse", "toolResult", "image")
_CUT_SHORT = ("max_tokens", "model_context_window_exceeded", "malformed_tool_use")
_REFUSED = ("guardrail_intervened", "content_filtered")
_TOOL_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")


class ConverseChecker(Checker):
    """Strict validator of one `ConverseStream`."""

    def __init__(self) -> None:
        self._blocks = BlockChecker()
        self._order = Order(_ORDER)

    def read(self, frame: Frame) -> Iterator[str]:
        name = frame.event
        if name in CONVERSE_EXCEPTIONS:
            yield from self._order.advance(_EXCEPTION)
            return
        if name not in EVENTS:
            # By its length alone: a name that is wrong may be any text of the payload.
            yield f"event is unknown in {len(name)} characters, expected one of the protocol"
            return
        yield from self._order.advance(name)
        event, parse_problems = parse_object(frame.data)
        yield from parse_problems
        if event is not None:
            yield from problems(EVENTS[name], event, "")
            yield from self._check_event(name, event)

    def missing(self) -> list[str]:
        match self._order.state:
            case "end" | "exception":
                return []
            case "stopped":
                return ["no metadata, expected it last"]
            case "nothing":
                return ["no messageStart, expected it first"]
            case state:
                missing = list(self._blocks.report_open("the stream ends"))
                tokens = [] if state == "counted" else ["no metadata, expected it last"]
                return [*missing, "no messageStop, expected one", *tokens]

    def _check_event(self, name: str, event: dict[str, Any]) -> Iterator[str]:
        index = event.get(wire.INDEX)
        if name == wire.MESSAGE_STOP:
            yield from self._blocks.report_open(name)
            yield from self._blocks.check_message(event.get("stopReason"))
        elif name in _BLOCK_EVENTS and is_count(index):
            if name == wire.BLOCK_START:
                yield from self._blocks.check_start(index, event.get("start"))
            elif name == wire.BLOCK_DELTA:
                yield from self._blocks.check_delta(index, event.get("delta"))
            else:
                yield from self._blocks.check_stop(index)


class _CheckedBlock(Struct):
    kind: str
    position: int  # in the order of starts
    input: list[str] = field(default_factory=list)
    is_signed: bool = False


class BlockChecker:
    """Strict validator of the blocks of one message."""

    def __init__(self) -> None:
        self._count = 0  # number of blocks
        self._client_tools = 0
        self._next_index = 0
        self._open: dict[int, _CheckedBlock] = {}
        # Open blocks whose missing stop has not been reported.
        self._unreported: dict[int, None] = {}
        self._ids_of: set[str] = set()
        self._bad_inputs: dict[int, tuple[int, int]] = {}  # position and size, by index

    def check_start(self, index: int, start: object) -> Iterator[str]:
        """Yield the problems of a `contentBlockStart` that a check of fields does not find."""
        kind = _member(start)
        yield from self._begin(index, kind, wire.BLOCK_START)
        call = start.get(kind) if is_object(start) else None
        if kind != "toolUse" or not is_object(call):
            return
        self._client_tools += call.get("type") != "server_tool_use"
        id = call.get("toolUseId")
        if not isinstance(id, str) or not id:
            return
        if not _TOOL_ID.fullmatch(id):
            yield f"id of block {index} in {len(id)} characters, expected at most 64 of its pattern"
        if id in self._ids_of:
            yield f"id of block {index} is that of another, expected its own"
        self._ids_of.add(id)

    def check_delta(self, index: int, delta: object) -> Iterator[str]:
        """Yield the problems of a `contentBlockDelta` that a check of fields does not find."""
        member = _member(delta)
        if not is_object(delta) or member not in DELTAS:
            return
        block = self._open.get(index)
        if block is None:
            yield from self._begin(index, member, wire.BLOCK_DELTA)
            if member in _STARTED:
                yield f"{member} in block {index} without a start, expected contentBlockStart"
            block = self._open[index]
        elif block.kind in _DELTAS_OF and member not in _DELTAS_OF[block.kind]:
            yield f"{member} in block {index}, expected a delta of {block.kind}"
            return
        if block.is_signed:
            yield f"{member} of block {index} after its signature, expected contentBlockStop"
        value = delta[member]
        if member == "reasoningContent" and is_object(value):
            block.is_signed = block.is_signed or "signature" in value
        if member == "toolUse" and is_object(value) and isinstance(value.get("input"), str):
            block.input.append(value["input"])

    def check_stop(self, index: int) -> Iterator[str]:
        """Yield the problems of a `contentBlockStop` and of its block's input."""
        block = self._open.pop(index, None)
        self._unreported.pop(index, None)
        if block is None:
            yield f"contentBlockStop of block {index}, expected an open block"
            return
        text = "".join(block.input)
        if text and not holds_object(text):
            self._bad_inputs[index] = (block.position, len(text))

    def report_open(self, event: str) -> Iterator[str]:
        """Yield each block that should have stopped before `event`, once."""
        for index in self._unreported:
            yield f"{event} while block {index} is open, expected contentBlockStop"
        self._unreported.clear()

    def check_message(self, stop_reason: object) -> Iterator[str]:
        """Yield the block problems that can be judged only at the end of the message."""
        for index, (position, size) in self._bad_inputs.items():
            # A limit or a refusal can only cut short the last block.
            if stop_reason not in (*_CUT_SHORT, *_REFUSED) or position != self._count - 1:
                yield f"input of block {index} in {size} characters is no JSON object, expected one"
        if stop_reason == "end_turn" and self._client_tools:
            yield "stopReason is end_turn with a toolUse of the client, expected tool_use"

    def _begin(self, index: int, kind: str, event: str) -> Iterator[str]:
        if index < self._next_index:
            yield f"block {index} begins, expected at least {self._next_index}"
        yield from self.report_open(event)
        self._open[index] = _CheckedBlock(kind, self._count)
        self._unreported[index] = None
        self._count += 1
        self._next_index = max(self._next_index, index + 1)


def _member(union: object) -> str:
    """Return the name of a union's only member; "" for other values."""
    return next(iter(union)) if is_object(union) and len(union) == 1 else ""
