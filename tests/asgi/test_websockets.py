"""WebSockets: the fake provider and recordings answer OpenAI's SDK, through the recording proxy."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets
from openai import AsyncOpenAI, OpenAI
from support.gateway.servers import SERVERS, ServerName, served
from support.gateway.sockets import create
from websockets.exceptions import ConnectionClosed, InvalidStatus

from streamnorm import Completed, StreamError, Truncated
from streamnorm._registry import FRAMINGS
from streamnorm.asgi import RecordingProxy, ReplayApp
from streamnorm.recording import Recording
from streamnorm.testing import FakeProvider, faults, tool_call
from streamnorm.transports.httpx import ReplayTransport

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]

KEY = "sk-proj-a-key-of-the-client-0123456789"
ENDS = ("response.completed", "response.incomplete", "response.failed", "error")


@asynccontextmanager
async def asked(app: Any, server: ServerName = "uvicorn") -> AsyncIterator[Any]:
    """Serve an application, and connect OpenAI's SDK to it."""
    async with (
        served(app, server, strict=False, has_websockets=True) as url,
        AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0) as client,
        client.responses.connect() as connection,
    ):
        yield connection


async def answer(connection: Any, *messages: dict[str, Any]) -> Any:
    """Send messages, and return the last event of the answer."""
    for message in messages:
        await connection.send(message)
    async for event in connection:
        if event.type in ENDS:
            return event
    raise AssertionError("the connection was closed")


async def raw_answers(url: str, *messages: Any, count: int = 1) -> list[Any]:
    """Send messages, and return what comes until so many responses have ended."""
    found: list[Any] = []
    async with websockets.connect(f"ws{url.removeprefix('http')}/v1/responses") as socket:
        for message in messages:
            await socket.send(message if isinstance(message, (str, bytes)) else json.dumps(message))
        while count:
            found.append(json.loads(await socket.recv()))
            count -= found[-1]["type"] in ENDS
    return found


def recordings_in(folder: Path) -> list[Recording]:
    names = sorted(name for name in os.listdir(folder) if name.endswith(".ws.jsonl"))
    return [Recording.load(folder / name) for name in names]


@pytest.mark.parametrize("server", SERVERS)
async def test_fake_provider_answers_creates_by_its_script(server: ServerName) -> None:
    provider = FakeProvider([tool_call("get_weather", city="Oslo"), "It snows in Oslo."])
    tools = [{"type": "function", "name": "get_weather", "parameters": {"type": "object"}}]
    async with asked(provider.app(), server) as connection:
        prepared = await answer(connection, create("", generate=False))
        assert (prepared.type, prepared.response.output) == ("response.completed", [])
        first = await answer(connection, create("Oslo?", tools=tools))
        (call,) = first.response.output
        assert (call.name, call.arguments) == ("get_weather", '{"city":"Oslo"}')
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "snow"}
        more = create(previous_response_id=first.response.id, input=[result])
        second = await answer(connection, more)
        assert second.response.output_text == "It snows in Oslo."
        over = await answer(connection, create("More?"))
    assert (over.type, over.status, over.error.type) == ("error", 404, "unrecorded_request")
    _, asks, continues, _ = provider.requests
    assert (asks.method, asks.path) == ("POST", "/v1/responses")
    assert asks.body == {"model": "m", "input": "Oslo?", "store": False, "tools": tools} | {
        "stream": True
    }
    assert continues.body["previous_response_id"] == first.response.id


async def test_errors_and_faults_of_the_fake_provider_have_a_status() -> None:
    provider = FakeProvider(
        [
            StreamError("upstream", "Slow down.", "rate_limit_exceeded", 429),
            faults.http(503),
            ["It ", StreamError("upstream", "It broke.", status_hint=500)],
            ["It snows.", faults.cut(event=3)],
        ]
    )
    async with served(provider.app(), strict=False, has_websockets=True) as url:
        messages = await raw_answers(url, *[create()] * 3, count=3)
        errors = [event for event in messages if event["type"] == "error"]
        assert [event["status"] for event in errors] == [429, 503]
        assert errors[0]["error"]["message"] == "Slow down."
        assert messages[-1]["type"] == "response.failed"
        with pytest.raises(ConnectionClosed) as caught:
            await raw_answers(url, create())
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1011


async def test_strict_fake_provider_refuses_a_create_as_a_request() -> None:
    provider = FakeProvider("It snows.", strict=True)
    async with asked(provider.app()) as connection:
        refused = await answer(
            connection, create(input=[{"type": "function_call_output", "output": "x"}])
        )
        assert (refused.type, refused.status) == ("error", 400)
        assert (await answer(connection, create())).type == "response.completed"
    assert provider.violations[0].path == "input[0].call_id"


async def test_strict_fake_provider_refuses_a_create_in_the_background() -> None:
    """A field of requests over HTTP; `generate` is one of creates alone."""
    provider = FakeProvider(["It snows."], strict=True)
    async with asked(provider.app()) as connection:
        assert (await answer(connection, create(generate=False))).type == "response.completed"
        refused = await answer(connection, create(background=True))
        assert (refused.type, refused.status) == ("error", 400)
        assert (refused.error.code, refused.error.param) == ("unsupported_parameter", "background")
        assert (await answer(connection, create(background=False))).type == "response.completed"
    (violation,) = provider.violations
    assert violation.rule == "openai_responses.background_over_websocket"


async def test_fake_provider_answers_a_create_in_the_background() -> None:
    async with asked(FakeProvider("It snows.").app()) as connection:
        assert (await answer(connection, create(background=True))).type == "response.completed"


async def test_lanes_are_answered_in_order_and_name_themselves() -> None:
    provider = FakeProvider(["one", "two", "three"])
    async with served(provider.app(), strict=False, has_websockets=True) as url:
        creates = [create(stream_id="a"), create(stream_id="a"), create()]
        messages = await raw_answers(url, *creates, count=3)
    lanes: dict[str | None, list[str]] = {}
    for event in messages:
        lanes.setdefault(event.get("stream_id"), []).append(event["type"])
    assert list(lanes) == ["a", None] or list(lanes) == [None, "a"]
    assert [each for each in lanes["a"] if each in ENDS] == ["response.completed"] * 2
    assert lanes["a"].count("response.created") == 2


async def test_what_is_no_create_is_refused_and_the_connection_lives() -> None:
    async with served(FakeProvider("Yes.").app(), strict=False, has_websockets=True) as url:
        processed = {"type": "response.processed", "response_id": "r"}
        steer = {"type": "response.steer", "previous_response_id": "r", "input": []}
        unknown = {"type": "response.cancel", "stream_id": "a"}
        sent = ("no JSON", b"\0", processed, steer, unknown, create())
        messages = await raw_answers(url, *sent, count=4)
    assert [event["type"] for event in messages[:3]] == ["error"] * 3
    assert [event["status"] for event in messages[:3]] == [400] * 3
    assert [event.get("stream_id") for event in messages[:3]] == [None, None, "a"]
    assert messages[-1]["type"] == "response.completed"


async def test_dialect_without_a_websocket_is_refused_in_the_answer() -> None:
    async with served(FakeProvider("Yes.").app(), strict=False, has_websockets=True) as url:
        with pytest.raises(InvalidStatus) as caught:
            async with websockets.connect(f"ws{url.removeprefix('http')}/v1/unknown"):
                pass
        assert caught.value.response.status_code == 404


@pytest.mark.parametrize("server", SERVERS)
async def test_conversation_is_recorded_and_replayed(tmp_path: Path, server: ServerName) -> None:
    provider = FakeProvider(["It snows.", "Take a coat."])
    first, second = create("Weather?"), create("What to wear?")

    async def converse(app: Any) -> Sequence[str]:
        async with asked(app, server) as connection:
            one = await answer(connection, first)
            two = await answer(connection, {**second, "previous_response_id": one.response.id})
            return one.response.id, one.response.output_text, two.response.output_text

    async with served(provider.app(), strict=False, has_websockets=True) as url:
        said = await converse(RecordingProxy(url, tmp_path))
    assert said[1:] == ("It snows.", "Take a coat.")
    assert sorted(os.listdir(tmp_path)) == [
        f"{number}-responses{suffix}"
        for number in ("01", "02")
        for suffix in (".json", ".ws.jsonl")
    ]
    recording, other = recordings_in(tmp_path)
    assert recording.framing is FRAMINGS["ws_message"]
    assert recording.dialect == "openai_responses"
    assert recording.request is not None
    assert recording.request.url.startswith("ws://")
    assert recording.request.body == {**first, "model": "m"}
    assert recording.message().text == "It snows."
    assert isinstance(other.outcome, Completed)
    assert recording.response.end == "eof"
    # Nothing of the key, in any file.
    assert not any(KEY.encode() in (tmp_path / name).read_bytes() for name in os.listdir(tmp_path))
    replayed = ReplayApp(tmp_path)
    assert await converse(replayed) == said
    # A request that was not recorded is an error, and the difference is shown.
    async with asked(ReplayApp(tmp_path)) as connection:
        refused = await answer(connection, create("Anything else?"))
    assert (refused.status, refused.error.type) == (404, "unrecorded_request")
    assert "Weather?" in refused.error.message
    # The same conversation answers requests over HTTP.
    body = {key: value for key, value in first.items() if key != "type"}
    with (
        OpenAI(
            api_key="k", http_client=httpx.Client(transport=ReplayTransport(tmp_path))
        ) as client,
        client.responses.stream(**body) as stream,
    ):
        assert stream.get_final_response().output_text == "It snows."


async def test_recording_over_http_answers_a_create() -> None:
    source = Path("recordings/openai_responses/openai/text.sse")
    async with asked(ReplayApp(source, match="sequence")) as connection:
        done = await answer(connection, create())
    assert done.response.output_text == Recording.load(source).message().text


async def test_conversation_without_its_last_line_end_is_played_whole(tmp_path: Path) -> None:
    source = Path("recordings/openai_responses/openai/text.sse")
    lines = Recording.load(source).body.decode().splitlines()
    events = [line[6:] for line in lines if line.startswith("data: ")]
    path = tmp_path / "a.ws.jsonl"
    path.write_text("\n".join(events))
    async with asked(ReplayApp(path, match="sequence")) as connection:
        done = await answer(connection, create())
    assert done.response.output_text == Recording.load(source).message().text
    transport = ReplayTransport(path, match="sequence")
    with (
        OpenAI(api_key="k", http_client=httpx.Client(transport=transport)) as client,
        client.responses.stream(model="m", input="x") as stream,
    ):
        assert stream.get_final_response().output_text == done.response.output_text


async def test_cut_conversation_is_recorded_and_cut_again(tmp_path: Path) -> None:
    provider = FakeProvider([["It snows in Oslo today.", faults.cut(event=6)]])
    async with (
        served(provider.app(), strict=False, has_websockets=True) as upstream,
        served(RecordingProxy(upstream, tmp_path), strict=False, has_websockets=True) as url,
    ):
        with pytest.raises(ConnectionClosed):
            await raw_answers(url, create())
    (recording,) = recordings_in(tmp_path)
    assert (recording.response.end, recording.response.close_code) == ("reset", 1011)
    assert isinstance(recording.outcome, Truncated)
    async with served(ReplayApp(tmp_path), strict=False, has_websockets=True) as url:
        with pytest.raises(ConnectionClosed) as caught:
            await raw_answers(url, create())
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1011


async def test_client_that_leaves_is_recorded_as_aborted(tmp_path: Path) -> None:
    provider = FakeProvider([["It snows.", faults.stall(event=5)]])
    app = ReplayApp(provider, speed=1)
    async with (
        served(app, strict=False, has_websockets=True) as upstream,
        served(RecordingProxy(upstream, tmp_path), strict=False, has_websockets=True) as url,
    ):
        address = f"ws{url.removeprefix('http')}/v1/responses"
        async with websockets.connect(address) as socket:
            await socket.send(json.dumps(create()))
            await socket.send(json.dumps({"type": "response.steer", "input": f"{KEY} now"}))
            for _ in range(4):
                await socket.recv()
    (recording,) = recordings_in(tmp_path)
    assert recording.response.end == "aborted"
    assert recording.request is not None
    (steer,) = recording.request.sent
    assert steer.data["type"] == "response.steer"
    assert KEY not in (tmp_path / "01-responses.json").read_text()


async def test_refused_handshake_is_recorded_and_refused_again(tmp_path: Path) -> None:
    """As a gateway that speaks no WebSocket refuses it, for Codex to go on over HTTP."""

    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        await receive()
        start = {"type": "websocket.http.response.start", "status": 426}
        await send({**start, "headers": [(b"content-type", b"application/json")]})
        await send(
            {"type": "websocket.http.response.body", "body": b'{"error":{"message":"HTTP"}}'}
        )

    async def refusal(url: str) -> tuple[int, bytes]:
        with pytest.raises(InvalidStatus) as caught:
            async with websockets.connect(f"ws{url.removeprefix('http')}/v1/responses"):
                pass
        return caught.value.response.status_code, caught.value.response.body or b""

    expected = (426, b'{"error":{"message":"HTTP"}}')
    async with (
        served(refuse, strict=False, has_websockets=True) as upstream,
        served(RecordingProxy(upstream, tmp_path), strict=False, has_websockets=True) as url,
    ):
        assert await refusal(url) == expected
    async with served(ReplayApp(tmp_path), strict=False, has_websockets=True) as url:
        assert await refusal(url) == expected


async def test_proxy_refuses_what_it_cannot_record(tmp_path: Path) -> None:
    async def status_of(app: Any, path: str) -> int:
        async with served(app, strict=False, has_websockets=True) as url:
            with pytest.raises(InvalidStatus) as caught:
                async with websockets.connect(f"ws{url.removeprefix('http')}{path}"):
                    pass
            return caught.value.response.status_code

    proxy = RecordingProxy("http://127.0.0.1:9", tmp_path)
    assert await status_of(proxy, "/v1/chat/completions") == 426
    assert await status_of(proxy, "/v1/responses/..%2f") == 400
    assert await status_of(proxy, "/v1/responses") == 502
    bare = RecordingProxy("http://127.0.0.1:9", tmp_path, client=httpx.AsyncClient())
    assert await status_of(bare, "/v1/responses") == 426
    assert not os.listdir(tmp_path)
