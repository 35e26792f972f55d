"""What the strict validator accepts and refuses, by the schema and the verifier of the client."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.streams.corpus import recordings

from streamnorm import Transcoder
from streamnorm._registry import checker
from streamnorm.sse import Frame
from streamnorm.validation import validate

START = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISH = {**START, "type": "RUN_FINISHED"}
ERROR = {"type": "RUN_ERROR", "message": "no"}
TEXT = {"type": "TEXT_MESSAGE_START", "messageId": "m"}
CONTENT = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": ""}
END = {"type": "TEXT_MESSAGE_END", "messageId": "m"}
CALL = {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"}
CALL_END = {"type": "TOOL_CALL_END", "toolCallId": "c"}
RESULT = {"type": "TOOL_CALL_RESULT", "messageId": "x", "toolCallId": "c", "content": "1"}
STEP, STEP_END = ({"type": kind, "stepName": "s"} for kind in ("STEP_STARTED", "STEP_FINISHED"))
SUB = {"type": "SUBAGENT_STARTED", "subagentRunId": "a", "name": "n"}
SUB_END = {"type": "SUBAGENT_FINISHED", "subagentRunId": "a"}
CHUNK = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "a"}
CALL_CHUNK = {"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": "f"}
THOUGHT = {"type": "REASONING_MESSAGE_CHUNK", "messageId": "h", "delta": "a"}
RAW = {"type": "RAW", "event": None}


def check(*events: Any) -> list[str]:
    judge = checker("ag_ui")
    found: list[str] = []
    for event in events:
        found += judge.check(
            Frame("message", event if isinstance(event, str) else json.dumps(event))
        )
    return found + judge.missing()


def inside(*events: Any) -> list[str]:
    return check(START, *events, FINISH)


def of_subagent(event: dict[str, Any], id: str = "a") -> dict[str, Any]:
    return {**event, "subagentRunId": id}


def without(event: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name not in names}


@pytest.mark.parametrize(
    "source", ["anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions"]
)
def test_what_we_write_has_no_violation(source: str) -> None:
    for recording in recordings(source):
        run = Transcoder(source, "ag_ui", server=recording.server)
        out = b"".join(run.feed(recording.body) + run.close())
        assert validate(out, "ag_ui") == [], recording.name


def test_messages_calls_and_spans_overlap() -> None:
    span = {"type": "REASONING_START", "messageId": "h"}
    thought = {"type": "REASONING_MESSAGE_START", "messageId": "h", "role": "reasoning"}
    value = {
        "type": "REASONING_ENCRYPTED_VALUE",
        "subtype": "message",
        "entityId": "h",
        "encryptedValue": "x",
    }
    ends = [
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "h", "delta": "a"},
        {"type": "REASONING_MESSAGE_END", "messageId": "h"},
        {"type": "REASONING_END", "messageId": "h"},
    ]
    arguments = {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}"}
    assert inside(span, TEXT, thought, CALL, CONTENT, arguments, *ends, value, END, CALL_END) == []


def test_other_events_are_legal_anywhere() -> None:
    patch = [
        {"op": "add", "path": "/a", "value": None},
        {"op": "remove", "path": "/a"},
        {"op": "move", "path": "/a", "from": "/b"},
    ]
    image = {"type": "image", "source": {"type": "url", "value": "https://u"}}
    assert (
        inside(
            {"type": "STATE_SNAPSHOT", "snapshot": None},
            {"type": "STATE_DELTA", "delta": patch},
            {"type": "CUSTOM", "name": "n", "value": 1},
            {"type": "ACTIVITY_SNAPSHOT", "messageId": "p", "activityType": "P", "content": {}},
            {"type": "ACTIVITY_DELTA", "messageId": "p", "activityType": "P", "patch": patch},
            {**RESULT, "content": [{"type": "text", "text": "1"}, image], "role": "tool"},
            RAW,
            STEP,
            of_subagent(STEP),
            STEP_END,
            of_subagent(STEP_END),
        )
        == []
    )


def test_run_may_say_how_it_ends() -> None:
    usage = [{"model": "m", "inputTokens": 1, "totalTokens": 2**53 - 1}]
    interrupt = {"id": "i", "reason": "approval", "toolCallId": "c", "responseSchema": {}}
    for outcome in (
        {"type": "success", "pendingToolCallIds": ["c"]},
        {"type": "interrupt", "interrupts": [interrupt]},
        {"type": "cancelled"},
        None,  # read as absent, as three other fields
    ):
        assert check(START, {**FINISH, "outcome": outcome, "usage": usage, "result": None}) == []
    assert check(START, {**ERROR, "code": "c", "usage": usage}) == []


def test_history_may_be_replayed() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"id": "1", "role": "system", "content": "Be brief."},
        {"id": "2", "role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"id": "3", "role": "assistant", "toolCalls": [call]},
        {"id": "4", "role": "tool", "content": "1", "toolCallId": "c"},
        {"id": "5", "role": "activity", "activityType": "P", "content": {}},
    ]
    snapshot = {"type": "MESSAGES_SNAPSHOT", "messages": messages}
    given = {"threadId": "t", "runId": "r", "messages": messages}
    assert check({**START, "input": given}, snapshot, FINISH) == []
    assert inside({**snapshot, "messages": [{"id": "1", "role": "critic"}]}) == [
        "messages[0].role is a string of 6 characters, expected developer or system or reasoning "
        "or assistant or user or tool or activity"
    ]


LATER = without(CHUNK, "messageId")


@pytest.mark.parametrize(
    "events",
    [
        [CHUNK, LATER, RAW, LATER, CHUNK],
        [CHUNK, STEP, CHUNK, STEP_END],
        [CHUNK, THOUGHT, CALL_CHUNK, {**CHUNK, "messageId": "n"}],
        [of_subagent(CHUNK), {**CHUNK, "messageId": "n"}, LATER, of_subagent(LATER)],
        [of_subagent(CHUNK), LATER, {**CHUNK, "role": "assistant"}],
        [SUB, of_subagent(CHUNK), SUB_END, of_subagent(CHUNK)],
    ],
    ids=["continued", "closed", "of other kinds", "two lanes", "of the one lane", "of a subagent"],
)
def test_chunks_open_and_close_by_themselves(events: list[Any]) -> None:
    assert inside(*events) == []


@pytest.mark.parametrize(
    ("events", "problems"),
    [
        ([{"type": "X"}], ["type is unknown, expected one of the protocol"]),
        ([{"type": 1}], ["type is unknown, expected one of the protocol"]),
        ([{"type": "THINKING_START"}], ["THINKING_START is deprecated, expected REASONING_START"]),
        ([without(TEXT, "messageId")], ["messageId is missing, expected a string"]),
        ([{**RAW, "metadata": None}], ["metadata is null, expected an object"]),
        ([{**RAW, "timestamp": 1.5}], ["timestamp is a decimal number, expected an integer"]),
        ([{**RESULT, "content": 1}], ["content is an integer, expected a string or an array"]),
        ([START], ["RUN_STARTED within a run, expected RUN_FINISHED before it"]),
        ([TEXT], ["RUN_FINISHED while a text message is open, expected its end"]),
        ([TEXT, TEXT, END], ["TEXT_MESSAGE_START of an open text message, expected its end first"]),
        ([CONTENT], ["TEXT_MESSAGE_CONTENT of no open text message, expected TEXT_MESSAGE_START"]),
        ([CALL_END], ["TOOL_CALL_END of no open tool call, expected TOOL_CALL_START"]),
        ([STEP, STEP, STEP_END], ["STEP_STARTED of an open step, expected its end first"]),
        (
            [of_subagent(STEP), STEP_END],
            [
                "STEP_FINISHED of no open step, expected STEP_STARTED",
                "RUN_FINISHED while a step is open, expected its end",
            ],
        ),
        (
            [TEXT, of_subagent(CONTENT), END],
            ["TEXT_MESSAGE_CONTENT of another subagent, expected that of the start"],
        ),
        ([SUB], ["RUN_FINISHED while a subagent is open, expected its end"]),
        (
            [SUB, SUB_END, SUB, SUB_END],
            ["SUBAGENT_STARTED of an ended subagent, expected another id"],
        ),
        (
            [
                *(SUB, {**SUB, "subagentRunId": "b", "parentSubagentRunId": "a"}),
                *(SUB_END, of_subagent(SUB_END, "b")),
                {**SUB, "subagentRunId": "c", "parentSubagentRunId": "z"},
                of_subagent(SUB_END, "c"),
            ],
            ["SUBAGENT_STARTED within an unknown subagent, expected one that has started"],
        ),
        (
            [without(CHUNK, "messageId")],
            ["first TEXT_MESSAGE_CHUNK has no messageId, expected one"],
        ),
        (
            [without(CALL_CHUNK, "toolCallName")],
            ["first TOOL_CALL_CHUNK has no toolCallName, expected one"],
        ),
        (
            [CALL_CHUNK, {**CALL_CHUNK, "toolCallName": "g"}],
            ["TOOL_CALL_CHUNK with another toolCallName than the first, expected the same"],
        ),
        (
            [CHUNK, {**CHUNK, "role": "user"}],
            ["TEXT_MESSAGE_CHUNK with another role than the first, expected the same"],
        ),
        (
            [TEXT, CHUNK],
            ["TEXT_MESSAGE_CHUNK of an open text message, expected its end first"],
        ),
    ],
)
def test_violations(events: list[Any], problems: list[str]) -> None:
    assert inside(*events) == problems


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"outcome": {"type": "x"}},
            "outcome.type is a string of 1 characters, expected success or interrupt or cancelled",
        ),
        (
            {"outcome": {"type": "interrupt", "interrupts": []}},
            "outcome.interrupts is empty, expected an interrupt",
        ),
        ({"usage": {}}, "usage is an object, expected an array"),
        (
            {"usage": [{"inputTokens": None}]},
            "usage[0].inputTokens is null, expected an integer from 0 to 2**53 - 1",
        ),
        (
            {"usage": [{"inputTokens": 2**53}]},
            "usage[0].inputTokens is an integer, expected an integer from 0 to 2**53 - 1",
        ),
    ],
)
def test_violations_at_the_end_of_a_run(fields: dict[str, Any], problem: str) -> None:
    assert check(START, {**FINISH, **fields}) == [problem]


def test_ends() -> None:
    missing = "no RUN_FINISHED and no RUN_ERROR, expected one"
    assert check() == ["no RUN_STARTED, expected it first"]
    assert check(START) == [missing]
    assert check(ERROR) == []
    assert check(START, TEXT, ERROR) == []
    assert check(START, FINISH, ERROR) == []
    assert check(START, FINISH, "[DONE]") == ["no JSON in 6 characters, expected an object"]
    assert check(START, FINISH, RAW) == ["RAW after RUN_FINISHED, expected RUN_STARTED"]
    assert check(START, ERROR, RAW) == ["RAW after RUN_ERROR, expected RUN_STARTED"]
    assert check(TEXT, END, FINISH) == ["TEXT_MESSAGE_START comes first, expected RUN_STARTED"]


def test_stream_may_hold_several_runs() -> None:
    assert check(START, TEXT, ERROR, START, TEXT, END, FINISH, START, SUB, SUB_END, FINISH) == []


def test_frames_end_by_line_feeds_alone() -> None:
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in (START, FINISH)).encode()
    assert validate(body, "ag_ui") == []
    (violation,) = validate(body.replace(b"\n", b"\r\n"), "ag_ui")
    assert violation.message == "line ends with a carriage return, expected a line feed alone"
