"""Responses' state at a gateway with a store: conversations, references, and stored responses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.gateway.calls import JSON, opened
from support.gateway.stateful_clients import (
    HISTORY,
    OTHER_KEY,
    PREVIOUS,
    UPSTREAMS,
    WEATHER,
    StateClient,
    history_in,
    not_found,
    provided,
)
from support.http.asgi_caller import Caller

from streamnorm.gateway import Gateway
from streamnorm.testing import FakeProvider, faults, tool_call

pytestmark = pytest.mark.anyio

streams = pytest.mark.parametrize("stream", [False, True])


def output_of(response: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the output of the call of a response."""
    [call] = [item for item in response["output"] if item["type"] == "function_call"]
    return {"type": "function_call_output", "call_id": call["call_id"], "output": text}


async def converse(client: StateClient, *, stream: bool) -> list[dict[str, Any]]:
    """Return the responses of three turns, of which the first calls a tool."""
    first = await client.create("Weather?", tools=[WEATHER], stream=stream)
    more = {"tools": [WEATHER], "stream": stream}
    second = await client.create(
        [output_of(first, "snow")], **more, previous_response_id=first["id"]
    )
    third = await client.create("Thanks.", **more, previous_response_id=second["id"])
    return [first, second, third]


def script() -> FakeProvider:
    return FakeProvider([tool_call("get_weather", city="Oslo"), "It snows.", "Bye."])


@streams
@pytest.mark.parametrize("dialect", UPSTREAMS)
async def test_upstream_is_sent_the_whole_conversation(dialect: str, *, stream: bool) -> None:
    provider = script()
    async with provided(provider, dialect) as app:
        responses = await converse(StateClient(app), stream=stream)
    assert history_in(provider, dialect) == HISTORY
    assert [response["store"] for response in responses] == [True] * 3
    assert len({response["id"] for response in responses}) == 3
    assert [response[PREVIOUS] for response in responses] == [
        None,
        responses[0]["id"],
        responses[1]["id"],
    ]


@streams
async def test_conversation_is_stored_in_each_kind_of_store(state: str, *, stream: bool) -> None:
    provider = script()
    async with provided(provider, state=state) as app:
        client = StateClient(app)
        responses = await converse(client, stream=stream)
        assert history_in(provider, "openai_chat") == HISTORY
        last = responses[-1]
        assert await client.ask("GET", last["id"]) == (200, last)
        status, page = await client.ask("GET", f"{last['id']}/input_items?order=asc")
        assert (status, page["has_more"]) == (200, False)
        assert [item["type"] for item in page["data"]] == [
            "message",
            "function_call",
            "function_call_output",
            "message",
            "message",
        ]
        status, body = await client.ask("POST", f"{last['id']}/cancel")
        assert (status, body["error"]["message"]) == (400, "Cannot cancel a synchronous response.")
        deleted = {"id": last["id"], "object": "response", "deleted": True}
        assert await client.ask("DELETE", last["id"]) == (200, deleted)
        assert await client.attempt("Hi.", previous_response_id=last["id"]) == (
            400,
            not_found(last["id"]),
        )


@streams
async def test_item_references_are_replaced_by_the_items(state: str, *, stream: bool) -> None:
    """The AI SDK sends the whole conversation, of answers only references to their items."""
    provider = script()
    async with provided(provider, state=state) as app:
        client = StateClient(app)
        said = [{"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]}]
        more = {"tools": [WEATHER], "stream": stream}
        for text in ("snow", None):
            response = await client.create(said, **more)
            said += [{"type": "item_reference", "id": item["id"]} for item in response["output"]]
            said += [{"role": "user", "content": "Thanks."}] if text is None else []
            said += [output_of(response, text)] if text is not None else []
        await client.create(said, **more)
    assert history_in(provider, "openai_chat") == HISTORY


@streams
async def test_request_that_is_not_to_be_stored_may_refer_to_what_is(*, stream: bool) -> None:
    provider = FakeProvider(["One.", "Two."])
    async with provided(provider) as app:
        client = StateClient(app)
        first = await client.create("1", stream=stream)
        more = {"store": False, "stream": stream, PREVIOUS: first["id"]}
        second = await client.create("2", **more)
        assert (second["store"], second[PREVIOUS]) == (False, first["id"])
        status, _ = await client.ask("GET", second["id"])
        assert status == 404
    assert history_in(provider, "openai_chat") == [
        ("user", "1"),
        ("assistant", "One."),
        ("user", "2"),
    ]


@streams
async def test_two_requests_may_continue_one_answer(state: str, *, stream: bool) -> None:
    provider = FakeProvider(["One.", "Two.", "Three."])
    async with provided(provider, state=state) as app:
        client = StateClient(app)
        first = await client.create("1", stream=stream)
        for text in ("2", "3"):
            await client.create(text, stream=stream, previous_response_id=first["id"])
            assert history_in(provider, "openai_chat") == [
                ("user", "1"),
                ("assistant", "One."),
                ("user", text),
            ]


class _EagerCaller(Caller):
    """A client that asks for the response as soon as the last bytes of it have arrived."""

    def __init__(self, app: Gateway, *, stream: bool) -> None:
        body = {"model": "m", "input": "Hi.", "stream": stream}
        headers = (*JSON, ("authorization", "Bearer key-of-a"))
        data = (json.dumps(body).encode(),)
        super().__init__("/v1/responses", method="POST", headers=headers, body=data)
        self._app = app
        self.found: tuple[int, Any] | None = None

    async def send(self, message: Any) -> None:
        await super().send(message)
        data = b"".join(self.bodies)
        if b'"status":"completed","' in data and b'"usage":{' in data and self.found is None:
            id = data.partition(b'"id":"')[2].partition(b'"')[0].decode()
            self.found = await StateClient(self._app).ask("GET", id)


@streams
async def test_answer_is_stored_before_its_last_bytes_are_sent(state: str, *, stream: bool) -> None:
    async with provided(FakeProvider("Hello there."), state=state) as app:
        caller = _EagerCaller(app, stream=stream)
        await caller.call(app)
    assert caller.found is not None
    assert caller.found[0] == 200


async def test_answer_that_was_cut_is_not_stored() -> None:
    provider = FakeProvider(["Hello there.", "Yes."], faults=[faults.cut(event=3)])
    async with provided(provider) as app:
        client = StateClient(app)
        status, events = await client.stream("Hi.")
        assert (status, events[-1]["type"]) == (200, "response.failed")
        id = events[0]["response"]["id"]
        assert (await client.ask("GET", id))[0] == 404
        assert await client.attempt("Hi.", previous_response_id=id) == (400, not_found(id))


@streams
async def test_answer_of_another_key_is_as_one_that_never_existed(
    state: str, *, stream: bool
) -> None:
    provider = FakeProvider(["One.", "Two."])
    async with provided(provider, state=state) as app:
        mine, other = StateClient(app), StateClient(app, OTHER_KEY)
        first = await mine.create("1", stream=stream)
        id, item = first["id"], first["output"][0]["id"]
        for unknown, reference in ((id, item), ("resp_0", "msg_0")):
            status, body = await other.attempt("2", stream=stream, previous_response_id=unknown)
            assert (status, body) == (400, not_found(unknown))
            references = [{"type": "item_reference", "id": reference}]
            status, body = await other.attempt(references, stream=stream)
            assert (status, body["error"]["param"]) == (400, "input")
            assert body["error"]["message"].startswith(f"Item with id '{reference}' not found.")
            for method, path in (
                ("GET", unknown),
                ("DELETE", unknown),
                ("POST", f"{unknown}/cancel"),
                ("GET", f"{unknown}/input_items"),
            ):
                status, body = await other.ask(method, path)
                message = f"Response with id '{unknown}' not found."
                assert (status, body["error"]["message"]) == (404, message)
        assert (await mine.ask("GET", id))[0] == 200  # and was not deleted
    assert len(provider.requests) == 1


async def test_forged_id_is_not_found(state: str) -> None:
    async with opened(state=state) as app:
        for id in ("", "resp_\x00", "a" * 100_000, "resp_'; DROP", "ünï", "../x", "*"):
            status, body = await StateClient(app).attempt("Hi.", previous_response_id=id)
            assert (status, body["error"]["code"]) == (400, "previous_response_not_found")
            assert len(body["error"]["message"]) < 300


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
async def test_state_of_another_kind_is_refused(dialect: str) -> None:
    async with opened(dialect=dialect, state="memory:") as app:
        for name, value in (
            ("background", True),
            ("conversation", "c"),
            ("conversation", {"id": "c"}),
            ("prompt", {"id": "p"}),
        ):
            status, body = await StateClient(app).attempt("Hi.", **{name: value})
            assert (status, body["error"]["param"]) == (400, name)
            assert body["error"]["code"] == "unsupported_parameter"


async def test_tokens_of_the_whole_conversation_are_counted() -> None:
    path = "input_tokens"
    async with provided(FakeProvider("A rather long answer. " * 20)) as app:
        client = StateClient(app)
        first = await client.create("Hi.")
        body = {"model": "m", "input": "Go on."}
        _, alone = await client.ask("POST", path, body)
        status, whole = await client.ask("POST", path, {**body, PREVIOUS: first["id"]})
        assert (status, whole["object"]) == (200, "response.input_tokens")
        assert whole["input_tokens"] > alone["input_tokens"] + 50
        unknown = {**body, PREVIOUS: "resp_0"}
        assert await client.ask("POST", path, unknown) == (400, not_found("resp_0"))


async def test_conversation_beyond_the_bound_of_a_request_is_refused(state: str) -> None:
    provider = FakeProvider("Yes.")
    async with provided(provider, state=state, max_body_bytes=4000) as app:
        client = StateClient(app)
        previous = None
        for _ in range(3):
            status, body = await client.attempt("x" * 1800, previous_response_id=previous)
            previous = body.get("id")
    assert status == 400
    assert "bytes" in body["error"]["message"]
    assert len(provider.requests) == 2


@streams
async def test_text_that_is_no_unicode_is_stored_as_it_is_read(state: str, *, stream: bool) -> None:
    provider = FakeProvider(["Half \ufffd.", "Yes."])
    async with provided(provider, state=state) as app:
        client = StateClient(app)
        first = await client.create("Half of \ud83d an emoji, and \x00.", stream=stream)
        await client.create("Well?", stream=stream, previous_response_id=first["id"])
        status, page = await client.ask("GET", f"{first['id']}/input_items")
    assert history_in(provider, "openai_chat") == [
        ("user", "Half of \ufffd an emoji, and \x00."),
        ("assistant", "Half \ufffd."),
        ("user", "Well?"),
    ]
    assert status == 200
    assert page["data"][0]["content"][0]["text"] == "Half of \ufffd an emoji, and \x00."


async def test_references_are_bounded() -> None:
    async with opened(state="memory:") as app:
        client = StateClient(app)
        references = [{"type": "item_reference", "id": f"msg_{n}"} for n in range(10_001)]
        status, body = await client.attempt(references)
        assert (status, body["error"]["param"]) == (400, "input")
        expected = "10001 references to items, expected at most 10000"
        assert body["error"]["message"] == expected
        _, body = await client.attempt(references[1:])
        assert body["error"]["message"].startswith("Item with id 'msg_1' not found.")
