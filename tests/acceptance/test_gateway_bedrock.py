"""Clients of Bedrock's InvokeModel on every upstream, and other clients on InvokeModel.

python -m pytest -m "" tests/acceptance/test_gateway_bedrock.py
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anthropic
import httpx2
import pytest
from acceptance.bedrock_clients import BEDROCK_SDKS
from acceptance.frameworks import ANSWER, TASK
from acceptance.gateways import Gateways
from acceptance.interactions_client import INTERACTIONS
from acceptance.test_gateway_sdks import READINGS, assert_task_was_asked
from acceptance.transcoding_clients import SDK, SDKS
from support.bedrock.signatures import KEY_ID, SECRET, set_credentials
from support.bedrock.upstream import BedrockUpstream
from support.gateway.servers import gateway_config, served
from support.http.strict_upstreams import COMPATIBLE, strict_provider

from streamnorm import Reasoning, RedactedReasoning, StreamError, decode_request
from streamnorm.gateway import Gateway
from streamnorm.testing import faults, tool_call

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]

INVOKED = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9}
KEYS = {"aws_client_keys": "env:AWS_CLIENT_KEYS"}
ENVIRON = {"AWS_CLIENT_KEYS": f"{KEY_ID}:{SECRET}", "BEARERS": "b-1"}

clients = pytest.mark.parametrize("sdk", BEDROCK_SDKS.values(), ids=BEDROCK_SDKS)
forms = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    set_credentials(monkeypatch, tmp_path)


async def converse(sdk: SDK, url: str, turns: int = 2, **options: Any) -> Any:
    async with httpx2.AsyncClient() as http:
        return await sdk.converse_async(http, turns, base_url=url, **options)


OPERATIONS: dict[str, dict[str, str]] = {"anthropic": {"framing": "invoke_chunks"}}
OPERATIONS["bedrock_converse"] = {"server": "bedrock"}
operations = pytest.mark.parametrize("dialect", OPERATIONS)


@asynccontextmanager
async def gateway_to_bedrock(
    upstream: BedrockUpstream, dialect: str = "anthropic", **settings: Any
) -> AsyncIterator[str]:
    """Serve a fake Bedrock, and a gateway in front of it that signs; yield the gateway's URL."""
    async with served(upstream, strict=False) as upstream_url:
        options = {**OPERATIONS[dialect], "key": "aws", "region": "eu-west-1"}
        config = gateway_config(upstream_url, dialect, options=options, **settings)
        async with served(Gateway(config, environ=ENVIRON)) as url:
            yield url


@forms
@pytest.mark.parametrize("target", SDKS)
@clients
async def test_client_of_bedrock_finishes_a_task(
    sdk: SDK, target: str, stream: bool, running: Gateways
) -> None:
    provider = strict_provider(TASK, server=COMPATIBLE)
    running.upstream.app = provider.app()
    assert await converse(sdk, running.urls[target], stream=stream) == READINGS
    assert_task_was_asked(provider, target)


@forms
@operations
@clients
async def test_client_of_bedrock_finishes_a_task_on_bedrock(
    sdk: SDK, dialect: str, stream: bool
) -> None:
    """Both sides are signed, each with a key and a region of its own."""
    upstream = BedrockUpstream(strict_provider(TASK).app())
    async with gateway_to_bedrock(upstream, dialect, **KEYS) as url:
        assert await converse(sdk, url, stream=stream) == READINGS
    assert [request.model for request in upstream.requests] == ["m-1", "m-1"]
    assert '"c2ln"' in json.dumps(upstream.requests[1].body)  # the signature of the reasoning


REDACTED = RedactedReasoning("EuYBCkQYAiJAKosToldNothing", "anthropic")


@forms
@operations
@pytest.mark.parametrize(
    "sdk", [*BEDROCK_SDKS.values(), SDKS["anthropic"]], ids=lambda sdk: type(sdk).__name__
)
async def test_reasoning_that_nobody_reads_goes_back(sdk: SDK, dialect: str, stream: bool) -> None:
    """Claude refuses the next turn of a tool loop without it."""
    thought = Reasoning(("Hm.",), "c2lnbmVkLWJ5LWNsYXVkZQ==", "anthropic")
    answer = [thought, REDACTED, tool_call("get_weather", city="Oslo")]
    upstream = BedrockUpstream(strict_provider([answer, ANSWER]).app())
    async with gateway_to_bedrock(upstream, dialect) as url, sdk.http.AsyncClient() as http:
        await sdk.converse_async(http, 2, stream=stream, base_url=url)
    end = "invoke" if dialect == "anthropic" else "converse"
    second = decode_request(upstream.requests[1].body, path=f"/model/m-1/{end}")
    assert second.messages[1].blocks[:2] == (thought, REDACTED)


@forms
@operations
@pytest.mark.parametrize("sdk", [*SDKS.values(), INTERACTIONS], ids=lambda sdk: sdk.dialect)
async def test_other_client_finishes_a_task_on_bedrock(
    sdk: SDK, dialect: str, stream: bool
) -> None:
    upstream = BedrockUpstream(strict_provider(TASK).app())
    async with gateway_to_bedrock(upstream, dialect) as url, sdk.http.AsyncClient() as http:
        found = await sdk.converse_async(http, 2, stream=stream, base_url=url)
    assert found == READINGS
    end = "invoke" if dialect == "anthropic" else "converse"
    second = decode_request(upstream.requests[1].body, path=f"/model/m-1/{end}")
    results = [r.tool_call_id for message in second.messages for r in message.tool_results]
    assert results == ["call_1", "call_2"]


@operations
@pytest.mark.parametrize(
    "model",
    [
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "arn:aws:bedrock:us-east-1:1:inference-profile/eu.claude",
        "é a%3Ab/c:d@e~f+g;h=i,j'k(l)*m!$&\"<>",
    ],
)
async def test_path_is_signed_as_it_is_sent(dialect: str, model: str) -> None:
    """AWS signs the path as it arrives: another spelling of one character is refused."""
    upstream = BedrockUpstream(strict_provider([ANSWER] * 3, strict=False).app())
    said = {"messages": [{"role": "user", "content": "Snow?"}], "max_tokens": 9}
    content = {"messages": [{"role": "user", "content": [{"text": "Snow?"}]}]}
    spelt = quote(model, safe="")
    async with gateway_to_bedrock(upstream, dialect) as url, httpx2.AsyncClient() as http:
        answers = [
            await http.post(f"{url}/v1/chat/completions", json={"model": model, **said}),
            await http.post(f"{url}/model/{spelt}/converse", json=content),
            await http.post(f"{url}/model/{spelt}/invoke", json={**INVOKED, **said}),
        ]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert [request.model for request in upstream.requests] == [model] * 3


@pytest.mark.parametrize("target", SDKS)
@clients
async def test_error_of_the_upstream_is_raised(sdk: SDK, target: str, running: Gateways) -> None:
    error = StreamError("upstream", "slow down", "rate_limit_error", 429)
    running.upstream.app = strict_provider([error], server=COMPATIBLE).app()
    with pytest.raises(sdk.status_error, match="slow down") as raised:
        await converse(sdk, running.urls[target])
    answer: Any = getattr(raised.value, "response", None)
    if isinstance(answer, dict):  # of botocore
        assert answer["Error"] == {"Code": "ThrottlingException", "Message": "slow down"}
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 429
        return
    assert answer.status_code == 429


@pytest.mark.parametrize("target", SDKS)
@clients
async def test_cut_is_no_end(sdk: SDK, target: str, running: Gateways) -> None:
    """boto3 takes a clean end of the bytes for the end of the answer."""
    running.upstream.app = strict_provider(ANSWER, faults=[faults.cut(event=3)]).app()
    with pytest.raises(sdk.stream_error):
        await converse(sdk, running.urls[target], 1)


@clients
async def test_wrong_secret_is_refused(sdk: SDK, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = BedrockUpstream(strict_provider(TASK).app())
    monkeypatch.setitem(ENVIRON, "AWS_CLIENT_KEYS", f"{KEY_ID}:other")
    with pytest.raises(sdk.status_error, match="signature"):
        async with gateway_to_bedrock(upstream, **KEYS) as url:
            await converse(sdk, url)
    assert upstream.requests == []


@pytest.mark.parametrize(("key", "status"), [("b-1", 200), ("b-2", 403)])
async def test_bearer_opens(key: str, status: int) -> None:
    upstream = BedrockUpstream(strict_provider([ANSWER]).app())
    settings = {**KEYS, "client_keys": "env:BEARERS"}
    async with gateway_to_bedrock(upstream, **settings) as url, httpx2.AsyncClient() as http:
        client = anthropic.AsyncAnthropicBedrock(
            api_key=key, aws_region="us-east-1", base_url=url, http_client=http, max_retries=0
        )
        asked = client.messages.with_raw_response.create(
            model="m-1", max_tokens=9, messages=[{"role": "user", "content": "Snow?"}]
        )
        try:
            found = (await asked).status_code
        except anthropic.PermissionDeniedError as exc:
            found = exc.status_code
    assert found == status
    assert len(upstream.requests) == (status == 200)


SAID = {"converse": {"messages": [{"role": "user", "content": [{"text": "Snow?"}]}]}}
ASKED = json.dumps({**INVOKED, "messages": [{"role": "user", "content": "Snow?"}]}).encode()


@pytest.mark.parametrize("counted", [SAID, {"invokeModel": {"body": ASKED}}], ids=list)
async def test_boto3_counts_tokens(counted: dict[str, Any], running: Gateways) -> None:
    """Chat Completions has no counts: they are estimated."""
    running.upstream.app = strict_provider([ANSWER], server=COMPATIBLE).app()
    client = BEDROCK_SDKS["boto3"].async_client(None, running.urls["openai_chat"])
    with closing(client):
        count = partial(client.count_tokens, modelId="arn:x/claude", input=counted)
        answer = await asyncio.to_thread(count)
    assert 0 < answer["inputTokens"] < 20
