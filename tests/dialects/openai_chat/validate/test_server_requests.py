"""What servers refuse that are compatible with Chat Completions, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest
from support.rule_rows import RuleRow

from streamnorm import validate_request
from streamnorm._core.codec import RequestFacts
from streamnorm.dialects.openai_chat.validate.server_requests import SERVER_CHECKS
from streamnorm.profiles.rules import shipped_rules

USER: dict[str, Any] = {"role": "user", "content": "Hi"}
SYSTEM: dict[str, Any] = {"role": "system", "content": "Be brief."}
DEVELOPER: dict[str, Any] = {"role": "developer", "content": "Be brief."}
ASSISTANT: dict[str, Any] = {"role": "assistant", "content": "Hello"}
CALL: dict[str, Any] = {
    "id": "call00001",
    "type": "function",
    "function": {"name": "f", "arguments": "{}"},
}
CALLING: dict[str, Any] = {"role": "assistant", "tool_calls": [CALL]}
RESULT: dict[str, Any] = {"role": "tool", "tool_call_id": "call00001", "content": "1"}
OBJECT = {"type": "object"}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": OBJECT}}]
NAMED = {"type": "function", "function": {"name": "f"}}
FILE = {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERg=="}}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "r", "schema": {"type": "object"}}}
OFF = {"thinking": {"type": "disabled"}}
ON = {"thinking": {"type": "enabled"}}
DETAIL = {"type": "reasoning.text", "text": "…", "format": "anthropic-claude-v1"}
MARKED = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}


def messages(*values: dict[str, Any]) -> dict[str, Any]:
    return {"messages": list(values)}


def function(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "parameters": schema}}


def said(*parts: dict[str, Any]) -> dict[str, Any]:
    return messages({"role": "user", "content": list(parts)})


def without_reasoning(
    rule: str, server: str, model: str, message: str, free: str, **fields: Any
) -> RuleRow:
    """Return the row of a server that wants the reasoning of calls back."""
    path = "messages[1].reasoning_content"
    legal = messages(USER, {**CALLING, "reasoning_content": ""}, RESULT)
    refused = {**messages(USER, CALLING, RESULT), **fields}
    return RuleRow(rule, server, model, refused, path, message, legal, free)


def unforced(rule: str, server: str, model: str, message: str, free: str, **fields: Any) -> RuleRow:
    """Return the row of a server that lets no tool be forced."""
    refused = {**messages(USER), "tools": TOOLS, "tool_choice": NAMED, **fields}
    return RuleRow(
        rule, server, model, refused, "tool_choice", message, {"tool_choice": "auto"}, free
    )


NO_DEVELOPER = "developer is not one of ['system', 'assistant', 'user', 'tool', 'function']"
DEEPSEEK_BACK = "The `reasoning_content` in the thinking mode must be passed back to the API."
DEEPSEEK_UNFORCED = "Thinking mode does not support this tool_choice"
QWEN_STREAMS = "parameter.enable_thinking must be set to false for non-streaming calls"
QWEN_BUDGET = (
    "<400> InternalError.Algo.InvalidParameter: The thinking_budget parameter must be a positive"
    " integer and not greater than 0"
)
THINKS = {"enable_thinking": True, "thinking_budget": 1024, "stream": True}
ILLEGAL = "The messages parameter is illegal. Please check the documentation."
AFTER_TOOL = "Unexpected role 'user' after role 'tool'"
ALTERNATE = "Conversation roles must alternate user/assistant/user/assistant/..."
PREFILL = "Assistant response prefill is incompatible with enable_thinking."

ROWS = [
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
    # DeepSeek
    without_reasoning(
        "deepseek.reasoning_content", "deepseek", "deepseek-v4", DEEPSEEK_BACK, "deepseek/other"
    ),
    without_reasoning(
        "deepseek.reasoning_content_asked",
        "deepseek",
        "deepseek-chat",
        DEEPSEEK_BACK,
        "deepseek/deepseek-v4",
        **ON,
    ),
    unforced(
        "deepseek.tool_choice",
        "deepseek",
        "deepseek-reasoner",
        DEEPSEEK_UNFORCED,
        "deepseek/deepseek-chat",
    ),
    unforced(
        "deepseek.tool_choice",
        "deepseek",
        "deepseek-r1",
        DEEPSEEK_UNFORCED,
        "deepseek/deepseek-chat",
    ),
    unforced(
        "deepseek.tool_choice_asked",
        "deepseek",
        "deepseek-chat",
        DEEPSEEK_UNFORCED,
        "deepseek/deepseek-v4",
        **ON,
    ),
    RuleRow(
        "deepseek.no_reasoning_content",
        "deepseek",
        "deepseek-r1",
        messages(USER, {**ASSISTANT, "reasoning_content": "…"}, USER),
        "messages[1].reasoning_content",
        "messages[1].reasoning_content: reasoning_content is not allowed in the input messages",
        messages(USER, ASSISTANT, USER),
        "deepseek/deepseek-v4",
    ),
    RuleRow(
        "deepseek.reasoning_details",
        "deepseek",
        "deepseek-chat",
        messages(USER, {**ASSISTANT, "reasoning_details": [DETAIL]}, USER),
        "messages[1].reasoning_details",
        "messages[1].reasoning_details: unknown field `reasoning_details`",
        messages(USER, {**ASSISTANT, "reasoning_content": "…"}, USER),
    ),
    RuleRow(
        "deepseek.response_format",
        "deepseek",
        "deepseek-chat",
        {**messages(USER), "response_format": SCHEMA},
        "response_format.type",
        "This response_format type is unavailable now",
        {"response_format": {"type": "json_object"}},
    ),
    # Kimi
    without_reasoning(
        "kimi.reasoning_content",
        "kimi",
        "kimi-k2.5",
        "thinking is enabled but reasoning_content is missing in assistant tool call message"
        " at index 1",
        "kimi/kimi-k2-0905-preview",
    ),
    RuleRow(
        "kimi.required_choice",
        "moonshot",
        "kimi-k2-0905-preview",
        {**messages(USER), "tools": TOOLS, "tool_choice": "required"},
        "tool_choice",
        "tool_choice 'required' is not supported",
        {"tool_choice": NAMED},
    ),
    unforced(
        "kimi.named_choice",
        "kimi",
        "kimi-k3",
        "tool_choice 'specified' is incompatible with thinking enabled",
        "kimi/kimi-k2-0905-preview",
    ),
    RuleRow(
        "kimi.temperature",
        "kimi",
        "kimi-k2.6",
        {**messages(USER), "temperature": 0.6},
        "temperature",
        "invalid temperature: only 1 is allowed for this model",
        {"temperature": 1.0},
        "kimi/kimi-k2-0905-preview",
    ),
    RuleRow(
        "kimi.temperature_without_thinking",
        "kimi",
        "kimi-k2.6",
        {**messages(USER), **OFF, "temperature": 1},
        "temperature",
        "invalid temperature: only 0.6 is allowed for this model",
        {"temperature": 0.6},
        "kimi/kimi-k2-0905-preview",
    ),
    RuleRow(
        "kimi.top_p",
        "kimi",
        "kimi-k3",
        {**messages(USER), "top_p": 0.9},
        "top_p",
        "invalid top_p: only 0.95 is allowed for this model",
        {"top_p": 0.95},
        "kimi/kimi-k2-0905-preview",
    ),
    *(
        RuleRow(
            "kimi.parts",
            "kimi",
            "kimi-k3",
            said(part, {"type": "text", "text": "Hi"}),
            "messages[0].content[0]",
            "Invalid request: unsupported content type at messages[0].content[0]",
            said(IMAGE),
            "openrouter",
        )
        for part in (FILE, SOUND)
    ),
    RuleRow(
        "kimi.schema_dialect",
        "kimi",
        "kimi-k3",
        {**messages(USER), "tools": [function({**OBJECT, "$schema": "…"})]},
        "tools[0].function.parameters.$schema",
        "tools.function.parameters is not a valid moonshot flavored json schema, details:"
        " <$schema is not allowed>",
        {"tools": [function(OBJECT)]},
    ),
    RuleRow(
        "kimi.thinking_and_effort",
        "kimi",
        "kimi-k2.5",
        {**messages(USER), **ON, "reasoning_effort": "high"},
        "reasoning_effort",
        "thinking and reasoning_effort cannot be set together",
        {"reasoning_effort": None},
    ),
    RuleRow(
        "kimi.effort",
        "kimi",
        "kimi-k3",
        {**messages(USER), "reasoning_effort": "none"},
        "reasoning_effort",
        "invalid reasoning_effort: none, expected low, high or max",
        {"reasoning_effort": "max"},
        "kimi/kimi-k2.5",
    ),
    # GLM
    RuleRow(
        "glm.developer",
        "glm",
        "glm-4.6",
        messages(DEVELOPER, USER),
        "messages[0].role",
        ILLEGAL,
        messages(SYSTEM, USER),
    ),
    RuleRow(
        "glm.user_message",
        "zai",
        "glm-4.6",
        messages(SYSTEM, ASSISTANT),
        "messages",
        ILLEGAL,
        messages(SYSTEM, USER),
    ),
    *(
        RuleRow(
            "glm.user_id",
            "glm",
            "glm-4.6",
            {**messages(USER), "user_id": name},
            "user_id",
            f"user_id: {len(name)} characters, expected 6 to 128",
            {"user_id": name_of_length},
        )
        for name, name_of_length in (("five5", "sixsix"), ("u" * 129, "u" * 128))
    ),
    RuleRow(
        "glm.effort",
        "glm",
        "glm-5.3",
        {**messages(USER), "reasoning_effort": "medium"},
        "reasoning_effort",
        "invalid reasoning_effort: medium, expected low, high or max",
        {"reasoning_effort": "high"},
        "glm/glm-5.2",
    ),
    RuleRow(
        "glm.thinking_off",
        "glm",
        "glm-5.3",
        {**messages(USER), **OFF},
        "thinking.type",
        "thinking.type: disabled is not supported by this model",
        ON,
        "glm/glm-4.6",
    ),
    # MiniMax
    RuleRow(
        "minimax.tool_result",
        "minimax",
        "minimax-m2",
        messages(USER, RESULT, CALLING),
        "messages[1].tool_call_id",
        "invalid params, tool result's tool id(call00001) not found (2013)",
        messages(USER, CALLING, RESULT),
    ),
    RuleRow(
        "minimax.system",
        "minimax",
        "minimax-m2",
        messages(SYSTEM, SYSTEM, USER),
        "messages[1].role",
        "invalid params, invalid chat setting: messages.1.role (2013)",
        messages(SYSTEM, USER),
    ),
    *(
        RuleRow(
            "minimax.temperature",
            "minimax",
            "minimax-m2",
            {**messages(USER), "temperature": temperature},
            "temperature",
            f"invalid params, temperature: {temperature}, expected more than 0 and at most 1"
            " (2013)",
            {"temperature": 1},
        )
        for temperature in (0, 1.5)
    ),
    # Qwen
    RuleRow(
        "qwen.streams",
        "qwen",
        "qwen-plus",
        {**messages(USER), **THINKS, "stream": False},
        "enable_thinking",
        QWEN_STREAMS,
        {"stream": True},
    ),
    RuleRow(
        "qwen.streams_by_default",
        "qwen",
        "qwen3-32b",
        messages(USER),
        "enable_thinking",
        QWEN_STREAMS,
        {"enable_thinking": False},
        "qwen/qwen3-max",
    ),
    RuleRow(
        "qwen.thinking_budget",
        "qwen",
        "qwen-plus",
        {**messages(USER), "enable_thinking": True, "stream": True},
        "thinking_budget",
        QWEN_BUDGET,
        {"thinking_budget": 1024},
    ),
    *(
        RuleRow(
            "qwen.json_mode",
            "qwen",
            "qwen-plus",
            {**messages(USER), **THINKS, "response_format": form},
            "response_format.type",
            "Json mode response is not supported when enable_thinking is true",
            {"enable_thinking": False},
        )
        for form in (SCHEMA, {"type": "json_object"})
    ),
    unforced(
        "qwen.tool_choice",
        "qwen",
        "qwen-plus",
        "The tool_choice parameter does not support being set to required or object in thinking"
        " mode",
        "kimi",
        **THINKS,
    ),
    *(
        RuleRow(
            "qwen.json_mode_by_default",
            "qwen",
            "Qwen3-235B-A22B",
            {**messages(USER), "stream": True, "response_format": form},
            "response_format.type",
            "Json mode response is not supported when enable_thinking is true",
            {"enable_thinking": False},
            "qwen/qwen-plus",
        )
        for form in (SCHEMA, {"type": "json_object"})
    ),
    RuleRow(
        "qwen.tool_choice_by_default",
        "qwen",
        "qwen3-32b",
        {**messages(USER), "stream": True, "tools": TOOLS, "tool_choice": NAMED},
        "tool_choice",
        "The tool_choice parameter does not support being set to required or object in thinking"
        " mode",
        {"enable_thinking": False},
        "qwen/qwen-plus",
    ),
    RuleRow(
        "qwen.streams_alone",
        "qwen",
        "qwq-plus",
        messages(USER),
        "stream",
        "This model only support stream mode, please enable the stream parameter to access the"
        " model. ",
        {"stream": True},
        "qwen/qwen-plus",
    ),
    RuleRow(
        "qwen.parts",
        "qwen",
        "qwen-plus",
        said(FILE),
        "messages[0].content[0]",
        "Invalid value: file at messages[0].content[0]",
        said(IMAGE),
    ),
    # Mistral
    RuleRow(
        "mistral.user_after_tool",
        "mistral",
        "mistral-large-latest",
        messages(USER, CALLING, RESULT, USER),
        "messages[3].role",
        AFTER_TOOL,
        messages(USER, CALLING, RESULT, ASSISTANT, USER),
    ),
    *(
        RuleRow(
            "mistral.user_after_tool_hosted",
            server,
            "mistralai/mistral-large-3",
            messages(USER, CALLING, RESULT, USER),
            "messages[3].role",
            AFTER_TOOL,
            messages(USER, CALLING, RESULT, ASSISTANT, USER),
            f"{server}/llama-4",
        )
        for server in ("scaleway", "nim")
    ),
    RuleRow(
        "mistral.tool_results",
        "mistral",
        "mistral-large-latest",
        messages(USER, CALLING, {**RESULT, "content": [{"type": "text", "text": "a"}, IMAGE]}),
        "messages[2].content[1].type",
        "3 validation errors for ToolMessage: messages.2.content.1.type Input should be"
        " <ChunkTypes.text: 'text'>",
        messages(USER, CALLING, RESULT, {"role": "user", "content": [IMAGE]}),
    ),
    *(
        RuleRow(
            "mistral.tool_ids",
            "mistral",
            "mistral-large-latest",
            messages(USER, {**CALLING, "tool_calls": [{**CALL, "id": id}]}),
            "messages[1].tool_calls[0].id",
            f"Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.",
            messages(USER, CALLING),
        )
        for id in ("call_0001", "call0001")
    ),
    unforced(
        "mistral.tool_choice",
        "mistral",
        "mistral-large-latest",
        "tool_choice: Input should be 'auto', 'none' or 'any'",
        "groq",
    ),
    RuleRow(
        "mistral.last_message",
        "mistral",
        "mistral-large-latest",
        messages(USER, ASSISTANT),
        "messages[1].role",
        "Expected last role User or Tool (or Assistant with prefix True) for serving but got"
        " assistant",
        messages(USER, {**ASSISTANT, "prefix": True}),
    ),
    RuleRow(
        "mistral.assistant_content",
        "mistral",
        "mistral-large-latest",
        messages(USER, {"role": "assistant", "content": ""}, USER),
        "messages[1].content",
        "Assistant message must have either content or tool_calls, but not none.",
        messages(USER, ASSISTANT, USER),
    ),
    *(
        RuleRow(
            "mistral.fields",
            "mistral",
            "mistral-large-latest",
            {**messages(USER), name: 5},
            name,
            f"{name}: Extra inputs are not permitted",
            {name: None, legal: 5},
        )
        for name, legal in (("max_completion_tokens", "max_tokens"), ("seed", "random_seed"))
    ),
    # xAI
    *(
        RuleRow(
            "xai.reasoning_effort",
            "xai",
            model,
            {**messages(USER), "reasoning_effort": "high"},
            "reasoning_effort",
            "Argument not supported on this model: reasoningEffort",
            {"reasoning_effort": None},
            "xai/grok-3-mini",
        )
        for model in ("grok-4", "grok-4-0709", "grok-code-fast-1")
    ),
    RuleRow(
        "xai.efforts",
        "xai",
        "grok-4.3",
        {**messages(USER), "reasoning_effort": "minimal"},
        "reasoning_effort",
        "invalid reasoning_effort: minimal, expected none, low, medium or high",
        {"reasoning_effort": "none"},
        "xai/grok-3-mini",
    ),
    RuleRow(
        "xai.efforts_without_none",
        "xai",
        "grok-4.5",
        {**messages(USER), "reasoning_effort": "none"},
        "reasoning_effort",
        "invalid reasoning_effort: none, expected low, medium or high",
        {"reasoning_effort": "low"},
        "xai/grok-4.3",
    ),
    *(
        RuleRow(
            "xai.arguments",
            "xai",
            "grok-4",
            messages(
                USER,
                {
                    **CALLING,
                    "tool_calls": [{**CALL, "function": {"name": "f", "arguments": arguments}}],
                },
            ),
            "messages[1].tool_calls[0].function.arguments",
            "The arguments to a tool_call with ID 'call00001' are not a valid JSON string."
            " Parsing error: EOF while parsing a value",
            messages(USER, CALLING),
        )
        for arguments in ("", '{"a":')
    ),
    *(
        RuleRow(
            "xai.sampling",
            "xai",
            "grok-4",
            {**messages(USER), name: value},
            name,
            f"Argument not supported on this model: {name}",
            {name: None},
            "xai/grok-4-fast-non-reasoning",
        )
        for name, value in (("stop", "a"), ("frequency_penalty", 1), ("presence_penalty", 0))
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


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_server_refuses_what_its_rule_says(row: RuleRow) -> None:
    row.check("openai_chat")


SERVERS = {"vendor", "azure", "copilot", "githubcopilot", "gemini", "google"}


def test_every_rule_of_a_compatible_server_has_a_row() -> None:
    rules = {
        rule.id
        for rule in shipped_rules()
        if rule.dialect == "openai_chat" and rule.servers.isdisjoint(SERVERS)
    }
    rules = {name for name in rules if ".schema_" not in name} | {"kimi.schema_dialect"}
    assert rules - {row.rule for row in ROWS} == set()


@pytest.mark.parametrize("fields", [OFF, {"tool_choice": "auto"}], ids=str)
def test_thinking_that_is_switched_off_allows_what_thinking_does_not(
    fields: dict[str, Any],
) -> None:
    body = {**messages(USER), "tools": TOOLS, "tool_choice": NAMED, **fields}
    for server, model in (("deepseek", "deepseek-v4"), ("kimi", "kimi-k2.5")):
        assert validate_request(body, "openai_chat", server=server, model=model) == []


def test_rule_says_what_its_server_answers_with() -> None:
    body = messages(USER, CALLING, RESULT, USER)
    (found,) = validate_request(body, "openai_chat", server="mistral", model="mistral-small")
    assert (found.status, found.type, found.code) == (400, "invalid_request_message_order", "3230")
    (found,) = validate_request(
        messages(USER, USER), "openai_chat", server="llamacpp", model="devstral"
    )
    assert found.status == 500


ODD = [
    {"messages": None, "tools": None},
    {"messages": "Hi", "tools": "none"},
    {"messages": [None, "a", 5, [], {}]},
    *(
        {"messages": [{"role": role, name: value}], "tools": [5]}
        for role in ("assistant", "tool", "user", 5, None)
        for name in ("content", "tool_calls", "tool_call_id", "reasoning_details")
        for value in (None, 5, "a", {}, [5, {}, {"function": 5}, {"function": {"arguments": 5}}])
    ),
]


@pytest.mark.parametrize("body", ODD, ids=str)
def test_checks_accept_any_json(body: dict[str, Any]) -> None:
    for check in SERVER_CHECKS.values():
        list(check(RequestFacts(body)))
