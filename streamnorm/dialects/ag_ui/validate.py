"""Strict validator of AG-UI streams: order and fields of events.

`@ag-ui/client` 1.0.0 (read 2026-11-27), `src/verify/verify.ts` and `src/chunks/transform.ts`:

    stream = run+, or RUN_ERROR alone
    run    = RUN_STARTED event* RUN_FINISHED | RUN_STARTED event* RUN_ERROR

Messages, calls and spans overlap by their ids, and all of them end before `RUN_FINISHED`, never
before `RUN_ERROR`.  A chunk stands for a start, a content and an end: it opens a lane, one for the
agent and one for each subagent, which the next event of the same agent closes.

The fields are those of `@ag-ui/core` 1.0.0, `src/generated/schemas.ts`.  Fields that it does not
name are legal: the client removes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from streamnorm._core.codec import ANY, Checker, Order, OrderTable
from streamnorm._core.json import is_object
from streamnorm._core.shapes import (
    ANYTHING,
    BOOLEAN,
    COUNT,
    OBJECT,
    TEXT,
    Shape,
    array,
    nullable,
    object_of,
    parse_object,
    problems,
    word,
)
from streamnorm.dialects.ag_ui import wire
from streamnorm.sse import Frame

# Fields


def tagged(field: str, shapes: dict[str, Shape]) -> Shape:
    """Return the shape of an object whose `field` selects one of `shapes`."""
    tag = word(*shapes)

    def inside(value: dict[str, object], where: str) -> Iterator[str]:
        found_tag = value.get(field)
        yield from problems(tag, found_tag, f"{where}.{field}")
        if isinstance(found_tag, str) and found_tag in shapes:
            yield from problems(shapes[found_tag], value, where)

    return Shape("an object", is_object, inside)


def text_or(shape: Shape) -> Shape:
    """Return the shape of a value that is a string or fits `shape`."""

    def inside(value: object, where: str) -> Iterator[str]:
        if not isinstance(value, str):
            yield from problems(shape, value, where)

    expected = f"a string or {shape.expected}"
    return Shape(expected, lambda value: isinstance(value, str) or shape.fits(value), inside)


_PRESENT = Shape("anything but null", lambda value: value is not None)
_NUMBER = Shape("an integer", lambda value: isinstance(value, int) and not isinstance(value, bool))
# The client reads a null in these fields as an absent one, for the sake of older servers
# (`src/middleware/compatibility-boundary.ts`); in any other optional field it ends the run.
_BASE = {"timestamp": _NUMBER, "rawEvent": ANYTHING, "metadata": OBJECT}
_OPTIONAL = {**_BASE, "subagentRunId": TEXT}

_SOURCE = tagged(
    "type",
    {
        "data": object_of({"value": TEXT, "mimeType": TEXT}),
        "url": object_of({"value": TEXT}, {"mimeType": TEXT}),
        "file": object_of({"value": TEXT}, {"provider": TEXT, "mimeType": TEXT}),
    },
)
_MEDIA = object_of({"source": _SOURCE}, {"id": TEXT, "metadata": ANYTHING})
_PART = tagged(
    "type",
    {
        "text": object_of({"text": TEXT}, {"id": TEXT, "metadata": _PRESENT}),
        **dict.fromkeys(("image", "audio", "video", "document"), _MEDIA),
        # The client reads what servers before 1.0 send as one of the others.
        "binary": OBJECT,
    },
)
_CONTENT = text_or(array(_PART))
_OPERATION = tagged(
    "op",
    {
        **dict.fromkeys(("add", "replace", "test"), object_of({"path": TEXT, "value": ANYTHING})),
        "remove": object_of({"path": TEXT}),
        **dict.fromkeys(("move", "copy"), object_of({"path": TEXT, "from": TEXT})),
    },
)
_PATCH = array(_OPERATION)
_CALL = object_of(
    {
        "id": TEXT,
        "type": word("function"),
        "function": object_of({"name": TEXT, "arguments": TEXT}),
    },
    {"encryptedValue": TEXT, "metadata": OBJECT},
)
_OF_MESSAGE = {
    "name": TEXT,
    "encryptedValue": TEXT,
    "metadata": OBJECT,
    "subagentRunId": TEXT,
}
_MESSAGE = tagged(
    "role",
    {
        **dict.fromkeys(
            ("developer", "system", "reasoning"),
            object_of({"id": TEXT, "content": TEXT}, _OF_MESSAGE),
        ),
        "assistant": object_of(
            {"id": TEXT}, {"content": TEXT, "toolCalls": array(_CALL), **_OF_MESSAGE}
        ),
        "user": object_of({"id": TEXT, "content": _CONTENT}, _OF_MESSAGE),
        "tool": object_of(
            {"id": TEXT, "content": _CONTENT, "toolCallId": TEXT}, {"error": TEXT, **_OF_MESSAGE}
        ),
        "activity": object_of({"id": TEXT, "activityType": TEXT, "content": OBJECT}, _OF_MESSAGE),
    },
)
_INPUT = object_of(
    {"threadId": TEXT, "runId": TEXT, "messages": array(_MESSAGE)},
    {"protocolVersion": TEXT, "parentRunId": TEXT},
)
_INTERRUPT = object_of(
    {"id": TEXT, "reason": TEXT},
    {
        **dict.fromkeys(("message", "toolCallId", "expiresAt", "subagentRunId"), TEXT),
        "responseSchema": OBJECT,
        "metadata": OBJECT,
    },
)


def _some(value: list[object], where: str) -> Iterator[str]:
    if not value:
        yield f"{where} is empty, expected an interrupt"
    yield from problems(array(_INTERRUPT), value, where)


_OUTCOME = tagged(
    "type",
    {
        "success": object_of({}, {"pendingToolCallIds": array(TEXT)}),
        "interrupt": object_of({"interrupts": Shape("an array", array(TEXT).fits, _some)}),
        "cancelled": OBJECT,
    },
)
_COUNTS = ("inputTokens", "outputTokens", "totalTokens", "reasoningTokens")
# JavaScript has no larger integers.
_SAFE = Shape(
    "an integer from 0 to 2**53 - 1",
    lambda value: COUNT.fits(value) and isinstance(value, int) and value < 2**53,
)
_USAGE = array(
    object_of(
        {},
        {
            "provider": TEXT,
            "model": TEXT,
            **dict.fromkeys((*_COUNTS, "cachedInputTokens", "cacheWriteInputTokens"), _SAFE),
        },
    )
)
_ROLE = word("developer", "system", "assistant", "user")
_MESSAGE_ID, _CALL_ID = {"messageId": TEXT}, {"toolCallId": TEXT}
_DELTA = {"delta": TEXT}
_SUBAGENT = {"subagentRunId": TEXT}
_PARENT = {"parentMessageId": nullable(TEXT)}
_RUN = {"threadId": TEXT, "runId": TEXT}

EVENTS: dict[str, Shape] = {
    wire.RUN_STARTED: object_of(
        _RUN, {**_BASE, "protocolVersion": TEXT, "parentRunId": TEXT, "input": _INPUT}
    ),
    wire.RUN_FINISHED: object_of(
        _RUN, {**_BASE, "result": ANYTHING, "outcome": nullable(_OUTCOME), "usage": _USAGE}
    ),
    wire.RUN_ERROR: object_of({"message": TEXT}, {**_BASE, "code": TEXT, "usage": _USAGE}),
    wire.TEXT_START: object_of(_MESSAGE_ID, {**_OPTIONAL, "role": _ROLE, "name": TEXT}),
    wire.TEXT_CONTENT: object_of({**_MESSAGE_ID, **_DELTA}, _OPTIONAL),
    wire.TEXT_END: object_of(_MESSAGE_ID, _OPTIONAL),
    wire.TEXT_CHUNK: object_of(
        {}, {**_OPTIONAL, **_MESSAGE_ID, **_DELTA, "role": _ROLE, "name": TEXT}
    ),
    wire.CALL_START: object_of({**_CALL_ID, "toolCallName": TEXT}, {**_OPTIONAL, **_PARENT}),
    wire.CALL_ARGS: object_of({**_CALL_ID, **_DELTA}, _OPTIONAL),
    wire.CALL_END: object_of(_CALL_ID, _OPTIONAL),
    wire.CALL_CHUNK: object_of(
        {}, {**_OPTIONAL, **_CALL_ID, **_DELTA, "toolCallName": TEXT, **_PARENT}
    ),
    wire.CALL_RESULT: object_of(
        {**_MESSAGE_ID, **_CALL_ID, "content": _CONTENT}, {**_OPTIONAL, "role": word("tool")}
    ),
    wire.SPAN_START: object_of(_MESSAGE_ID, _OPTIONAL),
    wire.SPAN_END: object_of(_MESSAGE_ID, _OPTIONAL),
    wire.REASONING_START: object_of({**_MESSAGE_ID, "role": word("reasoning")}, _OPTIONAL),
    wire.REASONING_CONTENT: object_of({**_MESSAGE_ID, **_DELTA}, _OPTIONAL),
    wire.REASONING_END: object_of(_MESSAGE_ID, _OPTIONAL),
    wire.REASONING_CHUNK: object_of({}, {**_OPTIONAL, **_MESSAGE_ID, **_DELTA}),
    wire.ENCRYPTED_VALUE: object_of(
        {"subtype": word("tool-call", "message"), "entityId": TEXT, "encryptedValue": TEXT},
        _OPTIONAL,
    ),
    "STEP_STARTED": object_of({"stepName": TEXT}, _OPTIONAL),
    "STEP_FINISHED": object_of({"stepName": TEXT}, _OPTIONAL),
    "STATE_SNAPSHOT": object_of({"snapshot": ANYTHING}, _OPTIONAL),
    "STATE_DELTA": object_of({"delta": _PATCH}, _OPTIONAL),
    "MESSAGES_SNAPSHOT": object_of({"messages": array(_MESSAGE)}, _BASE),
    "ACTIVITY_SNAPSHOT": object_of(
        {**_MESSAGE_ID, "activityType": TEXT, "content": OBJECT}, {**_OPTIONAL, "replace": BOOLEAN}
    ),
    "ACTIVITY_DELTA": object_of({**_MESSAGE_ID, "activityType": TEXT, "patch": _PATCH}, _OPTIONAL),
    "RAW": object_of({"event": ANYTHING}, {**_OPTIONAL, "source": TEXT}),
    "CUSTOM": object_of({"name": TEXT, "value": ANYTHING}, _OPTIONAL),
    "SUBAGENT_STARTED": object_of(
        {**_SUBAGENT, "name": TEXT},
        {
            **_BASE,
            **dict.fromkeys(("description", "parentSubagentRunId"), TEXT),
            **dict.fromkeys(("parentToolCallId", "parentMessageId"), TEXT),
        },
    ),
    "SUBAGENT_FINISHED": object_of(
        _SUBAGENT,
        {
            **_BASE,
            "result": ANYTHING,
            "outcome": tagged(
                "type",
                {"success": OBJECT, "suspended": object_of({}, {"interruptIds": array(TEXT)})},
            ),
        },
    ),
    "SUBAGENT_ERROR": object_of({**_SUBAGENT, "message": TEXT}, {**_BASE, "code": TEXT}),
}

# Order

_ORDER: OrderTable = {
    "nothing": {
        wire.RUN_STARTED: "run",
        wire.RUN_ERROR: "failed",
        ANY: ("run", "{event} comes first, expected RUN_STARTED"),
    },
    "run": {
        wire.RUN_STARTED: "RUN_STARTED within a run, expected RUN_FINISHED before it",
        wire.RUN_FINISHED: "finished",
        wire.RUN_ERROR: "failed",
    },
    "finished": {
        wire.RUN_STARTED: "run",
        wire.RUN_ERROR: "failed",
        ANY: "{event} after RUN_FINISHED, expected RUN_STARTED",
    },
    "failed": {wire.RUN_STARTED: "run", ANY: "{event} after RUN_ERROR, expected RUN_STARTED"},
}

_TEXT, _CALL_KIND, _REASONING = "text message", "tool call", "reasoning message"
_SPAN, _STEP, _SUBAGENT_KIND = "reasoning span", "step", "subagent"


class _Bracket(Struct, frozen=True):
    """Effect of an event (start, content or end), and the kind of object that it affects.

    Attributes:
        kind: What it is.
        key: Field of its id.
        start: The event that opens it.
        action: `start`, `content` or `end`.
    """

    kind: str
    key: str
    start: str
    action: str


_BRACKETS: dict[str, _Bracket] = {
    name: _Bracket(kind, key, names[0], action)
    for kind, key, names in (
        (_TEXT, "messageId", (wire.TEXT_START, wire.TEXT_CONTENT, wire.TEXT_END)),
        (_CALL_KIND, "toolCallId", (wire.CALL_START, wire.CALL_ARGS, wire.CALL_END)),
        (
            *(_REASONING, "messageId"),
            (wire.REASONING_START, wire.REASONING_CONTENT, wire.REASONING_END),
        ),
        (_SPAN, "messageId", (wire.SPAN_START, "", wire.SPAN_END)),
        (_STEP, "stepName", ("STEP_STARTED", "", "STEP_FINISHED")),
        (_SUBAGENT_KIND, "subagentRunId", ("SUBAGENT_STARTED", "", "SUBAGENT_FINISHED")),
        (_SUBAGENT_KIND, "subagentRunId", ("SUBAGENT_STARTED", "", "SUBAGENT_ERROR")),
    )
    for name, action in zip(names, ("start", "content", "end"), strict=True)
    if name
}
_CHUNKS = {
    wire.TEXT_CHUNK: (_BRACKETS[wire.TEXT_START], ("role", "name")),
    wire.CALL_CHUNK: (_BRACKETS[wire.CALL_START], ("toolCallName", "parentMessageId")),
    wire.REASONING_CHUNK: (_BRACKETS[wire.REASONING_START], ()),
}
_KEEP_LANES = frozenset(
    {"RAW", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA", wire.ENCRYPTED_VALUE, "SUBAGENT_STARTED"}
)
_CLOSE_LANES = frozenset({wire.RUN_STARTED, wire.RUN_FINISHED, wire.RUN_ERROR, "MESSAGES_SNAPSHOT"})


class _Lane(Struct):
    """The message, call or span that one agent's chunks have opened."""

    bracket: _Bracket
    id: str
    first: dict[str, Any]


class AGUIChecker(Checker):
    """Strict validator of one AG-UI stream."""

    # `src/transform/sse.ts` splits at LF LF.
    rejects_carriage_returns = True

    def __init__(self) -> None:
        self._order = Order(_ORDER)
        self._open: dict[tuple[str, object], None] = {}
        self._owners: dict[tuple[str, object], object] = {}  # subagent of each id
        self._ended_subagents: dict[str, None] = {}
        self._lanes: dict[object, _Lane] = {}  # by subagent; None is the agent itself

    def read(self, frame: Frame) -> Iterator[str]:
        event, parse_problems = parse_object(frame.data)
        yield from parse_problems
        if event is None:
            return
        kind = event.get("type")
        if isinstance(kind, str) and kind in wire.THINKING:
            yield f"{kind} is deprecated, expected {wire.THINKING[kind]}"
            return
        if not isinstance(kind, str) or (shape := EVENTS.get(kind)) is None:
            # By no text of its own: a type that is wrong may be any text of the payload.
            yield "type is unknown, expected one of the protocol"
            return
        yield from self._order.advance(kind)
        found_problems = list(problems(shape, event, ""))
        yield from found_problems
        if not found_problems:
            yield from self._check_event(kind, event)

    def missing(self) -> list[str]:
        match self._order.state:
            case "finished" | "failed":
                return []
            case "nothing":
                return ["no RUN_STARTED, expected it first"]
            case _:
                # The clients take such a stream for a success (ag-ui-protocol/ag-ui#2300).
                return ["no RUN_FINISHED and no RUN_ERROR, expected one"]

    def _check_event(self, kind: str, event: dict[str, Any]) -> Iterator[str]:
        owner = event.get("subagentRunId")
        if kind in _CHUNKS:
            yield from self._check_chunk(kind, event, owner)
            return
        if kind in _CLOSE_LANES:
            for each in list(self._lanes):
                self._close_lane(each)
        elif kind not in _KEEP_LANES:
            self._close_lane(owner)
        if kind in _BRACKETS:
            yield from self._check_bracket(kind, _BRACKETS[kind], event, owner)
        elif kind == wire.RUN_STARTED:
            self._open.clear()
            self._owners.clear()
            self._ended_subagents.clear()
        elif kind == wire.RUN_FINISHED:
            for open_kind, _ in self._open:
                yield f"RUN_FINISHED while a {open_kind} is open, expected its end"
            self._open.clear()

    def _check_bracket(
        self, kind: str, bracket: _Bracket, event: dict[str, Any], owner: object
    ) -> Iterator[str]:
        id = event[bracket.key]
        # A step has a name within its agent alone.
        key = (bracket.kind, (owner, id) if bracket.kind == _STEP else id)
        if bracket.kind != _SUBAGENT_KIND:
            yield from self._check_owner(kind, key, owner)
        if bracket.action == "start":
            if key in self._open:
                yield f"{kind} of an open {bracket.kind}, expected its end first"
            if bracket.kind == _SUBAGENT_KIND:
                yield from self._check_subagent(event)
            self._open[key] = None
            return
        if key not in self._open:
            yield f"{kind} of no open {bracket.kind}, expected {bracket.start}"
        elif bracket.action == "end":
            del self._open[key]
            if bracket.kind == _SUBAGENT_KIND:
                self._ended_subagents[id] = None

    def _check_owner(self, kind: str, key: tuple[str, object], owner: object) -> Iterator[str]:
        if key not in self._owners:
            self._owners[key] = owner
        elif owner is not None and owner != self._owners[key]:
            yield f"{kind} of another subagent, expected that of the start"

    def _check_subagent(self, event: dict[str, Any]) -> Iterator[str]:
        if event["subagentRunId"] in self._ended_subagents:
            yield "SUBAGENT_STARTED of an ended subagent, expected another id"
        parent = event.get("parentSubagentRunId")
        is_known = (_SUBAGENT_KIND, parent) in self._open or parent in self._ended_subagents
        if parent is not None and not is_known:
            yield "SUBAGENT_STARTED within an unknown subagent, expected one that has started"

    # Chunks

    def _check_chunk(self, kind: str, event: dict[str, Any], owner: object) -> Iterator[str]:
        bracket, repeated = _CHUNKS[kind]
        id = event.get(bracket.key)
        owner = self._owner_of_lane(bracket, id, owner)
        lane = self._lanes.get(owner)
        if lane is not None and lane.bracket is bracket and id in (None, lane.id):
            for name in repeated:
                if event.get(name) is not None and event[name] != lane.first.get(name):
                    yield f"{kind} with another {name} than the first, expected the same"
            return
        self._close_lane(owner)
        if id is None:
            yield f"first {kind} has no {bracket.key}, expected one"
            return
        if bracket.kind == _CALL_KIND and "toolCallName" not in event:
            yield f"first {kind} has no toolCallName, expected one"
        first = {"role": "assistant", **event} if bracket.kind == _TEXT else event
        self._lanes[owner] = _Lane(bracket, id, first)
        yield from self._check_bracket(kind, bracket, event, event.get("subagentRunId"))

    def _owner_of_lane(self, bracket: _Bracket, id: object, owner: object) -> object:
        """Return the agent of the lane that a chunk continues, even if the chunk names no agent."""
        if owner is not None:
            return owner
        held = [
            each
            for each, lane in self._lanes.items()
            if lane.bracket is bracket and id in (None, lane.id)
        ]
        return None if not held or None in held else held[0]

    def _close_lane(self, owner: object) -> None:
        lane = self._lanes.pop(owner, None)
        if lane is not None:
            self._open.pop((lane.bracket.kind, lane.id), None)
