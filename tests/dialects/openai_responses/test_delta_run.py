"""Chunks that are one more piece of a known text: read as their frames would be, or not at all."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from responses_frames import START, added, call, completed, done, event, part_added
from responses_pieces import (
    ARGUMENTS,
    MAKE,
    MESSAGE,
    OPENING,
    OTHER,
    SUMMARY,
    TEXT,
    THOUGHT,
    each_kind,
    fed,
    numbered,
    piece,
)

from streamnorm import (
    BlockStop,
    Completed,
    Failed,
    JSONDelta,
    Limits,
    MessageStop,
    Note,
    Ping,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
)
from streamnorm.dialects.openai_responses.decode import ResponsesDecoder
from streamnorm.sse import Frame


@each_kind
def test_more_of_a_text_is_read_by_its_piece_alone(kind: str) -> None:
    texts = ["a", 'b"\\ \n', "é😀\u2028", "", "x" * 300, '","delta":"y', "\ud7ff", '"}\n\n']
    given, reader = fed(START, OPENING[kind], *numbered(kind, *texts))
    assert given[2:] == [[MAKE[kind](0, text)] if text else [] for text in texts]
    assert reader.short == len(texts) - 1


@each_kind
def test_fields_may_stand_in_any_order_and_be_padded(kind: str) -> None:
    sorted_fields: list[bytes] = []
    for number in range(8):
        told = piece(kind, "a", number, obfuscation="x" * number).split(b"\ndata: ")[1]
        data = json.dumps(json.loads(told), sort_keys=True, indent=1).replace("\n", "")
        sorted_fields.append(f"event: {kind}\ndata: {data}\n\n".encode())
    given, reader = fed(START, OPENING[kind], *sorted_fields)
    assert given[2:] == [[MAKE[kind](0, "a")]] * 8
    assert reader.short == 7


@each_kind
def test_pieces_without_numbers_need_none(kind: str) -> None:
    given, reader = fed(START, OPENING[kind], *[piece(kind, "a")] * 3)
    assert given[2:] == [[MAKE[kind](0, "a")]] * 3
    assert reader.short == 2


def test_items_without_numbers_are_told_apart() -> None:
    texts = [("m", "a"), ("m", "b"), ("n", "c"), ("n", "d"), ("m", "e")]
    opening = [added(None, "message", id=id) for id in "mn"]
    chunks = [piece(TEXT, text, item_id=id, output_index=None) for id, text in texts]
    given, _ = fed(START, *opening, *chunks)
    deltas = [event for events in given for event in events if isinstance(event, TextDelta)]
    assert deltas == [
        TextDelta(number, text) for number, text in zip((0, 0, 1, 1, 0), "abcde", strict=True)
    ]


@pytest.mark.parametrize("joined", [False, True])
def test_item_that_a_piece_implies_may_take_the_pieces_of_another(joined: bool) -> None:
    """Its number was wrong for the item before, and is right for this one."""
    opening = [added(0, "message", id="m"), added(1, "message", id="n")]
    known = [piece(TEXT, "a", output_index=5), piece(TEXT, "b", output_index=5)]
    other = [piece(TEXT, "c", **OTHER), piece(TEXT, "d", **OTHER)]
    implying = piece(TEXT, "", item_id="z", output_index=5)
    chunks = [implying + other[1]] if joined else [implying]
    given, _ = fed(START, *opening, other[0], *known, *chunks, piece(TEXT, "e", output_index=5))
    assert given[-1][-1] == TextDelta(2, "e")


def test_two_texts_of_one_item_are_told_apart() -> None:
    opening = [added(number, "reasoning", id=id) for number, id in enumerate("mn")]
    turns: list[tuple[str, dict[str, Any]]]
    turns = [(SUMMARY, {}), (SUMMARY, {}), (THOUGHT, OTHER), (THOUGHT, {}), (THOUGHT, OTHER)]
    chunks = [piece(kind, "a", **fields) for kind, fields in turns]
    given, _ = fed(START, *opening, *chunks)
    deltas = [event for events in given for event in events if isinstance(event, ReasoningDelta)]
    assert [delta.index for delta in deltas] == [0, 0, 1, 2, 1]


def test_name_of_an_event_is_judged_each_time() -> None:
    unnamed = [chunk.split(b"\n", 1)[1] for chunk in numbered(TEXT, "a", "b", "c")]
    given, reader = fed(START, MESSAGE, *unnamed)
    assert given[2:] == [[TextDelta(0, "a")], [TextDelta(0, "b")], [TextDelta(0, "c")]]
    assert reader.notes == (Note("no_event_line", "frame", 3),)


def test_event_that_comes_twice_is_dropped_behind_the_short_way_too() -> None:
    first, second = numbered(TEXT, "a", "b")
    spoilt = second.replace(b'"logprobs"', b'"odd":"\xff","logprobs"')
    for again in (second, spoilt):
        given, reader = fed(START, MESSAGE, first, again, again, piece(TEXT, "c", 2))
        assert given[2:] == [[TextDelta(0, "a")], [TextDelta(0, "b")], [], [TextDelta(0, "c")]]
        assert reader.notes == (Note("resent_event", "frame", 1),)


def test_gap_is_noted_behind_the_short_way_too() -> None:
    given, reader = fed(START, MESSAGE, *numbered(TEXT, "a", "b"), piece(TEXT, "d", 3))
    assert given[-1] == [TextDelta(0, "d")]
    assert reader.notes == (Note("gap", "sequence_number", 1),)
    assert reader.short == 1


def test_constant_number_numbers_nothing() -> None:
    given, reader = fed(START, MESSAGE, *(piece(TEXT, text, 0) for text in "abcd"))
    assert given[2:] == [[TextDelta(0, text)] for text in "abcd"]
    assert reader.notes == ()


def test_whole_text_is_compared_with_what_came_the_short_way() -> None:
    texts = [f"{number} é" for number in range(100)]
    whole = "".join(texts)
    for told, more, notes in (
        (whole, [], ()),
        (whole + "!", [TextDelta(0, "!")], ()),
        ("?" + whole[1:], [], (Note("resent_text", "Text", 1),)),
    ):
        end = event("response.output_text.done", output_index=0, content_index=0, text=told)
        given, reader = fed(START, MESSAGE, *numbered(TEXT, *texts), end)
        assert given[-1] == more
        assert reader.notes == notes
        assert reader.short == 99


def test_calls_in_turn_are_told_apart() -> None:
    opening = [
        added(number, "function_call", **call(id=f"fc_{number}", call_id=f"c{number}"))
        for number in range(3)
    ]
    turns = [
        piece(ARGUMENTS, text, number, item_id=f"fc_{number % 3}", output_index=number % 3)
        for number, text in enumerate('{{{"""abcdef"""}}}')
    ]
    given, reader = fed(START, *opening, *turns)
    assert given[4:] == [
        [JSONDelta(number % 3, text)] for number, text in enumerate('{{{"""abcdef"""}}}')
    ]
    assert reader.short == len(turns) - 3


@pytest.mark.parametrize("numbers", [True, False])
def test_whole_texts_are_compared_with_what_came_in_turn(numbers: bool) -> None:
    items = [call(id=f"fc_{number}", call_id=f"c{number}") for number in range(2)]
    opening = [added(number, "function_call", **item) for number, item in enumerate(items)]
    pieces = [
        piece(
            ARGUMENTS,
            f"{number},",
            number if numbers else None,
            item_id=f"fc_{number % 2}",
            output_index=number % 2,
        )
        for number in range(150)
    ]
    ends: list[bytes] = []
    for number, item in enumerate(items):
        whole = "".join(f"{n}," for n in range(number, 150, 2))
        ends.append(done(number, "function_call", **{**item, "arguments": whole + "!" * number}))
    given, reader = fed(START, *opening, *pieces, *ends)
    assert reader.short == 148
    assert given[-2:] == [[BlockStop(0)], [JSONDelta(1, "!"), BlockStop(1)]]
    assert reader.notes == ()


def test_many_texts_in_turn_are_read_all_the_same() -> None:
    opening = [added(n, "function_call", **call(id=f"fc_{n}", call_id=f"c{n}")) for n in range(20)]
    turns = [
        piece(ARGUMENTS, "1", item_id=f"fc_{number}", output_index=number)
        for _ in range(3)
        for number in range(20)
    ]
    given, reader = fed(START, *opening, *turns)
    assert reader.short == 0  # since no more than a few are known at once
    assert given[21:] == [[JSONDelta(number, "1")] for _ in range(3) for number in range(20)]


def test_stream_that_a_piece_ends_has_ended_for_other_texts_too() -> None:
    items = [call(id=id, call_id=id) for id in "mn"]
    opening = [added(number, "function_call", **item) for number, item in enumerate(items)]
    known = [done(0, "function_call", **items[0]), *[piece(ARGUMENTS, "1", **OTHER)] * 2]
    given, reader = fed(
        START, *opening, *known, piece(ARGUMENTS, "x"), piece(ARGUMENTS, "2", **OTHER)
    )
    assert isinstance(reader.outcome, Failed)
    assert given[-1] == []


def test_another_kind_of_piece_ends_the_short_way() -> None:
    opening = [MESSAGE, added(1, "function_call", **call(id="fc"))]
    arguments: dict[str, Any] = {"item_id": "fc", "output_index": 1}
    chunks: list[bytes] = []
    for number in range(0, 6, 2):
        chunks += [piece(TEXT, "1", number), piece(ARGUMENTS, "1", number + 1, **arguments)]
    given, _ = fed(START, *opening, *chunks)
    assert given[3:] == [[TextDelta(0, "1")], [JSONDelta(1, "1")]] * 3


def test_summaries_are_told_apart() -> None:
    chunks = [
        *numbered(SUMMARY, "a", "b", summary_index=0),
        *numbered(SUMMARY, "c", "d", summary_index=1, first=2),
    ]
    given, reader = fed(START, OPENING[SUMMARY], *chunks)
    assert given[2:] == [
        [ReasoningDelta(0, "a")],
        [ReasoningDelta(0, "b")],
        [ReasoningDelta(0, "c", 1)],
        [ReasoningDelta(0, "d", 1)],
    ]
    assert reader.short == 2
    assert isinstance(reader.continued, ReasoningDelta)
    assert (reader.continued.index, reader.continued.part) == (0, 1)
    assert reader.more(piece(SUMMARY, "e", 4, summary_index=0)) is None
    assert reader.more(piece(SUMMARY, "e", 4, summary_index=1)) == "e"


CALLS = [added(n, "function_call", **call(id=f"fc_{n}", call_id=f"c{n}")) for n in range(2)]


def turns(*numbers: int) -> list[bytes]:
    """Return pieces of two calls, one of each in turn."""
    return [
        piece(ARGUMENTS, str(number), number, item_id=f"fc_{number % 2}", output_index=number % 2)
        for number in numbers
    ]


def test_text_of_another_block_is_not_offered_for_this_one() -> None:
    _, reader = fed(START, *CALLS, *turns(0, 1, 2, 3))
    assert reader.continued is not None
    assert reader.continued.index == 1
    other, own = piece(ARGUMENTS, "4", 4, item_id="fc_0"), turns(5)[0].replace(b":5", b":4")
    assert reader.more(other) is None
    assert reader.more(own) == "5"
    assert reader.feed(turns(5)[0]) == [JSONDelta(1, "5")]
    assert reader.feed(turns(6)[0]) == [JSONDelta(0, "6")]


def test_texts_that_take_turns_are_offered_each_with_its_block() -> None:
    _, reader = fed(START, *CALLS, *turns(0, 1))
    given: list[tuple[int | None, str | None]] = []
    for chunk in turns(2, 3, 4):
        text = reader.turns(chunk)
        given.append((reader.continued.index if reader.continued else None, text))
    assert given == [(0, "2"), (1, "3"), (0, "4")]
    assert reader.feed(turns(5)[0]) == [JSONDelta(1, "5")]


@each_kind
def test_text_that_has_stopped_takes_no_more(kind: str) -> None:
    types = {TEXT: "message", ARGUMENTS: "function_call"}
    item = call(id="m") if kind == ARGUMENTS else {"id": "m"}
    end = done(0, types.get(kind, "reasoning"), **item)
    given, reader = fed(START, OPENING[kind], *numbered(kind, "{", "}"), end)
    assert isinstance(given[-1][-1], BlockStop)
    assert reader.continued is None
    fed(START, OPENING[kind], *numbered(kind, "{", "}"), end, *numbered(kind, "c", "d", first=3))


@each_kind
def test_half_a_character_at_the_end_of_a_piece_waits_for_the_other(kind: str) -> None:
    halves = [rb"\ud83d", rb"\ude00"]
    first, *rest = [
        piece(kind, "?", number).replace(b"?", half) for number, half in enumerate([b"a", *halves])
    ]
    given, _ = fed(START, OPENING[kind], first, *rest, piece(kind, "b", 3))
    make = MAKE[kind]
    assert given[2:] == [[make(0, "a")], [], [make(0, "😀")], [make(0, "b")]]
    given, _ = fed(START, OPENING[kind], first, rest[0], *numbered(kind, "b", "c", first=2))
    assert given[2:] == [[make(0, "a")], [], [make(0, "\ufffdb")], [make(0, "c")]]


def test_item_that_is_named_anew_with_each_piece_is_found_each_time() -> None:
    given, reader = fed(
        *(START, MESSAGE),
        *(piece(TEXT, "a", number, item_id=f"id {number}") for number in range(4)),
    )
    assert given[2:] == [[TextDelta(0, "a")]] * 4
    assert reader.notes == ()
    assert reader.continued is None


def test_refusal_is_no_text() -> None:
    opening = added(0, "message", id="m") + part_added({"type": "refusal", "refusal": ""})
    refusal = "response.refusal.delta"
    chunks = [
        event(refusal, output_index=0, content_index=0, delta="a", item_id="m"),
        *(piece(TEXT, "b"), piece(TEXT, "b")),
        event(refusal, output_index=0, content_index=0, delta="c", item_id="m"),
    ]
    given, _ = fed(START, opening, *chunks)
    assert (given[2], given[5]) == ([RefusalDelta(0, "a")], [RefusalDelta(0, "c")])


@pytest.mark.parametrize("others", [0, 1])
def test_events_are_counted_and_bounded_all_the_same(others: int) -> None:
    plain = len(piece(TEXT, "", 0)) - 1
    opening = [added(0, "message", id="m"), added(1, "message", id="n")]
    turns: list[tuple[str, dict[str, Any]]]
    turns = [(TEXT, {}), *[(TEXT, OTHER)] * others, (TEXT, {}), (TEXT, {})]
    chunks = [piece(kind, "a", at, **fields) for at, (kind, fields) in enumerate(turns)]
    for size, outcome in ((300, Completed), (301, Failed)):
        large = piece(TEXT, "x" * (size - plain), len(chunks))
        _, reader = fed(
            START, *opening, *chunks, large, completed(), limits=Limits(max_event_bytes=300)
        )
        assert isinstance(reader.outcome, outcome)
        assert reader.short >= 1


def test_other_ways_to_feed_end_the_short_way() -> None:
    chunks = [START, MESSAGE, *numbered(TEXT, "a", "b")]
    for leave in ("frame", "close", "abort"):
        _, reader = fed(*chunks)
        assert reader.more(piece(TEXT, "c", 2)) == "c"
        if leave == "frame":
            assert reader.feed_frame(Frame("keepalive", '{"type":"keepalive"}')) == [Ping()]
        elif leave == "close":
            reader.close()
        else:
            reader.abort(OSError())
        assert reader.continued is None
        assert reader.more(piece(TEXT, "d", 3)) is None


def test_whole_text_is_compared_on_other_ways_too() -> None:
    for told, notes in (("ab", ()), ("ba", (Note("resent_text", "Text", 1),))):
        _, reader = fed(START, MESSAGE, *numbered(TEXT, "a", "b"))
        part = {"type": "output_text", "text": told}
        end = completed({"type": "message", "id": "m", "content": [part]})
        payload = end.decode().split("data: ")[1].strip()
        given = reader.feed_frame(Frame("response.completed", payload))
        assert [type(event) for event in given] == [BlockStop, MessageStop]
        assert tuple(note for note in reader.notes if note.kind != "missing_item_done") == notes


def test_what_came_the_short_way_does_not_pile_up() -> None:
    reader = ResponsesDecoder()
    reader.feed(START + MESSAGE + piece(TEXT, "begin"))
    tracemalloc.start()
    try:
        for number in range(3000):
            reader.feed(piece(TEXT, f"{number:0200}"))
        assert tracemalloc.get_traced_memory()[1] < 50_000
    finally:
        tracemalloc.stop()


def test_what_was_offered_and_what_was_fed_are_one_stream() -> None:
    """A transcoder reads some chunks with `more` and others with `feed`."""
    texts = [f"word {number}" for number in range(80)]
    reader = ResponsesDecoder()
    reader.feed(START + MESSAGE)
    taken = []
    for number, chunk in enumerate(numbered(TEXT, *texts)):
        text = reader.more(chunk) if number % 7 else None
        taken += [text] if text is not None else [e.text for e in reader.feed(chunk)]  # type: ignore[union-attr] # deltas alone
    assert taken == texts
    part = {"type": "output_text", "text": "".join(texts)}
    reader.feed(done(0, "message", id="m", content=[part]))
    reader.feed(completed())
    assert reader.notes == ()
    assert reader.frames == 85
