"""Requests of clients as they reach models and servers that are not their own."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_chat.requests import without_source

from streamnorm import (
    Encoded,
    EncodeError,
    InputMessage,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    decode_request,
    encode_request,
    translate_request,
)
from streamnorm.tools import Namespace

QUESTION = {"role": "user", "content": "Rome?"}
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def translated(
    body: dict[str, Any], source: str, to: str, server: str | None = None, model: str = "m"
) -> tuple[Encoded, list[str]]:
    """Return the request for a target, and what it lost.

    One that is in the target's dialect is encoded as if another dialect had given it.
    """
    request = decode_request({**body, "model": model}, source)
    if source == to:
        request = without_source(request)
    encoded = encode_request(request, to, server=server)
    return encoded, [loss.feature for loss in encoded.losses]


MIDDLE = {
    "max_completion_tokens": 5,
    "messages": [
        {"role": "system", "content": "Be brief."},
        QUESTION,
        {"role": "assistant", "content": "Hot."},
        {"role": "system", "content": "In French now."},
        {"role": "user", "content": "And you?"},
    ],
}


@pytest.mark.parametrize(
    ("server", "model", "lost"),
    [
        (None, "claude-opus-5", "system_moved"),
        (None, "claude-opus-4-7", "system_demoted"),
        (None, "claude-sonnet-5", "system_demoted"),
        ("vertex", "claude-opus-5", "system_demoted"),
        ("bedrock", "anthropic.claude-opus-5", "system_demoted"),
    ],
)
def test_instruction_in_the_middle(server: str | None, model: str, lost: str) -> None:
    encoded, losses = translated(MIDDLE, "openai_chat", "anthropic", server, model)
    *_, third, fourth = encoded.body["messages"]
    asked = {"role": "user", "content": "And you?"}
    if lost == "system_moved":
        assert [third, fourth] == [asked, {"role": "system", "content": "In French now."}]
    else:
        text = "<system>\nIn French now.\n</system>"
        assert [third, fourth] == [{"role": "user", "content": text}, asked]
    assert losses == [lost]


@pytest.mark.parametrize("server", ["minimax", "openrouter", "vllm"])
def test_instruction_in_the_middle_of_a_compatible_server(server: str) -> None:
    """Code 2013 of MiniMax; rewritten in silence by OpenRouter; refused by Qwen's template."""
    encoded, losses = translated(MIDDLE, "openai_chat", "openai_chat", server, "qwen4")
    assert [message["role"] for message in encoded.body["messages"]] == [
        *("system", "user", "assistant", "user", "user")
    ]
    assert losses == ["system_demoted"]


def test_developer_is_system_where_a_server_does_not_know_it() -> None:
    body = {"messages": [{"role": "developer", "content": "Be brief."}, QUESTION]}
    encoded, losses = translated(body, "openai_chat", "openai_chat", "zai", "glm-5.2")
    assert encoded.body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert losses == []


THINKING = {
    "max_tokens": 16_000,
    "tools": [{"name": "get_weather", "input_schema": WEATHER}],
    "messages": [
        QUESTION,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Use it.", "signature": "EqQBCkYI"},
                {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "18 °C"}],
        },
    ],
}


@pytest.mark.parametrize(
    ("server", "model", "thought", "lost"),
    [
        (None, "m", {}, "reasoning_dropped"),
        ("groq", "m", {}, "reasoning_dropped"),
        ("deepseek", "m", {"reasoning_content": "Use it."}, "signature_dropped"),
        ("kimi", "m", {"reasoning_content": "Use it."}, "signature_dropped"),
        ("zai", "m", {"reasoning_content": "Use it."}, "signature_dropped"),
        ("ollama", "m", {"reasoning": "Use it."}, "signature_dropped"),
        ("cerebras", "zai-glm-4.7", {"content": "<think>Use it.</think>"}, "signature_dropped"),
        (
            "mistral",
            "m",
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Use it."}]}]},
            "signature_dropped",
        ),
    ],
)
def test_signed_thinking_in_a_tool_loop(
    server: str | None, model: str, thought: dict[str, Any], lost: str
) -> None:
    encoded, losses = translated(THINKING, "anthropic", "openai_chat", server, model)
    message = encoded.body["messages"][1]
    fields = {name: value for name, value in message.items() if name not in ("role", "tool_calls")}
    assert fields == thought
    assert losses == [lost]


@pytest.mark.parametrize(
    ("server", "fields", "prefix", "lost"),
    [
        ("vllm", {"continue_final_message": True, "add_generation_prompt": False}, {}, []),
        ("mistral", {}, {"prefix": True}, []),
        ("deepseek-beta", {}, {"prefix": True, "reasoning_content": ""}, []),
        ("deepseek", {}, {"reasoning_content": ""}, ["prefill_not_continued"]),
    ],
)
def test_prefill(
    server: str, fields: dict[str, Any], prefix: dict[str, Any], lost: list[str]
) -> None:
    last = {"role": "assistant", "content": "{"}
    body = {"max_tokens": 1000, "messages": [QUESTION, last]}
    encoded, losses = translated(body, "anthropic", "openai_chat", server)
    assert encoded.body["messages"][1] == {**last, **prefix}
    assert {name: encoded.body[name] for name in fields} == fields
    assert losses == lost


def test_messages_of_one_role_are_joined_where_they_must_alternate() -> None:
    body = {"messages": [QUESTION, {"role": "user", "content": "Now?"}]}
    encoded, losses = translated(body, "openai_chat", "openai_chat", "vllm", "gemma-4")
    assert encoded.body["messages"] == [{"role": "user", "content": "Rome?\n\nNow?"}]
    assert losses == ["messages_merged"]


FORCED = {
    "max_completion_tokens": 5,
    "messages": [QUESTION],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": WEATHER}}],
    "tool_choice": "required",
}


@pytest.mark.parametrize(
    ("to", "server", "model", "choice", "lost"),
    [
        ("anthropic", None, "claude-opus-5", {"type": "any"}, []),
        ("anthropic", None, "claude-fable-5-1", {"type": "auto"}, ["tool_choice_weakened"]),
        ("openai_chat", "mistral", "m", "any", []),
        ("openai_chat", "deepseek", "deepseek-v4", "auto", ["tool_choice_weakened"]),
        ("openai_chat", "deepseek", "deepseek-chat", "required", []),
        ("openai_chat", "kimi", "kimi-k2.6", "auto", ["tool_choice_weakened"]),
        ("openai_chat", "ollama", "m", "auto", ["tool_choice_weakened"]),
    ],
)
def test_forced_choice(
    to: str, server: str | None, model: str, choice: object, lost: list[str]
) -> None:
    encoded, losses = translated(FORCED, "openai_chat", to, server, model)
    assert encoded.body["tool_choice"] == choice
    assert losses == lost


SAMPLED = {"messages": [QUESTION], "max_completion_tokens": 99, "temperature": 0.5, "top_p": 0.9}


@pytest.mark.parametrize(
    ("body", "to", "model", "lost"),
    [
        ({}, "openai_responses", "o3", ["temperature", "top_p"]),
        ({}, "openai_responses", "gpt-5.1", []),
        ({"reasoning_effort": "none"}, "openai_responses", "gpt-5.6", []),
        ({"reasoning_effort": "low"}, "openai_responses", "gpt-5.1", ["temperature", "top_p"]),
        ({}, "openai_responses", "gpt-5.6", ["temperature", "top_p"]),
        ({}, "anthropic", "claude-opus-4-5", ["temperature", "top_p"]),
        ({}, "gemini", "gemini-3-pro", []),
    ],
)
def test_sampling(body: dict[str, Any], to: str, model: str, lost: list[str]) -> None:
    _, losses = translated({**SAMPLED, **body}, "openai_chat", to, None, model)
    assert losses == lost


def test_sampling_reaches_an_older_version() -> None:
    body = {**SAMPLED, "model": "claude-opus-4-5"}
    encoded = translate_request(body, dialect="openai_chat", to="anthropic", version="2023-06-01")
    assert encoded.body["temperature"] == 0.5
    assert encoded.headers == {"anthropic-version": "2023-06-01"}
    # 4.1 and later refuse both together.
    assert [loss.feature for loss in encoded.losses] == ["top_p"]


@pytest.mark.parametrize(
    ("effort", "server", "model", "fields"),
    [
        ("none", "deepseek", "deepseek-v4", {"thinking": {"type": "disabled"}}),
        ("high", "openrouter", "m", {"reasoning": {"effort": "high"}}),
        ("none", "qwen", "qwen4", {"enable_thinking": False}),
        ("high", "kimi", "kimi-k2.6", {"thinking": {"type": "enabled"}}),
        ("medium", "groq", "qwen3-32b", {"reasoning_effort": "default"}),
        ("medium", "zai", "glm-5.3", {"reasoning_effort": "high"}),
    ],
)
def test_effort_is_asked_for_in_the_words_of_the_server(
    effort: str, server: str, model: str, fields: dict[str, Any]
) -> None:
    body = {"messages": [QUESTION], "reasoning_effort": effort}
    encoded, _ = translated(body, "openai_chat", "openai_chat", server, model)
    assert encoded.body == {"model": model, "messages": [QUESTION], **fields}


def test_schema_is_dropped_beside_tools_where_a_model_cannot_have_both() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": WEATHER}}
    body = {**FORCED, "tool_choice": "auto", "response_format": form}
    for model, is_dropped in (("gemini-2.5-flash", True), ("gemini-3-pro", False)):
        encoded, losses = translated(body, "openai_chat", "gemini", None, model)
        assert ("schema_dropped" in losses) is is_dropped
        assert ("responseJsonSchema" in str(encoded.body)) is not is_dropped


def test_ids_of_mistral_have_nine_characters() -> None:
    encoded, _ = translated(THINKING, "anthropic", "openai_chat", "mistral")
    _, call, result, *_ = encoded.body["messages"]
    assert len(call["tool_calls"][0]["id"]) == 9
    assert result["tool_call_id"] == call["tool_calls"][0]["id"]


@pytest.mark.parametrize("server", ["sglang", "vllm"])
def test_file_id_of_openai_is_refused_where_no_files_are_stored(server: str) -> None:
    image = {"type": "input_image", "file_id": "file-1", "detail": "auto"}
    body = {"input": [{"role": "user", "content": [image]}]}
    with pytest.raises(EncodeError, match="file id of another vendor") as raised:
        translated(body, "openai_responses", "openai_chat", server, "qwen3-32b")
    assert raised.value.path == "messages[0].blocks[0]"


def test_result_without_an_id_has_the_name_that_its_call_has_in_the_target() -> None:
    """Also where all results are in place and the server takes no ids."""
    namespace = Namespace("ns", "Tools.")
    request = Request(
        model="gemini-3-pro",
        messages=(
            InputMessage("user", (Text("Go."),)),
            InputMessage("assistant", (ToolCall("", "f", "{}", namespace="ns"),)),
            InputMessage("user", (ToolResult("", (Text("a"),), name="f"),)),
        ),
        tools=(Tool("f", input_schema={"type": "object"}, namespace=namespace),),
    )
    body = encode_request(request, "gemini", server="vertex", repair="fill").body
    [call] = [part["functionCall"]["name"] for part in body["contents"][1]["parts"]]
    [result] = [part["functionResponse"]["name"] for part in body["contents"][2]["parts"]]
    assert (call, result) == ("ns__f", "ns__f")


@pytest.mark.parametrize("server", [None, "vertex"])
def test_resolution_of_an_image_is_lost_where_gemini_has_one_for_the_request(
    server: str | None,
) -> None:
    picture = {"url": "data:image/png;base64,AAAA", "detail": "low"}
    image = {"type": "image_url", "image_url": picture}
    body = {"messages": [{"role": "user", "content": [image]}]}
    file = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    encoded, losses = translated(body, "openai_chat", "gemini", server, "gemini-2.5-flash")
    assert (encoded.body["contents"][0]["parts"], losses) == ([file], ["detail"])
    encoded, losses = translated(body, "openai_chat", "gemini", server, "gemini-3-pro")
    part = {**file, "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"}}
    assert (encoded.body["contents"][0]["parts"], losses) == ([part], [])


@pytest.mark.parametrize("to", ["openai_chat", "gemini"])
def test_alternatives_without_log_probabilities_are_dropped(to: str) -> None:
    """Responses returns them where `include` asks for them, and the others refuse the number."""
    body = {"input": "Rome?", "top_logprobs": 2}
    encoded, losses = translated(body, "openai_responses", to)
    assert losses == ["top_logprobs"]
    assert "logprobs" not in str(encoded.body).lower()
    asked = {**body, "include": ["message.output_text.logprobs"]}
    encoded, losses = translated(asked, "openai_responses", to)
    assert losses == []
    options = encoded.body.get("generationConfig", encoded.body)
    fields = [name for name in options if "logprobs" in name.lower()]
    assert {name: options[name] for name in fields} == (
        {"logprobs": 2, "responseLogprobs": True}
        if to == "gemini"
        else {"logprobs": True, "top_logprobs": 2}
    )


CONNECTOR = {
    "type": "mcp",
    "server_label": "mail",
    "connector_id": "connector_gmail",
    "authorization": "ya29",
    "require_approval": "never",
}


@pytest.mark.parametrize("to", ["anthropic", "gemini", "gemini_interactions"])
def test_server_that_only_its_vendor_can_reach_is_not_offered(to: str) -> None:
    """A connector of OpenAI has no URL, and its token is for nobody else."""
    body = {"input": "Any mail?", "tools": [CONNECTOR], "max_output_tokens": 99}
    with pytest.raises(EncodeError, match="no tool but the MCP server mail") as raised:
        translated(body, "openai_responses", to)
    assert raised.value.path == "tools"
    function = {"type": "function", "name": "f", "parameters": WEATHER, "strict": False}
    body["tools"] = [function, CONNECTOR]
    encoded, losses = translated(body, "openai_responses", to)
    assert "mcp_server_dropped" in losses
    assert "mail" not in str(encoded.body["tools"])
    assert "ya29" not in str(encoded.body)
    request = decode_request({**body, "model": "m"}, "openai_responses")
    assert encode_request(request, "openai_responses").body["tools"] == [function, CONNECTOR]
