"""Official clients of a fake provider, and what it is told to say."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx
import openai
from google import genai
from google.genai import types

from streamnorm.testing import FakeProvider, tool_call

CHAT: dict[str, Any] = {"model": "m-1", "messages": [{"role": "user", "content": "Snow?"}]}
MESSAGES: dict[str, Any] = {**CHAT, "max_tokens": 64}

TURNS = [
    ["One moment.", tool_call("get_weather", city="Oslo"), tool_call("f")],
    "It snows in Oslo.",
]
CALLS = [("call_1", "get_weather", {"city": "Oslo"}), ("call_2", "f", {})]


def openai_client(provider: FakeProvider, **options: Any) -> openai.OpenAI:
    http_client = provider.client(openai.DefaultHttpxClient)
    return openai.OpenAI(api_key="-", http_client=http_client, **options)


def anthropic_client(provider: FakeProvider, **options: Any) -> anthropic.Anthropic:
    http_client = provider.client(anthropic.DefaultHttpxClient)
    return anthropic.Anthropic(api_key="-", http_client=http_client, **options)


def chat_calls(completion: Any) -> list[tuple[str, str, Any]]:
    calls = completion.choices[0].message.tool_calls
    return [(call.id, call.function.name, json.loads(call.function.arguments)) for call in calls]


def anthropic_calls(message: Any) -> list[tuple[str, str, Any]]:
    return [(b.id, b.name, b.input) for b in message.content if b.type == "tool_use"]


CONTENT: dict[str, Any] = {"model": "m-1", "contents": "Snow?"}


def genai_client(provider: FakeProvider, **options: Any) -> genai.Client:
    http_options = types.HttpOptions(
        base_url="http://fake",
        httpx_client=provider.client(httpx.Client),
        httpx_async_client=provider.client(httpx.AsyncClient),
        **options,
    )
    return genai.Client(api_key="-", http_options=http_options)


def genai_calls(chunks: list[types.GenerateContentResponse]) -> list[tuple[str, str, Any]]:
    calls = [call for chunk in chunks for call in chunk.function_calls or ()]
    return [(str(call.id), str(call.name), call.args) for call in calls]
