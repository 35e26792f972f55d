"""State of several equal upstreams: each knows its own responses alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from support.gateway.calls import asked, body_of, called, opened
from support.gateway.servers import served
from support.http.scripted_upstream import Answered, ScriptedUpstream

from streamnorm.gateway import Gateway, ModelConfig, UpstreamConfig

pytestmark = pytest.mark.anyio

STORED = {"id": "resp_1", "object": "response", "status": "completed", "output": []}
PATH = "/v1/responses/resp_1"
UNKNOWN = {
    "error": {
        "message": "Previous response with id 'resp_1' not found.",
        "type": "invalid_request_error",
        "param": "previous_response_id",
        "code": "previous_response_not_found",
    }
}
NOT_THERE = Answered({"error": {"message": "No.", "type": "invalid_request_error"}}, 404)
SLOW = Answered({"error": {"message": "Slow.", "type": "requests", "code": "rate_limit"}}, 429)


@asynccontextmanager
async def balanced(
    *answers: Mapping[str, object], **settings: Any
) -> AsyncIterator[tuple[Gateway, list[ScriptedUpstream]]]:
    """Provide a gateway with equal upstreams of OpenAI's Responses API."""
    upstreams = [ScriptedUpstream(each) for each in answers]
    async with AsyncExitStack() as stack:
        entries = {
            f"u{number}": UpstreamConfig(
                dialect="openai_responses", base_url=await stack.enter_async_context(served(each))
            )
            for number, each in enumerate(upstreams)
        }
        models = [ModelConfig(match="*", to=[[*entries]], **settings)]
        yield await stack.enter_async_context(opened(entries, models=models)), upstreams


def counts(upstreams: list[ScriptedUpstream]) -> list[int]:
    return [len(upstream.requests) for upstream in upstreams]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", PATH), ("DELETE", PATH), ("POST", f"{PATH}/cancel"), ("GET", f"{PATH}/input_items")],
)
async def test_stored_response_is_found_at_the_upstream_that_has_it(method: str, path: str) -> None:
    answers = ({path: NOT_THERE}, {path: STORED}, {path: NOT_THERE})
    async with balanced(*answers) as (app, upstreams):
        status, found = await asked(app, path, method=method)
    assert (status, found) == (200, STORED)
    assert counts(upstreams) == [1, 1, 0]


async def test_stored_response_that_no_upstream_has_is_not_found() -> None:
    async with balanced({PATH: NOT_THERE}, {PATH: NOT_THERE}) as (app, upstreams):
        status, found = await asked(app, PATH, method="GET")
    assert (status, found) == (404, NOT_THERE.body)
    assert counts(upstreams) == [1, 1]


async def test_other_failure_of_a_stored_response_is_the_answer() -> None:
    async with balanced({PATH: SLOW}, {PATH: STORED}) as (app, upstreams):
        status, _ = await asked(app, PATH, method="GET")
    assert (status, counts(upstreams)) == (429, [1, 0])


async def test_stream_is_resumed_at_the_upstream_that_has_it() -> None:
    path = f"{PATH}?stream=true&starting_after=5"
    done = (
        b"event: response.completed\n"
        b'data: {"type":"response.completed","sequence_number":7,"response":{"id":"resp_1",'
        b'"object":"response","created_at":1,"status":"completed","model":"m","output":[]}}\n\n'
    )
    stream = Answered(done, headers={"content-type": "text/event-stream"})
    async with balanced({path: NOT_THERE}, {path: stream}) as (app, upstreams):
        caller = await called(app, path, method="GET")
    assert (caller.status, b"".join(caller.bodies)) == (200, done)
    assert counts(upstreams) == [1, 1]


async def test_stream_that_no_upstream_has_is_not_found() -> None:
    path = f"{PATH}?stream=true&starting_after=5"
    async with balanced({path: NOT_THERE}, {path: NOT_THERE}) as (app, upstreams):
        caller = await called(app, path, method="GET")
    assert (caller.status, body_of(caller)["error"]["message"]) == (404, "No.")
    assert counts(upstreams) == [1, 1]


@pytest.mark.parametrize("first", [0, 1])
async def test_conversation_goes_on_at_the_upstream_that_has_its_beginning(first: int) -> None:
    answers: list[Mapping[str, object]] = [
        {"/v1/responses": Answered(UNKNOWN, 400)},
        {"/v1/responses": {**STORED, "id": "resp_2", "model": "m"}},
    ]
    body = {"model": "m", "input": "More.", "previous_response_id": "resp_1"}
    async with balanced(*answers[first:], *answers[:first]) as (app, upstreams):
        status, found = await asked(app, "/v1/responses", body)
    assert (status, found["id"]) == (200, "resp_2")
    assert sum(counts(upstreams)) in (1, 2)


async def test_client_is_told_of_a_beginning_that_no_upstream_has() -> None:
    answers = {"/v1/responses": Answered(UNKNOWN, 400)}
    body = {"model": "m", "input": "More.", "previous_response_id": "resp_1"}
    async with balanced(answers, answers) as (app, upstreams):
        status, found = await asked(app, "/v1/responses", body)
    assert (status, found["error"]["code"]) == (400, "previous_response_not_found")
    assert counts(upstreams) == [1, 1]


@pytest.mark.parametrize("path", ["/v1/responses/compact", "/v1/responses/input_tokens"])
async def test_compaction_and_count_go_to_the_upstream_of_their_conversation(path: str) -> None:
    compacted = {"id": "c", "object": "response.compaction", "output": []}
    answer = compacted if path.endswith("compact") else {"input_tokens": 5}
    answers = {path: answer, "/v1/responses": {**STORED, "model": "m"}}
    async with balanced(answers, answers, answers) as (app, upstreams):
        for number in range(12):
            said = {"model": "m", "input": f"Question {number}"}
            before = counts(upstreams)
            assert (await asked(app, "/v1/responses", said))[0] == 200
            between = counts(upstreams)
            assert (await asked(app, path, said))[0] == 200
            after = counts(upstreams)
            moved = [b - a for a, b in zip(before, between, strict=True)]
            assert moved == [b - a for a, b in zip(between, after, strict=True)]
    assert min(counts(upstreams)) > 0


@pytest.mark.parametrize("path", ["/v1/responses/compact", "/v1/responses/input_tokens"])
async def test_compaction_and_count_fall_back_as_messages_do(path: str) -> None:
    compacted = {"id": "c", "object": "response.compaction", "output": []}
    answer = compacted if path.endswith("compact") else {"input_tokens": 5}
    said = {"model": "m", "input": "Hi."}
    async with balanced({path: SLOW}, {path: SLOW}, balance="round_robin") as (app, upstreams):
        status, _ = await asked(app, path, said)
        assert (status, counts(upstreams)) == (429, [1, 1])
    async with balanced({path: SLOW}, {path: answer}, balance="round_robin") as (app, upstreams):
        status, _ = await asked(app, path, said)
    assert (status, counts(upstreams)) == (200, [1, 1])
