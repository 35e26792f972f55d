"""Written bodies as a server takes them: messages of the assistant, and cache marks."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_chat.requests import body_of

from streamnorm import Encoded, EncodeError, decode_request, encode_request

HI = {"role": "user", "content": "Hi"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLING: dict[str, Any] = {"role": "assistant", "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "1"}
SIGNED = {
    "type": "reasoning.text",
    "text": "Think.",
    "signature": "EqQB",
    "format": "anthropic-claude-v1",
    "index": 0,
}
PLACEHOLDER = {
    "type": "reasoning.encrypted",
    "id": "call_1",
    "index": 0,
    "data": "skip_thought_signature_validator",
    "format": "google-gemini-v1",
}
CLAUDE, GEMINI = "anthropic/claude-sonnet-4.5", "google/gemini-3-pro-preview"


def own(server: str, model: str, *messages: dict[str, Any], **fields: Any) -> Encoded:
    """Return a request of the dialect as a server is sent it."""
    body = {**body_of(*messages, **fields), "model": model}
    return encode_request(decode_request(body, "openai_chat"), "openai_chat", server=server)


def features(encoded: Encoded) -> list[str]:
    return [loss.feature for loss in encoded.losses]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, ""),
        ({"reasoning_content": None}, ""),
        ({"reasoning": "R"}, "R"),
        ({"reasoning_details": [{"text": "A"}, {"text": "B"}, {"data": "x"}, 5]}, "A\n\nB"),
    ],
    ids=str,
)
def test_reasoning_of_calls_goes_back_in_the_field_that_is_demanded(
    fields: dict[str, Any], text: str
) -> None:
    message = {**CALLING, **fields}
    encoded = own("kimi", "kimi-k2.5", HI, message, RESULT)
    assert encoded.body["messages"] == [HI, {**message, "reasoning_content": text}, RESULT]
    assert features(encoded) == ["reasoning_content"]


def test_reasoning_is_not_demanded_of_a_model_that_does_not_reason() -> None:
    off = {"thinking": {"type": "disabled"}}
    for model, fields in (("kimi-k2.5", off), ("kimi-k2-0905-preview", {})):
        assert own("kimi", model, HI, CALLING, RESULT, **fields).losses == ()
    assert features(own("deepseek", "deepseek-chat", HI, CALLING, RESULT)) == []
    thinks = {"thinking": {"type": "enabled"}}
    encoded = own("deepseek", "deepseek-chat", HI, CALLING, RESULT, **thinks)
    assert features(encoded) == ["reasoning_content"]


def test_words_that_a_server_does_not_read_do_not_switch_its_reasoning_off() -> None:
    fields = {"enable_thinking": False, "reasoning_effort": "none"}
    encoded = own("deepseek", "deepseek-v4", HI, CALLING, RESULT, **fields)
    assert encoded.body["messages"][1]["reasoning_content"] == ""
    assert {name: encoded.body[name] for name in fields} == fields


def test_reasoning_that_is_there_stays_the_same_message() -> None:
    message = {**CALLING, "reasoning_content": "R"}
    body = body_of(HI, message, RESULT) | {"model": "kimi-k3"}
    request = decode_request(body, "openai_chat")
    encoded = encode_request(request, "openai_chat", server="kimi")
    assert encoded.body["messages"] is body["messages"]
    assert encoded.losses == ()


def test_details_without_a_signature_of_anthropic_go_back_to_no_claude() -> None:
    unsigned = [
        {**SIGNED, "signature": ""},
        {**SIGNED, "format": "google-gemini-v1"},
    ]
    sealed = {"type": "reasoning.encrypted", "data": "EqQB"}
    message = {"role": "assistant", "content": "Yes", "reasoning_details": [*unsigned, sealed]}
    encoded = own("openrouter", CLAUDE, HI, message, HI)
    assert encoded.body["messages"][1] == {**message, "reasoning_details": [sealed]}
    assert features(encoded) == ["reasoning_dropped"]
    encoded = own("openrouter", CLAUDE, HI, {**message, "reasoning_details": unsigned}, HI)
    assert encoded.body["messages"][1] == {"role": "assistant", "content": "Yes"}
    tagged = [{**SIGNED, "signature": "sn1.openai..eA", "format": "unknown"}]
    encoded = own("openrouter", CLAUDE, HI, {**message, "reasoning_details": tagged}, HI)
    assert encoded.body["messages"][1] == {"role": "assistant", "content": "Yes"}
    assert features(encoded) == ["reasoning_dropped"]
    same = {**message, "reasoning_details": [SIGNED, 5]}
    for legal in (same, {"role": "assistant", "content": "Yes"}):
        assert own("openrouter", CLAUDE, HI, legal, HI).body["messages"][1] is legal


def test_thinking_that_anthropic_signed_goes_back_to_claude() -> None:
    body = {
        "model": CLAUDE,
        "max_tokens": 5000,
        "messages": [
            HI,
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Think.", "signature": "EqQB"},
                    {"type": "text", "text": "Yes"},
                ],
            },
            HI,
        ],
    }
    request = decode_request(body, "anthropic")
    encoded = encode_request(request, "openai_chat", server="openrouter")
    message = {"role": "assistant", "content": "Yes", "reasoning_details": [SIGNED]}
    assert encoded.body["messages"][1] == message
    assert encoded.losses == ()


def test_calls_that_came_without_details_have_a_placeholder_at_gemini() -> None:
    encoded = own("openrouter", GEMINI, HI, CALLING, RESULT)
    assert encoded.body["messages"][1] == {**CALLING, "reasoning_details": [PLACEHOLDER]}
    assert features(encoded) == ["signature_placeholder"]
    details = {**CALLING, "reasoning_details": [{**PLACEHOLDER, "data": "sig"}]}
    assert own("openrouter", GEMINI, HI, details, RESULT).losses == ()
    assert own("openrouter", GEMINI, HI, {"role": "assistant", "content": "a"}, HI).losses == ()


def test_signature_of_a_call_stands_in_the_details_of_its_message() -> None:
    call = {"functionCall": {"id": "call_1", "name": "f", "args": {}}, "thoughtSignature": "c2ln"}
    answer = {"functionResponse": {"id": "call_1", "name": "f", "response": {"output": "1"}}}
    body = {
        "contents": [
            {"role": "user", "parts": [{"text": "Hi"}]},
            {"role": "model", "parts": [call]},
            {"role": "user", "parts": [answer]},
        ]
    }
    path = "/v1beta/models/gemini-3-pro-preview:generateContent"
    request = decode_request(body, "gemini", path=path)
    encoded = encode_request(request, "openai_chat", server="openrouter")
    message = {**CALLING, "reasoning_details": [{**PLACEHOLDER, "data": "c2ln"}]}
    assert encoded.body["messages"][1] == message
    assert encoded.losses == ()


def calling(arguments: Any) -> dict[str, Any]:
    call = {**CALL, "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "tool_calls": [CALL, call]}


@pytest.mark.parametrize("blank", ["", " "])
def test_blank_arguments_are_an_empty_object(blank: str) -> None:
    encoded = own("xai", "grok-4", HI, calling(blank), RESULT)
    assert encoded.body["messages"][1] == calling("{}")
    assert features(encoded) == ["arguments"]


def test_arguments_that_are_no_json_are_an_error_that_names_the_call() -> None:
    with pytest.raises(EncodeError, match="arguments of 5 characters") as raised:
        own("xai", "grok-4", HI, calling('{"a":'), RESULT)
    assert raised.value.path == "messages[1].tool_calls[1]"
    request = decode_request(body_of(HI, calling("5"), RESULT), "openai_chat")
    assert encode_request(request, "openai_chat", server="xai").losses == ()


def test_arguments_of_another_dialect_are_repaired_as_asked() -> None:
    item = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": '{"a":'}
    output = {"type": "function_call_output", "call_id": "call_1", "output": "1"}
    body = {"model": "grok-4", "input": ["Hi", item, output]}
    body = {"model": "grok-4", "input": [{"role": "user", "content": "Hi"}, item, output]}
    request = decode_request(body, "openai_responses")
    encoded = encode_request(request, "openai_chat", server="xai", arguments="raw")
    call = encoded.body["messages"][1]["tool_calls"][0]
    assert call["function"]["arguments"] == '{"_raw":"{\\"a\\":"}'


def test_thinking_in_the_content_is_left_out_where_it_is_refused() -> None:
    """Azure refuses parts of other types; LiteLLM's clients send Anthropic's thinking so."""
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s=="}
    hello = {"type": "text", "text": "Hello"}
    turns = (
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [thinking, hello]},
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": [thinking], "tool_calls": [CALL]},
        RESULT,
        {"role": "assistant", "content": [thinking]},
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": [hello]},
        {"role": "user", "content": "Go"},
    )
    encoded = own("azure", "gpt-4.1", *turns)
    assert features(encoded) == ["reasoning_dropped", "empty_message_dropped"]
    messages = encoded.body["messages"]
    assert [message.get("content") for message in messages if message["role"] == "assistant"] == [
        [hello],
        None,
        [hello],
    ]


def test_message_without_anything_is_dropped_where_it_is_refused() -> None:
    empty = {"role": "assistant", "content": ""}
    encoded = own("mistral", "mistral-large", HI, empty, HI)
    assert encoded.body["messages"] == [HI, HI]
    assert features(encoded) == ["empty_message_dropped"]
    assert own("groq", "llama-4", HI, empty, HI).losses == ()


# Cache marks


MARK = {"cache_control": {"type": "ephemeral"}}


def text(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": name, **fields}


def test_first_marks_are_dropped_beyond_those_that_are_accepted() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    system = {"role": "system", "content": "S"}
    said = [text("a", **MARK), "plain", text("b", **MARK), text("c")]
    body: dict[str, Any] = {
        "messages": [
            {**system, **MARK},
            {"role": "user", "content": said},
            {"role": "user", "content": [text("d", **MARK)]},
        ],
        "tools": [{**tool, **MARK}, tool],
    }
    encoded = own("openrouter", CLAUDE, *body["messages"], tools=body["tools"])
    assert encoded.body["messages"] == body["messages"]
    assert encoded.body["tools"] == [tool, tool]
    assert features(encoded) == ["cache_mark_dropped"]
    more = [*body["messages"], {"role": "user", "content": [text("e", **MARK)]}]
    encoded = own("openrouter", CLAUDE, *more, tools=body["tools"])
    assert encoded.body["messages"] == [system, *more[1:]]
    more = [*more, {"role": "user", "content": [text("f", **MARK)]}]
    encoded = own("openrouter", CLAUDE, *more)
    assert encoded.body["messages"][1]["content"] == [text("a"), *said[1:]]
    assert encoded.body["messages"][2:] == more[2:]


def test_number_of_marks_is_left_to_a_client_of_the_vendor() -> None:
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    said = {"role": "user", "content": [text(name, **mark) for name in "abcdef"]}
    body = {**body_of(said), "model": "gpt-5.6"}
    encoded = encode_request(decode_request(body, "openai_chat"), "openai_chat")
    assert encoded.body == body
    assert encoded.losses == ()
    # A client of another dialect cannot know the rule.
    parts = [text(name, **MARK) for name in "abcdef"]
    foreign = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": parts}]}
    translated = encode_request(decode_request(foreign, "anthropic"), "openai_chat")
    assert features(translated) == ["cache_mark_dropped"]
    assert [mark.keys() <= part.keys() for part in translated.body["messages"][0]["content"]] == [
        *[False] * 2,
        *[True] * 4,
    ]


def test_marks_stay_where_nobody_counts_them() -> None:
    said = {"role": "user", "content": [text(name, **MARK) for name in "abcdef"]}
    assert own("openrouter", "openai/gpt-5", said).losses == ()
    assert own("groq", "llama-4", said).losses == ()
