"""Options of a request that are objects."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.bodies.sdk_types import problems
from support.openai_responses.requests import bare, read, write

from streamnorm import DecodeError
from streamnorm._core.blocks import CacheMark, Text
from streamnorm._core.bodies.request import OutputFormat, ReasoningOptions, Request

OWN = "openai_responses"
SCHEMA = {"type": "object"}


def extra(**fields: Any) -> dict[str, dict[str, Any]]:
    """Return fields of this dialect."""
    return {OWN: fields}


# Options that are read as these fields, and written as the same options.
OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "instructions": ({"instructions": "a"}, {"system": (Text("a"),)}),
    "form of the answer": (
        {
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": "ans",
                    "schema": SCHEMA,
                    "description": "d",
                    "strict": True,
                },
                "verbosity": "low",
            }
        },
        {
            "output": OutputFormat("json_schema", SCHEMA, "ans", "d", strict=True),
            "verbosity": "low",
        },
    ),
    "any object": (
        {"text": {"format": {"type": "json_object"}}},
        {"output": OutputFormat("json_object")},
    ),
    "text": ({"text": {"format": {"type": "text"}}}, {"output": OutputFormat("text")}),
    "unknown fields of the form": (
        {
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": "ans",
                    "schema": SCHEMA,
                    "strict": None,
                    "x": 1,
                },
                "y": 2,
            }
        },
        {
            "output": OutputFormat("json_schema", SCHEMA, "ans", extra=extra(strict=None, x=1)),
            "extra": extra(text={"y": 2}),
        },
    ),
    "nothing of the form": ({"text": {}}, {"extra": extra(text={})}),
    "nulls of the form": (
        {"text": {"format": None, "verbosity": None}},
        {"extra": extra(text={"format": None, "verbosity": None})},
    ),
    "effort": (
        {"reasoning": {"effort": "high", "summary": "auto"}},
        {"reasoning": ReasoningOptions(effort="high", show="auto")},
    ),
    "reasoning as Codex asks for it": (
        {"reasoning": {"effort": "medium", "context": "all_turns", "summary": None}},
        {
            "reasoning": ReasoningOptions(
                effort="medium", extra=extra(context="all_turns", summary=None)
            )
        },
    ),
    "reasoning without an effort": (
        {"reasoning": {"mode": "pro"}},
        {"extra": extra(reasoning={"mode": "pro"})},
    ),
    "probabilities": (
        {"include": ["message.output_text.logprobs"], "top_logprobs": 2},
        {"logprobs": True, "top_logprobs": 2},
    ),
    "other includes": (
        {"include": ["reasoning.encrypted_content"]},
        {"extra": extra(include=["reasoning.encrypted_content"])},
    ),
    "all includes": (
        {"include": ["reasoning.encrypted_content", "message.output_text.logprobs"]},
        {"logprobs": True, "extra": extra(include=["reasoning.encrypted_content"])},
    ),
    "no includes": ({"include": []}, {"extra": extra(include=[])}),
    "cache": ({"prompt_cache_options": {"mode": "implicit"}}, {"cache": CacheMark()}),
    "cache with a lifetime": (
        {"prompt_cache_options": {"mode": "implicit", "ttl": "12h", "prewarm": True}},
        {"cache": CacheMark("12h"), "extra": extra(prompt_cache_options={"prewarm": True})},
    ),
    "cache by marks": (
        {"prompt_cache_options": {"mode": "explicit"}},
        {"extra": extra(prompt_cache_options={"mode": "explicit"})},
    ),
    "compaction": (
        {"context_management": [{"type": "compaction", "compact_threshold": 100}]},
        {"compact_at_tokens": 100},
    ),
    "compaction at the server's bound": (
        {"context_management": [{"type": "compaction", "compact_threshold": None}]},
        {"extra": extra(context_management=[{"type": "compaction", "compact_threshold": None}])},
    ),
    "other context management": (
        {"context_management": [{"type": "new"}]},
        {"extra": extra(context_management=[{"type": "new"}])},
    ),
    "state": (
        {
            "previous_response_id": "resp_1",
            "conversation": {"id": "conv_1"},
            "prompt": {"id": "pmpt_1"},
            "background": True,
        },
        {
            "state": {
                "previous_response_id": "resp_1",
                "conversation": {"id": "conv_1"},
                "prompt": {"id": "pmpt_1"},
                "background": True,
            }
        },
    ),
    "no background": ({"background": False}, {"extra": extra(background=False)}),
    "metadata": ({"metadata": {"k": "v"}}, {"metadata": {"k": "v"}}),
    "metadata that is no text": ({"metadata": {"k": 1}}, {"extra": extra(metadata={"k": 1})}),
    "other fields": (
        {
            "truncation": "auto",
            "max_tool_calls": 2,
            "stream_options": {"include_obfuscation": False},
            "client_metadata": {"x": "y"},
            "moderation": None,
        },
        {
            "extra": extra(
                truncation="auto",
                max_tool_calls=2,
                stream_options={"include_obfuscation": False},
                client_metadata={"x": "y"},
                moderation=None,
            )
        },
    ),
    "single values": (
        {
            "model": "m",
            "max_output_tokens": 5,
            "temperature": 1.5,
            "top_p": 0.5,
            "parallel_tool_calls": False,
            "user": "u",
            "safety_identifier": "s",
            "service_tier": "flex",
            "prompt_cache_key": "k",
            "store": False,
            "stream": True,
        },
        {
            "model": "m",
            "max_tokens": 5,
            "temperature": 1.5,
            "top_p": 0.5,
            "parallel_tool_calls": False,
            "user": "u",
            "safety_identifier": "s",
            "service_tier": "flex",
            "cache_key": "k",
            "store": False,
            "stream": True,
        },
    ),
    "nulls": (
        {"model": None, "temperature": None, "text": None, "reasoning": None, "tools": None},
        {"extra": extra(model=None, temperature=None, text=None, reasoning=None, tools=None)},
    ),
}


@pytest.mark.parametrize(("options", "fields"), OPTIONS.values(), ids=OPTIONS)
def test_options_are_read_and_written(options: dict[str, Any], fields: dict[str, Any]) -> None:
    request = bare(read({"input": [], **options}))
    assert request == Request(**fields)
    # A request that was not read stores nothing unless it says so.
    written = write(structs.replace(request, store=request.store or False))
    assert {name: written[name] for name in options} == options
    # Without storage, reasoning has to be asked for.
    added = {"include"} if "reasoning" in options else set()
    assert written.keys() <= {"input", "store", *added, *options}


def test_log_probabilities_that_are_declined_are_not_included() -> None:
    assert "include" not in write(Request(logprobs=False))


def test_schema_has_a_name() -> None:
    """Two dialects have no names for schemas, and this one demands one."""
    body = write(Request(output=OutputFormat("json_schema", SCHEMA)))
    assert body["text"]["format"] == {"type": "json_schema", "name": "response", "schema": SCHEMA}
    assert problems(OWN, body) == []


def test_schema_of_nothing_is_any_object() -> None:
    body = write(Request(output=OutputFormat("json_schema")))
    assert body["text"]["format"] == {"type": "json_schema", "name": "response", "schema": {}}


@pytest.mark.parametrize(
    ("options", "value"),
    [
        (ReasoningOptions("off"), {"effort": "none"}),
        (ReasoningOptions(effort="low", show="none"), {"effort": "low"}),
        (ReasoningOptions(show="detailed"), {"summary": "detailed"}),
    ],
)
def test_reasoning_of_another_dialect(options: ReasoningOptions, value: dict[str, str]) -> None:
    assert write(Request(reasoning=options))["reasoning"] == value


@pytest.mark.parametrize("show", [None, "none"])
def test_reasoning_that_says_nothing_here_is_not_written(show: str | None) -> None:
    options = ReasoningOptions("adaptive", show=show)
    assert "reasoning" not in write(Request(model="m", reasoning=options))


def test_option_that_was_null_can_be_set() -> None:
    request = read({"input": [], "temperature": None, "reasoning": None})
    changed = structs.replace(request, temperature=1.0, reasoning=ReasoningOptions(effort="low"))
    body = write(changed)
    assert (body["temperature"], body["reasoning"]) == (1.0, {"effort": "low"})


@pytest.mark.parametrize(
    ("options", "path", "problem"),
    [
        ({"instructions": 5}, "$.instructions", "an integer, expected a string"),
        ({"text": 5}, "$.text", "an integer, expected an object"),
        ({"text": {"format": 5}}, "$.text.format", "an integer, expected an object"),
        ({"text": {"format": {}}}, "$.text.format.type", "missing, expected a string"),
        (
            {"text": {"format": {"type": "xml"}}},
            "$.text.format.type",
            "a string of 3 characters, expected text, json_object or json_schema",
        ),
        ({"text": {"verbosity": 1}}, "$.text.verbosity", "an integer, expected a string"),
        ({"reasoning": "high"}, "$.reasoning", "a string of 4 characters, expected an object"),
        ({"reasoning": {"effort": 1}}, "$.reasoning.effort", "an integer, expected a string"),
        ({"include": [1]}, "$.include[0]", "an integer, expected a string"),
        ({"conversation": 1}, "$.conversation", "an integer, expected a string or an object"),
        (
            {"previous_response_id": 1},
            "$.previous_response_id",
            "an integer, expected a string",
        ),
        ({"prompt": "p"}, "$.prompt", "a string of 1 characters, expected an object"),
        ({"background": 1}, "$.background", "an integer, expected a boolean"),
        (
            {"prompt_cache_options": {"ttl": 1}},
            "$.prompt_cache_options.ttl",
            "an integer, expected a string",
        ),
        ({"context_management": {}}, "$.context_management", "an object, expected an array"),
        ({"metadata": []}, "$.metadata", "an array, expected an object"),
        (
            {"max_output_tokens": "5"},
            "$.max_output_tokens",
            "a string of 1 characters, expected an integer",
        ),
        ({"tools": {}}, "$.tools", "an object, expected an array"),
    ],
)
def test_other_options_are_refused_with_their_path(
    options: dict[str, Any], path: str, problem: str
) -> None:
    with pytest.raises(DecodeError) as caught:
        read({"input": [], **options})
    assert (caught.value.path, caught.value.args[0]) == (path, problem)
