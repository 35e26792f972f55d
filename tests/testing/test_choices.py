"""A fake provider and requests for several choices."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.http.provider_requests import chat, message_in, post

from streamnorm import (
    BlockStart,
    BlockStop,
    MessageStart,
    MessageStop,
    StreamError,
    Text,
    TextDelta,
)
from streamnorm.recording import Recording
from streamnorm.recording.faults import http
from streamnorm.recording.format import Companion, WireRequest
from streamnorm.testing import FakeProvider

FOUND = (
    "2 choices in one answer, a FakeProvider writes 1 unless it plays a recording"
    " or streams a list of events"
)
BOTH = [
    *(MessageStart("m", "own-1"), BlockStart(0, Text()), TextDelta(0, "One"), BlockStop(0)),
    *(BlockStart(1, Text(), choice=1), TextDelta(1, "Two"), BlockStop(1)),
    *(MessageStop("end_turn"), MessageStop("end_turn", choice=1)),
]


def gemini(count: object, *, stream: bool) -> WireRequest:
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    body = {"contents": [], "generationConfig": {"candidateCount": count}}
    return post(f"https://h/v1beta/models/m:{method}", body)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("turn", ["Hello", ["Hello"], lambda _: "Hello"])
def test_several_choices_are_refused(turn: Any, stream: bool) -> None:
    for request in (chat(n=2, stream=stream), gemini(2, stream=stream)):
        refused = FakeProvider(turn).respond(request)
        assert refused.status == 400
        assert json.loads(refused.body)["error"]["message"] == FOUND


def test_refused_request_uses_no_turn() -> None:
    provider = FakeProvider(["Hello"])
    assert provider.respond(chat(n=3)).status == 400
    assert message_in(provider.respond(chat())).text == "Hello"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("count", [1, 0, None, "2", 1.5])
def test_any_other_count_is_answered_with_one_choice(count: object, stream: bool) -> None:
    """What is no number of choices, a strict provider refuses by its rules."""
    for request in (chat(n=count, stream=stream), gemini(count, stream=stream)):
        assert FakeProvider("Hello").respond(request).status == 200


def test_request_without_an_object_is_streamed_one_choice() -> None:
    url = "https://h/v1beta/models/m:streamGenerateContent?alt=sse"
    for body in (None, [], "n"):
        assert FakeProvider("Hello").respond(post(url, body)).status == 200


def test_events_of_several_choices_are_streamed() -> None:
    streamed = FakeProvider([BOTH]).respond(chat(n=2))
    assert streamed.status == 200
    assert b'"index":1,"delta":{"content":"Two"}' in streamed.body
    assert FakeProvider([BOTH]).respond(chat(n=2, stream=False)).status == 400


def test_recording_answers_a_request_for_several_choices() -> None:
    recorded = Recording(FakeProvider([BOTH]).respond(chat(n=2)).body, Companion(1, "openai_chat"))
    assert FakeProvider(recorded).respond(chat(n=2)).body == recorded.body


def test_scripted_failure_answers_a_request_for_several_choices() -> None:
    script = [http(529), StreamError("upstream", "No.", status_hint=503)]
    for stream in (True, False):
        provider = FakeProvider(script)
        statuses = [provider.respond(chat(n=2, stream=stream)).status for _ in script]
        assert statuses == [529, 503]
