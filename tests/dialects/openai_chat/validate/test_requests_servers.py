"""What vendors refuse that are compatible with Chat Completions, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_chat.server_rules import (
    ASSISTANT,
    CALL,
    CALLING,
    DETAIL,
    DEVELOPER,
    FILE,
    IMAGE,
    NAMED,
    OBJECT,
    OFF,
    ON,
    RESULT,
    SCHEMA,
    SOUND,
    SYSTEM,
    TOOLS,
    USER,
    function,
    messages,
    said,
    unforced,
    without_reasoning,
)
from support.rules.rows import RuleRow

from streamnorm._core.codec import RequestFacts
from streamnorm.dialects.openai_chat.body.validate import request_checks
from streamnorm.validation import validate_request

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

CASES = [
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
]


@pytest.mark.parametrize("row", CASES, ids=str)
def test_server_refuses_what_its_rule_says(row: RuleRow) -> None:
    row.check()


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
    for check in request_checks().values():
        list(check(RequestFacts(body)))
