"""What the strict validator accepts and refuses, by the schema and reducers of `ai` 6 and 7."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.streams.corpus import recordings

from streamnorm import Transcoder
from streamnorm._registry import checker
from streamnorm.sse import Frame
from streamnorm.validation import validate

START, STEP = {"type": "start"}, {"type": "start-step"}
END_STEP, FINISH = {"type": "finish-step"}, {"type": "finish"}
TEXT = {"type": "text-start", "id": "0"}
CALL = {"type": "tool-input-start", "toolCallId": "c", "toolName": "f"}
AVAILABLE = {**CALL, "type": "tool-input-available", "input": 1}


def check(*chunks: Any) -> list[str]:
    judge = checker("ui_message_stream")
    found: list[str] = []
    for chunk in chunks:
        data = chunk if isinstance(chunk, str) else json.dumps(chunk)
        found += judge.check(Frame("message", data))
    return found + judge.missing()


def inside(*chunks: Any) -> list[str]:
    return check(START, STEP, *chunks, END_STEP, FINISH, "[DONE]")


@pytest.mark.parametrize(
    "source", ["anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions"]
)
def test_what_we_write_has_no_violation(source: str) -> None:
    for recording in recordings(source):
        run = Transcoder(source, "ui_message_stream", server=recording.server)
        out = b"".join(run.feed(recording.body) + run.close())
        found = [violation.message for violation in validate(out, "ui_message_stream")]
        assert found == [], recording.name


def test_legal_streams() -> None:
    text = [TEXT, {"type": "text-delta", "id": "0", "delta": ""}, {"type": "text-end", "id": "0"}]
    data = {"type": "data-x", "data": None, "transient": True}
    call = [CALL, {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "{}"}]
    whole = {**CALL, "type": "tool-input-available", "input": None, "providerMetadata": {"a": {}}}
    output = {"type": "tool-output-available", "toolCallId": "c", "output": 1}
    assert inside(*text, data, *call, whole, output) == []
    assert inside(*call, output) == []  # a result ends the input, too
    assert check({"type": "error", "errorText": ""}, "[DONE]") == []
    assert check(START, {"type": "abort"}, "[DONE]") == []


@pytest.mark.parametrize(
    ("chunks", "problem"),
    [
        ([{"type": "x"}], "type is unknown, expected one of the protocol"),
        ([{"type": 1}], "type is unknown, expected one of the protocol"),
        ([{"type": "text-start"}], "id is missing, expected a string"),
        (
            [{"type": "start-step"}],
            "second start-step, expected finish-step",
        ),
        (
            [{"type": "custom", "kind": "a.b", "providerMetadata": {"a": 1}}],
            "providerMetadata has an integer, expected an object for each provider",
        ),
        ([TEXT], "finish-step while a part of text is open, expected text-end"),
        (
            [TEXT, TEXT, {"type": "text-end", "id": "0"}],
            "text-start of an open id, expected another id",
        ),
        (
            [{"type": "reasoning-end", "id": "0"}],
            "reasoning-end of no open id, expected reasoning-start",
        ),
        (
            [CALL],
            "finish-step while the input of a call is open, expected tool-input-available",
        ),
        (
            [CALL, CALL, AVAILABLE],
            "second call of one id in a step, expected another id",
        ),
        (
            [CALL, AVAILABLE, AVAILABLE],
            "second call of one id in a step, expected another id",
        ),
        (
            [{"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": ""}],
            "tool-input-delta of no open call, expected tool-input-start",
        ),
        (
            [{"type": "tool-output-denied", "toolCallId": "c"}],
            "tool-output-denied of an unknown call, expected its input before it",
        ),
        ([START], "second start, expected one"),
    ],
)
def test_violations(chunks: list[Any], problem: str) -> None:
    assert inside(*chunks) == [problem]


def test_id_of_a_call_may_come_again_in_a_later_step() -> None:
    step = [{"type": "finish-step"}, {"type": "start-step"}]
    assert inside(CALL, AVAILABLE, *step, CALL, AVAILABLE, *step, AVAILABLE) == []


def test_any_number_of_ids_takes_a_bounded_memory() -> None:
    calls = [{**AVAILABLE, "toolCallId": str(number)} for number in range(5000)]
    assert inside(*calls, TEXT) == ["more than 4096 parts and calls, expected at most that"]


def test_ends() -> None:
    assert check() == ["no start, expected it first"]
    assert check(START) == ["no finish, expected one"]
    assert check(START, FINISH) == ["no [DONE], expected it last"]
    assert check(START, FINISH, "[DONE]", START) == ["frame after [DONE], expected nothing"]
    assert check(START, FINISH, START) == [
        "start after the end of the message, expected [DONE]",
        "no [DONE], expected it last",
    ]
    assert check(START, "[DONE]") == [
        "[DONE] before the end of the message, expected finish or error"
    ]
    assert check(TEXT, {"type": "text-end", "id": "0"}, FINISH, "[DONE]") == [
        "text-start comes first, expected start"
    ]
    assert len(check(START, "{", FINISH, "[DONE]")) == 1
