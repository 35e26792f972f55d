"""Clients and transports made by the fixture."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import httpx2
import openai
import pytest
from support.gateway.servers import served
from websockets.asyncio.client import connect

from streamnorm.recording import RecordingError, UnrecordedRequest
from streamnorm.testing import FakeProvider, RecordingFixture
from streamnorm.testing.plugin import MarkerOptions, Mode

URL = "https://api.example.com/v1/chat/completions"
BODY = (
    b'data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":'
    b'[{"index":0,"delta":{"role":"assistant","content":"Hoi"},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


class Make:
    """A factory of the fixture's value."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, mode: Mode = "none", **options: Any) -> RecordingFixture:
        marks = MarkerOptions(None, options, allow_unplayed=False)
        return RecordingFixture(self._path / "recordings", mode, marks, "pytest x={}".format)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return Make(tmp_path)


def network(package: Any, body: bytes = BODY) -> Any:
    headers = {"content-type": "text/event-stream"}
    return package.MockTransport(lambda _: package.Response(200, headers=headers, content=body))


def posted(client: Any, text: str = "a") -> bytes:
    with client:
        content: bytes = client.post(URL, json={"messages": [text]}).content
        return content


def record(make: Make, *texts: str) -> None:
    fixture = make("new")
    for text in texts:
        posted(fixture.client(httpx2.Client, transport=network(httpx2)), text)
    assert fixture.finish(passed=True) == []
    assert (fixture.recorded, fixture.replayed, fixture.failures) == (len(texts), 0, ())


class OwnClient(httpx.Client):
    pass


SYNC = [httpx.Client, httpx2.Client, OwnClient, openai.DefaultHttpxClient]
ASYNC = [httpx.AsyncClient, httpx2.AsyncClient, openai.DefaultAsyncHttpxClient]


@pytest.mark.parametrize("kind", SYNC)
def test_client_has_the_requested_class(make: Make, kind: Any) -> None:
    package = httpx2 if issubclass(kind, httpx2.Client) else httpx
    fixture = make("once")
    client = fixture.client(kind, transport=network(package), headers={"x-own": "1"})
    assert type(client) is kind or issubclass(type(client), kind)
    assert client.headers["x-own"] == "1"
    assert posted(client) == BODY
    assert [recording.body for recording in fixture.recordings] == [BODY]
    assert fixture.finish(passed=True) == []
    again = make()
    assert len(again.unplayed) == 1
    assert posted(again.client(kind)) == BODY
    assert again.unplayed == ()
    assert again.finish(passed=True) == []
    assert again.replayed == 1


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ASYNC)
async def test_asynchronous_client_records_and_replays(make: Make, kind: Any) -> None:
    package = httpx2 if issubclass(kind, httpx2.AsyncClient) else httpx
    counts: list[tuple[int, int]] = []
    modes: tuple[Mode, ...] = ("once", "none", "new")
    for mode in modes:
        fixture = make(mode)
        async with fixture.client(kind, transport=network(package)) as client:
            response = await client.post(URL, json={"messages": ["a"]})
            assert response.content == BODY
        counts.append((fixture.recorded, fixture.replayed))
    assert counts == [(1, 0), (0, 1), (0, 1)]


def test_official_client_records_and_replays(make: Make) -> None:
    def streamed_text(http: httpx2.Client) -> str:
        with openai.OpenAI(http_client=http, api_key="none", base_url="https://a.example/v1") as ai:
            stream = ai.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "a"}], stream=True
            )
            return "".join(chunk.choices[0].delta.content or "" for chunk in stream)

    fixture = make("once")
    assert (
        streamed_text(fixture.client(openai.DefaultHttpxClient, transport=network(httpx2))) == "Hoi"
    )
    fixture.finish(passed=True)
    assert streamed_text(make().client(openai.DefaultHttpxClient)) == "Hoi"


def test_clients_of_a_test_share_its_recordings(make: Make) -> None:
    fixture = make("new")
    posted(fixture.client(httpx.Client, transport=network(httpx)), "a")
    posted(fixture.client(httpx2.Client, transport=network(httpx2)), "b")
    assert [recording.name for recording in fixture.recordings] == [
        "recordings/01-chat-completions",
        "recordings/02-chat-completions",
    ]
    replaying = make()
    posted(replaying.client(httpx2.Client), "a")
    posted(replaying.client(httpx.Client), "b")
    with pytest.raises(UnrecordedRequest):
        posted(replaying.client(httpx.Client), "a")
    assert replaying.unplayed == ()


def test_mode_new_replays_before_it_records(make: Make) -> None:
    record(make, "a")
    fixture = make("new")
    other = network(httpx2, b"data: other\n\n")
    assert posted(fixture.client(httpx2.Client, transport=other), "a") == BODY
    assert posted(fixture.client(httpx2.Client, transport=other), "b") == b"data: other\n\n"
    assert (fixture.recorded, fixture.replayed) == (1, 1)
    assert fixture.finish(passed=True) == []


@pytest.mark.parametrize("family", ["httpx", "httpx2"])
@pytest.mark.anyio
async def test_transport_serves_both_kinds_of_clients(make: Make, family: Any) -> None:
    package: Any = {"httpx": httpx, "httpx2": httpx2}[family]
    fixture = make("once")
    for made in (
        fixture.transport(family, inner=network(package)),
        make("new").transport(family, inner=network(package, b"never sent")),
        make().transport(family),
    ):
        assert isinstance(made, package.BaseTransport)
        assert isinstance(made, package.AsyncBaseTransport)
    transport = fixture.transport(family, inner=network(package))
    assert posted(package.Client(transport=transport), "a") == BODY
    async with package.AsyncClient(transport=transport) as client:
        assert (await client.post(URL, json={"messages": ["b"]})).content == BODY
    assert fixture.recorded == 2


def test_transport_refuses_unknown_options(make: Make) -> None:
    with pytest.raises(TypeError, match="verify, expected match, "):
        make().transport("httpx", verify=False)


@pytest.mark.parametrize("kind", [object, dict, httpx.Response, lambda **_: None])
def test_class_that_is_no_client_is_refused(make: Make, kind: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="no class of clients"):
        make().client(kind)


def test_options_that_bypass_the_recordings_are_refused_or_dropped(make: Make) -> None:
    record(make, "a")
    with pytest.raises(TypeError, match="mounts"):
        make().client(httpx.Client, mounts={"all://": network(httpx)})
    proxied = make().client(httpx.Client, proxy="http://127.0.0.1:9")
    assert posted(proxied) == BODY


def test_network_transport_gets_the_options_of_the_client(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []
    closed: list[str] = []

    class Network(httpx.MockTransport):
        def __init__(self, **options: Any) -> None:
            made.append(options)
            super().__init__(lambda _: httpx.Response(200, content=BODY))

        def close(self) -> None:
            closed.append("closed")

    monkeypatch.setattr(httpx, "HTTPTransport", Network)
    fixture = make("once")
    posted(fixture.client(httpx.Client, verify=False, proxy="http://127.0.0.1:9", timeout=3))
    assert made == [{"verify": False, "proxy": "http://127.0.0.1:9"}]
    assert closed == ["closed"]
    fixture.finish(passed=True)
    posted(make().client(httpx.Client, verify=False))
    assert len(made) == 1


def test_options_of_a_client_win_over_those_of_the_marker(make: Make) -> None:
    record(make, "a")
    with pytest.raises(UnrecordedRequest):
        posted(make(drift="error").client(httpx.Client), "b")
    lenient = make(drift="error")
    assert posted(lenient.client(httpx.Client, drift="ignore", speed=1, max_gap_s=0), "b") == BODY
    # The same again, or another pace, is no contradiction.
    lenient.client(httpx2.Client, drift="ignore")
    lenient.client(httpx2.Client, speed=0)


@pytest.mark.parametrize("options", [{"drift": "warn"}, {"match": "exact"}])
def test_second_client_with_other_options_is_refused(make: Make, options: dict[str, Any]) -> None:
    record(make, "a")
    fixture = make(drift="error")
    fixture.client(httpx.Client)
    with pytest.raises(pytest.UsageError, match=f"other {next(iter(options))}, expected"):
        fixture.client(httpx.Client, **options)


def test_bad_option_is_reported_at_once(make: Make) -> None:
    record(make, "a")
    with pytest.raises(ValueError, match="rechunk"):
        make(rechunk="sideways").client(httpx.Client)
    with pytest.raises(ValueError, match="speed"):
        make().client(httpx.Client, speed=-1)


def test_damaged_recording_is_reported_when_the_test_ends(make: Make, tmp_path: Path) -> None:
    record(make, "a")
    (tmp_path / "recordings" / "01-chat-completions.json").write_text("{")
    with pytest.raises(RecordingError, match=r"01-chat-completions\.json"):
        make().finish(passed=True)
    assert make().finish(passed=False) == []


@pytest.mark.anyio
@pytest.mark.on_asyncio
async def test_app_records_a_conversation_and_replays_it(make: Make) -> None:
    create = json.dumps({"type": "response.create", "model": "m", "input": "Hi."})

    async def ask(fixture: RecordingFixture, upstream: str) -> list[str]:
        app = fixture.app(upstream)
        async with (
            served(app, strict=False, has_websockets=True) as url,
            connect(f"ws{url.removeprefix('http')}/v1/responses") as socket,
        ):
            await socket.send(create)
            found = [str(await socket.recv())]
            while json.loads(found[-1])["type"] != "response.completed":
                found.append(str(await socket.recv()))
        return found

    recording = make("once")
    provider = FakeProvider("It snows.")
    async with served(provider.app(), strict=False, has_websockets=True) as upstream:
        answer = await ask(recording, upstream)
    assert recording.finish(passed=True) == []
    assert recording.recorded == 1
    replaying = make("once")
    assert await ask(replaying, "http://127.0.0.1:9") == answer
    assert (replaying.replayed, replaying.finish(passed=True)) == (1, [])
    assert [each.name for each in replaying.recordings] == ["recordings/01-responses"]
    with pytest.raises(TypeError, match="verify, expected"):
        make().app("http://h.example", verify=False)
