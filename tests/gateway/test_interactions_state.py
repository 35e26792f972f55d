"""Stored interactions at a gateway: what Google's client continues, fetches and deletes."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from google.genai._interactions_errors import BadRequestError, NotFoundError
from support.gateway.calls import called
from support.gateway.interactions import create, sdk
from support.gateway.servers import served, served_gateway
from support.gateway.stateful_clients import (
    HISTORY,
    KEY,
    OTHER_KEY,
    UPSTREAMS,
    history_in,
    provided,
)

from streamnorm import Reasoning, decode_request
from streamnorm.gateway import Config, Gateway, ModelConfig, UpstreamConfig
from streamnorm.sse import SSEDecoder
from streamnorm.state import MemoryStore, StoredResponse, StoreError
from streamnorm.testing import FakeProvider, tool_call

pytestmark = pytest.mark.anyio

streams = pytest.mark.parametrize("stream", [False, True])
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@streams
@pytest.mark.parametrize("dialect", UPSTREAMS)
async def test_interaction_continues_on_every_upstream(dialect: str, *, stream: bool) -> None:
    provider = FakeProvider([tool_call("get_weather", city="Oslo"), "It snows.", "Bye."])
    async with (
        served_gateway(provider.app(), dialect, state="memory:") as gateway,
        sdk(gateway.url) as client,
    ):
        more = {"tools": [WEATHER], "stream": stream}
        first = await create(client, "Weather?", **more)
        asks = await client.get(first)
        assert (asks.id, asks.status) == (first, "requires_action")
        [call] = [step for step in asks.steps if step.type == "function_call"]
        result = {"type": "function_result", "call_id": call.id, "result": "snow"}
        second = await create(client, [result], previous_interaction_id=first, **more)
        third = await create(client, "Thanks.", previous_interaction_id=second, **more)
        whole = await client.get(third, include_input=True)
    assert history_in(provider, dialect) == HISTORY
    assert len({first, second, third}) == 3
    assert (whole.id, whole.status, whole.output_text) == (third, "completed", "Bye.")
    assert whole.previous_interaction_id == second
    assert [step.type for step in whole.input] == ["user_input"]


async def test_interaction_goes_on_with_a_model_of_another_dialect(state: str) -> None:
    """In each kind of store; the call has the id that the client knows."""
    providers = {
        "anthropic": FakeProvider([tool_call("get_weather", city="Oslo"), "Bye."]),
        "openai_responses": FakeProvider(["It snows."]),
    }
    async with (
        served(providers["anthropic"].app()) as one,
        served(providers["openai_responses"].app()) as two,
    ):
        urls = zip(providers, (one, two), strict=True)
        upstreams = {name: UpstreamConfig(dialect=name, base_url=url) for name, url in urls}
        models = [
            ModelConfig(match="claude", to=["anthropic"]),
            ModelConfig(match="gpt", to=["openai_responses"]),
        ]
        config = Config(upstreams=upstreams, models=models, state=state)
        async with served(Gateway(config, environ={})) as url, sdk(url) as client:
            more: dict[str, Any] = {"tools": [WEATHER]}
            first = await client.create(model="claude", input="Weather?", **more)
            [call] = [step for step in first.steps if step.type == "function_call"]
            result = {"type": "function_result", "call_id": call.id, "result": "snow"}
            more["previous_interaction_id"] = first.id
            second = await client.create(model="gpt", input=[result], **more)
            assert history_in(providers["openai_responses"], "openai_responses") == HISTORY[:3]
            more["previous_interaction_id"] = second.id
            await client.create(model="claude", input="Thanks.", **more)
            await client.delete(first.id)
            with pytest.raises(BadRequestError, match="Previous interaction"):
                await client.create(model="claude", input="Well?", **more)
    assert history_in(providers["anthropic"], "anthropic") == HISTORY


async def test_interaction_is_deleted_and_then_unknown() -> None:
    provider = FakeProvider(["One.", "Two."])
    async with (
        served_gateway(provider.app(), state="memory:") as gateway,
        sdk(gateway.url) as client,
    ):
        id = await create(client, "1")
        assert (await client.get(id)).input is None
        with pytest.raises(BadRequestError, match="synchronous interaction"):
            await client.cancel(id)
        with pytest.raises(BadRequestError, match="background"):
            await client.get(id, stream=True)
        await client.delete(id)
        for ask in (client.get, client.delete, client.cancel):
            with pytest.raises(NotFoundError, match=f"Interaction with id '{id}' not found"):
                await ask(id)
        with pytest.raises(BadRequestError, match="Previous interaction"):
            await create(client, "2", previous_interaction_id=id)
    assert len(provider.requests) == 1


async def test_interactions_of_another_key_are_unknown() -> None:
    provider = FakeProvider(["One.", "Two."])
    async with (
        served_gateway(provider.app(), state="memory:") as gateway,
        sdk(gateway.url) as client,
        sdk(gateway.url, OTHER_KEY) as other,
    ):
        id = await create(client, "1")
        for ask in (other.get, other.delete, other.cancel):
            with pytest.raises(NotFoundError):
                await ask(id)
        with pytest.raises(BadRequestError):
            await create(other, "2", previous_interaction_id=id)
        assert (await client.get(id)).output_text == "One."


@streams
async def test_interaction_that_is_not_stored_has_no_id(*, stream: bool) -> None:
    provider = FakeProvider(["One.", "Two."])
    async with (
        served_gateway(provider.app(), state="memory:") as gateway,
        sdk(gateway.url) as client,
    ):
        first = await create(client, "1", stream=stream)
        more = {"store": False, "previous_interaction_id": first}
        assert await create(client, "2", stream=stream, **more) == ""
    said = [("user", "1"), ("assistant", "One."), ("user", "2")]
    assert history_in(provider, "openai_chat") == said


@streams
async def test_without_a_store_no_interaction_has_an_id(*, stream: bool) -> None:
    provider = FakeProvider(["One."])
    async with served_gateway(provider.app()) as gateway, sdk(gateway.url) as client:
        assert await create(client, "1", stream=stream) == ""
        with pytest.raises(BadRequestError, match="Previous interaction"):
            await create(client, "2", previous_interaction_id="interaction_1")
        with pytest.raises(NotFoundError):
            await client.get("interaction_1")


class FullStore(MemoryStore):
    """A store that stores nothing but the probes of the gateway."""

    def put(self, scope: str, response: StoredResponse) -> None:
        raise StoreError("the store is full")


@streams
async def test_interaction_that_cannot_be_stored_has_no_id(*, stream: bool) -> None:
    provider = FakeProvider(["One."])
    body = {"model": "m", "input": "1", "stream": stream}
    async with provided(provider, state=None, store=FullStore()) as app:
        caller = await called(app, "/v1beta/interactions", body)
    data = b"".join(caller.bodies)
    if not stream:
        whole = json.loads(data)
        assert (whole["id"], whole["status"]) == ("", "completed")
        return
    events = SSEDecoder().feed(data)
    last = json.loads(events[-2].data)
    assert (last["event_type"], last["interaction"]["id"]) == ("interaction.completed", "")
    assert (events[-2].event, events[-1].data) == ("interaction.completed", "[DONE]")


async def test_reasoning_of_google_comes_back() -> None:
    thought = Reasoning(("Hm.",), "QQ==", "google")
    provider = FakeProvider([[thought, tool_call("get_weather", city="Oslo")], "It snows."])
    async with (
        served_gateway(provider.app(), "gemini", state="memory:") as gateway,
        sdk(gateway.url) as client,
    ):
        first = await create(client, "Weather?", tools=[WEATHER], stream=True)
        [call] = [s for s in (await client.get(first)).steps if s.type == "function_call"]
        result = {"type": "function_result", "call_id": call.id, "result": "snow"}
        await create(client, [result], tools=[WEATHER], previous_interaction_id=first)
    request = provider.requests[-1]
    messages = decode_request(request.body, "gemini", path=request.path).messages
    assert thought in messages[1].blocks


async def test_contents_of_one_message_are_stored_as_a_step() -> None:
    contents = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    provider = FakeProvider(["One.", "Two."])
    async with (
        served_gateway(provider.app(), state="memory:") as gateway,
        sdk(gateway.url) as client,
    ):
        first = await create(client, contents)
        whole = await client.get(first, include_input=True)
        assert [step.type for step in whole.input] == ["user_input"]
        assert [content.text for content in whole.input[0].content] == ["a", "b"]
        await create(client, "2", previous_interaction_id=first)
    assert history_in(provider, "openai_chat")[1:] == [("assistant", "One."), ("user", "2")]


async def test_stored_answers_of_other_dialects_are_others() -> None:
    provider = FakeProvider(["One.", "Two."])
    async with (
        served_gateway(provider.app(), state="memory:") as gateway,
        sdk(gateway.url) as client,
        httpx.AsyncClient(base_url=gateway.url) as http,
    ):
        id = await create(client, "1")
        headers = {"authorization": f"Bearer {KEY}"}
        fetched = await http.get(f"/v1/responses/{id}", headers=headers)
        body = {"model": "m", "input": "2", "previous_response_id": id}
        continued = await http.post("/v1/responses", json=body, headers=headers)
    assert (fetched.status_code, continued.status_code) == (404, 400)
