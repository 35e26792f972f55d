"""Responses' state at a gateway that stores none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.gateway.calls import asked, called, opened
from support.gateway.observers import RecordingObserver
from support.gateway.servers import served
from support.http.scripted_upstream import ScriptedUpstream

from streamnorm.gateway import ModelConfig, UpstreamConfig
from streamnorm.sse import SSEDecoder
from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.anyio

RESPONSES = "/v1/responses"
REQUEST: dict[str, Any] = {"model": "m", "input": [{"role": "user", "content": "Hi."}]}
UPSTREAMS = ["openai_chat", "anthropic", "gemini", "gemini_interactions"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", UPSTREAMS)
@pytest.mark.parametrize(
    ("more", "message", "param", "code"),
    [
        (
            {"previous_response_id": "resp_1"},
            "Previous response with id 'resp_1' not found. "
            "Send the whole conversation as `input` instead.",
            "previous_response_id",
            "previous_response_not_found",
        ),
        (
            {"input": [*REQUEST["input"], {"type": "item_reference", "id": "msg_7"}]},
            "Item with id 'msg_7' not found. Items are not persisted when `store` is set to "
            "false. Try again with `store` set to true, or remove this item from your input.",
            "input",
            "invalid_prompt",
        ),
        (
            {"input": [{"id": "rs_7"}]},
            "Item with id 'rs_7' not found. Items are not persisted when `store` is set to "
            "false. Try again with `store` set to true, or remove this item from your input.",
            "input",
            "invalid_prompt",
        ),
        *[
            (
                more,
                f"Unsupported parameter: '{name}' is not supported by this provider.",
                name,
                "unsupported_parameter",
            )
            for name, more in (
                ("conversation", {"conversation": "conv_1"}),
                ("conversation", {"conversation": {"id": "conv_1"}}),
                ("background", {"background": True}),
                ("prompt", {"prompt": {"id": "p"}}),
            )
        ],
    ],
)
async def test_state_that_is_not_stored_is_refused(
    dialect: str, more: dict[str, Any], message: str, param: str, code: str, *, stream: bool
) -> None:
    async with opened(dialect=dialect) as app:
        status, body = await asked(app, RESPONSES, {**REQUEST, **more, "stream": stream})
    assert status == 400
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    assert body == {"error": error}


@pytest.mark.parametrize("dialect", UPSTREAMS)
@pytest.mark.parametrize(
    ("more", "is_lost"),
    [
        ({}, True),
        ({"store": True}, True),
        ({"store": None}, True),
        ({"store": False}, False),
        ({"background": False, "previous_response_id": None, "conversation": None}, True),
    ],
)
async def test_answer_says_that_it_is_not_stored(
    dialect: str, more: dict[str, Any], *, is_lost: bool
) -> None:
    calls = RecordingObserver()
    provider = FakeProvider(["Hi.", "Hi."])
    async with (
        served(provider.app()) as url,
        opened(url, dialect=dialect, observers=(calls,)) as app,
    ):
        status, body = await asked(app, RESPONSES, {**REQUEST, **more})
        assert (status, body["store"]) == (200, False)
        caller = await called(app, RESPONSES, {**REQUEST, **more, "stream": True})
    frames = SSEDecoder().feed(b"".join(caller.bodies))
    responses = [json.loads(frame.data).get("response") for frame in frames]
    assert {response["store"] for response in responses if response} == {False}
    assert frames[-1].event == "response.completed"
    if is_lost:
        assert [call.losses["store"] for call in calls.ended] == [1, 1]


async def test_upstream_of_the_dialect_has_state_of_its_own() -> None:
    upstream = ScriptedUpstream({})
    bodies = [
        json.dumps({**REQUEST, **state}).encode()
        for state in ({"previous_response_id": "resp_1"}, {"conversation": "c"})
    ]
    async with served(upstream) as url, opened(url, dialect="openai_responses") as app:
        for body in bodies:
            await asked(app, RESPONSES, body)
    assert [request.body for request in upstream.requests] == bodies


async def test_answer_in_the_background_of_the_upstream_passes() -> None:
    queued = {"id": "resp_1", "object": "response", "status": "queued", "output": []}
    upstream = ScriptedUpstream({RESPONSES: queued})
    async with served(upstream) as url, opened(url, dialect="openai_responses") as app:
        answer = await asked(app, RESPONSES, {**REQUEST, "background": True})
    assert answer == (200, queued)


async def test_fallback_to_another_dialect_has_no_state() -> None:
    upstream = ScriptedUpstream({})  # answers with 404
    async with served(upstream) as url:
        upstreams = {
            "native": UpstreamConfig(dialect="openai_responses", base_url=url),
            "chat": UpstreamConfig(dialect="openai_chat", base_url=url),
        }
        models = [ModelConfig(match="*", to=["native", "chat"])]
        async with opened(upstreams, models=models) as app:
            body = {**REQUEST, "previous_response_id": "resp_1"}
            status, _ = await asked(app, RESPONSES, body)
    assert status == 404  # of the upstream that was asked
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("dialect", UPSTREAMS)
@pytest.mark.parametrize(
    "more", [{"store": 5}, {"previous_response_id": 5}, {"input": 5}, {"input": ["a"]}]
)
async def test_state_of_a_wrong_type_is_refused(dialect: str, more: dict[str, Any]) -> None:
    async with opened(dialect=dialect) as app:
        status, body = await asked(app, RESPONSES, {**REQUEST, **more})
    assert (status, body["error"]["type"]) == (400, "invalid_request_error")
