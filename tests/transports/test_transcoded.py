"""A provider of another dialect answers a client's requests."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from support.http.families import FamilyUnderTest, each_family, recorded_in
from support.http.transcoding_clients import (
    ANSWER,
    BASE_URL,
    CLIENT_URL,
    MESSAGES,
    SSE,
    STREAMING,
    Answering,
    chat_stream,
    closable_body,
    fetch,
    transcoding,
)

from streamnorm import Abandoned, Completed, UnknownDialect, Usage, accumulate
from streamnorm._core.errors import UnrecordedRequest
from streamnorm.codec import decoder
from streamnorm.testing import FakeProvider
from streamnorm.transports.httpx import TranscodingTransport

pytestmark = pytest.mark.anyio
modes = pytest.mark.parametrize("mode", ["async", "sync"])


def text_of(response: Any) -> str:
    reader = decoder("anthropic")
    return accumulate([*reader.feed(response.content), *reader.close()]).text


# Requests


@modes
@each_family
async def test_request_goes_to_the_base_url(family: FamilyUnderTest, mode: str) -> None:
    answering = Answering(family, json=ANSWER)
    transport = transcoding(family, answering, headers={"X-Own": "1"})
    headers = {"x-api-key": "key", "cookie": "c", "anthropic-version": "2023-06-01"}
    response = await fetch(family, mode, transport, headers=headers)
    assert response.status_code == 200
    (request,) = answering.requests
    assert request.method == "POST"
    assert str(request.url) == f"{BASE_URL}/chat/completions"
    sent = dict(request.headers.multi_items())
    assert sent.pop("user-agent").startswith("python-httpx")
    assert sent.pop("content-length") == str(len(request.content))
    assert sent == {
        "host": "provider.test",
        "authorization": "Bearer key",
        "accept": "*/*",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "x-own": "1",
    }
    assert json.loads(request.content)["max_completion_tokens"] == 9


@each_family
async def test_timeouts_of_the_client_apply(family: FamilyUnderTest) -> None:
    answering = Answering(family, json=ANSWER)
    transport = transcoding(family, answering)
    await fetch(family, "async", transport, timeout=7.5)
    assert answering.requests[0].extensions["timeout"]["read"] == 7.5


@modes
@each_family
async def test_model_is_mapped(family: FamilyUnderTest, mode: str) -> None:
    answering = Answering(family, json=ANSWER)
    await fetch(family, mode, transcoding(family, answering, model_map={"m": "llama"}))
    assert json.loads(answering.requests[0].content)["model"] == "llama"


@each_family
async def test_server_follows_from_the_host(family: FamilyUnderTest) -> None:
    """DeepSeek's server takes `max_tokens`, and not the vendor's new name of it."""
    for options in ({"base_url": "https://api.deepseek.com"}, {"server": "deepseek"}):
        answering = Answering(family, json=ANSWER)
        await fetch(family, "async", transcoding(family, answering, **options))
        assert json.loads(answering.requests[0].content)["max_tokens"] == 9


@modes
@each_family
async def test_upload_is_not_read(family: FamilyUnderTest, mode: str) -> None:
    answering = Answering(family)
    response = await fetch(
        family, mode, transcoding(family, answering), None, files={"file": b"abc"}
    )
    assert response.status_code == 415
    assert response.json()["error"]["message"] == "an upload, expected a JSON body"
    assert answering.requests == []


# Answers


@modes
@each_family
async def test_whole_answer_is_translated(family: FamilyUnderTest, mode: str) -> None:
    headers = {"x-request-id": "req_1", "set-cookie": "c"}
    transport = transcoding(family, Answering(family, json=ANSWER, headers=headers))
    response = await fetch(family, mode, transport)
    assert response.json()["content"] == [{"type": "text", "text": "Hi."}]
    assert response.headers["content-type"] == "application/json"
    assert response.headers["request-id"] == "req_1"
    assert "set-cookie" not in response.headers
    assert transport.outcome == Completed("end_turn", Usage(3, 2))


@modes
@each_family
@pytest.mark.parametrize("status", [200, 429])
async def test_whole_answer_is_measured_as_one_of_the_network(
    family: FamilyUnderTest, mode: str, status: int
) -> None:
    """A client knows how long a response took, and its size, once it has read the response."""
    transport = transcoding(family, Answering(family, status, json=ANSWER))
    url, http = "https://x/v1/messages", family.http
    if mode == "sync":
        with (
            http.Client(transport=transport) as client,
            client.stream("POST", url, json=MESSAGES) as response,
        ):
            assert not response.is_closed
            response.read()
    else:
        async with (
            http.AsyncClient(transport=transport) as async_client,
            async_client.stream("POST", url, json=MESSAGES) as response,
        ):
            assert not response.is_closed
            await response.aread()
    assert response.elapsed >= timedelta()
    assert response.num_bytes_downloaded == len(response.content)
    assert response.headers["content-length"] == str(len(response.content))


@modes
@each_family
async def test_stream_is_transcoded(family: FamilyUnderTest, mode: str) -> None:
    content = b"".join(chat_stream())
    headers = {**SSE, "x-request-id": "req_1"}
    transport = transcoding(family, Answering(family, content=content, headers=headers))
    response = await fetch(family, mode, transport, STREAMING)
    assert text_of(response) == "Hi."
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["request-id"] == "req_1"
    assert response.http_version == "HTTP/1.1"
    assert transport.outcome == Completed("end_turn", Usage(3, 2))


@modes
@each_family
async def test_stream_that_nobody_asked_for_is_a_whole_answer(
    family: FamilyUnderTest, mode: str
) -> None:
    content = b"".join(chat_stream())
    transport = transcoding(family, Answering(family, content=content, headers=SSE))
    response = await fetch(family, mode, transport)
    assert response.json()["content"] == [{"type": "text", "text": "Hi."}]


@modes
@each_family
async def test_stream_that_is_compressed_all_the_same_is_decoded(
    family: FamilyUnderTest, mode: str
) -> None:
    content = gzip.compress(b"".join(chat_stream()))
    headers = {**SSE, "content-encoding": "gzip"}
    source = closable_body(family, mode, [content[:9], content[9:]])
    transport = transcoding(family, Answering(family, stream=source, headers=headers))
    response = await fetch(family, mode, transport, STREAMING)
    assert text_of(response) == "Hi."
    assert "content-encoding" not in response.headers


@each_family
async def test_each_chunk_arrives_before_the_next_is_read(family: FamilyUnderTest) -> None:
    source = closable_body(family, "async", chat_stream())
    transport = transcoding(family, Answering(family, stream=source, headers=SSE))
    async with family.http.AsyncClient(transport=transport) as client:
        request = client.build_request("POST", "https://x/v1/messages", json=STREAMING)
        response = await client.send(request, stream=True)
        body = response.stream.__aiter__()
        assert b"message_start" in await anext(body)
        assert source.reads == 1
        seen = [source.reads async for _ in body]
    assert seen == sorted(set(seen))
    assert source.closed


@each_family
def test_each_chunk_arrives_before_the_next_is_read_synchronously(family: FamilyUnderTest) -> None:
    source = family.body(chat_stream())
    transport = transcoding(family, Answering(family, stream=source, headers=SSE))
    with (
        family.http.Client(transport=transport) as client,
        client.stream("POST", "https://x/v1/messages", json=STREAMING) as response,
    ):
        body = response.iter_raw()
        assert b"message_start" in next(body)
        assert source.reads == 1
        assert list(body)
    assert source.closed


@modes
@each_family
async def test_closed_body_closes_the_provider(family: FamilyUnderTest, mode: str) -> None:
    source = closable_body(family, mode, chat_stream())
    transport = transcoding(family, Answering(family, stream=source, headers=SSE))
    request = family.http.Request("POST", "https://x/v1/messages", json=STREAMING)
    assert transport.outcome is None
    if mode == "sync":
        body = transport.handle_request(request).stream
        assert next(body)
        body.close()
        with pytest.raises(family.http.ReadError, match="read of a body that was closed"):
            next(body)
    else:
        body = (await transport.handle_async_request(request)).stream
        assert await anext(body)
        await body.aclose()
        with pytest.raises(family.http.ReadError, match="read of a body that was closed"):
            await anext(body)
    assert source.closed
    assert transport.outcome == Abandoned()


@each_family
@pytest.mark.parametrize("body", [MESSAGES, STREAMING], ids=["whole", "streamed"])
async def test_cancelled_request_closes_the_provider(family: FamilyUnderTest, body: Any) -> None:
    source = closable_body(family, "async", [], stays_open=True)
    transport = transcoding(family, Answering(family, stream=source, headers=SSE))
    request = family.http.Request("POST", "https://x/v1/messages", json=body)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(transport.handle_async_request, request)
        await source.silent.wait()
        tasks.cancel_scope.cancel()
    assert source.closed
    assert transport.outcome == Abandoned()


# The inner transport


@modes
@each_family
async def test_exchange_with_the_provider_is_recorded_and_replayed(
    family: FamilyUnderTest, mode: str, tmp_path: Path
) -> None:
    content = b"".join(chat_stream())
    network = family.inner(Answering(family, content=content, headers=SSE))
    inner = family.transports.RecordingTransport(network, tmp_path)
    headers = {"x-api-key": "canary-7f3a"}
    said = await fetch(family, mode, transcoding(family, inner), STREAMING, headers=headers)
    (recording,) = recorded_in(tmp_path)
    assert (recording.dialect, recording.body) == ("openai_chat", content)
    assert recording.request is not None
    assert recording.request.url == f"{BASE_URL}/chat/completions"
    replay = transcoding(family, family.transports.ReplayTransport(tmp_path))
    assert (await fetch(family, mode, replay, STREAMING)).content == said.content
    assert "canary" not in str(recording.request)


@modes
@each_family
async def test_request_without_a_recording_is_reported(family: FamilyUnderTest, mode: str) -> None:
    provider = FakeProvider([])
    transport = transcoding(family, provider.transport(str(family)))  # type: ignore[call-overload]  # either name
    with pytest.raises(UnrecordedRequest):
        await fetch(family, mode, transport)


@modes
@each_family
async def test_network_is_reached_without_an_inner_transport(
    family: FamilyUnderTest, mode: str
) -> None:
    transport = transcoding(family, None, base_url="http://127.0.0.1:9")
    with pytest.raises(family.http.ConnectError):
        await fetch(family, mode, transport)


@each_family
def test_threads_open_one_network(family: FamilyUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cached_property` has a lock in Python 3.11 alone."""
    opened: list[Any] = []
    both = threading.Barrier(2, timeout=0.2)

    def open_network() -> Any:
        with contextlib.suppress(threading.BrokenBarrierError):  # nobody else opens one
            both.wait()
        opened.append(family.inner(Answering(family, json=ANSWER)))
        return opened[-1]

    transport = transcoding(family, None)
    monkeypatch.setattr(transport._family, "network", open_network)

    def ask(_: int) -> int:
        request = family.http.Request("POST", CLIENT_URL, json=MESSAGES)
        status: int = transport.handle_request(request).status_code
        return status

    with ThreadPoolExecutor(2) as threads:
        assert [*threads.map(ask, range(2))] == [200, 200]
    assert len(opened) == 1
    transport.close()
    assert opened[0].closed == 1


@each_family
async def test_inner_transport_is_entered_and_closed(family: FamilyUnderTest) -> None:
    seen: list[str] = []

    class Inner(family.http.BaseTransport, family.http.AsyncBaseTransport):  # type: ignore[misc,name-defined]  # of either package
        def __enter__(self) -> None:
            seen.append("enter")

        def __exit__(self, *_: object) -> None:
            seen.append("exit")

        async def __aenter__(self) -> None:
            seen.append("aenter")

        async def __aexit__(self, *_: object) -> None:
            seen.append("aexit")

        def close(self) -> None:
            seen.append("close")

        async def aclose(self) -> None:
            seen.append("aclose")

    transport = transcoding(family, Inner())
    with family.http.Client(transport=transport):
        pass
    async with family.http.AsyncClient(transport=transport):
        pass
    transport.close()
    await transport.aclose()
    assert seen == ["enter", "exit", "aenter", "aexit", "close", "aclose"]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"client": "klingon"}, UnknownDialect, "no dialect 'klingon'"),
        ({"upstream": "ag_ui"}, UnknownDialect, "of dialect 'ag_ui' only requests are read"),
        ({"base_url": "provider.test"}, ValueError, "base_url is no http or https URL"),
    ],
)
@each_family
def test_option_that_cannot_be_is_refused_at_once(
    family: FamilyUnderTest, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        transcoding(family, None, **options)


@each_family
async def test_transport_of_another_kind_is_refused(family: FamilyUnderTest) -> None:
    transport = transcoding(family, "a text")
    with pytest.raises(TypeError, match=rf"str, expected a synchronous transport of {family}$"):
        await fetch(family, "sync", transport)
    with pytest.raises(TypeError, match=rf"str, expected an asynchronous transport of {family}$"):
        await fetch(family, "async", transport)


@pytest.mark.parametrize("stream", [True, False])
def test_message_of_converse_has_the_id_of_its_response(stream: bool) -> None:
    """Its messages name neither themselves nor their model."""
    provider = FakeProvider("Hi.", dialect="bedrock_converse").transport("httpx")

    ids = ["req-1", ""]

    def respond(request: httpx.Request) -> httpx.Response:
        response = provider.handle_request(request)
        response.headers["x-amzn-requestid"] = ids.pop(0)
        return response

    transport = TranscodingTransport(
        httpx.MockTransport(respond),
        client="openai_responses",
        upstream="bedrock_converse",
        base_url="https://bedrock-runtime.us-east-1.amazonaws.com",
    )
    body = {"model": "nova", "input": "Hi", "stream": stream, "store": False}
    with httpx.Client(transport=transport) as client:
        written, unnamed = (client.post("https://h/v1/responses", json=body).read() for _ in ids[:])
    assert b'"id":"resp_req-1"' in written
    assert b'"model":"nova"' in written
    assert re.search(rb'"id":"resp_[0-9a-f-]{36}"', unnamed)
