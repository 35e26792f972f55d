"""What OpenAI refuses in requests of Chat Completions, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from support.bodies.json_texts import PLAIN, values
from support.rules.chat import (
    CALL,
    CALLING,
    RESULT,
    TOOLS,
    USER,
    Case,
    answered,
    called,
    messages,
    said,
)

from streamnorm._core.codec import RequestFacts
from streamnorm.dialects.openai_chat.body.validate import request_checks
from streamnorm.validation import validate_request

SYSTEM = {"role": "system", "content": "Be brief."}
ASSISTANT = {"role": "assistant", "content": "Hello"}
NAMED = {"type": "function", "function": {"name": "f"}}
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}
EMPTY = "empty array. Expected an array with minimum length 1, but got an empty array instead."
PATTERN = (
    "string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
)


def marked(count: int) -> dict[str, Any]:
    part = {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}
    return said(*[part] * count)


def tools(*names: str) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": name}} for name in names]}


def too_long(path: str, limit: int, count: int) -> str:
    return (
        f"Invalid '{path}': string too long. Expected a string with maximum length {limit}, but"
        f" got a string with length {count} instead."
    )


def array_too_long(path: str, limit: int, count: int) -> str:
    return (
        f"Invalid '{path}': array too long. Expected an array with maximum length {limit}, but"
        f" got an array with length {count} instead."
    )


def unknown(path: str) -> str:
    return f"Unknown parameter: '{path}'."


def invalid(value: str, known: str) -> str:
    return f"Invalid value: '{value}'. Supported values are: {known}."


CASES = [
    # Fields
    Case(
        "openai_chat.fields",
        {"thinking": {"type": "enabled"}},
        "thinking",
        unknown("thinking"),
        {"thinking": None},
        free="vllm",
    ),
    Case(
        "azure.fields",
        {"reasoning": {"effort": "low"}},
        "reasoning",
        "Unrecognized request argument supplied: reasoning",
        {"reasoning": None},
        server="azure",
        free="vllm",
    ),
    Case(
        "openai_chat.message_fields",
        messages(USER, {**ASSISTANT, "reasoning_content": "Hm."}),
        "messages[1].reasoning_content",
        unknown("messages[1].reasoning_content"),
        messages(USER, ASSISTANT),
        free="deepseek",
    ),
    Case(
        "openai_chat.message_fields",
        messages(USER, CALLING, {**RESULT, "name": "f"}),
        "messages[2].name",
        unknown("messages[2].name"),
        messages(USER, CALLING, RESULT),
        free="groq",
    ),
    Case(
        "openai_chat.part_fields",
        said({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}),
        "messages[0].content[0].cache_control",
        unknown("messages[0].content[0].cache_control"),
        marked(1),
        model="gpt-5.6-sol",
        free="openrouter",
    ),
    Case(
        "openai_chat.function_fields",
        {"tools": [{"type": "function", "function": {"name": "f", "input_schema": {}}}]},
        "tools[0].function.input_schema",
        unknown("tools[0].function.input_schema"),
        {"tools": TOOLS},
        free="vllm",
    ),
    Case(
        "openai_chat.tool_fields",
        {"tools": [{**TOOLS[0], "cache_control": {"type": "ephemeral"}}]},
        "tools[0].cache_control",
        unknown("tools[0].cache_control"),
        {"tools": TOOLS},
        free="openrouter",
    ),
    Case(
        "openai_chat.no_messages",
        {"messages": None},
        "messages",
        "Missing required parameter: 'messages'.",
        messages(USER),
        free="vllm",
    ),
    Case(
        "openai_chat.messages",
        {"messages": []},
        "messages",
        f"Invalid 'messages': {EMPTY}",
        messages(USER),
        free="vllm",
    ),
    Case(
        "openai_chat.empty_tools",
        {"tools": []},
        "tools",
        f"Invalid 'tools': {EMPTY}",
        {"tools": TOOLS},
    ),
    Case(
        "openai_chat.empty_tools",
        messages(USER, {**ASSISTANT, "tool_calls": []}),
        "messages[1].tool_calls",
        f"Invalid 'messages[1].tool_calls': {EMPTY}",
        messages(USER, ASSISTANT),
    ),
    Case(
        "openai_chat.stream_options",
        {"stream_options": {"include_usage": True}},
        "stream_options",
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        {"stream": True},
    ),
    # Words
    Case(
        "openai_chat.roles",
        messages({"role": "bot", "content": "a"}),
        "messages[0].role",
        invalid("bot", "'system', 'assistant', 'user', 'function', 'tool', and 'developer'"),
        messages({"role": "developer", "content": "a"}),
    ),
    Case(
        "azure.developer",
        messages({"role": "developer", "content": "a"}, USER),
        "messages[0].role",
        "The request is invalid: developer is not one of ['system', 'assistant', 'user', 'tool',"
        " 'function']",
        messages(SYSTEM, USER),
        server="azure",
        model="DeepSeek-V3.2",
        free="azure/gpt-5",
    ),
    Case(
        "openai_chat.service_tier",
        {"service_tier": "standard_only"},
        "service_tier",
        invalid("standard_only", "'auto', 'default', 'flex', 'scale', 'priority', and 'fast'"),
        {"service_tier": "flex"},
        free="groq",
    ),
    Case(
        "openai_chat.verbosity",
        {"verbosity": "max"},
        "verbosity",
        invalid("max", "'low', 'medium', and 'high'"),
        {"verbosity": "medium"},
    ),
    Case(
        "openai_chat.response_format",
        {"response_format": {"type": "grammar"}},
        "response_format.type",
        invalid("grammar", "'json_object', 'json_schema', and 'text'"),
        {"response_format": {"type": "text"}},
    ),
    Case(
        "openai_chat.image_detail",
        said({"type": "image_url", "image_url": {"url": "https://a", "detail": "full"}}),
        "messages[0].content[0].image_url.detail",
        invalid("full", "'low', 'high', 'auto', and 'original'"),
        said({"type": "image_url", "image_url": {"url": "https://a", "detail": "low"}}),
    ),
    Case(
        "openai_chat.audio_format",
        said({"type": "input_audio", "input_audio": {"data": "AA==", "format": "ogg"}}),
        "messages[0].content[0].input_audio.format",
        invalid("ogg", "'wav' and 'mp3'"),
        said({"type": "input_audio", "input_audio": {"data": "AA==", "format": "mp3"}}),
    ),
    Case(
        "openai_chat.tool_types",
        {"tools": [{"type": "web_search"}]},
        "tools[0].type",
        invalid("web_search", "'function' and 'custom'"),
        {"tools": [{"type": "custom", "custom": {"name": "f"}}]},
        free="qwen",
    ),
    Case(
        "openai_chat.tool_choice",
        {"tools": TOOLS, "tool_choice": "any"},
        "tool_choice",
        invalid("any", "'none', 'auto', and 'required'"),
        {"tool_choice": NAMED},
        free="mistral",
    ),
    Case(
        "openai_chat.breakpoint_ttl",
        said(
            {
                "type": "text",
                "text": "a",
                "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "1h"},
            }
        ),
        "messages[0].content[0].prompt_cache_breakpoint.ttl",
        invalid("1h", "'30m' and '12h'"),
        marked(1),
        model="gpt-5.6-sol",
    ),
    # Numbers
    Case(
        "openai_chat.least",
        {"temperature": -0.5},
        "temperature",
        "Invalid 'temperature': decimal below minimum value. Expected a value >= 0, but got -0.5"
        " instead.",
        {"temperature": 0},
    ),
    Case(
        "openai_chat.most",
        {"temperature": 2.5},
        "temperature",
        "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 2.5"
        " instead.",
        {"temperature": 2},
    ),
    Case(
        "openai_chat.top_p",
        {"top_p": 1.5},
        "top_p",
        "Invalid 'top_p': decimal above maximum value. Expected a value <= 1, but got 1.5 instead.",
        {"top_p": 1},
    ),
    Case(
        "openai_chat.penalties",
        {"presence_penalty": 3},
        "presence_penalty",
        "Invalid 'presence_penalty': decimal out of range. Expected a value of -2 to 2, but got 3"
        " instead.",
        {"presence_penalty": -2},
    ),
    Case(
        "openai_chat.top_logprobs",
        {"logprobs": True, "top_logprobs": 21},
        "top_logprobs",
        "Invalid 'top_logprobs': integer above maximum value. Expected a value <= 20, but got 21"
        " instead.",
        {"top_logprobs": 20},
    ),
    Case(
        "openai_chat.top_logprobs_alone",
        {"top_logprobs": 2},
        "top_logprobs",
        "The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled.",
        {"logprobs": True},
    ),
    Case(
        "openai_chat.stored_metadata",
        {"metadata": {"k": "v"}},
        "metadata",
        "The 'metadata' parameter is only allowed when 'store' is enabled.",
        {"store": True},
    ),
    Case(
        "openai_chat.json_word",
        {"response_format": {"type": "json_object"}},
        "messages",
        "'messages' must contain the word 'json' in some form, to use 'response_format' of type"
        " 'json_object'.",
        said("Answer in JSON."),
    ),
    Case(
        "openai_chat.choices",
        {"n": 0},
        "n",
        "Invalid 'n': integer out of range. Expected a value of 1 to 128, but got 0 instead.",
        {"n": 1},
    ),
    Case(
        "openai_chat.max_tokens_least",
        {"max_tokens": 0},
        "max_tokens",
        "Invalid 'max_tokens': integer below minimum value. Expected a value >= 1, but got 0"
        " instead.",
        {"max_tokens": 1},
    ),
    # Lengths
    Case(
        "openai_chat.tools",
        tools(*(f"f{number}" for number in range(150))),
        "tools",
        array_too_long("tools", 128, 150),
        tools(*(f"f{number}" for number in range(128))),
        free="copilot",
    ),
    Case(
        "openai_chat.stop",
        {"stop": ["a", "b", "c", "d", "e"]},
        "stop",
        array_too_long("stop", 4, 5),
        {"stop": "a longer text"},
    ),
    *(
        Case(
            "openai_chat.prompt_cache_key",
            {"prompt_cache_key": "k" * 72},
            "prompt_cache_key",
            too_long("prompt_cache_key", 64, 72),
            {"prompt_cache_key": "k" * 64},
            server=server,
        )
        for server in (None, "azure", "meta")
    ),
    *(
        Case(
            "openai_chat.safety_identifier",
            {name: "u" * 150},
            name,
            too_long(name, 128, 150),
            {name: "u" * 128},
        )
        for name in ("user", "safety_identifier")
    ),
    Case(
        "openai_chat.metadata",
        {"store": True, "metadata": {f"k{number}": "v" for number in range(24)}},
        "metadata",
        "Invalid 'metadata': too many properties. Expected an object with at most 16 properties,"
        " but got an object with 24 properties instead.",
        {"metadata": {f"k{number}": "v" for number in range(16)}},
    ),
    Case(
        "openai_chat.metadata_values",
        {"store": True, "metadata": {"actual": "v" * 695}},
        "metadata.actual",
        too_long("metadata.actual", 512, 695),
        {"metadata": {"actual": "v" * 512}},
    ),
    Case(
        "openai_chat.metadata_values",
        {"store": True, "metadata": {"k" * 65: "v"}},
        "metadata",
        too_long("metadata", 64, 65),
        {"metadata": {"k" * 64: "v"}},
    ),
    Case(
        "openai_chat.call_ids",
        messages(USER, called("c" * 64, "d" * 65), answered("c" * 64), answered("d")),
        "messages[1].tool_calls[1].id",
        too_long("messages[1].tool_calls[1].id", 64, 65),
        messages(USER, called("c" * 64), answered("c" * 64)),
    ),
    Case(
        "copilot.call_ids",
        messages(USER, called("c" * 40), answered("c" * 46)),
        "messages[2].tool_call_id",
        too_long("messages[2].tool_call_id", 40, 46),
        messages(USER, called("c" * 40), answered("c" * 40)),
        server="copilot",
        free="azure",
    ),
    Case(
        "openai_chat.excess_breakpoints",
        marked(5),
        "messages[0].content[4].prompt_cache_breakpoint",
        "Invalid 'messages[0].content[4].prompt_cache_breakpoint': at most 4 explicit cache"
        " breakpoints are supported, but got 5.",
        marked(4),
        model="gpt-5.6-sol",
    ),
    # Tools
    Case(
        "openai_chat.tool_names",
        tools("mcp.find"),
        "tools[0].function.name",
        f"Invalid 'tools[0].function.name': {PATTERN}",
        tools("mcp-find_2"),
    ),
    Case(
        "openai_chat.tool_names",
        messages(
            USER,
            {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "a b"}}]},
            RESULT,
        ),
        "messages[1].tool_calls[0].function.name",
        f"Invalid 'messages[1].tool_calls[0].function.name': {PATTERN}",
        messages(USER, CALLING, RESULT),
    ),
    Case(
        "openai_chat.tool_name_length",
        {"tools": [{"type": "custom", "custom": {"name": "n" * 65}}]},
        "tools[0].custom.name",
        too_long("tools[0].custom.name", 64, 65),
        {"tools": [{"type": "custom", "custom": {"name": "n" * 64}}]},
    ),
    Case(
        "openai_chat.unique_tools",
        tools("f", "g", "f"),
        "tools[2].function.name",
        "Invalid 'tools[2].function.name': tool names must be unique, but 'f' is that of another"
        " tool.",
        tools("f", "g"),
        free="vllm",
    ),
    Case(
        "openai_chat.schema_name",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a b"}}},
        "response_format.json_schema.name",
        f"Invalid 'response_format.json_schema.name': {PATTERN}",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a-b"}}},
    ),
    Case(
        "openai_chat.schema_name_length",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a" * 65}}},
        "response_format.json_schema.name",
        too_long("response_format.json_schema.name", 64, 65),
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a" * 64}}},
    ),
    *(
        Case(
            "openai_chat.choice_without_tools",
            {name: value},
            name,
            f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified.",
            {"tools": TOOLS},
        )
        for name, value in [("tool_choice", "none"), ("parallel_tool_calls", False)]
    ),
    Case(
        "openai_chat.chosen_tool",
        {**tools("g"), "tool_choice": NAMED},
        "tool_choice",
        "Invalid value for 'tool_choice': no tool named 'f' was specified in the 'tools'"
        " parameter.",
        tools("f"),
    ),
    Case(
        "openai_chat.chosen_tool",
        {**tools("g"), "tool_choice": ALLOWED},
        "tool_choice.allowed_tools.tools[0]",
        "Invalid value for 'tool_choice.allowed_tools.tools[0]': no tool named 'f' was specified in"
        " the 'tools' parameter.",
        tools("g", "f"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_request_is_refused_as_the_vendor_refuses_it(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("calling", [ASSISTANT, CALLING], ids=["text", "calls"])
def test_message_of_an_answer_is_sent_back_with_its_annotations(calling: dict[str, Any]) -> None:
    """What the official SDK sends for `messages.append(completion.choices[0].message)`."""
    fields = {"annotations": [], "audio": None, "function_call": None, "refusal": None}
    after = RESULT if calling is CALLING else USER
    assert not validate_request(messages(USER, {**calling, **fields}, after), "openai_chat")


@pytest.mark.parametrize("check", request_checks().values(), ids=lambda check: check.__name__)
@given(value=values(PLAIN))
def test_check_accepts_any_json(check: Any, value: object) -> None:
    shapes: list[dict[str, Any]] = [
        {"messages": value, "tools": value, "stop": value, "metadata": value, "tool_choice": value},
        {"messages": [value], "tools": [value], "tool_choice": {"allowed_tools": value}},
        {
            "messages": [
                {"role": "user", "content": value, "tool_calls": value},
                {"role": "assistant", "content": [value], "tool_calls": [value]},
                {"role": "user", "content": [{"type": "file", "file": value, "image_url": value}]},
                {"role": "tool", "tool_call_id": value},
                {"role": value},
            ],
            "tool_choice": {"type": value, "function": value},
        },
    ]
    for body in shapes:
        list(check(RequestFacts(body)))


@pytest.mark.parametrize("server", ["azure", "copilot"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_refused_request_of_a_client_reaches_a_cloud_legal_or_not_at_all(
    case: Case, server: str
) -> None:
    case.check_repair(server)
