"""Encrypted reasoning, which is asked for where the answer is not stored."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm import (
    Conversation,
    Encoded,
    InputMessage,
    Request,
    Text,
    decode_request,
    encode_request,
    translate_request,
)
from streamnorm._core.bodies.request import ReasoningOptions
from streamnorm.tools import Tool
from streamnorm.validation import validate_request

ENCRYPTED = "reasoning.encrypted_content"
HIGH = ReasoningOptions(effort="high")
MESSAGES = (InputMessage("user", (Text("Hi"),)),)


def sent(model: str, server: str | None = None, **fields: Any) -> Encoded:
    """Return a request of no dialect, as a body of Responses."""
    asked = Request(model=model, messages=MESSAGES, **fields)
    return encode_request(asked, "openai_responses", server=server)


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("gpt-5", {"reasoning": HIGH}),
        ("gpt-5", {}),  # it reasons unasked
        ("gpt-5", {"store": False}),
        ("o4-mini", {}),
        ("gpt-5.2", {"reasoning": HIGH}),
        ("a-deployment", {"reasoning": HIGH}),
    ],
)
def test_encrypted_reasoning_is_asked_of_a_model_that_reasons(
    model: str, fields: dict[str, Any]
) -> None:
    encoded = sent(model, **fields)
    assert (encoded.body["store"], encoded.body["include"]) == (False, [ENCRYPTED])
    assert encoded.losses == ()
    assert validate_request(encoded.body, "openai_responses", model=model) == []


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("gpt-4.1", {}),
        ("gpt-4o", {"reasoning": HIGH}),  # the effort is dropped
        ("gpt-5-chat-latest", {}),
        ("gpt-5.2", {}),  # it does not reason unasked
        ("gpt-5.2", {"reasoning": ReasoningOptions("off")}),
        ("a-deployment", {}),
        ("gpt-5", {"store": True, "reasoning": HIGH}),
    ],
)
def test_it_is_not_asked_where_nothing_is_reasoned_or_all_is_stored(
    model: str, fields: dict[str, Any]
) -> None:
    assert "include" not in sent(model, **fields).body


def test_it_is_asked_beside_what_the_request_says() -> None:
    logprobs = "message.output_text.logprobs"
    said = {"openai_responses": {"include": ["web_search_call.results"]}}
    body = sent("a-deployment", reasoning=HIGH, logprobs=True, extra=said).body
    assert body["include"] == ["web_search_call.results", logprobs, ENCRYPTED]
    same = {"openai_responses": {"include": [ENCRYPTED]}}
    assert sent("gpt-5", extra=same).body["include"] == [ENCRYPTED]


@pytest.mark.parametrize("server", ["azure", "chatgpt", "copilot", "xai"])
def test_servers_that_read_signed_reasoning_are_asked(server: str) -> None:
    assert sent("gpt-5", server, reasoning=HIGH).body["include"] == [ENCRYPTED]


@pytest.mark.parametrize("server", ["deepseek", "sglang", "vllm"])
def test_servers_that_read_reasoning_as_it_is_are_not_asked(server: str) -> None:
    assert "include" not in sent("gpt-oss-120b", server, reasoning=HIGH).body


@pytest.mark.parametrize("more", [{}, {"store": False}, {"include": []}])
def test_requests_of_the_dialect_stay_as_they_are(more: dict[str, Any]) -> None:
    body = {"model": "gpt-5", "input": "Hi", "reasoning": {"effort": "high"}, **more}
    encoded = translate_request(body, dialect="openai_responses", to="openai_responses")
    assert encoded.body == body
    grown = Conversation(decode_request(body, "openai_responses"))
    grown.append(InputMessage("assistant", (Text("Hello"),)))
    grown.append(InputMessage("user", (Text("Go on"),)))
    assert grown.dump("openai_responses").body.get("include") == more.get("include")


def test_an_agent_keeps_its_reasoning_from_step_to_step() -> None:
    tool = Tool("f", "F.", {"type": "object", "properties": {}})
    chat = Conversation(Request(model="gpt-5", messages=MESSAGES, tools=(tool,), reasoning=HIGH))
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"}
    assert chat.dump("openai_responses").body["include"] == [ENCRYPTED]
    answer = {"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-5"}
    output = [reasoning, {**call, "status": "completed"}]
    chat.append({**answer, "created_at": 1, "output": output}, dialect="openai_responses")
    chat.append_tool_result("c1", "1")
    encoded = chat.dump("openai_responses")
    assert reasoning in encoded.body["input"]
    assert encoded.losses == ()
