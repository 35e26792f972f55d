"""What an upstream is sent of a conversation over WebSockets, and what its clients get."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.gateway.calls import CONTENTS, GENERATE, body_of, called, opened
from support.gateway.servers import served_gateway
from support.gateway.socket_upstream import (
    ANTHROPIC,
    MESSAGES,
    SocketUpstream,
    ask,
    asked_over_websocket,
    call_item,
    echo,
    event,
    response_events,
    said,
    text_item,
    text_of,
)
from support.gateway.sockets import connected, create
from support.gateway.upstreams import Records
from support.streams.corpus import needs_corpus
from websockets.asyncio.server import ServerConnection

from streamnorm import Failed
from streamnorm._core.json import compact
from streamnorm.gateway import LogConfig, UpstreamConfig, websocket_upstreams
from streamnorm.gateway.receiving import LARGE_BYTES
from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.anyio

NOT_FOUND = "previous_response_not_found"


async def forget(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
    """Answer as a provider that has forgotten each response."""
    if "previous_response_id" in sent:
        error = {"type": "invalid_request_error", "code": NOT_FOUND, "message": "gone"}
        await upstream.send(socket, event("error", status=400, error=error))
        return
    await echo(upstream, socket, sent)


async def test_ten_turns_send_only_what_is_new() -> None:
    """Counted in bytes at the provider: a turn costs the same, however long the conversation is."""
    upstream = SocketUpstream(echo)
    turns = ["x" * 20_000]
    async with asked_over_websocket(upstream) as app:
        for number in range(1, 11):
            status, body = await ask(app, *turns)
            assert (status, text_of(body)) == (200, f"It is {number}.")
            turns += [text_of(body), f"And {number:02}?"]
    assert len(upstream.sockets) == 1
    assert upstream.sizes[0] > 20_000
    assert max(upstream.sizes[1:]) < 400
    for number, sent in enumerate(upstream.creates[1:], 1):
        assert sent["previous_response_id"] == f"resp_{number}"
        (item,) = sent["input"]
        assert item["content"] == f"And {number:02}?"
    assert "previous_response_id" not in upstream.creates[0]
    assert not {"stream", "background", "stream_options"} & {*upstream.creates[0]}


async def test_results_of_calls_are_an_increment_however_the_arguments_are_spelt() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        items = [text_item("Let me look."), call_item("call_1", '{ "city":"Paris", "n": 1}')]
        number = len(upstream.creates)
        await upstream.send(socket, *response_events(f"resp_{number}", items[: 3 - number]))

    tool = {"name": "get_weather", "input_schema": {"type": "object"}}
    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        await ask(app, "Hi.", tools=[tool])
        call = {"type": "tool_use", "id": "call_1", "name": "get_weather"}
        content = [
            {"type": "text", "text": "Let me look."},
            {**call, "input": {"n": 1, "city": "Paris"}},
        ]
        result = {"type": "tool_result", "tool_use_id": "call_1", "content": "Snow"}
        messages = [*said("Hi."), {"role": "assistant", "content": content}]
        messages.append({"role": "user", "content": [result]})
        caller = await called(app, ANTHROPIC, {**MESSAGES, "messages": messages, "tools": [tool]})
    assert caller.status == 200
    assert upstream.creates[1]["previous_response_id"] == "resp_1"
    assert [item["type"] for item in upstream.creates[1]["input"]] == ["function_call_output"]


@pytest.mark.parametrize(
    ("turns", "fields", "connections"),
    [
        (("Hi.", "It is 2.", "And?"), {}, 1),
        (("Hi.", "And?"), {}, 1),
        (("Hi.", "It is 1.", "And?"), {"system": "Be brief."}, 2),
        (("Hi.", "It is 1.", "And?"), {"temperature": 0.5}, 2),
        (("Hi.",), {}, 2),
    ],
    ids=["another answer", "no answer", "instructions", "another field", "the same again"],
)
async def test_another_beginning_is_sent_whole(
    turns: tuple[str, ...], fields: dict[str, Any], connections: int
) -> None:
    """Over a connection of its own, unless it goes on from the same input in another way."""
    upstream = SocketUpstream(echo)
    async with asked_over_websocket(upstream) as app:
        await ask(app, "Hi.")
        status, _ = await ask(app, *turns, **fields)
    assert status == 200
    assert "previous_response_id" not in upstream.creates[1]
    assert len(upstream.sockets) == connections


async def test_forgotten_response_is_sent_whole_once_on_the_same_connection() -> None:
    upstream = SocketUpstream(forget)
    async with asked_over_websocket(upstream) as app:
        await ask(app, "Hi.")
        status, body = await ask(app, "Hi.", "It is 1.", "And?")
    assert (status, text_of(body)) == (200, "It is 3.")
    assert len(upstream.sockets) == 1
    assert ["previous_response_id" in sent for sent in upstream.creates] == [False, True, False]
    assert len(upstream.creates[2]["input"]) == 3


REFUSALS = [
    event("response.failed", response={"status": "failed", "error": {"code": NOT_FOUND}}),
    event("error", status=404, error={"code": 404, "param": "previous_response_id"}),
    event("error", error={"type": NOT_FOUND, "message": "gone"}),
    event("error", status=422, error={"message": "no such response"}),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=["failed", "404", "type", "422"])
async def test_increment_that_is_refused_in_any_form_is_sent_whole(refusal: dict[str, Any]) -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        if "previous_response_id" in sent:
            await upstream.send(socket, refusal)
            return
        await echo(upstream, socket, sent)

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        await ask(app, "Hi.")
        status, body = await ask(app, "Hi.", "It is 1.", "And?")
    assert (status, text_of(body)) == (200, "It is 3.")
    assert len(upstream.sockets) == 1


async def test_request_that_is_refused_whole_too_is_not_sent_a_third_time() -> None:
    """It says nothing of the state of the provider, which is asked to continue as before."""

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        if "No!" in json.dumps(sent):
            error = {"type": "invalid_request_error", "message": "No", "code": None}
            await upstream.send(socket, event("error", status=400, error=error))
            return
        await echo(upstream, socket, sent)

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        for _ in range(3):
            await ask(app, "Hi.")
            number = len(upstream.creates)
            status, _ = await ask(app, "Hi.", f"It is {number}.", "No!")
            assert status == 400
            continued = ["previous_response_id" in sent for sent in upstream.creates[number:]]
            assert continued == [True, False]
    assert len(upstream.sockets) == 1


@pytest.mark.parametrize("is_broken", [False, True], ids=["no items", "unreadable item"])
async def test_answer_whose_items_were_not_seen_is_not_continued(*, is_broken: bool) -> None:
    """The next increment would have the model's own answer as new input."""

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        number = len(upstream.creates)
        for each in response_events(f"resp_{number}", [text_item(f"It is {number}.")]):
            if each["type"] == "response.output_item.done":
                if is_broken:
                    await socket.send('{"type":"response.output_item.done","item":{')
            elif each["type"] == "response.completed" and not is_broken:
                await upstream.send(
                    socket, {**each, "response": {**each["response"], "output": []}}
                )
            else:
                await upstream.send(socket, each)

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        await ask(app, "Hi.")
        await ask(app, "Hi.", "It is 1.", "And?")
    assert "previous_response_id" not in upstream.creates[1]
    assert len(upstream.creates[1]["input"]) == 3


async def test_provider_without_state_is_no_longer_asked_to_continue() -> None:
    upstream = SocketUpstream(forget)
    turns = ["Hi."]
    async with asked_over_websocket(upstream) as app:
        for _ in range(5):
            _, body = await ask(app, *turns)
            turns += [text_of(body), "And?"]
    continued = ["previous_response_id" in sent for sent in upstream.creates]
    assert continued == [False, True, False, True, False, False, False]


async def test_create_is_compared_with_the_last_responses_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(websocket_upstreams, "_MAX_COMPARED", 2)
    may_answer = [asyncio.Event() for _ in range(3)]

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        number = len(upstream.creates)
        if number <= len(may_answer):
            await may_answer[number - 1].wait()
        await upstream.send(socket, *response_events(f"resp_{number}", [text_item(f"{number}.")]))

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        pending = {asyncio.create_task(ask(app, "Hi.")) for _ in may_answer}
        for event_of in may_answer:
            event_of.set()
            _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for text in ("1.", "2."):
            await ask(app, "Hi.", text, "And?")
    assert len(upstream.sockets) == 3
    named = [sent.get("previous_response_id") for sent in upstream.creates]
    assert named == [None, None, None, None, "resp_2"]


async def test_large_increment_is_found_beside_the_loop() -> None:
    """The connections may change hands meanwhile; one create gets each."""
    text = "x" * (2 * LARGE_BYTES)
    both = asyncio.Event()

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        number = len(upstream.creates)
        if number == 3:
            both.set()
        if number > 1:
            await both.wait()
        await upstream.send(socket, *response_events(f"resp_{number}", [text_item("It is 1.")]))

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        await ask(app, text)
        turns = (text, "It is 1.", "And?")
        answers = await asyncio.gather(ask(app, *turns), ask(app, *turns))
    assert [status for status, _ in answers] == [200, 200]
    continued = sorted("previous_response_id" in sent for sent in upstream.creates[1:])
    assert continued == [False, True]
    assert len(upstream.sockets) == 2


async def test_response_that_the_provider_never_had_is_the_clients_affair() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        error = {"type": "invalid_request_error", "code": NOT_FOUND, "message": "gone"}
        await upstream.send(socket, event("error", status=400, error=error))

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        request = {"model": "m", "input": "Hi.", "previous_response_id": "resp_0"}
        caller = await called(app, "/v1/responses", request)
    assert (caller.status, body_of(caller)["error"]["code"]) == (400, NOT_FOUND)
    (sent,) = upstream.creates
    assert sent["previous_response_id"] == "resp_0"


def next_request(client: str, request: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Return a request with a whole answer in its history, as a client of a dialect has it."""
    match client:
        case "anthropic":
            said_now = [{"role": "assistant", "content": answer["content"]}]
        case "openai_chat":
            said_now = [answer["choices"][0]["message"]]
        case "gemini":
            said_now = [answer["candidates"][0]["content"]]
        case _:
            said_now = answer["output"]
    name = next(name for name in ("messages", "contents", "input") if name in request)
    return {**request, name: [*request[name], *said_now, request[name][0]]}


@pytest.mark.parametrize("client", ["anthropic", "openai_chat", "gemini", "openai_responses"])
async def test_client_of_each_dialect_sends_what_is_new(client: str) -> None:
    """Chat Completions has no place for encrypted reasoning, which its clients cannot return."""
    reasoning = {
        "id": "rs_1",
        "type": "reasoning",
        "encrypted_content": "gAAA",
        "status": "completed",
    }
    reasoning["summary"] = [{"type": "summary_text", "text": "I know."}]

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        items = [text_item("Hello."), text_item("And more.", "msg_2")]
        if client != "openai_chat":
            items.insert(0, reasoning)
        await upstream.send(socket, *response_events(f"resp_{len(upstream.creates)}", items))

    message = {"role": "user", "content": "Hi."}
    path, request = {
        "anthropic": (ANTHROPIC, {"model": "m", "max_tokens": 9, "messages": [message]}),
        "openai_chat": ("/v1/chat/completions", {"model": "m", "messages": [message]}),
        "gemini": (GENERATE, CONTENTS),
        "openai_responses": ("/v1/responses", {"model": "m", "input": [message]}),
    }[client]
    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        caller = await called(app, path, request)
        assert caller.status == 200
        caller = await called(app, path, next_request(client, request, body_of(caller)))
        assert caller.status == 200
    first, second = upstream.creates
    assert second.get("previous_response_id") == "resp_1", second["input"]
    assert second["input"] == first["input"]


# Clients of the same dialect


async def test_answer_passes_as_over_http() -> None:
    upstream = SocketUpstream(echo)
    async with asked_over_websocket(upstream) as app:
        turns: list[Any] = [{"role": "user", "content": "Hi."}]
        for number in (1, 2):
            request = {"model": "m", "input": turns, "stream": True, "store": False, "user": "u"}
            caller = await called(app, "/v1/responses", request)
            events = response_events(f"resp_{number}", [text_item(f"It is {number}.")])
            expected = b"".join(
                b"event: %b\ndata: %b\n\n" % (each["type"].encode(), compact(each).encode())
                for each in events
            )
            assert b"".join(caller.bodies) == expected
            turns += [text_item(f"It is {number}."), {"role": "user", "content": "And?"}]
    assert upstream.creates[0]["user"] == "u"
    assert upstream.creates[1]["previous_response_id"] == "resp_1"
    assert upstream.creates[1]["input"] == [{"role": "user", "content": "And?"}]


async def test_id_that_the_client_did_not_name_is_not_repeated_to_it() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        number, previous = len(upstream.creates), sent.get("previous_response_id")
        echoed = {"previous_response_id": previous, "metadata": {"a": '"previous_response_id": 1'}}
        items = [text_item(f"It is {number}.")]
        await upstream.send(socket, *response_events(f"resp_{number}", items, **echoed))

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        turns: list[Any] = [{"role": "user", "content": "Hi."}]
        for stream in (True, True, False):
            request = {"model": "m", "input": turns, "stream": stream, "store": False}
            caller = await called(app, "/v1/responses", request)
            found = b"".join(caller.bodies)
            assert b'"previous_response_id":null' in found
            assert b'"previous_response_id":"resp' not in found
            turns += [text_item(f"It is {len(upstream.creates)}."), turns[0]]
    assert upstream.creates[2]["previous_response_id"] == "resp_2"


@pytest.mark.parametrize("has_output", [True, False])
async def test_request_without_a_stream_gets_the_response(*, has_output: bool) -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        id = f"resp_{len(upstream.creates)}"
        *events, last = response_events(id, [text_item("Hello")], note="kept")
        if not has_output:
            last = {**last, "response": {**last["response"], "output": []}}
        await upstream.send(socket, *events, last)

    upstream = SocketUpstream(answer)
    expected = response_events("resp_1", [text_item("Hello")], note="kept")[-1]["response"]
    async with asked_over_websocket(upstream) as app:
        caller = await called(app, "/v1/responses", {"model": "m", "input": "Hi."})
        assert (caller.status, body_of(caller)) == (200, expected)
        caller = await called(
            app, ANTHROPIC, {**MESSAGES, "stream": False, "messages": said("Hi.")}
        )
        assert body_of(caller)["content"] == [{"type": "text", "text": "Hello"}]


async def test_items_without_a_stream_are_bounded() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        first, *_, last = response_events("resp_1", [])
        await upstream.send(socket, first)
        done = event("response.output_item.done", item=text_item("x" * 40_000))
        await upstream.send(socket, done, done, last)

    records = Records()
    async with asked_over_websocket(
        SocketUpstream(answer), max_event_bytes=65_536, observers=(records,)
    ) as app:
        caller = await called(app, "/v1/responses", {"model": "m", "input": "Hi."})
    assert caller.status == 502
    (record,) = records.ended
    assert isinstance(record.outcome, Failed)
    assert record.outcome.error.code == "max_event_bytes"


async def test_failed_response_without_a_stream_is_an_error() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        first, *_, last = response_events("resp_1", [text_item("Hello")])
        if len(upstream.creates) == 1:
            error = {"type": "server_error", "code": "server_error", "message": "Broken"}
            await upstream.send(socket, first, event("error", status=500, error=error))
            return
        failed = {**last["response"], "status": "failed"}
        failed["error"] = {"code": "server_error", "message": "Broken"}
        await upstream.send(socket, first, event("response.failed", response=failed))

    async with asked_over_websocket(SocketUpstream(answer)) as app:
        for _ in range(2):
            request = {**MESSAGES, "stream": False, "messages": said("Hi.")}
            caller = await called(app, ANTHROPIC, request)
            assert caller.status == 500
            assert body_of(caller)["error"]["message"] == "Broken"


async def test_websocket_in_front_of_a_websocket() -> None:
    """Lanes are the client's: the provider gets none, and the answer has that of the create."""
    upstream = SocketUpstream(echo)
    async with asked_over_websocket(upstream) as app, connected(app) as client:
        first = await client.ask(create("Hi.", stream_id="a"))
        expected = response_events("resp_1", [text_item("It is 1.")])
        assert first == [{**each, "stream_id": "a"} for each in expected]
        second = await client.ask(create("And?", stream_id="a", previous_response_id="resp_1"))
        assert second[-1]["response"]["output"] == [text_item("It is 2.")]
    assert not any("stream_id" in sent for sent in upstream.creates)
    assert len(upstream.sockets) == 1


async def test_answer_of_the_log_comes_over_a_websocket() -> None:
    upstream = SocketUpstream(echo)
    headers = [("host", "here"), ("content-type", "application/json")]
    headers.append(("x-streamnorm-stream", "a" * 32))
    async with asked_over_websocket(upstream, log=LogConfig(url="memory:")) as app:
        request = {**MESSAGES, "messages": said("Hi.")}
        bodies = [
            b"".join((await called(app, ANTHROPIC, request, headers=headers)).bodies)
            for _ in range(2)
        ]
    assert [text_of(body) for body in bodies] == ["It is 1.", "It is 1."]
    assert len(upstream.creates) == 1


async def test_gateway_behind_a_gateway() -> None:
    """What one sends as an upstream's client, the other takes as a client's upstream."""
    provider = FakeProvider(["One.", "Two.", "Three."])
    async with served_gateway(provider.app(), has_websockets=True) as behind:
        config = UpstreamConfig(
            dialect="openai_responses", base_url=behind.url, transport="websocket"
        )
        async with opened({"local": config}) as app:
            turns = ["Hi."]
            for text in ("One.", "Two.", "Three."):
                status, body = await ask(app, *turns)
                assert (status, text_of(body)) == (200, text)
                turns += [text, "And?"]
            status, body = await ask(app, "Another.")  # there is no further answer
            assert status >= 400
    assert [len(request.body["messages"]) for request in provider.requests[:3]] == [1, 3, 5]


@needs_corpus
async def test_rebuilt_transcripts_pass() -> None:
    """A client over HTTP gets each event of the vendor as it came."""
    folder = Path(os.environ["STREAMNORM_CORPUS"]) / "responses-websocket"
    paths = [path for path in sorted(folder.glob("*__*.jsonl")) if path.name[:4] != "made"]
    assert len(paths) == 24
    for path in paths:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        (sent,) = [line["data"] for line in lines if line["at"] == "client"]
        events = [line["data"] for line in lines if line["at"] == "server"]

        async def answer(
            upstream: SocketUpstream, socket: ServerConnection, _: Any, events: Any = events
        ) -> None:
            await upstream.send(socket, *events)

        upstream = SocketUpstream(answer)
        async with asked_over_websocket(upstream) as app:
            fields = {name: sent[name] for name in sent if name not in ("type", "stream")}
            caller = await called(app, "/v1/responses", {**fields, "stream": True})
        data = [line[6:] for line in b"".join(caller.bodies).splitlines() if line[:1] == b"d"]
        assert list(map(json.loads, data)) == events, path.name
        (create_sent,) = upstream.creates
        for name in fields:
            if name not in ("include", "stream_options", "background"):
                assert create_sent[name] == fields[name], (path.name, name)


async def test_failure_behind_a_refused_increment_is_not_the_answer_to_the_next_create() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        if "previous_response_id" not in sent:
            await echo(upstream, socket, sent)
            return
        error = {"code": "previous_response_not_found", "message": "not found"}
        failed = {"id": "resp_x", "object": "response", "status": "failed", "output": []}
        for message in (
            event("error", status=400, error=error),
            event("response.failed", response={**failed, "error": error}),
        ):
            socket.protocol.send_text(json.dumps(message).encode())
        socket.send_data()  # both in one segment

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        await ask(app, "Hi.")
        status, body = await ask(app, "Hi.", "It is 1.", "And?")
    assert (status, text_of(body)) == (200, "It is 3.")
    assert len(upstream.sockets) == 2
