"""Why a response ended."""

from __future__ import annotations

import pytest
from support.openai_responses.frames import START, added, args, call, completed, decode, done, text

from streamnorm import MessageStop, StopReason, StreamError
from streamnorm.dialects.openai_responses.stop_reasons import stop_reason_from_wire


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
def test_incomplete_says_why(word: str, reason: StopReason, called: bool, refused: bool) -> None:
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
def test_complete_goes_by_what_it_holds(called: bool, refused: bool, reason: StopReason) -> None:
    assert (
        stop_reason_from_wire("completed", "", has_tool_call=called, has_refusal=refused) == reason
    )


def test_calls_of_the_provider_are_no_tool_use() -> None:
    frames = [START, done(0, "web_search_call", id="ws"), text("a", 1), completed()]
    assert decode(*frames).events[-1] == MessageStop("end_turn", "completed")


def test_word_of_an_incomplete_response_is_kept() -> None:
    end = completed(status="incomplete", incomplete_details={"reason": "steered"})
    assert decode(START, end).events[-1] == MessageStop("other", "steered")
    end = completed(status="incomplete", incomplete_details=None)
    assert decode(START, end).events[-1] == MessageStop("other", "incomplete")


def test_arguments_cut_by_the_length_are_no_tool_use() -> None:
    end = completed(status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    frames = [START, added(0, "function_call", **call()), args('{"a'), end]
    assert decode(*frames).events[-1] == MessageStop("max_tokens", "max_output_tokens")


def test_status_counts_more_than_the_name_of_the_event() -> None:
    frame = completed(status="incomplete", incomplete_details={"reason": "content_filter"})
    named = frame.replace(b"response.incomplete", b"response.completed")
    assert decode(START, named).events[-1] == MessageStop("refusal", "content_filter")
    unknown = completed().replace(b'"status": "completed"', b'"status": "in_progress"')
    assert decode(START, unknown).events[-1] == MessageStop("end_turn", "completed")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, StreamError("upstream", "response failed", "failed")),
        ({"code": "slow_down", "message": "m"}, StreamError("upstream", "m", "slow_down")),
    ],
)
def test_failure_is_an_error(error: object, expected: StreamError) -> None:
    assert decode(START, completed(status="failed", error=error)).events[-1] == expected


def test_cancelled_is_an_error() -> None:
    error = StreamError("upstream", "response cancelled", "cancelled")
    assert decode(START, completed(status="cancelled")).events[-1] == error


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_response_that_fails_before_it_begins_is_an_error_alone(status: str) -> None:
    failed = completed(
        status=status, error={"code": "slow_down", "message": "m"}, usage={"input_tokens": 1}
    )
    assert decode(failed).events == [StreamError("upstream", "m", "slow_down")]
