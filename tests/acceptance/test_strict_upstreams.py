"""The upstreams of acceptance tests and of the gateway's refuse what a provider refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.gateway.servers import served, served_gateway
from support.http.scripted_upstream import ScriptedUpstream
from support.http.strict_upstreams import strict_handler, strict_provider

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]

ACCEPTED = {"model": "gpt-5", "input": "Hi. ä"}
REFUSED = {**ACCEPTED, "max_output_tokens": 10}
URL = "/v1/responses"


async def test_upstream_gets_what_its_provider_accepts() -> None:
    upstream = ScriptedUpstream({URL: {"id": "resp_1"}})
    async with served(upstream) as url, httpx.AsyncClient(base_url=url) as http:
        answer = await http.post(URL, json=ACCEPTED)
        listed = await http.get("/v1/models")
    assert (answer.status_code, answer.json()) == (200, {"id": "resp_1"})
    assert listed.status_code == 404
    assert [request.target for request in upstream.requests] == [URL, "/v1/models"]
    assert upstream.requests[0].json == ACCEPTED


async def test_upstream_gets_nothing_that_its_provider_refuses() -> None:
    upstream = ScriptedUpstream({URL: {"id": "resp_1"}})
    async with served(upstream) as url, httpx.AsyncClient(base_url=url) as http:
        answer = await http.post(URL, json=REFUSED)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "max_output_tokens")
    assert upstream.requests == []


@pytest.mark.parametrize(("server", "status"), [(None, 400), ("azure", 400), ("vllm", 200)])
async def test_upstream_stands_for_a_server(server: str | None, status: int) -> None:
    upstream = ScriptedUpstream({URL: {"id": "resp_1"}})
    async with (
        served(upstream, stands_for=server) as url,
        httpx.AsyncClient(base_url=url) as http,
    ):
        assert (await http.post(URL, json=REFUSED)).status_code == status


@pytest.mark.parametrize(
    ("fields", "status"),
    [({"prompt": "Hi."}, 400), ({"reasoning_content": "Hm."}, 200)],
)
async def test_upstream_without_a_name_refuses_what_openai_does_but_reasoning(
    fields: dict[str, Any], status: int
) -> None:
    path = "/v1/chat/completions"
    answer = {"role": "assistant", "content": "Yes."} | fields
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi."}, answer]}
    upstream = ScriptedUpstream({path: {"id": "chatcmpl-1"}})
    async with served(upstream) as url, httpx.AsyncClient(base_url=url) as http:
        assert (await http.post(path, json=body)).status_code == status


@pytest.mark.parametrize(("server", "received"), [("openai", 0), ("vllm", 1)])
async def test_upstream_of_a_gateway_stands_for_the_configured_server(
    server: str, received: int
) -> None:
    upstream = ScriptedUpstream({})
    async with (
        served_gateway(upstream, "openai_responses", options={"server": server}) as gateway,
        httpx.AsyncClient(base_url=gateway.url) as http,
    ):
        await http.post(URL, json=REFUSED)
    assert len(upstream.requests) == received


def test_provider_in_process_refuses() -> None:
    provider = strict_provider("Hello")
    with provider.client(httpx.Client, base_url="https://api.openai.com") as http:
        assert http.post(URL, json=REFUSED).status_code == 400
        assert http.post(URL, json={**ACCEPTED, "stream": True}).status_code == 200
    assert [each.path for each in provider.violations] == ["max_output_tokens"]


def test_handler_of_a_transport_refuses() -> None:
    got: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        got.append(json.loads(request.content))
        return httpx.Response(204)

    transport = httpx.MockTransport(strict_handler(httpx.Response, answer))
    with httpx.Client(transport=transport, base_url="https://api.openai.com") as http:
        assert http.post(URL, json=REFUSED).json()["error"]["param"] == "max_output_tokens"
        assert http.post(URL, json=ACCEPTED).status_code == 204
        assert http.post("/elsewhere", json=REFUSED).status_code == 204
    assert got == [ACCEPTED, REFUSED]


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.glob("*.py")), ids=lambda p: p.name)
def test_every_provider_of_an_acceptance_test_is_strict(path: Path) -> None:
    """One that is not would answer what the real one refuses."""
    name = "FakeProvider"
    assert f"{name}(" not in path.read_text(encoding="utf-8")
