"""Detection of Anthropic frames, of the terminal, and of whole bodies."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm.dialects.anthropic.traits import (
    EVENT_TYPES,
    is_request,
    is_response,
    is_terminal,
    recognises,
)
from streamnorm.sse import Frame


@pytest.mark.parametrize("type", sorted(EVENT_TYPES))
def test_event_is_recognised_by_the_type_of_its_payload(type: str) -> None:
    payload = f'{{"index": 0, "type": "{type}"}}'
    assert recognises(Frame("message", payload))
    assert not recognises(Frame(type, "{}"))


@pytest.mark.parametrize(
    "data",
    ["", "[DONE]", "[]", '{"type":"response.created"}', '{"type":["ping"]}', '{"type":"ping"'],
)
def test_other_frame_is_not_recognised(data: str) -> None:
    assert not recognises(Frame("message_start", data))


@pytest.mark.parametrize(
    ("data", "expected"),
    [('{"type":"message_stop"}', True), ("{}", True), ('{"type":"message_delta"}', False)],
)
def test_terminal_is_message_stop_by_its_type_or_its_name(data: str, *, expected: bool) -> None:
    assert is_terminal(Frame("message_stop", data)) is expected


HELLO = {"role": "user", "content": "Hello"}


def asks(**fields: object) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": [HELLO], **fields}


def says(block: dict[str, Any], role: str = "assistant") -> dict[str, Any]:
    return asks(messages=[HELLO, {"role": role, "content": [block]}])


@pytest.mark.parametrize(
    "body",
    [
        asks(system="Be brief."),
        asks(stop_sequences=["END"]),
        asks(anthropic_version="vertex-2023-10-16"),
        asks(mcp_servers=[]),
        asks(context_management={"edits": []}),
        asks(output_config={"effort": "low"}),
        asks(tool_choice={"type": "auto"}),
        asks(tool_choice={"type": "any"}),
        asks(tools=[{"name": "f", "input_schema": {}}]),
        says({"type": "tool_use", "id": "c", "name": "f", "input": {}}),
        says({"type": "tool_result", "tool_use_id": "c"}, "user"),
        says({"type": "thinking", "thinking": "a", "signature": "b"}),
        says({"type": "redacted_thinking", "data": "a"}),
        says({"type": "image", "source": {"type": "url", "url": "a"}}, "user"),
        says({"type": "document", "source": {"type": "url", "url": "a"}}, "user"),
    ],
)
def test_request_is_recognised(body: dict[str, Any]) -> None:
    assert is_request(body)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"system": "a"},
        {"system": "a", "messages": "b"},
        {"system": "a", "contents": []},
        asks(),  # of Chat Completions as well
        asks(tool_choice="auto"),
        asks(tool_choice={"type": "function", "function": {"name": "f"}}),
        asks(tool_choice={"type": ["auto"]}),
        asks(tools=[{"type": "function", "function": {"name": "f"}}]),
        asks(tools="f"),
        asks(messages=["a", {"role": "user", "content": [{"type": ["text"]}, "a"]}]),
        asks(system="a", messages=[{"role": "tool", "tool_call_id": "c", "content": "b"}]),
        asks(system="a", messages=[{"role": "assistant", "tool_calls": []}]),
        says({"type": "image", "image_url": {"url": "a"}}, "user"),
        says({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, "user"),
        says({"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}),
    ],
)
def test_other_request_is_not_recognised(body: dict[str, Any]) -> None:
    assert not is_request(body)


ANSWER: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
}


def test_response_is_recognised() -> None:
    assert is_response(ANSWER)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {**ANSWER, "type": "response"},
        {**ANSWER, "role": "user"},
        {**ANSWER, "content": "a"},
        # A message among the items of the Responses API.
        {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "status": "x"},
        {"object": "chat.completion", "choices": []},
    ],
)
def test_other_response_is_not_recognised(body: dict[str, Any]) -> None:
    assert not is_response(body)
