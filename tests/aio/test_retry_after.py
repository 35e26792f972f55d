"""The time after which a provider accepts a refused request again, as its headers name it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import httpx2
import pytest
from support.http.asgi_client import Client
from support.openai_chat.chunks import DONE, content

import streamnorm
from streamnorm import Failed, StreamError, UpstreamError
from streamnorm.asgi import EventStreamResponse, MessageResponse
from streamnorm.testing import FakeProvider

URL = "http://provider/v1/messages"
SLOW = b'{"type":"error","error":{"type":"rate_limit_error","message":"Slow down."}}'
PAGE = b"<html><title>Unavailable</title></html>"
QUOTA = b"""{"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details":
    [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}]}}"""


def answering(
    status: int, body: bytes, headers: dict[str, str], family: Any = httpx
) -> Callable[[Any], Any]:
    def answer(request: Any) -> Any:
        return family.Response(status, headers=headers, content=body)

    return answer


def refused(status: int, body: bytes, headers: dict[str, str]) -> UpstreamError:
    transport = httpx.MockTransport(answering(status, body, headers))
    with (
        httpx.Client(transport=transport) as client,
        client.stream("POST", URL) as response,
        pytest.raises(UpstreamError) as raised,
    ):
        list(streamnorm.iter_events(response))
    return raised.value


@pytest.mark.parametrize(
    ("status", "body", "headers", "seconds"),
    [
        pytest.param(429, SLOW, {"retry-after": "7"}, 7, id="seconds"),
        pytest.param(429, SLOW, {"retry-after-ms": "1500"}, 1.5, id="milliseconds"),
        pytest.param(503, PAGE, {"retry-after": "7"}, 7, id="of a proxy"),
        pytest.param(200, SLOW, {"retry-after": "7"}, 7, id="under status 200"),
        pytest.param(429, QUOTA, {}, 34, id="in the error"),
        pytest.param(429, SLOW, {}, None, id="nowhere"),
        pytest.param(429, SLOW, {"retry-after": "inf"}, None, id="never"),
    ],
)
def test_refusal_names_the_time(
    status: int, body: bytes, headers: dict[str, str], seconds: float | None
) -> None:
    headers = {"content-type": "application/json", **headers}
    assert refused(status, body, headers).retry_after == seconds


@pytest.mark.anyio
@pytest.mark.parametrize("family", [httpx, httpx2])
async def test_connect_names_the_time(family: Any) -> None:
    transport = family.MockTransport(answering(529, SLOW, {"retry-after": "7"}, family))
    async with family.AsyncClient(transport=transport) as client:
        stream = streamnorm.connect(client, "POST", URL, json={}, errors="yield")
        (error,) = [event async for event in stream]
        assert isinstance(error, StreamError)
        assert error.retry_after == 7
        assert stream.outcome == Failed(error)


def test_error_in_a_running_stream_has_not_the_time_of_its_headers() -> None:
    """The headers were sent before the provider knew of the error."""
    body = content("a") + b'data: {"error":{"message":"overloaded","code":503}}\n\n' + DONE
    headers = {"content-type": "text/event-stream", "retry-after": "7"}
    assert refused(200, body, headers).retry_after is None


@pytest.mark.anyio
@pytest.mark.parametrize("to", ["anthropic", "openai_chat", "gemini"])
async def test_client_of_a_route_reads_the_time(to: str) -> None:
    transport = httpx.MockTransport(answering(429, SLOW, {"retry-after-ms": "1500"}))
    async with httpx.AsyncClient(transport=transport) as upstream:
        streamed, whole = Client(), Client()
        chunks = streamnorm.connect(upstream, "POST", URL, json={}, to=to)
        await streamed.request(EventStreamResponse(chunks))
        events = streamnorm.connect(upstream, "POST", URL, json={})
        await whole.request(MessageResponse(events, to=to))
    for client in (streamed, whole):
        assert (client.status, client.headers["retry-after"]) == (429, "2")


def test_fake_provider_names_the_time_in_a_header() -> None:
    slow = StreamError("upstream", "Slow down.", status_hint=429, retry_after=1.5)
    with FakeProvider(slow).client(httpx.Client) as client:
        response = client.post(URL, json={"model": "m", "messages": []})
    assert (response.status_code, response.headers["retry-after"]) == (429, "2")
