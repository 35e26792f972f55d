"""What a fake provider's response repeats of its request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.http.provider_requests import PATHS, chat, post, request_for

from streamnorm.recording import Recording
from streamnorm.recording.format import Companion, Playback
from streamnorm.testing import FakeProvider

TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
ASKED: dict[str, Any] = {
    "instructions": "Be brief.",
    "max_output_tokens": 99,
    "metadata": {"run": "7"},
    "parallel_tool_calls": False,
    "previous_response_id": "resp_7",
    "prompt_cache_key": "agent",
    "reasoning": {"effort": "low"},
    "safety_identifier": "u1",
    "store": False,
    "temperature": 0.2,
    "text": {"verbosity": "low"},
    "tool_choice": "required",
    "tools": [TOOL],
    "top_p": 0.9,
    "truncation": "auto",
}
ECHOED = ASKED | {
    # A response has all fields of an object that the request names in part.
    "reasoning": {"effort": "low", "summary": None},
    "text": {"verbosity": "low", "format": {"type": "text"}},
    "tools": [{**TOOL, "description": None, "strict": None}],
}


def responses_in(playback: Playback) -> list[dict[str, Any]]:
    """Return each response object in an answer of Responses."""
    if playback.headers["content-type"] == "application/json":
        return [json.loads(playback.body)]
    lines = [line[6:] for line in playback.body.split(b"\n") if line.startswith(b"data: {")]
    return [event["response"] for line in lines if "response" in (event := json.loads(line))]


def ask(provider: FakeProvider, **more: Any) -> list[dict[str, Any]]:
    body = {"model": "gpt-5", "input": "Hi.", **more}
    return responses_in(provider.respond(post("https://h/v1/responses", body)))


@pytest.mark.parametrize(("stream", "count"), [(True, 3), (False, 1)])
def test_response_repeats_the_options_of_its_request(stream: bool, count: int) -> None:
    found = ask(FakeProvider("It snows."), stream=stream, **ASKED)
    assert len(found) == count
    for response in found:
        assert {name: response[name] for name in ECHOED} == ECHOED
        assert (response["id"], response["background"]) == ("resp_1", False)


@pytest.mark.parametrize("stream", [True, False])
def test_response_without_options_has_the_defaults_of_the_vendor(stream: bool) -> None:
    for response in ask(FakeProvider("It snows."), stream=stream):
        assert (response["store"], response["previous_response_id"]) == (True, None)
        assert (response["instructions"], response["tools"]) == (None, [])
        assert (response["temperature"], response["metadata"]) == (1.0, {})


def test_translated_recording_repeats_the_options_of_its_request() -> None:
    stream = FakeProvider("It snows.").respond(chat()).body
    recorded = Recording(stream, Companion(1, "openai_chat"))
    for streamed in (True, False):
        for response in ask(FakeProvider(recorded), stream=streamed, **ASKED):
            assert {name: response[name] for name in ECHOED} == ECHOED


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", [name for name in PATHS if name != "openai_responses"])
def test_other_answers_repeat_nothing_of_their_request(dialect: str, stream: bool) -> None:
    request = request_for(dialect, stream=stream)
    body = {**json.loads(request.body or b""), "metadata": {"run": "repeated"}, "store": False}
    assert b"repeated" not in FakeProvider("It snows.").respond(post(request.url, body)).body


def test_interaction_repeats_the_interaction_that_it_continues() -> None:
    body = {"model": "gemini-3-flash", "input": "Hi.", "previous_interaction_id": "i7"}
    answer = FakeProvider("It snows.").respond(post("https://h/v1beta/interactions", body))
    assert json.loads(answer.body)["previous_interaction_id"] == "i7"


@pytest.mark.parametrize("body", [{"tools": 1, "metadata": [1], "text": None}, {"store": "yes"}])
def test_options_of_other_types_do_no_harm(body: dict[str, Any]) -> None:
    (response,) = ask(FakeProvider("It snows."), **body)
    assert response["output"][0]["content"][0]["text"] == "It snows."
