"""Errors as each provider writes them: as a response of their own, and within a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamnorm.recording import faults
from streamnorm.recording.format import Playback, Step

HEAD = {"content-type": "text/event-stream", "x-request-id": "r1"}
CHUNK = b'data: {"object":"chat.completion.chunk","choices":[]}\n\n'


def answer(body: bytes, dialect: str | None = None) -> Playback:
    return Playback(200, HEAD, (Step(1, body),), "reset", dialect)


def frames(data: bytes, newline: str = "\n") -> list[tuple[str | None, Any]]:
    """Return name and JSON of events that each are as their provider writes them."""
    *blocks, rest = data.decode().split(newline * 2)
    assert rest in ("", ":")  # Gemini's errors end in an event that is not finished
    found: list[tuple[str | None, Any]] = []
    for block in blocks:
        *names, line = block.split(newline)
        name = names[0].removeprefix("event: ") if names else None
        assert line.startswith("data: ")
        found.append((name, json.loads(line[6:])))
    return found


@pytest.mark.parametrize(
    ("status", "type"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (402, "billing_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ],
)
def test_anthropic_has_a_type_for_each_status(status: int, type: str) -> None:
    faulty = faults.http(status)(answer(b"", "anthropic"))
    value = json.loads(faulty.body)
    assert faulty.status == status
    assert (value["type"], value["error"].pop("type")) == ("error", type)
    assert list(value["error"]) == ["message"]
    assert str(status) in value["error"]["message"]


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", None])
@pytest.mark.parametrize(
    ("status", "type", "code"),
    [
        (400, "invalid_request_error", None),
        (401, "invalid_request_error", "invalid_api_key"),
        (404, "invalid_request_error", "model_not_found"),
        (429, "rate_limit_error", "rate_limit_exceeded"),
        (500, "server_error", None),
        (503, "server_error", "overloaded"),
    ],
)
def test_openai_has_a_type_and_a_code(
    dialect: str | None, status: int, type: str, code: str | None
) -> None:
    faulty = faults.http(status)(answer(b"", dialect))
    error = json.loads(faulty.body)["error"]
    assert (faulty.status, error["type"], error["code"]) == (status, type, code)
    assert error["param"] is None
    assert str(status) in error["message"]


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (400, "INVALID_ARGUMENT"),
        (401, "UNAUTHENTICATED"),
        (403, "PERMISSION_DENIED"),
        (404, "NOT_FOUND"),
        (409, "ABORTED"),
        (422, "INVALID_ARGUMENT"),
        (429, "RESOURCE_EXHAUSTED"),
        (499, "CANCELLED"),
        (500, "INTERNAL"),
        (501, "UNIMPLEMENTED"),
        (502, "INTERNAL"),
        (503, "UNAVAILABLE"),
        (504, "DEADLINE_EXCEEDED"),
    ],
)
def test_gemini_has_the_status_as_number_and_name(status: int, word: str) -> None:
    error = json.loads(faults.http(status)(answer(b"", "gemini")).body)["error"]
    assert (error["code"], error["status"]) == (status, word)
    assert str(status) in error["message"]


def test_error_body_follows_the_detected_dialect() -> None:
    ping = b'event: ping\ndata: {"type":"ping"}\n\n'
    start = b'event: message_start\ndata: {"type":"message_start","message":{"id":"m"}}\n\n'
    error = json.loads(faults.http(500)(answer(ping + start)).body)
    assert (error["type"], error["error"]["type"]) == ("error", "api_error")


def test_error_response_is_complete_in_one_chunk() -> None:
    faulty = faults.http(401)(answer(CHUNK))
    assert faulty.headers == {"content-type": "application/json"}
    assert [step.delay_s for step in faulty.steps] == [0]
    assert faulty.end == "eof"


@pytest.mark.parametrize(
    ("status", "after"), [(429, True), (503, True), (529, True), (400, False), (500, False)]
)
def test_retryable_error_has_a_short_retry_after(status: int, after: bool) -> None:
    """To the official SDKs 0 says nothing; they read milliseconds first."""
    headers = faults.http(status)(answer(CHUNK)).headers
    assert headers.get("retry-after") == ("0" if after else None)
    assert headers.get("retry-after-ms") == ("1" if after else None)


def test_only_http_faults_replace_answers_as_often_as_times() -> None:
    fault = faults.http(500)
    assert (fault.replaces, fault.times) == (True, 1)
    assert faults.http(500, times=3).times == 3
    assert faults.http(500, times=None).times is None
    for other in (faults.cut(byte=0), faults.content_type(), faults.drop_terminal()):
        assert (other.replaces, other.times) == (False, None)


def test_content_type_changes_nothing_else() -> None:
    before = answer(CHUNK)
    faulty = faults.content_type("text/plain")(before)
    assert faulty.headers == {"content-type": "text/plain", "x-request-id": "r1"}
    assert (faulty.steps, faulty.end, faulty.status) == (before.steps, "reset", 200)
    assert before.headers == HEAD


def test_error_event_of_anthropic_has_an_event_name() -> None:
    ping = b'event: ping\ndata: {"type":"ping"}\n\n'
    faulty = faults.error_event(event=1)(answer(ping + ping, "anthropic"))
    assert faulty.end == "eof"
    assert faulty.steps[0] == Step(1, ping)
    ((name, value),) = frames(faulty.steps[1].data)
    assert (name, value["type"], value["error"]["type"]) == ("error", "error", "overloaded_error")


def test_error_event_of_chat_is_data_alone_and_no_done_follows() -> None:
    faulty = faults.error_event(event=-1)(answer(CHUNK + b"data: [DONE]\n\n"))
    assert faulty.steps[0].data == CHUNK
    ((name, value),) = frames(faulty.steps[1].data)
    assert (name, list(value)) == (None, ["error"])
    assert (value["error"]["type"], value["error"]["code"]) == ("server_error", "overloaded")


def test_error_event_of_gemini_has_the_error_as_its_only_member() -> None:
    body = b'data: {"candidates":[]}\r\n\r\n'
    for before, place in ((body, len(body)), (b"", 0)):
        faulty = faults.error_event(byte=place)(answer(before, "gemini"))
        ((name, value),) = frames(faulty.steps[-1].data, "\r\n")
        assert (name, list(value)) == (None, ["error"])
        assert (value["error"]["code"], value["error"]["status"]) == (503, "UNAVAILABLE")


def test_error_event_of_responses_is_followed_by_response_failed() -> None:
    created = (
        b'event: response.created\ndata: {"type":"response.created","sequence_number":0,'
        b'"response":{"id":"resp_1","status":"in_progress","error":null,"output":[]}}\n\n'
    )
    delta = (
        b"event: response.output_text.delta\n"
        b'data: {"type":"response.output_text.delta","sequence_number":4,"delta":"a"}\n\n'
    )
    faulty = faults.error_event(event=2)(answer(created + delta + delta))
    (name, error), (last, failed) = frames(faulty.steps[-1].data)
    assert (name, error["type"], error["sequence_number"]) == ("error", "error", 5)
    assert error["code"] == error["error"]["code"] == "server_is_overloaded"
    assert error["message"] == error["error"]["message"]
    assert (last, failed["type"]) == ("response.failed", "response.failed")
    assert failed["sequence_number"] == 6
    assert failed["response"] == {
        "id": "resp_1",
        "status": "failed",
        "error": {"code": "server_is_overloaded", "message": error["message"]},
        "output": [],
    }


def test_error_event_of_responses_before_the_response_is_alone() -> None:
    faulty = faults.error_event(byte=0)(answer(b": hello\n\n", "openai_responses"))
    ((name, error),) = frames(faulty.body)
    assert (name, error["sequence_number"]) == ("error", 0)


@pytest.mark.parametrize(
    ("byte", "kept"), [(0, 0), (1, 0), (55, 1), (56, 1), (110, 2), (111, 2), (117, 2)]
)
def test_error_event_is_inserted_between_events(byte: int, kept: int) -> None:
    assert len(CHUNK) == 55
    faulty = faults.error_event(byte=byte)(answer(CHUNK + CHUNK + b"data: {", "openai_chat"))
    whole, error = CHUNK * kept, faulty.steps[-1].data
    assert faulty.body == whole + error
    assert len(frames(error)) == 1


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_error_event_has_the_line_ends_of_the_stream(newline: str) -> None:
    body = b'data: {"type":"ping"}\n\n'.replace(b"\n", newline.encode())
    faulty = faults.error_event(byte=len(body))(answer(body, "anthropic"))
    ((name, _),) = frames(faulty.steps[-1].data, newline)
    assert name == "error"
