"""A store of the program's own: any object with the methods of `ResponseStore`."""

from __future__ import annotations

import pytest
from support.gateway.calls import CANARY
from support.gateway.stateful_clients import OTHER_KEY, StateClient, provided

from streamnorm.gateway import Config, ConfigError, Gateway, UpstreamConfig
from streamnorm.state import Found, Lookup, MemoryStore, StoredResponse, StoreError
from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.anyio

# As clients of databases raise them: their texts may hold a URL with a password.
errors = pytest.mark.parametrize(
    "error",
    [
        StoreError("the disk is full"),
        ConnectionError(f"redis://user:{CANARY}@host is down"),
        TimeoutError(f"redis://user:{CANARY}@host is late"),
        ValueError(CANARY),
    ],
    ids=lambda error: type(error).__name__,
)


class DictStore:
    """Responses in a dictionary, by scope and id."""

    def __init__(self) -> None:
        self.responses: dict[tuple[str, str], StoredResponse] = {}
        self.error: Exception | None = None

    async def afind(self, scope: str, lookup: Lookup) -> Found:
        self._fail()
        chain: list[StoredResponse] = []
        id = lookup.response
        while id is not None and (found := self.responses.get((scope, id))) is not None:
            chain.append(found)
            id = found.previous
        return Found(tuple(chain))

    async def aput(self, scope: str, response: StoredResponse) -> None:
        self._fail()
        self.responses[scope, response.id] = response

    async def adelete(self, scope: str, id: str) -> bool:
        self._fail()
        return self.responses.pop((scope, id), None) is not None

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


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


@errors
async def test_store_of_the_program_that_fails_is_known_before_the_upstream_is_asked(
    error: Exception,
) -> None:
    store, provider = DictStore(), FakeProvider("Snow.")
    store.error = error
    async with provided(provider, state=None, store=store) as app:
        status, body = await StateClient(app).attempt("Weather?")
    assert (status, body["error"]["code"]) == (503, "store_unavailable")
    assert not provider.requests


@errors
@pytest.mark.parametrize("stream", [False, True])
async def test_answer_that_the_store_of_the_program_refuses_reaches_its_client(
    error: Exception, caplog: pytest.LogCaptureFixture, *, stream: bool
) -> None:
    store = DictStore()

    def answer(_request: object) -> str:
        store.error = error
        return "Snow."

    async with provided(FakeProvider(answer), state=None, store=store) as app:
        response = await StateClient(app).create("Weather?", stream=stream)
    assert response["store"] is False
    assert response["output"][0]["content"][0]["text"] == "Snow."
    assert "the store of responses failed: " in caplog.text
    assert CANARY not in caplog.text


@errors
async def test_request_about_a_response_fails_with_the_store_of_the_program(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    store = DictStore()
    async with provided(FakeProvider("Snow."), state=None, store=store) as app:
        client = StateClient(app)
        id = (await client.create("Weather?"))["id"]
        store.error = error
        answers = [
            await client.ask("GET", id),
            await client.ask("DELETE", id),
            await client.attempt("And now?", previous_response_id=id, store=False),
        ]
    assert [status for status, _ in answers] == [503, 503, 503]
    assert {body["error"]["code"] for _, body in answers} == {"store_unavailable"}
    assert CANARY not in str(answers) + caplog.text


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
