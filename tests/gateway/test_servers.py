"""The servers of these tests: they serve, and stop."""

from __future__ import annotations

import httpx
import pytest
from support.gateway.servers import SERVERS, ServerName, served_gateway

from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.anyio

REQUEST = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}


@pytest.mark.parametrize("server", SERVERS)
async def test_gateway_and_upstream_are_served(server: ServerName) -> None:
    provider = FakeProvider("Hi.")
    async with (
        served_gateway(provider.app(), server=server) as gateway,
        httpx.AsyncClient() as client,
    ):
        for stream in (False, True):
            body = {**REQUEST, "stream": stream}
            response = await client.post(f"{gateway.url}/v1/messages", json=body)
            assert response.status_code == 200
            assert "Hi." in response.text
    assert len(provider.requests) == 2
