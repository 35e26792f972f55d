"""What either side may send instead of what it should: the SDK's own exception, and no hang."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple

import anthropic
import httpx
import openai
import pytest
from acceptance.transcoding_clients import SDK, SDKS
from google.genai import errors
from support.http.loopback import Server
from support.http.strict_upstreams import strict_handler
from support.http.transcoding_clients import chat_stream

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio, pytest.mark.slow]


BASE_URL = "https://provider.test"
SSE = {"content-type": "text/event-stream"}


class Broken(NamedTuple):
    """A provider's answer, to a request for a stream or for a whole message.

    Attributes:
        answer: Makes the answer, given the package of the client.
        kind: Exceptions of the SDKs, by the class of `SDK` that names them.
        words: What the exception says.
        whole: The two for a request for a whole message, where they differ.
    """

    answer: Callable[[Any], Any]
    kind: Callable[[SDK], type[Exception]]
    words: str = ""
    whole: tuple[Callable[[SDK], type[Exception]], str] | None = None


def raising(name: str) -> Callable[[Any], Any]:
    def answer(http: Any) -> Any:
        raise getattr(http, name)("no words")

    return answer


def answering(status: int = 200, **options: Any) -> Callable[[Any], Any]:
    return lambda http: http.Response(status, **options)


def breaking(name: str, *chunks: bytes, **headers: str) -> Callable[[Any], Any]:
    """Return an answer whose body raises an error of the package after some chunks."""

    def answer(http: Any) -> Any:
        class Body(http.SyncByteStream, http.AsyncByteStream):  # type: ignore[misc,name-defined]  # of either package
            def __iter__(self) -> Iterator[bytes]:
                yield from chunks
                raise getattr(http, name)("no words")

            async def __aiter__(self) -> AsyncIterator[bytes]:
                for chunk in chunks:
                    yield chunk
                raise getattr(http, name)("no words")

        named = {key.replace("_", "-"): value for key, value in headers.items()}
        return http.Response(200, headers={**SSE, **named}, stream=Body())

    return answer


def connection(sdk: SDK) -> type[Exception]:
    return sdk.connection_error


def timeout(sdk: SDK) -> type[Exception]:
    kinds = {"anthropic": anthropic.APITimeoutError, "gemini": httpx.TimeoutException}
    return kinds.get(sdk.dialect, openai.APITimeoutError)


def status(anthropics: type[Exception], openais: type[Exception]) -> Callable[[SDK], Any]:
    kinds = {"anthropic": anthropics, "gemini": errors.APIError}
    return lambda sdk: kinds.get(sdk.dialect, openais)


def in_stream(sdk: SDK) -> type[Exception]:
    return sdk.stream_error


bad_gateway = status(anthropic.InternalServerError, openai.InternalServerError)
START = b"".join(chat_stream()[:2])
PROVIDERS = {
    "refuses the connection": Broken(raising("ConnectError"), connection),
    "times out at once": Broken(raising("ConnectTimeout"), timeout),
    "is silent": Broken(breaking("ReadTimeout"), timeout),
    "is reset at once": Broken(breaking("ReadError"), connection),
    "rejects the key": Broken(
        answering(401, json={"error": {"message": "no such key"}}),
        status(anthropic.AuthenticationError, openai.AuthenticationError),
        "no such key",
    ),
    "forbids": Broken(
        answering(403, json={"error": {"message": "not yours"}}),
        status(anthropic.PermissionDeniedError, openai.PermissionDeniedError),
        "not yours",
    ),
    "has no such model": Broken(
        answering(404, content=b"404 page not found"),
        status(anthropic.NotFoundError, openai.NotFoundError),
        "HTTP 404 with plain text",
    ),
    "is busy": Broken(
        answering(429, json={"error": {"message": "slow down"}}),
        status(anthropic.RateLimitError, openai.RateLimitError),
        "slow down",
    ),
    "fails": Broken(answering(500, html="<html>"), bad_gateway, "HTTP 500 with an HTML page"),
    "answers with HTML": Broken(answering(html="<html>"), bad_gateway, "an HTML page, expected"),
    "answers with JSON": Broken(
        answering(json={"id": 1}),
        bad_gateway,
        "a JSON body, expected",
        (bad_gateway, "an answer that is not of openai_chat"),
    ),
    "answers with an error": Broken(
        answering(json={"error": {"message": "slow down", "code": "rate_limit_exceeded"}}),
        status(anthropic.RateLimitError, openai.RateLimitError),
        "slow down",
    ),
    "answers with nothing": Broken(answering(headers=SSE), bad_gateway, "connection lost"),
    "compresses otherwise": Broken(
        breaking("ReadError", b"abc", content_encoding="br"), bad_gateway, "a content-encoding"
    ),
    "compresses badly": Broken(
        breaking("ReadError", b"abc", content_encoding="gzip"), bad_gateway, "not of its content"
    ),
    "redirects": Broken(
        answering(307, headers={"location": "https://evil.test/v1/messages"}),
        bad_gateway,
        "HTTP 307",
    ),
    "speaks another protocol": Broken(answering(headers=SSE, content=b"data: {\n\n"), bad_gateway),
    "begins with an error": Broken(
        answering(headers=SSE, content=b'data: {"error":{"message":"slow down","code":429}}\n\n'),
        status(anthropic.RateLimitError, openai.RateLimitError),
        "slow down",
    ),
    "falls silent": Broken(
        breaking("ReadTimeout", START), in_stream, "connection timed out", (timeout, "")
    ),
    "is reset": Broken(
        breaking("ReadError", START), in_stream, "connection lost", (connection, "")
    ),
    "is cut": Broken(answering(headers=SSE, content=START), in_stream, "connection lost"),
    "breaks off with an error": Broken(
        answering(headers=SSE, content=START + b'data: {"error":{"message":"no room"}}\n\n'),
        in_stream,
        "no room",
    ),
    "breaks the protocol": Broken(
        answering(headers=SSE, content=START + b"data: {\n\n"),
        in_stream,
        "no JSON in 1 characters",
    ),
    "nests too deep": Broken(
        answering(headers=SSE, content=START + b"data: " + b"[" * 100_000 + b"\n\n"),
        in_stream,
        "max_json_depth",
    ),
    "cuts a character": Broken(
        answering(headers=SSE, content=START + b'data: {"a":"\xc3\n\n'),
        in_stream,
        "no JSON in 7 characters",
    ),
}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("mode", ["async", "sync"])
@pytest.mark.parametrize("broken", PROVIDERS.values(), ids=PROVIDERS)
@pytest.mark.parametrize("sdk", SDKS.values(), ids=SDKS)
async def test_provider_that_fails_raises_the_exception_of_the_sdk(
    sdk: SDK, broken: Broken, mode: str, stream: bool
) -> None:
    kind, words = (broken.kind, broken.words) if stream else broken.whole or broken[1:3]
    asked: list[Any] = []

    def answer(request: Any) -> Any:
        asked.append(request)
        return broken.answer(sdk.http)

    transport = sdk.transports.TranscodingTransport(
        sdk.http.MockTransport(strict_handler(sdk.http.Response, answer)),
        client=sdk.dialect,
        upstream="openai_chat",
        base_url=BASE_URL,
    )
    if mode == "sync":
        with (
            sdk.http.Client(transport=transport, follow_redirects=True) as client,
            pytest.raises(kind(sdk)) as raised,
        ):
            sdk.converse(client, stream=stream)
    else:
        async with sdk.http.AsyncClient(transport=transport, follow_redirects=True) as client:
            with pytest.raises(kind(sdk)) as raised:
                await sdk.converse_async(client, stream=stream)
    assert words in str(raised.value)
    assert {request.url.host for request in asked} == {"provider.test"}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("sdk", SDKS.values(), ids=SDKS)
async def test_endless_header_is_a_connection_error(sdk: SDK, stream: bool) -> None:
    async with Server([b"HTTP/1.1 200 OK\r\n", b"x: " + b"a" * 1024 * 1024]).running() as server:
        transport = sdk.transports.TranscodingTransport(
            client=sdk.dialect, upstream="openai_chat", base_url=server.url
        )
        async with sdk.http.AsyncClient(transport=transport) as client:
            with pytest.raises(sdk.connection_error):
                await sdk.converse_async(client, stream=stream)


NO_UTF8 = START.replace(b"Hi.", b"Hi\xff.") + b"".join(chat_stream()[2:])


@pytest.mark.parametrize("sdk", SDKS.values(), ids=SDKS)
def test_bytes_that_are_no_utf8_are_read_as_replacement_characters(sdk: SDK) -> None:
    assert b"\xff" in NO_UTF8

    def answer(_: object) -> Any:
        return sdk.http.Response(200, headers=SSE, content=NO_UTF8)

    transport = sdk.transports.TranscodingTransport(
        sdk.http.MockTransport(strict_handler(sdk.http.Response, answer)),
        client=sdk.dialect,
        upstream="openai_chat",
        base_url=BASE_URL,
    )
    with sdk.http.Client(transport=transport) as client:
        (reading,) = sdk.converse(client)
    assert reading.text == "Hi\ufffd."
