"""Token counts of Gemini as snapshots of usage."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw, structs

from streamnorm import Usage
from streamnorm.dialects.gemini.outcome import UsageReader, numbers_of, usage_to_wire
from streamnorm.dialects.gemini.wire import Counts


def merged(*told: dict[str, Any]) -> Usage:
    reader = UsageReader()
    for usage in told:
        reader.read(usage)
    return reader.usage


def test_thoughts_and_tools_are_included_in_the_totals() -> None:
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


def test_unreported_count_is_none() -> None:
    assert merged({}) == Usage()
    assert merged({"promptTokenCount": 9, "totalTokenCount": 9}) == Usage(input_tokens=9)
    assert merged({"thoughtsTokenCount": 3, "totalTokenCount": 3}) == Usage(
        output_tokens=3, reasoning_tokens=3
    )


def test_later_counts_replace_the_earlier_whole() -> None:
    assert merged(
        {"promptTokenCount": 9, "candidatesTokenCount": 2, "trafficType": "ON_DEMAND"},
        {"candidatesTokenCount": 3, "promptTokenCount": None},
    ) == Usage(output_tokens=3)


def test_counts_of_two_snapshots_never_mix() -> None:
    before = {"promptTokenCount": 87, "candidatesTokenCount": 21, "totalTokenCount": 108}
    last = {"promptTokenCount": 87, "thoughtsTokenCount": 78, "totalTokenCount": 165}
    usage = merged(before, last)
    assert usage == Usage(87, 78, reasoning_tokens=78)
    assert usage_to_wire(usage, extras=True) == {**last, "candidatesTokenCount": 0}


def test_written_counts_add_up() -> None:
    """A thought counts as output, whatever another vendor says."""
    assert usage_to_wire(Usage(9, 3, reasoning_tokens=5), extras=False) == {
        "promptTokenCount": 9,
        "candidatesTokenCount": 0,
        "thoughtsTokenCount": 5,
        "totalTokenCount": 14,
    }


def test_total_is_kept_where_it_is_no_sum() -> None:
    assert merged({"promptTokenCount": 9, "totalTokenCount": 12}) == Usage(
        9, extra={"totalTokenCount": 12}
    )


def test_invalid_count_is_kept_in_extra() -> None:
    assert merged({"promptTokenCount": "many", "candidatesTokenCount": 4.0}) == Usage(
        output_tokens=4, extra={"promptTokenCount": "many"}
    )


def test_same_counts_change_nothing() -> None:
    reader = UsageReader()
    assert reader.read({"promptTokenCount": 9})
    assert not reader.read({"promptTokenCount": 9})


COUNTS = Counts(prompt_token_count=9, candidates_token_count=1, traffic_type=Raw(b'"X"'))


def test_counts_match_others_that_were_merged() -> None:
    reader = UsageReader()
    assert not reader.matches_last(COUNTS)
    reader.read({"promptTokenCount": 9, "candidatesTokenCount": 1, "trafficType": "X"})
    assert not reader.matches_last(COUNTS)
    reader.set_last(COUNTS)
    assert reader.matches_last(COUNTS)
    reader.add_pending(numbers_of(COUNTS))
    assert not reader.refresh()
    reader.add_pending(numbers_of(structs.replace(COUNTS, candidates_token_count=4)))
    assert reader.refresh()
    assert reader.usage == Usage(9, 4, extra={"trafficType": "X"})
    assert not reader.refresh()
    reader.read({})
    assert not reader.matches_last(COUNTS)


@pytest.mark.parametrize(
    "name",
    [
        "prompt_tokens_details",
        "candidates_tokens_details",
        "cache_tokens_details",
        "tool_use_prompt_tokens_details",
        "traffic_type",
        "service_tier",
    ],
)
def test_counts_with_other_fields_do_not_match(name: str) -> None:
    reader = UsageReader()
    reader.set_last(COUNTS)
    assert not reader.matches_last(structs.replace(COUNTS, **{name: Raw(b"[1]")}))


def test_pending_count_that_is_not_repeated_is_gone() -> None:
    reader = UsageReader()
    told = {
        "promptTokenCount": 9,
        "cachedContentTokenCount": 2,
        "toolUsePromptTokenCount": 3,
        "candidatesTokenCount": 4,
        "thoughtsTokenCount": 5,
        "totalTokenCount": 30,
    }
    reader.read(told)
    reader.set_last(Counts())
    assert reader.usage == Usage(
        12, 9, 2, None, 5, {"toolUsePromptTokenCount": 3, "totalTokenCount": 30}
    )
    reader.add_pending(numbers_of(Counts(thoughts_token_count=6)))
    assert reader.refresh()
    assert reader.usage == Usage(output_tokens=6, reasoning_tokens=6)


def test_earlier_snapshots_never_change() -> None:
    reader = UsageReader()
    reader.read({"promptTokenCount": 1, "trafficType": "X"})
    first = reader.usage
    reader.read({"promptTokenCount": 1, "trafficType": "Y"})
    assert (first.extra, reader.usage.extra) == ({"trafficType": "X"}, {"trafficType": "Y"})


def test_tokens_of_tools_alone_are_those_of_the_input() -> None:
    counts = {"toolUsePromptTokenCount": 4}
    assert merged(counts) == Usage(4, extra=counts)
