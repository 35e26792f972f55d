"""Token counts."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_responses.frames import START, completed, decode, event

from streamnorm import MessageStart, Usage, UsageUpdate
from streamnorm.dialects.openai_responses.decode import ResponsesDecoder
from streamnorm.dialects.openai_responses.outcome import usage_from_wire

WHOLE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
    "output_tokens": 50,
    "output_tokens_details": {"reasoning_tokens": 40},
    "total_tokens": 150,
}


@pytest.mark.parametrize(
    ("wire", "usage"),
    [
        (WHOLE, Usage(100, 50, 60, 30, 40)),
        ({"input_tokens": 3}, Usage(3)),
        ({"input_tokens": 3.0, "output_tokens": None}, Usage(3)),
        (
            {"input_tokens": "3", "total_tokens": -1},
            Usage(extra={"input_tokens": "3", "total_tokens": -1}),
        ),
        ({"cost": 0.5, "x": None}, Usage(extra={"cost": 0.5})),
        (
            {"input_tokens_details": {"cached_tokens": 1, "audio_tokens": 2}},
            Usage(cache_read_tokens=1, extra={"input_tokens_details": {"audio_tokens": 2}}),
        ),
        ({"output_tokens_details": None}, Usage()),
        ({"output_tokens_details": 7}, Usage(extra={"output_tokens_details": 7})),
    ],
)
def test_counts_of_the_vendor_are_mapped(wire: dict[str, Any], usage: Usage) -> None:
    assert usage_from_wire(Usage(), wire) == usage


def test_counts_missing_from_a_later_object_stay() -> None:
    before = Usage(1, 2, extra={"a": 1, "b": 1})
    assert usage_from_wire(before, {"output_tokens": 9, "b": 2}) == Usage(
        1, 9, extra={"a": 1, "b": 2}
    )


def test_usage_object_is_not_modified() -> None:
    usage_from_wire(Usage(), WHOLE)
    assert WHOLE["input_tokens_details"] == {"cached_tokens": 60, "cache_write_tokens": 30}


def test_usage_comes_before_the_stop_and_only_if_it_changes() -> None:
    decoded = decode(START, completed(usage=WHOLE))
    assert decoded.events[1] == UsageUpdate(Usage(100, 50, 60, 30, 40))
    same = event(
        "response.created", response={"id": "resp_1", "model": "m", "usage": {"input_tokens": 1}}
    )
    counted = decode(same, completed(usage={"input_tokens": 1})).events
    assert counted[:2] == [MessageStart("resp_1", "m"), UsageUpdate(Usage(1))]
    assert len(counted) == 3


def test_usage_of_a_failure_comes_before_it() -> None:
    decoded = decode(START, completed(status="failed", usage={"input_tokens": 1}))
    assert decoded.events[1] == UsageUpdate(Usage(1))


def test_usage_of_the_first_response_is_the_first_usage() -> None:
    reader = ResponsesDecoder()
    assert reader.first_usage is None
    reader.feed(event("response.created", response={"usage": {"input_tokens": 1}}))
    assert reader.first_usage == Usage(1)
    plain = ResponsesDecoder()
    plain.feed(START)
    plain.feed(event("response.in_progress", response={"usage": {"input_tokens": 1}}))
    assert plain.first_usage is None
