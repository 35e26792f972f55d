"""Conversations as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from streamnorm import (
    Conversation,
    DecodeError,
    EncodeError,
    InputMessage,
    Message,
    Request,
    Text,
    Tool,
    ToolCall,
    decode_request,
)

ANTHROPIC: dict[str, Any] = {
    "model": "claude-sonnet-5",
    "max_tokens": 100,
    "temperature": 1,
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Hi", "odd": 1.0}]},
        {"role": "user", "content": "More"},
    ],
    "tools": [
        {"name": "f", "input_schema": {"type": "object"}},
        {"type": "mcp_toolset", "mcp_server_name": "docs"},
    ],
    "mcp_servers": [{"type": "url", "name": "docs", "url": "https://example.com", "odd": [1]}],
    "metadata": {"user_id": "u"},
}
GEMINI = {
    "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
    "tools": [{"functionDeclarations": [{"name": "f", "description": "does it"}]}],
    "generationConfig": {"temperature": 0, "topK": 1},
}
INTERACTIONS = {
    "model": "m",
    "input": [{"type": "user_input", "content": [{"type": "text", "text": "Hello", "odd": 1.0}]}],
    "tools": [{"type": "function", "name": "f", "description": "does it"}],
    "generation_config": {"temperature": 0, "odd": [1]},
}
BODIES = {"anthropic": ANTHROPIC, "gemini": GEMINI, "gemini_interactions": INTERACTIONS}
DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions")


def reloaded(chat: Conversation) -> Conversation:
    again = Conversation.from_json(chat.to_json())
    assert again == chat
    for dialect in DIALECTS:
        one, other = again.dump(dialect), chat.dump(dialect)
        assert json.dumps(one.body) == json.dumps(other.body)
        assert structs.replace(one, body={}) == structs.replace(other, body={})
    return again


@pytest.mark.parametrize("dialect", list(BODIES))
def test_what_was_decoded_is_written_as_it_was(dialect: str) -> None:
    again = reloaded(Conversation(decode_request(BODIES[dialect], dialect)))
    assert json.dumps(again.dump(dialect).body) == json.dumps(BODIES[dialect])


@pytest.mark.parametrize("dialect", list(BODIES))
def test_what_was_changed_since_is_written_as_it_is(dialect: str) -> None:
    request = decode_request(BODIES[dialect], dialect)
    changed = structs.replace(
        request,
        model="other",
        system=(Text("Be brief."),),
        messages=(
            structs.replace(request.messages[0], blocks=(Text("Good day"),)),
            *request.messages[1:],
        ),
        tools=(structs.replace(request.tools[0], description="changed"), *request.tools[1:]),
    )
    again = reloaded(Conversation(changed))
    source = again.request.source.part
    assert (source.model, source.messages, source.tools) == (
        request.model,
        request.messages,
        request.tools,
    )
    assert again.request.messages[0].source.part.text == "Hello"
    assert again.request.tools[0].source.part == structs.replace(request.tools[0], source=None)


@pytest.mark.parametrize("dialect", list(BODIES))
def test_another_model_is_asked(dialect: str) -> None:
    request = structs.replace(decode_request(BODIES[dialect], dialect), model="other")
    again = reloaded(Conversation(request))
    assert again.request.source.part.messages is again.request.messages


def test_what_was_appended_comes_back() -> None:
    tools = (Tool("f", "does it", {"type": "object"}),)
    chat = Conversation(Request(model="m", tools=tools, temperature=1, top_p=0.5, logit_bias={}))
    chat.append(InputMessage("user", (Text("Hello"),)))
    extras = ({"caller": {"type": "direct"}},)
    answer = Message("m", "m", (ToolCall("c", "f", "{}"),), "tool_use", block_extras=extras)
    chat.append(answer, dialect="anthropic")
    assert Conversation.from_json(chat.to_json()).open_tool_calls() == chat.open_tool_calls()
    chat.append_tool_result("c", "ok")
    again = reloaded(chat)
    assert again.to_json() == chat.to_json()
    assert again.messages[1].source == chat.messages[1].source


def test_results_are_joined_after_loading_as_before() -> None:
    chat = Conversation(Request(model="m", messages=(InputMessage("user", (Text("Hello"),)),)))
    calls = (ToolCall("a", "f"), ToolCall("b", "f"))
    chat.append(Message("m", "m", calls, "tool_use"))
    chat.append_tool_result("b", "two")
    again = Conversation.from_json(chat.to_json())
    for one in (chat, again):
        one.append_tool_result("a", "one")
    assert again == chat
    assert len(chat.messages) == 3


def test_json_is_text_or_the_decoded_object() -> None:
    chat = Conversation(Request(model="m"))
    data = chat.to_json()
    for form in (data, data.decode(), json.loads(data)):
        assert Conversation.from_json(form) == chat
    assert json.loads(data) == {
        "streamnorm_conversation": 1,
        "request": {"model": "m"},
        "appended": [],
    }


def test_half_of_a_surrogate_pair_is_replaced() -> None:
    chat = Conversation(Request(user="\ud83d"))
    assert Conversation.from_json(chat.to_json()).request.user == "\ufffd"


def test_half_of_a_surrogate_pair_is_replaced_in_the_history() -> None:
    chat = Conversation(Request(messages=(InputMessage("user", (Text("a\ud83d"),)),)))
    chat.append(InputMessage("user", (Text("\udc00b", extra={"mcp": {"\ud83d": ["\udc00"]}}),)))
    first, second = Conversation.from_json(chat.to_json()).messages
    assert first.blocks == (Text("a\ufffd"),)
    assert second.blocks == (Text("\ufffdb", extra={"mcp": {"\ufffd": ["\ufffd"]}}),)


def packed(message: dict[str, Any]) -> dict[str, Any]:
    return {"streamnorm_conversation": 1, "request": {"messages": [message]}}


LONG = {"type": "tool_result", "tool_call_id": "i" * 600}


def sourced(**source: Any) -> dict[str, Any]:
    whole = {"dialect": "anthropic", "value": {}, "changed": {}, **source}
    return packed({"role": "user", "source": whole})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("[]", "$: no JSON object"),
        ("{", "expected a JSON object"),
        ({}, "$.streamnorm_conversation: no conversation of version 1, expected one"),
        ({"streamnorm_conversation": 2}, "no conversation of version 1"),
        ({"streamnorm_conversation": 1}, "$: object missing required field `request`"),
        (packed({"role": "king"}), "$.request.messages[0].role: "),
        (packed({"role": "user", "blocks": [{"type": "text", "text": 5}]}), "expected `str`"),
        (packed({"role": "user", "source": 5}), "$: expected `object`, got `int`"),
        (sourced(value="x"), "$.value: expected `object | array | null`"),
        (sourced(changed=[]), "$.changed: expected `object`"),
        (sourced(changed={"role": 5}), "$.role: expected `str`"),
        (
            packed(
                {"role": "user", "blocks": [{"type": "tool_result", "tool_call_id": "i" * 600}]}
            ),
            "600 characters, expected at most 512",
        ),
    ],
)
def test_what_is_no_conversation_is_refused(value: Any, text: str) -> None:
    with pytest.raises(DecodeError) as caught:
        Conversation.from_json(value)
    assert text in str(caught.value)


def test_an_unknown_change_of_a_source_is_ignored() -> None:
    assert (
        Conversation.from_json(sourced(changed={"later": 1})).messages[0].source.dialect
        == "anthropic"
    )


def test_a_result_without_its_call_is_refused() -> None:
    result = {"type": "tool_result", "tool_call_id": "c"}
    with pytest.raises(EncodeError, match="result of tool call 'c', which no message before it"):
        Conversation.from_json(packed({"role": "user", "blocks": [result]}))
