"""Conversations: what is appended, what they ask, and what never changes them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from streamnorm import (
    Conversation,
    DecodeError,
    EncodeError,
    Image,
    InputMessage,
    Loss,
    Message,
    Reasoning,
    Reply,
    Request,
    ServerToolCall,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    TruncatedStream,
    UnknownDialect,
    UpstreamError,
    decode_request,
    message_events,
)
from streamnorm._core.bodies.request import ToolName

TOOL = Tool("weather", "Tells the weather", {"type": "object"})
BASE = Request(model="claude-sonnet-5", system=(Text("Be brief."),), tools=(TOOL,))
ASKED = InputMessage("user", (Text("How warm is it in Oslo, and in Rome?"),))
CALLS = (ToolCall("c1", "weather", '{"city":"Oslo"}'), ToolCall("c2", "weather", '{"city":"Rome"}'))
ANSWER = Message("m", "some-model", (Text("Let me see."), *CALLS), "tool_use")

BODIES: dict[str, dict[str, Any]] = {
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    "openai_chat": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-5",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "Hi"},
            }
        ],
    },
    "gemini": {
        "candidates": [
            {"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP"}
        ]
    },
    "gemini_interactions": {
        "id": "v1_1",
        "object": "interaction",
        "model": "gemini-3-pro-preview",
        "status": "completed",
        "steps": [{"type": "model_output", "content": [{"type": "text", "text": "Hi"}]}],
    },
}


def asked(base: Request = BASE) -> Conversation:
    chat = Conversation(base)
    chat.append(ASKED)
    return chat


def called() -> Conversation:
    chat = asked()
    chat.append(ANSWER)
    return chat


def test_the_history_is_what_the_request_asks() -> None:
    chat = asked()
    assert chat.messages == (ASKED,)
    assert chat.request.system == BASE.system
    assert chat.request.tools == BASE.tools
    assert chat.request.messages == (ASKED,)
    assert chat.request is chat.request
    assert repr(called()) == "<Conversation: 2 messages, 2 open tool calls>"


def test_a_conversation_begins_with_the_messages_of_its_request() -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
    request = decode_request(body, "anthropic")
    chat = Conversation(request)
    assert chat.request is request
    assert chat.dump("anthropic").body == body
    chat.append(BODIES["anthropic"])
    assert chat.dump("anthropic").body == {
        **body,
        "messages": [*body["messages"], {"role": "assistant", "content": "Hi"}],  # type: ignore[misc]
    }


def test_conversations_of_one_history_are_equal() -> None:
    assert asked() == asked()
    assert asked() != called()
    assert asked() != asked(Request(model="other"))
    assert asked() != "asked"


@pytest.mark.parametrize("dialect", list(BODIES))
@pytest.mark.parametrize("form", [dict, json.dumps, lambda body: json.dumps(body).encode()])
@pytest.mark.parametrize("named", [True, False])
def test_the_body_of_a_response_is_appended(dialect: str, form: Any, named: bool) -> None:
    chat = asked()
    chat.append(form(BODIES[dialect]), dialect=dialect if named else None)
    (_, answer) = chat.messages
    assert (answer.role, answer.blocks) == ("assistant", (Text("Hi"),))


def test_an_answer_is_appended() -> None:
    chat = called()
    assert chat.messages[1] == InputMessage("assistant", ANSWER.blocks)
    assert chat.open_tool_calls() == CALLS


def test_results_are_one_message_in_the_order_of_their_calls() -> None:
    chat = called()
    chat.append_tool_result("c2", "31", is_error=True)
    assert chat.open_tool_calls() == CALLS[:1]
    image = Image("image/png", "iVBORw0KGgo=")
    chat.append_tool_result("c1", [Text("4"), image])
    assert chat.open_tool_calls() == ()
    assert chat.messages[2:] == (
        InputMessage(
            "user",
            (ToolResult("c1", (Text("4"), image)), ToolResult("c2", (Text("31"),), is_error=True)),
        ),
    )


def test_a_result_never_changes_a_message_that_was_appended_with_content() -> None:
    chat = called()
    chat.append_tool_result("c1", "4")
    said = InputMessage("user", (Text("And hurry."),))
    chat.append(said)
    chat.append_tool_result("c2", "31")
    assert chat.messages[2:] == (
        InputMessage("user", (ToolResult("c1", (Text("4"),)),)),
        said,
        InputMessage("user", (ToolResult("c2", (Text("31"),)),)),
    )
    results = [block["type"] for block in chat.dump("anthropic").body["messages"][2]["content"]]
    assert results == ["tool_result", "tool_result"]


def test_results_of_the_request_that_a_conversation_begins_with_stay_as_they_are() -> None:
    result = InputMessage("user", (ToolResult("c1"),))
    begun = Request(messages=(ASKED, InputMessage("assistant", CALLS), result))
    chat = Conversation(begun)
    chat.append_tool_result("c2", "31")
    assert chat.messages[:3] == begun.messages
    assert len(chat.messages) == 4
    assert Conversation.from_json(chat.to_json()) == chat


@pytest.mark.parametrize(
    "dialect", ["anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions"]
)
def test_the_answer_has_the_names_of_the_client_again(dialect: str) -> None:
    reply = Reply(tools={"ns__weather": ToolName("weather", "ns")})
    renamed = Message("m", "m", (ToolCall("c1", "ns__weather", "{}"),), "tool_use")
    by_message, by_stream = asked(), asked()
    by_message.append(renamed, reply=reply)
    with by_stream.append_stream(dialect=dialect, reply=reply) as answer:
        for event in message_events(renamed):
            answer.push(event)
    for chat in (by_message, by_stream):
        assert chat.open_tool_calls() == (ToolCall("c1", "weather", "{}", namespace="ns"),)


# Fields and signatures of one vendor


def test_what_only_a_vendor_knows_goes_back_to_it_alone() -> None:
    blocks = (
        Reasoning(("Hm.",), "c2ln", "anthropic"),
        ServerToolCall("srvtoolu_1", "web_search", '{"query":"q"}', "server_tool_use"),
        ToolCall("c1", "weather", "{}"),
    )
    caller = {"caller": {"type": "direct"}}
    chat = asked()
    chat.append(
        Message("m", "m", blocks, "tool_use", block_extras=(None, caller, caller)),
        dialect="claude",
    )
    chat.append_tool_result("c1", "4")
    assert chat.dump("anthropic").body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": "q"},
            **caller,
        },
        {"type": "tool_use", "id": "c1", "name": "weather", "input": {}, **caller},
    ]
    made = chat.dump("openai_chat", model="gpt-5")
    assert made.body["model"] == "gpt-5"
    assert made.body["messages"][2] == {
        "role": "assistant",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        ],
    }
    assert {"caller", "reasoning_dropped", "server_history_dropped"} <= {
        loss.feature for loss in made.losses
    }


def test_parts_of_a_message_of_responses_go_back_as_one_item() -> None:
    """OpenAI refuses two items with one id: "Duplicate item found with id msg_1"."""
    said: dict[str, Any] = {"type": "output_text", "text": "a", "annotations": []}
    refused: dict[str, Any] = {"type": "refusal", "refusal": "b"}
    item: dict[str, Any] = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "phase": "final_answer",
        "content": [said, refused, said],
    }
    other = {**item, "id": "msg_2", "content": [said]}
    body = {"object": "response", "status": "completed", "model": "m", "output": [item, other]}
    chat = Conversation(Request(model="gpt-5.5", messages=(InputMessage("user", (Text("q"),)),)))
    chat.append(body, dialect="openai_responses")
    chat.append(InputMessage("user", (Text("q"),)))
    assert chat.dump("openai_responses").body["input"][1:-1] == [item, other]


def test_parts_of_a_message_whose_id_is_refused_go_back_as_one_item() -> None:
    said: dict[str, Any] = {"type": "output_text", "text": "a", "annotations": []}
    cited = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
    for parts in ([said, said], [{**said, "annotations": [cited]}, said]):
        item: dict[str, Any] = {
            "type": "message",
            "id": "chatcmpl-1",
            "role": "assistant",
            "status": "completed",
            "phase": "commentary",
            "content": parts,
        }
        other = {**item, "id": "chatcmpl-2", "phase": "final_answer", "content": [said]}
        body = {"object": "response", "status": "completed", "model": "m", "output": [item, other]}
        chat = asked()
        chat.append(body, dialect="openai_responses")
        chat.append(InputMessage("user", (Text("q"),)))
        made = chat.dump("openai_responses", server="openai")
        first, last = made.body["input"][1:-1]
        assert re.fullmatch("msg_.{1,60}", first["id"])
        assert {**first, "id": "chatcmpl-1"} == item
        assert last == {"role": "assistant", "content": "a", "phase": "final_answer"}
        assert made.losses == (Loss("item_id", "messages", 2, "dropped"),)


def test_items_of_responses_go_back_with_their_ids_and_phases() -> None:
    chat = asked()
    extras = ({"item_id": "msg_1", "phase": "commentary"}, {"item_id": "fc_1"})
    chat.append(
        Message("r", "m", (Text("Hi"), CALLS[0]), "tool_use", block_extras=extras),
        dialect="openai_responses",
    )
    chat.append_tool_result("c1", "4")
    message, call, output = chat.dump("openai_responses").body["input"][1:]
    assert (message["id"], message["phase"], message["type"]) == ("msg_1", "commentary", "message")
    assert (call["id"], call["call_id"]) == ("fc_1", "c1")
    assert output == {"type": "function_call_output", "call_id": "c1", "output": "4"}


@pytest.mark.parametrize(
    ("server", "has_id"), [("openai", False), (None, False), ("copilot", True), ("vllm", True)]
)
def test_ids_of_another_server_go_to_servers_that_take_them(
    server: str | None, has_id: bool
) -> None:
    """OpenAI says: "Invalid 'input[1].id': … Expected an ID that begins with 'msg'."."""
    chat = asked()
    # Copilot's items have another id at their end.
    extras = ({"item_id": "b" * 65}, {"item_id": "chatcmpl-1"})
    thought = Reasoning(("Hm.",), "sealed", "openai", "a" * 65)  # as Copilot's
    answer = Message("r", "m", (thought, Text("Hi")), "end_turn", block_extras=extras)
    chat.append(answer, dialect="openai_responses")
    chat.append(InputMessage("user", (Text("q"),)))
    made = chat.dump("openai_responses", server=server)
    reasoning, item = made.body["input"][1:-1]
    assert reasoning["encrypted_content"] == "sealed"
    assert ["id" in each for each in (reasoning, item)] == [has_id, has_id]
    assert made.losses == (() if has_id else (Loss("item_id", "messages", 3, "dropped"),))


def test_an_answer_of_an_unknown_dialect_loses_the_fields_of_its_vendor() -> None:
    answer = Message("m", "m", (Text("Hi"),), "end_turn", block_extras=({"lang": "en"},))
    chat = asked()
    chat.append(answer)
    chat.append(answer, dialect="ui_message_stream")  # has no requests
    assert chat.messages[1:] == (InputMessage("assistant", (Text("Hi"),)),) * 2


# What cannot be appended


@pytest.mark.parametrize(
    ("item", "options", "error", "text"),
    [
        (
            Message("m", "m", (Text("Hi"),)),
            {},
            TruncatedStream,
            "answer of 1 blocks without a stop reason, expected one",
        ),
        (ANSWER, {"dialect": "klingon"}, UnknownDialect, "no dialect 'klingon'"),
        ({"x": 1}, {}, DecodeError, "response of no known dialect"),
        ("no json", {}, DecodeError, "no JSON"),
        (
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            {},
            UpstreamError,
            "Overloaded",
        ),
        (
            InputMessage("user", (ToolResult("c1"),)),
            {},
            EncodeError,
            "messages[1].blocks[0]: result of tool call 'c1', which no message before it has, "
            "expected one of 0 open calls",
        ),
        (
            InputMessage("assistant", (CALLS[0], CALLS[0])),
            {},
            EncodeError,
            "messages[1].tool_calls[1]: second tool call with the id 'c1', expected an id for each",
        ),
    ],
)
def test_what_cannot_be_appended_leaves_the_history_as_it_was(
    item: Any, options: dict[str, Any], error: type[Exception], text: str
) -> None:
    chat = asked()
    with pytest.raises(error) as caught:
        chat.append(item, **options)
    assert text in str(caught.value)
    assert chat == asked()
    assert chat.open_tool_calls() == ()


@pytest.mark.parametrize(
    ("id", "text"),
    [
        ("c3", "'c3', which no message before it has, expected one of 1 open calls"),
        ("c1", "second result of tool call 'c1', expected one"),
        ("old", "'old' after the next assistant message, expected it before that"),
    ],
)
def test_a_result_that_no_call_waits_for_is_refused(id: str, text: str) -> None:
    def conversation() -> Conversation:
        chat = asked()
        chat.append(Message("m", "m", (ToolCall("old", "weather"),), "tool_use"))
        chat.append_tool_result("old", "ok")
        chat.append(ANSWER)
        chat.append_tool_result("c1", "4")
        return chat

    chat = conversation()
    with pytest.raises(EncodeError) as caught:
        chat.append_tool_result(id, "x")
    assert str(caught.value).startswith("tool_call_id: ")
    assert text in str(caught.value)
    assert chat == conversation()
    assert chat.open_tool_calls() == CALLS[1:]


def test_a_result_before_any_message_is_refused() -> None:
    chat = Conversation()
    with pytest.raises(EncodeError, match="expected one of 0 open calls"):
        chat.append_tool_result("c1", "4")
    assert chat == Conversation()
