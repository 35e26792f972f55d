"""`MessageResponse`: the body it sends, error responses, and closing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anyio
import fastapi
import httpx
import pytest
import starlette.responses
from support.example_dialect.dialect import TELEGRAPH
from support.example_dialect.registration import registered
from support.http.asgi_client import CHUNKS, UNANSWERED, Client, Message, refused
from support.http.byte_source import AsyncBytes, Cut
from support.openai_chat.chunks import chunk, frame

import streamnorm
from streamnorm import (
    Abandoned,
    Completed,
    EncodeError,
    Event,
    Limits,
    LocalProtocolError,
    Loss,
    Stream,
    UnknownDialect,
    Usage,
)
from streamnorm.asgi import MessageResponse

pytestmark = pytest.mark.anyio

ERROR = frame({"error": {"message": "slow down", "type": "rate_limit_error"}})
REDIRECT = " (a redirect, which is not followed: is the URL of the request right?)"
ANSWER = {
    "telegraph": "answer",
    "id": "chatcmpl-1",
    "model": "gpt",
    "blocks": [{"kind": "text", "text": "abc"}],
    "reason": "end_turn",
    "tokens": {"in": 0, "out": 0},
}


@pytest.fixture(autouse=True)
def telegraph() -> Iterator[None]:
    with registered(TELEGRAPH):
        yield


def response(source: Any, **options: Any) -> MessageResponse:
    return MessageResponse(streamnorm.events(source), **{"to": "telegraph", **options})


async def test_message_is_sent_as_one_body() -> None:
    client = Client()
    await client.request(response(AsyncBytes(CHUNKS)))
    (body,) = client.bodies
    assert client.status == 200
    assert client.headers == {
        "content-type": "application/json",
        "content-length": str(len(body)),
    }
    assert json.loads(body) == ANSWER
    assert client.finished


async def test_status_headers_and_model_are_those_of_the_caller() -> None:
    client = Client()
    given = {"X-Request-Id": "7", "Content-Type": "application/vnd.telegraph"}
    sent = response(AsyncBytes(CHUNKS), status=201, headers=given, model="asked")
    await client.request(sent)
    (body,) = client.bodies
    assert (client.status, sent.status_code) == (201, 201)
    assert client.headers == {
        "content-type": "application/vnd.telegraph",
        "x-request-id": "7",
        "content-length": str(len(body)),
    }
    assert json.loads(body) == {**ANSWER, "model": "asked"}


async def test_reply_and_time_reach_the_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []

    def encode_message(message: Any, dialect: str, **options: Any) -> Any:
        given.append(options)
        return streamnorm.encode_message(message, dialect)

    monkeypatch.setattr("streamnorm.asgi.responses.encode_message", encode_message)
    reply = streamnorm.Reply()
    await Client().request(response(AsyncBytes(CHUNKS), reply=reply, created=5.0))
    assert given == [{"reply": reply, "model": None, "created": 5.0}]


async def test_nothing_is_sent_before_the_stream_has_ended() -> None:
    source = AsyncBytes(CHUNKS)
    reads = []

    async def note(_: Message) -> None:
        reads.append(source.reads)

    await Client(note).request(response(source))
    assert reads == [4, 4]


async def test_end_closes_the_source_and_calls_on_end_and_the_background_task() -> None:
    source, outcomes = AsyncBytes(CHUNKS), []
    stream = streamnorm.events(source, on_end=outcomes.append)
    sent = MessageResponse(stream, to="telegraph")

    async def background() -> None:
        outcomes.append(source.closed)

    sent.background = background
    await Client().request(sent)
    assert outcomes == [Completed("end_turn", Usage()), 1]


async def test_losses_are_known_once_the_response_is_sent() -> None:
    refusal = frame({"choices": [{"index": 0, "delta": {"refusal": "No."}}]})
    sent = response(AsyncBytes([refusal, *CHUNKS]))
    assert sent.losses == ()
    await Client().request(sent)
    assert Loss("refusal", "block", 1, "written as text") in sent.losses


async def test_first_of_several_answers_is_sent_and_the_others_are_losses() -> None:
    others = [chunk({"content": "other"}, "stop", choice=number) for number in (1, 2)]
    client, sent = Client(), response(AsyncBytes([CHUNKS[0], *others, *CHUNKS[1:]]))
    await client.request(sent)
    assert json.loads(client.bodies[0]) == ANSWER
    assert [loss for loss in sent.losses if loss.feature == "choices"] == [
        Loss("choices", "choice 1", 1, "dropped"),
        Loss("choices", "choice 2", 1, "dropped"),
    ]


async def test_stream_that_was_read_to_its_end_is_still_sent() -> None:
    stream = streamnorm.events(AsyncBytes(CHUNKS))
    assert [event async for event in stream]
    client = Client()
    await client.request(MessageResponse(stream, to="telegraph"))
    assert json.loads(client.bodies[0]) == ANSWER


def test_dialect_that_cannot_be_written_is_refused_at_once() -> None:
    with pytest.raises(UnknownDialect, match="no dialect 'klingon'"):
        response(AsyncBytes(CHUNKS), to="klingon")


# Failures


@pytest.mark.parametrize("errors", ["raise", "yield"])
@pytest.mark.parametrize(
    ("source", "status", "message"),
    [
        (lambda: refused(b'{"error":{"message":"no key"}}', 401), 401, "no key"),
        (lambda: refused(b'{"error":{"message":"no model"}}', 400), 400, "no model"),
        (lambda: refused(b"", 307), 502, f"HTTP 307 with an empty body{REDIRECT}"),
        (lambda: AsyncBytes([ERROR]), 429, "slow down"),
        (lambda: AsyncBytes([*CHUNKS[:2], ERROR]), 429, "slow down"),
        (
            lambda: AsyncBytes(CHUNKS[:2]),
            502,
            "connection lost: the stream ended before the message was complete, after 2 events",
        ),
        (lambda: AsyncBytes(CHUNKS[:2], error=Cut("secret")), 502, "connection lost"),
        (lambda: AsyncBytes(CHUNKS[:2], error=TimeoutError()), 504, "timed out"),
        (lambda: AsyncBytes([CHUNKS[0], b"data: {\n\n"]), 502, "no JSON in 1 characters"),
        (lambda: refused(b"<html>", 200, "text/html"), 502, "an HTML page, expected an event"),
    ],
    ids=[
        "401",
        "400",
        "307",
        "error",
        "late error",
        "cut",
        "broken",
        "timeout",
        "malformed",
        "HTML",
    ],
)
async def test_stream_that_fails_is_an_error_response_and_never_half_a_message(
    source: Any, status: int, message: str, errors: Any
) -> None:
    read, client = source(), Client()
    stream = streamnorm.events(read, errors=errors)
    await client.request(MessageResponse(stream, to="telegraph"))
    (body,) = client.bodies
    assert client.status == status
    assert client.headers == {
        "content-type": "application/json",
        "content-length": str(len(body)),
    }
    found = json.loads(body)
    assert (list(found), found["telegraph"]) == (["telegraph", "message"], "fault")
    assert message in found["message"]
    assert "secret" not in found["message"]
    assert client.finished
    assert read.closed == 1


async def test_message_beyond_its_bound_is_an_error_response() -> None:
    client = Client()
    stream = streamnorm.events(AsyncBytes(CHUNKS), limits=Limits(max_accumulated_bytes=2))
    await client.request(MessageResponse(stream, to="telegraph"))
    assert client.status == 502
    assert b"expected at most 2" in client.bodies[0]


async def test_message_without_a_legal_form_is_an_error_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def encode_message(*_: Any, **options: Any) -> Any:
        raise EncodeError("no stop reason, expected one", path="stop_reason")

    monkeypatch.setattr("streamnorm.asgi.responses.encode_message", encode_message)
    client = Client()
    await client.request(response(AsyncBytes(CHUNKS)))
    assert (client.status, client.finished) == (502, True)
    assert json.loads(client.bodies[0])["message"] == "stop_reason: no stop reason, expected one"


@pytest.mark.parametrize(("to", "has_details"), [("gemini", True), ("openai_chat", False)])
async def test_details_of_an_error_reach_its_own_dialect_alone(to: str, has_details: bool) -> None:
    error = {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED"}
    details = [{"retryDelay": "34s"}]
    upstream = refused(json.dumps({"error": {**error, "details": details}}).encode(), 429)
    client = Client()
    stream = streamnorm.events(upstream, dialect="gemini")
    await client.request(MessageResponse(stream, to=to))
    assert client.status == 429
    assert ("details" in json.loads(client.bodies[0])["error"]) == has_details


async def test_closed_stream_raises_local_protocol_error() -> None:
    stream: Stream[Event] = streamnorm.events(AsyncBytes(CHUNKS))
    await stream.aclose()
    client = Client()
    with pytest.raises(LocalProtocolError, match="closed or broke"):
        await client.request(MessageResponse(stream, to="telegraph"))
    assert client.messages == []


# The client leaves


@pytest.mark.parametrize("before", [0, 1, 3])
async def test_disconnect_closes_the_source(before: int) -> None:
    source, outcomes = AsyncBytes(CHUNKS[:before], stays_open=True), []
    stream = streamnorm.events(source, on_end=outcomes.append)
    client = Client()

    async def leave() -> None:
        await source.silent.wait()
        client.gone.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave)
        await client.request(MessageResponse(stream, to="telegraph"))
    assert client.messages == UNANSWERED
    assert source.closed == 1
    assert outcomes == [stream.outcome] == [Abandoned()]


async def test_cancelled_request_closes_the_source() -> None:
    source = AsyncBytes(CHUNKS[:1], stays_open=True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Client().request, response(source))
        await source.silent.wait()
        tasks.cancel_scope.cancel()
    assert source.closed == 1


@pytest.mark.parametrize("type", ["http.response.start", "http.response.body"])
async def test_failed_send_is_a_disconnect(type: str) -> None:
    async def fail(message: Message) -> None:
        if message["type"] == type:
            raise BrokenPipeError

    source = AsyncBytes(CHUNKS)
    await Client(fail).request(response(source))
    assert source.closed == 1


# Frameworks


def test_instance_is_a_starlette_response_if_starlette_is_imported() -> None:
    sent = response(AsyncBytes([]), status=201)
    assert isinstance(sent, MessageResponse)
    assert isinstance(sent, starlette.responses.Response)
    assert sent.headers["content-type"] == "application/json"


async def test_fastapi_sends_the_message() -> None:
    app, ran = fastapi.FastAPI(), []

    async def endpoint(tasks: fastapi.BackgroundTasks) -> MessageResponse:
        tasks.add_task(ran.append, "background")
        return response(AsyncBytes(CHUNKS))

    # FastAPI looks up annotations that are text in the module.
    endpoint.__annotations__ = {"tasks": fastapi.BackgroundTasks, "return": MessageResponse}
    app.post("/")(endpoint)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://h") as client:
        answer = await client.post("/")
    assert (answer.status_code, answer.json()) == (200, ANSWER)
    assert ran == ["background"]
