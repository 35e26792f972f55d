"""Stored responses of a provider that is of the client's own dialect."""

from __future__ import annotations

from typing import Any

import pytest
from support.http.families import FamilyUnderTest, each_family
from support.http.transcoding_clients import SSE, Answering, closable_body, fetch, transcoding
from support.openai_responses import frames as responses

from streamnorm import Completed, Failed, Truncated

pytestmark = pytest.mark.anyio
modes = pytest.mark.parametrize("mode", ["async", "sync"])

URL = "https://api.openai.com/v1/responses/resp_1"
EVENTS = [
    responses.text("lo"),
    responses.event("news", sequence_number=43),
    responses.completed(usage={"input_tokens": 9, "output_tokens": 4}),
]


def native(family: FamilyUnderTest, answering: Answering, **options: Any) -> Any:
    options = {"client": "openai_responses", "upstream": "openai_responses", **options}
    return transcoding(family, answering, **options)


async def ask(family: FamilyUnderTest, mode: str, transport: Any, **request: Any) -> Any:
    request = {"method": "GET", "url": URL, "json": None, **request}
    return await fetch(family, mode, transport, **request)


@modes
@each_family
async def test_answer_passes_with_its_status_and_listed_headers(
    family: FamilyUnderTest, mode: str
) -> None:
    headers = {
        "content-type": "application/json; charset=utf-8",
        "x-request-id": "req_1",
        "set-cookie": "secret",
    }
    body = b'{ "id": "resp_1" }'
    answering = Answering(family, 202, content=body, headers=headers)
    transport = native(family, answering)
    key = {"authorization": "Bearer key", "cookie": "secret"}
    response = await ask(family, mode, transport, params={"limit": "2", "x": "1"}, headers=key)
    assert (response.status_code, response.content) == (202, body)
    assert response.headers["content-type"] == "application/json; charset=utf-8"
    assert response.headers["x-request-id"] == "req_1"
    assert "set-cookie" not in response.headers
    (request,) = answering.requests
    assert str(request.url) == "https://provider.test/v1/responses/resp_1?limit=2"
    assert request.headers["authorization"] == "Bearer key"
    assert "cookie" not in request.headers
    assert request.read() == b""
    assert transport.outcome is None


@modes
@each_family
async def test_error_passes_with_its_status(family: FamilyUnderTest, mode: str) -> None:
    error = b'{"error": {"message": "no such response", "new": 1}}'
    transport = native(family, Answering(family, 404, content=error))
    for params in ({}, {"stream": "true"}):
        response = await ask(family, mode, transport, method="GET", params=params)
        assert (response.status_code, response.content) == (404, error)
        assert isinstance(transport.outcome, Failed)
        assert transport.outcome.error.message == "no such response"


@modes
@each_family
async def test_resumed_stream_passes_as_it_arrives(family: FamilyUnderTest, mode: str) -> None:
    source = closable_body(family, mode, EVENTS)
    answering = Answering(family, headers=SSE, stream=source)
    transport = native(family, answering)
    response = await ask(family, mode, transport, params={"stream": "true", "starting_after": "42"})
    assert response.content == b"".join(EVENTS)
    assert response.headers["content-type"].startswith("text/event-stream")
    assert answering.requests[0].url.query == b"starting_after=42&stream=true"
    assert isinstance(transport.outcome, Completed)
    assert transport.outcome.usage.output_tokens == 4


@modes
@each_family
async def test_cut_of_a_resumed_stream_is_an_error_event(
    family: FamilyUnderTest, mode: str
) -> None:
    source = closable_body(family, mode, EVENTS[:2])
    transport = native(family, Answering(family, headers=SSE, stream=source))
    response = await ask(family, mode, transport, params={"stream": "true"})
    assert response.content.startswith(b"".join(EVENTS[:2]) + b"event: error\n")
    assert isinstance(transport.outcome, Truncated)
    assert source.closed


@modes
@each_family
async def test_stream_that_breaks_before_its_first_event_is_an_error_of_the_package(
    family: FamilyUnderTest, mode: str
) -> None:
    source = closable_body(family, mode, [], error=family.http.ReadError("no words"))
    transport = native(family, Answering(family, headers=SSE, stream=source))
    with pytest.raises(family.http.ReadError):
        await ask(family, mode, transport, params={"stream": "true"})
    assert isinstance(transport.outcome, Truncated)


@modes
@each_family
async def test_what_is_no_stream_is_a_bad_gateway(family: FamilyUnderTest, mode: str) -> None:
    transport = native(family, Answering(family, json={"id": "resp_1"}))
    response = await ask(family, mode, transport, params={"stream": "true"})
    assert response.status_code == 502
    assert "expected an event stream" in response.json()["error"]["message"]
