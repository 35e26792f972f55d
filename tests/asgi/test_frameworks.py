"""`EventStreamResponse` within Starlette and FastAPI, behind uvicorn, and without any of them."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import fastapi
import httpx
import pytest
import starlette.applications
import starlette.requests
import starlette.responses
import starlette.routing
import uvicorn
from starlette.middleware.base import BaseHTTPMiddleware
from support.http.asgi_client import CHUNKS, HEADERS, refused, transcode
from support.http.byte_source import AsyncBytes, Cut
from support.openai_chat.chunks import content

import streamnorm
from streamnorm import Abandoned
from streamnorm.asgi import EventStreamResponse

pytestmark = pytest.mark.anyio


def test_instance_is_a_starlette_response_if_starlette_is_imported() -> None:
    response = EventStreamResponse(transcode(AsyncBytes([])), status=201)
    assert isinstance(response, EventStreamResponse)
    assert isinstance(response, starlette.responses.Response)
    assert response.status_code == 201
    assert response.headers["x-accel-buffering"] == "no"
    response.headers["x-more"] = "1"
    assert (b"x-more", b"1") in response.raw_headers
    assert type(response) is type(EventStreamResponse(transcode(AsyncBytes([]))))


def test_subclass_of_a_starlette_response_is_not_changed() -> None:
    class Both(EventStreamResponse, starlette.responses.Response):
        pass

    assert type(Both(transcode(AsyncBytes([])))) is Both


def test_starlette_is_not_imported_and_not_needed() -> None:
    code = """
import sys
import anyio, streamnorm

async def source():
    yield b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}\\n\\n'
    yield b"data: [DONE]\\n\\n"

async def main():
    async def receive():
        await anyio.sleep_forever()

    async def send(message):
        sent.append(message["type"])

    sent = []
    stream = streamnorm.transcode(source(), to="anthropic")
    await streamnorm.asgi.EventStreamResponse(stream)({}, receive, send)
    assert sent == ["http.response.start"] + ["http.response.body"] * 3, sent

anyio.run(main)
assert not {"starlette", "httpx", "pydantic_core"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_importing_the_package_imports_no_io() -> None:
    code = (
        "import streamnorm, sys; assert not {'anyio', 'asyncio', 'httpx'} & sys.modules.keys();"
        "assert callable(streamnorm.events) and callable(streamnorm.transcode);"
        "import streamnorm.aio; assert callable(streamnorm.events);"
        "assert 'httpx' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def starlette_app(path: Callable[[], EventStreamResponse], ran: list[str]) -> Any:
    async def endpoint(_: starlette.requests.Request) -> starlette.responses.Response:
        response = path()

        async def background() -> None:
            ran.append("background")

        response.background = background
        return response

    return starlette.applications.Starlette(
        routes=[starlette.routing.Route("/", endpoint, methods=["GET", "POST"])]
    )


def fastapi_app(path: Callable[[], EventStreamResponse], ran: list[str]) -> Any:
    app = fastapi.FastAPI()

    @app.get("/")
    @app.post("/")
    async def endpoint(tasks: fastapi.BackgroundTasks) -> EventStreamResponse:
        tasks.add_task(ran.append, "background")
        return path()

    # Annotations are text here; FastAPI reads those of the module.
    return app


frameworks = pytest.mark.parametrize("framework", [starlette_app, fastapi_app])


@frameworks
async def test_frameworks_send_the_stream(framework: Any) -> None:
    source, ran = AsyncBytes(CHUNKS), []
    app = framework(lambda: EventStreamResponse(transcode(source)), ran)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        response = await client.post("/")
    expected = [chunk async for chunk in transcode(AsyncBytes(CHUNKS))]
    assert response.status_code == 200
    assert {name: response.headers[name] for name in HEADERS} == HEADERS
    assert response.content == b"".join(expected)
    assert ran == ["background"]
    assert source.closed == 1


@frameworks
async def test_frameworks_send_the_error_response(framework: Any) -> None:
    body = b'{"error":{"message":"slow"}}'
    app = framework(lambda: EventStreamResponse(transcode(refused(body, 429))), [])
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        response = await client.get("/")
    assert response.status_code == 429
    assert response.json()["error"] == {"type": "rate_limit_error", "message": "slow"}


async def test_fastapi_accepts_the_class_as_a_return_type() -> None:
    app = fastapi_app(lambda: EventStreamResponse(transcode(AsyncBytes([]))), [])
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        response = await client.get("/openapi.json")
    assert response.status_code == 200


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """Serve an application with uvicorn on loopback."""
    config = uvicorn.Config(app, log_config=None, lifespan="off", http="h11", ws="none")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
            server.should_exit = True


async def plain_app(scope: Any, receive: Any, send: Any) -> None:
    await EventStreamResponse(transcode(AsyncBytes(CHUNKS)))(scope, receive, send)


@pytest.mark.on_asyncio
@pytest.mark.parametrize(
    "app",
    [
        plain_app,
        starlette_app(lambda: EventStreamResponse(transcode(AsyncBytes(CHUNKS))), []),
        fastapi_app(lambda: EventStreamResponse(transcode(AsyncBytes(CHUNKS))), []),
    ],
    ids=["plain", "starlette", "fastapi"],
)
async def test_uvicorn_serves_the_stream(app: Any) -> None:
    expected = [chunk async for chunk in transcode(AsyncBytes(CHUNKS))]
    async with served(app) as url, httpx.AsyncClient() as client:
        response = await client.get(url)
    assert response.status_code == 200
    assert response.content == b"".join(expected)
    assert response.headers["transfer-encoding"] == "chunked"


@pytest.mark.on_asyncio
@frameworks
async def test_disconnect_from_uvicorn_closes_the_source(framework: Any) -> None:
    source, outcomes = AsyncBytes(CHUNKS[:1], stays_open=True), []
    stream = transcode(source, on_end=outcomes.append)
    async with served(framework(lambda: EventStreamResponse(stream), [])) as url:
        async with httpx.AsyncClient() as client, client.stream("GET", url) as response:
            chunks = response.aiter_raw()
            assert b"message_start" in await anext(chunks)
        with anyio.fail_after(5):
            await source.left.wait()
    assert outcomes == [Abandoned()]


@pytest.mark.on_asyncio
async def test_disconnect_from_uvicorn_before_the_first_byte_closes_the_source() -> None:
    source, outcomes = AsyncBytes([], stays_open=True), []
    stream = transcode(source, on_end=outcomes.append)
    app = starlette_app(lambda: EventStreamResponse(stream), [])
    async with served(app) as url, httpx.AsyncClient() as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.get, url)
            await source.silent.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(5):
            await source.left.wait()
    assert outcomes == [Abandoned()]


# Starlette 0.40 leaves the body of a request open, of which trio warns.
@pytest.mark.filterwarnings("ignore:Async generator 'starlette.requests:ResourceWarning")
@frameworks
async def test_middleware_of_starlette_gets_a_response_for_a_client_that_has_left(
    framework: Any,
) -> None:
    """`BaseHTTPMiddleware` raises for an application that returns without one."""
    statuses: list[int] = []

    async def dispatch(request: Any, call_next: Any) -> starlette.responses.Response:
        response: starlette.responses.Response = await call_next(request)
        statuses.append(response.status_code)
        return response

    source = AsyncBytes([], stays_open=True)
    app = framework(lambda: EventStreamResponse(transcode(source)), [])
    app.add_middleware(BaseHTTPMiddleware, dispatch=dispatch)
    requests = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> dict[str, Any]:
        for request in requests:
            return request
        await source.silent.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        pass

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""}
    await app(scope, receive, send)
    assert statuses == [499]
    assert source.closed == 1


@pytest.mark.on_asyncio
async def test_broken_stream_does_not_appear_complete_behind_uvicorn() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        source = AsyncBytes([content("half")], error=Cut())
        stream = streamnorm.tap(source, lambda _: None)
        await EventStreamResponse(stream)(scope, receive, send)

    async with served(app) as url, httpx.AsyncClient() as client:
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
            await client.get(url)
