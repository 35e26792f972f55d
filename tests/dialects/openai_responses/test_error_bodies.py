"""Error bodies and events of Responses' HTTP interface."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.openai_responses.frames import START, added
from support.openai_responses.item_deltas import ARGUMENTS, OPENING, SUMMARY, TEXT, item_delta, read

from streamnorm import StreamError
from streamnorm.dialects.openai_responses.outcome import (
    error_body,
    overloaded_frames,
    refusal_body,
)
from streamnorm.sse import Frame, SSEDecoder
from streamnorm.validation import RequestViolation


def payloads(data: bytes) -> list[Any]:
    """Return the payloads of events, each under the name of its type."""
    frames = SSEDecoder().feed(data)
    values = [json.loads(frame.data) for frame in frames]
    assert [value["type"] for value in values] == [frame.event for frame in frames]
    return values


@pytest.mark.parametrize(
    ("status", "type", "code"),
    [
        (429, "rate_limit_error", "rate_limit_exceeded"),
        (401, "invalid_request_error", "invalid_api_key"),
        (418, "invalid_request_error", None),
        (None, "server_error", None),
    ],
)
def test_error_body_has_the_type_and_code_of_its_status(
    status: int | None, type: str, code: str | None
) -> None:
    error = {"message": "no", "type": type, "param": None, "code": code}
    assert json.loads(error_body(StreamError("upstream", "no", None, status))) == {"error": error}


@pytest.mark.parametrize(
    ("violation", "type", "param", "code"),
    [
        (
            RequestViolation("r", "tools[0].type", "m"),
            "invalid_request_error",
            "tools[0].type",
            None,
        ),
        (RequestViolation("r", "", "m", code="x"), "invalid_request_error", None, "x"),
        (RequestViolation("r", "", "m", 403), "permission_error", None, None),
        (RequestViolation("r", "", "m", 500), "server_error", None, None),
        (RequestViolation("r", "", "m", 400, "own_error"), "own_error", None, None),
    ],
)
def test_refusal_names_the_parameter(
    violation: RequestViolation, type: str, param: str | None, code: str | None
) -> None:
    error = {"message": "m", "type": type, "param": param, "code": code}
    assert json.loads(refusal_body(violation)) == {"error": error}


def test_overloaded_server_sends_an_error_and_fails_the_response() -> None:
    created = {"type": "response.created", "sequence_number": 4, "response": {"id": "r"}}
    frames = [Frame("response.created", json.dumps(created))]
    error, failed = payloads(overloaded_frames("busy", frames, 1))
    assert (error["sequence_number"], error["code"]) == (5, "server_is_overloaded")
    assert error["error"]["message"] == error["message"] == "busy"
    assert failed["sequence_number"] == 6
    assert failed["response"] == {
        "id": "r",
        "status": "failed",
        "error": {"code": "server_is_overloaded", "message": "busy"},
    }


def test_overloaded_server_sends_an_error_alone_before_the_response() -> None:
    (error,) = payloads(overloaded_frames("busy", [], 0))
    assert (error["type"], error["sequence_number"]) == ("error", 0)


@pytest.mark.parametrize("opened", [TEXT, SUMMARY, ARGUMENTS, "server"])
@pytest.mark.parametrize("sent", [TEXT, SUMMARY, ARGUMENTS])
def test_delta_of_another_type_than_its_item_reads_as_in_full(opened: str, sent: str) -> None:
    deltas = [item_delta(sent, text, number) for number, text in enumerate("abc")]
    opening = OPENING.get(opened) or added(0, "web_search_call", id="m")
    read(START, opening, *deltas)
