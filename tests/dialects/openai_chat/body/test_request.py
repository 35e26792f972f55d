"""Requests: every field but messages and tools, read and written."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.bodies.sdk_types import problems
from support.openai_chat.requests import (
    asked,
    body_of,
    lost_by,
    message,
    read,
    without_source,
    write,
)

from streamnorm import (
    CacheMark,
    DecodeError,
    Document,
    OutputFormat,
    ReasoningOptions,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    encode_request,
)
from streamnorm._core.codec import WriteContext
from streamnorm._core.losses import Losses
from streamnorm.dialects.openai_chat.body import CODEC

HI = {"role": "user", "content": "Hi"}
ASKED = asked(message("user", Text("Hi")))
SCHEMA = {"type": "object", "properties": {}, "additionalProperties": False}
F = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}

FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "limit": ({"max_completion_tokens": 100}, {"max_tokens": 100}),
    "stop": ({"stop": ["A", "B"]}, {"stop": ("A", "B")}),
    "temperature": ({"temperature": 1.5}, {"temperature": 1.5}),
    "whole temperature": ({"temperature": 1}, {"temperature": 1}),
    "top_p": ({"top_p": 0.9}, {"top_p": 0.9}),
    "seed": ({"seed": 7}, {"seed": 7}),
    "penalties": (
        {"frequency_penalty": -1, "presence_penalty": 0.5},
        {"frequency_penalty": -1, "presence_penalty": 0.5},
    ),
    "bias": ({"logit_bias": {"50256": -100}}, {"logit_bias": {"50256": -100}}),
    "probabilities": (
        {"logprobs": True, "top_logprobs": 5},
        {"logprobs": True, "top_logprobs": 5},
    ),
    "answers": ({"n": 2}, {"choices": 2}),
    "text": ({"response_format": {"type": "text"}}, {"output": OutputFormat("text")}),
    "any object": (
        {"response_format": {"type": "json_object"}},
        {"output": OutputFormat("json_object")},
    ),
    "schema": (
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {
                    "name": "ans",
                    "description": "An answer.",
                    "schema": SCHEMA,
                    "strict": True,
                },
            }
        },
        {"output": OutputFormat("json_schema", SCHEMA, "ans", "An answer.", strict=True)},
    ),
    "schema without a name of its own": (
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "response", "schema": SCHEMA},
            }
        },
        {"output": OutputFormat("json_schema", SCHEMA)},
    ),
    "verbosity": ({"verbosity": "low"}, {"verbosity": "low"}),
    "effort": ({"reasoning_effort": "xhigh"}, {"reasoning": ReasoningOptions(effort="xhigh")}),
    "identity": (
        {"user": "u", "safety_identifier": "s"},
        {"user": "u", "safety_identifier": "s"},
    ),
    "labels": ({"metadata": {"k": "v"}}, {"metadata": {"k": "v"}}),
    "tier": ({"service_tier": "flex"}, {"service_tier": "flex"}),
    "mark of the provider": (
        {"prompt_cache_options": {"mode": "implicit"}},
        {"cache": CacheMark()},
    ),
    "mark of the provider with a lifetime": (
        {"prompt_cache_options": {"mode": "implicit", "ttl": "30m"}},
        {"cache": CacheMark("30m")},
    ),
    "cache key": ({"prompt_cache_key": "k"}, {"cache_key": "k"}),
    "stream": (
        {"stream": True, "stream_options": {"include_usage": True}},
        {"stream": True},
    ),
    "no stream": ({"stream": False}, {"stream": False}),
    "store": ({"store": False}, {"store": False}),
}


@pytest.mark.parametrize(("fields", "unified"), FIELDS.values(), ids=FIELDS)
def test_fields_are_read_and_written(fields: dict[str, Any], unified: dict[str, Any]) -> None:
    request = structs.replace(ASKED, **unified)
    assert without_source(read(body_of(HI, **fields))) == request
    body = write(request)
    assert body == body_of(HI, **fields)
    assert problems("openai_chat", body) == []
    assert lost_by(request) == []


def test_all_fields_have_a_test() -> None:
    tested = {name for _, unified in FIELDS.values() for name in unified}
    elsewhere = {"model", "messages", "tools", "tool_choice", "parallel_tool_calls"}
    assert CODEC.capabilities.fields == tested | elsewhere


READ: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "old limit": ({"max_tokens": 100}, {"max_tokens": 100}),
    "both limits": ({"max_tokens": 1, "max_completion_tokens": 100}, {"max_tokens": 100}),
    "one stop": ({"stop": "END"}, {"stop": ("END",)}),
    "no stop": ({"stop": []}, {}),
    "top_k of servers": ({"top_k": 5}, {"top_k": 5}),
    "schema without a name": (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
        {"output": OutputFormat("json_schema", SCHEMA)},
    ),
    "effort of OpenRouter": (
        {"reasoning": {"effort": "high"}},
        {"reasoning": ReasoningOptions(effort="high")},
    ),
    "budget of OpenRouter": (
        {"reasoning": {"max_tokens": 2048}},
        {"reasoning": ReasoningOptions("budget", budget_tokens=2048)},
    ),
    "stream without tokens": ({"stream": True}, {"stream": True}),
}


@pytest.mark.parametrize(("fields", "unified"), READ.values(), ids=READ)
def test_other_spellings_are_read(fields: dict[str, Any], unified: dict[str, Any]) -> None:
    assert without_source(read(body_of(HI, **fields))) == structs.replace(ASKED, **unified)


OWN: dict[str, dict[str, Any]] = {
    "sound": {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}},
    "prediction": {"prediction": {"type": "content", "content": "x"}},
    "retention": {"prompt_cache_retention": "24h"},
    "explicit marks alone": {"prompt_cache_options": {"mode": "explicit"}},
    "more of the mark": {"prompt_cache_options": {"mode": "implicit", "x": 1}},
    "options of a stream": {
        "stream": True,
        "stream_options": {"include_usage": True, "include_obfuscation": False},
    },
    "tokens refused": {"stream": True, "stream_options": {"include_usage": False}},
    "options without a stream": {"stream_options": {"include_obfuscation": False}},
    "more of the reasoning": {"reasoning": {"effort": "high", "exclude": True}},
    "provider of OpenRouter": {"provider": {"order": ["a"]}},
    "reasoning that is no object": {"reasoning": True},
    "reasoning of both kinds": {"reasoning_effort": "low", "reasoning": {"max_tokens": 1}},
    "probabilities as a number": {"logprobs": 3},
    "labels that are no text": {"metadata": {"k": 1}},
    "grammar of a server": {"response_format": {"type": "grammar", "grammar": "x"}},
    "more of the format": {"response_format": {"type": "json_object", "schema": SCHEMA}},
    "more of the schema": {
        "response_format": {
            "type": "json_schema",
            "x": 1,
            "json_schema": {"name": "a", "schema": SCHEMA, "y": 2, "strict": None},
        }
    },
    "nulls": {"temperature": None, "tools": None, "stop": None, "stream_options": None},
}


@pytest.mark.parametrize("fields", OWN.values(), ids=OWN)
def test_other_fields_are_kept(fields: dict[str, Any]) -> None:
    request = read(body_of(HI, **fields))
    assert write(without_source(request)) == body_of(HI, **fields)


def test_an_unchanged_request_is_the_same_body() -> None:
    body = body_of(HI, max_tokens=1, stop="END", stream=True, x={"y": [1]}, tool_choice="any")
    assert write(read(body)) == body


def test_a_changed_field_leaves_the_others_spelt_as_they_were() -> None:
    body = body_of(HI, tools=[F], max_tokens=1, stop="END", stream=True, x=None, tool_choice="any")
    request = read(body)
    renamed = structs.replace(request, model="other", temperature=0.5)
    assert write(renamed) == {**body, "model": "other", "temperature": 0.5}
    bounded = structs.replace(request, max_tokens=2)
    assert write(bounded) == {**body, "max_tokens": 2}
    both = read(body_of(HI, max_tokens=1, max_completion_tokens=2))
    written = write(structs.replace(both, max_tokens=3))
    assert written == body_of(HI, max_completion_tokens=3)


def test_a_field_that_was_cleared_is_gone() -> None:
    request = read(body_of(HI, temperature=1, stop="END"))
    assert write(structs.replace(request, temperature=None, stop=())) == body_of(HI)


def test_tokens_are_asked_for_where_a_stream_is_asked_for_later() -> None:
    request = read(body_of(HI, stream=False))
    streamed = write(structs.replace(request, stream=True))
    usage = {"include_usage": True}
    assert streamed == body_of(HI, stream=True, stream_options=usage)
    back = read(body_of(HI, stream=True, stream_options={**usage, "include_obfuscation": True}))
    assert write(structs.replace(back, stream=False)) == body_of(HI, stream=False)


def test_reasoning_without_an_effort_goes_without_saying() -> None:
    assert write(structs.replace(ASKED, reasoning=ReasoningOptions("adaptive"))) == body_of(HI)


def test_a_request_of_another_dialect_is_written_anew() -> None:
    foreign = structs.replace(read(body_of(HI, temperature=1)), extra={"other": {"x": 1}})
    source = structs.replace(foreign.source, dialect="other")
    written = write(structs.replace(foreign, source=source))
    assert written == body_of(HI, temperature=1)


def test_the_path_is_that_of_the_vendor() -> None:
    context = WriteContext(CODEC.capabilities, Losses())
    written = CODEC.write_request(ASKED, context)
    assert (written.path, written.headers) == ("/v1/chat/completions", {})
    assert encode_request(ASKED, "openai_chat").path == "/v1/chat/completions"


def test_the_field_of_instructions_is_the_first_message() -> None:
    request = Request(system=(Text("A"),), messages=ASKED.messages, tools=(Tool("f"),))
    body = encode_request(request, "openai_chat").body
    assert body["messages"] == [{"role": "system", "content": "A"}, HI]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"messages": None}, "messages"),
        ({"messages": {}}, "messages"),
        ({"model": 5}, "model"),
        ({"temperature": "1"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"stop": [1]}, "stop[0]"),
        ({"stop": 1}, "stop"),
        ({"logprobs": "yes"}, "logprobs"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": 5}}},
            "response_format.json_schema.name",
        ),
        ({"metadata": []}, "metadata"),
        ({"prompt_cache_options": "implicit"}, "prompt_cache_options"),
        (
            {"prompt_cache_options": {"mode": "implicit", "ttl": 5}},
            "prompt_cache_options.ttl",
        ),
        ({"stream": 1}, "stream"),
        ({"stream_options": 1}, "stream_options"),
    ],
)
def test_fields_of_other_types_are_refused_with_their_path(
    fields: dict[str, Any], path: str
) -> None:
    with pytest.raises(DecodeError) as caught:
        read({**body_of(HI), **fields})
    assert caught.value.path == f"$.{path}"


def test_a_body_without_messages_is_no_request() -> None:
    with pytest.raises(DecodeError, match=r"\$\.messages: missing, expected an array"):
        read({"model": "m", "prompt": "Hi"})


@pytest.mark.parametrize(("size", "is_kept"), [(40, True), (41, False)])
def test_long_ids_of_calls_are_replaced(size: int, *, is_kept: bool) -> None:
    id = "c" * size
    body = encode_request(
        asked(
            message("user", Text("Hi")),
            message("assistant", ToolCall(id, "f", "{}")),
            message("user", ToolResult(id, (Text("snow"),))),
        ),
        "openai_chat",
    ).body
    (call,), result = body["messages"][1]["tool_calls"], body["messages"][2]
    assert call["id"] == result["tool_call_id"]
    assert (call["id"] == id) == is_kept
    assert len(call["id"]) <= 40


def test_detail_of_reasoning_is_lost() -> None:
    request = structs.replace(ASKED, reasoning=ReasoningOptions(effort="high", show="detailed"))
    encoded = encode_request(request, "openai_chat")
    assert encoded.body["reasoning_effort"] == "high"
    assert [loss.feature for loss in encoded.losses] == ["reasoning_summary"]


def test_document_by_its_url_is_lost() -> None:
    document = Document("application/pdf", url="https://e.org/a.pdf")
    encoded = encode_request(asked(message("user", Text("Hi"), document)), "openai_chat")
    assert encoded.body["messages"] == [HI]
    assert len(encoded.losses) == 1
