"""Token counts of an interaction: sums, and what no field has room for."""

from __future__ import annotations

from typing import Any

import pytest
from support.gemini_interactions.frames import CREATED, completed, decode

from streamnorm import Failed, Limits, Usage
from streamnorm.dialects.gemini_interactions.outcome import UsageReader

TOTAL, TOOLS = "totalTokenCount", "toolUsePromptTokenCount"


def merged(*usages: dict[str, Any]) -> Usage:
    """Return the snapshot after some usage objects."""
    reader = UsageReader()
    for usage in usages:
        reader.merge(usage)
    return reader.usage


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({"total_input_tokens": 5}, Usage(5)),
        ({"total_input_tokens": 5, "total_tokens": 5}, Usage(5)),
        ({"total_output_tokens": 5, "total_tokens": 5}, Usage(None, 5)),
        ({"total_input_tokens": 2, "total_output_tokens": 3, "total_tokens": 5}, Usage(2, 3)),
        (
            {"total_input_tokens": 2, "total_output_tokens": 3, "total_tokens": 6},
            Usage(2, 3, extra={TOTAL: 6}),
        ),
        ({"total_tokens": 0}, Usage()),
        ({"total_tokens": 1}, Usage(extra={TOTAL: 1})),
        ({"total_thought_tokens": 4}, Usage(None, 4, reasoning_tokens=4)),
        (
            {"total_output_tokens": 3, "total_thought_tokens": 4},
            Usage(None, 7, reasoning_tokens=4),
        ),
        ({"total_tool_use_tokens": 4}, Usage(4, extra={TOOLS: 4})),
        ({"total_input_tokens": 2, "total_tool_use_tokens": 4}, Usage(6, extra={TOOLS: 4})),
        ({"total_cached_tokens": 4}, Usage(cache_read_tokens=4)),
        ({"total_input_tokens": None, "other": None}, Usage()),
        (
            {"total_input_tokens": True, "other": 1},
            Usage(extra={"promptTokenCount": True, "other": 1}),
        ),
    ],
)
def test_counts_become_those_of_all_that_went_in_and_came_out(
    counts: dict[str, Any], usage: Usage
) -> None:
    assert merged(counts) == usage


def test_later_count_replaces_the_earlier_one_and_no_other() -> None:
    first = {"total_input_tokens": 2, "total_output_tokens": 3, "a": 1}
    assert merged(first, {"total_output_tokens": 4, "b": 2}) == Usage(2, 4, extra={"a": 1, "b": 2})


def test_only_a_change_is_reported() -> None:
    reader = UsageReader()
    assert not reader.merge({})
    assert reader.merge({"total_input_tokens": 2})
    assert not reader.merge({"total_input_tokens": 2})
    assert reader.merge({"n": 1})


def test_unknown_counts_that_are_stored_are_bounded() -> None:
    usage = {"total_input_tokens": 1, "x": "a" * 3000}
    got = decode(CREATED, completed(usage=usage), limits=Limits(max_accumulated_bytes=3000))
    assert isinstance(got.outcome, Failed)
    assert got.outcome.error.code == "max_accumulated_bytes"
