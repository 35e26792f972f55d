"""Google's Interactions client on every upstream, and other clients on an Interactions upstream.

python -m pytest -m "" tests/acceptance/test_gateway_interactions.py
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from acceptance.frameworks import TASK
from acceptance.gateways import Gateways
from acceptance.interactions_client import INTERACTIONS
from acceptance.test_gateway_sdks import READINGS, assert_task_was_asked
from acceptance.transcoding_clients import SDK, SDKS
from support.gateway.servers import served_gateway
from support.http.strict_upstreams import COMPATIBLE, strict_provider

from streamnorm import Reasoning, StreamError, decode_request
from streamnorm.testing import tool_call

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]

OWN = "gemini_interactions"
RECORDINGS = Path(__file__).parents[2] / "recordings"
PARALLEL_CALLS = RECORDINGS / OWN / "google" / "parallel-calls.sse"
forms = pytest.mark.parametrize(
    "stream", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["streamed", "whole"]
)


@forms
@pytest.mark.parametrize("target", SDKS)
async def test_client_finishes_a_task(target: str, stream: bool, running: Gateways) -> None:
    provider = strict_provider(TASK, server=COMPATIBLE)
    running.upstream.app = provider.app()
    async with INTERACTIONS.http.AsyncClient() as http:
        url = running.urls[target]
        found = await INTERACTIONS.converse_async(http, 2, stream=stream, base_url=url)
    assert found == READINGS
    assert_task_was_asked(provider, target)


@forms
@pytest.mark.parametrize("sdk", [INTERACTIONS, *SDKS.values()], ids=lambda sdk: sdk.dialect)
async def test_client_finishes_a_task_on_interactions(sdk: SDK, stream: bool) -> None:
    provider = strict_provider(TASK, server=COMPATIBLE)
    async with (
        served_gateway(provider.app(), OWN) as gateway,
        sdk.http.AsyncClient() as http,
    ):
        found = await sdk.converse_async(http, 2, stream=stream, base_url=gateway.url)
    assert found == READINGS
    assert_task_was_asked(provider, OWN)
    # What the provider's own client sends passes as it is.
    if sdk is not INTERACTIONS:
        assert provider.requests[0].headers["api-revision"] == "2026-05-20"


async def test_signature_of_google_comes_back_to_google() -> None:
    signed = tool_call("get_weather", city="Oslo")
    thought = Reasoning(("Hm.",), "QQ==", "google")
    provider = strict_provider([[thought, signed], "It snows."], server=COMPATIBLE)
    async with (
        served_gateway(provider.app(), "gemini") as gateway,
        INTERACTIONS.http.AsyncClient() as http,
    ):
        await INTERACTIONS.converse_async(http, 2, base_url=gateway.url)
    second = provider.requests[1]
    messages = decode_request(second.body, "gemini", path=second.path).messages
    assert thought in messages[1].blocks


@pytest.mark.parametrize("sdk", SDKS.values(), ids=SDKS)
async def test_signature_of_a_thought_before_a_call_comes_back(sdk: SDK) -> None:
    """A client of Chat Completions sends no thoughts back, and has it on the call."""
    provider = strict_provider([PARALLEL_CALLS, "It snows."], server=COMPATIBLE)
    async with (
        served_gateway(provider.app(), OWN) as gateway,
        sdk.http.AsyncClient() as http,
    ):
        await sdk.converse_async(http, 2, base_url=gateway.url)
    steps = provider.requests[1].body["input"]
    signatures = [step.get("signature") for step in steps if step["type"] == "thought"]
    assert signatures == ["CuEBAXLI2nyTidc="]
    kinds = [step["type"] for step in steps]
    assert kinds[kinds.index("thought") + 1] == "function_call"


@pytest.mark.parametrize("target", ["openai_chat", OWN])
async def test_error_of_the_upstream_is_an_error_of_the_client(target: str) -> None:
    error = StreamError("upstream", "slow down", "rate_limit_error", 429)
    provider = strict_provider([error] * 9, server=COMPATIBLE)  # the client asks again
    async with (
        served_gateway(provider.app(), target, retries=0) as gateway,
        INTERACTIONS.http.AsyncClient() as http,
    ):
        with pytest.raises(Exception, match="slow down") as raised:
            await INTERACTIONS.converse_async(http, base_url=gateway.url)
    assert getattr(raised.value, "status_code", getattr(raised.value, "code", None)) == 429


async def test_another_revision_and_unknown_state_are_refused() -> None:
    provider = strict_provider(["Hi."], server=COMPATIBLE)
    body = {"model": "m-1", "input": "q"}
    async with (
        served_gateway(provider.app(), "openai_chat") as gateway,
        INTERACTIONS.http.AsyncClient(base_url=gateway.url) as http,
    ):
        headers = {"api-revision": "2025-12-01"}
        former = await http.post("/v1beta/interactions", json=body, headers=headers)
        state = {**body, "previous_interaction_id": "v1_unknown"}
        unknown = await http.post("/v1beta/interactions", json=state)
        known = await http.post("/v1beta/interactions", json=body)
    assert (former.status_code, unknown.status_code, known.status_code) == (400, 400, 200)
    for answer in (former, unknown):
        assert json.loads(answer.text)["error"]["status"] == "INVALID_ARGUMENT"
    assert known.json()["status"] == "completed"
    assert len(provider.requests) == 1
