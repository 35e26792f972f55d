"""Official clients that ask a fake provider for whole bodies."""

from __future__ import annotations

import json

import anthropic
import openai
import pytest
from acceptance.provider_clients import (
    CALLS,
    CHAT,
    CONTENT,
    MESSAGES,
    TURNS,
    anthropic_calls,
    anthropic_client,
    chat_calls,
    genai_calls,
    genai_client,
    openai_client,
)
from google.genai import errors, types
from support.http.strict_upstreams import strict_provider

from streamnorm import StreamError


def test_openai_reads_whole_completions() -> None:
    provider = strict_provider(TURNS)
    with openai_client(provider) as client:
        called, told = (client.chat.completions.create(**CHAT) for _ in TURNS)
    assert called.choices[0].message.content == "One moment."
    assert chat_calls(called) == CALLS
    assert (called.choices[0].finish_reason, called.object) == ("tool_calls", "chat.completion")
    assert told.choices[0].message.content == "It snows in Oslo."
    assert (told.choices[0].finish_reason, told.model) == ("stop", "m-1")
    assert told.usage is not None
    assert told.usage.completion_tokens == 5  # of 17 characters
    assert provider.losses == ()


def test_openai_reads_whole_responses() -> None:
    provider = strict_provider(TURNS)
    with openai_client(provider) as client:
        called, told = (client.responses.create(model="m-1", input="Snow?") for _ in TURNS)
    calls = [item for item in called.output if item.type == "function_call"]
    assert [(c.call_id, c.name, json.loads(c.arguments)) for c in calls] == CALLS
    assert (called.output_text, called.status) == ("One moment.", "completed")
    assert (told.output_text, told.model) == ("It snows in Oslo.", "m-1")
    assert told.usage is not None
    assert told.usage.output_tokens == 5
    assert provider.losses == ()


def test_anthropic_reads_whole_messages() -> None:
    provider = strict_provider(TURNS)
    with anthropic_client(provider) as client:
        called, told = (client.messages.create(**MESSAGES) for _ in TURNS)
    assert called.content[0].text == "One moment."
    assert anthropic_calls(called) == CALLS
    assert (called.stop_reason, told.stop_reason) == ("tool_use", "end_turn")
    assert (told.content[0].text, told.model) == ("It snows in Oslo.", "m-1")
    assert told.usage.output_tokens == 5
    assert provider.losses == ()


def test_genai_reads_whole_contents() -> None:
    provider = strict_provider(TURNS)
    client = genai_client(provider)
    called, told = (client.models.generate_content(**CONTENT) for _ in TURNS)
    assert genai_calls([called]) == CALLS
    assert (told.text, told.model_version) == ("It snows in Oslo.", "m-1")
    assert told.candidates is not None
    assert told.candidates[0].finish_reason == types.FinishReason.STOP
    assert told.usage_metadata is not None
    assert told.usage_metadata.candidates_token_count == 5
    assert provider.losses == ()


def test_clients_read_an_error_in_place_of_a_whole_body() -> None:
    error = StreamError("upstream", "Hm.", status_hint=400)
    provider = strict_provider([["It snows", error]] * 3)
    with openai_client(provider) as client, pytest.raises(openai.BadRequestError, match="Hm"):
        client.chat.completions.create(**CHAT)
    with anthropic_client(provider) as other, pytest.raises(anthropic.BadRequestError, match="Hm"):
        other.messages.create(**MESSAGES)
    with pytest.raises(errors.ClientError, match="Hm"):
        genai_client(provider).models.generate_content(**CONTENT)
