"""What the official SDKs raise behind a gateway whose provider refuses, or breaks off."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import anthropic
import httpx2
import openai
import pytest
from google import genai
from google.genai import errors, types
from google.genai._interactions_errors import APIError
from support.openai_chat.chunks import content

import streamnorm
from streamnorm.asgi import EventStreamResponse

pytestmark = pytest.mark.anyio

URL = "http://gateway"
MESSAGES: Any = [{"role": "user", "content": "Hi."}]
ANTHROPIC: Any = {"model": "m", "max_tokens": 9, "messages": MESSAGES}
CHAT: Any = {"model": "m", "messages": MESSAGES}
RESPONSE: Any = {"model": "m", "input": "Hi."}

NO_KEY = b'{"error":{"message":"no such key","type":"invalid_request_error","code":"bad_key"}}'
SLOW = b'{"error":{"message":"slow down","type":"rate_limit_error"}}'


def app(to: str, transport: httpx2.AsyncBaseTransport) -> Any:
    """Return a gateway: its clients speak `to`, its provider Chat Completions."""

    async def gateway(scope: Any, receive: Any, send: Any) -> None:
        async with httpx2.AsyncClient(transport=transport) as client:
            stream = streamnorm.connect(client, "POST", "http://provider", json={}, to=to)
            await EventStreamResponse(stream)(scope, receive, send)

    return gateway


async def ask_anthropic(http: httpx2.AsyncClient) -> None:
    client = anthropic.AsyncAnthropic(api_key="-", base_url=URL, http_client=http, max_retries=0)
    async with client.messages.stream(**ANTHROPIC) as stream:
        await stream.get_final_message()


async def ask_chat(http: httpx2.AsyncClient) -> None:
    client = openai.AsyncOpenAI(api_key="-", base_url=URL, http_client=http, max_retries=0)
    async for _ in await client.chat.completions.create(**CHAT, stream=True):
        pass


async def ask_responses(http: httpx2.AsyncClient) -> None:
    client = openai.AsyncOpenAI(api_key="-", base_url=URL, http_client=http, max_retries=0)
    async for _ in await client.responses.create(**RESPONSE, stream=True):
        pass


async def ask_gemini(http: httpx2.AsyncClient) -> None:
    options = types.HttpOptions(base_url=URL, httpx_async_client=http)
    client = genai.Client(api_key="-", http_options=options)
    async for _ in await client.aio.models.generate_content_stream(model="m", contents="Hi."):
        pass


async def ask_interactions(http: httpx2.AsyncClient) -> None:
    retries = types.HttpRetryOptions(attempts=1)
    options = types.HttpOptions(base_url=URL, httpx_async_client=http, retry_options=retries)
    client = genai.Client(api_key="-", http_options=options)
    async for event in await client.aio.interactions.create(**RESPONSE, stream=True):
        if event.event_type == "error":  # the client raises none
            raise InteractionFailed(event.error.message)


class InteractionFailed(APIError):
    """The last event of a stream is an error."""

    def __init__(self, message: str) -> None:
        super().__init__(message, httpx2.Request("POST", URL), body=None)


class Asked(NamedTuple):
    """One SDK, and the base of its errors."""

    to: str
    ask: Callable[[httpx2.AsyncClient], Awaitable[None]]
    error: type[Exception]


SDKS = (
    Asked("anthropic", ask_anthropic, anthropic.APIStatusError),
    Asked("openai_chat", ask_chat, openai.APIError),
    Asked("openai_responses", ask_responses, openai.APIError),
    Asked("gemini", ask_gemini, errors.APIError),
)
INTERACTIONS = Asked("gemini_interactions", ask_interactions, APIError)
sdks = pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.to)


async def raised(sdk: Asked, answer: Callable[[httpx2.Request], httpx2.Response]) -> Any:
    """Return what the SDK raises where the provider answers so."""
    gateway = httpx2.ASGITransport(app(sdk.to, httpx2.MockTransport(answer)))
    async with httpx2.AsyncClient(transport=gateway) as http:
        with pytest.raises(sdk.error) as found:
            await sdk.ask(http)
    return found.value


def refuse(_: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("All connection attempts failed")


def stall(_: httpx2.Request) -> httpx2.Response:
    raise httpx2.ReadTimeout("")


PROVIDERS: dict[str, tuple[Callable[[httpx2.Request], httpx2.Response], int, str]] = {
    "refused": (refuse, 502, "connection error: the provider could not be reached"),
    "stalled": (stall, 504, "connection timed out before the first event"),
    "401": (lambda _: httpx2.Response(401, content=NO_KEY), 401, "no such key"),
    "429": (lambda _: httpx2.Response(429, content=SLOW), 429, "slow down"),
    "500": (lambda _: httpx2.Response(500), 500, "HTTP 500 with an empty body"),
    "HTML": (lambda _: httpx2.Response(200, html="<html>"), 502, "an HTML page, expected"),
    "no stream": (lambda _: httpx2.Response(200, json={"id": 1}), 502, '"stream": true missing'),
}


@sdks
@pytest.mark.parametrize(
    ("provider", "status", "message"), PROVIDERS.values(), ids=PROVIDERS.keys()
)
async def test_refusal_has_its_status_and_its_message(
    sdk: Asked, provider: Any, status: int, message: str
) -> None:
    error = await raised(sdk, provider)
    assert getattr(error, "status_code", None) or error.code == status
    assert message in str(error).replace("\\", "")


class Breaks(httpx2.AsyncByteStream):
    """A body that breaks off behind its first event."""

    def __init__(self, *, cleanly: bool) -> None:
        self._cleanly = cleanly

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield content("a")
        if not self._cleanly:
            raise httpx2.RemoteProtocolError("peer closed connection")


@sdks
@pytest.mark.parametrize("cleanly", [True, False])
async def test_stream_that_breaks_off_raises_words_that_agents_retry(
    sdk: Asked, *, cleanly: bool
) -> None:
    error = await raised(sdk, lambda _: httpx2.Response(200, stream=Breaks(cleanly=cleanly)))
    assert "connection lost" in str(error)
    assert "RemoteProtocolError" not in str(error)


@pytest.mark.on_asyncio  # of which this client asks a thread
async def test_client_of_interactions_raises_the_same() -> None:
    for name, (provider, status, message) in PROVIDERS.items():
        error = await raised(INTERACTIONS, provider)
        assert error.status_code == status, name
        assert message in str(error).replace("\\", ""), name
    for cleanly in (True, False):
        body = Breaks(cleanly=cleanly)
        error = await raised(INTERACTIONS, lambda _: httpx2.Response(200, stream=body))  # noqa: B023 - asked at once
        assert "connection lost" in str(error)
