"""The state of the gateway before upstreams of several dialects, which have state or have none."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.gateway.calls import CHAT, MESSAGES, opened
from support.gateway.calls import asked as requested
from support.gateway.servers import served
from support.gateway.stateful_clients import PREVIOUS, StateClient, provided
from support.http.scripted_upstream import Answered, ScriptedUpstream

from streamnorm import Message, Reasoning, Text
from streamnorm.gateway import Gateway, ModelConfig, UpstreamConfig
from streamnorm.testing import FakeProvider, faults

pytestmark = pytest.mark.anyio

NATIVE = "openai_responses"
ENCRYPTED = "reasoning.encrypted_content"
streams = pytest.mark.parametrize("stream", [False, True])


def sent_to(provider: FakeProvider, number: int = -1) -> dict[str, Any]:
    return provider.requests[number].body


@streams
async def test_upstream_with_state_of_its_own_stores_nothing(*, stream: bool) -> None:
    provider = FakeProvider(["One.", "Two."])
    async with provided(provider, NATIVE) as app:
        client = StateClient(app)
        first = await client.create("1", stream=stream, include=["message.output_text.logprobs"])
        second = await client.create("2", stream=stream, previous_response_id=first["id"])
    sent = sent_to(provider)
    assert (sent["store"], sent["include"]) == (False, [ENCRYPTED])
    assert PREVIOUS not in sent
    assert [item["role"] for item in sent["input"]] == ["user", "assistant", "user"]
    assert sent_to(provider, 0)["include"] == ["message.output_text.logprobs", ENCRYPTED]
    assert (second["store"], second[PREVIOUS]) == (True, first["id"])


@pytest.mark.parametrize(
    ("model", "is_asked"), [("gpt-5", True), ("gpt-4.1-mini", False), ("gpt-5-chat-latest", False)]
)
async def test_model_that_does_not_reason_is_not_asked_for_its_reasoning(
    model: str, *, is_asked: bool
) -> None:
    """It would answer `Encrypted content is not supported with this model`."""
    provider = FakeProvider("Hi.")
    async with provided(provider, NATIVE) as app:
        await StateClient(app).create("Hi.", model=model)
    assert ("include" in sent_to(provider)) == is_asked


async def test_request_without_state_passes_as_it_is() -> None:
    upstream = ScriptedUpstream({"/v1/responses": Answered({}, 500)})
    body = b'{"model": "m", "input": "Hi.",  "store": false, "top_p": 1.0}'
    async with served(upstream) as url, opened(url, dialect=NATIVE, state="memory:") as app:
        await requested(app, "/v1/responses", body)
    assert upstream.requests[0].body == body


@pytest.mark.parametrize(
    ("dialect", "path", "body"),
    [
        ("openai_chat", "/v1/chat/completions", {**CHAT, "store": True, PREVIOUS: "x"}),
        ("anthropic", "/v1/messages", MESSAGES),
    ],
)
async def test_clients_of_other_dialects_have_no_state(
    dialect: str, path: str, body: dict[str, Any]
) -> None:
    upstream = ScriptedUpstream({path: Answered({}, 500)})
    data = json.dumps(body).encode()
    async with (
        served(upstream, strict=False) as url,  # a field of another dialect passes, too
        opened(url, dialect=dialect, state="memory:") as app,
    ):
        await requested(app, path, data)
    assert upstream.requests[0].body == data


@asynccontextmanager
async def two_upstreams(
    first: Any, second: Any, dialects: tuple[str, str], **settings: Any
) -> AsyncIterator[Gateway]:
    """Provide a gateway that falls back from one upstream to another."""
    async with served(first) as url, served(second) as other_url:
        upstreams = {
            "first": UpstreamConfig(dialect=dialects[0], base_url=url),
            "second": UpstreamConfig(dialect=dialects[1], base_url=other_url),
        }
        models = [
            ModelConfig(match="first", to=["first"]),
            ModelConfig(match="second", to=["second"]),
            ModelConfig(match="*", to=["first", "second"]),
        ]
        async with opened(upstreams, models=models, state="memory:", **settings) as app:
            yield app


THOUGHT = Message(blocks=(Reasoning(("Hm.",), "c2ln", "anthropic"), Text("One.")))


@streams
@pytest.mark.parametrize("other", [NATIVE, "openai_chat", "gemini", "gemini_interactions"])
async def test_conversation_goes_on_at_another_upstream_and_comes_back(
    other: str, *, stream: bool
) -> None:
    claude, provider = FakeProvider([THOUGHT, "Three."]), FakeProvider(["Two."])
    dialects = ("anthropic", other)
    async with two_upstreams(claude.app(), provider.app(), dialects) as app:
        client = StateClient(app)
        first = await client.create("1", model="first", stream=stream)
        more = {"stream": stream}
        second = await client.create("2", model="second", **more, previous_response_id=first["id"])
        third = await client.create("3", model="first", **more, previous_response_id=second["id"])
    assert first["output"][0]["encrypted_content"] == "sn1.anthropic.c2ln"
    # What Claude signed is not sent to others, and comes back to it unchanged.
    elsewhere = json.dumps(sent_to(provider))
    assert "c2ln" not in elsewhere
    assert "One." in elsewhere
    said = sent_to(claude)["messages"]
    assert [message["role"] for message in said] == ["user", "assistant"] * 2 + ["user"]
    assert said[1]["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "text", "text": "One."},
    ]
    assert said[3]["content"] == "Two."
    assert third["output"][0]["content"][0]["text"] == "Three."


@streams
async def test_fallback_in_the_middle_of_a_conversation(*, stream: bool) -> None:
    native = FakeProvider(["One.", faults.http(503)])
    chat = FakeProvider(["Two."])
    async with two_upstreams(native.app(), chat.app(), (NATIVE, "openai_chat")) as app:
        client = StateClient(app)
        first = await client.create("1", stream=stream)
        second = await client.create("2", stream=stream, previous_response_id=first["id"])
        assert (second["store"], second[PREVIOUS]) == (True, first["id"])
        assert await client.ask("GET", second["id"]) == (200, second)
    assert [message["content"] for message in sent_to(chat)["messages"]] == ["1", "One.", "2"]


@streams
async def test_reasoning_that_another_vendor_signed_is_no_part_of_a_request_that_passes(
    *, stream: bool
) -> None:
    """A client that stores nothing sends the reasoning of an upstream back by itself."""
    provider = FakeProvider("Hi.")
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    said = [
        {"role": "user", "content": "1"},
        {**reasoning, "encrypted_content": "sn1.anthropic.c2ln"},
        {**reasoning, "encrypted_content": "gAAAA-its-own"},
        {"role": "assistant", "content": "One."},
        {"role": "user", "content": "2"},
    ]
    async with provided(provider, NATIVE) as app:
        await StateClient(app).create(said, store=False, stream=stream)
    sent = sent_to(provider)["input"]
    assert [item.get("encrypted_content") for item in sent] == [None, "gAAAA-its-own", None, None]
