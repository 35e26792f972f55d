"""Results that stand within calls of the provider, shown by pages as results."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.frontend.runs import chunks_of
from support.openai_responses.frames import START, added, completed, done

from streamnorm import (
    BlockStart,
    Event,
    InputMessage,
    ServerToolCall,
    ServerToolResult,
    Text,
    Transcoder,
    decode_request,
    project,
)
from streamnorm.codec import decoder
from streamnorm.frontend import encode_messages

CALL = {
    "id": "mcp_1",
    "approval_request_id": None,
    "arguments": '{"ship":"Abeille"}',
    "name": "berth",
    "server_label": "quay",
}
ERROR = {"type": "http_error", "code": 404, "message": "no such ship"}
FAILED = {**CALL, "status": "failed", "error": ERROR, "output": None}
ANSWERED = {**CALL, "status": "completed", "error": None, "output": "Berth 4"}
OPEN = {**CALL, "status": "in_progress", "error": None, "output": None}
each_page = pytest.mark.parametrize("page", ["ui_message_stream", "ag_ui"])


def stream(item: dict[str, Any]) -> bytes:
    begun = {**item, "status": "in_progress", "arguments": "", "error": None, "output": None}
    return b"".join(
        [START, added(0, "mcp_call", **begun), done(0, "mcp_call", **item), completed()]
    )


def shown(item: dict[str, Any], page: str) -> list[dict[str, Any]]:
    """Return the chunks of a page that are about a call's result."""
    transcoder = Transcoder("openai_responses", page)
    written = b"".join([*transcoder.feed(stream(item)), *transcoder.close()])
    kinds = ("tool-output-available", "tool-output-error", "TOOL_CALL_RESULT")
    return [chunk for chunk in chunks_of(written) if chunk["type"] in kinds]


@pytest.mark.parametrize("error", [ERROR, "no such ship"])
def test_failed_call_is_a_tool_error_for_use_chat(error: object) -> None:
    text = error if isinstance(error, str) else json.dumps(error, separators=(",", ":"))
    assert shown({**FAILED, "error": error}, "ui_message_stream") == [
        {
            "type": "tool-output-error",
            "toolCallId": "mcp_1",
            "providerExecuted": True,
            "errorText": text,
        }
    ]


def test_failed_call_is_an_error_result_for_ag_ui() -> None:
    (result,) = shown(FAILED, "ag_ui")
    assert json.loads(result["content"]) == ERROR
    assert result["metadata"]["isError"] is True
    assert "isUnanswered" not in result["metadata"]


@each_page
def test_output_of_a_call_is_its_result(page: str) -> None:
    (result,) = shown(ANSWERED, page)
    assert result.get("output", result.get("content")) == "Berth 4"
    assert "isError" not in result.get("metadata", {})


@pytest.mark.parametrize(("page", "marks"), [("ui_message_stream", []), ("ag_ui", [True])])
def test_call_that_holds_no_result_is_unanswered(page: str, marks: list[bool]) -> None:
    assert [chunk["metadata"]["isUnanswered"] for chunk in shown(OPEN, page)] == marks


def events_of(item: dict[str, Any]) -> list[Event]:
    reader = decoder("openai_responses")
    return [*reader.feed(stream(item)), *reader.close()]


@pytest.mark.parametrize("target", ["anthropic", "openai_chat", "openai_responses"])
def test_only_pages_get_the_result(target: str) -> None:
    projected, _ = project(events_of(FAILED), target, extras=target == "openai_responses")
    starts = [event for event in projected if isinstance(event, BlockStart)]
    assert not [start for start in starts if isinstance(start.block, ServerToolResult)]


@each_page
@pytest.mark.parametrize("item", [FAILED, ANSWERED], ids=["failed", "answered"])
def test_stored_chat_shows_the_result_and_comes_back_without_it(
    page: str, item: dict[str, Any]
) -> None:
    """OpenAI has no item for the result alone: it refuses one with a type that it lacks."""
    fields = {name: item[name] for name in item if name not in ("id", "status")}
    call = ServerToolCall("mcp_1", "berth", json.dumps(fields, separators=(",", ":")), "mcp_call")
    history = [
        InputMessage("user", (Text("Where?"),)),
        InputMessage("assistant", (call, Text("There."))),
        InputMessage("user", (Text("Thanks."),)),
    ]
    messages = encode_messages(history, page).messages
    expected = "no such ship" if item is FAILED else "Berth 4"
    results = [
        part.get("errorText", part.get("output", part.get("content")))
        for message in messages
        for part in [message, *message.get("parts", [])]
        if part.get("toolCallId") == "mcp_1"
    ]
    assert [expected in result for result in results] == [True]
    body = {"threadId": "t", "runId": "r", "messages": messages}
    read = decode_request(body, page)
    assert read.messages[1].blocks == (call, Text("There."))
