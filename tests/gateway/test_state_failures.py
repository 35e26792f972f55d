"""A store of the gateway that fails, and one that cannot be."""

from __future__ import annotations

import json
import logging
import multiprocessing
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from support.gateway.calls import CANARY, JSON, NOWHERE, asked, called, opened
from support.gateway.observers import RecordingObserver
from support.gateway.stateful_clients import KEY, PREVIOUS, StateClient, provided
from support.state.valkey_servers import valkey_server

from streamnorm import Completed
from streamnorm._registry import lookup
from streamnorm._upstream.requests import ClientRequest
from streamnorm.gateway import Config, ConfigError, Gateway, LogConfig, UpstreamConfig
from streamnorm.gateway.receiving import BodyThread
from streamnorm.gateway.response_state import ResponseStates
from streamnorm.gateway.storing import GatewayStore
from streamnorm.sse import SSEDecoder
from streamnorm.state import MemoryStore
from streamnorm.state.stored import MAX_CHAIN_BYTES
from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.anyio

UNAVAILABLE = "the store of responses does not answer, try again"
streams = pytest.mark.parametrize("stream", [False, True])


def broken(tmp_path: Path) -> str:
    """Return the URL of a store whose file is a directory."""
    return f"sqlite:{tmp_path}"


@streams
@pytest.mark.parametrize("more", [{}, {PREVIOUS: "resp_1"}, {PREVIOUS: "resp_1", "store": False}])
async def test_upstream_is_not_asked_if_the_store_fails(
    tmp_path: Path, more: dict[str, Any], *, stream: bool
) -> None:
    provider = FakeProvider("Hi.")
    async with provided(provider, state=broken(tmp_path)) as app:
        status, body = await StateClient(app).attempt("Hi.", stream=stream, **more)
    assert (status, body["error"]["message"]) == (503, UNAVAILABLE)
    assert body["error"]["type"] == "server_error"
    assert provider.requests == ()


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_request_about_a_response_fails_with_the_store(tmp_path: Path, method: str) -> None:
    async with opened(state=broken(tmp_path)) as app:
        status, body = await StateClient(app).ask(method, "resp_1")
    assert (status, body["error"]["message"]) == (503, UNAVAILABLE)


async def test_requests_without_state_need_no_store(tmp_path: Path) -> None:
    async with provided(FakeProvider("Hi."), state=broken(tmp_path)) as app:
        response = await StateClient(app).create("Hi.", store=False)
    assert response["store"] is False


def breaking(path: Path, text: str) -> FakeProvider:
    """Return a provider that destroys a store, and answers with a text."""

    def answer(_request: object) -> str:
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("DROP TABLE responses")
        connection.close()
        return text

    return FakeProvider(answer)


async def test_stream_that_cannot_be_stored_ends_with_its_answer(tmp_path: Path) -> None:
    """It has been paid for; an error in its place makes the client ask for it again."""
    path, calls = tmp_path / "state.db", RecordingObserver()
    provider = breaking(path, "Hello there, this is a long answer.")
    async with provided(provider, state=f"sqlite:{path}", observers=(calls,)) as app:
        status, events = await StateClient(app).stream("Hi.")
    assert status == 200
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    assert [event["type"] for event in events].count("response.completed") == 1
    assert events[-1]["type"] == "response.completed"
    completed = events[-1]["response"]
    assert (completed["status"], completed["store"]) == ("completed", False)
    assert completed["id"] == events[0]["response"]["id"]
    [message] = completed["output"]
    assert message["content"][0]["text"] == "Hello there, this is a long answer."
    assert isinstance(calls.ended[0].outcome, Completed)
    assert calls.ended[0].losses == {"store": 1}


@streams
async def test_logged_answer_that_cannot_be_stored(tmp_path: Path, *, stream: bool) -> None:
    """All who read its stream learn that, also those that come later."""
    path = tmp_path / "state.db"
    provider = breaking(path, "Hello there, this is a long answer.")
    key = ("authorization", f"Bearer {KEY}")
    settings: dict[str, Any] = {
        "state": f"sqlite:{path}",
        "log": LogConfig(url="memory:"),
        "client_keys": "env:KEYS",
        "environ": {"KEYS": KEY},
    }
    async with provided(provider, **settings) as app:
        client = StateClient(app, headers=(key, ("x-streamnorm-stream", "s-1")))
        status, response = await client.attempt("Hi.", stream=stream)
        caller = await called(app, "/streams/s-1", method="GET", headers=(*JSON, key))
    assert (status, response["status"], response["store"]) == (200, "completed", False)
    events = [json.loads(frame.data) for frame in SSEDecoder().feed(b"".join(caller.bodies))]
    assert events[0]["response"]["store"] is True  # as it was to be
    assert events[-1]["response"] == response


async def test_compaction_that_cannot_be_stored_reaches_its_client(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    said = [{"role": "user", "content": "Hi."}, {"type": "compaction_trigger"}]
    async with provided(breaking(path, "A summary."), state=f"sqlite:{path}") as app:
        _, events = await StateClient(app).stream(said)
    assert events[-1]["type"] == "response.completed"
    assert events[-1]["response"]["store"] is False
    assert events[-1]["response"]["output"][0]["type"] == "compaction"


async def test_whole_answer_that_cannot_be_stored_reaches_its_client(tmp_path: Path) -> None:
    path, calls = tmp_path / "state.db", RecordingObserver()
    provider = breaking(path, "Hello there.")
    async with provided(provider, state=f"sqlite:{path}", retries=2, observers=(calls,)) as app:
        response = await StateClient(app).create("Hi.")
    assert response["store"] is False
    assert response["output"][0]["content"][0]["text"] == "Hello there."
    assert len(provider.requests) == 1  # no upstream is asked again
    assert isinstance(calls.ended[0].outcome, Completed)
    assert calls.ended[0].losses == {"store": 1}


async def test_answer_that_no_store_takes_is_not_said_to_be_stored() -> None:
    bodies = BodyThread()
    turns = ResponseStates(GatewayStore(MemoryStore(), bodies), bodies)
    received = ClientRequest(method="POST", path="/v1/responses", headers={}, body=b"")
    turn = await turns.begin(received, lookup("openai_responses"), {"model": "m", "input": "Hi."})
    item = {"type": "message", "content": "a" * MAX_CHAIN_BYTES}
    response = {"id": turn.fields["id"], "status": "completed", "output": [item], "store": True}
    await turn.store(response)
    assert turn.is_lost
    assert response["store"] is False


@streams
async def test_conversation_that_fills_the_store_is_not_said_to_be_stored(*, stream: bool) -> None:
    store, calls = MemoryStore(max_responses=2), RecordingObserver()
    said: list[bool] = []
    more: dict[str, str] = {}
    async with provided(FakeProvider("Hi."), state=None, store=store, observers=(calls,)) as app:
        client = StateClient(app)
        for _ in range(3):
            response = await client.create("Hi.", stream=stream, **more)
            said.append(response["store"])
            more = {PREVIOUS: response["id"]}
        status, body = await client.attempt("Hi.", **more)
    assert said == [True, True, False]
    assert calls.ended[2].losses["store"] == 1
    assert (status, body["error"]["code"]) == (400, "previous_response_not_found")


@streams
async def test_server_that_stops_in_the_middle_of_an_answer(*, stream: bool) -> None:
    with valkey_server() as server:

        def answer(_request: object) -> str:
            server.stop()
            return "Hello there."

        state = f"redis://:{CANARY}@127.0.0.1:{server.port}/0"
        client = server.client()
        client.config_set("requirepass", CANARY)
        client.close()
        async with provided(FakeProvider(answer), state=state) as app:
            response = await StateClient(app).create("Hi.", stream=stream)
    assert response["store"] is False
    assert response["output"][0]["content"][0]["text"] == "Hello there."


async def test_log_names_no_store(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "streamnorm.gateway"):
        async with opened(state="redis://user:canary-7f3a@127.0.0.1:9/0") as app:
            status, body = await StateClient(app).attempt("Hi.")
    assert status == 503
    shown = str(body) + caplog.text
    assert "the store of responses failed" in caplog.text
    assert not any(word in shown for word in (CANARY, "127.0.0.1", "user"))


def gateway(state: str | None, environ: dict[str, str] | None = None) -> Gateway:
    upstream = UpstreamConfig(dialect="openai_chat", base_url=NOWHERE)
    return Gateway(Config(upstreams={"local": upstream}, state=state), environ=environ or {})


async def test_memory_is_refused_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = "state: memory: in a worker process, expected sqlite: or redis:, which all "
    with pytest.raises(ConfigError, match=refused):
        gateway("memory:", {"SERVER_SOFTWARE": "gunicorn/23.0.0"})
    monkeypatch.setattr(multiprocessing, "parent_process", object)
    with pytest.raises(ConfigError, match=refused):
        gateway("memory:")
    gateway("sqlite:state.db")  # creates nothing


async def test_file_in_a_directory_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    found = f"no directory {missing}, expected one for the file"
    with pytest.raises(ConfigError, match=f"state: {found}"):
        gateway(f"sqlite:{missing}/state.db")
    upstreams = {"local": UpstreamConfig(dialect="openai_chat", base_url=NOWHERE)}
    log = LogConfig(url=f"sqlite:{missing}/log.db")
    with pytest.raises(ConfigError, match=f"log.url: {found}"):
        Gateway(Config(upstreams=upstreams, log=log), environ={})


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ("", "state"),
        ("disk", "state: no URL of a store, expected memory:, sqlite:PATH or redis://HOST"),
        ("sqlite:", "state: no URL of a store"),
        ("memory:x", "state: no URL of a store"),
        ("env:STATE", "state: STATE is not set in the environment, expected the URL of a store"),
        ("env:", "state: no place of a key"),
        (f"redis://:{CANARY}@here:port", "state: "),
    ],
)
async def test_wrong_state_is_refused(state: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error) as caught:
        gateway(state)
    assert CANARY not in str(caught.value)


async def test_url_of_the_store_may_stand_in_the_environment(tmp_path: Path) -> None:
    environ = {"STATE": f"sqlite:{tmp_path / 'state.db'}"}
    async with opened(state="env:STATE", environ=environ) as app:
        status, _ = await asked(app, "/v1/responses/resp_1", method="GET")
    assert status == 404
    assert (tmp_path / "state.db").exists()


async def test_answer_is_forgotten(tmp_path: Path) -> None:
    async with provided(FakeProvider("Hi."), state_ttl_s=1e-6) as app:
        client = StateClient(app)
        response = await client.create("Hi.")
        status, _ = await client.ask("GET", response["id"])
    assert status == 404


@pytest.mark.parametrize("log", [None, LogConfig(url="memory:")], ids=["no log", "log"])
async def test_damaged_store_is_a_failing_one(log: LogConfig | None, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with provided(FakeProvider("Hi."), state=f"sqlite:{path}", log=log) as app:
        client = StateClient(app)
        id = (await client.create("Hi."))["id"]
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("UPDATE contents SET content = x'00ff'")
        connection.close()
        for status, body in (
            await client.attempt("Hi.", previous_response_id=id),
            await client.ask("GET", id),
        ):
            assert (status, body["error"]["message"]) == (503, UNAVAILABLE)
        assert (await client.ask("DELETE", id))[0] == 200
        assert [(await client.ask(method, id))[0] for method in ("GET", "DELETE")] == [404, 404]
