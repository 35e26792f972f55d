"""Counts of tokens: requests and answers of every dialect in every other, and estimates."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from msgspec import structs
from support.example_dialect.bodies import codec
from support.example_dialect.dialect import TELEGRAPH
from support.example_dialect.registration import registered

from streamnorm import (
    DecodeError,
    EncodeError,
    InputMessage,
    Limits,
    LossyEncoding,
    Request,
    Text,
    Tool,
    UnknownDialect,
    UpstreamError,
    decode_request,
    encode_request,
)
from streamnorm._auxiliary import (
    CANNOT_COUNT,
    ESTIMATED_HEADER,
    decode_count_request,
    decode_token_count,
    encode_count_request,
    encode_token_count,
)
from streamnorm._core.bodies.token_count import TokenCount, TokenEstimator

COUNTING = ("anthropic", "openai_responses", "gemini")

# One request for a count, in the words of each vendor.
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
BODIES: dict[str, dict[str, Any]] = {
    "anthropic": {
        "model": "m-1",
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Snow?"}],
        "tools": [{"name": "get_weather", "input_schema": SCHEMA}],
    },
    "openai_responses": {
        "model": "m-1",
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": "Snow?"}],
        "tools": [
            {"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}
        ],
    },
    "gemini": {
        "generateContentRequest": {
            "model": "models/m-1",
            "contents": [{"role": "user", "parts": [{"text": "Snow?"}]}],
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "tools": [
                {"functionDeclarations": [{"name": "get_weather", "parametersJsonSchema": SCHEMA}]}
            ],
        }
    },
}
PATHS = {
    "anthropic": "/v1/messages/count_tokens",
    "openai_responses": "/v1/responses/input_tokens",
    "gemini": "/v1beta/models/m-1:countTokens",
}
ANSWERS: dict[str, dict[str, Any]] = {
    "anthropic": {"input_tokens": 42},
    "openai_responses": {"object": "response.input_tokens", "input_tokens": 42},
    "gemini": {"totalTokens": 42},
}
REQUEST = Request(
    model="m-1",
    system=(Text("Be brief."),),
    messages=(InputMessage("user", (Text("Snow?"),)),),
    tools=(Tool("get_weather", input_schema=SCHEMA),),
)


@pytest.mark.parametrize("target", COUNTING)
@pytest.mark.parametrize("source", COUNTING)
def test_request_for_a_count_is_one_of_every_vendor(source: str, target: str) -> None:
    body = json.dumps(BODIES[source])
    request = decode_count_request(body, source, path=PATHS[source])
    encoded = encode_count_request(request, target)
    assert encoded is not None
    assert encoded.body == BODIES[target]
    assert encoded.path == PATHS[target]
    assert encoded.dialect == target
    assert encoded.losses == ()


@pytest.mark.parametrize("target", COUNTING)
@pytest.mark.parametrize("source", COUNTING)
def test_answer_of_one_vendor_is_one_of_another(source: str, target: str) -> None:
    count = decode_token_count(json.dumps(ANSWERS[source]), source)
    assert count == TokenCount(42)
    encoded = encode_token_count(count, target)
    assert encoded.body == ANSWERS[target]
    assert encoded.headers == {}


MESSAGE_FIELDS: dict[str, Any] = {
    "max_tokens": 64,
    "stop": ("END",),
    "stream": True,
    "user": "u-1",
    "service_tier": "flex",
}


@pytest.mark.parametrize("target", ["anthropic", "openai_responses"])
def test_fields_of_a_message_alone_are_left_out(target: str) -> None:
    """Both servers refuse a request for a count that has them."""
    encoded = encode_count_request(structs.replace(REQUEST, **MESSAGE_FIELDS), target)
    assert encoded is not None
    assert encoded.body == BODIES[target]


def test_count_of_gemini_has_the_whole_request() -> None:
    request = structs.replace(REQUEST, **MESSAGE_FIELDS)
    encoded = encode_count_request(request, "gemini")
    assert encoded is not None
    inner = encoded.body["generateContentRequest"]
    assert inner == {"model": "models/m-1", **encode_request(request, "gemini").body}
    assert encoded.path == "/v1beta/models/m-1:countTokens"


def test_model_of_gemini_is_quoted_in_the_path_alone() -> None:
    encoded = encode_count_request(structs.replace(REQUEST, model="org/m 1"), "gemini")
    assert encoded is not None
    assert encoded.body["generateContentRequest"]["model"] == "models/org/m 1"
    assert encoded.path == "/v1beta/models/org%2Fm%201:countTokens"


def test_tuned_model_of_gemini_is_a_resource_of_its_own() -> None:
    body, path = {"contents": []}, "/v1beta/tunedModels/t:countTokens"
    request = decode_count_request(body, "gemini", path=path)
    assert request.model == "tunedModels/t"
    encoded = encode_count_request(request, "gemini")
    assert encoded is not None
    assert encoded.path == path
    assert encoded.body == {"generateContentRequest": {"model": "tunedModels/t", "contents": []}}


def test_count_of_gemini_needs_a_model() -> None:
    with pytest.raises(EncodeError, match="no model, expected one"):
        encode_count_request(structs.replace(REQUEST, model=""), "gemini")


@pytest.mark.parametrize(
    "body",
    [
        {"contents": [{"parts": [{"text": "Snow?"}]}], "systemInstruction": {"parts": []}},
        {"generate_content_request": {"contents": [{"parts": [{"text": "Snow?"}]}]}},
    ],
)
def test_count_of_gemini_is_read_in_each_of_its_forms(body: dict[str, Any]) -> None:
    request = decode_count_request(body, "gemini", path="/v1beta/models/m-1:countTokens")
    assert request.model == "m-1"
    assert [message.text for message in request.messages] == ["Snow?"]


def test_model_within_the_request_counts_where_the_path_has_none() -> None:
    assert decode_count_request(BODIES["gemini"], "gemini").model == "m-1"


def test_client_of_the_same_vendor_keeps_fields_that_are_not_known() -> None:
    body = {**BODIES["anthropic"], "new_field": {"a": 1}}
    request = decode_count_request(body, "anthropic")
    encoded = encode_count_request(request, "anthropic")
    assert encoded is not None
    assert encoded.body == body
    renamed = encode_count_request(structs.replace(request, model="m-2"), "anthropic")
    assert renamed is not None
    assert renamed.body == {**body, "model": "m-2"}  # and no max_tokens, as a message would have


def test_betas_of_the_request_go_with_it() -> None:
    headers = {"Anthropic-Beta": "a-1,b-2"}
    request = decode_count_request(BODIES["anthropic"], "anthropic", headers=headers)
    encoded = encode_count_request(request, "anthropic")
    assert encoded is not None
    assert encoded.headers["anthropic-beta"] == "a-1,b-2"


def test_losses_are_those_of_the_message() -> None:
    request = structs.replace(REQUEST, seed=5, max_tokens=64)
    encoded = encode_count_request(request, "anthropic")
    assert encoded is not None
    assert encoded.losses == encode_request(request, "anthropic").losses != ()
    with pytest.raises(LossyEncoding):
        encode_count_request(request, "anthropic", strict=True)


@pytest.mark.parametrize("target", COUNTING)
def test_strict_count_needs_no_bound_on_the_answer(target: str) -> None:
    """Anthropic's messages must say `max_tokens`, and their default is a loss there."""
    assert REQUEST.max_tokens is None
    encoded = encode_count_request(REQUEST, target, strict=True)
    assert encoded is not None
    assert encoded.losses == ()


def test_chat_counts_no_tokens() -> None:
    assert encode_count_request(REQUEST, "openai_chat") is None
    words = "no counts of tokens in dialect 'openai_chat'"
    with pytest.raises(UnknownDialect, match=words):
        decode_count_request({}, "openai_chat")
    with pytest.raises(UnknownDialect, match=words):
        decode_token_count({}, "openai_chat")
    with pytest.raises(UnknownDialect, match=words):
        encode_token_count(TokenCount(5), "openai_chat")


@pytest.mark.parametrize("server", ["bedrock", "vertex"])
def test_server_with_other_paths_counts_no_tokens(server: str) -> None:
    assert encode_count_request(REQUEST, "anthropic", server=server) is None


@pytest.mark.parametrize("server", ["vllm", "llama.cpp", "llamacpp", "sglang"])
def test_chat_server_counts_in_the_dialect_that_it_has_a_counter_of(server: str) -> None:
    encoded = encode_count_request(REQUEST, "chat", server=server)
    assert encoded is not None
    assert encoded.dialect == "anthropic"
    assert encoded.body == BODIES["anthropic"]
    assert encoded.path == PATHS["anthropic"]
    assert encode_count_request(REQUEST, "openai_chat", server="ollama") is None


def test_alias_of_a_dialect_is_answered_with_its_name() -> None:
    encoded = encode_count_request(REQUEST, "claude")
    assert encoded is not None
    assert encoded.dialect == "anthropic"


def test_dialect_from_outside_counts_none() -> None:
    with registered(structs.replace(TELEGRAPH, body=codec)):
        assert encode_count_request(REQUEST, "telegraph") is None


# Answers


def test_cached_tokens_of_gemini_are_read_and_written() -> None:
    body = {"totalTokens": 42, "cachedContentTokenCount": 40}
    count = decode_token_count(body, "gemini")
    assert count == TokenCount(42, cached_tokens=40)
    assert encode_token_count(count, "gemini").body == body
    assert encode_token_count(count, "anthropic").body == {"input_tokens": 42}
    assert decode_token_count({"total_tokens": 42.0}, "gemini") == TokenCount(42)


@pytest.mark.parametrize("dialect", COUNTING)
def test_estimate_is_marked(dialect: str) -> None:
    encoded = encode_token_count(TokenCount(42, is_estimate=True), dialect)
    assert encoded.body == {**ANSWERS[dialect], "estimated": True}
    assert encoded.headers == {ESTIMATED_HEADER: "input_tokens"}
    assert ESTIMATED_HEADER == "x-streamnorm-estimated"


@pytest.mark.parametrize("dialect", COUNTING)
@pytest.mark.parametrize("value", [None, "42", -1, True, 1.5, 1e300, [], {}])
def test_answer_without_a_count_is_refused(dialect: str, value: object) -> None:
    field = "totalTokens" if dialect == "gemini" else "input_tokens"
    with pytest.raises(DecodeError, match="expected an integer from 0") as caught:
        decode_token_count({field: value}, dialect)
    assert caught.value.path == f"$.{field}"
    with pytest.raises(DecodeError, match="missing, expected an integer from 0"):
        decode_token_count({}, dialect)


@pytest.mark.parametrize("dialect", COUNTING)
def test_answer_that_is_an_error_is_the_providers(dialect: str) -> None:
    body = {"error": {"message": "no such key", "code": 401, "status": "UNAUTHENTICATED"}}
    with pytest.raises(UpstreamError, match="no such key"):
        decode_token_count(body, dialect)


@pytest.mark.parametrize("dialect", COUNTING)
@pytest.mark.parametrize("body", [b"<html>", b"[]", b"5", b"", b"\xff", b'{"a":' * 500])
def test_body_that_is_no_object_is_refused(dialect: str, body: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_token_count(body, dialect)
    with pytest.raises(DecodeError):
        decode_count_request(body, dialect)


@pytest.mark.parametrize("dialect", COUNTING)
def test_request_of_another_shape_is_refused(dialect: str) -> None:
    for body in ({}, {"generateContentRequest": 5}, {"messages": 5, "input": 5, "contents": 5}):
        with pytest.raises(DecodeError):
            decode_count_request(body, dialect)


def test_bounds_hold_for_counts() -> None:
    small = Limits(max_event_bytes=10)
    with pytest.raises(DecodeError, match="expected at most 10"):
        decode_token_count(b'{"input_tokens": 5}', "anthropic", limits=small)
    with pytest.raises(DecodeError, match="expected at most 10"):
        decode_count_request(json.dumps(BODIES["anthropic"]), "anthropic", limits=small)


# Estimates


@pytest.mark.parametrize("dialect", COUNTING)
def test_estimate_is_the_same_for_every_client(dialect: str) -> None:
    request = decode_count_request(BODIES[dialect], dialect, path=PATHS[dialect])
    assert TokenEstimator().estimate(request) == TokenEstimator().estimate(REQUEST)


def test_usage_of_a_message_improves_the_estimate_of_a_count() -> None:
    """A client that counts first learns from the messages that it sent before."""
    text = "Snow in Oslo is " * 400
    body = {"model": "m-1", "messages": [{"role": "user", "content": text}]}
    estimator = TokenEstimator()
    asked = decode_request(json.dumps({**body, "max_tokens": 64}), "anthropic")
    for _ in range(10):
        estimator.observe(asked, 2_000)
    counted = estimator.estimate(decode_count_request(body, "anthropic"))
    assert counted.input_tokens == pytest.approx(2_000, rel=0.02)


def test_statuses_of_a_server_without_counts() -> None:
    """A refusal for another reason is the client's to read."""
    assert {404, 405, 501} == CANNOT_COUNT


INVOKED = {
    "anthropic_version": "bedrock-2023-05-31",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Snow?"}],
}


def counted(body: str | bytes) -> dict[str, Any]:
    """Return the request of Bedrock's CountTokens for a body of InvokeModel."""
    data = body.encode() if isinstance(body, str) else body
    return {"input": {"invokeModel": {"body": b64encode(data).decode()}}}


def test_body_of_invoke_model_is_counted() -> None:
    body = counted(json.dumps(INVOKED))
    path = "/base/model/arn%3Ax%2Fclaude/count-tokens"
    request = decode_count_request(body, "bedrock_converse", path=path)
    assert request.model == "arn:x/claude"
    assert [message.text for message in request.messages] == ["Snow?"]
    asked = encode_count_request(request, "anthropic")
    assert asked is not None
    assert asked.body == {"model": "arn:x/claude", "messages": INVOKED["messages"]}


@pytest.mark.parametrize(
    ("body", "path", "problem"),
    [
        ({"input": {"invokeModel": {"body": "x"}}}, "/model/m/count-tokens", "no base64"),
        (counted("{"), "/model/m/count-tokens", "no JSON"),
        (counted('{"messages": 1}'), "/model/m/count-tokens", "messages"),
        (counted(json.dumps(INVOKED)), None, "no path with the name of a model"),
    ],
)
def test_body_that_cannot_be_counted_is_refused(
    body: dict[str, Any], path: str | None, problem: str
) -> None:
    with pytest.raises(DecodeError, match=problem):
        decode_count_request(body, "bedrock_converse", path=path)
