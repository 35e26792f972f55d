"""Streams of a gateway's log: produced for one client, joined, resumed and cancelled by others."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.gateway.logs import logged
from support.gateway.servers import RunningGateway
from support.gateway.upstreams import ANSWER, REQUESTS, Head, Records, StepUpstream
from support.openai_chat.chunks import DONE, content

from streamnorm import Abandoned, Completed, Truncated
from streamnorm.gateway import LogConfig, PageConfig
from streamnorm.log import FollowedStream, Log
from streamnorm.sse import SSEDecoder
from streamnorm.testing import FakeProvider, faults, tool_call

pytestmark = pytest.mark.anyio

ID = "x-streamnorm-stream"
CLIENTS = pytest.mark.parametrize("client", REQUESTS)
_TIME = re.compile(rb'"created_at":\d+')
_CURSOR = re.compile(rb"^id: (\S+)\r?\n", re.MULTILINE)


class Reader:
    """A client of a gateway with a key.

    Args:
        gateway: The gateway.
        key: The key.
    """

    def __init__(self, gateway: RunningGateway, key: str = "key-of-a") -> None:
        self._url = gateway.url
        self._headers = {"authorization": f"Bearer {key}"}

    def _key_of(self, client: str) -> dict[str, str]:
        name = {"anthropic": "x-api-key", "gemini": "x-goog-api-key"}.get(client, "authorization")
        return (
            {name: self._headers["authorization"].removeprefix("Bearer ")}
            if (name != "authorization")
            else self._headers
        )

    async def post(
        self, client: str, id: str = "s-1", header: str = ID, **more: Any
    ) -> httpx.Response:
        path, body = REQUESTS[client]
        headers = {**self._key_of(client), header: id, **more.pop("headers", {})}
        async with httpx.AsyncClient(timeout=60) as http:
            return await http.post(self._url + path, json={**body, **more}, headers=headers)

    async def ask(
        self, method: str, id: str = "s-1", headers: dict[str, str] | None = None, **query: str
    ) -> httpx.Response:
        async with httpx.AsyncClient(timeout=60) as http:
            return await http.request(
                method,
                f"{self._url}/streams/{id}",
                params=query,
                headers={**self._headers, **(headers or {})},
            )

    async def read_some(self, client: str, id: str = "s-1") -> bytes:
        """Return the first bytes of a stream, and leave."""
        path, body = REQUESTS[client]
        headers = {**self._key_of(client), ID: id}
        async with (
            httpx.AsyncClient(timeout=60) as http,
            http.stream("POST", self._url + path, json=body, headers=headers) as response,
        ):
            assert response.status_code == 200
            return await anext(response.aiter_raw())


def bare(body: bytes) -> bytes:
    """Return a stream without its cursors."""
    return _CURSOR.sub(b"", body)


@CLIENTS
async def test_stream_is_that_of_a_gateway_without_a_log(client: str) -> None:
    async with logged(FakeProvider(["It snows."]).app()) as gateway:
        answer = await Reader(gateway).post(client)
        followed = await Reader(gateway).ask("GET")
    async with logged(FakeProvider(["It snows."]).app(), log=None) as gateway:
        plain = await Reader(gateway).post(client)
    assert _TIME.sub(b"", bare(answer.content)) == _TIME.sub(b"", plain.content)
    assert answer.status_code == 200
    assert answer.headers[ID] == "s-1"
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert followed.content == answer.content
    assert b"snows" in plain.content
    frames = SSEDecoder().feed(answer.content)
    assert all(frame.id for frame in frames)
    assert len({frame.id for frame in frames}) == len(frames)


@CLIENTS
async def test_rest_behind_each_cursor(client: str) -> None:
    async with logged(FakeProvider([tool_call("f", city="Oslo")]).app()) as gateway:
        reader = Reader(gateway)
        whole = (await reader.post(client)).content
        cursors = list(_CURSOR.finditer(whole))
        assert len(cursors) > 2
        for cursor in cursors:
            rest = whole[cursor.end() :].lstrip(b"\r\n")  # behind the empty line of its event
            after = cursor[1].decode()
            assert (await reader.ask("GET", after=after)).content == rest
            assert (await reader.ask("GET", headers={"last-event-id": after})).content == rest
            again = await reader.post(client, headers={"last-event-id": after})
            assert again.content == rest


async def test_other_dialect() -> None:
    async with logged(FakeProvider(["It snows."]).app()) as gateway:
        reader = Reader(gateway)
        chat = await reader.post("openai_chat")
        anthropic = await reader.ask("GET", to="anthropic")
        cursor = _CURSOR.findall(chat.content)[0].decode()
        other = await reader.ask("GET", to="anthropic", after=cursor)
        none = await reader.ask("GET", to="klingon")
    assert b"message_stop" in anthropic.content
    assert (other.status_code, other.json()["error"]["type"]) == (409, "conflict_error")
    assert none.status_code == 400
    assert "klingon" in none.text


async def test_answer_goes_on_without_its_client() -> None:
    gate, records = asyncio.Event(), Records()
    upstream = StepUpstream([ANSWER[0], gate, *ANSWER[1:]])
    async with logged(upstream, observers=(records,)) as gateway:
        reader = Reader(gateway)
        first = await reader.read_some("openai_chat")
        gate.set()
        whole = await reader.ask("GET")
        assert whole.content.startswith(first)
        assert bare(whole.content) == b"".join(ANSWER)
        await records.wait_for(2)
    assert len(upstream.requests) == 1
    operations = [(record.operation, record.upstream) for record in records.ended]
    assert sorted(operations) == [("response", ""), ("stream", "local")]
    assert all(isinstance(record.outcome, Completed) for record in records.ended)


async def test_second_request_joins_the_first() -> None:
    gate = asyncio.Event()
    upstream = StepUpstream([ANSWER[0], gate, *ANSWER[1:]])
    async with logged(upstream) as gateway:
        reader = Reader(gateway)
        async with asyncio.TaskGroup() as tasks:
            several = [tasks.create_task(reader.post("openai_chat")) for _ in range(5)]
            await upstream.asked.wait()
            gate.set()
        late = await reader.post("openai_chat", header="idempotency-key")
    bodies = {each.result().content for each in several} | {late.content}
    assert len(bodies) == 1
    assert len(upstream.requests) == 1


async def test_other_request_under_one_id_is_refused() -> None:
    async with logged(FakeProvider(["Hi."] * 3).app()) as gateway:
        reader = Reader(gateway)
        await reader.post("openai_chat")
        other = await reader.post("openai_chat", temperature=0.5)
        elsewhere = await reader.post("anthropic")
        others_key = await Reader(gateway, "key-of-b").post("openai_chat", temperature=0.5)
    assert (other.status_code, elsewhere.status_code) == (409, 409)
    assert other.json()["error"]["code"] == "stream_conflict"
    assert others_key.status_code == 200


async def test_streams_of_another_key_are_unknown() -> None:
    async with logged(FakeProvider(["Hi."]).app()) as gateway:
        await Reader(gateway).post("openai_chat")
        other = Reader(gateway, "key-of-b")
        found = [await other.ask(method) for method in ("GET", "DELETE")]
        none = await Reader(gateway, "no-key").ask("GET")
    assert [response.status_code for response in found] == [404, 404]
    assert none.status_code == 401


@CLIENTS
async def test_whole_answers(client: str) -> None:
    if client == "gemini":
        path = REQUESTS[client].path.replace("streamGenerateContent?alt=sse", "generateContent")
    else:
        path = REQUESTS[client].path
    provider = FakeProvider(["It snows."])
    async with logged(provider.app()) as gateway, httpx.AsyncClient(timeout=60) as http:
        body = REQUESTS[client].body
        if client != "gemini":
            body = {**body, "stream": False}
        headers = {"authorization": "Bearer key-of-a", "x-goog-api-key": "key-of-a", ID: "w"}
        answers = [
            await http.post(gateway.url + path, json=body, headers=headers) for _ in range(2)
        ]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].content == answers[1].content  # also its time, which no event of it has
    assert "It snows." in json.dumps(answers[0].json(), ensure_ascii=False)
    assert answers[0].headers[ID] == "w"
    assert len(provider.requests) == 1


async def test_whole_answer_has_each_choice() -> None:
    steps = [content(text, "stop", choice) for choice, text in enumerate("ab")]
    async with logged(StepUpstream([*steps, DONE])) as gateway:
        answer = await Reader(gateway).post("openai_chat", stream=False, n=2)
    texts = [choice["message"]["content"] for choice in answer.json()["choices"]]
    assert texts == ["a", "b"]


async def test_refusal_frees_the_id() -> None:
    provider = FakeProvider([faults.http(429), "Hi."])
    async with logged(provider.app()) as gateway:
        reader = Reader(gateway)
        refused = await reader.post("anthropic")
        assert (refused.status_code, refused.json()["type"]) == (429, "error")
        assert (await reader.ask("GET")).status_code == 404
        assert (await reader.post("anthropic")).status_code == 200


async def test_cut_stream() -> None:
    async with logged(FakeProvider([["Hello there.", faults.cut(event=2)]]).app()) as gateway:
        reader = Reader(gateway)
        answer = await reader.post("anthropic")
        again = await reader.ask("GET")
        whole = await reader.ask("DELETE")
    assert b"event: error" in answer.content
    assert again.content == answer.content
    assert whole.json() == {"id": "s-1", "state": "truncated"}


async def test_cancelling_stops_the_upstream() -> None:
    upstream, records = StepUpstream([ANSWER[0], 60.0]), Records()
    async with logged(upstream, observers=(records,)) as gateway:
        reader = Reader(gateway)
        first = await reader.read_some("openai_chat")
        assert upstream.open == 1
        cancelled = await reader.ask("DELETE")
        assert cancelled.status_code == 200
        async with asyncio.timeout(10):
            await upstream.closed.wait()
            rest = await reader.ask("GET")
        assert rest.content.startswith(first)
        assert b"cancelled" in rest.content
        await records.wait_for(3)
    [record] = [record for record in records.ended if record.operation == "stream"]
    assert isinstance(record.outcome, Abandoned)


async def test_stream_that_is_cancelled_before_its_first_event() -> None:
    """Nothing is stored of it but its end: not even the dialect that it was asked for in."""
    upstream = StepUpstream([60.0])
    async with logged(upstream) as gateway, asyncio.TaskGroup() as tasks:
        reader = Reader(gateway)
        asked = tasks.create_task(reader.post("anthropic"))
        await upstream.asked.wait()
        followed = tasks.create_task(reader.ask("GET"))
        await asyncio.sleep(0.1)
        assert (await reader.ask("DELETE")).json()["state"] == "cancelled"
        for answer in (await asked, await reader.post("anthropic")):
            assert (answer.status_code, answer.json()["type"]) == (502, "error")
            assert "cancelled before the first event" in answer.json()["error"]["message"]
        assert (await followed).status_code == 502
        assert (await reader.ask("GET", to="gemini")).json()["error"]["code"] == 502


async def test_streams_without_clients_are_bounded() -> None:
    gate = asyncio.Event()
    upstream = StepUpstream([ANSWER[0], gate, *ANSWER[1:]])
    async with logged(upstream, max_streams=2) as gateway:
        reader = Reader(gateway)
        await reader.read_some("openai_chat", "s-1")
        await reader.read_some("openai_chat", "s-2")
        refused = await reader.post("anthropic", "s-3")
        assert (refused.status_code, refused.json()["error"]["type"]) == (429, "rate_limit_error")
        assert "retry-after" in refused.headers
        await reader.read_some("openai_chat", "s-2")  # which joins
        assert upstream.open == 2
        gate.set()
        await reader.ask("GET", "s-1")
        await reader.ask("GET", "s-2")
        assert (await reader.post("openai_chat", "s-3")).status_code == 200


@pytest.mark.parametrize("path", ["/streams/secret", "/ui/chat/secret/stream"])
async def test_id_is_in_no_log(path: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "streamnorm.gateway")
    pages = {"ui_message_stream": PageConfig(model="m", resume=True)}
    async with (
        logged(FakeProvider([]).app(), pages=pages) as gateway,
        httpx.AsyncClient(timeout=60) as http,
    ):
        headers = {"authorization": "Bearer key-of-a"}
        for method, status in (
            ("PUT", 405),
            ("HEAD", 405),
            ("GET", 404 if "ui" not in path else 204),
        ):
            answer = await http.request(method, gateway.url + path, headers=headers)
            assert answer.status_code == status
    assert f"path={path.replace('secret', '*')}" in caplog.text
    assert "secret" not in caplog.text


async def test_cursor_of_no_stream_is_not_paid_for() -> None:
    provider = FakeProvider(["Hi."])
    async with logged(provider.app()) as gateway:
        answer = await Reader(gateway).post("anthropic", headers={"last-event-id": "e-t.3"})
    assert (answer.status_code, answer.json()["type"]) == (404, "error")
    assert not provider.requests


async def test_request_whose_stream_another_gateway_could_not_begin(tmp_path: Path) -> None:
    """The id is free then: the request asks the upstreams itself."""
    log = LogConfig(url=f"sqlite:{tmp_path / 'log.db'}")
    gate = asyncio.Event()
    first = StepUpstream([gate, Head(429), b"{}"])
    async with (
        logged(first, log=log) as one,
        logged(FakeProvider(["It snows.", "It rains."]).app(), log=log) as two,
        asyncio.TaskGroup() as tasks,
    ):
        for id, more in (("s-1", {}), ("s-2", {"stream": False})):
            gate.clear()
            first.asked.clear()
            refused = tasks.create_task(Reader(one).post("anthropic", id, **more))
            await first.asked.wait()
            joined = tasks.create_task(Reader(two).post("anthropic", id, **more))
            await asyncio.sleep(0.2)
            assert not joined.done()
            gate.set()
            assert (await refused).status_code == 429
            assert (await joined).status_code == 200
            assert b"It" in (await joined).content


async def test_request_whose_stream_is_gone_before_it_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogConfig(url=f"sqlite:{tmp_path / 'log.db'}")
    gate, gone, follows = asyncio.Event(), asyncio.Event(), asyncio.Queue[None]()
    is_joined = False
    follow_answer = Log.follow_answer

    async def follow_late(self: Log, id: str, **options: Any) -> FollowedStream[bytes]:
        follows.put_nowait(None)
        if is_joined:
            await gone.wait()
        return await follow_answer(self, id, **options)

    monkeypatch.setattr(Log, "follow_answer", follow_late)
    first = StepUpstream([gate, Head(429), b"{}"])
    async with (
        logged(first, log=log) as one,
        logged(FakeProvider(["It snows."]).app(), log=log) as two,
        asyncio.TaskGroup() as tasks,
    ):
        refused = tasks.create_task(Reader(one).post("anthropic", "s-1"))
        await first.asked.wait()
        await follows.get()
        is_joined = True
        joined = tasks.create_task(Reader(two).post("anthropic", "s-1"))
        await follows.get()
        gate.set()
        assert (await refused).status_code == 429
        gone.set()
        assert b"It" in (await joined).content


async def test_stream_of_invoke_chunks() -> None:
    path, id = "/model/m/invoke-with-response-stream", "s-1"
    messages = [{"role": "user", "content": "Snow?"}]
    body = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 5, "messages": messages}
    async with logged(FakeProvider(["It snows."]).app()) as gateway:
        reader = Reader(gateway)
        async with httpx.AsyncClient(timeout=60) as http:
            headers = {"authorization": "Bearer key-of-a", ID: id}
            answer = await http.post(gateway.url + path, json=body, headers=headers)
        followed = await reader.ask("GET")
        as_events = await reader.ask("GET", to="anthropic")
    assert followed.content == answer.content
    assert followed.headers["content-type"] == "application/vnd.amazon.eventstream"
    assert answer.headers["content-type"] == "application/vnd.amazon.eventstream"
    assert as_events.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert b"event: message_start" in as_events.content


async def test_status_that_is_sent_early_has_the_id() -> None:
    gate = asyncio.Event()
    upstream = StepUpstream([gate, *ANSWER])
    (path, body), headers = REQUESTS["anthropic"], {"x-api-key": "key-of-a", ID: "s-1"}
    async with (
        logged(upstream, commit_after_s=0.05, keepalive_s=0.1) as gateway,
        httpx.AsyncClient(timeout=60) as http,
        http.stream("POST", gateway.url + path, json=body, headers=headers) as response,
    ):
        assert response.headers[ID] == "s-1"
        gate.set()
        whole = b"".join([data async for data in response.aiter_raw()])
    assert b"message_stop" in whole


@pytest.mark.parametrize("id", ["chat:abc", "resp_abc"])
async def test_ids_of_the_gateway_are_no_clients(id: str) -> None:
    provider = FakeProvider(["Hi."])
    async with logged(provider.app()) as gateway:
        for header in (ID, "idempotency-key"):
            answer = await Reader(gateway).post("anthropic", id, header)
            assert (answer.status_code, answer.json()["type"]) == (400, "error")
    assert not provider.requests


@pytest.mark.parametrize("id", ["a b", "x" * 129, "", "a%2fb", "ä"])
async def test_wrong_ids(id: str) -> None:
    async with logged(FakeProvider(["Hi."]).app()) as gateway:
        reader = Reader(gateway)
        answer = await reader.post("openai_chat", id.encode("latin-1"))  # type: ignore[arg-type]
    assert answer.status_code == 400
    assert ID in answer.json()["error"]["message"]


async def test_ids_without_keys_are_the_gateways_own() -> None:
    provider = FakeProvider(["It snows.", "It rains."])
    async with logged(provider.app(), client_keys=None) as gateway:
        reader = Reader(gateway)
        answer = await reader.post("openai_chat", "guessable")
        other = await reader.post("openai_chat", "guessable", temperature=0.5)
        again = await reader.post("openai_chat", "guessable")
        guessed = await reader.ask("GET", "guessable")
        followed = await reader.ask("GET", answer.headers[ID])
    assert guessed.status_code == 404
    assert again.content == answer.content == followed.content
    assert other.headers[ID] != answer.headers[ID]
    assert len(provider.requests) == 2


@CLIENTS
async def test_without_client_keys_a_stream_is_found_with_its_own_key_alone(client: str) -> None:
    provider = FakeProvider(["alice", "mallory", "nobody"])
    async with logged(provider.app(), client_keys=None) as gateway:
        alice, mallory = Reader(gateway, "alice"), Reader(gateway, "mallory")
        hers = await alice.post(client)
        found = [await mallory.ask(method, hers.headers[ID]) for method in ("GET", "DELETE")]
        his = await mallory.post(client)
        path, body = REQUESTS[client]
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as http:
            without = [await http.post(path, json=body, headers={ID: "s-1"}) for _ in range(2)]
            followed = await http.get(f"/streams/{without[0].headers[ID]}")
        again = await alice.ask("GET", hers.headers[ID])
    assert [answer.status_code for answer in found] == [404, 404]
    assert b"alice" in hers.content
    assert b"mallory" in his.content
    assert b"nobody" in without[0].content
    assert without[0].content == without[1].content == followed.content
    assert again.content == hers.content
    assert len(provider.requests) == 3


async def test_stream_ends_within_the_grace_although_its_client_has_left() -> None:
    gate, records = asyncio.Event(), Records()
    upstream = StepUpstream([ANSWER[0], gate, *ANSWER[1:]])
    async with logged(upstream, observers=(records,)) as gateway:
        await Reader(gateway).read_some("openai_chat")
        gateway.app.begin_drain(30)
        asyncio.get_running_loop().call_later(0.2, gate.set)
    [record] = records.ended
    assert isinstance(record.outcome, Completed)


async def test_stream_ends_truncated_at_the_end_of_the_grace() -> None:
    records = Records()
    upstream = StepUpstream([ANSWER[0], 60.0])
    async with logged(upstream, observers=(records,)) as gateway:
        await Reader(gateway).read_some("openai_chat")
        gateway.app.begin_drain(0.1)
    [record] = records.ended
    assert isinstance(record.outcome, Truncated)


async def test_content_follows_as_it_arrives() -> None:
    gates = [asyncio.Event() for _ in range(3)]
    steps = [
        step for gate, text in zip(gates, "abc", strict=True) for step in (gate, content(text))
    ]
    async with (
        logged(StepUpstream([*steps, *ANSWER[1:]])) as gateway,
        httpx.AsyncClient(timeout=60) as http,
    ):
        path, body = REQUESTS["openai_chat"]
        headers = {"authorization": "Bearer key-of-a", ID: "live"}
        gates[0].set()
        async with http.stream("POST", gateway.url + path, json=body, headers=headers) as response:
            chunks = response.aiter_raw()
            for number, text in enumerate((b'"a"', b'"b"', b'"c"')):
                assert text in await anext(chunks)
                if number < 2:
                    gates[number + 1].set()


@pytest.mark.parametrize("linger_s", [60.0, None])
async def test_stream_that_nobody_follows_lasts_as_long_as_it_lingers(
    linger_s: float | None, tmp_path: Path
) -> None:
    gate, records, path = asyncio.Event(), Records(), tmp_path / "log.db"
    upstream = StepUpstream([ANSWER[0], gate, *ANSWER[1:]])
    log = LogConfig(url=f"sqlite:{path}", linger_s=linger_s)
    async with logged(upstream, observers=(records,), log=log) as gateway:
        reader = Reader(gateway)
        await reader.read_some("openai_chat")
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            for _ in range(100 if linger_s else 8):  # the store is told each second
                if not records.ended:
                    file.execute("UPDATE streams SET followed = followed - 61000")
                    await asyncio.sleep(0.2)
        if linger_s is None:
            gate.set()
        await records.wait_for(1)
        found = await reader.ask("DELETE")
    assert isinstance(records.ended[0].outcome, Completed if linger_s is None else Abandoned)
    assert found.json()["state"] == ("complete" if linger_s is None else "cancelled")
