"""What servers of others' models refuse in requests of Chat Completions, rule by rule."""

from __future__ import annotations

import pytest
from support.openai_chat.server_rules import (
    ASSISTANT,
    CALLING,
    DETAIL,
    DEVELOPER,
    FILE,
    IMAGE,
    MARKED,
    NAMED,
    RESULT,
    SCHEMA,
    SOUND,
    SYSTEM,
    TOOLS,
    USER,
    messages,
    said,
    unforced,
)
from support.rules.rows import RuleRow

from streamnorm.validation import validate_request

NO_DEVELOPER = "developer is not one of ['system', 'assistant', 'user', 'tool', 'function']"
ALTERNATE = "Conversation roles must alternate user/assistant/user/assistant/..."
PREFILL = "Assistant response prefill is incompatible with enable_thinking."

CASES = [
    *(
        RuleRow(
            "compatible.developer",
            server,
            "m",
            messages(DEVELOPER, USER),
            "messages[0].role",
            f"The request is invalid: {NO_DEVELOPER}",
            messages(SYSTEM, USER),
        )
        for server in ("mistral", "vllm", "ollama", "compatible")
    ),
    RuleRow(
        "deepseek.developer",
        "deepseek",
        "deepseek-chat",
        messages(SYSTEM, DEVELOPER, USER),
        "messages[1].role",
        "Failed to deserialize the JSON body into the target type: messages[1].role: unknown"
        " variant `developer`, expected one of `system`, `user`, `assistant`, `tool`,"
        " `latest_reminder`",
        messages(SYSTEM, USER),
    ),
    RuleRow(
        "qwen.developer",
        "qwen",
        "qwen3-max",
        messages(DEVELOPER, USER),
        "messages[0].role",
        f"{NO_DEVELOPER} - 'messages[0].role'",
        messages(SYSTEM, USER),
    ),
    # Bounds on an answer
    *(
        RuleRow(
            rule,
            server,
            model,
            {**messages(USER), name: 15},
            name,
            "max_tokens must be at least 16",
            {name: 16},
            free,
        )
        for rule, server, model, free in (
            ("perplexity.max_tokens", "perplexity", "sonar-reasoning-pro", "groq"),
            ("perplexity.max_tokens", "sakana", "m", "groq"),
            ("bedrock.max_tokens", "bedrock", "xai.grok-4-3", "bedrock/openai.gpt-oss-120b"),
        )
        for name in ("max_tokens", "max_completion_tokens")
    ),
    RuleRow(
        "deepseek.json_word",
        "deepseek",
        "deepseek-v4-flash",
        {**messages(USER), "response_format": {"type": "json_object"}},
        "messages",
        "Prompt must contain the word 'json' in some form to use 'response_format' of type"
        " 'json_object'.",
        messages({**USER, "content": "A JsOn object, please."}),
    ),
    RuleRow(
        "deepseek.max_tokens",
        "deepseek",
        "deepseek-chat",
        {**messages(USER), "max_tokens": 8193},
        "max_tokens",
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
        {"max_tokens": 8192},
        "deepseek/deepseek-v4-flash",
    ),
    # Anthropic's endpoint for OpenAI's SDK
    *(
        RuleRow(
            "anthropic.response_format",
            "anthropic",
            "claude-opus-4-8",
            {**messages(USER), "response_format": {"type": kind}},
            "response_format.type",
            "response_format.type: Input should be 'json_schema'",
            {"response_format": SCHEMA},
        )
        for kind in ("json_object", "text")
    ),
    *(
        RuleRow(
            "compatible.custom_tools",
            server,
            "m",
            {**messages(USER), "tools": [*TOOLS, {"type": "custom", "custom": {"name": "g"}}]},
            "tools[1]",
            "tools[1]: unknown variant, expected `function`",
            {"tools": TOOLS},
            "copilot",
        )
        for server in ("deepseek", "openrouter", "llamacpp")
    ),
    *(
        RuleRow(
            "compatible.allowed_tools",
            "groq",
            "m",
            {**messages(USER), "tools": TOOLS, "tool_choice": {"type": kind}},
            "tool_choice.type",
            f"tool_choice.type: unknown variant `{kind}`, expected `function`",
            {"tool_choice": NAMED},
            "copilot",
        )
        for kind in ("allowed_tools", "custom")
    ),
    # Groq
    *(
        RuleRow(
            "groq.message_fields",
            "groq",
            "llama-3.3-70b",
            messages(USER, {**ASSISTANT, name: "…"}),
            f"messages[1].{name}",
            f"'messages.1.{name}' : property '{name}' is unsupported",
            messages(USER, ASSISTANT),
            "openrouter",
        )
        for name in ("reasoning", "reasoning_content", "refusal")
    ),
    RuleRow(
        "groq.json_mode",
        "groq",
        "llama-3.3-70b",
        {**messages(USER), "tools": TOOLS, "response_format": SCHEMA},
        "response_format.type",
        "json mode cannot be combined with tool/function calling",
        {"tools": []},
        "openrouter",
    ),
    RuleRow(
        "groq.qwen_efforts",
        "groq",
        "qwen/qwen3-32b",
        {**messages(USER), "reasoning_effort": "high"},
        "reasoning_effort",
        "`reasoning_effort` must be one of `none` or `default`",
        {"reasoning_effort": "default"},
        "groq/llama-3.3-70b",
    ),
    *(
        RuleRow(
            "groq.gpt_oss_efforts",
            server,
            "openai/gpt-oss-120b",
            {**messages(USER), "reasoning_effort": "none"},
            "reasoning_effort",
            "`reasoning_effort` must be one of `low`, `medium`, or `high`",
            {"reasoning_effort": "low"},
            f"{server}/llama-3.3-70b",
        )
        for server in ("groq", "cerebras")
    ),
    *(
        RuleRow(
            "groq.parts",
            "groq",
            "llama-4",
            said(part),
            "messages[0].content[0]",
            "'messages.0.content.0' : unsupported content type",
            said(IMAGE),
            "openrouter",
        )
        for part in (FILE, SOUND)
    ),
    # Cerebras
    RuleRow(
        "cerebras.lone_surrogates",
        "cerebras",
        "llama-4",
        messages({"role": "user", "content": "half \ud83d"}),
        "messages[0].content",
        ": Invalid JSON: lone leading surrogate in hex escape",
        messages({"role": "user", "content": "whole \U0001f600"}),
    ),
    *(
        RuleRow(
            "cerebras.fields",
            "cerebras",
            "llama-4",
            {**messages(USER), name: value},
            name,
            f"body.{name}: property '{name}' is unsupported",
            {name: None},
        )
        for name, value in (
            ("frequency_penalty", 0.5),
            ("presence_penalty", 0.5),
            ("logit_bias", {}),
            ("parallel_tool_calls", True),
            ("service_tier", "auto"),
        )
    ),
    # OpenRouter
    RuleRow(
        "openrouter.user",
        "openrouter",
        "openai/gpt-5",
        {**messages(USER), "user": "u" * 129},
        "user",
        "user: String must contain at most 128 character(s)",
        {"user": "u" * 128},
    ),
    RuleRow(
        "openrouter.cache_control",
        "openrouter",
        "anthropic/claude-sonnet-4.5",
        {
            **messages(
                {**SYSTEM, "cache_control": {"type": "ephemeral"}},
                {"role": "user", "content": [MARKED, MARKED, MARKED]},
            ),
            "tools": [{**TOOLS[0], "cache_control": {"type": "ephemeral"}}],
        },
        "messages[1].content[2].cache_control",
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        {"tools": TOOLS},
        "openrouter/openai/gpt-5",
    ),
    RuleRow(
        "openrouter.gemini_reasoning_details",
        "openrouter",
        "google/gemini-3-pro-preview",
        messages(USER, CALLING, RESULT),
        "messages[1].reasoning_details",
        "Gemini models require OpenRouter reasoning details to be preserved in each request.",
        messages(USER, {**CALLING, "reasoning_details": [DETAIL]}, RESULT),
        "openrouter/google/gemini-2.5-pro",
    ),
    *(
        RuleRow(
            "openrouter.claude_reasoning_details",
            "openrouter",
            "anthropic/claude-sonnet-4.5",
            messages(USER, {**ASSISTANT, "reasoning_details": [{**DETAIL, **changed}]}, USER),
            "messages[1].reasoning_details[0].signature",
            "Provider returned error: Invalid `signature` in `thinking` block",
            messages(
                USER,
                {
                    **ASSISTANT,
                    "reasoning_details": [
                        {**DETAIL, "signature": "EqQB"},
                        {"type": "reasoning.encrypted", "data": "EqQB"},
                    ],
                },
                USER,
            ),
            "openrouter/openai/gpt-5",
        )
        for changed in (
            {},
            {"signature": ""},
            {"signature": "sn1.openai..EqQB", "format": "unknown"},
            {"signature": "EqQB", "format": "google-gemini-v1"},
        )
    ),
    # Servers of open models
    *(
        RuleRow(
            "vllm.parts",
            server,
            "qwen3-32b",
            said(FILE),
            "messages[0].content[0]",
            "Unknown part type: file",
            said(IMAGE),
        )
        for server in ("vllm", "sglang")
    ),
    RuleRow(
        "vllm.system_first",
        "vllm",
        "Qwen/Qwen3-32B",
        messages(USER, SYSTEM),
        "messages[1].role",
        "System message must be at the beginning.",
        messages(SYSTEM, USER),
        "vllm/llama-4",
    ),
    *(
        RuleRow(
            rule,
            server,
            "mistralai/Devstral-Small",
            refused,
            path,
            ALTERNATE,
            messages(SYSTEM, USER, CALLING, RESULT, ASSISTANT, USER),
            f"{server}/llama-4",
        )
        for rule, server in (("vllm.alternation", "vllm"), ("llamacpp.alternation", "llamacpp"))
        for refused, path in (
            (messages(SYSTEM, USER, USER), "messages[2].role"),
            (messages(ASSISTANT, USER, USER), "messages[0].role"),
            (messages(USER, CALLING, RESULT, USER), "messages[3].role"),
        )
    ),
    *(
        RuleRow(
            "llamacpp.prefill",
            server,
            "qwen3-32b",
            messages(USER, ASSISTANT),
            "messages[1].role",
            PREFILL,
            {"chat_template_kwargs": {"enable_thinking": False}},
            f"{server}/llama-4",
        )
        for server in ("vllm", "llama.cpp")
    ),
    unforced(
        "lmstudio.tool_choice",
        "lmstudio",
        "llama-4",
        "Invalid tool_choice type: 'object'. Supported string values: none, auto, required",
        "groq",
    ),
    RuleRow(
        "lmstudio.response_format",
        "lmstudio",
        "llama-4",
        {**messages(USER), "response_format": {"type": "json_object"}},
        "response_format.type",
        "'response_format.type' must be 'json_schema' or 'text'",
        {"response_format": SCHEMA},
    ),
]


@pytest.mark.parametrize("row", CASES, ids=str)
def test_server_refuses_what_its_rule_says(row: RuleRow) -> None:
    row.check()


def test_assistant_message_before_the_last_one_is_no_prefill() -> None:
    body = {"model": "qwen3-32b", **messages(USER, ASSISTANT, USER)}
    assert validate_request(body, "openai_chat", server="vllm") == []
