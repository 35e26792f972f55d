"""What is known of a request when it has ended."""

from __future__ import annotations

import asyncio

import pytest
from support.gateway.servers import gateway_config

from streamnorm._core.events import (
    Abandoned,
    Completed,
    Failed,
    Outcome,
    StreamError,
    Truncated,
    Usage,
)
from streamnorm._core.losses import Loss
from streamnorm.gateway.observing import CallRecord, Ending, Observers, add_loss, time_first_event

REFUSED = Failed(StreamError("upstream", "no"))
CUT = Truncated(StreamError("truncated", "cut"))


def record(outcome: Outcome | None, status: int, upstream: str = "local") -> CallRecord:
    return CallRecord(
        client="anthropic",
        operation="stream",
        upstream=upstream,
        started_at=10.0,
        status=status,
        outcome=outcome,
    )


@pytest.mark.parametrize(
    ("outcome", "status", "upstream", "ending"),
    [
        (Completed("end_turn", Usage()), 200, "local", "completed"),
        (CUT, 200, "local", "truncated"),
        (CUT, 502, "local", "failed"),
        (REFUSED, 429, "local", "failed"),
        (REFUSED, 200, "local", "failed"),
        (REFUSED, 404, "", "refused"),
        (Abandoned(), 0, "local", "abandoned"),
        (None, 0, "", "abandoned"),
        (None, 200, "local", "completed"),
        (None, 503, "local", "failed"),
        (None, 404, "", "refused"),
    ],
)
def test_ending_says_what_the_client_got(
    outcome: Outcome | None, status: int, upstream: str, ending: Ending
) -> None:
    """An answer that failed before its first piece was not truncated: the client has an error."""
    assert record(outcome, status, upstream).ending == ending


@pytest.mark.anyio
async def test_usage_is_that_of_the_outcome_or_what_was_known_by_then() -> None:
    observers = Observers(gateway_config("http://127.0.0.1:1"))
    for outcome, usage in (
        (Completed("end_turn", Usage(3, 2)), Usage(3, 2)),
        (Abandoned(), Usage(3, 1)),
    ):
        call = record(outcome, 200)
        call.usage = Usage(3, 1)
        observers.end(call)
        assert call.usage == usage


@pytest.mark.anyio
async def test_first_event_is_timed_for_streams_alone() -> None:
    observers = Observers(gateway_config("http://127.0.0.1:1"))
    for operation in ("stream", "message"):
        call = record(CUT, 200)
        call.operation = operation
        call.started_at = asyncio.get_running_loop().time() - 2
        time_first_event(call)
        observers.end(call)
        assert call.seconds >= 2
        if operation == "message":
            assert call.first_event_s is None
        else:
            assert call.first_event_s is not None
            assert 2 <= call.first_event_s <= call.seconds


def test_error_is_that_of_failed_and_truncated_answers() -> None:
    assert record(CUT, 200).error == CUT.error
    assert record(REFUSED, 400).error == REFUSED.error
    for outcome in (None, Abandoned(), Completed("end_turn", Usage())):
        assert record(outcome, 200).error is None


def test_name_of_the_model_is_bounded_and_can_be_encoded() -> None:
    call = record(CUT, 200)
    call.model = "\ud800" + "x" * 200
    assert call.model_name == "?" + "x" * 127


def test_losses_are_counted_by_plain_words() -> None:
    call = record(CUT, 200)
    for feature in ("top_k", "top_k", "generationConfig.n", "sk-1234", "\ud800", "x" * 65):
        add_loss(call, Loss(feature, "request"))
    assert call.losses == {"top_k": 2, "generationConfig.n": 1, "other": 3}
