"""The judge of request bodies: it refuses what pydantic over the SDKs' types lets pass."""

from __future__ import annotations

import copy
from typing import Any, TypedDict

import pytest
from pydantic import TypeAdapter
from support.bodies.sdk_types import problems, problems_of_type

BODIES: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "f", "arguments": "{}"},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "ok"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": [1]}}}],
        "temperature": 1,
        "stream": True,
        "stream_options": {"include_usage": True},
    },
    "openai_responses": {
        "model": "m",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "ok"},
        ],
        "tools": [{"type": "function", "name": "f", "parameters": {}, "strict": None}],
    },
    "anthropic": {
        "model": "m",
        "max_tokens": 1,
        "messages": [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t",
                        "content": [{"type": "text", "text": "ok"}],
                    }
                ],
            },
        ],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    },
    "gemini": {
        "contents": [
            {"role": "user", "parts": [{"text": "Hi"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"x": 1}}}]},
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": "f", "response": {"output": "ok"}}}],
            },
        ],
        "generationConfig": {"topK": 5, "imageConfig": {"aspectRatio": "1:1"}},
    },
}

NESTED: dict[str, tuple[str | int, ...]] = {
    "openai_chat": ("messages", 1, "content", 0),
    "openai_responses": ("input", 0, "content", 0),
    "anthropic": ("messages", 2, "content", 0, "content", 0),
    "gemini": ("contents", 1, "parts", 0, "functionCall"),
}

each_dialect = pytest.mark.parametrize("dialect", BODIES)


def changed(dialect: str, path: tuple[str | int, ...], key: str, value: object) -> dict[str, Any]:
    """Return a body of a dialect with one field set."""
    body = copy.deepcopy(BODIES[dialect])
    part: Any = body
    for step in path:
        part = part[step]
    part[key] = value
    return body


@each_dialect
def test_accepts_a_body_of_the_types(dialect: str) -> None:
    assert problems(dialect, BODIES[dialect]) == []


@each_dialect
def test_refuses_an_unknown_key_at_top_level(dialect: str) -> None:
    (problem,) = problems(dialect, changed(dialect, (), "unheard_of", 1))
    assert problem.startswith("$.unheard_of: ")


@each_dialect
def test_refuses_an_unknown_key_in_a_message(dialect: str) -> None:
    path = NESTED[dialect][:2]
    (problem,) = problems(dialect, changed(dialect, path, "unheard_of", 1))
    assert problem.startswith(f"$.{path[0]}[{path[1]}].unheard_of: ")


@each_dialect
def test_refuses_an_unknown_key_in_a_nested_block(dialect: str) -> None:
    (problem,) = problems(dialect, changed(dialect, NESTED[dialect], "unheard_of", 1))
    assert ".unheard_of: " in problem


@each_dialect
def test_refuses_a_wrong_type_in_a_nested_block(dialect: str) -> None:
    name = "name" if dialect == "gemini" else "text"
    (problem,) = problems(dialect, changed(dialect, NESTED[dialect], name, 1))
    assert f".{name}: " in problem


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic"])
def test_refuses_a_null_and_allows_an_absent_field(dialect: str) -> None:
    (problem,) = problems(dialect, {**BODIES[dialect], "model": None})
    assert problem.startswith("$.model: ")
    body = {name: value for name, value in BODIES[dialect].items() if name != "tools"}
    assert problems(dialect, body) == []


def test_names_a_missing_field() -> None:
    assert problems("openai_chat", {"messages": []}) == ["$.model: missing"]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ("text", "$.messages: no array"),
        ([{"role": "nobody", "content": "Hi"}], "$.messages[0].role: not one of the words"),
        ([["Hi"]], "$.messages[0]: no object"),
        ([{"role": "user", "content": [1]}], "$.messages[0].content[0]: no object"),
    ],
)
def test_refuses_messages_of_a_wrong_type(wrong: object, problem: str) -> None:
    found = problems("openai_chat", {"model": "m", "messages": wrong})
    assert any(text.startswith(problem) for text in found)


@pytest.mark.parametrize("wrong", [True, "1", [1], {}])
def test_refuses_what_pydantic_makes_a_number_of(wrong: object) -> None:
    assert problems("openai_chat", {**BODIES["openai_chat"], "n": wrong})
    assert problems("openai_chat", {**BODIES["openai_chat"], "temperature": wrong})


def test_refuses_a_word_where_a_map_is_expected() -> None:
    assert problems("openai_chat", {**BODIES["openai_chat"], "metadata": "m"}) == [
        "$.metadata: no object"
    ]
    assert problems("openai_chat", {**BODIES["openai_chat"], "metadata": {"a": 1}}) == [
        "$.metadata.a: no str"
    ]


def test_checks_a_stream_by_the_type_of_a_stream() -> None:
    body = {**BODIES["openai_chat"], "stream": False}
    assert problems("openai_chat", body) == []
    assert problems("openai_chat", {**body, "stream": "yes"})


def test_betas_of_anthropic_need_their_types() -> None:
    body = {**BODIES["anthropic"], "context_management": {"edits": []}}
    assert problems("anthropic", body)
    assert problems("anthropic", body, beta=True) == []
    assert problems("anthropic", {**body, "betas": ["b"]}, beta=True) == [
        "$.betas: sent as a header"
    ]


def test_a_block_is_not_taken_for_a_model_of_responses() -> None:
    """The union of blocks also holds `ThinkingBlock`, a model that allows any key."""
    thinking = {"type": "thinking", "thinking": "…", "signature": "s", "unheard_of": 1}
    body = changed("anthropic", ("messages", 1), "content", [thinking])
    assert problems("anthropic", body) == [
        "$.messages[1].content[0].unheard_of: unknown key of ThinkingBlockParam"
    ]


def test_a_file_in_memory_is_no_json() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": 1}
    body = changed("anthropic", ("messages", 0), "content", [{"type": "image", "source": source}])
    assert problems("anthropic", body)


def test_types_that_are_not_of_json_are_an_error_of_the_test() -> None:
    with pytest.raises(TypeError):
        problems_of_type(complex, 1)


def test_pydantic_alone_lets_these_pass() -> None:
    """Without this judge an unknown key, and anything within an `Iterable`, passes."""
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    adapter: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsStreaming)
    body = changed("openai_chat", NESTED["openai_chat"], "text", 1)
    adapter.validate_python({**body, "unheard_of": 1})
    assert len(problems("openai_chat", {**body, "unheard_of": 1})) == 2


class Recursive(TypedDict, total=False):
    """A type that holds itself."""

    parts: list[Recursive]


def test_a_type_may_hold_itself() -> None:
    assert problems_of_type(Recursive, {"parts": [{"parts": []}]}) == []
    assert problems_of_type(Recursive, {"parts": [{"part": 1}]}) == [
        "$.parts[0].part: unknown key of Recursive"
    ]
