"""Requests of other dialects as Anthropic and those that speak its dialect accept them."""

from __future__ import annotations

from typing import Any

import pytest
from support.rules.translations import Translation

CHAT, MESSAGES, GEMINI, RESPONSES = "openai_chat", "anthropic", "gemini", "openai_responses"
OPUS = "claude-opus-4-8"
QUESTION: dict[str, Any] = {"role": "user", "content": "Rome?"}
ANSWER: dict[str, Any] = {"role": "assistant", "content": "Hot."}
OBJECT = {"type": "object", "properties": {}}
FUNCTION = {"type": "function", "function": {"name": "f", "parameters": OBJECT}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLING: dict[str, Any] = {"role": "assistant", "tool_calls": [CALL]}
RESULT: dict[str, Any] = {"role": "tool", "tool_call_id": "call_1", "content": "18"}
SYSTEM: dict[str, Any] = {"role": "system", "content": "In French."}
PDF = "data:application/pdf;base64,JVBERi0="
MARK = {"mode": "explicit"}


def chat(*after: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"messages": [QUESTION, *after], "max_completion_tokens": 9000, **fields}


def responses(*items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"input": [QUESTION, *items], "max_output_tokens": 9000, **fields}


def marked(*lifetimes: str | None) -> dict[str, Any]:
    """Return a message of texts with cache marks."""
    marks = [MARK if ttl is None else {**MARK, "ttl": ttl} for ttl in lifetimes]
    parts = [
        {"type": "text", "text": f"part {number}", "prompt_cache_breakpoint": mark}
        for number, mark in enumerate(marks)
    ]
    return {"role": "user", "content": parts}


def written_as(
    rule: str,
    body: dict[str, Any],
    model: str,
    written: dict[str, list[Any]],
    *lost: str,
    server: str | None = None,
    source: str = CHAT,
    **more: Any,
) -> Translation:
    return Translation(rule, source, body, MESSAGES, model, written, lost, server, **more)


def schema(**fields: Any) -> dict[str, Any]:
    parameters = {**OBJECT, **fields}
    return chat(tools=[{"type": "function", "function": {"name": "f", "parameters": parameters}}])


VENDOR = [
    # Reasoning
    *(
        written_as(
            "anthropic.thinking_first",
            chat(CALLING, RESULT, tools=[FUNCTION], reasoning_effort="high"),
            model,
            {"thinking": [{"type": "disabled"}]},
            "reasoning",
            server=server,
        )
        for server, model in (
            (None, "claude-sonnet-4-5"),
            ("bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
            ("vertex", "claude-sonnet-4-5@20250929"),
        )
    ),
    written_as(
        "anthropic.signature",
        responses(
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
            {"role": "assistant", "content": "Hot."},
            QUESTION,
        ),
        OPUS,
        {"messages.content": ["Rome?", "Hot.", "Rome?"]},
        "reasoning_dropped",
        source=RESPONSES,
    ),
    # Empty texts
    *(
        written_as(
            rule,
            chat({"role": "user", "content": [part, {"type": "text", "text": "And Paris?"}]}),
            OPUS,
            {"messages.content": ["Rome?", "And Paris?"]},
        )
        for rule, part in (
            ("anthropic.empty_text", {"type": "text", "text": ""}),
            ("anthropic.blank_text", {"type": "text", "text": "\n "}),
            (
                "anthropic.marked_empty_text",
                {"type": "text", "text": "", "prompt_cache_breakpoint": MARK},
            ),
        )
    ),
    # Cache marks
    written_as(
        "anthropic.max_marks",
        chat(marked(None, None, None, None, None)),
        OPUS,
        {"messages.content.cache_control.type": ["ephemeral"] * 4},
        "cache_mark_dropped",
    ),
    written_as(
        "anthropic.ttl_order",
        chat(marked("30m", "12h")),
        OPUS,
        {
            "messages.content.cache_control.type": ["ephemeral", "ephemeral"],
            "messages.content.cache_control.ttl": [],
        },
        "cache_ttl",
    ),
    *(
        written_as(
            "anthropic.nested_mark",
            responses(
                {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
                {
                    "type": "function_call_output",
                    "call_id": "call_1",
                    "output": [
                        {"type": "input_text", "text": "r", "prompt_cache_breakpoint": MARK},
                        {"type": "input_text", "text": "s"},
                    ],
                },
                tools=[{"type": "function", "name": "f", "parameters": OBJECT}],
            ),
            OPUS,
            {
                "messages.content.cache_control.type": ["ephemeral"],
                "messages.content.content.cache_control": [],
            },
            "cache_mark_moved",
            server=server,
            source=RESPONSES,
        )
        for server in (None, "copilot")
    ),
    # Fields
    *(
        written_as(
            "anthropic.unknown_fields",
            chat({"role": "user", "content": "And Paris?", "name": "ann"}, seed=7, logprobs=True),
            OPUS,
            {"seed": [], "logprobs": [], "messages.name": []},
            "seed",
            "logprobs",
            server=server,
        )
        for server in (None, "vertex")
    ),
    # Tools
    written_as(
        "anthropic.forced_choice",
        chat(tools=[FUNCTION], tool_choice={"type": "function", "function": {"name": "f"}}),
        "claude-fable-5-1",
        {"tool_choice.type": ["auto"]},
        "tool_choice_weakened",
    ),
    written_as(
        "anthropic.tool_schema_union",
        schema(oneOf=[{"required": ["a"]}], properties={"a": {"type": "string"}}),
        OPUS,
        {"tools.input_schema.oneOf": []},
        "schema.oneOf",
    ),
    written_as(
        "anthropic.strict_keywords",
        chat(
            tools=[
                {
                    "type": "function",
                    "function": {
                        "name": "f",
                        "strict": True,
                        "parameters": {
                            "type": "object",
                            "properties": {
                                "a": {"type": "array", "items": {"type": "string"}, "maxItems": 3}
                            },
                            "required": ["a"],
                            "additionalProperties": False,
                        },
                    },
                }
            ]
        ),
        OPUS,
        {"tools.strict": [True], "tools.input_schema.properties.a.maxItems": []},
        "schema.maxItems",
    ),
    written_as(
        "anthropic.strict_additional_properties",
        chat(
            response_format={
                "type": "json_schema",
                "json_schema": {
                    "name": "r",
                    "schema": {"type": "object", "properties": {"a": {"type": "string"}}},
                },
            }
        ),
        OPUS,
        {"output_config.format.schema.additionalProperties": [False]},
        "schema.additionalProperties",
    ),
    written_as(
        "anthropic.output_format",
        chat(response_format={"type": "json_object"}),
        OPUS,
        {"output_config": []},
        "json_mode_dropped",
    ),
    Translation(
        "anthropic.tool_names",
        CHAT,
        chat(tools=[FUNCTION, FUNCTION]),
        MESSAGES,
        OPUS,
        error="tools[1]",
    ),
    # Calls and results
    Translation(
        "anthropic.unexpected_result",
        CHAT,
        chat(ANSWER, RESULT, tools=[FUNCTION]),
        MESSAGES,
        OPUS,
        error="messages[2].blocks[0]",
    ),
    Translation(
        "anthropic.tool_input",
        CHAT,
        chat(
            {
                "role": "assistant",
                "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "[1]"}}],
            },
            RESULT,
            tools=[FUNCTION],
        ),
        MESSAGES,
        OPUS,
        error="messages[1].blocks[0]",
    ),
    written_as(
        "anthropic.missing_result",
        responses(
            {
                "type": "web_search_call",
                "id": "ws_1",
                "status": "completed",
                "action": {"type": "search", "query": "Rome"},
            },
            {"role": "assistant", "content": "Hot."},
            QUESTION,
        ),
        OPUS,
        {"messages.role": ["user", "assistant", "user"], "messages.content.type": []},
        "server_history_dropped",
        source=RESPONSES,
    ),
    written_as(
        "anthropic.image_media_type",
        chat(
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": PDF}}],
            }
        ),
        OPUS,
        {"messages.content.type": ["document"]},
    ),
    # Messages of the assistant and of the system
    *(
        written_as(
            "anthropic.prefill",
            chat(ANSWER),
            model,
            {"messages.role": ["user"]},
            "prefill_dropped",
            server=server,
        )
        for server, model in (
            (None, "claude-opus-4-6"),
            (None, "claude-fable-5"),
            ("copilot", "claude-sonnet-4.6"),
        )
    ),
    written_as(
        "anthropic.system_role",
        chat(ANSWER, SYSTEM, QUESTION),
        "claude-sonnet-4-6",
        {"messages.role": ["user", "assistant", "user", "user"]},
        "system_demoted",
    ),
    written_as(
        "anthropic.system_after_user",
        chat(ANSWER, SYSTEM, QUESTION),
        OPUS,
        {"messages.role": ["user", "assistant", "user", "system"]},
        "system_moved",
    ),
    written_as(
        "anthropic.system_before_assistant",
        chat(SYSTEM, SYSTEM, QUESTION, ANSWER, QUESTION),
        OPUS,
        {"messages.role": ["user", "user", "system", "assistant", "user"]},
        "messages_merged",
    ),
    # Options
    *(
        written_as(
            rule,
            {
                "contents": [{"role": "user", "parts": [{"text": "Rome?"}]}],
                "generationConfig": {name: value, "maxOutputTokens": 99},
            },
            model,
            {field: []},
            field,
            source=GEMINI,
        )
        for model in ("claude-opus-4-7", OPUS, "claude-sonnet-5")
        for rule, name, field, value in (
            ("anthropic.temperature", "temperature", "temperature", 0.5),
            ("anthropic.nucleus", "topP", "top_p", 0.9),
            ("anthropic.top_k", "topK", "top_k", 40),
        )
    ),
    written_as(
        "anthropic.stop_sequence",
        chat(stop=["\n\n", "END"]),
        OPUS,
        {"stop_sequences": [["END"]]},
        "stop_dropped",
    ),
    *(
        written_as(rule, chat(user=user), OPUS, {}, "user_hashed")
        for rule, user in (
            ("anthropic.user_mail", "ann@example.com"),
            ("anthropic.user_telephone", "+49 30 1234567"),
        )
    ),
]

CLOUDS = [
    written_as(
        "bedrock.betas",
        {"model": "m", "max_tokens": 99, "messages": [QUESTION]},
        "anthropic.claude-opus-4-8",
        {"anthropic_beta": [["context-1m-2025-08-07"]]},
        "beta",
        server="bedrock",
        source=MESSAGES,
        headers={"anthropic-beta": "claude-code-20250219,context-1m-2025-08-07"},
    ),
    written_as(
        "bedrock.effort",
        chat(reasoning_effort="high"),
        "anthropic.claude-sonnet-4-5-20250929-v1:0",
        {"output_config": [], "thinking.type": ["enabled"]},
        server="bedrock",
    ),
    written_as(
        "bedrock.tool_schema_without_type",
        chat(
            tools=[
                {
                    "type": "function",
                    "function": {"name": "f", "parameters": {"properties": {"a": {}}}},
                }
            ]
        ),
        "anthropic.claude-opus-4-8",
        {"tools.input_schema.type": ["object"]},
        server="bedrock",
    ),
    written_as(
        "bedrock.system_role",
        chat(ANSWER, SYSTEM, QUESTION),
        "anthropic.claude-opus-4-8",
        {"messages.role": ["user", "assistant", "user", "user"]},
        "system_demoted",
        server="bedrock",
    ),
    written_as(
        "anthropic.beta_fields",
        responses(context_management=[{"type": "compaction", "compact_threshold": 200_000}]),
        "claude-opus-4.8",
        {"context_management.edits.type": ["compact_20260112"]},
        server="copilot",
        source=RESPONSES,
    ),
]

COMPATIBLE = [
    written_as(
        "deepseek.effort",
        chat(reasoning_effort="none"),
        "deepseek-v4",
        {"thinking": [{"type": "disabled"}], "output_config": []},
        server="deepseek",
    ),
    written_as(
        "deepseek.forced_tool",
        chat(tools=[FUNCTION], tool_choice="required"),
        "deepseek-v4",
        {"tool_choice.type": ["auto"]},
        "tool_choice_weakened",
        server="deepseek",
    ),
    written_as(
        "minimax.text_after_result",
        chat(CALLING, RESULT, {"role": "user", "content": "And Paris?"}, tools=[FUNCTION]),
        "minimax-m2",
        {"messages.role": ["user", "assistant", "user", "user"]},
        server="minimax",
    ),
    Translation(
        "minimax.tool_result",
        CHAT,
        chat(RESULT),
        MESSAGES,
        "minimax-m2",
        server="minimax",
        error="messages[1].blocks[0]",
    ),
    *(
        written_as(
            rule,
            chat(ANSWER, SYSTEM, QUESTION),
            "m",
            {"messages.role": ["user", "assistant", "user", "user"]},
            "system_demoted",
            server=server,
        )
        for rule, server in (
            ("qwen.system", "qwen"),
            ("vllm.system_role", "vllm"),
            ("minimax.system_role", "minimax"),
        )
    ),
    written_as(
        "vllm.thinking",
        chat({**ANSWER, "reasoning_content": "Hm."}, QUESTION),
        "qwen3-32b",
        {"messages.content.thinking": [], "messages[role=assistant].content": ["Hot."]},
        "reasoning_dropped",
        server="vllm",
    ),
]


@pytest.mark.parametrize("case", [*VENDOR, *CLOUDS, *COMPATIBLE], ids=str)
def test_request_is_written_as_the_rule_demands(case: Translation) -> None:
    case.check()
