"""A gateway's route of `connect` and `EventStreamResponse`, before the provider's first event."""

from __future__ import annotations

import json
import socket
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from support.http.asgi_client import UNANSWERED, Client
from support.http.loopback import HEAD, Server, chunked
from support.openai_chat.chunks import DONE, content

import streamnorm
from streamnorm import Abandoned, Outcome
from streamnorm.asgi import EventStreamResponse

pytestmark = pytest.mark.anyio

families = pytest.mark.parametrize("family", [httpx, httpx2])
TARGETS = ("anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions")
NO_KEY = b'{"error":{"message":"no such key","type":"invalid_request_error","code":"bad_key"}}'
SLOW = b'{"error":{"message":"slow down","type":"rate_limit_error"}}'
WHOLE_JSON = b'{"choices":[{"message":{"content":"secret"}}]}'

REFUSALS: dict[str, tuple[int, str, bytes, int, str]] = {
    # Status, content type and body of the provider; status and message for the client.
    "401": (401, "application/json", NO_KEY, 401, "no such key"),
    "429": (429, "application/json", SLOW, 429, "slow down"),
    "500": (500, "text/plain", b"", 500, "HTTP 500 with an empty body"),
    "HTML 503": (503, "text/html", b"<html>secret", 503, "HTTP 503 with an HTML page"),
    "redirect": (
        *(307, "text/html", b"<html>secret", 502),
        "HTTP 307 with an HTML page (a redirect, which is not followed: is the URL of the request "
        "right?)",
    ),
    "HTML 200": (
        *(200, "text/html", b"<html>secret"),
        *(502, "an HTML page, expected an event stream (is the URL of the request right?)"),
    ),
    "no stream": (
        *(200, "application/json", WHOLE_JSON, 502),
        'a JSON body, expected an event stream (is "stream": true missing in the request, or '
        "streamGenerateContent in its URL?)",
    ),
    "text": (200, "text/plain", b"secret", 502, "plain text, expected an event stream"),
    "empty": (
        *(200, "text/event-stream", b""),
        *(502, "connection lost: the stream ended before its first event"),
    ),
}


async def route(client: Any, url: str, to: str, **options: Any) -> Client:
    """Return what a client receives from a route that asks the provider at `url`."""
    caller = Client()
    stream = streamnorm.connect(client, "POST", url, json={}, to=to, **options)
    await caller.request(EventStreamResponse(stream))
    return caller


def message_of(caller: Client, to: str) -> str:
    """Return the message of an error response, whose body must be one of dialect `to`."""
    assert caller.headers["content-type"] == "application/json"
    assert caller.finished
    body = json.loads(b"".join(caller.bodies))
    error = body["error"]
    match to:
        case "anthropic":
            assert body["type"] == "error"
            assert set(error) == {"type", "message"}
        case "gemini" | "gemini_interactions":
            assert set(error) == {"code", "message", "status"}
            assert error["code"] == caller.status
        case _:
            assert {"message", "type", "param", "code"} <= set(error)
    return str(error["message"])


@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
async def test_refusal_is_an_error_response_in_the_dialect_of_the_client(
    refusal: tuple[int, str, bytes, int, str], to: str
) -> None:
    status, content_type, body, expected, message = refusal
    head = b"HTTP/1.1 %d No\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n"
    answer = head % (status, content_type.encode(), len(body)) + body
    async with Server([answer]).running() as server, httpx2.AsyncClient() as client:
        caller = await route(client, server.url, to)
    assert caller.status == expected
    assert message_of(caller, to) == message


@families
@pytest.mark.parametrize("to", TARGETS)
async def test_provider_that_cannot_be_reached_is_a_bad_gateway(family: Any, to: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    async with family.AsyncClient() as client:
        caller = await route(client, f"http://127.0.0.1:{port}/", to)
    assert caller.status == 502
    assert message_of(caller, to) == "connection error: the provider could not be reached"


@families
@pytest.mark.parametrize("to", TARGETS)
async def test_provider_that_never_answers_is_a_gateway_timeout(family: Any, to: str) -> None:
    client = family.AsyncClient(timeout=family.Timeout(5, read=0.02))
    async with Server([], stays_open=True).running() as server, client:
        caller = await route(client, server.url, to)
    assert caller.status == 504
    assert message_of(caller, to) == "connection timed out before the first event"


@families
async def test_connection_that_breaks_before_the_first_event_is_a_bad_gateway(
    family: Any,
) -> None:
    async with Server([HEAD, b"zz\r\n"]).running() as server, family.AsyncClient() as client:
        caller = await route(client, server.url, "anthropic")
    assert caller.status == 502
    assert message_of(caller, "anthropic") == "connection lost before the first event"


async def test_error_of_the_same_dialect_passes_unchanged() -> None:
    head = b"HTTP/1.1 401 No\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
    async with (
        Server([head % (len(NO_KEY), NO_KEY)]).running() as server,
        httpx2.AsyncClient() as client,
    ):
        caller = await route(client, server.url, "openai_chat", dialect="openai_chat")
    assert (caller.status, caller.bodies) == (401, [NO_KEY])


@families
async def test_client_that_leaves_before_the_answer_cancels_the_request(family: Any) -> None:
    outcomes: list[Outcome] = []
    async with Server([], stays_open=True).running() as server, family.AsyncClient() as client:
        caller = Client()
        stream = streamnorm.connect(
            client, "POST", server.url, json={}, to="anthropic", on_end=outcomes.append
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caller.request, EventStreamResponse(stream))
            await server.asked.wait()
            caller.gone.set()
        with anyio.fail_after(5):
            await server.left.wait()
        assert client._transport._pool.connections == []
    assert caller.messages == UNANSWERED
    assert outcomes == [Abandoned()]


@families
async def test_client_that_leaves_within_the_stream_closes_the_connection(family: Any) -> None:
    outcomes: list[Outcome] = []
    answer = [HEAD, chunked(content("a"))]
    async with Server(answer, stays_open=True).running() as server, family.AsyncClient() as client:
        caller = Client(on_send=lambda message: _leave_at_body(caller, message))
        stream = streamnorm.connect(
            client, "POST", server.url, to="anthropic", on_end=outcomes.append
        )
        await caller.request(EventStreamResponse(stream))
        with anyio.fail_after(5):
            await server.left.wait()
        assert client._transport._pool.connections == []
    assert caller.status == 200
    assert outcomes == [Abandoned()]


async def _leave_at_body(caller: Client, message: Any) -> None:
    if message["type"] == "http.response.body":
        caller.gone.set()


@families
async def test_answer_is_sent_in_the_dialect_of_the_client(family: Any) -> None:
    body = [chunked(content("a", "stop")), chunked(DONE), b"0\r\n\r\n"]
    async with Server([HEAD, *body]).running() as server, family.AsyncClient() as client:
        caller = await route(client, server.url, "anthropic")
    assert caller.status == 200
    assert caller.finished
    written = b"".join(caller.bodies)
    assert streamnorm.accumulate(streamnorm.codec.decoder("anthropic").feed(written)).text == "a"
