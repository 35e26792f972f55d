"""Token usage, in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from support.anthropic import payloads
from support.anthropic.frames import STOP, decode, end, start
from support.draws import Draws, draws
from support.streams.event_strategies import make_usage

from streamnorm import Event, Loss, LossyEncoding, MessageStop, StreamError, Usage, UsageUpdate
from streamnorm.codec import encoder
from streamnorm.dialects.anthropic.outcome import UsageReader, usage_to_wire


def merged(*wires: dict[str, Any]) -> Usage:
    """Return the snapshot of a stream with these counts, one after the other."""
    first, *rest = wires
    frames = [end(usage=wire) for wire in rest]
    events = decode(start(usage=first), *frames, STOP).events
    snapshots = [event.usage for event in events if isinstance(event, UsageUpdate)]
    return snapshots[-1] if snapshots else Usage()


def full(fresh: int, written: int, read: int, out: int) -> dict[str, Any]:
    return {
        "input_tokens": fresh,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": out,
    }


def test_input_tokens_include_the_cache() -> None:
    assert merged(full(200, 400, 2000, 50)) == Usage(2600, 50, 2000, 400)
    assert merged({"input_tokens": 7}) == Usage(7)
    assert merged({"cache_read_input_tokens": 7}) == Usage(7, None, 7)
    assert merged({"output_tokens": 0}) == Usage(None, 0)


def test_thinking_tokens_are_part_of_the_output() -> None:
    details = {"thinking_tokens": 20, "spoken_tokens": 3, "other": None}
    assert merged({"output_tokens": 50, "output_tokens_details": details}) == Usage(
        None, 50, reasoning_tokens=20, extra={"output_tokens_details": {"spoken_tokens": 3}}
    )
    assert merged({"output_tokens_details": {"thinking_tokens": 0}}) == Usage(reasoning_tokens=0)
    assert merged({"output_tokens_details": None}) == Usage()
    assert merged({"output_tokens_details": {"thinking_tokens": "many"}}) == Usage(
        extra={"output_tokens_details": {"thinking_tokens": "many"}}
    )


MERGES: dict[str, tuple[list[dict[str, Any]], Usage]] = {
    "a later count replaces an earlier one": (
        [full(2037, 0, 0, 1), full(15665, 0, 0, 90)],
        Usage(15665, 90, 0, 0),
    ),
    "also a smaller one, as after a compaction": (
        [full(60385, 0, 0, 9), full(612, 0, 0, 4)],
        Usage(612, 4, 0, 0),
    ),
    "a missing count keeps its value": (
        [full(9, 1, 2, 1), {"output_tokens": 30}],
        Usage(12, 30, 2, 1),
    ),
    "null keeps the value": (
        [full(9, 1, 2, 1), dict.fromkeys(full(0, 0, 0, 0))],
        Usage(12, 1, 2, 1),
    ),
    "zero does not replace an input count": (
        [full(9, 1, 2, 5), full(0, 0, 0, 0)],
        Usage(12, 0, 2, 1),
    ),
    "zero replaces an input count beside another that is none": (
        [full(5, 0, 55096, 1), full(181, 0, 0, 90)],
        Usage(181, 90, 0, 0),
    ),
    "zeros of the counts that are told are none": (
        [full(9, 1, 2, 5), {"input_tokens": 0, "output_tokens": 7}],
        Usage(12, 7, 2, 1),
    ),
    "zero is a first count": (
        [{"output_tokens": 1}, full(0, 0, 0, 4)],
        Usage(0, 4, 0, 0),
    ),
    "zero at the start is replaced": ([full(0, 0, 0, 0), full(9, 1, 2, 5)], Usage(12, 5, 2, 1)),
    "no counts at all": ([{}, {}], Usage()),
}


@pytest.mark.parametrize(("wires", "usage"), MERGES.values(), ids=MERGES)
def test_counts_are_merged_field_by_field(wires: list[dict[str, Any]], usage: Usage) -> None:
    assert merged(*wires) == usage


def test_unknown_counts_are_merged_into_extra() -> None:
    first = {"service_tier": "standard", "speed": "fast", "inference_geo": None}
    more = {"speed": "slow", "server_tool_use": {"web_search_requests": 1}}
    assert merged(first, more) == Usage(
        extra={
            "service_tier": "standard",
            "speed": "slow",
            "server_tool_use": {"web_search_requests": 1},
        }
    )


@pytest.mark.parametrize("count", [-1, True, "7", 1.5, [7], 1e300])
def test_count_of_another_type_is_extra(count: object) -> None:
    assert merged({"input_tokens": count, "output_tokens": 3}) == Usage(
        None, 3, extra={"input_tokens": count}
    )


def test_usage_update_follows_each_change() -> None:
    events = decode(
        start(usage=full(9, 0, 0, 1)),
        *(end(usage=full(9, 0, 0, 1)), end(), end(usage=None), end(usage={"output_tokens": 4})),
        STOP,
    ).events
    assert [event for event in events if isinstance(event, UsageUpdate)] == [
        *(UsageUpdate(Usage(9, 1, 0, 0)), UsageUpdate(Usage(9, 4, 0, 0))),
    ]


def test_merge_returns_whether_the_snapshot_changed() -> None:
    reader = UsageReader()
    assert reader.merge({"input_tokens": 1})
    assert not reader.merge({"input_tokens": 1})
    assert reader.merge({"x": 1})
    assert reader.usage == Usage(1, extra={"x": 1})


@given(draws(20))
def test_usage_round_trips(d: Draws) -> None:
    usage = make_usage(d)
    reader = UsageReader()
    reader.merge(usage_to_wire(usage))
    known = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens)
    back = reader.usage
    assert (back.input_tokens, back.output_tokens, back.cache_read_tokens) == tuple(
        count or 0 for count in known
    )
    assert back.cache_write_tokens == (usage.cache_write_tokens or 0)
    assert back.reasoning_tokens == usage.reasoning_tokens


@pytest.mark.parametrize(
    ("usage", "written"),
    [
        (Usage(2600, 50, 2000, 400, 20), (200, 400, 2000, 50, 20)),
        (Usage(10, 5), (10, 0, 0, 5, None)),
        (Usage(), (0, 0, 0, 0, None)),
        (Usage(3, 1, 5), (0, 0, 5, 1, None)),
    ],
)
def test_written_input_tokens_exclude_the_cache(
    usage: Usage, written: tuple[int, int, int, int, int | None]
) -> None:
    counts = payloads.encode(UsageUpdate(usage), MessageStop("end_turn"))[0][1]["usage"]
    names = ("input", "cache_creation_input", "cache_read_input", "output")
    assert tuple(counts[f"{name}_tokens"] for name in names) == written[:4]
    assert counts.get("output_tokens_details", {}).get("thinking_tokens") == written[4]


def test_tokens_of_a_failed_stream_that_its_start_did_not_report_are_a_loss() -> None:
    failure = StreamError("upstream", "no")
    for events, lost in (
        ([UsageUpdate(Usage(9, 1)), payloads.START, failure], []),
        ([payloads.START, failure], []),
        ([failure], []),
        ([payloads.START, UsageUpdate(Usage(9, 4)), failure], ["usage"]),
    ):
        writer = encoder("anthropic")
        for event in events:
            writer.render(event)
        assert [loss.feature for loss in writer.losses] == lost
    assert writer.losses == (Loss("usage", "failed stream", 1, "dropped"),)
    strict = encoder("anthropic", strict=True)
    for event in (payloads.START, UsageUpdate(Usage(9, 4))):
        strict.render(event)
    with pytest.raises(LossyEncoding, match="usage in failed stream"):
        strict.render(failure)


def test_unknown_usage_is_a_loss() -> None:
    writer = encoder("anthropic")
    for event in (payloads.START, MessageStop("end_turn")):
        writer.encode(event)
    assert [(loss.feature, loss.where) for loss in writer.losses] == [
        ("usage_unknown", "input_tokens"),
        ("usage_unknown", "output_tokens"),
    ]


@pytest.mark.parametrize(
    ("known", "counts"),
    [
        ([], (0, 0)),
        ([UsageUpdate(Usage())], (0, 0)),
        ([UsageUpdate(Usage(None, 4))], (0, 4)),
        ([UsageUpdate(Usage(9))], (9, 0)),
        ([UsageUpdate(Usage(None, 3, extra={"input_tokens": None}))], (0, 3)),
        ([UsageUpdate(Usage(9, None, extra={"output_tokens": "3"}))], (9, 0)),
    ],
)
def test_usage_of_every_stream_has_the_counts_that_claude_code_needs(
    known: list[Event], counts: tuple[int, int]
) -> None:
    """Without either it crashes (glidea/claude-worker-proxy#19)."""
    (_, first), (_, last), _ = payloads.encode_stream(
        payloads.START, *known, MessageStop("end_turn")
    )
    usages = [first["message"]["usage"], last["usage"]]
    assert [(u["input_tokens"], u["output_tokens"]) for u in usages] == [(0, 0), counts]
