"""`connect`: requests that open at the first read and close with the stream."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from support.http.loopback import HEAD, Server, chunked
from support.openai_chat.chunks import DONE, content

import streamnorm
from streamnorm import (
    Abandoned,
    Completed,
    MessageStop,
    Outcome,
    StreamError,
    TextDelta,
    TruncatedStream,
    UnknownDialect,
    UpstreamError,
    Usage,
)

pytestmark = pytest.mark.anyio

families = pytest.mark.parametrize("family", [httpx, httpx2])

WHOLE = [HEAD, chunked(content("a")), chunked(content("b", "stop")), chunked(DONE), b"0\r\n\r\n"]


@families
async def test_request_is_sent_and_read(family: Any) -> None:
    outcomes: list[Outcome] = []
    async with Server(WHOLE).running() as server, family.AsyncClient() as client:
        async with streamnorm.connect(
            client, "POST", server.url, json={"stream": True}, on_end=outcomes.append
        ) as stream:
            assert server.requests == []
            texts = [event.text async for event in stream if isinstance(event, TextDelta)]
        assert texts == ["a", "b"]
        assert outcomes == [stream.outcome] == [Completed("end_turn", Usage())]
        (request,) = server.requests
        head, _, body = request.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        assert lines[0] == b"post /v1 http/1.1"
        assert b"accept: text/event-stream" in lines
        assert b"accept-encoding: identity" in lines
        assert body in (b'{"stream":true}', b'{"stream": true}')


@families
async def test_connection_is_reused_after_a_completed_stream(family: Any) -> None:
    async with Server(WHOLE).running() as server, family.AsyncClient() as client:
        for _ in range(3):
            events = [event async for event in streamnorm.connect(client, "GET", server.url)]
            assert isinstance(events[-1], MessageStop)
        assert len(server.requests) == 3
        assert server.connections == 1


@families
async def test_closing_the_stream_closes_the_connection(family: Any) -> None:
    head = [HEAD, chunked(content("a"))]
    async with Server(head, stays_open=True).running() as server, family.AsyncClient() as client:
        async with streamnorm.connect(client, "GET", server.url) as stream:
            await anext(stream)
        with anyio.fail_after(5):
            await server.left.wait()
        assert stream.outcome == Abandoned()
        assert client._transport._pool.connections == []


@families
async def test_cancelled_read_closes_the_connection(family: Any) -> None:
    head = [HEAD, chunked(content("a"))]
    async with Server(head, stays_open=True).running() as server, family.AsyncClient() as client:
        seen = anyio.Event()

        async def read() -> None:
            async with streamnorm.connect(client, "GET", server.url) as stream:
                async for event in stream:
                    if isinstance(event, TextDelta):
                        seen.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await seen.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(5):
            await server.left.wait()
        assert client._transport._pool.connections == []


@families
async def test_error_response_raises_the_error_of_the_provider(family: Any) -> None:
    body = b'{"error":{"message":"no key","type":"authentication_error"}}'
    answer = b"HTTP/1.1 401 No\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
    answers = [answer % (len(body), body)]
    async with Server(answers).running() as server, family.AsyncClient() as client:
        with pytest.raises(UpstreamError, match="no key") as raised:
            await anext(streamnorm.connect(client, "GET", server.url))
    assert raised.value.status == 401


async def test_other_client_raises_type_error_that_names_the_clients() -> None:
    class ClientSession:
        """As that of aiohttp."""

    expected = r"ClientSession has no stream\(\), expected an httpx.AsyncClient or httpx2.Async"
    for url in ("http://x/v1/responses", "wss://x/v1/responses"):
        with pytest.raises(TypeError, match=expected):
            streamnorm.connect(ClientSession(), "POST", url, json={})  # type: ignore[call-overload]  # that is the mistake


@families
def test_synchronous_client_is_named_at_once(family: Any) -> None:
    expected = r"Client is synchronous, expected an httpx.AsyncClient or httpx2.AsyncClient"
    with family.Client() as client, pytest.raises(TypeError, match=expected):
        streamnorm.connect(client, "POST", "http://x/v1/responses", json={})


@families
@pytest.mark.parametrize("errors", ["raise", "yield"])
async def test_request_that_cannot_be_sent_is_a_broken_connection(family: Any, errors: Any) -> None:
    def refuse(request: Any) -> Any:
        raise family.ConnectError("refused", request=request)

    async with family.AsyncClient(transport=family.MockTransport(refuse)) as client:
        stream = streamnorm.connect(client, "GET", "http://x", errors=errors)
        if errors == "yield":
            (error,) = [event async for event in stream]
            assert isinstance(error, StreamError)
            assert error.kind == "transport"
        else:
            with pytest.raises(TruncatedStream, match="connection error: the prov") as raised:
                await anext(stream)
            assert isinstance(raised.value.__cause__, family.ConnectError)
        await stream.aclose()


@families
async def test_connection_that_the_peer_closes_while_the_request_is_sent_was_lost(
    family: Any,
) -> None:
    """After a GOAWAY, httpcore raises a `KeyError` (encode/httpx#3072, pydantic/httpx2#808)."""

    def close(request: Any) -> Any:
        try:
            raise family.RemoteProtocolError("ConnectionTerminated", request=request)
        except family.RemoteProtocolError:
            {}.pop(5)
            raise

    async with family.AsyncClient(transport=family.MockTransport(close)) as client:
        stream = streamnorm.connect(client, "GET", "http://x", errors="yield")
        assert [event async for event in stream] == [
            StreamError("transport", "connection lost before the first event", retryable=True)
        ]


MISTAKES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "json": ({"json": {"a": {1}}}, ("TypeError",)),
    "header": ({"headers": {"x": 1}}, ("TypeError", "AttributeError")),
    "line break": ({"headers": {"x": "a\nb"}}, ("LocalProtocolError",)),
    "auth": ({"auth": 5}, ("TypeError",)),
    "timeout": ({"timeout": "abc"}, ("TypeError",)),
    "relative URL": ({"url": "notaurl"}, ("UnsupportedProtocol",)),
    "scheme": ({"url": "ftp://x/"}, ("UnsupportedProtocol",)),
    "port": ({"url": "http://x:port/"}, ("InvalidURL",)),
    "no URL": ({"url": None}, ("TypeError",)),
}


@families
@pytest.mark.parametrize("errors", ["raise", "yield"])
@pytest.mark.parametrize(("options", "kinds"), MISTAKES.values(), ids=MISTAKES)
async def test_request_that_the_client_refuses_raises_the_clients_exception(
    family: Any, options: dict[str, Any], kinds: tuple[str, ...], errors: Any
) -> None:
    outcomes: list[Outcome] = []
    async with Server(WHOLE).running() as server, family.AsyncClient() as client:
        url = options.get("url", server.url)
        rest = {name: value for name, value in options.items() if name != "url"}
        stream = streamnorm.connect(
            client, "POST", url, errors=errors, on_end=outcomes.append, **rest
        )
        with pytest.raises(Exception) as raised:
            await anext(stream)
        assert type(raised.value).__name__ in kinds
        assert not isinstance(raised.value, streamnorm.StreamnormError)
        assert outcomes == [stream.outcome] == [Abandoned()]
        assert client._transport._pool.connections == []
        # Loggers follow both, to their end.
        led: list[BaseException] = []
        exc: BaseException | None = raised.value
        while exc is not None:
            assert exc not in led
            led.append(exc)
            exc = exc.__cause__ or exc.__context__
        assert {type(each).__module__.partition(".")[0] for each in led}.isdisjoint({"streamnorm"})


@families
async def test_client_that_was_closed_raises_its_exception(family: Any) -> None:
    async with family.AsyncClient() as client:
        pass
    stream = streamnorm.connect(client, "GET", "http://127.0.0.1:9/", to="anthropic")
    with pytest.raises(RuntimeError, match="closed"):
        await anext(stream)


@families
async def test_read_timeout_of_the_client_is_a_stall(family: Any) -> None:
    head = [HEAD, chunked(content("a"))]
    client = family.AsyncClient(timeout=family.Timeout(5, read=0.02))
    async with Server(head, stays_open=True).running() as server, client:
        stream = streamnorm.connect(client, "GET", server.url, errors="yield")
        events = [event async for event in stream]
    assert isinstance(events[-1], StreamError)
    assert events[-1].kind == "stalled"


async def test_stream_that_was_never_read_sends_nothing() -> None:
    async with Server(WHOLE).running() as server, httpx.AsyncClient() as client:
        async with streamnorm.connect(client, "GET", server.url):
            pass
        assert server.connections == 0


async def test_headers_of_the_caller_are_sent_and_not_changed() -> None:
    async with Server(WHOLE).running() as server, httpx.AsyncClient() as client:
        headers = {"x-api-key": "k", "accept-encoding": "gzip"}
        async for _ in streamnorm.connect(client, "GET", server.url, headers=headers):
            pass
        assert headers == {"x-api-key": "k", "accept-encoding": "gzip"}
        lines = server.requests[0].lower().split(b"\r\n")
        assert b"x-api-key: k" in lines
        assert b"accept-encoding: gzip" in lines


async def test_options_of_the_stream_are_not_sent_to_the_client() -> None:
    notes: list[Any] = []
    body = [content("<think>why</think>so"), content("", "stop").rstrip()]

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=b"".join(body))

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        stream = streamnorm.connect(
            client,
            "GET",
            "http://x",
            dialect="chat",
            server="deepseek",
            think_tags=True,
            limits=streamnorm.Limits(),
            on_note=notes.append,
        )
        events = [event async for event in stream]
    assert any(isinstance(event, streamnorm.ReasoningDelta) for event in events)
    assert len(notes) == 1


async def test_unknown_dialect_is_reported_at_once() -> None:
    async with httpx.AsyncClient() as client:
        with pytest.raises(UnknownDialect):
            streamnorm.connect(client, "GET", "http://x", dialect="klingon")


async def test_stream_that_is_not_closed_warns() -> None:
    async def body() -> AsyncIterator[bytes]:
        yield content("a")
        yield DONE

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=body())

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        stream = streamnorm.connect(client, "GET", "http://x")
        await anext(stream)
        with pytest.warns(ResourceWarning, match="was not closed"):
            stream._reader.__del__()
        await stream.aclose()
    del stream
    gc.collect()  # a closed one says nothing
