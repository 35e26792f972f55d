"""What OpenAI refuses in the fields and words of requests of Responses, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest
from support.bodies.request_corpus import needs_requests, real_requests
from support.openai_responses.rules import (
    ANSWER,
    CALL,
    CUSTOM_CALL,
    CUSTOM_RESULT,
    REASONING,
    RESULT,
    TOOLS,
    Case,
    items,
)

from streamnorm.validation import validate_request

UNKNOWN, MISSING = "unknown_parameter", "missing_required_parameter"
TEXT = {"type": "input_text", "text": "a"}
SAID = {"type": "output_text", "text": "a", "annotations": []}
IMAGE = {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "auto"}
# What Codex 0.169 writes in items for OpenAI alone.
CODEX = {"internal_chat_message_metadata_passthrough": {"content_item_kinds": ["user.text"]}}
CALLED, RAN = items(CALL, RESULT), items(CUSTOM_CALL, CUSTOM_RESULT)


def unknown(rule: str, refused: dict[str, Any], path: str, accepted: dict[str, Any]) -> Case:
    """Return the case of a field that the API does not know."""
    message = f"Unknown parameter: '{path}'."
    return Case(f"openai_responses.{rule}", refused, path, message, accepted, code=UNKNOWN)


def missing(rule: str, refused: dict[str, Any], path: str, accepted: dict[str, Any]) -> Case:
    """Return the case of a field that the API demands."""
    message = f"Missing required parameter: '{path}'."
    return Case(f"openai_responses.{rule}", refused, path, message, accepted, code=MISSING)


def word(
    rule: str,
    refused: dict[str, Any],
    path: str,
    value: str,
    known: str,
    accepted: dict[str, Any],
) -> Case:
    """Return the case of a word that is none of those that the API knows."""
    message = f"Invalid value: '{value}'. Supported values are{known}."
    return Case(f"openai_responses.{rule}", refused, path, message, accepted)


def schema(name: str) -> dict[str, Any]:
    """Return the fields of a structured output with a name."""
    shape = {"type": "object", "properties": {}, "additionalProperties": False}
    return {"text": {"format": {"type": "json_schema", "name": name, "schema": shape}}}


def without(item: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in names}


CASES = [
    # Fields
    unknown("fields", {"thinking": {"type": "enabled"}}, "thinking", {"thinking": None}),
    unknown("fields", {"messages": []}, "messages", {"messages": None}),
    Case(
        "openai_responses.fields",
        {"thinking": {"type": "enabled"}},
        "thinking",
        "Unknown parameter: 'thinking'.",
        {"thinking": None, "client_metadata": {"a": "b"}},
        "azure",
        code=UNKNOWN,
    ),
    *(
        Case(
            "openai_responses.reasoning_effort",
            {"reasoning_effort": "low"},
            "reasoning_effort",
            "Unsupported parameter: 'reasoning_effort'. In the Responses API, this parameter has"
            " moved to 'reasoning.effort'. Try again with the new parameter. See the API"
            " documentation for more information:"
            " https://platform.openai.com/docs/api-reference/responses/create.",
            {"reasoning_effort": None, "reasoning": {"effort": "low"}},
            server,
            "gpt-5",
            code="unsupported_parameter",
        )
        for server in (None, "azure")
    ),
    unknown(
        "message_fields",
        items({**ANSWER, "reasoning_content": "Hm."}),
        "input[1].reasoning_content",
        items({**ANSWER, "id": "msg_1", "status": "completed", "phase": "final_answer", **CODEX}),
    ),
    unknown(
        "reasoning_fields",
        items({**REASONING, "status": None}, ANSWER),
        "input[1].status",
        items({**REASONING, "content": None, **CODEX}, ANSWER),
    ),
    unknown(
        "call_fields",
        items({**CALL, "tool_name": "f"}, RESULT),
        "input[1].tool_name",
        items({**CALL, "id": "fc_1", "status": "completed", "namespace": "n", **CODEX}, RESULT),
    ),
    unknown(
        "custom_call_fields",
        items({**CUSTOM_CALL, "arguments": "ls"}, CUSTOM_RESULT),
        "input[1].arguments",
        items({**CUSTOM_CALL, "id": "ctc_1", "status": "completed", **CODEX}, CUSTOM_RESULT),
    ),
    unknown(
        "result_fields",
        items(CALL, {**RESULT, "is_error": True}),
        "input[2].is_error",
        items(CALL, {**RESULT, "id": "fco_1", "name": "f", "status": "completed", **CODEX}),
    ),
    unknown(
        "custom_result_fields",
        items(CUSTOM_CALL, {**CUSTOM_RESULT, "is_error": True}),
        "input[2].is_error",
        items(CUSTOM_CALL, {**CUSTOM_RESULT, "id": "ctco_1", **CODEX}),
    ),
    unknown(
        "part_fields",
        items({"role": "user", "content": [{**TEXT, "cache_control": {"type": "ephemeral"}}]}),
        "input[1].content[0].cache_control",
        items({"role": "user", "content": [TEXT, IMAGE, {"type": "input_file", "file_id": "f"}]}),
    ),
    unknown(
        "part_fields",
        items(CALL, {**RESULT, "output": [TEXT, {**IMAGE, "media_type": "image/png"}]}),
        "input[2].output[1].media_type",
        items(CALL, {**RESULT, "output": [TEXT, IMAGE]}),
    ),
    Case(
        "openai_responses.reasoning_content",
        items({**REASONING, "content": [{"type": "reasoning_text", "text": "a"}]}, ANSWER),
        "input[1].content",
        "Invalid 'input[1].content': array too long. Expected an array with maximum length 0, but"
        " got an array with length 1 instead.",
        items({**REASONING, "content": []}, ANSWER),
        code="array_above_max_length",
    ),
    missing("input", {"input": None}, "input", {"input": None, "previous_response_id": "resp_1"}),
    missing("summary", items(without(REASONING, "summary"), ANSWER), "input[1].summary", items()),
    missing("call", items(without(CALL, "arguments"), RESULT), "input[1].arguments", CALLED),
    missing(
        "custom_call", items(without(CUSTOM_CALL, "input"), CUSTOM_RESULT), "input[1].input", RAN
    ),
    missing("result", items(CALL, without(RESULT, "output")), "input[2].output", CALLED),
    missing("result", items(CUSTOM_CALL, without(CUSTOM_RESULT, "output")), "input[2].output", RAN),
    missing("tool", {"tools": [without(TOOLS[0], "name")]}, "tools[0].name", {"tools": TOOLS}),
    # Words
    word(
        "roles",
        items({"role": "tool", "content": "1"}),
        "input[1].role",
        "tool",
        ": 'assistant', 'system', 'developer', and 'user'",
        items({"role": "developer", "content": "1"}),
    ),
    word(
        "item_types",
        items({"type": "tool_use", "id": "a"}),
        "input[1].type",
        "tool_use",
        " the types of input items",
        items({"type": "compaction", "id": "cmp_1", "encrypted_content": "a"}),
    ),
    word(
        "tool_types",
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        "tools[0].type",
        "web_search_20250305",
        " the types of tools",
        {"tools": [{"type": "web_search"}]},
    ),
    word(
        "assistant_parts",
        items({"role": "assistant", "content": [TEXT]}),
        "input[1].content[0]",
        "input_text",
        ": 'output_text' and 'refusal'",
        items({"role": "assistant", "content": [SAID, {"type": "refusal", "refusal": "no"}]}),
    ),
    word(
        "user_parts",
        items({"role": "user", "content": [SAID]}),
        "input[1].content[0]",
        "output_text",
        ": 'input_text', 'input_image', and 'input_file'",
        items({"role": "user", "content": [TEXT]}),
    ),
    word(
        "user_parts",
        items(CALL, {**RESULT, "output": [{"type": "text", "text": "a"}]}),
        "input[2].output[0]",
        "text",
        ": 'input_text', 'input_image', and 'input_file'",
        items(CALL, {**RESULT, "output": [TEXT]}),
    ),
    word(
        "tool_choice",
        {"tools": TOOLS, "tool_choice": "any"},
        "tool_choice",
        "any",
        ": 'none', 'auto', and 'required'",
        {"tool_choice": "required"},
    ),
    word(
        "reasoning_summary",
        {"reasoning": {"summary": "none"}},
        "reasoning.summary",
        "none",
        ": 'auto', 'concise', and 'detailed'",
        {"reasoning": {"summary": "auto"}},
    ),
    word(
        "verbosity",
        {"text": {"verbosity": "max"}},
        "text.verbosity",
        "max",
        ": 'low', 'medium', and 'high'",
        {"text": {"verbosity": "medium"}},
    ),
    word(
        "text_format",
        {"text": {"format": {"type": "json"}}},
        "text.format.type",
        "json",
        ": 'json_object', 'json_schema', and 'text'",
        {"text": {"format": {"type": "json_object"}}},
    ),
    *(
        Case(
            "openai_responses.schema_name",
            schema("Weather Report"),
            "text.format.name",
            "Invalid 'text.format.name': string does not match pattern. Expected a string that"
            " matches the pattern '^[a-zA-Z0-9_-]+$'.",
            schema("Weather-Report_2"),
            server,
            free="vllm",
        )
        for server in (None, "azure")
    ),
    Case(
        "openai_responses.schema_name_length",
        schema("a" * 65),
        "text.format.name",
        "Invalid 'text.format.name': string too long. Expected a string with maximum length 64, but"
        " got a string with length 65 instead.",
        schema("a" * 64),
        free="vllm",
        code="string_above_max_length",
    ),
    word(
        "truncation",
        {"truncation": "middle"},
        "truncation",
        "middle",
        ": 'auto' and 'disabled'",
        {"truncation": "auto"},
    ),
    word(
        "service_tier",
        {"service_tier": "standard_only"},
        "service_tier",
        "standard_only",
        ": 'auto', 'default', 'flex', 'scale', 'priority', 'fast', and 'ultrafast'",
        {"service_tier": "flex"},
    ),
    word(
        "image_detail",
        items({"role": "user", "content": [{**IMAGE, "detail": "medium"}]}),
        "input[1].content[0].detail",
        "medium",
        ": 'low', 'high', 'auto', and 'original'",
        items({"role": "user", "content": [IMAGE]}),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_request_is_refused_as_the_vendor_refuses_it(case: Case) -> None:
    case.check()


def test_input_that_is_one_text_is_accepted() -> None:
    assert validate_request({"model": "gpt-4.1", "input": "Hi"}, "openai_responses") == []


@pytest.mark.parametrize("name", ["conversation", "prompt", "previous_response_id"])
def test_input_may_be_known_to_the_provider(name: str) -> None:
    body = {"model": "gpt-4.1", name: "id_1"}
    assert validate_request(body, "openai_responses") == []


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"input": 3, "tools": 3, "tool_choice": 3, "store": "no", "reasoning": []},
        {"input": [3, {}, {"role": 3}, {"type": 3}, {"type": "reasoning", "id": 3, "summary": 3}]},
        {"input": [{"role": "assistant", "content": [3, {}, {"type": 3}]}], "tools": [3, {}]},
        {"tool_choice": {}, "tools": [{"type": "namespace", "tools": [3, {}]}]},
        {"tool_choice": {"type": "allowed_tools", "tools": [3, {}]}},
        {"input": [{"type": "additional_tools", "tools": 3}], "tool_choice": {"type": 3}},
    ],
)
@pytest.mark.parametrize("server", [None, "azure", "chatgpt", "copilot", "vllm"])
def test_checks_are_total(value: dict[str, Any], server: str | None) -> None:
    validate_request({"model": "gpt-5", **value}, "openai_responses", server=server)


@needs_requests
def test_requests_that_openai_has_answered_are_accepted() -> None:
    """Those of Codex and other agents, and of the streams that OpenAI sent."""
    vendor = ("openai", "openai_responses")
    found = {
        real.name: violations
        for real in real_requests("openai_responses")
        if real.provider in vendor
        and (violations := validate_request(real.body, "openai_responses", path=real.path))
    }
    assert found == {}
