"""Gemini's counts of tokens as snapshots."""

from __future__ import annotations

from typing import Any

from streamnorm import Usage
from streamnorm.dialects.gemini.usage import UsageReader


def merged(*told: dict[str, Any]) -> Usage:
    reader = UsageReader()
    for usage in told:
        reader.merge(usage)
    return reader.usage


def test_thoughts_and_tools_are_counted_in() -> None:
    usage = merged(
        {
            "promptTokenCount": 100,
            "cachedContentTokenCount": 40,
            "toolUsePromptTokenCount": 7,
            "candidatesTokenCount": 5,
            "thoughtsTokenCount": 11,
            "totalTokenCount": 123,
        }
    )
    assert usage == Usage(107, 16, 40, None, 11, {"toolUsePromptTokenCount": 7})


def test_what_nobody_said_is_none() -> None:
    assert merged({}) == Usage()
    assert merged({"promptTokenCount": 9, "totalTokenCount": 9}) == Usage(input_tokens=9)
    assert merged({"thoughtsTokenCount": 3, "totalTokenCount": 3}) == Usage(
        output_tokens=3, reasoning_tokens=3
    )


def test_later_count_replaces_the_earlier() -> None:
    assert merged(
        {"promptTokenCount": 9, "candidatesTokenCount": 2},
        {"candidatesTokenCount": 4, "trafficType": "ON_DEMAND"},
        {"candidatesTokenCount": 3, "promptTokenCount": None},
    ) == Usage(9, 3, extra={"trafficType": "ON_DEMAND"})


def test_total_is_kept_where_it_is_no_sum() -> None:
    assert merged({"promptTokenCount": 9, "totalTokenCount": 12}) == Usage(
        9, extra={"totalTokenCount": 12}
    )


def test_count_that_is_none_is_kept_as_it_came() -> None:
    assert merged({"promptTokenCount": "many", "candidatesTokenCount": 4.0}) == Usage(
        output_tokens=4, extra={"promptTokenCount": "many"}
    )


def test_same_counts_change_nothing() -> None:
    reader = UsageReader()
    assert reader.merge({"promptTokenCount": 9})
    assert not reader.merge({"promptTokenCount": 9})
