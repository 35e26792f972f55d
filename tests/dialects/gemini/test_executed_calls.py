"""Functions of MCP servers that Google executes itself: no client of another dialect does, too.

Each chunk of such an answer has a `turnToken` (js-genai's recordings of server-side MCP).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.gemini.frames import frame
from support.streams.content import decode

from streamnorm import (
    Completed,
    Loss,
    ServerToolCall,
    ServerToolResult,
    ToolCall,
    Transcoder,
    accumulate,
    translate_message,
)
from streamnorm.dialects.gemini.tool_calls import executed_call

CALL = {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}}
RESULT = {"functionResponse": {"name": "weather", "response": {"snow": True}}}
OTHER = {"functionCall": {"id": "c", "name": "tide", "args": {}}}
TEXT = {"text": "It snows."}
EXECUTED = (
    Loss("executed_call", "ToolCall", 1, "dropped"),
    Loss("executed_call", "ServerToolResult", 1, "dropped"),
)
each_target = pytest.mark.parametrize(
    "target", ["openai_chat", "anthropic", "openai_responses", "bedrock_converse"]
)


def chunk(*parts: dict[str, Any], finish: str | None = None, **fields: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "responseId": "r", "modelVersion": "m", **fields}


def transcoded(chunks: list[dict[str, Any]], target: str) -> tuple[bytes, Transcoder]:
    transcoder = Transcoder("gemini", target, verbatim=False)
    written = [piece for each in chunks for piece in transcoder.feed(frame(each))]
    return b"".join([*written, *transcoder.close()]), transcoder


def of_a_turn(*chunks: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**each, "turnToken": "v1"} for each in chunks]


@each_target
def test_executed_call_is_not_written(target: str) -> None:
    chunks = of_a_turn(chunk(CALL, finish="STOP"), chunk(RESULT), chunk(TEXT, finish="STOP"))
    written, transcoder = transcoded(chunks, target)
    assert b"weather" not in written
    assert b"It snows." in written
    assert isinstance(transcoder.outcome, Completed)
    assert transcoder.outcome.reason == "end_turn"
    assert {*EXECUTED} < {*transcoder.losses}


@each_target
def test_call_without_a_result_is_the_clients(target: str) -> None:
    chunks = of_a_turn(chunk(CALL), chunk(RESULT), chunk(OTHER, finish="STOP"))
    written, transcoder = transcoded(chunks, target)
    assert b"tide" in written
    assert b"weather" not in written
    assert isinstance(transcoder.outcome, Completed)
    assert transcoder.outcome.reason == "tool_use"


@each_target
def test_call_of_a_turn_that_pauses_is_the_clients_as_in_a_whole_answer(target: str) -> None:
    chunks = of_a_turn(chunk(CALL), chunk(RESULT), chunk(OTHER, finish="CONTINUATION"))
    written, transcoder = transcoded(chunks, target)
    assert b"tide" in written
    assert isinstance(transcoder.outcome, Completed)
    assert "unapproved_call" not in [loss.feature for loss in transcoder.losses]
    whole = chunk(CALL, RESULT, OTHER, finish="CONTINUATION", turnToken="v1")
    encoded = translate_message(whole, to=target, dialect="gemini")
    assert "tide" in str(encoded.body)


def test_call_of_any_other_turn_is_written_at_once() -> None:
    transcoder = Transcoder("gemini", "anthropic")
    written = b"".join(transcoder.feed(frame(chunk(OTHER))))
    assert b"tide" in written


def test_page_shows_an_executed_call_as_the_providers() -> None:
    """A page executes any other call whose input is available (`onToolCall` of `useChat`)."""
    signed = {**CALL, "thoughtSignature": "c2ln"}
    chunks = of_a_turn(chunk(signed), chunk(OTHER), chunk(RESULT), chunk(TEXT, finish="STOP"))
    written, transcoder = transcoded(chunks, "ui_message_stream")
    found = {}
    for line in written.decode().split("\n\n"):
        fields = json.loads(line[6:]) if line.startswith("data: {") else {}
        if fields.get("type", "").startswith("tool-"):
            found[fields["toolName" if "toolName" in fields else "type"], fields["type"]] = fields
    shown = {name for name, fields in found.items() if fields.get("providerExecuted")}
    assert shown == {
        ("weather", "tool-input-start"),
        ("weather", "tool-input-available"),
        ("tool-output-available", "tool-output-available"),
    }
    assert found["weather", "tool-input-available"]["input"] == {"city": "Oslo"}
    assert ("tide", "tool-input-available") in found
    assert Loss("signature", "ServerToolCall", 1, "dropped") in transcoder.losses


def test_other_page_marks_an_executed_call_as_the_providers() -> None:
    chunks = of_a_turn(chunk(CALL), chunk(RESULT), chunk(TEXT, finish="STOP"))
    written, _ = transcoded(chunks, "ag_ui")
    (start,) = [line for line in written.split(b"\n\n") if b"TOOL_CALL_START" in line]
    assert json.loads(start[6:])["metadata"]["providerExecuted"] is True
    assert isinstance(accumulate(decode([written], "ag_ui").events).blocks[0], ServerToolCall)


def test_same_dialect_keeps_the_call() -> None:
    chunks = of_a_turn(chunk(CALL), chunk(RESULT), chunk(TEXT, finish="STOP"))
    written, transcoder = transcoded(chunks, "gemini")
    assert b"functionResponse" in written
    assert transcoder.losses == ()


@each_target
def test_whole_answer_has_no_executed_call(target: str) -> None:
    whole = chunk(CALL, RESULT, TEXT, finish="STOP", turnToken="v1")
    encoded = translate_message(whole, to=target, dialect="gemini")
    assert "weather" not in str(encoded.body)
    assert "It snows." in str(encoded.body)
    assert {*EXECUTED} < {*encoded.losses}


def test_executed_call_goes_back_with_its_id_and_signature() -> None:
    call = ToolCall("c", "f", '{"a":1}', signature="s", issuer="google")
    result = ServerToolResult("c", "functionResponse", {"id": "c", "name": "f"})
    made = executed_call(call, result)
    assert made.arguments == '{"id":"c","name":"f","args":{"a":1}}'
    assert (made.kind, made.extra) == ("functionCall", {"gemini": {"thoughtSignature": "s"}})
    assert executed_call(ToolCall("c", "f"), ServerToolResult("c", "functionResponse", {})) == (
        ServerToolCall("c", "f", '{"name":"f","args":{}}', "functionCall")
    )
