"""Stop reasons."""

from __future__ import annotations

import pytest
from support.openai_responses.frames import (
    START,
    added,
    args,
    call,
    completed,
    decode,
    done,
    messages,
    text,
)

from streamnorm import MessageStop, StopReason, StreamError
from streamnorm.dialects.openai_responses.outcome import stop_reason_from_wire


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("max_output_tokens", "max_tokens"),
        ("content_filter", "refusal"),
        ("max_messages", "other"),
        ("", "other"),
    ],
)
def test_incomplete_reason_is_the_stop_reason(
    word: str, reason: StopReason, called: bool, refused: bool
) -> None:
    assert (
        stop_reason_from_wire("incomplete", word, has_tool_call=called, has_refusal=refused)
        == reason
    )


@pytest.mark.parametrize(
    ("called", "refused", "reason"),
    [
        (False, False, "end_turn"),
        (True, False, "tool_use"),
        (False, True, "refusal"),
        (True, True, "tool_use"),
    ],
)
def test_stop_reason_of_a_complete_response_follows_from_its_blocks(
    called: bool, refused: bool, reason: StopReason
) -> None:
    assert (
        stop_reason_from_wire("completed", "", has_tool_call=called, has_refusal=refused) == reason
    )


def test_server_tool_calls_are_no_tool_use() -> None:
    frames = [START, done(0, "web_search_call", id="ws"), text("a", 1), completed()]
    assert decode(*frames).events[-1] == MessageStop("end_turn", "completed")


@pytest.mark.parametrize(("also_called", "reason"), [(False, "end_turn"), (True, "tool_use")])
def test_call_that_the_server_has_executed_is_no_tool_use(
    also_called: bool, reason: StopReason
) -> None:
    """Results "may appear in `output` for server-run loops"; the client is not asked."""
    result = done(1, "function_call_output", id="fco", call_id="call_1", output="snow")
    other = done(2, "function_call", **call(id="fc_2", call_id="call_2", arguments="{}"))
    frames = [START, done(0, "function_call", **call(arguments="{}")), result]
    frames += [other] if also_called else []
    assert decode(*frames, completed()).events[-1] == MessageStop(reason, "completed")


@pytest.mark.parametrize("after", [[], [text("a", 1)]])
def test_response_that_holds_a_refusal_stops_by_it(after: list[bytes]) -> None:
    refused = done(0, "message", **messages({"type": "refusal", "refusal": "no"}))
    events = decode(START, refused, *after, completed()).events
    assert events[-1] == MessageStop("refusal", "completed")


def test_raw_reason_is_the_incomplete_reason() -> None:
    end = completed(status="incomplete", incomplete_details={"reason": "steered"})
    assert decode(START, end).events[-1] == MessageStop("other", "steered")
    end = completed(status="incomplete", incomplete_details=None)
    assert decode(START, end).events[-1] == MessageStop("other", "incomplete")


def test_call_cut_by_the_token_limit_is_no_tool_use() -> None:
    end = completed(status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    frames = [START, added(0, "function_call", **call()), args('{"a'), end]
    assert decode(*frames).events[-1] == MessageStop("max_tokens", "max_output_tokens")


def test_status_that_contradicts_the_event_type_is_malformed() -> None:
    frame = completed(status="incomplete", incomplete_details={"reason": "content_filter"})
    named = frame.replace(b"response.incomplete", b"response.completed")
    message = "response.completed with another status, expected completed"
    assert decode(START, named).events[-1] == StreamError("malformed", message)
    for status in ("in_progress", "done"):
        other = completed().replace(b'"status": "completed"', b'"status": "%b"' % status.encode())
        assert decode(START, other).events[-1] == StreamError("malformed", message)
    failed = completed(status="failed").replace(b'"status": "failed"', b'"status": "completed"')
    message = "response.failed with another status, expected failed"
    assert decode(START, failed).events[-1] == StreamError("malformed", message)


def test_error_in_a_complete_response_is_its_error() -> None:
    end = completed(error={"code": "server_error", "message": "no"})
    assert decode(START, end).events[-1] == StreamError("upstream", "no", "server_error", 500, True)


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_failure_in_an_incomplete_response_is_a_failure(status: str) -> None:
    """Azure sends a response that was cancelled as an incomplete one."""
    end = completed(status="incomplete")
    end = end.replace(b'"status": "incomplete"', b'"status": "%b"' % status.encode())
    expected = StreamError("upstream", f"response {status}", status)
    assert decode(START, end).events[-1] == expected
