"""Counts and lists of models between the official SDKs: what they ask and what they read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from acceptance.counted_clients import Answered, Clients
from anthropic.types.beta.message_count_tokens_params import (
    MessageCountTokensParams as BetaCountParams,
)
from anthropic.types.message_count_tokens_params import MessageCountTokensParams
from openai.types.responses.input_token_count_params import InputTokenCountParams

from streamnorm import Encoded
from streamnorm._auxiliary import (
    decode_count_request,
    encode_model,
    encode_models,
    encode_token_count,
)
from streamnorm._bodies import codec_of
from streamnorm._core.bodies.models import ModelInfo
from streamnorm._core.bodies.token_count import TokenCount, TokenEstimator
from streamnorm._core.codec import RequestedOperation
from streamnorm._registry import lookup

TOOL: dict[str, Any] = {"type": "object", "properties": {}}
MODELS = [ModelInfo(f"m-{number}", created=1_739_923_200) for number in range(60)]


def count_by_anthropic(clients: Clients) -> tuple[int, Any]:
    raw = clients.anthropic().messages.with_raw_response.count_tokens(
        model="m-1",
        messages=[{"role": "user", "content": "Snow?"}],
        system="Be brief.",
        tools=[{"name": "f", "input_schema": TOOL}],
    )
    return raw.parse().input_tokens, raw.headers


def count_by_openai(clients: Clients) -> tuple[int, Any]:
    raw = clients.openai().responses.input_tokens.with_raw_response.count(
        model="m-1",
        input="Snow?",
        instructions="Be brief.",
        tools=[{"type": "function", "name": "f", "parameters": TOOL, "strict": False}],
    )
    parsed = raw.parse()
    assert parsed.object == "response.input_tokens"
    return parsed.input_tokens, raw.headers


def count_by_genai(clients: Clients) -> tuple[int, Any]:
    """The client for the Gemini API takes neither tools nor instructions."""
    answer = clients.genai().models.count_tokens(model="m-1", contents="Snow?")
    assert answer.total_tokens is not None
    assert answer.sdk_http_response is not None
    return answer.total_tokens, answer.sdk_http_response.headers


COUNTS: dict[str, Callable[[Clients], tuple[int, Any]]] = {
    "anthropic": count_by_anthropic,
    "openai_responses": count_by_openai,
    "gemini": count_by_genai,
}


@pytest.mark.parametrize("dialect", COUNTS)
def test_sdk_reads_a_count(dialect: str) -> None:
    clients = Clients(lambda asked: encode_token_count(TokenCount(42), dialect), dialect)
    tokens, headers = COUNTS[dialect](clients)
    assert tokens == 42
    assert "x-streamnorm-estimated" not in headers
    assert [request.asked for request in clients.requests] == [RequestedOperation("count", "m-1")]


@pytest.mark.parametrize("dialect", COUNTS)
def test_sdk_reads_a_marked_estimate_of_what_it_asked(dialect: str) -> None:
    def answer(asked: Answered) -> Encoded:
        request = decode_count_request(asked.body, dialect, path=asked.path)
        assert request.model == "m-1"
        assert [message.text for message in request.messages] == ["Snow?"]
        if dialect != "gemini":
            assert [text.text for text in request.system] == ["Be brief."]
            assert len(request.tools) == 1
        return encode_token_count(TokenEstimator().estimate(request), dialect)

    tokens, headers = COUNTS[dialect](Clients(answer, dialect))
    assert tokens > 0
    assert headers["x-streamnorm-estimated"] == "input_tokens"


def test_fields_of_a_count_are_those_of_the_sdk() -> None:
    """Headers aside.  A field that a vendor adds to its counts fails here."""
    headers = {"betas", "user_profile_id", "workspace_id"}
    messages = MessageCountTokensParams.__annotations__ | BetaCountParams.__annotations__
    own = codec_of(lookup("anthropic")).count
    assert own is not None
    assert own.fields == messages.keys() - headers
    responses = codec_of(lookup("openai_responses")).count
    assert responses is not None
    assert responses.fields == InputTokenCountParams.__annotations__.keys()


# Models


def models_by_anthropic(clients: Clients) -> list[str]:
    models = list(clients.anthropic().models.list())  # twenty a page
    assert {model.type for model in models} == {"model"}
    assert {model.created_at.year for model in models} == {2025}
    assert {model.lifecycle for model in models} == {"active"}
    return [model.id for model in models]


def models_by_openai(clients: Clients) -> list[str]:
    models = list(clients.openai().models.list())
    assert {(model.object, model.created, model.owned_by) for model in models} == {
        ("model", 1_739_923_200, "")
    }
    return [model.id for model in models]


def models_by_genai(clients: Clients) -> list[str]:
    models = list(clients.genai().models.list())
    assert all("generateContent" in (model.supported_actions or ()) for model in models)
    return [str(model.name).removeprefix("models/") for model in models]


LISTS: dict[str, tuple[Callable[[Clients], list[str]], int]] = {
    "anthropic": (models_by_anthropic, 3),
    "openai_chat": (models_by_openai, 1),
    "openai_responses": (models_by_openai, 1),
    "gemini": (models_by_genai, 2),
}


@pytest.mark.parametrize("dialect", LISTS)
def test_sdk_pages_through_the_list_of_models(dialect: str) -> None:
    read, pages = LISTS[dialect]
    clients = Clients(lambda asked: encode_models(MODELS, dialect, query=asked.query), dialect)
    assert read(clients) == [model.id for model in MODELS]
    assert [request.asked for request in clients.requests] == [RequestedOperation("models")] * pages


def test_sdk_of_anthropic_pages_backwards() -> None:
    clients = Clients(
        lambda asked: encode_models(MODELS, "anthropic", query=asked.query), "anthropic"
    )
    pages = clients.anthropic().models.list(before_id="m-45", limit=20).iter_pages()
    read = [[model.id for model in page.data] for page in pages]
    assert [(page[0], page[-1]) for page in read] == [
        ("m-25", "m-44"),
        ("m-5", "m-24"),
        ("m-0", "m-4"),
    ]


def test_empty_list_is_read_by_every_sdk() -> None:
    for dialect, read in {
        "anthropic": lambda clients: list(clients.anthropic().models.list()),
        "openai_chat": lambda clients: list(clients.openai().models.list()),
        "gemini": lambda clients: list(clients.genai().models.list()),
    }.items():
        assert read(Clients(lambda asked, to=dialect: encode_models([], to), dialect)) == []


@pytest.mark.parametrize("name", ["m-1", "org/m 1"])
def test_sdk_reads_one_model(name: str) -> None:
    model = ModelInfo("server-1", name="Model 1", created=1_739_923_200, max_input_tokens=8)

    def clients(dialect: str) -> Clients:
        return Clients(
            lambda asked: encode_model(model, dialect, id=asked.asked and asked.asked.model),
            dialect,
        )

    info = clients("anthropic").anthropic().models.retrieve(name)
    assert (info.id, info.display_name, info.max_input_tokens) == (name, "Model 1", 8)
    for dialect in ("openai_chat", "openai_responses"):
        known = clients(dialect).openai().models.retrieve(name)
        assert (known.id, known.created) == (name, 1_739_923_200)
    found = clients("gemini").genai().models.get(model=f"models/{name}")
    assert (found.name, found.display_name) == (f"models/{name}", "Model 1")
    assert found.input_token_limit == 8
