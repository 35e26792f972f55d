"""Token counts, in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from msgspec import structs
from support.draws import Draws, draws
from support.openai_chat.chunks import DONE, chunk, content, decode, frame
from support.streams.event_strategies import make_usage

from streamnorm import Completed, Loss, LossyEncoding, MessageStart, StreamError, Usage, UsageUpdate
from streamnorm.codec import encoder
from streamnorm.dialects.openai_chat.outcome import usage_from_wire, usage_to_wire

COUNTS = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
LAST = frame({"id": "1", "choices": [], "usage": COUNTS})
END = chunk({}, "stop")


def updates(*frames: bytes) -> list[Usage]:
    decoded = decode(*frames)
    found = [event.usage for event in decoded.events if isinstance(event, UsageUpdate)]
    assert isinstance(decoded.outcome, Completed)
    assert decoded.outcome.usage == (found[-1] if found else Usage())
    return found


def test_usage_in_a_chunk_of_its_own() -> None:
    assert updates(content("a"), END, LAST, DONE) == [Usage(10, 5)]


def test_usage_in_the_chunk_that_finishes() -> None:
    assert updates(content("a"), chunk({}, "stop", usage=COUNTS), DONE) == [Usage(10, 5)]


def test_usage_in_every_chunk_is_the_last_one_and_never_added() -> None:
    frames = [content("a", usage={**COUNTS, "completion_tokens": n}) for n in (1, 2, 2, 5)]
    assert updates(*frames, END, DONE) == [Usage(10, 1), Usage(10, 2), Usage(10, 5)]


def test_usage_null_is_ignored() -> None:
    assert updates(content("a", usage=None), END, LAST, chunk({}, usage=None), DONE) == [
        Usage(10, 5)
    ]


def test_usage_within_the_choice() -> None:
    part = {"index": 0, "delta": {}, "finish_reason": "stop", "usage": COUNTS}
    assert updates(content("a"), frame({"id": "1", "choices": [part]}), DONE) == [Usage(10, 5)]


def test_usage_of_groq_is_read_from_its_own_field() -> None:
    twice = chunk({}, "stop", x_groq={"id": "r", "usage": COUNTS}, usage=COUNTS)
    assert updates(content("a", x_groq={"id": "r"}), twice, DONE) == [Usage(10, 5)]
    alone = chunk({}, "stop", x_groq={"usage": COUNTS})
    assert updates(content("a", x_groq={"usage": None}), alone, DONE) == [Usage(10, 5)]


def test_zeros_before_the_counts_are_replaced() -> None:
    zeros = dict.fromkeys(COUNTS, 0)
    assert updates(content("a", usage=zeros), END, LAST, DONE) == [Usage(0, 0), Usage(10, 5)]


def test_usage_never_sent_is_unknown() -> None:
    assert updates(content("a"), END, DONE) == []


def test_usage_before_the_message_start_follows_it() -> None:
    early = frame({"choices": [], "usage": {"prompt_tokens": 10}})
    decoded = decode(early, content("a"), END, DONE)
    assert decoded.events[1] == UsageUpdate(Usage(10))


@pytest.mark.parametrize(
    ("fields", "usage"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 4}}, Usage(10, 5, 4)),
        (
            {"prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 6},
            Usage(10, 5, 4, extra={"prompt_cache_miss_tokens": 6}),
        ),
        ({"cached_tokens": 4}, Usage(10, 5, 4)),
        ({"num_cached_tokens": 4}, Usage(10, 5, 4)),
        ({"cache_read_input_tokens": 4, "cache_creation_input_tokens": 3}, Usage(10, 5, 4, 3)),
        (
            {"prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2}},
            Usage(10, 5, 4, 2),
        ),
        ({"completion_tokens_details": {"reasoning_tokens": 2}}, Usage(10, 5, None, None, 2)),
        ({"reasoning_tokens": 2}, Usage(10, 5, None, None, 2)),
    ],
)
def test_counts_are_read_from_the_fields_of_each_server(
    fields: dict[str, Any], usage: Usage
) -> None:
    assert usage_from_wire(Usage(), {**COUNTS, **fields}) == usage


def test_count_in_several_fields_is_read_once() -> None:
    fields = {"prompt_tokens_details": {"cached_tokens": 4}, "prompt_cache_hit_tokens": 4}
    assert usage_from_wire(Usage(), {**COUNTS, **fields}) == Usage(10, 5, 4)


def test_reasoning_outside_the_completion_is_added() -> None:
    # 291 + 26 + 196 = 513, as xAI counts.
    wire = {"prompt_tokens": 291, "completion_tokens": 26, "total_tokens": 513}
    details = {"completion_tokens_details": {"reasoning_tokens": 196}}
    assert usage_from_wire(Usage(), {**wire, **details}) == Usage(291, 222, None, None, 196)
    inside = {**wire, **details, "completion_tokens": 222}
    assert usage_from_wire(Usage(), inside) == Usage(291, 222, None, None, 196)


@pytest.mark.parametrize(("total", "output"), [(71, 8), (76, 13), (21, 13), (60, 8)])
def test_reasoning_may_be_left_out_where_the_cache_is(total: int, output: int) -> None:
    # 8 + 55 + 8 are the counts without the reasoning, which the total may include.
    wire = {"prompt_tokens": 8, "completion_tokens": 8, "total_tokens": total}
    wire |= {"cached_tokens": 55, "reasoning_tokens": 5}
    assert usage_from_wire(Usage(), wire) == Usage(63, output, 55, None, 5)


def test_total_that_counts_the_cache_alone_leaves_no_reasoning_out() -> None:
    wire = {"prompt_tokens": 8, "completion_tokens": 8, "total_tokens": 71}
    wire |= {"cached_tokens": 55, "reasoning_tokens": 55}
    assert usage_from_wire(Usage(), wire) == Usage(63, 8, 55, None, 55)


def test_tokens_of_a_failed_stream_are_a_loss() -> None:
    for include_usage, events, losses in (
        (True, [UsageUpdate(Usage(1, 2))], (Loss("usage", "failed stream", 1, "dropped"),)),
        (False, [UsageUpdate(Usage(1, 2))], ()),
        (True, [], ()),
    ):
        writer = encoder("openai_chat", include_usage=include_usage)
        for event in (MessageStart("m", "gpt"), *events, StreamError("upstream", "gone")):
            writer.encode(event)
        assert writer.losses == losses
    strict = encoder("openai_chat", strict=True)
    for event in (MessageStart("m", "gpt"), UsageUpdate(Usage(1, 2))):
        strict.encode(event)
    with pytest.raises(LossyEncoding, match="usage in failed stream"):
        strict.encode(StreamError("upstream", "gone"))


def test_reasoning_is_outside_the_completion_if_the_total_says_so() -> None:
    wire = {"completion_tokens": 2, "total_tokens": 5, "reasoning_tokens": 3}
    assert usage_from_wire(Usage(), wire) == Usage(None, 5, None, None, 3)


def test_cache_outside_the_prompt_is_added() -> None:
    wire = {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 30}}
    assert usage_from_wire(Usage(), wire) == Usage(40, None, 30)
    both = {
        "prompt_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 4},
    }
    assert usage_from_wire(Usage(), both) == Usage(22, None, 8, 4)


def test_audio_outside_the_prompt_is_added() -> None:
    wire = {**COUNTS, "total_tokens": 35, "prompt_audio_seconds": 4}
    assert usage_from_wire(Usage(), wire) == Usage(30, 5, extra={"prompt_audio_seconds": 4})
    assert usage_from_wire(Usage(), {**wire, "total_tokens": 1}).input_tokens == 10
    bare = {"total_tokens": 7, "prompt_audio_seconds": 4}
    assert usage_from_wire(Usage(), bare).input_tokens == 7
    none = {"completion_tokens": 7, **bare}
    assert usage_from_wire(Usage(), none).input_tokens == 0


def test_absent_counts_stay() -> None:
    before = Usage(1, 2, 3, 4, 5, {"a": 1, "b": 1})
    assert usage_from_wire(before, {"completion_tokens": 9, "b": 2, "c": {"d": None}}) == Usage(
        1, 9, 3, 4, 5, {"a": 1, "b": 2}
    )
    assert usage_from_wire(before, {}) == before


def test_other_fields_go_to_extra_without_nulls() -> None:
    wire = {"prompt_tokens": 1, "cost": 0.5, "x": None, "y": {"z": None}, "w": {"v": 1, "u": {}}}
    assert usage_from_wire(Usage(), wire) == Usage(1, extra={"cost": 0.5, "w": {"v": 1}})


@pytest.mark.parametrize("odd", ["7", True, -1, 7.5, 1e300, [7], {"a": 7}])
def test_value_that_is_no_count_goes_to_extra(odd: object) -> None:
    assert usage_from_wire(Usage(), {"prompt_tokens": odd}) == Usage(extra={"prompt_tokens": odd})


def test_count_with_a_decimal_point_is_a_count() -> None:
    assert usage_from_wire(Usage(), {"prompt_tokens": 7.0, "completion_tokens": 0}) == Usage(7, 0)


def test_usage_object_is_not_mutated() -> None:
    wire = {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1}}
    usage_from_wire(Usage(), wire)
    assert wire == {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1}}


# The way back


FULL = Usage(2600, 50, 2000, 400, 20)
WIRE = {
    "prompt_tokens": 2600,
    "completion_tokens": 50,
    "total_tokens": 2650,
    "prompt_tokens_details": {"cached_tokens": 2000, "cache_write_tokens": 400},
    "completion_tokens_details": {"reasoning_tokens": 20},
}


@pytest.mark.parametrize("extras", [False, True])
def test_counts_are_written_with_their_total(*, extras: bool) -> None:
    assert usage_to_wire(FULL, extras=extras) == WIRE
    assert usage_from_wire(Usage(), WIRE) == FULL


@pytest.mark.parametrize(
    ("usage", "wire"),
    [
        (Usage(), {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}),
        (Usage(7), {"prompt_tokens": 7, "completion_tokens": 0, "total_tokens": 7}),
        (Usage(None, 7), {"prompt_tokens": 0, "completion_tokens": 7, "total_tokens": 7}),
        (
            Usage(7, 1, 0),
            {
                "prompt_tokens": 7,
                "completion_tokens": 1,
                "total_tokens": 8,
                "prompt_tokens_details": {"cached_tokens": 0},
            },
        ),
    ],
)
def test_unknown_counts_are_zero_or_left_out(usage: Usage, wire: dict[str, object]) -> None:
    assert usage_to_wire(usage, extras=False) == wire


def test_other_counts_are_written_to_the_same_dialect_alone() -> None:
    extra = {
        "cost": 0.5,
        "prompt_tokens_details": {"audio_tokens": 3, "cached_tokens": 1},
        "completion_tokens_details": "odd",
        "total_tokens": 9,
    }
    usage = Usage(7, 1, 4, reasoning_tokens=1, extra=extra)
    counts = {"prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8}
    assert usage_to_wire(usage, extras=False) == {
        **counts,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    assert usage_to_wire(usage, extras=True) == {
        **counts,
        "cost": 0.5,
        "prompt_tokens_details": {"audio_tokens": 3, "cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    assert extra["prompt_tokens_details"] == {"audio_tokens": 3, "cached_tokens": 1}


@given(draws(20))
def test_counts_round_trip(d: Draws) -> None:
    usage = structs.replace(make_usage(d), extra=None)
    back = usage_from_wire(Usage(), usage_to_wire(usage, extras=True))
    known = (usage.input_tokens or 0, usage.output_tokens or 0)
    assert back == Usage(
        *known, usage.cache_read_tokens, usage.cache_write_tokens, usage.reasoning_tokens
    )


def test_reasoning_beside_audio_is_part_of_the_completion() -> None:
    details = {"completion_tokens_details": {"reasoning_tokens": 2}}
    wire = {**COUNTS, **details, "total_tokens": 17, "prompt_audio_seconds": 4}
    assert usage_from_wire(Usage(), wire).output_tokens == 5
