"""Anthropic's `tool_runner`: it asks the server to hold the conversation, and goes on without."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import pytest
from support.http.strict_upstreams import strict_provider

from streamnorm.testing import tool_call
from streamnorm.transports.httpx2 import TranscodingTransport

TURNS = [["One moment.", tool_call("get_weather", city="Oslo")], "It snows in Oslo."]


@anthropic.beta_tool
def get_weather(city: str) -> str:
    """Return the weather of a city.

    Args:
        city: Name of the city.
    """
    return f"snow in {city}"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("upstream", ["openai_chat", "openai_responses", "gemini"])
def test_tool_runner_goes_on_without_a_thread(upstream: str, stream: bool) -> None:
    provider = strict_provider(TURNS)
    refusals: list[dict[str, Any]] = []

    def store_refusal(response: httpx2.Response) -> None:
        if response.status_code == 400:
            response.read()
            refusals.append(response.json())

    transport = TranscodingTransport(
        provider.transport("httpx2"),
        client="anthropic",
        upstream=upstream,
        base_url="https://provider.test",
    )
    hooks = {"response": [store_refusal]}
    with (
        httpx2.Client(transport=transport, event_hooks=hooks) as http,
        anthropic.Anthropic(api_key="key", http_client=http, max_retries=0) as client,
    ):
        runner = client.beta.messages.tool_runner(
            model="m-1",
            max_tokens=1000,
            tools=[get_weather],
            messages=[{"role": "user", "content": "Snow?"}],
            stream=stream,
        )
        last = runner.until_done()
    assert last.content[0].text == "It snows in Oslo."  # type: ignore[union-attr]  # a text
    (refused,) = refusals
    assert refused["error"]["type"] == "invalid_request_error"
    assert refused["error"]["details"] == {
        "error_code": "thread_unsupported_request",
        "unsupported": ["thread"],
    }
    # The history is sent whole: the provider has both the call and its result.
    sent = json.dumps(provider.requests[1].body)
    assert all(text in sent for text in ("Snow?", "get_weather", "snow in Oslo"))
