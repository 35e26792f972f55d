"""The bound of an answer's tokens: no more than the model gives, which vendors refuse."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm import Loss, translate_request
from streamnorm.validation import validate_request

QUESTION = {"messages": [{"role": "user", "content": "q"}]}
FIELDS = {
    "anthropic": ("max_tokens",),
    "openai_chat": ("max_completion_tokens",),
    "openai_responses": ("max_output_tokens",),
    "gemini": ("generationConfig", "maxOutputTokens"),
    "bedrock_converse": ("inferenceConfig", "maxTokens"),
}
OPUS = "claude-opus-4-5"


def most_of(body: dict[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = body
    for name in path:
        value = value[name]
    return value


@pytest.mark.parametrize(
    ("to", "server", "model", "most"),
    [
        ("openai_chat", None, "gpt-4o", 16_384),
        ("openai_chat", "azure", "gpt-4o-mini-2024-07-18", 16_384),
        ("openai_responses", None, "gpt-4o-2024-08-06", 16_384),
        ("openai_chat", None, "gpt-4o-2024-05-13", 4096),
        ("openai_chat", None, "gpt-4-turbo-2024-04-09", 4096),
        ("openai_chat", None, "gpt-3.5-turbo", 4096),
        ("openai_chat", None, "gpt-4.1-nano", 32_768),
        ("gemini", None, "gemini-2.0-flash-001", 8192),
        ("gemini", "vertex", "gemini-2.5-pro", 65_535),
        ("gemini", None, "gemini-3.1-pro-preview", 65_535),
        ("bedrock_converse", None, "us.amazon.nova-micro-v1:0", 10_000),
        ("bedrock_converse", None, "meta.llama3-1-8b-instruct-v1:0", 8192),
        ("bedrock_converse", None, "anthropic.claude-haiku-4-5-20251001-v1:0", 64_000),
        ("anthropic", None, "claude-opus-4-1-20250805", 32_000),
        ("anthropic", "vertex", "claude-sonnet-4@20250514", 64_000),
        ("anthropic", None, OPUS, 64_000),
        ("anthropic", None, "claude-sonnet-4-6", 128_000),
    ],
)
def test_answer_is_asked_for_with_the_tokens_that_the_model_has(
    to: str, server: str | None, model: str, most: int
) -> None:
    source = "openai_chat" if to == "anthropic" else "anthropic"
    for asked, written in ((most, most), (most + 1, most)):
        body = {"model": model, "max_tokens": asked, **QUESTION}
        encoded = translate_request(body, dialect=source, to=to, server=server)
        assert most_of(encoded.body, FIELDS[to]) == written
        assert isinstance(most_of(encoded.body, FIELDS[to]), int)
        lowered = Loss("max_tokens", "request", 1, f"written as {most:g}")
        assert [loss for loss in encoded.losses if loss.feature == "max_tokens"] == [lowered] * (
            asked > most
        )
        assert validate_request(encoded.body, to, server=server, model=model) == []


def test_deepseek_chat_has_8192_tokens() -> None:
    body = {"model": "deepseek-chat", "max_tokens": 32_000, **QUESTION}
    encoded = translate_request(body, dialect="anthropic", to="openai_chat", server="deepseek")
    assert encoded.body["max_tokens"] == 8192


@pytest.mark.parametrize(
    ("to", "model", "server"),
    [
        ("openai_chat", "gpt-5.1", None),
        ("openai_chat", "deepseek-v4-flash", "deepseek"),
        ("bedrock_converse", "us.amazon.nova-2-lite-v1:0", None),
        ("gemini", "gemini-9-pro", None),
    ],
)
def test_other_models_get_what_was_asked_for(to: str, model: str, server: str | None) -> None:
    body = {"model": model, "max_tokens": 100_000, **QUESTION}
    encoded = translate_request(body, dialect="anthropic", to=to, server=server)
    assert "max_tokens" not in [loss.feature for loss in encoded.losses]


def test_request_of_the_same_dialect_is_left_to_the_vendor() -> None:
    body = {"model": OPUS, "max_tokens": 64_001, **QUESTION}
    encoded = translate_request(body, dialect="anthropic", to="anthropic")
    assert (encoded.body["max_tokens"], encoded.losses) == (64_001, ())


def test_budget_of_reasoning_is_below_the_lowered_bound() -> None:
    thinking = {"type": "enabled", "budget_tokens": 100_000}
    model = "anthropic.claude-opus-4-5-20251101-v1:0"
    body = {"model": model, "max_tokens": 200_000, "thinking": thinking, **QUESTION}
    encoded = translate_request(body, dialect="anthropic", to="bedrock_converse")
    assert most_of(encoded.body, FIELDS["bedrock_converse"]) == 64_000
    budget = encoded.body["additionalModelRequestFields"]["thinking"]["budget_tokens"]
    assert 1024 <= budget < 64_000
