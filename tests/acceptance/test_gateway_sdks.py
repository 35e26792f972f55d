"""Every official SDK finishes a task through a gateway, on an upstream of every dialect.

Client, gateway and upstream are on loopback connections.  The whole matrix:

    python -m pytest -m "" tests/acceptance/test_gateway_sdks.py
"""

from __future__ import annotations

import pytest
from acceptance.frameworks import TASK
from acceptance.gateways import Gateways
from acceptance.transcoding_clients import SDK, SDKS, Reading
from support.http.strict_upstreams import COMPATIBLE, strict_provider

from streamnorm import StreamError, decode_request
from streamnorm.testing import FakeProvider

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]

OSLO = ("call_1", "get_weather", {"city": "Oslo"})
ROME = ("call_2", "get_weather", {"city": "Rome"})
READINGS = [Reading("One moment.", "It is winter.", (OSLO, ROME)), Reading("It snows in both.")]


clients = pytest.mark.parametrize("sdk", SDKS.values(), ids=SDKS)
targets = pytest.mark.parametrize("target", SDKS)
forms = pytest.mark.parametrize(
    "stream", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["streamed", "whole"]
)


async def converse(
    sdk: SDK, target: str, running: Gateways, turns: int = 1, *, stream: bool = True
) -> list[Reading]:
    """Return what an SDK reads of each turn, and see that no connection is in use after it."""
    async with sdk.http.AsyncClient() as http:
        try:
            return await sdk.converse_async(
                http, turns, stream=stream, base_url=running.urls[target]
            )
        finally:
            assert await running.connections_in_use(target) == 0


def assert_task_was_asked(provider: FakeProvider, target: str) -> None:
    """Assert that an upstream got one request for each turn, with the results in the second."""
    assert [request.dialect for request in provider.requests] == [target] * 2
    first, second = (
        decode_request(request.body, target, path=request.path) for request in provider.requests
    )
    assert (first.model, second.model) == ("m-1", "m-1")
    results = [r.tool_call_id for message in second.messages for r in message.tool_results]
    assert results == ["call_1", "call_2"]
    calls = [call.id for message in second.messages for call in message.tool_calls]
    assert calls == results


@forms
@targets
@clients
async def test_client_finishes_a_task_in_as_many_requests_as_turns(
    sdk: SDK, target: str, stream: bool, running: Gateways
) -> None:
    provider = strict_provider(TASK, server=COMPATIBLE)
    running.upstream.app = provider.app()
    assert await converse(sdk, target, running, 2, stream=stream) == READINGS
    assert_task_was_asked(provider, target)


@forms
@clients
async def test_client_finishes_a_task_if_its_own_dialect_is_normalized(
    sdk: SDK, stream: bool, normalizing: Gateways
) -> None:
    provider = strict_provider(TASK, server=COMPATIBLE)
    normalizing.upstream.app = provider.app()
    assert await converse(sdk, sdk.dialect, normalizing, 2, stream=stream) == READINGS
    assert_task_was_asked(provider, sdk.dialect)


@targets
@clients
async def test_error_of_the_upstream_is_raised_as_the_exception_of_the_sdk(
    sdk: SDK, target: str, running: Gateways
) -> None:
    error = StreamError("upstream", "slow down", "rate_limit_error", 429)
    running.upstream.app = strict_provider([error], server=COMPATIBLE).app()
    with pytest.raises(sdk.status_error, match="slow down") as raised:
        await converse(sdk, target, running)
    status = getattr(raised.value, "status_code", None) or getattr(raised.value, "code", None)
    assert status == 429


# google-genai's is aiohttp, of which it makes a subclass.
@pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")
@clients
async def test_client_with_the_http_client_of_its_sdk_reads_the_answer(
    sdk: SDK, running: Gateways
) -> None:
    running.upstream.app = strict_provider(TASK, server=COMPATIBLE).app()
    target = "openai_responses" if sdk.dialect == "openai_chat" else "openai_chat"
    client = sdk.async_client(None, running.urls[target])
    try:
        answer = await sdk.streamed_async(client, sdk.first())
        assert sdk.reading(answer) == READINGS[0]
    finally:
        await (client.aio.aclose() if sdk.dialect == "gemini" else client.close())
