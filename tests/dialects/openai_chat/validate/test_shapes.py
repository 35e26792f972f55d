"""Strict validation of the fields of each chunk."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_chat.violations import (
    DONE,
    ERROR,
    FINISH,
    ROLE,
    Chunk,
    answer,
    chunk,
    custom,
    part,
    said,
    sse,
    usage,
    without,
)

from streamnorm.validation import Violation, validate

TOKEN = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": [{}]}

FULL = {
    **said(content="a", refusal=None),
    "usage": None,
    "service_tier": "default",
    "system_fingerprint": None,
    "obfuscation": "xyz",
    "moderation": None,
    "a_new_field": {},
}


def with_logprobs(*tokens: Any, **fields: Any) -> Chunk:
    logprobs = {"content": list(tokens), "refusal": None, **fields}
    return chunk(part({"content": "a"}, logprobs=logprobs))


@pytest.mark.parametrize(
    "chunks",
    [
        answer(FULL),
        answer(chunk(part({"content": "a"}, logprobs=None))),
        answer(with_logprobs(TOKEN, {"token": "", "logprob": -9999})),
        answer(with_logprobs(content=None, refusal=[TOKEN])),
        answer(with_logprobs({**TOKEN, "bytes": None})),
        [{**ERROR, "error": {"message": "m", "type": "t"}}],
        [{"error": {"message": "m", "type": "t", "param": "p", "code": "c", "more": 1}, "more": 1}],
    ],
    ids=["every field", "null", "logprobs", "of a refusal", "no bytes", "error", "full error"],
)
def test_chunk_with_every_field_has_no_violation(chunks: list[Chunk | str]) -> None:
    assert validate(sse(*chunks), "openai_chat") == []


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (("id",), "id is missing, expected a string"),
        (("object",), "object is missing, expected chat.completion.chunk"),
        (("created",), "created is missing, expected an integer from 0"),
        (("model",), "model is missing, expected a string"),
        (("choices",), "choices is missing, expected an array"),
        (("choices", 0, "index"), "choices[0].index is missing, expected an integer from 0"),
        (("choices", 0, "delta"), "choices[0].delta is missing, expected an object"),
    ],
)
def test_chunk_must_have_its_fields(path: tuple[str | int, ...], problem: str) -> None:
    body = sse(*answer(without(FULL, *path)))
    assert validate(body, "openai_chat") == [Violation(1, problem)]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"id": None}, "id is null, expected a string"),
        ({"object": ""}, "object is an empty string, expected chat.completion.chunk"),
        ({"created": 5.5}, "created is a decimal number, expected an integer from 0"),
        ({"model": None}, "model is null, expected a string"),
        ({"choices": None}, "choices is null, expected an array"),
        ({"choices": ["a"]}, "choices[0] is a string of 1 characters, expected an object"),
        ({"choices": [part(None)]}, "choices[0].delta is null, expected an object"),
        (
            {"choices": [part({}, choice=-1)]},
            "choices[0].index is a negative integer, expected an integer from 0",
        ),
        (
            {"choices": [part({"content": ["a"]})]},
            "choices[0].delta.content is an array, expected a string or null",
        ),
        (
            {"choices": [part({"refusal": 0})]},
            "choices[0].delta.refusal is an integer, expected a string or null",
        ),
        (
            {"choices": [part({"function_call": {"name": "", "arguments": ""}})]},
            "choices[0].delta.function_call.name is an empty string, "
            "expected a string that is not empty",
        ),
        (
            {"choices": [part({"function_call": {"name": "f", "arguments": {}}})]},
            "choices[0].delta.function_call.arguments is an object, expected a string",
        ),
        *(
            (
                {"choices": [part({"audio": {name: None}})]},
                f"choices[0].delta.audio.{name} is null, expected {expected}",
            )
            for name, expected in {
                "id": "a string",
                "data": "a string",
                "transcript": "a string",
                "expires_at": "an integer from 0",
            }.items()
        ),
        (
            {"choices": [part({}, logprobs={"refusal": {}})]},
            "choices[0].logprobs.refusal is an object, expected an array or null",
        ),
        (
            {"choices": [part({}, logprobs=[])]},
            "choices[0].logprobs is an array, expected an object or null",
        ),
        ({"service_tier": 1}, "service_tier is an integer, expected a string or null"),
        ({"system_fingerprint": {}}, "system_fingerprint is an object, expected a string or null"),
        ({"obfuscation": 1}, "obfuscation is an integer, expected a string or null"),
        ({"moderation": ""}, "moderation is an empty string, expected an object or null"),
    ],
)
def test_field_must_have_its_type(wrong: Chunk, problem: str) -> None:
    body = sse(*answer({**FULL, **wrong}, reason="length"))
    assert [violation.message for violation in validate(body, "openai_chat")] == [problem]


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        (without(TOKEN, "token"), ".token is missing, expected a string"),
        (without(TOKEN, "logprob"), ".logprob is missing, expected a number"),
        ({**TOKEN, "logprob": None}, ".logprob is null, expected a number"),
        (
            {**TOKEN, "bytes": ["a"]},
            ".bytes[0] is a string of 1 characters, expected an integer from 0",
        ),
        ({**TOKEN, "top_logprobs": None}, ".top_logprobs is null, expected an array"),
    ],
)
def test_logprobs_must_have_their_types(token: Chunk, problem: str) -> None:
    problem = f"choices[0].logprobs.content[0]{problem}"
    assert validate(sse(*answer(with_logprobs(token))), "openai_chat") == [Violation(1, problem)]


def test_custom_tool_must_have_its_fields() -> None:
    where = "choices[0].delta.tool_calls[0]"
    whole = custom()
    for path, expected in [
        (("id",), "a string that is not empty"),
        (("custom",), "an object"),
        (("custom", "name"), "a string that is not empty"),
        (("custom", "input"), "a string"),
    ]:
        start = without(whole, "choices", 0, "delta", "tool_calls", 0, *path)
        problem = f"{where}.{'.'.join(path)} is missing, expected {expected}"
        assert validate(sse(*answer(start)), "openai_chat") == [Violation(1, problem)]
    later = said(tool_calls=[{"index": 0, "custom": {"input": None}}])
    assert validate(sse(*answer(whole, later)), "openai_chat") == [
        Violation(2, f"{where}.custom.input is null, expected a string")
    ]


@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens", "total_tokens"])
def test_usage_must_have_its_counts(name: str) -> None:
    body = sse(ROLE, FINISH, without(usage(), "usage", name), DONE)
    problem = f"usage.{name} is missing, expected an integer from 0"
    assert validate(body, "openai_chat") == [Violation(2, problem)]


@pytest.mark.parametrize(
    ("details", "name"),
    [
        *(("prompt_tokens_details", name) for name in ("cached_tokens", "cache_write_tokens")),
        *(("prompt_tokens_details", f"{name}_tokens") for name in ("audio", "image", "text")),
        *(
            ("completion_tokens_details", f"{name}_tokens")
            for name in ("reasoning", "audio", "accepted_prediction", "rejected_prediction", "text")
        ),
    ],
)
def test_details_of_usage_are_counts_or_null(details: str, name: str) -> None:
    assert validate(sse(ROLE, FINISH, usage(**{details: {name: None}}), DONE), "chat") == []
    problem = f"usage.{details}.{name} is a negative integer, expected an integer from 0 or null"
    body = sse(ROLE, FINISH, usage(**{details: {name: -1}}), DONE)
    assert validate(body, "openai_chat") == [Violation(2, problem)]


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        ("overloaded", "error is a string of 10 characters, expected an object"),
        ({"type": "t"}, "error.message is missing, expected a string"),
        ({"message": "m"}, "error.type is missing, expected a string"),
        ({"message": "m", "type": None}, "error.type is null, expected a string"),
        (
            {"message": "m", "type": "t", "code": 502},
            "error.code is an integer, expected a string or null",
        ),
        (
            {"message": "m", "type": "t", "param": {}},
            "error.param is an object, expected a string or null",
        ),
    ],
)
def test_error_must_have_its_fields(error: object, problem: str) -> None:
    assert validate(sse(ROLE, {"error": error}), "openai_chat") == [Violation(1, problem)]
