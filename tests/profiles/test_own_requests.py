"""Requests to named servers of the client's own dialect: what they refuse alone is changed."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from msgspec import structs
from support.rules.chat import messages, said

from streamnorm import EncodeError, ReasoningOptions, decode_request, encode_request

HI: dict[str, Any] = {"role": "user", "content": "Hi"}
ASKED_FOR_JSON = {"role": "system", "content": "Answer with a JSON object."}
SYSTEM: dict[str, Any] = {"role": "system", "content": "Be brief."}
DEVELOPER: dict[str, Any] = {"role": "developer", "content": [{"type": "text", "text": "Brief."}]}
YES: dict[str, Any] = {"role": "assistant", "content": "Yes"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLING: dict[str, Any] = {"role": "assistant", "tool_calls": [CALL]}
RESULT: dict[str, Any] = {"role": "tool", "tool_call_id": "call_1", "content": "1"}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
OTHER = {"type": "function", "function": {"name": "g", "parameters": {"type": "object"}}}
NAMED = {"type": "function", "function": {"name": "f"}}
TEXT = {"type": "text", "text": "Look."}
FILE = {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERg=="}}
LETTER = {"role": "user", "content": [FILE]}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "r", "schema": {"type": "object"}}}
JSON = {"type": "json_object"}
OK = {"role": "assistant", "content": "OK."}


LOOP = messages(HI, CALLING, RESULT, HI)
FORCED = {**messages(HI), "tools": TOOLS, "tool_choice": NAMED}
AUTO = {**FORCED, "tool_choice": "auto"}
WEAK = ["tool_choice_weakened"]
DROPPED = ["document_dropped", "empty_message_dropped"]

Row = tuple[str, str, dict[str, Any], dict[str, Any], list[str]]

CHAT: list[Row] = [
    # (server, model, body, body as it is sent, lost)
    *(
        (server, "m", messages(DEVELOPER, HI), messages({**DEVELOPER, "role": "system"}, HI), lost)
        for server in ("deepseek", "glm", "mistral", "vllm", "ollama", "lmstudio", "compatible")
        for lost in (["role"],)
    ),
    # DeepSeek
    ("deepseek", "deepseek-v4", FORCED, AUTO, WEAK),
    (
        "deepseek",
        "deepseek-v4",
        messages(HI, {**CALLING, "reasoning_details": [{"text": "R"}]}, RESULT),
        messages(HI, {**CALLING, "reasoning_content": "R"}, RESULT),
        ["reasoning_content", "reasoning_details"],
    ),
    (
        "deepseek",
        "deepseek-r1",
        messages(HI, {**YES, "reasoning_content": "R"}, HI),
        messages(HI, YES, HI),
        ["reasoning_content"],
    ),
    (
        "deepseek",
        "deepseek-chat",
        {**messages(HI), "response_format": SCHEMA},
        {**messages(ASKED_FOR_JSON, HI), "response_format": JSON},
        ["schema_dropped", "json_asked"],
    ),
    # Kimi
    ("kimi", "kimi-k2.5", FORCED, AUTO, WEAK),
    ("kimi", "kimi-k2", {**FORCED, "tool_choice": "required"}, AUTO, WEAK),
    (
        "kimi",
        "kimi-k2.5",
        {**messages(HI), "temperature": 0.5, "top_p": 0.9, "seed": 7},
        {**messages(HI), "seed": 7},
        ["temperature", "top_p"],
    ),
    (
        "kimi",
        "kimi-k2.5",
        {**messages(HI), "temperature": 1, "thinking": {"type": "disabled"}},
        {**messages(HI), "thinking": {"type": "disabled"}},
        ["temperature"],
    ),
    ("kimi", "kimi-k3", said(TEXT, FILE, SOUND, IMAGE), said(TEXT, IMAGE), ["file", "input_audio"]),
    (
        "kimi",
        "kimi-k2.5",
        {**messages(HI), "thinking": {"type": "enabled"}, "reasoning_effort": "high"},
        {**messages(HI), "thinking": {"type": "enabled"}},
        ["reasoning_effort"],
    ),
    (
        "kimi",
        "kimi-k3",
        {**messages(HI), "thinking": {"type": "enabled"}, "reasoning_effort": "high"},
        {**messages(HI), "reasoning_effort": "high"},
        ["thinking"],
    ),
    (
        "kimi",
        "kimi-k3",
        {**messages(HI), "reasoning_effort": "medium", "enable_thinking": True},
        {**messages(HI), "reasoning_effort": "high", "enable_thinking": True},
        ["effort_changed"],
    ),
    # GLM
    (
        "glm",
        "glm-4.6",
        {**messages(HI), "user_id": "ann", "user": "ann"},
        {
            **messages(HI),
            "user": "ann",
            "user_id": sha256(b"ann").hexdigest(),
        },
        ["user_id_hashed"],
    ),
    (
        "glm",
        "glm-5.3",
        {**messages(HI), "thinking": {"type": "disabled"}, "enable_thinking": False},
        {**messages(HI), "enable_thinking": False},
        ["effort_changed"],
    ),
    # MiniMax
    (
        "minimax",
        "minimax-m2",
        messages(SYSTEM, SYSTEM, HI, SYSTEM),
        messages(
            {"role": "system", "content": [{"type": "text", "text": "Be brief."}] * 2},
            HI,
            {"role": "user", "content": "<system>\nBe brief.\n</system>"},
        ),
        ["messages_merged", "system_demoted"],
    ),
    (
        "minimax",
        "minimax-m2",
        {**messages(HI), "temperature": 1.5},
        {**messages(HI), "temperature": 1.0},
        ["temperature_clamped"],
    ),
    # Qwen
    (
        "qwen",
        "qwen-plus",
        {**messages(HI), "enable_thinking": True, "thinking_budget": 512},
        {**messages(HI), "enable_thinking": False},
        ["reasoning"],
    ),
    ("qwen", "qwen3-32b", messages(HI), {**messages(HI), "enable_thinking": False}, ["reasoning"]),
    (
        "qwen",
        "qwen-plus",
        {**messages(HI), "enable_thinking": True, "stream": True},
        {**messages(HI), "stream": True, "enable_thinking": True, "thinking_budget": 10_000},
        ["reasoning"],
    ),
    (
        "qwen",
        "qwen-plus",
        {
            **messages(HI),
            "enable_thinking": True,
            "thinking_budget": 512,
            "stream": True,
            "response_format": JSON,
        },
        {**messages(HI), "enable_thinking": False, "stream": True, "response_format": JSON},
        ["reasoning"],
    ),
    (
        "qwen",
        "qwen-plus",
        {**FORCED, "enable_thinking": True, "thinking_budget": 512, "stream": True},
        {**AUTO, "enable_thinking": True, "thinking_budget": 512, "stream": True},
        WEAK,
    ),
    ("qwen", "qwq-plus", messages(HI), {**messages(HI), "stream": True}, ["stream"]),
    ("qwen", "qwen-plus", said(TEXT, FILE), said(TEXT), ["file"]),
    # Mistral
    *(
        (server, "mistral-large", LOOP, messages(HI, CALLING, RESULT, OK, HI), ["assistant_filled"])
        for server in ("nim", "scaleway")
    ),
    (
        "mistral",
        "mistral-large",
        {**messages(HI, YES), "max_completion_tokens": 5, "seed": 7, "tools": TOOLS},
        {
            **messages(HI, {**YES, "prefix": True}),
            "max_tokens": 5,
            "random_seed": 7,
            "tools": TOOLS,
        },
        ["max_completion_tokens", "seed", "prefix"],
    ),
    (
        "mistral",
        "mistral-large",
        {**FORCED, "tools": [*TOOLS, OTHER]},
        {**FORCED, "tool_choice": "any"},
        ["tool_choice_weakened", "tool_choice"],
    ),
    (
        "mistral",
        "mistral-large",
        messages(HI, {"role": "assistant", "refusal": "No."}, HI),
        messages(HI, {"role": "assistant", "content": "No."}, HI),
        ["refusal_as_text"],
    ),
    # xAI
    (
        "xai",
        "grok-4",
        {**messages(HI), "reasoning_effort": "high", "stop": ["a"], "presence_penalty": 1},
        messages(HI),
        ["reasoning", "stop_dropped", "presence_penalty"],
    ),
    (
        "xai",
        "grok-4.5",
        {**messages(HI), "reasoning_effort": "none"},
        {**messages(HI), "reasoning_effort": "low"},
        ["effort_changed"],
    ),
    # Groq
    (
        "groq",
        "llama-4",
        messages(HI, {**YES, "reasoning": "R", "reasoning_content": "R", "annotations": []}, HI),
        messages(HI, YES, HI),
        ["annotations", "reasoning", "reasoning_content"],
    ),
    (
        "groq",
        "llama-4",
        messages(HI, {"role": "assistant", "content": None, "refusal": "No."}, HI),
        messages(HI, {"role": "assistant", "content": "No."}, HI),
        ["refusal_as_text"],
    ),
    (
        "groq",
        "llama-4",
        {**messages(HI), "tools": TOOLS, "response_format": SCHEMA},
        {**messages(HI), "tools": TOOLS},
        ["schema_dropped"],
    ),
    (
        "groq",
        "qwen/qwen3-32b",
        {**messages(HI), "reasoning_effort": "high", "reasoning": {"effort": "low"}},
        {**messages(HI), "reasoning_effort": "default", "reasoning": {"effort": "low"}},
        ["effort_changed"],
    ),
    # Cerebras
    (
        "cerebras",
        "llama-4",
        {**messages(HI), "parallel_tool_calls": True, "logit_bias": {"5": 1}, "tools": TOOLS},
        {**messages(HI), "tools": TOOLS},
        ["parallel_tool_calls", "logit_bias"],
    ),
    # OpenAI's own
    (
        "groq",
        "llama-4",
        {
            **FORCED,
            "tools": [*TOOLS, OTHER],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [NAMED]},
            },
        },
        AUTO,
        ["allowed_tools_filtered"],
    ),
    # vLLM and llama.cpp
    (
        "vllm",
        "Qwen/Qwen3-32B",
        messages(SYSTEM, HI, SYSTEM, YES),
        {
            **messages(
                SYSTEM, HI, {"role": "user", "content": "<system>\nBe brief.\n</system>"}, YES
            ),
            "chat_template_kwargs": {"enable_thinking": False},
        },
        ["system_demoted", "chat_template_kwargs"],
    ),
    (
        "llamacpp",
        "devstral-small",
        messages(HI, HI, CALLING, RESULT, HI),
        messages({"role": "user", "content": "Hi\n\nHi"}, CALLING, RESULT, OK, HI),
        ["messages_merged", "assistant_filled"],
    ),
    *(
        (server, model, messages(HI, LETTER, YES, HI), messages(HI, YES, HI), DROPPED)
        for server, model in (("vllm", "mistral-small"), ("sglang", "gemma-4"))
    ),
    # LM Studio
    (
        "lmstudio",
        "llama-4",
        {**FORCED, "tools": [*TOOLS, OTHER], "response_format": JSON},
        {
            **FORCED,
            "tool_choice": "required",
            "response_format": {
                **SCHEMA,
                "json_schema": {"name": "response", "schema": {"type": "object"}},
            },
        },
        ["tool_choice_weakened", "type"],
    ),
]


@pytest.mark.parametrize(("server", "model", "body", "sent", "lost"), CHAT)
def test_chat_server_is_sent_what_it_does_not_refuse(
    server: str, model: str, body: dict[str, Any], sent: dict[str, Any], lost: list[str]
) -> None:
    asked = {"model": model, **body, "new": {"of": ["a server"]}}
    encoded = encode_request(decode_request(asked, "openai_chat"), "openai_chat", server=server)
    assert encoded.body == {"model": model, **sent, "new": asked["new"]}
    assert sorted(loss.feature for loss in encoded.losses) == sorted(lost)


def test_fields_stand_where_they_stood() -> None:
    body = {"temperature": 0.5, "model": "kimi-k3", "messages": [HI], "top_p": 0.9, "n": 1}
    encoded = encode_request(decode_request(body, "openai_chat"), "openai_chat", server="kimi")
    assert list(encoded.body) == ["model", "messages", "n"]


TURN: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
USE = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
USING: dict[str, Any] = {"role": "assistant", "content": [USE]}
BACK: dict[str, Any] = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"}
PICTURE = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
THINKING = {"type": "thinking", "thinking": "R", "signature": "EqQB"}
REDACTED = {"type": "redacted_thinking", "data": "EqQB"}
OFFERED = {"name": "f", "input_schema": {"type": "object"}, "new": 1}
ANSWER = {"type": "text", "text": "Yes"}


def turn(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


MESSAGES: list[Row] = [
    # DeepSeek
    (
        "deepseek",
        "deepseek-v4",
        {**messages(TURN), "thinking": {"type": "disabled"}, "output_config": {"effort": "high"}},
        {**messages(TURN), "thinking": {"type": "disabled"}},
        ["effort_changed"],
    ),
    (
        "deepseek",
        "deepseek-v4",
        {**messages(TURN), "tools": [OFFERED], "tool_choice": {"type": "any", "x": 1}},
        {**messages(TURN), "tools": [OFFERED], "tool_choice": {"type": "auto", "x": 1}},
        WEAK,
    ),
    (
        "deepseek",
        "deepseek-v4",
        {**messages(TURN), "tools": [], "tool_choice": {"type": "any"}},
        {**messages(TURN), "tools": []},
        ["tool_choice", *WEAK],
    ),
    (
        "deepseek",
        "deepseek-v4",
        messages(turn("user", ANSWER, PICTURE), turn("assistant", REDACTED, ANSWER), TURN),
        messages({"role": "user", "content": "Yes"}, turn("assistant", ANSWER), TURN),
        ["image_dropped", "redacted_thinking"],
    ),
    (
        "deepseek",
        "deepseek-v4",
        messages(TURN, USING, turn("user", {**BACK, "content": [PICTURE]})),
        messages(TURN, USING, turn("user", {"type": "tool_result", "tool_use_id": "toolu_1"})),
        ["image_dropped"],
    ),
    (
        "deepseek",
        "deepseek-v4",
        {**messages(TURN), "temperature": 2.5},
        {**messages(TURN), "temperature": 2.0},
        ["temperature_clamped"],
    ),
    # MiniMax, Qwen, vLLM: no message of the system
    *(
        (
            server,
            "m",
            messages(SYSTEM, TURN, SYSTEM),
            {
                "system": "Be brief.",
                **messages(TURN, {"role": "user", "content": "<system>\nBe brief.\n</system>"}),
            },
            ["system_moved", "system_demoted"],
        )
        for server in ("minimax", "qwen", "vllm")
    ),
    (
        "minimax",
        "minimax-m2",
        messages(TURN, USING, turn("user", BACK, ANSWER)),
        messages(TURN, USING, turn("user", BACK), {"role": "user", "content": "Yes"}),
        ["message_split"],
    ),
    (
        "qwen",
        "qwen3-max",
        {**messages(TURN), "context_management": {"edits": [{"type": "x"}]}},
        messages(TURN),
        ["context_management"],
    ),
    (
        "vllm",
        "qwen3-32b",
        messages(TURN, turn("assistant", THINKING, USE), turn("user", BACK)),
        messages(TURN, USING, turn("user", BACK)),
        ["thinking"],
    ),
]


@pytest.mark.parametrize(("server", "model", "body", "sent", "lost"), MESSAGES)
def test_anthropic_server_is_sent_what_it_does_not_refuse(
    server: str, model: str, body: dict[str, Any], sent: dict[str, Any], lost: list[str]
) -> None:
    asked = {"model": model, "max_tokens": 9000, **body, "new": {"of": ["a server"]}}
    encoded = encode_request(decode_request(asked, "anthropic"), "anthropic", server=server)
    assert encoded.body == {"model": model, "max_tokens": 9000, **sent, "new": asked["new"]}
    assert sorted(loss.feature for loss in encoded.losses) == sorted(lost)


def test_betas_are_those_that_the_client_names() -> None:
    """A client of the dialect that names none has its reasons."""
    body = {**messages(TURN), "model": "m", "max_tokens": 5, "mcp_servers": [], "container": "c"}
    body["context_management"] = {"edits": [{"type": "compact_20260112"}]}
    for named in ({}, {"anthropic-beta": "new-2026,other-2026"}):
        request = decode_request(body, "anthropic", headers=named)
        encoded = encode_request(request, "anthropic", server="kimi")
        assert (encoded.body, encoded.headers, encoded.losses) == (body, named, ())


def test_beta_goes_with_its_field() -> None:
    body = {**messages(TURN), "model": "m", "max_tokens": 5, "context_management": {"edits": [{}]}}
    headers = {"anthropic-beta": "context-management-2025-06-27,other-2026"}
    request = decode_request(body, "anthropic", headers=headers)
    encoded = encode_request(request, "anthropic", server="qwen")
    assert encoded.headers == {"anthropic-beta": "other-2026"}


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (
            "openai_chat",
            {
                "model": "some-model",
                "messages": [DEVELOPER, {**SYSTEM, "name": "a"}, HI, CALLING, RESULT, HI],
                "max_completion_tokens": 5,
                "reasoning_effort": "minimal",
                "thinking": {"type": "enabled"},
                "user": "u" * 200,
                "stop": list("abcdef"),
                "temperature": 2.5,
                "tools": [{"type": "function", "function": {"name": "a.b"}}],
            },
        ),
        (
            "anthropic",
            {
                "model": "some-model",
                "max_tokens": 5,
                "messages": [TURN, SYSTEM],
                "temperature": 1.5,
                "system": [{"type": "text", "text": "", "cache_control": {"type": "x"}}],
            },
        ),
    ],
)
@pytest.mark.parametrize("server", [None, "nobody-knows-it"])
def test_vendor_and_nameless_servers_get_what_the_client_sent(
    dialect: str, body: dict[str, Any], server: str | None
) -> None:
    encoded = encode_request(decode_request(body, dialect), dialect, server=server)
    assert (encoded.body, encoded.losses) == (body, ())


@pytest.mark.parametrize("server", ["azure", "copilot"])
def test_server_with_stored_answers_is_sent_references_to_them(server: str) -> None:
    """What @ai-sdk/openai sends by default from its second step on."""
    reference = {"type": "item_reference", "id": "rs_1"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "snow"}
    for fields in ({"input": [HI, reference, output]}, {"previous_response_id": "resp_1"}):
        body = {"model": "gpt-5", "input": [output], **fields}
        encoded = encode_request(
            decode_request(body, "openai_responses"), "openai_responses", server=server
        )
        assert (encoded.body, encoded.losses) == (body, ())


@pytest.mark.parametrize(
    ("dialect", "server", "model", "body", "path"),
    [
        ("openai_chat", "glm", "glm-4.6", messages(SYSTEM, YES), "messages"),
        ("openai_chat", "minimax", "m", messages(HI, RESULT), "messages[1].blocks[0]"),
        ("openai_chat", "vllm", "gemma-4", messages(SYSTEM, YES, HI), "messages[1]"),
        ("openai_chat", "sglang", "gemma-4", messages(LETTER, YES), "messages[0]"),
        (
            "anthropic",
            "minimax",
            "m",
            {**messages(TURN, turn("user", ANSWER, BACK)), "max_tokens": 5},
            "messages[1].blocks[1]",
        ),
    ],
)
def test_what_has_no_legal_form_is_an_error_that_names_the_place(
    dialect: str, server: str, model: str, body: dict[str, Any], path: str
) -> None:
    request = decode_request({"model": model, **body}, dialect)
    with pytest.raises(EncodeError) as raised:
        encode_request(request, dialect, server=server)
    assert raised.value.path == path


def test_reasoning_that_was_changed_is_written_anew_for_a_server_with_words_of_its_own() -> None:
    body = {"model": "qwen3-max", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    request = decode_request({**body, "reasoning_effort": "high"}, "openai_chat")
    changed = structs.replace(request, reasoning=ReasoningOptions("off"))
    encoded = encode_request(changed, "openai_chat", server="qwen")
    assert encoded.body["enable_thinking"] is False
