"""One block at a time: its laws, and the bound on what waits."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from msgspec import structs
from support.draws import Draws, draws
from support.streams.event_strategies import block_runs, coalesced, event_streams, interleaved

from streamnorm import (
    Block,
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Event,
    JSONDelta,
    LimitExceeded,
    MessageStart,
    MessageStop,
    Opaque,
    Ping,
    Reasoning,
    ReasoningDelta,
    Refusal,
    RefusalDelta,
    ServerToolCall,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    UsageUpdate,
)
from streamnorm._core.grammar import Sequencer
from streamnorm._core.limits import NEAR_BYTES
from streamnorm._core.text import BATCH, LONG_CHARS
from streamnorm.validation import validate


def sequenced(events: list[Event], overlapping: tuple[type, ...] = ()) -> list[Event]:
    sequencer = Sequencer(overlapping=overlapping)
    return [passed for event in events for passed in sequencer.push(event)]


def by_block(events: list[Event]) -> dict[int, list[Event]]:
    """Return the events of each block, deltas joined."""
    blocks: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        index = getattr(event, "index", None)
        if index is not None:
            blocks[index].append(event)
    return {index: coalesced(run) for index, run in blocks.items()}


@given(event_streams(failing=True))
def test_at_most_one_block_is_open(events: list[Event]) -> None:
    open_blocks: set[int] = set()
    for event in sequenced(events):
        if isinstance(event, BlockStart):
            open_blocks.add(event.index)
        elif isinstance(event, BlockStop):
            open_blocks.remove(event.index)
        assert len(open_blocks) <= 1


@given(event_streams(failing=True))
def test_output_is_legal(events: list[Event]) -> None:
    assert validate(sequenced(events)) == []


@given(event_streams())
def test_order_and_bytes_within_a_block_are_unchanged(events: list[Event]) -> None:
    assert by_block(sequenced(events)) == by_block(events)


@given(event_streams())
def test_nothing_is_held_at_a_clean_end(events: list[Event]) -> None:
    sequencer = Sequencer()
    for event in events:
        sequencer.push(event)
    assert sequencer.held_bytes == sequencer.dropped_bytes == 0
    indexes = [event.index for event in events if isinstance(event, BlockStart)]
    assert all(sequencer.held_texts(TextDelta(index, "")) is None for index in indexes)


@given(draws())
def test_sequential_stream_passes_event_by_event(d: Draws) -> None:
    sequencer = Sequencer()
    for event in (event for block in block_runs(d) for event in block):
        assert sequencer.push(event) == [event]
        assert sequencer.held_bytes == 0


@given(draws())
def test_output_does_not_depend_on_the_interleaving(d: Draws) -> None:
    blocks = block_runs(d)
    one, other = interleaved(d, blocks), interleaved(d, blocks)
    assert coalesced(sequenced(one)) == coalesced(sequenced(other))


@given(event_streams(choices=3, failing=True))
def test_choices_never_wait_for_each_other(events: list[Event]) -> None:
    """The output of each choice is the same as without the others."""
    owner = {event.index: event.choice for event in events if isinstance(event, BlockStart)}
    for choice in range(3):
        alone = [e for e in events if owner.get(getattr(e, "index", -1), choice) == choice]
        together = sequenced(events)
        assert [
            e for e in together if owner.get(getattr(e, "index", -1), choice) == choice
        ] == sequenced(alone)


@given(event_streams())
def test_overlapping_types_wait_for_others_but_hold_nothing_back(
    events: list[Event],
) -> None:
    blocks = {event.index: event.block for event in events if isinstance(event, BlockStart)}
    opened: set[int] = set()
    for event in sequenced(events, (ToolCall,)):
        if isinstance(event, BlockStart):
            assert all(isinstance(blocks[index], ToolCall) for index in opened)
            opened.add(event.index)
        elif isinstance(event, BlockStop):
            opened.remove(event.index)
    assert by_block(sequenced(events, (ToolCall,))) == by_block(events)


@given(event_streams(calls_only=True))
def test_overlapping_calls_pass_at_once_if_allowed(events: list[Event]) -> None:
    sequencer = Sequencer(overlapping=(ToolCall, ServerToolCall))
    assert [sequencer.push(event) for event in events] == [[event] for event in events]


@given(event_streams(failing=True))
def test_events_without_a_block_pass_at_once(events: list[Event]) -> None:
    sequencer = Sequencer()
    for event in events:
        passed = sequencer.push(event)
        if getattr(event, "index", None) is None:
            assert passed == [event]


A, B, C = (BlockStart(n, ToolCall(f"c{n}", "f")) for n in range(3))


def test_lowest_open_block_passes_and_later_blocks_follow_in_order() -> None:
    sequencer = Sequencer()
    assert sequencer.push(A) == [A]
    assert [sequencer.push(event) for event in (B, C)] == [[], []]
    assert sequencer.push(JSONDelta(0, "{")) == [JSONDelta(0, "{")]
    assert sequencer.push(JSONDelta(2, "[")) == []
    assert sequencer.push(JSONDelta(1, "{")) == []
    assert sequencer.push(JSONDelta(2, "]")) == []
    assert sequencer.push(BlockStop(2)) == []
    assert sequencer.held_texts(JSONDelta(0, "")) is None
    assert all(sequencer.held_texts(JSONDelta(index, "")) is not None for index in (1, 2))
    assert sequencer.push(BlockStop(0)) == [BlockStop(0), B, JSONDelta(1, "{")]
    assert sequencer.held_texts(JSONDelta(1, "")) is None
    assert sequencer.push(JSONDelta(1, "}")) == [JSONDelta(1, "}")]
    assert sequencer.push(BlockStop(1)) == [BlockStop(1), C, JSONDelta(2, "[]"), BlockStop(2)]
    assert sequencer.held_texts(JSONDelta(3, "")) is None


def test_held_blocks_name_the_block_that_they_wait_for() -> None:
    sequencer = Sequencer()
    for event in (A, B, C):
        sequencer.push(event)
    assert sequencer.held_behind == {1: 0, 2: 0}
    sequencer.push(BlockStop(0))  # block 1 is open
    assert sequencer.held_behind == {2: 0}
    sequencer.push(BlockStop(1))
    assert sequencer.held_behind == {}


def test_held_deltas_of_a_later_block_are_joined() -> None:
    later: list[Event] = [
        *(BlockStart(1, Reasoning()), ReasoningDelta(1, "a"), ReasoningDelta(1, "b")),
        *(ReasoningDelta(1, "c", 1), Opaque("d", "n", "{}", 1), ReasoningDelta(1, "e", 1)),
        *(SignatureDelta(1, "s"), BlockStop(1), BlockStart(2, Text()), TextDelta(2, "t")),
        *(CitationDelta(2, Citation("k")), TextDelta(2, "u"), BlockStop(2)),
        *(BlockStart(3, Refusal()), RefusalDelta(3, "n"), RefusalDelta(3, "o"), BlockStop(3)),
    ]
    sequencer = Sequencer()
    sequencer.push(A)
    assert [sequencer.push(event) for event in later] == [[]] * len(later)
    assert sequencer.push(BlockStop(0)) == [
        BlockStop(0),
        *(BlockStart(1, Reasoning()), ReasoningDelta(1, "ab"), ReasoningDelta(1, "c", 1)),
        *(Opaque("d", "n", "{}", 1), ReasoningDelta(1, "e", 1), SignatureDelta(1, "s")),
        *(BlockStop(1), BlockStart(2, Text()), TextDelta(2, "t"), CitationDelta(2, Citation("k"))),
        *(TextDelta(2, "u"), BlockStop(2)),
        *(BlockStart(3, Refusal()), RefusalDelta(3, "no"), BlockStop(3)),
    ]


def test_text_passes_open_calls_that_may_overlap() -> None:
    sequencer = Sequencer(overlapping=(ToolCall,))
    text, delta = BlockStart(1, Text()), TextDelta(1, "t")
    passing: list[Event] = [A, JSONDelta(0, "{"), text, delta, JSONDelta(0, "}")]
    assert [sequencer.push(event) for event in passing] == [[event] for event in passing]
    call: list[Event] = [BlockStart(2, ToolCall("c2", "f")), JSONDelta(2, "["), JSONDelta(2, "]")]
    assert [sequencer.push(event) for event in call] == [[], [], []]
    assert sequencer.push(BlockStop(0)) == [BlockStop(0)]
    assert sequencer.push(BlockStop(1)) == [BlockStop(1), call[0], JSONDelta(2, "[]")]
    assert sequencer.push(JSONDelta(2, " ")) == [JSONDelta(2, " ")]


def test_held_calls_are_released_up_to_the_next_held_text() -> None:
    sequencer = Sequencer(overlapping=(ToolCall,))
    waiting: list[Event] = [
        *(BlockStart(1, ToolCall("c1", "f")), BlockStart(2, ToolCall("c2", "f"))),
        *(BlockStart(3, Text()), TextDelta(3, "x"), BlockStart(4, ToolCall("c4", "f"))),
        *(JSONDelta(2, "2"), JSONDelta(1, "1"), BlockStop(2)),
    ]
    first = BlockStart(0, Text())
    assert sequencer.push(first) == [first]
    assert [sequencer.push(event) for event in waiting] == [[]] * len(waiting)
    assert sequencer.push(BlockStop(0)) == [
        *(BlockStop(0), waiting[0], JSONDelta(1, "1"), waiting[1], JSONDelta(2, "2"), BlockStop(2)),
        *(waiting[2], TextDelta(3, "x")),
    ]
    assert all(sequencer.held_texts(JSONDelta(index, "")) is None for index in (1, 2))
    assert sequencer.held_texts(TextDelta(3, "")) is None
    assert sequencer.push(BlockStop(3)) == [BlockStop(3), waiting[4]]


def test_held_block_that_stopped_unfinished_holds_nothing_back() -> None:
    sequencer = Sequencer()
    first, call = BlockStart(0, Text()), BlockStart(1, ToolCall("c", "f", kind="custom"))
    later: list[Event] = [BlockStop(1, is_unfinished=True), Opaque("d", "x", "{}", 1)]
    last = BlockStart(2, Text())
    assert [sequencer.push(event) for event in [first, call, *later, last]] == [[first], *[[]] * 4]
    assert sequencer.push(BlockStop(0)) == [BlockStop(0), call, *later, last]


@pytest.mark.parametrize(
    ("block", "delta"),
    [
        (ToolCall("c", "f"), JSONDelta(1, "x")),
        (Text(), TextDelta(1, "x")),
        (Refusal(), RefusalDelta(1, "x")),
        (Reasoning(), ReasoningDelta(1, "x")),
        (Reasoning(), ReasoningDelta(1, "x", 3)),
    ],
)
@pytest.mark.parametrize("pushed", [0, 1])
def test_text_sink_holds_text_as_push_does(
    block: Block, delta: TextDelta | RefusalDelta | ReasoningDelta | JSONDelta, pushed: int
) -> None:
    by_push, by_sink = Sequencer(), Sequencer()
    for sequencer in (by_push, by_sink):
        assert sequencer.held_texts(delta) is None
        for event in (A, BlockStart(1, block), *[delta] * pushed):
            sequencer.push(event)
    hold = by_sink.held_texts(delta)
    assert hold is not None
    for text in ("a", 'é"', "😀", "b"):
        by_push.push(structs.replace(delta, **{type(delta).__struct_fields__[1]: text}))
        hold.append(text)
        assert by_sink.held_bytes == by_push.held_bytes
    assert by_sink.push(BlockStop(0)) == by_push.push(BlockStop(0))
    assert by_sink.held_bytes == by_push.held_bytes == 0
    assert by_sink.held_texts(delta) is None


def test_texts_in_the_list_are_held_as_those_that_are_pushed() -> None:
    by_push, by_list = Sequencer(), Sequencer()
    for sequencer in (by_push, by_list):
        for event in (A, B, JSONDelta(1, "x")):
            sequencer.push(event)
    held = by_list.held_texts(JSONDelta(1, ""))
    assert held is not None
    for number in range(BATCH - 1):
        text = f"{number}é"
        by_push.push(JSONDelta(1, text))
        held.fresh.append(text)
        assert by_list.held_bytes == by_push.held_bytes
    for sequencer in (by_push, by_list):
        sequencer.push(JSONDelta(1, "y"))
    held.append("z")
    held.fresh.append("end")
    by_push.push(JSONDelta(1, "zend"))
    assert by_list.push(BlockStop(0)) == by_push.push(BlockStop(0))
    assert by_list.held_bytes == by_push.held_bytes == 0
    assert len(held.fresh) >= BATCH  # it takes no more


def test_list_takes_no_text_near_the_bound() -> None:
    plain = Sequencer()
    for event in (A, B, C):
        plain.push(event)
    left = NEAR_BYTES + plain.held_bytes + 10
    sequencer = Sequencer(max_held_bytes=left)
    for event in (A, B, C):
        sequencer.push(event)
    first, second = (sequencer.held_texts(JSONDelta(index, "")) for index in (1, 2))
    assert first is not None
    assert second is not None
    assert (len(first.fresh), len(second.fresh)) == (0, 0)
    first.fresh.append("a")
    second.append("b" * 20)
    assert len(first.fresh) >= BATCH
    assert len(second.fresh) >= BATCH
    third = sequencer.held_texts(JSONDelta(1, ""))
    assert third is not None
    assert len(third.fresh) >= BATCH
    held = sequencer.held_bytes
    first.append("c" * (left - held))
    assert sequencer.held_bytes == left
    with pytest.raises(LimitExceeded, match=f"{left + 1} bytes wait behind an open block"):
        second.append("d")


def test_event_that_brings_the_bound_near_takes_the_lists_back() -> None:
    sequencer = Sequencer(max_held_bytes=NEAR_BYTES + 100)
    for event in (A, BlockStart(1, Text()), TextDelta(1, "x"), BlockStart(2, Text())):
        sequencer.push(event)
    held = sequencer.held_texts(TextDelta(1, ""))
    assert held is not None
    held.fresh.append("uncounted")
    before = sequencer.held_bytes
    sequencer.push(CitationDelta(2, Citation("k", cited_text="c" * 100)))
    assert len(held.fresh) >= BATCH
    assert sequencer.held_bytes > before + 100


def test_few_lists_take_texts_that_nobody_has_counted() -> None:
    sequencer = Sequencer()
    sequencer.push(A)
    for index in range(1, 19):
        sequencer.push(BlockStart(index, Text()))
        sequencer.push(TextDelta(index, "x"))
    lists = [sequencer.held_texts(TextDelta(index, "")) for index in range(1, 19)]
    assert [held is not None and not held.fresh for held in lists] == [True] * 16 + [False] * 2


def test_deltas_of_another_part_are_held_apart() -> None:
    sequencer = Sequencer()
    for event in (A, BlockStart(1, Reasoning())):
        sequencer.push(event)
    for part, text in ((0, "a"), (1, "b"), (1, "c"), (0, "d")):
        hold = sequencer.held_texts(ReasoningDelta(1, "", part))
        assert hold is not None
        hold.append(text)
    assert sequencer.push(BlockStop(0))[2:] == [
        ReasoningDelta(1, "a"),
        ReasoningDelta(1, "bc", 1),
        ReasoningDelta(1, "d"),
    ]


def test_text_held_by_a_sink_is_bounded() -> None:
    sequencer = Sequencer(max_held_bytes=100)
    for event in (A, B):
        sequencer.push(event)
    hold = sequencer.held_texts(JSONDelta(1, ""))
    assert hold is not None
    hold.append("x" * (100 - sequencer.held_bytes))
    assert sequencer.held_bytes == 100
    with pytest.raises(
        LimitExceeded, match="102 bytes wait behind an open block, expected at most 100"
    ) as caught:
        hold.append("é")
    assert caught.value.limit == "max_held_bytes"
    assert (sequencer.held_bytes, sequencer.dropped_bytes) == (0, 102)
    assert sequencer.push(BlockStop(0)) == []


def test_opaque_of_a_block_that_has_stopped_passes_at_once() -> None:
    late = Opaque("d", "n", "{}", 0)
    sequencer = Sequencer()
    for event in (A, BlockStop(0), B, C):
        sequencer.push(event)
    assert sequencer.push(late) == [late]


def test_gap_between_indexes_is_accepted() -> None:
    events: list[Event] = [BlockStart(2, Text()), BlockStart(5, Text()), TextDelta(5, "b")]
    assert sequenced([*events, BlockStop(2)]) == [
        *(BlockStart(2, Text()), BlockStop(2), BlockStart(5, Text()), TextDelta(5, "b")),
    ]


def test_error_drops_held_events_and_counts_them() -> None:
    error = StreamError("transport", "reset")
    sequencer = Sequencer()
    for event in (MessageStart(), A, JSONDelta(0, "{"), BlockStart(1, Text()), TextDelta(1, "éa")):
        sequencer.push(event)
    assert sequencer.held_bytes == len('{"type":"text"}') + 3
    assert sequencer.push(error) == [error]
    assert (sequencer.held_bytes, sequencer.dropped_bytes) == (0, 18)
    assert sequencer.push(BlockStop(0)) == []
    assert sequencer.push(Ping()) == []


# {"type":"text"} is 15 bytes.
HELD: dict[str, tuple[list[Event], int]] = {
    "text": ([TextDelta(1, "é")], 17),
    "several deltas": ([TextDelta(1, "abc"), TextDelta(1, "def")], 21),
    "signature": ([SignatureDelta(1, "sig")], 18),
    "citation": ([CitationDelta(1, Citation("k"))], 27),
    "opaque": ([Opaque("d", "n", '"é"', 1)], 19),
    "another block": ([BlockStop(1), BlockStart(2, Text())], 30),
}


@pytest.mark.parametrize(("events", "size"), HELD.values(), ids=HELD)
def test_held_events_are_bounded_in_bytes(events: list[Event], size: int) -> None:
    for bound in (size + 1, size):
        sequencer = Sequencer(max_held_bytes=bound)
        for event in (A, BlockStart(1, Text()), *events):
            assert not any(isinstance(e, StreamError) for e in sequencer.push(event))
        assert sequencer.held_bytes == size
    sequencer = Sequencer(max_held_bytes=size - 1)
    passed = [e for event in (A, BlockStart(1, Text()), *events) for e in sequencer.push(event)]
    message = f"{size} bytes wait behind an open block, expected at most {size - 1}"
    assert passed == [A, StreamError("too_large", message, code="max_held_bytes")]
    assert sequencer.dropped_bytes == size
    assert sequencer.push(BlockStop(0)) == []


def test_more_held_events_than_start_text_and_stop_count_as_objects() -> None:
    events = [A, BlockStart(1, Text()), TextDelta(1, "a"), SignatureDelta(1, "sig"), BlockStop(1)]
    size = 15 + 1 + 3 + 200  # and an object of that size
    for bound, overflows in ((size, False), (size - 1, True)):
        sequencer = Sequencer(max_held_bytes=bound)
        passed = [each for event in events for each in sequencer.push(event)]
        assert any(isinstance(each, StreamError) for each in passed) == overflows


def test_text_held_by_a_sink_counts_beside_objects() -> None:
    citation = CitationDelta(1, Citation("k"))
    events = [BlockStart(1, Text()), TextDelta(1, "a"), citation, TextDelta(1, "b")]
    plain = Sequencer()
    for event in (A, *events):
        plain.push(event)
    sequencer = Sequencer(max_held_bytes=plain.held_bytes + 200 + 5)  # an event more than usual
    for event in (A, *events):
        sequencer.push(event)
    hold = sequencer.held_texts(TextDelta(1, ""))
    assert hold is not None
    hold.append("12345")
    with pytest.raises(LimitExceeded):
        hold.append("6")


def test_pieces_held_by_a_sink_are_joined_now_and_then() -> None:
    """A string of a character takes fifty bytes."""
    sequencer = Sequencer()
    for event in (A, B):
        sequencer.push(event)
    hold = sequencer.held_texts(JSONDelta(1, ""))
    assert hold is not None
    for _ in range(10 * BATCH):
        hold.append("x")
    (held,) = (item for item in sequencer._queue_of[1].held[1] if hasattr(item, "text"))
    assert len(held.text.fresh) <= BATCH


def test_passed_events_do_not_count_against_the_bound() -> None:
    sequencer = Sequencer(max_held_bytes=0)
    text = TextDelta(0, "x" * 1000)
    assert sequencer.push(BlockStart(0, Text())) + sequencer.push(text) == [
        BlockStart(0, Text()),
        text,
    ]


def test_usage_and_stops_overtake_held_events() -> None:
    passing: list[Event] = [UsageUpdate(Usage(1)), Ping(), MessageStop("end_turn")]
    sequencer = Sequencer()
    for event in (A, B):
        sequencer.push(event)
    assert [sequencer.push(event) for event in passing] == [[event] for event in passing]


def test_added_block_goes_behind_those_that_started_before_it() -> None:
    """A projection numbers the blocks that it adds below zero, so that no other changes."""
    events: list[Event] = [
        *(MessageStart("m"), BlockStart(0, ToolCall("c", "f")), BlockStart(1, Text())),
        *(BlockStart(-2, Reasoning()), SignatureDelta(-2, "s"), BlockStop(-2)),
        *(BlockStart(-1, Reasoning()), SignatureDelta(-1, "s"), BlockStop(-1)),
        *(BlockStart(2, Text()), BlockStop(2), BlockStop(0), TextDelta(1, "a"), BlockStop(1)),
    ]
    starts = [event.index for event in sequenced(events) if isinstance(event, BlockStart)]
    assert starts == [0, 1, -2, -1, 2]


def test_sinks_of_two_parts_hold_their_text_in_its_order() -> None:
    sequencer = Sequencer()
    for event in (BlockStart(0, Text()), BlockStart(1, Reasoning())):
        sequencer.push(event)
    first, second = (sequencer.held_texts(ReasoningDelta(1, "", part)) for part in (0, 1))
    assert first is not None
    assert second is not None
    for text in ("a", "b", *"x" * BATCH, "y" * (LONG_CHARS + 1)):
        first.append(text)
    second.append("c")
    first.append("d")
    sequencer.push(BlockStop(1))
    texts = "ab" + "x" * BATCH + "y" * (LONG_CHARS + 1)
    assert sequencer.push(BlockStop(0)) == [
        *(BlockStop(0), BlockStart(1, Reasoning()), ReasoningDelta(1, texts)),
        *(ReasoningDelta(1, "c", 1), ReasoningDelta(1, "d"), BlockStop(1)),
    ]
