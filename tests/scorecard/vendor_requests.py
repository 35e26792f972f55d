"""Requests for Gemini and Bedrock, which their clients' own vendors accept."""

from __future__ import annotations

from typing import Any

from support.rules.translations import Translation

__all__ = ["BEDROCK", "GEMINI"]

CHAT, MESSAGES = "openai_chat", "anthropic"
PRO, THREE, CLAUDE = (
    *("gemini-2.5-pro", "gemini-3-pro-preview"),
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
)
QUESTION: dict[str, Any] = {"role": "user", "content": "Rome?"}
ANSWER: dict[str, Any] = {"role": "assistant", "content": "Hot."}
PNG = "iVBORw0KGgo="
USE = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}


def _function(name: str = "f", **schema: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {}, **schema}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def _called(id: str = "call_1", *ids: str) -> dict[str, Any]:
    calls = [
        {"id": each, "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for each in (id, *ids)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _result(id: str = "call_1", content: Any = "18") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


def _chat(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"messages": list(messages) or [QUESTION], **fields}


def _with_tool(**schema: Any) -> dict[str, Any]:
    return _chat(tools=[_function(**schema)])


def _of(**properties: Any) -> dict[str, Any]:
    return _with_tool(properties=properties)


def _messages(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"max_tokens": 50000, "messages": list(messages) or [QUESTION], **fields}


def _image(media_type: str) -> dict[str, Any]:
    url = {"url": f"data:{media_type};base64,{PNG}"}
    text = {"type": "text", "text": "What is it?"}
    return {"role": "user", "content": [text, {"type": "image_url", "image_url": url}]}


_STRICT = {"$schema": "https://json-schema.org/draft/2020-12/schema", "additionalProperties": False}
_TOOLS = {"tools": [_function()]}
_SCHEMA = {"name": "s", "schema": {"type": "object", "properties": {}}}
_JSON = {"response_format": {"type": "json_schema", "json_schema": _SCHEMA}}
_PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
_REFERENCE = {"$ref": "#/$defs/a", "description": "x", "minLength": 1}

_GEMINI: list[tuple[str, str, dict[str, Any], str]] = [
    ("parameters_additional_properties", CHAT, _with_tool(**_STRICT), PRO),
    ("parameters_keywords", CHAT, _of(a={"const": 1}, b={"exclusiveMinimum": 0}), PRO),
    ("array_items", CHAT, _of(a={"type": "array"}), PRO),
    ("enum_values", CHAT, _of(a={"type": "string", "enum": []}), THREE),
    ("text_formats", CHAT, _of(a={"type": "string", "format": "uri"}), PRO),
    ("parameters_type", CHAT, _of(a={"type": ["string", "null"]}), PRO),
    (
        "reference_beside",
        CHAT,
        _with_tool(properties={"a": _REFERENCE}, **{"$defs": {"a": {}}}),
        PRO,
    ),
    ("function_names", CHAT, _chat(tools=[_function("2fast")]), PRO),
    ("call_turns", CHAT, _chat(_called(), _result(), QUESTION, **_TOOLS), PRO),
    (
        "response_counts",
        CHAT,
        _chat(QUESTION, _called("a", "b"), _result("b"), _result("a"), **_TOOLS),
        PRO,
    ),
    ("last_turn", CHAT, _chat(QUESTION, ANSWER), "gemini-3.6-pro"),
    ("signatures", CHAT, _chat(QUESTION, _called(), _result(), **_TOOLS), THREE),
    ("empty_parts", CHAT, _chat(QUESTION, {"role": "assistant", "content": ""}, QUESTION), PRO),
    ("image_types", CHAT, _chat(_image("image/gif")), PRO),
    ("output_beside_functions", CHAT, _chat(**_TOOLS, **_JSON), PRO),
    ("medium_level", CHAT, _chat(reasoning_effort="medium"), THREE),
    ("no_thinking_pro", CHAT, _chat(reasoning_effort="none"), PRO),
    ("max_stops", MESSAGES, _messages(stop_sequences=[*"abcdef"]), PRO),
    (
        "budget_pro",
        MESSAGES,
        _messages(thinking={"type": "enabled", "budget_tokens": 40000}),
        PRO,
    ),
    ("lone_surrogates", CHAT, _chat({"role": "user", "content": "a\ud83d"}), PRO),
]

_BEDROCK: list[tuple[str, str, dict[str, Any]]] = [
    ("tool_config", CHAT, _chat(QUESTION, _called(), _result())),
    ("call_id", CHAT, _chat(QUESTION, _called("call|1"), _result("call|1"), **_TOOLS)),
    (
        "missing_results",
        CHAT,
        _chat(QUESTION, _called("a", "b"), _result("b"), _result("a"), **_TOOLS),
    ),
    ("blank_text", CHAT, _chat(QUESTION, {"role": "assistant", "content": " "}, QUESTION)),
    ("alternation", CHAT, _chat(QUESTION, QUESTION)),
    ("first_message", CHAT, _chat(ANSWER, QUESTION)),
    ("temperature", CHAT, _chat(temperature=1.7)),
    ("empty_texts", CHAT, _chat({"role": "system", "content": ""}, QUESTION)),
    ("tool_name", CHAT, _chat(tools=[_function("f" * 65)])),
    (
        "lone_document",
        MESSAGES,
        _messages({"role": "user", "content": [{"type": "document", "source": _PDF}]}),
    ),
    (
        "document_name",
        MESSAGES,
        _messages(
            {
                "role": "user",
                "content": [
                    {"type": "document", "title": "a_b.pdf", "source": _PDF},
                    {"type": "text", "text": "Read."},
                ],
            }
        ),
    ),
    (
        "json_result",
        CHAT,
        _chat(QUESTION, _called(), _result(content="[1]"), **_TOOLS),
    ),
]

# No turn of a user may be invented.
_HAS_NO_LEGAL_FORM = {"call_turns": "messages[0]", "first_message": "messages[0]"}

GEMINI = [
    Translation(f"gemini.{rule}", source, body, "gemini", model, error=_HAS_NO_LEGAL_FORM.get(rule))
    for rule, source, body, model in _GEMINI
]
BEDROCK = [
    Translation(
        f"bedrock_converse.{rule}",
        source,
        body,
        "bedrock_converse",
        CLAUDE,
        error=_HAS_NO_LEGAL_FORM.get(rule),
    )
    for rule, source, body in _BEDROCK
]
