"""Which item an event belongs to, where indexes, ids or whole events are missing or wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
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
    event,
    messages,
    part,
    text,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    JSONDelta,
    Note,
    Reasoning,
    ReasoningDelta,
    StreamError,
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
    for change in body(*frames):
        if isinstance(change, JSONDelta):
            given[getattr(blocks[change.index], "id", "")] += change.partial_json
    return given


def malformed(*frames: bytes) -> bool:
    last = decode(START, *frames, completed()).events[-1]
    return isinstance(last, StreamError) and last.kind == "malformed"


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


UNSTABLE = event("response.in_progress", response={"id": "resp_2"})
"""The id of the response has changed, and those of items do, as GitHub Copilot's."""


def test_item_ids_are_ignored_where_ids_change() -> None:
    pieces = [args("1", 1, item_id="a"), args("0", 0, item_id="y")]
    ends = [done(n, "function_call", **function(f"z{n}", c, str(n))) for n, c in enumerate("AB")]
    assert arguments(UNSTABLE, *TWO, *pieces, *ends) == {"A": "0", "B": "1"}
    assert malformed(UNSTABLE, *TWO, args("1", None, item_id="b"))
    assert malformed(
        UNSTABLE, *TWO, TWO[0], ends[0], added(0, "function_call", **function("c", "C"))
    )


@pytest.mark.parametrize(
    "stray",
    [
        *(args("1", 1, item_id="x"), args("1", 1, item_id="a"), args("1", 5, item_id="a")),
        *(
            args("1", None),
            args("1", None, item_id="c"),
            text("1", 0),
            text("1", None, item_id="b"),
        ),
        done(1, "function_call", **function("x", "B", "1")),
        done(1, "function_call", **function("a", "A", "0")),
        done(5, "function_call", **function("a", "A", "0")),
        done(1, "function_call", **function(None, "A", "0")),
        done(0, "message", **messages(part("a"))),
        done(None, "function_call", name="f", arguments="{}"),
        added(1, "function_call", **function(None, "C")),
        added(1, "function_call", **function("b", "C", "x") | {"name": "g"}),
        event("response.function_call_arguments.done", output_index=1, item_id="a", arguments="0"),
    ],
)
def test_event_that_belongs_to_no_single_item_is_malformed(stray: bytes) -> None:
    pieces = [args("0", 0, item_id="a"), args("0", 1, item_id="b")]
    assert malformed(*TWO, *pieces, stray)
    both = [function("a", "A", "0"), function("b", "B", "0")]
    ends = [done(n, "function_call", **item) for n, item in enumerate(both)]
    is_keyless = b'"output_index"' not in stray
    assert malformed(*TWO, *pieces, *ends, stray) or is_keyless


def test_complete_item_may_have_an_id_of_its_own() -> None:
    end = done(0, "function_call", **function("x", "A", "0"))
    begun = TWO[0]
    decoded = decode(START, begun, args("0", 0), end, completed())
    assert isinstance(decoded.outcome, Completed)
    assert decoded.notes == (Note("id_changed", "item", 1),)
    assert malformed(begun, args("0", 0), end, added(1, "function_call", **function("x", "X")))


def test_item_that_lacks_a_key_gets_it_from_its_first_event() -> None:
    nameless = [added(n, "function_call", **function(None, "")) for n in range(2)]
    assert malformed(*nameless, args("0", 0, item_id="a"), args("1", 0, item_id="b"))
    begun = added(None, "function_call", **function("a", "A"))
    assert arguments(begun, args("0", 3, item_id="a"), args("1", 3)) == {"A": "01"}
    assert malformed(begun, args("0", 3, item_id="a"), args("1", 4, item_id="a"))


def test_delta_without_keys_belongs_to_the_only_call_that_can_grow() -> None:
    first, second = (added(None, "function_call", **function(None, c)) for c in "AB")
    assert arguments(first, second, args("1", None)) == {"A": "", "B": "1"}
    assert arguments(first, args("{}", None), second, args("1", None)) == {"A": "{}", "B": "1"}
    end = done(None, "function_call", **function(None, "A", "0"))
    assert arguments(first, args("0", None), end, second, args("1", None)) == {"A": "0", "B": "1"}
    assert malformed(first, args("0", None), second, args("1", None))


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


def test_index_that_several_items_share_names_none() -> None:
    frames = [added(0, "function_call", **function(id, id.upper())) for id in "ab"]
    assert malformed(*frames, args("1", 0))


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


def test_delta_with_the_key_of_another_kind_is_malformed() -> None:
    frames = [added(0, "message", **messages()), added(1, "function_call", **call())]
    message = "event of message for an item of another type, expected its own"
    assert decode(START, *frames, text("a", 1)).events[-1] == StreamError("malformed", message)


def test_delta_with_the_key_of_another_kind_starts_no_item() -> None:
    assert malformed(added(0, "function_call", **call()), text("a", 0, item_id="fc_1"))
    assert malformed(added(0, "custom_tool_call", **call()), args("{}", 0))


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


def test_done_event_of_another_type_is_malformed() -> None:
    frames = [added(0, "message", **messages()), text("a"), done(0, "function_call", **call("{}"))]
    assert malformed(*frames)
    message = "complete item of another type than its start, expected the same"
    frames[2] = done(0, "function_call", **call("{}", id="msg_1"))
    assert decode(START, *frames).events[-1] == StreamError("malformed", message)


def test_resent_items_are_notes() -> None:
    begun, end = added(0, "message", **messages()), done(0, "message", **messages(part("a")))
    decoded = decode(START, begun, begun, text("a"), end, begun, end, completed())
    expected = [BlockStart(0, Text(), extra={"item_id": "msg_1"}), TextDelta(0, "a"), BlockStop(0)]
    assert decoded.events[1:-1] == expected
    assert decoded.notes == (Note("resent_item", "message", 3),)


def test_second_item_without_an_id_at_one_output_index_is_malformed() -> None:
    begun, end = added(0, "message"), done(0, "message", content=[part("a")])
    assert malformed(begun, end, added(0, "message"))
    assert malformed(begun, end, done(0, "message", content=[part("b")]))
    assert malformed(added(0, "message", id="m"), begun)
    assert body(begun, begun, end, end) == body(begun, end)


def test_second_complete_item_at_one_output_index_is_malformed() -> None:
    frames = [done(0, "function_call", **function(c, c.upper(), "{}")) for c in "ab"]
    message = "second item at output index 0, expected another one"
    assert decode(START, *frames).events[-1] == StreamError("malformed", message)


def test_second_start_of_an_item_with_content_is_malformed() -> None:
    assert malformed(TWO[0], args("0", 0), TWO[0])
    assert malformed(TWO[0], added(0, "message", id="a"))
    reasoning = added(0, "reasoning", id="r")
    assert malformed(reasoning, delta("reasoning_text", "a", content_index=0), reasoning)
    assert body(reasoning, reasoning) == body(reasoning)
    search = added(0, "web_search_call", id="w")
    assert body(search, search) == body(search)


# The items of the terminal


def test_items_that_only_the_terminal_has_are_emitted_whole() -> None:
    first, second = messages(part("a")), messages(part("b"), id="msg_2")
    frames = [done(0, "message", **first)]
    output = [{"type": "message", **item} for item in (first, second)]
    events = decode(START, *frames, completed(*output)).events
    assert events[4:-1] == [
        *(BlockStart(1, Text(), extra={"item_id": "msg_2"}), TextDelta(1, "b"), BlockStop(1))
    ]


def test_only_a_rest_of_the_output_is_noted() -> None:
    output = [{"type": "message", **messages(part(word), id=word)} for word in "ab"]
    assert decode(START, completed(*output)).notes == ()
    first = done(0, "message", **messages(part("a"), id="a"))
    notes = decode(START, first, completed(*output)).notes
    assert notes == (Note("completed_by_whole", "message", 1),)


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
    decoded = decode(START, *frames, args("{}", 1), completed())
    assert decoded.events[-3:-1] == [BlockStop(0), BlockStop(1)]
    assert {note.kind for note in decoded.notes} == {"missing_item_done"}


def test_output_that_is_no_array_of_items_is_ignored() -> None:
    for output in (None, 3, {}, [None, 3]):
        end = completed().replace(b'"output": []', f'"output": {json.dumps(output)}'.encode())
        assert len(decode(START, end).events) == 2


def test_terminal_entries_match_in_order_where_ids_change_and_indexes_have_gaps() -> None:
    items = [function(c, c, c) for c in "AB"]
    frames = [done(n, "function_call", **item) for n, item in zip((1, 3), items, strict=True)]
    output = [{"type": "function_call", **function(c, c.lower(), c)} for c in "AB"]
    output = [{**entry, "id": f"x{n}"} for n, entry in enumerate(output)]
    assert len(decode(START, *frames, completed(*output)).events) == 8
    assert malformed(*frames, completed(*output[::-1]))


def test_terminal_that_leaves_an_answer_out_is_malformed() -> None:
    message = {"type": "message", **messages(part("a"))}
    tool = {"type": "function_call", **call("{}")}
    frames = [done(0, "message", **messages(part("a"))), done(1, "function_call", **call("{}"))]
    for output in ([message], [tool]):
        assert malformed(*frames, completed(*output))
    assert isinstance(decode(START, *frames, completed(message, tool)).outcome, Completed)


def test_terminal_entry_with_the_call_id_of_another_call_is_malformed() -> None:
    frames = [done(n, "function_call", **function(c, c, "{}")) for n, c in enumerate("AB")]
    output = [{"type": "function_call", **function(c, "A", "{}")} for c in "AB"]
    assert malformed(*frames, completed(*output))
