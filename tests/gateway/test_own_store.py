"""A store of the program's own: any object with the methods of `ResponseStore`."""

from __future__ import annotations

import pytest
from support.gateway.stateful_clients import OTHER_KEY, StateClient, provided

from streamnorm.gateway import Config, ConfigError, Gateway, UpstreamConfig
from streamnorm.state import Found, Lookup, MemoryStore, StoredResponse, StoreError
from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.anyio


class DictStore:
    """Responses in a dictionary, by scope and id."""

    def __init__(self) -> None:
        self.responses: dict[tuple[str, str], StoredResponse] = {}
        self.fails = False

    async def afind(self, scope: str, lookup: Lookup) -> Found:
        chain: list[StoredResponse] = []
        id = lookup.response
        while id is not None and (found := self.responses.get((scope, id))) is not None:
            chain.append(found)
            id = found.previous
        return Found(tuple(chain))

    async def aput(self, scope: str, response: StoredResponse) -> None:
        if self.fails:
            raise StoreError("the disk is full")
        self.responses[scope, response.id] = response

    async def adelete(self, scope: str, id: str) -> bool:
        return self.responses.pop((scope, id), None) is not None


async def test_conversation_goes_on_from_a_store_of_the_program() -> None:
    store, provider = DictStore(), FakeProvider(["Snow.", "Rain."])
    async with provided(provider, state=None, store=store) as app:
        client = StateClient(app)
        first = await client.create("Weather?")
        await client.create("And now?", previous_response_id=first["id"])
        status, _ = await StateClient(app, OTHER_KEY).attempt(
            "Hello.", previous_response_id=first["id"]
        )
    texts = [message["content"] for message in provider.requests[-1].body["messages"]]
    assert texts == ["Weather?", "Snow.", "And now?"]
    assert status == 400
    assert len(store.responses) == 2


async def test_store_of_the_program_that_fails_is_known_before_the_upstream_is_asked() -> None:
    store, provider = DictStore(), FakeProvider("Snow.")
    store.fails = True
    async with provided(provider, state=None, store=store) as app:
        status, body = await StateClient(app).attempt("Weather?")
    assert (status, body["error"]["code"]) == (503, "store_unavailable")
    assert not provider.requests


async def test_store_of_the_program_stays_open() -> None:
    store = MemoryStore()
    async with provided(FakeProvider("Snow."), state=None, store=store) as app:
        first = await StateClient(app).create("Weather?")
    async with provided(FakeProvider("Rain."), state=None, store=store) as app:
        await StateClient(app).create("And now?", previous_response_id=first["id"])


def test_two_stores_are_refused() -> None:
    upstreams = {"local": UpstreamConfig(dialect="openai_chat", base_url="http://127.0.0.1:9")}
    config = Config(upstreams=upstreams, state="memory:")
    with pytest.raises(ConfigError, match="a URL beside a store of the program"):
        Gateway(config, environ={}, store=DictStore())
