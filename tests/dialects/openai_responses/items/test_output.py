"""Which item an event belongs to, where indexes, ids or whole events are missing or wrong."""

from __future__ import annotations

import json
from typing import Any

from support.openai_responses.frames import (
    START,
    added,
    args,
    body,
    call,
    completed,
    decode,
    delta,
    done,
    messages,
    part,
    text,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    JSONDelta,
    Note,
    Reasoning,
    ReasoningDelta,
    Text,
    TextDelta,
    ToolCall,
)


def function(id: str | None, call_id: str, arguments: str = "") -> dict[str, Any]:
    return {"id": id, "call_id": call_id, "name": "f", "arguments": arguments}


def arguments(*frames: bytes) -> dict[str, str]:
    """Return the arguments of each call."""
    blocks = {e.index: e.block for e in body(*frames) if isinstance(e, BlockStart)}
    given = {block.id: "" for block in blocks.values() if isinstance(block, ToolCall)}
    for event in body(*frames):
        if isinstance(event, JSONDelta):
            given[getattr(blocks[event.index], "id", "")] += event.partial_json
    return given


TWO = [
    added(0, "function_call", **function("a", "A")),
    added(1, "function_call", **function("b", "B")),
]


def test_events_with_index_and_id_find_their_item() -> None:
    assert arguments(*TWO, args("1", 1, item_id="b"), args("0", 0, item_id="a")) == {
        "A": "0",
        "B": "1",
    }


def test_output_index_is_enough() -> None:
    assert arguments(*TWO, args("1", 1), args("0", 0)) == {"A": "0", "B": "1"}


def test_item_id_is_enough() -> None:
    frames = [args("1", None, item_id="b"), args("0", None, item_id="a")]
    assert arguments(*TWO, *frames) == {"A": "0", "B": "1"}


def test_item_id_that_changes_with_every_event_is_ignored() -> None:
    assert arguments(*TWO, args("1", 1, item_id="x"), args("0", 0, item_id="y")) == {
        "A": "0",
        "B": "1",
    }


def test_output_index_that_all_items_share_is_ignored() -> None:
    frames = [added(0, "function_call", **function(id, id.upper())) for id in "ab"]
    pieces = [args("1", 0, item_id="b"), args("0", 0, item_id="a")]
    assert arguments(*frames, *pieces) == {"A": "0", "B": "1"}
    assert Note("reused_index", "item", 1) in decode(START, *frames, completed()).notes


def test_item_id_that_all_items_share_is_ignored() -> None:
    frames = [added(n, "function_call", **function("x", c)) for n, c in enumerate("AB")]
    pieces = [args("1", 1, item_id="x"), args("0", 0, item_id="x")]
    assert arguments(*frames, *pieces) == {"A": "0", "B": "1"}


def test_complete_items_that_share_an_id_are_separate_items() -> None:
    frames = [done(n, "function_call", **function("x", c, c)) for n, c in enumerate("AB")]
    assert arguments(*frames) == {"A": "A", "B": "B"}


def test_done_event_may_have_another_output_index_than_the_start() -> None:
    frames = [added(0, "function_call", **function("a", "A")), args("0")]
    assert arguments(*frames, done(1, "function_call", **function("a", "A", "01"))) == {"A": "01"}


def test_call_id_replaces_a_missing_item_id() -> None:
    frames = [added(None, "function_call", **function(None, c)) for c in "AB"]
    pieces = [args("1", None, item_id="B"), args("0", None, item_id="A")]
    ends = [done(None, "function_call", **function(None, c, c)) for c in "BA"]
    assert arguments(*frames, *pieces) == {"A": "0", "B": "1"}
    assert arguments(*frames, *ends) == {"A": "A", "B": "B"}


def test_delta_without_keys_belongs_to_the_latest_item_of_its_kind() -> None:
    frames = [
        added(None, "message", **messages()),
        added(None, "function_call", **call()),
        *(args("1", None), text("a", None)),
        done(None, "message", content=[part("ab")]),
        done(None, "function_call", name="f", arguments="12"),
    ]
    events = body(*frames)
    assert [event for event in events if isinstance(event, TextDelta | JSONDelta)] == [
        *(JSONDelta(0, "1"), TextDelta(1, "a"), TextDelta(1, "b"), JSONDelta(0, "2"))
    ]
    assert len([event for event in events if isinstance(event, BlockStop)]) == 2


def test_delta_with_the_key_of_another_kind_belongs_to_the_latest_item_of_its_own() -> None:
    frames = [added(0, "message", **messages()), added(1, "function_call", **call()), text("a", 1)]
    decoded = decode(START, *frames, completed())
    assert TextDelta(1, "a") in decoded.events
    assert Note("misplaced_delta", "message", 1) in decoded.notes


def test_delta_with_the_key_of_another_kind_starts_an_item_if_none_is_open() -> None:
    frames = [added(0, "function_call", **call()), text("a", 0, item_id="fc_1"), args("{}", 0)]
    decoded = decode(START, *frames, completed())
    assert decoded.events[1:-1] == [
        BlockStart(0, ToolCall("call_1", "f"), extra={"item_id": "fc_1"}),
        *(BlockStart(1, Text()), TextDelta(1, "a"), JSONDelta(0, "{}")),
        *(BlockStop(0), BlockStop(1)),
    ]
    assert Note("missing_item", "message", 1) in decoded.notes


def test_deltas_start_items_whose_start_was_left_out() -> None:
    frames = [
        delta("reasoning_summary_text", "r", 0, item_id="rs", summary_index=0),
        text("a", 1, item_id="msg"),
        text("b", 1, item_id="msg"),
        done(1, "message", id="msg", content=[part("abc")]),
    ]
    decoded = decode(START, *frames, completed())
    assert decoded.events[1:-1] == [
        *(BlockStart(0, Reasoning(), extra={"item_id": "rs"}), ReasoningDelta(0, "r")),
        *(BlockStart(1, Text(), extra={"item_id": "msg"}), TextDelta(1, "a"), TextDelta(1, "b")),
        *(TextDelta(1, "c"), BlockStop(1), BlockStop(0)),
    ]
    assert Note("missing_item", "message", 1) in decoded.notes


def test_delta_without_keys_does_not_belong_to_a_complete_item() -> None:
    frames = [done(None, "message", **messages(part("a"))), text("b", None)]
    decoded = decode(START, *frames, completed())
    assert decoded.events[4] == BlockStart(1, Text())
    assert Note("missing_item", "message", 1) in decoded.notes


def test_done_event_of_another_type_is_another_item() -> None:
    frames = [added(0, "message", **messages()), text("a"), done(0, "function_call", **call("{}"))]
    assert body(*frames) == [
        *(BlockStart(0, Text(), extra={"item_id": "msg_1"}), TextDelta(0, "a")),
        BlockStart(1, ToolCall("call_1", "f"), extra={"item_id": "fc_1"}),
        *(JSONDelta(1, "{}"), BlockStop(1), BlockStop(0)),
    ]


def test_resent_items_are_notes() -> None:
    begun, end = added(0, "message", **messages()), done(0, "message", **messages(part("a")))
    decoded = decode(START, begun, begun, text("a"), end, begun, end, completed())
    expected = [BlockStart(0, Text(), extra={"item_id": "msg_1"}), TextDelta(0, "a"), BlockStop(0)]
    assert decoded.events[1:-1] == expected
    assert decoded.notes == (Note("resent_item", "message", 3),)


def test_items_with_one_output_index_and_no_id_follow_each_other() -> None:
    frames = [
        frame
        for word in "ab"
        for frame in (added(0, "message"), done(0, "message", content=[part(word)]))
    ]
    assert [event for event in body(*frames) if isinstance(event, TextDelta)] == [
        *(TextDelta(0, "a"), TextDelta(1, "b"))
    ]


# The items of the terminal


def test_items_that_only_the_terminal_has_are_emitted_whole() -> None:
    first, second = messages(part("a")), messages(part("b"), id="msg_2")
    frames = [done(0, "message", **first)]
    output = [{"type": "message", **item} for item in (first, second)]
    events = decode(START, *frames, completed(*output)).events
    assert events[4:-1] == [
        *(BlockStart(1, Text(), extra={"item_id": "msg_2"}), TextDelta(1, "b"), BlockStop(1))
    ]


def test_terminal_entries_match_by_position_where_ids_change() -> None:
    frames = [done(n, "message", **messages(part("a"), id=f"x{n}")) for n in range(2)]
    output = [{"type": "message", **messages(part("a"), id=f"y{n}")} for n in range(2)]
    assert len(decode(START, *frames, completed(*output)).events) == 8


def test_terminal_entries_match_by_id_where_indexes_have_gaps() -> None:
    frames = [done(n, "message", **messages(part("a"), id=f"x{n}")) for n in (1, 3)]
    output = [{"type": "message", **messages(part("a"), id=f"x{n}")} for n in (1, 3)]
    assert len(decode(START, *frames, completed(*output)).events) == 8


def test_terminal_entries_match_by_position_where_items_share_an_id() -> None:
    frames = [done(n, "message", **messages(part(text))) for n, text in enumerate("ab")]
    output = [{"type": "message", **messages(part(text))} for text in "ab"]
    assert len(decode(START, *frames, completed(*output)).events) == 8


def test_unmatched_terminal_entry_with_a_known_id_is_emitted_whole() -> None:
    output = [{"type": "message", **messages(part(text))} for text in "ab"]
    events = decode(START, done(0, "message", **messages(part("a"))), completed(*output)).events
    assert TextDelta(1, "b") in events


def test_terminal_entries_of_calls_match_by_call_id() -> None:
    frames = [done(n, "function_call", **function(f"x{n}", c, c)) for n, c in ((3, "A"), (5, "B"))]
    output = [{"type": "function_call", **function(f"y{c}", c, c)} for c in "BA"]
    assert len(decode(START, *frames, completed(*output)).events) == 8


def test_terminal_entries_match_by_position_where_items_have_no_index() -> None:
    frames = [done(None, "message", content=[part("a")])]
    output = {"type": "message", "content": [part("a")]}
    assert len(decode(START, *frames, completed(output)).events) == 5


def test_terminal_entry_of_another_type_is_another_item() -> None:
    frames = [done(0, "message", **messages(part("a")))]
    decoded = decode(START, *frames, completed({"type": "function_call", **call("{}")}))
    assert JSONDelta(1, "{}") in decoded.events


def test_blocks_end_in_the_order_of_the_items() -> None:
    frames = [added(1, "function_call", **call()), added(0, "message", **messages()), text("a")]
    decoded = decode(START, *frames, completed())
    assert decoded.events[-3:-1] == [BlockStop(0), BlockStop(1)]
    assert {note.kind for note in decoded.notes} == {"missing_item_done"}


def test_output_that_is_no_array_of_items_is_ignored() -> None:
    for output in (None, 3, {}, [None, 3]):
        end = completed().replace(b'"output": []', f'"output": {json.dumps(output)}'.encode())
        assert len(decode(START, end).events) == 2
