"""`EventStreamResponse` of a stream for a page: what `useChat` and AG-UI's clients expect."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.http.asgi_client import HEADERS, Client, refused
from support.http.byte_source import AsyncBytes
from support.openai_chat.chunks import DONE, content

import streamnorm
from streamnorm.asgi import EventStreamResponse

pytestmark = pytest.mark.anyio

REFUSAL = b'{"error": {"message": "Slow down.", "type": "rate_limit_error"}}'


async def send(source: Any, to: str, **options: Any) -> Client:
    stream = streamnorm.transcode(source, to=to, dialect="openai_chat")
    client = Client()
    await client.request(EventStreamResponse(stream, **options))
    return client


def data_of(client: Client) -> list[str]:
    frames = b"".join(client.bodies).decode().split("\n\n")
    return [frame.removeprefix("data: ") for frame in frames if frame.startswith("data: ")]


async def test_stream_of_use_chat_says_its_protocol() -> None:
    client = await send(AsyncBytes([content("a", "stop"), DONE]), "ui_message_stream")
    assert client.headers == {**HEADERS, "x-vercel-ai-ui-message-stream": "v1"}
    assert data_of(client)[-1] == "[DONE]"
    given = {"X-Vercel-AI-UI-Message-Stream": "v2"}
    client = await send(AsyncBytes([content("a"), DONE]), "ui_message_stream", headers=given)
    assert client.headers["x-vercel-ai-ui-message-stream"] == "v2"


async def test_ag_ui_needs_no_other_headers() -> None:
    client = await send(AsyncBytes([content("a", "stop"), DONE]), "ag_ui")
    assert client.headers == HEADERS
    assert json.loads(data_of(client)[-1])["type"] == "RUN_FINISHED"


async def test_refusal_is_a_sentence_that_use_chat_shows() -> None:
    client = await send(refused(REFUSAL, 429), "ui_message_stream")
    assert client.status == 429
    assert client.headers["content-type"] == "text/plain; charset=utf-8"
    assert b"".join(client.bodies) == b"Slow down."


async def test_refusal_of_ag_ui_has_the_fields_of_a_failed_run() -> None:
    client = await send(refused(REFUSAL, 429), "ag_ui")
    assert (client.status, client.headers["content-type"]) == (429, "application/json")
    body = json.loads(b"".join(client.bodies))
    assert body["message"] == "Slow down."


@pytest.mark.parametrize(
    ("to", "end"), [("ui_message_stream", ["error", "[DONE]"]), ("ag_ui", ["RUN_ERROR"])]
)
async def test_cut_is_an_error_that_the_page_shows(to: str, end: list[str]) -> None:
    client = await send(AsyncBytes([content("a")]), to)
    types = [each if each == "[DONE]" else json.loads(each)["type"] for each in data_of(client)]
    assert types[-len(end) :] == end
    assert not {"finish", "RUN_FINISHED"} & {*types}


@pytest.mark.parametrize("to", ["ui_message_stream", "ag_ui"])
async def test_keep_alive_is_a_comment(to: str) -> None:
    stream = streamnorm.transcode(AsyncBytes([content("a"), DONE]), to=to, dialect="openai_chat")
    await anext(stream)
    assert stream.ping() == b": keep-alive\n\n"
    await stream.aclose()
