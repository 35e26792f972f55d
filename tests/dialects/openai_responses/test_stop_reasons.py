"""Stop reasons."""

from __future__ import annotations

import pytest
from support.openai_responses.frames import START, added, args, call, completed, decode, done, text

from streamnorm import MessageStop, StopReason
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


def test_raw_reason_is_the_incomplete_reason() -> None:
    end = completed(status="incomplete", incomplete_details={"reason": "steered"})
    assert decode(START, end).events[-1] == MessageStop("other", "steered")
    end = completed(status="incomplete", incomplete_details=None)
    assert decode(START, end).events[-1] == MessageStop("other", "incomplete")


def test_call_cut_by_the_token_limit_is_no_tool_use() -> None:
    end = completed(status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    frames = [START, added(0, "function_call", **call()), args('{"a'), end]
    assert decode(*frames).events[-1] == MessageStop("max_tokens", "max_output_tokens")


def test_status_overrides_the_event_type() -> None:
    frame = completed(status="incomplete", incomplete_details={"reason": "content_filter"})
    named = frame.replace(b"response.incomplete", b"response.completed")
    assert decode(START, named).events[-1] == MessageStop("refusal", "content_filter")
    unknown = completed().replace(b'"status": "completed"', b'"status": "in_progress"')
    assert decode(START, unknown).events[-1] == MessageStop("end_turn", "completed")
