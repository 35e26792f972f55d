"""Counts, lists of models and stored responses, as the official SDKs ask a transport for them."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from acceptance.transcoding_clients import SCHEMA, SDKS
from support.http.strict_upstreams import strict_provider

from streamnorm import StreamError
from streamnorm.testing import FakeProvider, tool_call
from streamnorm.transports.httpx2 import TranscodingTransport

# The SDKs leave generators to the garbage collector, which trio complains about.
pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]


OTHERS = [name for name in SDKS if name != "openai_responses"]
TURNS = [["One moment.", tool_call("get_weather", city="Oslo")], "It snows in Oslo."]
ASKED: dict[str, Any] = {
    "model": "m-1",
    "tools": [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}],
}


def transport(provider: FakeProvider, upstream: str, client: str = "openai_responses") -> Any:
    return TranscodingTransport(
        provider.transport("httpx2"),
        client=client,
        upstream=upstream,
        base_url="https://provider.test",
    )


def sync_client(inner: Any) -> openai.OpenAI:
    http_client = httpx2.Client(transport=inner)
    return openai.OpenAI(api_key="key", http_client=http_client, max_retries=0)


def async_client(inner: Any) -> openai.AsyncOpenAI:
    http_client = httpx2.AsyncClient(transport=inner)
    return openai.AsyncOpenAI(api_key="key", http_client=http_client, max_retries=0)


def result(response: Any) -> list[Any]:
    (call,) = (item for item in response.output if item.type == "function_call")
    return [{"type": "function_call_output", "call_id": call.call_id, "output": "snow"}]


def assert_continued(provider: FakeProvider, said: Any) -> None:
    """The second request has the question, the call and its result."""
    sent = json.dumps(provider.requests[1].body)
    assert all(text in sent for text in ("Snow?", "get_weather", "Oslo", "snow"))
    assert said.output_text == "It snows in Oslo."


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("upstream", OTHERS)
async def test_answer_is_continued_by_its_id(upstream: str, stream: bool) -> None:
    provider = strict_provider(TURNS)
    async with async_client(transport(provider, upstream)) as client:
        first = await _ask(client, stream=stream, input="Snow?")
        assert first.store is True
        said = await _ask(client, stream=stream, input=result(first), previous_response_id=first.id)
    assert_continued(provider, said)
    assert said.previous_response_id == first.id


async def _ask(client: openai.AsyncOpenAI, *, stream: bool, **options: Any) -> Any:
    if not stream:
        return await client.responses.create(**ASKED, **options)
    async with client.responses.stream(**ASKED, **options) as events:
        return await events.get_final_response()


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("upstream", OTHERS)
def test_items_of_an_answer_are_referred_to_synchronously(upstream: str, stream: bool) -> None:
    provider = strict_provider(TURNS)
    with sync_client(transport(provider, upstream)) as client:

        def ask(said: Any) -> Any:
            if not stream:
                return client.responses.create(**ASKED, input=said)
            with client.responses.stream(**ASKED, input=said) as events:
                return events.get_final_response()

        first = ask("Snow?")
        references = [{"type": "item_reference", "id": item.id} for item in first.output]
        said = ask([{"role": "user", "content": "Snow?"}, *references, *result(first)])
    assert_continued(provider, said)


def test_stored_answer_is_retrieved_and_deleted() -> None:
    with sync_client(transport(strict_provider("Hi."), "anthropic")) as client:
        first = client.responses.create(**ASKED, input="Snow?")
        assert client.responses.retrieve(first.id).output_text == "Hi."
        (item,) = client.responses.input_items.list(first.id)
        assert item.type == "message"
        client.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError, match="not found"):
            client.responses.retrieve(first.id)


async def test_stored_answer_is_retrieved_and_deleted_asynchronously() -> None:
    async with async_client(transport(strict_provider("Hi."), "anthropic")) as client:
        first = await client.responses.create(**ASKED, input="Snow?")
        assert (await client.responses.retrieve(first.id)).output_text == "Hi."
        await client.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError, match="not found"):
            await client.responses.retrieve(first.id)


@pytest.mark.parametrize(
    ("options", "error", "param"),
    [
        ({"previous_response_id": "resp_1"}, openai.BadRequestError, "previous_response_id"),
        ({"conversation": "conv_1"}, openai.BadRequestError, "conversation"),
        ({"background": True}, openai.BadRequestError, "background"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, openai.NotFoundError, "input"),
    ],
)
def test_what_is_not_stored_is_an_error_that_names_the_parameter(
    options: dict[str, Any], error: type[openai.APIStatusError], param: str
) -> None:
    provider = strict_provider("Hi.")
    with (
        sync_client(transport(provider, "anthropic")) as client,
        pytest.raises(error) as raised,
    ):
        client.responses.create(**{**ASKED, "input": "Snow?", **options})
    assert raised.value.param == param
    assert provider.requests == ()


def test_answer_of_one_key_is_not_found_with_another() -> None:
    inner = transport(strict_provider("Hi."), "anthropic")
    with sync_client(inner) as client:
        first = client.responses.create(**ASKED, input="Snow?")
        other = client.with_options(api_key="other")
        with pytest.raises(openai.BadRequestError, match="not found"):
            other.responses.create(**ASKED, input="And?", previous_response_id=first.id)


def test_failed_answer_is_not_stored() -> None:
    provider = strict_provider([["One moment.", StreamError("truncated", "cut")]])
    with sync_client(transport(provider, "anthropic")) as client:
        events = client.responses.create(**ASKED, input="Snow?", stream=True)
        id = next(event.response.id for event in events if event.type == "response.created")
        with pytest.raises(openai.APIError, match="connection lost"):
            list(events)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(id)


# Counts and models


def test_tokens_are_estimated_for_a_provider_that_counts_none() -> None:
    inner = transport(strict_provider("Hi."), "openai_chat", "anthropic")
    http_client = httpx2.Client(transport=inner)
    with anthropic.Anthropic(api_key="-", http_client=http_client, max_retries=0) as client:
        raw = client.messages.with_raw_response.count_tokens(
            model="m-1", messages=[{"role": "user", "content": "Snow?"}]
        )
    assert raw.parse().input_tokens > 0
    assert raw.headers["x-streamnorm-estimated"] == "input_tokens"


async def test_models_of_another_dialect_are_listed() -> None:
    page = {"data": [{"type": "model", "id": "claude-x"}], "has_more": False}

    def answer(request: httpx2.Request) -> httpx2.Response:
        assert str(request.url).startswith("https://provider.test/v1/models")
        assert request.headers["x-api-key"] == "key"
        if request.url.path.endswith("claude-x"):
            return httpx2.Response(200, json=page["data"][0])  # type: ignore[index]  # the list
        return httpx2.Response(200, json=page)

    inner = TranscodingTransport(
        httpx2.MockTransport(answer),
        client="openai_chat",
        upstream="anthropic",
        base_url="https://provider.test",
    )
    async with async_client(inner) as client:
        assert [model.id async for model in client.models.list()] == ["claude-x"]
        assert (await client.models.retrieve("claude-x")).id == "claude-x"


def test_error_of_a_list_is_that_of_the_sdk() -> None:
    inner = TranscodingTransport(
        httpx2.MockTransport(lambda _: httpx2.Response(401, json={"error": {"message": "no key"}})),
        client="openai_chat",
        upstream="anthropic",
        base_url="https://provider.test",
    )
    with (
        sync_client(inner) as client,
        pytest.raises(openai.AuthenticationError, match="no key"),
    ):
        client.models.list()
