"""Interactions that Google's client continues through a transport, on providers that store none."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from acceptance.transcoding_clients import SCHEMA, SDKS
from google import genai
from google.genai import types
from google.genai._interactions_errors import BadRequestError, NotFoundError
from support.http.strict_upstreams import strict_provider

from streamnorm.testing import FakeProvider, tool_call
from streamnorm.transports.httpx import TranscodingTransport

# The SDKs leave generators to the garbage collector, which trio complains about.
pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]

URL = "https://provider.test"
TURNS = [["One moment.", tool_call("get_weather", city="Oslo")], "It snows in Oslo."]
TOOL = {"type": "function", "name": "get_weather", "parameters": SCHEMA}
ASKED: dict[str, Any] = {"model": "m-1", "tools": [TOOL]}
forms = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
upstreams = pytest.mark.parametrize("upstream", SDKS)


def transport(provider: FakeProvider, upstream: str) -> Any:
    inner = provider.transport("httpx")
    return TranscodingTransport(
        inner, client="gemini_interactions", upstream=upstream, base_url=URL
    )


def options(**more: Any) -> types.HttpOptions:
    return types.HttpOptions(retry_options=types.HttpRetryOptions(attempts=1), **more)


def result(steps: list[Any]) -> list[dict[str, Any]]:
    [call] = [step for step in steps if step.type == "function_call"]
    return [{"type": "function_result", "call_id": call.id, "result": "snow"}]


def assert_continued(provider: FakeProvider) -> None:
    """The second request has the question, the call and its result."""
    sent = str(provider.requests[1].body)
    assert all(text in sent for text in ("Snow?", "get_weather", "Oslo", "snow"))


@forms
@upstreams
async def test_interaction_is_continued_by_its_id(upstream: str, stream: bool) -> None:
    provider = strict_provider(TURNS)
    async with httpx.AsyncClient(transport=transport(provider, upstream)) as http:
        client = genai.Client(api_key="k", http_options=options(httpx_async_client=http)).aio

        async def ask(said: Any, **more: Any) -> Any:
            answer = await client.interactions.create(input=said, stream=stream, **ASKED, **more)
            if not stream:
                return answer
            events = [event async for event in answer]
            return await client.interactions.get(events[-1].interaction.id)

        first = await ask("Snow?")
        said = await ask(result(first.steps), previous_interaction_id=first.id)
        assert said.output_text == "It snows in Oslo."
        assert said.previous_interaction_id == first.id
        await client.interactions.delete(said.id)
        with pytest.raises(NotFoundError, match="not found"):
            await client.interactions.get(said.id)
    assert_continued(provider)


@forms
def test_interaction_is_continued_synchronously(stream: bool) -> None:
    provider = strict_provider(TURNS)
    with httpx.Client(transport=transport(provider, "anthropic")) as http:
        client = genai.Client(api_key="k", http_options=options(httpx_client=http))
        answer: Any = client.interactions.create(input="Snow?", stream=stream, **ASKED)
        id = [*answer][-1].interaction.id if stream else answer.id
        first = client.interactions.get(id)
        client.interactions.create(
            input=result(first.steps or []), previous_interaction_id=id, **ASKED
        )
        with pytest.raises(BadRequestError, match="background"):
            client.interactions.create(input="Snow?", background=True, **ASKED)
    assert_continued(provider)


def test_interaction_that_is_not_to_be_stored_has_no_id() -> None:
    provider = strict_provider(TURNS)
    with httpx.Client(transport=transport(provider, "anthropic")) as http:
        client = genai.Client(api_key="k", http_options=options(httpx_client=http))
        answer: Any = client.interactions.create(input="Snow?", stream=True, store=False, **ASKED)
        events = [*answer]
    assert events[-1].event_type == "interaction.completed"
