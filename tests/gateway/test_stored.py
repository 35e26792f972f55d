"""Stored responses at a gateway, which stores none itself."""

from __future__ import annotations

import pytest
from support.gateway.calls import CANARY, NOWHERE, asked, body_of, called, opened, scripted
from support.gateway.servers import served
from support.http.scripted_upstream import Answered, ScriptedUpstream

from streamnorm.gateway import UpstreamConfig

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/v1/responses/resp_1"),
        ("DELETE", "/v1/responses/resp_1"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("GET", "/v1/responses/resp_1/input_items?limit=5"),
    ],
)
async def test_stored_response_is_not_found(method: str, target: str) -> None:
    async with opened() as app:
        status, body = await asked(app, target, method=method)
    assert status == 404
    assert body == {
        "error": {
            "message": "Response with id 'resp_1' not found.",
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        }
    }


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/v1/responses/resp_1?include[]=x"),
        ("DELETE", "/v1/responses/resp_1"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("GET", "/v1/responses/resp_1/input_items?limit=5"),
        ("POST", "/v1/responses/compact"),
    ],
)
async def test_request_for_a_stored_response_passes_to_an_upstream_that_has_one(
    method: str, target: str
) -> None:
    answer = Answered({"id": "resp_1", "status": "completed"}, 200, {"x-request-id": "r"})
    answers = {target.partition("?")[0]: answer}
    body = {"model": "m", "input": "Hi."} if target.endswith("compact") else None
    async with scripted(answers, "openai_responses") as (app, upstream):
        status, found = await asked(app, target, body, method=method)
    assert (status, found) == (200, answer.body)
    [request] = upstream.requests
    assert (request.method, request.target.replace("%5B%5D", "[]")) == (method, target)


async def test_error_of_an_upstream_that_stores_responses_passes() -> None:
    error = {"error": {"message": "No.", "type": "invalid_request_error", "code": "x"}}
    answers = {"/v1/responses/resp_1": Answered(error, 404)}
    async with scripted(answers, "openai_responses") as (app, _):
        status, found = await asked(app, "/v1/responses/resp_1", method="GET")
    assert (status, found) == (404, error)


STORED = {"id": "resp_1", "object": "response", "status": "completed", "output": []}
STORED_PATH = "/v1/responses/resp_1"


@pytest.mark.parametrize("content_type", ["application/json; a=€", "text/html", "a\tb"])
async def test_stored_response_of_an_upstream_is_json_whatever_it_is_called(
    content_type: str,
) -> None:
    answer = Answered(STORED, headers={"content-type": content_type})
    async with scripted({STORED_PATH: answer}, "openai_responses") as (app, _):
        caller = await called(app, STORED_PATH, method="GET")
    assert (caller.status, body_of(caller)) == (200, STORED)
    assert caller.headers["content-type"] == "application/json"


async def test_key_in_the_error_of_a_stored_response_is_not_shown() -> None:
    error = {"error": {"message": f"no such key: {CANARY}", "type": "x", "code": None}}
    upstream = ScriptedUpstream({STORED_PATH: Answered(error, 401)})
    async with served(upstream) as url:
        own = UpstreamConfig(dialect="openai_responses", base_url=url, key="env:KEY")
        async with opened({"local": own}, environ={"KEY": CANARY}) as app:
            caller = await called(app, STORED_PATH, method="GET")
    assert caller.status == 401
    assert CANARY not in str(caller.messages)


RESUMED = f"{STORED_PATH}?stream=true&starting_after=5"
DELTA = (
    b"event: response.output_text.delta\n"
    b'data: {"type":"response.output_text.delta","sequence_number":6,"item_id":"i",'
    b'"output_index":0,"content_index":0,"delta":"Hi."}\n\n'
)
DONE = (
    b"event: response.completed\n"
    b'data: {"type":"response.completed","sequence_number":7,"response":{"id":"resp_1",'
    b'"object":"response","created_at":1,"status":"completed","model":"m","output":[]}}\n\n'
)
EVENTS = {"content-type": "text/event-stream"}


async def test_stream_of_a_stored_response_is_resumed_unchanged() -> None:
    answer = Answered(DELTA + DONE, headers=EVENTS)
    async with scripted({RESUMED: answer}, "openai_responses") as (app, _):
        caller = await called(app, RESUMED, method="GET")
    assert (caller.status, b"".join(caller.bodies)) == (200, DELTA + DONE)
    assert caller.headers["content-type"].startswith("text/event-stream")


async def test_resumed_stream_that_is_cut_ends_with_an_error() -> None:
    answer = Answered(DELTA, headers=EVENTS)
    async with scripted({RESUMED: answer}, "openai_responses") as (app, _):
        caller = await called(app, RESUMED, method="GET")
    kept, _, added = b"".join(caller.bodies).partition(DELTA)
    assert (kept, b'"type":"error"' in added, b'"sequence_number":7' in added) == (b"", True, True)


async def test_stream_that_cannot_be_resumed_is_an_error() -> None:
    error = {"error": {"message": "No.", "type": "invalid_request_error", "code": None}}
    async with scripted({RESUMED: Answered(error, 404)}, "openai_responses") as (app, _):
        status, body = await asked(app, RESUMED, method="GET")
    assert (status, body["error"]["message"]) == (404, "No.")
    async with opened(NOWHERE, dialect="openai_responses") as app:
        status, _ = await asked(app, RESUMED, method="GET")
    assert status == 502


INTERACTION = "/v1beta/interactions/v1_a"
STEP = (
    b"event: step.delta\n"
    b'data: {"index":0,"delta":{"text":"Hi.","type":"text"},"event_type":"step.delta",'
    b'"event_id":"e6"}\n\n'
)
COMPLETED = (
    b"event: interaction.completed\n"
    b'data: {"interaction":{"id":"v1_a","status":"completed","object":"interaction",'
    b'"model":"m"},"event_type":"interaction.completed"}\n\n'
    b"event: done\ndata: [DONE]\n\n"
)


@pytest.mark.parametrize(
    ("method", "target", "answer"),
    [
        ("GET", f"{INTERACTION}?include_input=true", {"id": "v1_a", "status": "in_progress"}),
        ("DELETE", INTERACTION, {}),
        ("POST", f"{INTERACTION}/cancel", {"id": "v1_a", "status": "cancelled"}),
    ],
)
async def test_request_for_an_interaction_passes_to_an_upstream_of_the_api(
    method: str, target: str, answer: dict[str, str]
) -> None:
    answers = {target.partition("?")[0]: Answered(answer, 200)}
    async with scripted(answers, "gemini_interactions") as (app, upstream):
        status, found = await asked(app, target, method=method)
    assert (status, found) == (200, answer)
    [request] = upstream.requests
    assert (request.method, request.target) == (method, target)


async def test_stream_of_an_interaction_is_resumed_unchanged() -> None:
    target = f"{INTERACTION}?stream=true&last_event_id=e5"
    answers = {target: Answered(STEP + COMPLETED, headers=EVENTS)}
    async with scripted(answers, "gemini_interactions") as (app, _):
        caller = await called(app, target, method="GET")
    assert (caller.status, b"".join(caller.bodies)) == (200, STEP + COMPLETED)


async def test_resumed_interaction_that_is_cut_ends_with_an_error() -> None:
    target = f"{INTERACTION}?stream=true&last_event_id=e5"
    answers = {target: Answered(STEP, headers=EVENTS)}
    async with scripted(answers, "gemini_interactions") as (app, _):
        caller = await called(app, target, method="GET")
    kept, _, added = b"".join(caller.bodies).partition(STEP)
    assert (kept, added.startswith(b"event: error\n")) == (b"", True)


async def test_interaction_of_an_upstream_is_continued_there() -> None:
    answer = {"id": "v1_b", "status": "completed", "object": "interaction", "steps": []}
    async with scripted({"/v1beta/interactions": Answered(answer)}, "gemini_interactions") as (
        app,
        upstream,
    ):
        body = {"model": "m", "input": "2", "previous_interaction_id": "v1_a"}
        status, found = await asked(app, "/v1beta/interactions", body)
    assert (status, found) == (200, answer)
    [request] = upstream.requests
    assert request.json == body


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("DELETE", ""), ("POST", "/cancel")])
async def test_interaction_is_not_found_where_no_upstream_has_any(method: str, path: str) -> None:
    async with opened() as app:
        status, body = await asked(app, INTERACTION + path, method=method)
    message = "Interaction with id 'v1_a' not found."
    assert (status, body) == (
        404,
        {"error": {"code": 404, "message": message, "status": "NOT_FOUND"}},
    )
