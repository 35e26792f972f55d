"""Every official SDK on a provider of every dialect, over a real connection.

The same message arrives, or the SDK's own exception of the right class; and nothing is left in
the pool of connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from acceptance.transcoding_clients import SDK, SDKS, Reading
from support.cli.servers import provider as serving
from support.http.strict_upstreams import strict_provider

from streamnorm import Reasoning, StreamError, Text, decode_request
from streamnorm.testing import tool_call

# The SDKs leave generators to the garbage collector, which trio complains about.
pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]

OSLO = ("call_1", "get_weather", {"city": "Oslo"})
ROME = ("call_2", "get_weather", {"city": "Rome"})
CALLS = [tool_call("get_weather", city="Oslo"), tool_call("get_weather", city="Rome")]

ANSWERS: dict[str, tuple[Any, list[Reading]]] = {
    "text": (["It snows in Oslo."], [Reading("It snows in Oslo.")]),
    "reasoning": (
        [[Reasoning(("It is winter.",)), Text("It snows.")]],
        [Reading("It snows.", "It is winter.")],
    ),
    "parallel tools": (
        [["One moment.", *CALLS]],
        [Reading("One moment.", calls=(OSLO, ROME))],
    ),
    "second turn": (
        [CALLS, "It snows in both."],
        [Reading(calls=(OSLO, ROME)), Reading("It snows in both.")],
    ),
}


class Upstream:
    """A server whose provider each test sets."""

    def __init__(self) -> None:
        self.url = ""
        self.provider = strict_provider([])

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.provider.app()(scope, receive, send)


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    app = Upstream()
    with serving(app) as url:
        app.url = url
        yield app


clients = pytest.mark.parametrize("sdk", SDKS.values(), ids=SDKS)
targets = pytest.mark.parametrize("target", SDKS)
modes = pytest.mark.parametrize("mode", ["async", pytest.param("sync", marks=pytest.mark.slow)])


async def converse(
    sdk: SDK, target: str, base_url: str, mode: str, turns: int = 1, *, stream: bool = True
) -> list[Reading]:
    """Return what an SDK reads of each turn, and see that no connection is in use after it."""
    options = {"client": sdk.dialect, "upstream": target, "base_url": base_url}
    if mode == "sync":
        network = sdk.http.HTTPTransport()
        with sdk.http.Client(
            transport=sdk.transports.TranscodingTransport(network, **options)
        ) as c:
            try:
                return sdk.converse(c, turns, stream=stream)
            finally:
                assert all(connection.is_idle() for connection in network._pool.connections)
    network = sdk.http.AsyncHTTPTransport()
    transport = sdk.transports.TranscodingTransport(network, **options)
    async with sdk.http.AsyncClient(transport=transport) as client:
        try:
            return await sdk.converse_async(client, turns, stream=stream)
        finally:
            assert all(connection.is_idle() for connection in network._pool.connections)


@modes
@pytest.mark.parametrize(
    "stream", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["streamed", "whole"]
)
@pytest.mark.parametrize(("script", "readings"), ANSWERS.values(), ids=ANSWERS)
@targets
@clients
async def test_client_reads_the_same_message(
    sdk: SDK,
    target: str,
    script: Any,
    readings: list[Reading],
    stream: bool,
    mode: str,
    upstream: Upstream,
) -> None:
    upstream.provider = provider = strict_provider(script)
    told = await converse(sdk, target, upstream.url, mode, len(script), stream=stream)
    assert told == readings
    assert [request.dialect for request in provider.requests] == [target] * len(script)
    requests = [
        decode_request(request.body, target, path=request.path) for request in provider.requests
    ]
    assert [request.model for request in requests] == ["m-1"] * len(script)
    results = [r.tool_call_id for message in requests[-1].messages for r in message.tool_results]
    assert results == (["call_1", "call_2"] if len(script) > 1 else [])


SLOW = StreamError("upstream", "slow down", "rate_limit_error", 429)
BROKEN: dict[str, tuple[Any, Callable[[SDK], type[Exception]], str]] = {
    "error before": ([SLOW], lambda sdk: sdk.status_error, "slow down"),
    "error in the stream": (
        [["One moment.", StreamError("upstream", "no capacity left", "overloaded_error", 529)]],
        lambda sdk: sdk.stream_error,
        "no capacity left",
    ),
    "cut": (
        [["One moment.", StreamError("truncated", "cut")]],
        lambda sdk: sdk.stream_error,
        "connection lost",
    ),
    "reset": (
        [["One moment.", StreamError("transport", "reset")]],
        lambda sdk: sdk.stream_error,
        "connection lost",
    ),
}


@modes
@pytest.mark.parametrize(("script", "kind", "words"), BROKEN.values(), ids=BROKEN)
@targets
@clients
async def test_failure_is_raised_as_the_exception_of_the_sdk(
    sdk: SDK,
    target: str,
    script: Any,
    kind: Callable[[SDK], type[Exception]],
    words: str,
    mode: str,
    upstream: Upstream,
) -> None:
    upstream.provider = strict_provider(script)
    with pytest.raises(kind(sdk)) as raised:
        await converse(sdk, target, upstream.url, mode)
    assert words in str(raised.value)
    if words == "slow down":
        assert getattr(raised.value, "status_code", None) or raised.value.code == 429  # type: ignore[attr-defined]  # Gemini's has it
