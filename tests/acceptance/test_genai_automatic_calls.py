"""Automatic function calling of google-genai in front of the other vendors.

The SDK runs the tools itself, and sends each result under the name of its call, without the id
that the call has (`google.genai._extra_utils.get_function_response_parts`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from google import genai
from google.genai import types
from support.http.strict_upstreams import strict_provider

from streamnorm import Reasoning, Text, decode_request
from streamnorm.testing import FakeProvider, tool_call
from streamnorm.transports.httpx import TranscodingTransport

CALLS = [
    tool_call("get_snow", city="Oslo"),
    tool_call("get_rain", city="Rome"),
    tool_call("get_snow", city="Bern"),
]


def get_snow(city: str) -> str:
    """Return the snow in a city."""
    return f"snow in {city}"


def get_rain(city: str) -> str:
    """Return the rain in a city."""
    return f"rain in {city}"


@contextmanager
def client_of(provider: FakeProvider, upstream: str) -> Iterator[genai.Client]:
    """Provide Google's client of a provider that speaks another dialect."""
    transport = TranscodingTransport(
        provider.transport("httpx"),
        client="gemini",
        upstream=upstream,
        base_url="https://provider.test",
    )
    with httpx.Client(transport=transport) as http:
        options = types.HttpOptions(base_url="https://gemini.test", httpx_client=http)
        client = genai.Client(api_key="none", http_options=options)
        yield client


@pytest.mark.parametrize("upstream", ["anthropic", "openai_chat", "openai_responses"])
def test_result_of_automatic_calling_reaches_its_call(upstream: str) -> None:
    provider = strict_provider([CALLS, "It snows in Oslo."])
    with client_of(provider, upstream) as client:
        config = types.GenerateContentConfig(tools=[get_snow, get_rain])
        answer = client.models.generate_content(model="m-1", contents="Weather?", config=config)
    assert answer.text == "It snows in Oslo."
    asked = decode_request(json.dumps(provider.requests[1].body), upstream)
    ids = [call.id for message in asked.messages for call in message.tool_calls]
    results = {
        result.tool_call_id: [part.text for part in result.content if isinstance(part, Text)]
        for message in asked.messages
        for result in message.tool_results
    }
    assert len(set(ids)) == 3
    assert [json.loads(results[id][0]) for id in ids] == [
        {"result": "snow in Oslo"},
        {"result": "rain in Rome"},
        {"result": "snow in Bern"},
    ]


ISSUERS = {
    "anthropic": "anthropic",
    "openai_responses": "openai",
    "gemini": "google",
    "gemini_interactions": "google",
}


@pytest.mark.parametrize("upstream", [*ISSUERS, "openai_chat"])
def test_streamed_answer_of_a_chat_comes_back_as_one_message(upstream: str) -> None:
    """The chat stores each chunk as a content of its own."""
    issuer = ISSUERS.get(upstream)
    id = "rs_1" if issuer == "openai" else None
    proof = "cHJvb2Ygb2YgYSB0aG91Z2h0" if issuer else None
    thought = Reasoning(("Both are far in the north.",), proof, issuer, id=id)
    said = "One moment, please: I look it up."
    provider = strict_provider(
        [[thought, said, *CALLS[:2]], "It snows in Oslo, and rains in Rome.", "Bye."]
    )
    with client_of(provider, upstream) as client:
        thinking = types.ThinkingConfig(include_thoughts=True)
        config = types.GenerateContentConfig(tools=[get_snow, get_rain], thinking_config=thinking)
        chat = client.chats.create(model="m-1", config=config)
        for question in ("Weather?", "Thanks."):
            assert list(chat.send_message_stream(question))
        assert len(chat.get_history()) > 10
    asked = decode_request(json.dumps(provider.requests[2].body), upstream)
    roles = [message.role for message in asked.messages]
    # Elsewhere a message or an item holds one result.
    results = ["user"] * (1 if upstream in ("anthropic", "gemini") else 2)
    assert roles == ["user", "assistant", *results, "assistant", "user"]
    answer = asked.messages[1]
    assert (answer.text, len(answer.tool_calls)) == (said, 2)
    assert asked.messages[-2].text == "It snows in Oslo, and rains in Rome."
    thoughts = [block for block in answer.blocks if isinstance(block, Reasoning)]
    if issuer == "google":  # whose API needs the signature alone
        assert [each.signature for each in thoughts if each.signature] == [proof]
    else:
        assert thoughts == ([thought] if issuer else [])
