"""Responses that are continued on a WebSocket, also where nothing is stored."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.gateway.calls import asked, opened
from support.gateway.servers import served
from support.gateway.sockets import Socket, connected, create
from support.gateway.upstreams import ANSWER, StepUpstream

from streamnorm import Reasoning, StreamError
from streamnorm.gateway import UpstreamConfig
from streamnorm.gateway.websocket_state import ConnectionState, Histories, History
from streamnorm.state import MemoryStore, StoredResponse, StoreError
from streamnorm.testing import FakeProvider, FakeRequest, tool_call

pytestmark = pytest.mark.anyio

UPSTREAMS = (
    "openai_chat",
    "anthropic",
    "gemini",
    "openai_responses",
    "bedrock_converse",
    "gemini_interactions",
)
NOT_FOUND = "previous_response_not_found"


def said(body: dict[str, Any]) -> list[str]:
    """Return the texts of the messages that an upstream of Chat Completions was sent."""
    return [message["content"] for message in body["messages"]]


async def completed(socket: Socket, message: dict[str, Any]) -> dict[str, Any]:
    """Return the response that a create is answered with."""
    last = (await socket.ask(message))[-1]
    assert last["type"] == "response.completed", last
    response: dict[str, Any] = last["response"]
    return response


async def code_of(socket: Socket, message: dict[str, Any]) -> tuple[int, str]:
    (event,) = await socket.ask(message)
    return event["status"], event["error"]["code"]


async def test_latest_response_is_continued_although_it_is_not_stored() -> None:
    upstream = FakeProvider(["1", "2", "3"])
    async with served(upstream.app()) as url, opened(url) as app, connected(app) as socket:
        first = await completed(socket, create("one"))
        assert (first["store"], first["previous_response_id"]) == (False, None)
        events = await socket.ask(create("two", previous_response_id=first["id"]))
        for event in (events[0], events[1], events[-1]):
            assert event["response"]["previous_response_id"] == first["id"]
        second = events[-1]["response"]
        third = await completed(socket, create("three", previous_response_id=second["id"]))
        assert third["previous_response_id"] == second["id"]
    assert said(upstream.requests[-1].body) == ["one", "1", "two", "2", "three"]


async def test_older_response_is_not_found_and_the_whole_input_is() -> None:
    """The client then sends everything without the id, once."""
    upstream = FakeProvider("Hi.")
    async with served(upstream.app()) as url, opened(url) as app, connected(app) as socket:
        first = await completed(socket, create("one"))
        await completed(socket, create("two", previous_response_id=first["id"]))
        again = create("three", previous_response_id=first["id"])
        assert await code_of(socket, again) == (400, NOT_FOUND)
        assert await code_of(socket, create("x", previous_response_id="resp_x")) == (400, NOT_FOUND)
        await completed(socket, create("all of it"))


async def test_instructions_and_tools_are_not_inherited() -> None:
    upstream = FakeProvider("Hi.")
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    async with served(upstream.app()) as url, opened(url) as app, connected(app) as socket:
        first = await completed(socket, create("one", instructions="Be brief.", tools=[tool]))
        await completed(socket, create("two", previous_response_id=first["id"]))
    body = upstream.requests[-1].body
    assert said(body) == ["one", "Hi.", "two"]
    assert "tools" not in body


async def test_lane_forks_from_the_response_of_another_one() -> None:
    upstream = FakeProvider("Hi.")
    async with served(upstream.app()) as url, opened(url) as app, connected(app) as socket:
        first = await completed(socket, create("one", stream_id="a"))
        for lane in ("b", "c"):
            fork = create(lane, stream_id=lane, previous_response_id=first["id"])
            await completed(socket, fork)
            assert said(upstream.requests[-1].body) == ["one", "Hi.", lane]
        own = create("two", stream_id="a", previous_response_id=first["id"])
        await completed(socket, own)
        assert said(upstream.requests[-1].body) == ["one", "Hi.", "two"]
        late = create("d", stream_id="d", previous_response_id=first["id"])
        assert await code_of(socket, late) == (400, NOT_FOUND)


async def test_lanes_whose_responses_have_one_id_keep_their_histories_apart() -> None:
    """Some servers give all their messages the same id."""
    chunk = json.loads(ANSWER[0][6:]) | {"id": "chatcmpl-1"}
    begin = f"data: {json.dumps(chunk)}\n\n".encode()
    upstream = StepUpstream([begin, *ANSWER[1:]])
    async with served(upstream) as url, opened(url) as app, connected(app) as socket:
        ids = [(await completed(socket, create(lane, stream_id=lane)))["id"] for lane in ("a", "b")]
        assert ids[0] == ids[1]
        for lane in ("a", "b"):
            await completed(socket, create("on", stream_id=lane, previous_response_id=ids[0]))
            assert said(upstream.requests[-1])[0] == lane


async def test_response_of_another_connection_is_not_found() -> None:
    """Also with the same key, and after the connection has ended."""
    upstream = FakeProvider("Hi.")
    async with served(upstream.app()) as url, opened(url) as app:
        async with connected(app) as socket, connected(app) as other:
            first = await completed(socket, create("one"))
            again = create("two", previous_response_id=first["id"])
            assert await code_of(other, again) == (400, NOT_FOUND)
        async with connected(app) as socket:
            assert await code_of(socket, again) == (400, NOT_FOUND)


async def test_failed_request_evicts_the_response_that_it_named() -> None:
    upstream = FakeProvider(["1", StreamError("upstream", "Slow.", status_hint=429), "3"])
    async with served(upstream.app()) as url, opened(url) as app, connected(app) as socket:
        first = await completed(socket, create("one"))
        again = create("two", previous_response_id=first["id"])
        assert (await code_of(socket, again))[0] == 429
        assert await code_of(socket, again) == (400, NOT_FOUND)


async def test_response_that_failed_cannot_be_continued_and_the_one_before_can() -> None:
    failing = [FakeProvider, StreamError("transport", "Cut.")]
    upstream = FakeProvider(["1", ["2 ", failing[1]], "3"])
    async with served(upstream.app()) as url, opened(url) as app, connected(app) as socket:
        first = await completed(socket, create("one"))
        again = create("two", previous_response_id=first["id"])
        (*_, last) = await socket.ask(again)
        assert last["type"] == "response.failed"
        wrong = create("x", previous_response_id=last["response"]["id"])
        assert await code_of(socket, wrong) == (400, NOT_FOUND)
        await completed(socket, again)
    assert said(upstream.requests[-1].body) == ["one", "1", "two"]


async def test_incomplete_response_can_be_continued() -> None:
    chunk = json.loads(ANSWER[1][6:])
    chunk["choices"][0]["finish_reason"] = "length"
    end = f"data: {json.dumps(chunk)}\n\n".encode()
    upstream = StepUpstream([ANSWER[0], end, ANSWER[2]], [*ANSWER])
    async with served(upstream) as url, opened(url) as app, connected(app) as socket:
        (*_, last) = await socket.ask(create("one"))
        assert last["type"] == "response.incomplete"
        await completed(socket, create("go on", previous_response_id=last["response"]["id"]))
    assert said(upstream.requests[-1]) == ["one", "ab", "go on"]


async def test_prepared_response_asks_no_model_and_can_be_continued() -> None:
    """As Codex sends it ahead of its first prompt; the delta behind it may be empty."""
    upstream = FakeProvider("Hi.")
    async with served(upstream.app()) as url, opened(url) as app, connected(app) as socket:
        prepared = create([], instructions="Be brief.", tools=[], generate=False, stream_id="a")
        events = await socket.ask(prepared)
        assert [event["type"] for event in events] == [
            "response.created",
            "response.in_progress",
            "response.completed",
        ]
        assert all(event["stream_id"] == "a" for event in events)
        response = events[-1]["response"]
        assert (response["output"], response["instructions"]) == ([], "Be brief.")
        assert response["usage"]["total_tokens"] == 0
        assert not upstream.requests
        more = create("one", stream_id="a", previous_response_id=response["id"])
        await completed(socket, more)
        assert said(upstream.requests[-1].body) == ["one"]
        second = await completed(socket, create("two", generate=False, stream_id="b"))
        empty = create([], stream_id="b", previous_response_id=second["id"])
        await completed(socket, empty)
        assert said(upstream.requests[-1].body) == ["two"]


async def test_prepared_response_names_one_that_is_known() -> None:
    for dialect in ("openai_chat", "openai_responses"):
        upstream = FakeProvider("Hi.")
        async with (
            served(upstream.app()) as url,
            opened(url, dialect=dialect) as app,
            connected(app) as socket,
        ):
            unknown = create("x", generate=False, previous_response_id="resp_x")
            assert await code_of(socket, unknown) == (400, NOT_FOUND)
            first = await completed(socket, create("one"))
            more = create("two", generate=False, previous_response_id=first["id"])
            second = await completed(socket, more)
            assert second["previous_response_id"] == first["id"]
            await completed(socket, create("three", previous_response_id=second["id"]))
        said = json.dumps(upstream.requests[-1].body)
        assert [said.count(text) for text in ('"one"', "Hi.", '"two"', '"three"')] == [1, 1, 1, 1]


async def test_state_of_an_upstream_of_the_dialect_is_asked_for_what_is_not_known_here() -> None:
    """It may have stored the response for a request over HTTP."""
    upstream = FakeProvider("Hi.")
    async with (
        served(upstream.app()) as url,
        opened(url, dialect="openai_responses") as app,
        connected(app) as socket,
    ):
        message = create("one", previous_response_id="resp_theirs", store=True)
        first = await completed(socket, message)
        assert upstream.requests[-1].body["previous_response_id"] == "resp_theirs"
        await completed(socket, create("two", previous_response_id=first["id"], store=True))
        assert upstream.requests[-1].body["previous_response_id"] == first["id"]


async def test_stored_response_is_continued_on_any_connection_and_over_http(state: str) -> None:
    upstream = FakeProvider(["1", "2", "3", "4"])
    async with served(upstream.app()) as url, opened(url, state=state) as app:
        async with connected(app) as socket:
            first = await completed(socket, create("one", store=True))
            assert first["store"] is True
            unstored = create("two", previous_response_id=first["id"])
            second = await completed(socket, unstored)
            assert second["store"] is False
        async with connected(app) as socket:
            more = create("three", previous_response_id=second["id"])
            assert await code_of(socket, more) == (400, NOT_FOUND)
            third = await completed(
                socket, create("three", previous_response_id=first["id"], store=True)
            )
        body = {"model": "m", "input": "four", "previous_response_id": third["id"]}
        status, _ = await asked(app, "/v1/responses", body)
        assert status == 200
    assert said(upstream.requests[-1].body) == ["one", "1", "three", "3", "four"]


async def test_response_that_continues_an_unstored_one_is_stored_with_its_whole_input(
    state: str,
) -> None:
    upstream = FakeProvider(["1", "2", "3"])
    async with served(upstream.app()) as url, opened(url, state=state) as app:
        async with connected(app) as socket:
            first = await completed(socket, create("one"))
            more = create("two", previous_response_id=first["id"], store=True)
            second = await completed(socket, more)
            assert (second["store"], second["previous_response_id"]) == (True, first["id"])
            prepared = create(
                "three", previous_response_id=second["id"], store=True, generate=False
            )
            third = await completed(socket, prepared)
        body = {"model": "m", "input": "four", "previous_response_id": third["id"]}
        status, _ = await asked(app, "/v1/responses", body)
        assert status == 200
    assert said(upstream.requests[-1].body) == ["one", "1", "two", "2", "three", "four"]


def agent(dialect: str) -> list[Any]:
    """Return the answers of an upstream, with reasoning that its vendor has signed."""
    issuer, id = {
        "anthropic": ("anthropic", None),
        "openai_responses": ("openai", "rs_1_0"),  # the item in which it is valid
    }.get(dialect, (None, None))
    reasoning = Reasoning(("Look.",), None if issuer is None else "c2ln", issuer, id)
    return [
        [reasoning, "I look.", tool_call("get_weather", city="Oslo", unit="°C")],
        [tool_call("get_weather", city="Rome"), tool_call("get_time", zone="\u00e9\n")],
        "It snows.",
        "It snows there, too.",
    ]


TOOLS = [
    {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}}
    for name in ("get_weather", "get_time")
]


ENCRYPTED = ["reasoning.encrypted_content"]


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


async def run_agent(socket: Socket, *, sends_increments: bool) -> list[list[str]]:
    """Run an agent as Codex does; return the JSON of the items of each answer.

    It appends the items of each answer, as it has parsed them, and the results of its calls.
    """
    history: list[Any] = [user("Weather?")]
    sent, previous = 0, None
    answers = []
    for turn in range(4):
        known = {"previous_response_id": previous} if sends_increments and previous else {}
        items = history[sent:] if known else history
        await socket.say(create(items, tools=TOOLS, include=ENCRYPTED, **known))  # type: ignore[arg-type]
        done: list[str] = []
        output: list[Any] = []
        while True:
            text = await socket.next_text() or ""
            event = json.loads(text)
            if event["type"] == "response.output_item.done":
                item = json.dumps(event["item"], separators=(",", ":"), ensure_ascii=False)
                assert item in text
                done.append(item)
                output.append(event["item"])
            elif event["type"] == "response.completed":
                assert event["response"]["output"] == output
                break
            assert event["type"] not in ("error", "response.failed"), event
        answers.append(done)
        sent = len(history) + len(output)
        previous = event["response"]["id"]
        history += output
        calls = [item for item in output if item["type"] == "function_call"]
        history += [
            {"type": "function_call_output", "call_id": call["call_id"], "output": "snow"}
            for call in calls
        ] or [user(f"And {turn}?")]
    return answers


async def test_increments_are_the_requests_that_the_whole_input_would_be() -> None:
    """Codex sends an increment only if its input begins with all that it has sent and received.

    What is sent as `response.output_item.done` must be what the next request has in its place.
    """
    for dialect in UPSTREAMS:
        requests: list[list[FakeRequest]] = []
        for sends_increments in (True, False):
            upstream = FakeProvider(agent(dialect))
            async with (
                served(upstream.app()) as url,
                opened(url, dialect=dialect) as app,
                connected(app) as socket,
            ):
                answers = await run_agent(socket, sends_increments=sends_increments)
            requests.append([*upstream.requests])
            if dialect == "openai_responses":  # byte for byte, in their order
                last = json.dumps(upstream.requests[-1].body, separators=(",", ":"))
                last = json.dumps(json.loads(last), separators=(",", ":"), ensure_ascii=False)
                at = [last.index(item) for answer in answers[:-1] for item in answer]
                assert at == sorted(at)
        increments, whole = [[request.body for request in sent] for sent in requests]
        assert increments == whole, dialect


async def test_reasoning_that_nobody_stores_is_asked_for_and_sent_back() -> None:
    """OpenAI refuses reasoning without its encrypted content, where it has not stored it."""
    for settings in ({}, {"state": "memory:"}):
        upstream = FakeProvider(agent("openai_responses"), model="gpt-5.2")
        async with (
            served(upstream.app(), stands_for=None) as url,
            opened(url, dialect="openai_responses", **settings) as app,
            connected(app) as socket,
        ):
            message = {**create([], tools=TOOLS), "model": "gpt-5.2"}  # type: ignore[arg-type]
            first = await completed(socket, {**message, "input": [user("Weather?")]})
            call = first["output"][-1]
            result = {"type": "function_call_output", "call_id": call["call_id"], "output": "snow"}
            known = {"input": [result], "previous_response_id": first["id"]}
            await completed(socket, {**message, **known})
        for request in upstream.requests:
            assert request.body["include"] == ENCRYPTED
        reasoning = upstream.requests[-1].body["input"][1]
        assert (reasoning["type"], bool(reasoning["encrypted_content"])) == ("reasoning", True)


async def test_history_beyond_the_bound_of_a_request_is_not_kept() -> None:
    upstream = FakeProvider("Hi.")
    async with (
        served(upstream.app()) as url,
        opened(url, max_body_bytes=2000) as app,
        connected(app) as socket,
    ):
        first = await completed(socket, create("x" * 1500))
        again = create("y" * 400, previous_response_id=first["id"])
        (event,) = await socket.ask(again)
        assert event["status"] == 400
        second = await completed(socket, create("x" * 1800))
        assert await code_of(socket, create("y", previous_response_id=second["id"])) == (
            400,
            NOT_FOUND,
        )


def test_histories_beyond_the_bound_are_forgotten_the_one_that_was_not_used_first() -> None:
    histories = Histories(3 * (100 + 64))
    first, second = ConnectionState(histories, 1000), ConnectionState(histories, 1000)
    first.put("a", History.of("1", (b"x" * 100,)))
    first.put("b", History.of("2", (b"x" * 100,)))
    second.put(None, History.of("1", (b"x" * 100,)))
    assert first.find("a", "1") is not None
    second.put("c", History.of("3", (b"x" * 100,)))
    assert first.find("b", "2") is None
    assert first.find("a", "1") is not None
    assert second.find(None, "1") is not None
    second.close()
    assert histories.size == 164
    first.evict("1")
    first.evict("unknown")
    first.close()
    assert histories.size == 0


async def test_connections_leave_nothing_behind() -> None:
    upstream = FakeProvider("Hi.")
    async with served(upstream.app()) as url, opened(url) as app:
        for _ in range(3):
            async with connected(app) as socket:
                first = await completed(socket, create("one", stream_id="a"))
                await completed(socket, create("two", previous_response_id=first["id"]))
                assert app._websockets.histories.size > 0
        assert app._websockets.histories.size == 0
        assert len([task for task in asyncio.all_tasks() if "run_lane" in repr(task)]) == 0


async def test_upstreams_that_share_a_conversation_get_its_whole_history() -> None:
    """Each turn may go to another upstream, of another dialect."""
    providers = [FakeProvider(["1", "3"]), FakeProvider(["2", "4"])]
    async with (
        served(providers[0].app()) as chat,
        served(providers[1].app()) as messages,
        opened(
            {
                "chat": UpstreamConfig(dialect="openai_chat", base_url=chat),
                "messages": UpstreamConfig(dialect="anthropic", base_url=messages),
            }
        ) as app,
        connected(app) as socket,
    ):
        previous: dict[str, Any] = {}
        for number in range(2):
            response = await completed(socket, create(f"turn {number}", **previous))
            previous = {"previous_response_id": response["id"]}
    assert said(providers[0].requests[-1].body) == ["turn 0", "1", "turn 1"]


async def test_result_without_its_call_is_refused_and_evicts_what_it_continues() -> None:
    """As the compliance suite of Open Responses demands it."""
    upstream = FakeProvider("OK.")
    orphan = [{"type": "function_call_output", "call_id": "call_x", "output": "x"}]
    async with served(upstream.app()) as url, opened(url) as app, connected(app) as socket:
        first = await completed(socket, create("Remember ember."))
        known = {"previous_response_id": first["id"]}
        (event,) = await socket.ask({**create(), "input": orphan, **known})
        assert event["status"] == 400
        assert await code_of(socket, create("Which?", **known)) == (400, NOT_FOUND)
    assert len(upstream.requests) == 1


async def test_compacted_conversation_begins_a_new_chain() -> None:
    upstream = FakeProvider(["1", "A summary.", "3", "4"])
    async with served(upstream.app()) as url, opened(url) as app:
        async with connected(app) as socket:
            await completed(socket, create("one"))
        status, compacted = await asked(
            app, "/v1/responses/compact", {"model": "m", "input": [user("one")]}
        )
        assert status == 200
        async with connected(app) as socket:
            message = {**create(), "input": [*compacted["output"], user("two")]}
            response = await completed(socket, message)
            more = create("three", previous_response_id=response["id"])
            await completed(socket, more)
    assert "A summary." in json.dumps(upstream.requests[-1].body)


class FullStore(MemoryStore):
    """A store that has room for no response."""

    def put(self, scope: str, response: StoredResponse) -> None:
        raise StoreError("full")


async def test_response_that_cannot_be_stored_is_continued_on_its_connection_alone() -> None:
    upstream = FakeProvider("Hi.")
    async with served(upstream.app()) as url, opened(url, store=FullStore()) as app:
        async with connected(app) as socket:
            prepared = await completed(socket, create("one", generate=False, store=True))
            assert prepared["store"] is False
            known = {"previous_response_id": prepared["id"]}
            first = await completed(socket, create("two", store=True, **known))
            assert first["store"] is False
            known = {"previous_response_id": first["id"]}
            await completed(socket, create("three", **known))
            assert said(upstream.requests[-1].body) == ["one", "two", "Hi.", "three"]
        async with connected(app) as socket:
            assert await code_of(socket, create("x", **known)) == (400, NOT_FOUND)
