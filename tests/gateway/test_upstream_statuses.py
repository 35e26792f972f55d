"""Statuses of upstreams that no server of HTTP may send on."""

from __future__ import annotations

import httpx
import pytest
from support.gateway.servers import SERVERS, ServerName, gateway_config, served
from support.gateway.upstreams import asked
from support.http.raw_http import raw_upstream

from streamnorm.gateway import Gateway

pytestmark = pytest.mark.anyio

BODY = b'{"error":{"message":"Odd.","type":"odd","code":999}}'
DIALECTS = ("openai_chat", "openai_responses", "anthropic", "gemini", "gemini_interactions")


def response(status: int) -> bytes:
    """Return a response of HTTP/1.1 with an error of OpenAI's."""
    head = f"HTTP/1.1 {status} Odd\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(BODY)}\r\nconnection: close\r\n\r\n".encode() + BODY


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("status", [600, 999])
async def test_status_beyond_599_becomes_502(
    status: int, client: str, stream: bool, server: ServerName
) -> None:
    """RFC 9110, section 15: a client treats such a status as one of a server's error."""
    with raw_upstream(response(status)) as upstream:
        async with served(Gateway(gateway_config(upstream.url), environ={}), server) as url:
            answer = await asked(url, client, stream=stream)
    assert answer.status_code == 502
    assert "Odd." in answer.text


@pytest.mark.parametrize(
    ("dialect", "path"),
    [
        ("openai_chat", "/v1/models"),
        ("openai_chat", "/v1/models/m"),
        ("openai_responses", "/v1/responses/resp_1"),
        ("openai_responses", "/v1/responses/resp_1?stream=true"),
    ],
)
@pytest.mark.parametrize("status", [600, 999])
async def test_status_of_another_endpoint_beyond_599_becomes_502(
    status: int, dialect: str, path: str
) -> None:
    with raw_upstream(response(status)) as upstream:
        async with (
            served(Gateway(gateway_config(upstream.url, dialect), environ={})) as url,
            httpx.AsyncClient() as http,
        ):
            answer = await http.get(url + path)
    assert answer.status_code == 502
    assert "Odd." in answer.text
