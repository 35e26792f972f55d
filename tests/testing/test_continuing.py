"""A strict fake provider and requests that continue a response."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.http.provider_requests import post

from streamnorm import Message, StreamError, Text
from streamnorm.recording import Recording
from streamnorm.recording.faults import http
from streamnorm.recording.format import Companion, WireRequest
from streamnorm.testing import FakeProvider

NOT_FOUND = "previous_response_not_found"


def create(**more: Any) -> WireRequest:
    return post("https://h/v1/responses", {"model": "gpt-5", "input": "Hi.", **more})


def message(**more: Any) -> WireRequest:
    """Return a create on a WebSocket."""
    body = {"type": "response.create", "model": "gpt-5", "input": "Hi.", **more}
    return post("wss://h/v1/responses", body)


def code_of(provider: FakeProvider, request: WireRequest) -> str | None:
    playback = provider.respond(request)
    if playback.status == 200:
        return None
    assert playback.status == 400
    code: str = json.loads(playback.body)["error"]["code"]
    return code


@pytest.mark.parametrize("stream", [True, False])
def test_unknown_response_is_not_found(stream: bool) -> None:
    provider = FakeProvider(["It snows."], strict=True)
    refused = provider.respond(create(stream=stream, previous_response_id="resp_7"))
    assert refused.status == 400
    assert json.loads(refused.body) == {
        "error": {
            "message": "Previous response with id 'resp_7' not found.",
            "type": "invalid_request_error",
            "param": "previous_response_id",
            "code": "previous_response_not_found",
        }
    }
    (violation,) = provider.violations
    assert violation.path == "previous_response_id"
    assert provider.respond(create()).status == 200  # the turn is left


@pytest.mark.parametrize("stream", [True, False])
def test_response_that_was_given_is_continued(stream: bool) -> None:
    named = Message("resp_own", blocks=(Text("It snows."),))
    provider = FakeProvider(["Hello", named, "More"], strict=True)
    for id in (None, "resp_1", "resp_own"):
        assert code_of(provider, create(stream=stream, previous_response_id=id)) is None


def test_response_that_was_not_stored_is_not_found_over_http() -> None:
    provider = FakeProvider("It snows.", strict=True)
    assert code_of(provider, create(store=False)) is None
    assert code_of(provider, create(previous_response_id="resp_1")) == NOT_FOUND


def test_websocket_continues_what_was_given_without_storing() -> None:
    provider = FakeProvider(["One", "Two", "Three"], strict=True)
    assert code_of(provider, message(previous_response_id="resp_7")) == NOT_FOUND
    assert code_of(provider, message(store=False, generate=False)) is None
    assert code_of(provider, message(previous_response_id="resp_prepared")) is None
    assert code_of(provider, message(previous_response_id="resp_1", store=False)) is None
    assert code_of(provider, message(previous_response_id="resp_2", store=False)) is None
    assert code_of(provider, create(previous_response_id="resp_2")) == NOT_FOUND


def test_recorded_response_is_continued() -> None:
    body = FakeProvider(Message("r9", blocks=(Text("Hi"),))).respond(create(stream=True)).body
    recorded = Recording(body, Companion(1, "openai_responses"))
    provider = FakeProvider([recorded, "More"], strict=True)
    assert code_of(provider, create(stream=True)) is None
    assert code_of(provider, create(previous_response_id="resp_r9")) is None


def test_error_is_no_response_that_can_be_continued() -> None:
    provider = FakeProvider([StreamError("upstream", "No."), http(429), "Hello"], strict=True)
    assert [provider.respond(create()).status for _ in range(2)] == [500, 429]
    assert code_of(provider, create(previous_response_id="resp_1")) == NOT_FOUND


def test_provider_that_is_not_strict_continues_any_response() -> None:
    provider = FakeProvider("It snows.")
    assert code_of(provider, create(previous_response_id="resp_7")) is None


def test_unknown_id_is_quoted_in_part() -> None:
    provider = FakeProvider("It snows.", strict=True)
    refused = provider.respond(create(previous_response_id="r" * 10_000))
    assert len(refused.body) < 300


def test_unknown_interaction_is_refused() -> None:
    body = {"model": "gemini-3-flash", "input": "Hi.", "previous_interaction_id": "i7"}
    provider = FakeProvider("It snows.", strict=True)
    refused = provider.respond(post("https://h/v1beta/interactions", body))
    assert refused.status == 400
    assert json.loads(refused.body)["error"]["message"] == (
        "Previous interaction with id 'i7' not found."
    )
