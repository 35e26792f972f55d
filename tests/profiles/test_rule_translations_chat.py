"""Requests of other dialects as OpenAI and compatible servers accept them in Chat, rule by rule."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from support.rules.translations import Translation

CHAT, MESSAGES, GEMINI, RESPONSES = "openai_chat", "anthropic", "gemini", "openai_responses"
QUESTION: dict[str, Any] = {"role": "user", "content": "Rome?"}
OBJECT = {"type": "object", "properties": {}}
TOOL = {"name": "f", "input_schema": OBJECT}
TEXT = {"type": "text", "text": "18"}
PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
PICTURE = {"type": "image", "source": PNG}
THINKS = {"thinking": {"type": "enabled", "budget_tokens": 5000}}
DOES_NOT_THINK = {"thinking": {"type": "disabled"}}
NAMED = {"tool_choice": {"type": "tool", "name": "f"}}


def messages(*after: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a request of Anthropic's."""
    return {"max_tokens": 9000, "messages": [QUESTION, *after], **fields}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def use(**fields: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}, **fields}


def back(*after: dict[str, Any], content: Any = "18") -> dict[str, Any]:
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content}
    return {"role": "user", "content": [result, *after]}


def loop(*before: dict[str, Any], after: tuple[dict[str, Any], ...] = (), **fields: Any) -> Any:
    """Return a request of Anthropic's with a call and its result."""
    return messages(assistant(*before, use()), back(*after), tools=[TOOL], **fields)


def thinking(signature: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": "Hm.", "signature": signature}


def to_chat(
    rule: str,
    body: dict[str, Any],
    model: str,
    written: dict[str, list[Any]],
    *lost: str,
    server: str | None = None,
    source: str = MESSAGES,
) -> Translation:
    return Translation(rule, source, body, CHAT, model, written, lost, server)


def developer(rule: str, server: str, model: str) -> Translation:
    """Return an instruction of the developer for a server that has no such role."""
    body = {"input": [{"role": "developer", "content": "Brief."}, {"role": "user", "content": "q"}]}
    return to_chat(
        rule,
        body,
        model,
        {"messages.role": ["system", "user"]},
        server=server,
        source=RESPONSES,
    )


OPENAI = [
    # Functions beside reasoning
    to_chat(
        "openai_chat.effort_of_functions",
        messages(tools=[TOOL], **THINKS),
        "gpt-5.4",
        {"reasoning_effort": ["none"]},
        "effort_changed",
    ),
    to_chat(
        "openai_chat.functions_need_no_effort",
        messages(tools=[TOOL]),
        "gpt-5.6-sol",
        {"reasoning_effort": ["none"]},
        "effort_changed",
    ),
    # Sampling
    to_chat(
        "openai_chat.temperature",
        messages(temperature=0.5),
        "gpt-5",
        {"temperature": []},
        "temperature",
    ),
    to_chat(
        "openai_chat.sampling",
        {"messages": [QUESTION], "logit_bias": {"5": 1}},
        "gpt-5",
        {"logit_bias": []},
        "logit_bias",
        server="azure",
        source=CHAT,
    ),
    # Images of tools and of the assistant
    to_chat(
        "openai_chat.images",
        messages(assistant(use()), back(content=[TEXT, PICTURE]), tools=[TOOL]),
        "gpt-4.1",
        {
            "messages.role": ["user", "assistant", "tool", "user"],
            "messages[role=tool].content": ["18"],
            "messages[role=user].content.type": ["text", "image_url"],
        },
        "tool_result_image_moved",
    ),
    to_chat(
        "openai_chat.images",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "Draw."}]},
                {
                    "role": "model",
                    "parts": [
                        {"text": "Here."},
                        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
                    ],
                },
                {"role": "user", "parts": [{"text": "Smaller."}]},
            ]
        },
        "gpt-4.1",
        {"messages[role=assistant].content": ["Here."]},
        "image_dropped",
        source=GEMINI,
    ),
    # Bounds
    *(
        to_chat(
            rule,
            {"max_tokens": 5, "messages": [QUESTION]},
            model,
            {field: [16]},
            "max_tokens_raised",
            server=server,
        )
        for rule, server, model, field in (
            ("openai_chat.max_completion_tokens", None, "gpt-5", "max_completion_tokens"),
            ("openai_chat.max_completion_tokens", "azure", "gpt-5", "max_completion_tokens"),
            ("openai_chat.max_completion_tokens", "copilot", "gpt-5-mini", "max_completion_tokens"),
            ("perplexity.max_tokens", "perplexity", "sonar-pro", "max_completion_tokens"),
            ("perplexity.max_tokens", "sakana", "m", "max_completion_tokens"),
            ("bedrock.max_tokens", "bedrock", "xai.grok-4", "max_completion_tokens"),
        )
    ),
    *(
        Translation(
            "openai_chat.tools",
            MESSAGES,
            messages(tools=[{**TOOL, "name": f"f{number}"} for number in range(129)]),
            CHAT,
            "gpt-4.1",
            server=server,
            error="tools",
        )
        for server in (None, "azure")
    ),
    *(
        to_chat(
            "openai_chat.prompt_cache_key",
            {"input": "Rome?", "prompt_cache_key": "k" * 72},
            "gpt-5",
            {"prompt_cache_key": [sha256(b"k" * 72).hexdigest()]},
            "cache_key_hashed",
            server=server,
            source=RESPONSES,
        )
        for server in (None, "azure", "meta")
    ),
    to_chat(
        "openrouter.user",
        messages(metadata={"user_id": "u" * 150}),
        "m",
        {"user": [sha256(b"u" * 150).hexdigest()]},
        "user_hashed",
        server="openrouter",
    ),
    # The role developer
    developer("azure.developer", "azure", "DeepSeek-V3.2"),
    developer("glm.developer", "glm", "glm-4.6"),
    developer("deepseek.developer", "deepseek", "deepseek-chat"),
    developer("qwen.developer", "qwen", "qwen3-max"),
    *(
        developer("compatible.developer", server, "m")
        for server in ("compatible", "llama.cpp", "lmstudio", "mistral", "ollama", "sglang", "vllm")
    ),
    # Anthropic's endpoint for OpenAI's SDK
    to_chat(
        "anthropic.response_format",
        {"input": "Rome?", "text": {"format": {"type": "json_object"}}},
        "claude-opus-5",
        {"response_format": []},
        "json_mode_dropped",
        server="anthropic",
        source=RESPONSES,
    ),
]

VENDORS = [
    # DeepSeek
    to_chat(
        "deepseek.reasoning_content",
        loop(thinking("EqQB")),
        "deepseek-v4",
        {"messages[role=assistant].reasoning_content": ["Hm."]},
        server="deepseek",
    ),
    to_chat(
        "deepseek.reasoning_content",
        loop(),
        "deepseek-v4",
        {"messages[role=assistant].reasoning_content": [""]},
        server="deepseek",
    ),
    to_chat(
        "deepseek.tool_choice",
        messages(tools=[TOOL], **NAMED),
        "deepseek-v4",
        {"tool_choice": ["auto"]},
        "tool_choice_weakened",
        server="deepseek",
    ),
    to_chat(
        "deepseek.reasoning_details",
        loop(thinking("EqQB")),
        "deepseek-v4",
        {"messages.reasoning_details": []},
        server="deepseek",
    ),
    # Kimi
    to_chat(
        "kimi.reasoning_content",
        loop(),
        "kimi-k2.5",
        {"messages[role=assistant].reasoning_content": [""]},
        server="kimi",
    ),
    to_chat(
        "kimi.temperature",
        messages(temperature=0.5, top_p=0.9),
        "kimi-k2.5",
        {"temperature": [], "top_p": []},
        "temperature",
        "top_p",
        server="kimi",
    ),
    to_chat(
        "kimi.temperature_without_thinking",
        messages(temperature=1, **DOES_NOT_THINK),
        "kimi-k2.5",
        {"temperature": [], "thinking": [{"type": "disabled"}]},
        "temperature",
        server="kimi",
    ),
    to_chat(
        "kimi.top_p", messages(top_p=0.9), "kimi-k3", {"top_p": []}, "top_p", server="moonshot"
    ),
    to_chat(
        "kimi.schema_any_of",
        messages(
            tools=[
                {
                    "name": "f",
                    "input_schema": {
                        "type": "object",
                        "properties": {
                            "a": {"type": "string", "anyOf": [{"enum": ["a"]}, {"enum": ["b"]}]}
                        },
                    },
                }
            ]
        ),
        "kimi-k2.5",
        # The texts of both branches
        {"tools.function.parameters.properties.a": [{"type": "string", "enum": ["a", "b"]}]},
        server="kimi",
    ),
    to_chat(
        "kimi.schema_items",
        messages(
            tools=[
                {
                    "name": "f",
                    "input_schema": {
                        "type": "object",
                        "properties": {
                            "a": {"type": "array", "prefixItems": [{"type": "string"}]},
                            "b": {"type": "array", "items": False},
                        },
                    },
                }
            ]
        ),
        "kimi-k2.5",
        {"tools.function.parameters.properties.b.items": [{}]},
        server="kimi",
    ),
    # GLM
    Translation(
        "glm.user_message",
        MESSAGES,
        {"max_tokens": 99, "system": "Brief.", "messages": [assistant(TEXT)]},
        CHAT,
        "glm-4.6",
        server="glm",
        error="messages",
    ),
    to_chat(
        "glm.user_id",
        messages(metadata={"user_id": "ann"}),
        "glm-4.6",
        {"user_id": [sha256(b"ann").hexdigest()], "user": []},
        "user_id_hashed",
        server="glm",
    ),
    # MiniMax
    Translation(
        "minimax.tool_result",
        RESPONSES,
        {"input": [{"type": "function_call_output", "call_id": "call_1", "output": "1"}]},
        CHAT,
        "minimax-m2",
        server="minimax",
        error="messages[0].blocks[0]",
    ),
    # Qwen
    to_chat(
        "qwen.streams",
        messages(**THINKS),
        "qwen-plus",
        {"enable_thinking": [False]},
        "reasoning",
        server="qwen",
    ),
    to_chat(
        "qwen.thinking_budget",
        messages(stream=True, **THINKS),
        "qwen-plus",
        {"enable_thinking": [True], "thinking_budget": [5000]},
        server="qwen",
    ),
    to_chat(
        "qwen.json_mode",
        {
            "input": "Rome?",
            "stream": True,
            "reasoning": {"effort": "high"},
            "text": {"format": {"type": "json_object"}},
        },
        "qwen-plus",
        {"enable_thinking": [False], "response_format.type": ["json_object"]},
        "reasoning",
        server="qwen",
        source=RESPONSES,
    ),
    # Mistral and its models elsewhere
    *(
        to_chat(
            rule,
            loop(after=({"type": "text", "text": "And Paris?"},)),
            "mistral-large",
            {"messages.role": ["user", "assistant", "tool", "assistant", "user"]},
            "assistant_filled",
            server=server,
        )
        for rule, server in (
            ("mistral.user_after_tool", "mistral"),
            ("mistral.user_after_tool_hosted", "nim"),
            ("mistral.user_after_tool_hosted", "scaleway"),
        )
    ),
    to_chat(
        "mistral.tool_results",
        messages(assistant(use()), back(content=[TEXT, PICTURE]), tools=[TOOL]),
        "mistral-large",
        {
            "messages.role": ["user", "assistant", "tool", "assistant", "user"],
            "messages[role=tool].content": ["18"],
        },
        "tool_result_image_moved",
        server="mistral",
    ),
    # xAI
    to_chat(
        "xai.reasoning_effort",
        messages(**THINKS),
        "grok-4",
        {"reasoning_effort": []},
        "reasoning",
        server="xai",
    ),
    to_chat(
        "xai.arguments",
        {
            "input": [
                {"role": "user", "content": "q"},
                {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": ""},
                {"type": "function_call_output", "call_id": "call_1", "output": "1"},
            ]
        },
        "grok-4",
        {"messages.tool_calls.function.arguments": ["{}"]},
        server="xai",
        source=RESPONSES,
    ),
    # OpenRouter
    to_chat(
        "openrouter.gemini_reasoning_details",
        loop(),
        "google/gemini-3-pro",
        {
            "messages.reasoning_details.type": ["reasoning.encrypted"],
            "messages.reasoning_details.data": ["skip_thought_signature_validator"],
            "messages.reasoning_details.id": ["toolu_1"],
        },
        server="openrouter",
    ),
    to_chat(
        "openrouter.claude_reasoning_details",
        loop(thinking("EqQB")),
        "anthropic/claude-opus-4.5",
        {"messages.reasoning_details.signature": ["EqQB"]},
        server="openrouter",
    ),
    to_chat(
        "openrouter.claude_reasoning_details",
        {
            "input": [
                {"role": "user", "content": "q"},
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
                {"role": "assistant", "content": "a"},
                {"role": "user", "content": "q"},
            ]
        },
        "anthropic/claude-opus-4.5",
        {"messages.reasoning_details": []},
        "reasoning_dropped",
        server="openrouter",
        source=RESPONSES,
    ),
    to_chat(
        "openrouter.cache_control",
        messages(
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
                    for _ in range(5)
                ],
            }
        ),
        "anthropic/claude-opus-4.5",
        {"messages.content.cache_control.type": ["ephemeral"] * 4},
        "cache_mark_dropped",
        server="openrouter",
    ),
    # Templates that think, and that continue no message of the assistant
    *(
        to_chat(
            "llamacpp.prefill",
            messages(assistant({"type": "text", "text": "So:"})),
            "qwen3-32b",
            {"chat_template_kwargs": [{"enable_thinking": False}]},
            server=server,
        )
        for server in ("llama.cpp", "vllm")
    ),
]


def schemas(target: str, parameters: str) -> list[Translation]:
    """Return tools of Anthropic's for a dialect of OpenAI's, which has schemas at `parameters`."""
    untyped = {**TOOL, "input_schema": {"properties": {"a": {"type": "string"}}}}
    of_all = {"a": {"type": "string", "allOf": [{"type": "string"}]}}
    strict = {**OBJECT, "properties": of_all, "required": ["a"], "additionalProperties": False}
    enforced = {**TOOL, "input_schema": strict, "strict": True}
    optional = {**enforced, "input_schema": {**strict, "properties": {"a": {"type": "string"}}}}
    optional["input_schema"] = {**optional["input_schema"], "required": []}
    # Chat Completions enforces no schema unless it is told to, Responses does.
    flag = {f"{parameters.rpartition('.')[0]}.strict": [] if target == CHAT else [False]}
    return [
        Translation(
            "openai.function_schema_type",
            MESSAGES,
            messages(tools=[untyped]),
            target,
            "gpt-5",
            {f"{parameters}.type": ["object"]},
        ),
        *(
            Translation(
                rule,
                MESSAGES,
                messages(tools=[tool]),
                target,
                "gpt-5",
                flag,
                ("strict",),
            )
            for rule, tool in (
                ("openai.strict_keywords", enforced),
                ("openai.strict_required", optional),
            )
        ),
    ]


SCHEMAS = [*schemas(CHAT, "tools.function.parameters"), *schemas(RESPONSES, "tools.parameters")]
SCHEMAS += [
    Translation(
        "ollama.schema_properties",
        RESPONSES,
        {
            "input": "Rome?",
            "tools": [
                {
                    "type": "function",
                    "name": "f",
                    "parameters": {"type": "object", "properties": []},
                }
            ],
        },
        CHAT,
        "qwen3:32b",
        {"tools.function.parameters.properties": [{}]},
        server="ollama",
    )
]


@pytest.mark.parametrize("case", [*OPENAI, *VENDORS, *SCHEMAS], ids=str)
def test_request_is_written_as_the_rule_demands(case: Translation) -> None:
    case.check()
