"""Errors, recordings and faults of a script as HTTP responses, in both dialects."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.http.provider_requests import PATHS, ask, chat, message_in, messages, request_for

from streamnorm import (
    Failed,
    MessageStart,
    MessageStop,
    Outcome,
    StreamError,
    Truncated,
    decode_message,
)
from streamnorm.codec import decoder
from streamnorm.recording import Recording, RecordingError, UnrecordedRequest
from streamnorm.recording.faults import cut, http, truncate
from streamnorm.recording.format import (
    Companion,
    Playback,
    RecordedRead,
    RecordedResponse,
    WireRequest,
)
from streamnorm.testing import FakeProvider
from streamnorm.validation import validate

DIALECTS = pytest.mark.parametrize("request_of", [chat, messages])
Asking = Callable[..., WireRequest]


def outcome_of(playback: Playback) -> Outcome | None:
    reader = decoder(playback.dialect)
    reader.feed(playback.body)
    reader.close()
    return reader.outcome


# Errors


def test_error_alone_is_an_error_response_of_the_dialect() -> None:
    provider = FakeProvider(StreamError("upstream", "Too many.", status_hint=429))
    answer = provider.respond(messages())
    assert (answer.status, answer.headers["content-type"]) == (429, "application/json")
    assert json.loads(answer.body) == {
        "type": "error",
        "error": {"type": "rate_limit_error", "message": "Too many."},
    }
    error = json.loads(provider.respond(chat()).body)["error"]
    assert (error["message"], error["type"]) == ("Too many.", "rate_limit_error")


def test_error_without_a_status_is_a_500() -> None:
    assert FakeProvider([StreamError("upstream", "Oops.")]).respond(chat()).status == 500


@pytest.mark.parametrize("status", [-1, 0, 101, 200, 302, 399, 600, 999])
@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize("answer", [["It snows"], []], ids=["after text", "alone"])
def test_error_with_the_status_of_no_error_is_a_500(
    answer: list[Any], dialect: str, status: int
) -> None:
    """RFC 9110, section 15: the statuses of errors are 400 to 599."""
    error = StreamError("upstream", "Oops.", status_hint=status)
    playback = FakeProvider([[*answer, error]]).respond(request_for(dialect, stream=False))
    assert playback.status == 500
    body = json.loads(playback.body)["error"]
    assert body["message"] == "Oops."
    # Google's APIs repeat the status in the body.
    assert dialect != "gemini" or (body["code"], body["status"]) == (500, "INTERNAL")


@pytest.mark.parametrize("status", [400, 599])
def test_error_with_the_status_of_an_error_has_it(status: int) -> None:
    error = StreamError("upstream", "Oops.", status_hint=status)
    assert FakeProvider(error).respond(chat()).status == status


def test_error_within_a_stream_of_gemini_has_the_status_of_an_error() -> None:
    error = StreamError("upstream", "Oops.", status_hint=200)
    playback = FakeProvider([["It snows", error]]).respond(request_for("gemini", stream=True))
    assert playback.status == 200
    assert b'"code":500,"message":"Oops.","status":"INTERNAL"' in playback.body


@DIALECTS
def test_error_after_text_is_an_event_of_the_dialect(request_of: Asking) -> None:
    error = StreamError("upstream", "Overloaded.", status_hint=529)
    playback = FakeProvider([["It snows", error]]).respond(request_of())
    assert (playback.status, playback.end) == (200, "eof")
    outcome = outcome_of(playback)
    assert isinstance(outcome, Failed)
    assert outcome.error.message == "Overloaded."
    message = message_in(playback)
    assert (message.text, message.stop_reason) == ("It snows", None)


@DIALECTS
@pytest.mark.parametrize(
    ("kind", "end"), [("transport", "reset"), ("stalled", "timeout"), ("truncated", "eof")]
)
def test_error_of_the_connection_ends_it(request_of: Asking, kind: Any, end: str) -> None:
    playback = FakeProvider([["It snows", StreamError(kind, "gone")]]).respond(request_of())
    assert playback.end == end
    assert b"gone" not in playback.body
    assert message_in(playback).text == "It snows"
    outcome = outcome_of(playback)
    assert isinstance(outcome, Truncated)
    assert outcome.error.kind == "truncated"


def test_error_of_the_connection_alone_ends_it_before_the_first_byte() -> None:
    playback = FakeProvider([StreamError("transport", "gone")]).respond(chat())
    assert (playback.status, playback.body, playback.end) == (200, b"", "reset")


# Whole bodies


@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize("answer", [["It snows"], []], ids=["after text", "alone"])
def test_error_takes_the_place_of_a_whole_body(answer: list[Any], dialect: str) -> None:
    error = StreamError("upstream", "Overloaded.", status_hint=529)
    playback = FakeProvider([[*answer, error]]).respond(request_for(dialect, stream=False))
    assert (playback.status, playback.headers["content-type"]) == (529, "application/json")
    assert json.loads(playback.body)["error"]["message"] == "Overloaded."
    assert b"It snows" not in playback.body


@pytest.mark.parametrize(
    ("kind", "end"), [("transport", "reset"), ("stalled", "timeout"), ("truncated", "eof")]
)
@pytest.mark.parametrize("answer", [["It snows"], []], ids=["after text", "alone"])
def test_error_of_the_connection_ends_it_before_a_whole_body(
    answer: list[Any], kind: Any, end: str
) -> None:
    request = request_for("anthropic", stream=False)
    playback = FakeProvider([[*answer, StreamError(kind, "gone")]]).respond(request)
    assert (playback.status, playback.body, playback.end) == (200, b"", end)


def test_events_are_written_as_a_whole_body() -> None:
    events = [MessageStart("m", "own-1"), MessageStop("end_turn")]
    playback = FakeProvider([events]).respond(request_for("anthropic", stream=False))
    body = json.loads(playback.body)
    assert (body["id"], body["model"], body["content"]) == ("m", "own-1", [])
    assert body["stop_reason"] == "end_turn"


def test_fault_changes_a_whole_body() -> None:
    provider = FakeProvider([["It snows", truncate(byte=9)], http(503), "Hello"])
    request = request_for("openai_chat", stream=False)
    playbacks = [provider.respond(request) for _ in range(3)]
    assert [playback.status for playback in playbacks] == [200, 503, 200]
    assert len(playbacks[0].body) == 9


# Recordings


CHAT = (
    b'data: {"id":"r1","object":"chat.completion.chunk","created":1,"model":"rec-1","choices":'
    b'[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}]}\n\n'
)
CHAT_END = (
    b'data: {"id":"r1","object":"chat.completion.chunk","created":1,"model":"rec-1","choices":'
    b'[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


def recording(body: bytes = CHAT + CHAT_END, **companion: Any) -> Recording:
    reads = companion.pop("reads", None)
    return Recording(body, Companion(1, **{"dialect": "openai_chat", **companion}), reads=reads)


def test_recording_of_the_same_dialect_is_played_unchanged() -> None:
    recorded = recording(CHAT[:9], reads=[RecordedRead(20, 4), RecordedRead(30, 5)])
    assert FakeProvider([recorded]).respond(chat()) == recorded.playback()


@pytest.mark.parametrize("dialect", ["openai_chat", None])
def test_recording_of_another_dialect_is_transcoded_with_its_timing(dialect: str | None) -> None:
    reads = [
        RecordedRead(100, 10),
        RecordedRead(50, len(CHAT) - 10),
        RecordedRead(25, len(CHAT_END)),
    ]
    provider = FakeProvider([recording(dialect=dialect, reads=reads)])
    playback = provider.respond(messages())
    assert validate(playback.body, "anthropic") == []
    assert [step.delay_s for step in playback.steps] == pytest.approx([0.15, 0.025])
    message = message_in(playback)
    assert (message.text, message.id, message.model) == ("Hi", "r1", "rec-1")
    assert {loss.feature for loss in provider.losses} == {"usage_unknown"}


def test_recording_without_a_dialect_is_detected() -> None:
    playback = FakeProvider([recording(dialect=None)]).respond(chat())
    assert playback == recording().playback()


def test_truncated_recording_is_truncated_in_another_dialect() -> None:
    playback = FakeProvider([recording(CHAT)]).respond(messages())
    assert playback.end == "eof"
    assert b"error" not in playback.body
    assert isinstance(outcome_of(playback), Truncated)


def test_recording_without_done_is_complete_in_another_dialect() -> None:
    lenient = recording((CHAT + CHAT_END).removesuffix(b"data: [DONE]\n\n"))
    assert ask(FakeProvider([lenient]), messages()).stop_reason == "end_turn"


def test_chunks_without_output_add_their_delay_to_the_next() -> None:
    reads = [RecordedRead(100, 10), RecordedRead(40, 10), RecordedRead(50, len(CHAT) - 20)]
    playback = FakeProvider([recording(CHAT, reads=reads)]).respond(messages())
    assert [step.delay_s for step in playback.steps] == pytest.approx([0.19])


def test_broken_recording_is_broken_in_another_dialect() -> None:
    cut_off = recording(CHAT, response=RecordedResponse(end="reset"))
    playback = FakeProvider([cut_off]).respond(messages())
    assert playback.end == "reset"
    assert isinstance(outcome_of(playback), Truncated)
    assert message_in(playback).text == "Hi"


def test_recorded_error_response_is_translated() -> None:
    body = b'{"error":{"message":"Too many.","type":"rate_limit_error","code":null}}'
    refused = recording(body, response=RecordedResponse(430, {}, ".body.json"))
    playback = FakeProvider([refused]).respond(messages())
    assert playback.status == 430
    assert json.loads(playback.body)["error"] == {
        "type": "rate_limit_error",
        "message": "Too many.",
    }


def test_recorded_error_with_status_200_is_an_error_in_another_dialect() -> None:
    """Some servers of Chat Completions answer so; a client of Anthropic goes by the status."""
    body = b'{"error":{"message":"Too many.","type":"rate_limit_error","code":null}}'
    refused = recording(body, response=RecordedResponse(200, {}, ".body.json"))
    assert FakeProvider([refused]).respond(chat()).status == 200
    playback = FakeProvider([refused]).respond(messages())
    assert playback.status == 429
    assert json.loads(playback.body)["error"]["message"] == "Too many."


WHOLE = {
    "id": "r1",
    "object": "chat.completion",
    "created": 1,
    "model": "rec-1",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Hi", "refusal": None},
        }
    ],
}


def whole(body: Any = WHOLE, **companion: Any) -> Recording:
    response = RecordedResponse(200, {}, ".body.json")
    return recording(json.dumps(body).encode(), response=response, **companion)


def test_recorded_whole_body_is_played_unchanged_in_its_dialect() -> None:
    recorded = whole()
    for stream in (True, False):
        assert FakeProvider(recorded).respond(chat(stream=stream)) == recorded.playback()


@pytest.mark.parametrize("dialect", ["openai_chat", None])
def test_recorded_whole_body_is_translated_into_either_form(dialect: str | None) -> None:
    provider = FakeProvider(whole(dialect=dialect))
    streamed = ask(provider, messages())
    playback = provider.respond(request_for("anthropic", stream=False))
    for message in (streamed, decode_message(playback.body, "anthropic")):
        assert (message.id, message.model, message.text) == ("r1", "rec-1", "Hi")
        assert message.stop_reason == "end_turn"


@pytest.mark.parametrize("body", [{"object": "list", "data": []}, [], {}])
def test_recorded_body_that_is_no_answer_is_not_translated(body: Any) -> None:
    with pytest.raises(UnrecordedRequest, match="is no stream and no answer of dialect openai_cha"):
        FakeProvider(whole(body)).respond(messages())


@pytest.mark.parametrize("dialect", PATHS)
def test_recorded_stream_is_answered_as_a_whole_body_when_it_had_ended(dialect: str) -> None:
    reads = [RecordedRead(100, len(CHAT)), RecordedRead(25, len(CHAT_END))]
    provider = FakeProvider([recording(reads=reads)])
    playback = provider.respond(request_for(dialect, stream=False))
    assert (playback.status, playback.headers["content-type"]) == (200, "application/json")
    assert [step.delay_s for step in playback.steps] == pytest.approx([0.125])
    message = decode_message(playback.body, dialect)
    assert message.id.removeprefix("resp_") == "r1"
    assert (message.model, message.text) == ("rec-1", "Hi")


@pytest.mark.parametrize(("end", "expected"), [("reset", "reset"), ("timeout", "timeout")])
def test_recorded_stream_that_broke_off_is_no_whole_body(end: Any, expected: str) -> None:
    broken = recording(CHAT, response=RecordedResponse(end=end))
    playback = FakeProvider([broken]).respond(request_for("anthropic", stream=False))
    assert (playback.body, playback.end) == (b"", expected)


def test_recorded_stream_that_was_not_recorded_to_its_end_has_no_whole_body() -> None:
    open_end = recording(CHAT, response=RecordedResponse(end="aborted"))
    words = r"^no whole body of anthropic for the answer: "
    with pytest.raises(UnrecordedRequest, match=words):
        FakeProvider([open_end]).respond(request_for("anthropic", stream=False))


def test_path_of_a_recording_is_played(tmp_path: Path) -> None:
    recording().save(tmp_path / "hello.sse")
    assert ask(FakeProvider([tmp_path / "hello.sse"]), chat()).text == "Hi"
    with pytest.raises(RecordingError, match=r"bye\.sse"):
        FakeProvider([tmp_path / "bye.sse"])


# Faults


def test_fault_in_a_list_changes_that_answer() -> None:
    provider = FakeProvider([["It snows", truncate(byte=9)], "Hello"])
    assert len(provider.respond(chat()).body) == 9
    assert ask(provider, chat()).text == "Hello"


def test_fault_changes_a_recording() -> None:
    playback = FakeProvider([[recording(), cut(byte=12)]]).respond(chat())
    assert (playback.body, playback.end) == (CHAT[:12], "reset")


@DIALECTS
def test_error_response_fault_answers_as_often_as_times(request_of: Asking) -> None:
    provider = FakeProvider([http(529, times=2), http(500), "Hello"])
    answers = [provider.respond(request_of()) for _ in range(4)]
    assert [answer.status for answer in answers] == [529, 529, 500, 200]
    assert "error" in json.loads(answers[0].body)
    assert message_in(answers[3]).id == "msg_4"
