"""Arguments of tool calls: their text, and when they are complete."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from support.draws import Draws, draws
from support.openai_chat.chunks import DONE, call, calls, chunk, content, decode, message

from streamnorm import BlockStart, BlockStop, Event, JSONDelta, Note, StreamError, Text, ToolCall
from streamnorm._core.codec.templates import is_inner
from streamnorm._core.failures import Fatal
from streamnorm._core.limits import StoredBytes
from streamnorm._core.text import MAX_FRESH
from streamnorm.dialects.openai_chat.tool_calls import Arguments, Call

END = chunk({}, "tool_calls") + DONE
A, B = '{"a":1}', '{"b":2}'


def pieces(*fragments: object) -> list[bytes]:
    """Return the chunks of one call with these arguments."""
    head = calls(call(0, "x", "f"))
    return [head, *(calls({"index": 0, "function": {"arguments": text}}) for text in fragments)]


def arguments(*fragments: object) -> str:
    (tool,) = message(*pieces(*fragments), END).tool_calls
    return tool.arguments


def test_arguments_pass_byte_for_byte() -> None:
    fragments = ['{ "a"', ":1.0e5 ,\t", '"\\u00e9"', ': "é\\n"', "\n} "]
    decoded = decode(*pieces(*fragments), END)
    assert decoded.events[2:7] == [JSONDelta(0, text) for text in fragments]


@pytest.mark.parametrize("nothing", [None, ""])
def test_arguments_null_or_empty_are_no_event(nothing: str | None) -> None:
    decoded = decode(*pieces(nothing, A, nothing), END)
    assert [event for event in decoded.events if isinstance(event, JSONDelta)] == [JSONDelta(0, A)]


def test_call_without_arguments_has_no_json_delta() -> None:
    assert message(calls(call(0, "x", "f")), END).tool_calls == (ToolCall("x", "f"),)


@pytest.mark.parametrize(
    ("value", "text"),
    [({"city": "Oslo", "n": [1, None]}, '{"city":"Oslo","n":[1,null]}'), ([1], "[1]"), ({}, "{}")],
)
def test_arguments_sent_as_an_object_become_text(value: object, text: str) -> None:
    assert arguments(value) == text


def test_lone_empty_object_is_emitted_at_the_end() -> None:
    decoded = decode(*pieces("{}"), chunk({}, "tool_calls"), DONE)
    assert decoded.events[1:4] == [
        BlockStart(0, ToolCall("x", "f")),
        JSONDelta(0, "{}"),
        BlockStop(0),
    ]


def test_empty_object_before_the_real_one_is_a_placeholder() -> None:
    decoded = decode(*pieces("{}", '{"a"', ":1}"), END)
    assert decoded.events[1:5] == [
        *(
            BlockStart(0, ToolCall("x", "f")),
            JSONDelta(0, '{"a"'),
            JSONDelta(0, ":1}"),
            BlockStop(0),
        ),
    ]
    assert decoded.notes == (Note("placeholder_arguments", "tool call"),)


def test_placeholder_is_replaced_even_after_another_call_started() -> None:
    decoded = decode(*pieces("{}"), calls(call(1, "y", "g", B)), *pieces(A)[1:], END)
    assert decoded.events[1:-1] == [
        *(BlockStart(0, ToolCall("x", "f")), BlockStart(1, ToolCall("y", "g")), JSONDelta(1, B)),
        *(JSONDelta(0, A), BlockStop(0), BlockStop(1)),
    ]


def test_placeholder_may_come_twice() -> None:
    assert arguments("{}", "{}") == "{}"
    assert arguments("{}", "{}", A) == A


def test_fragment_after_an_empty_object_that_opens_none_is_appended() -> None:
    decoded = decode(*pieces("{}", " ", "x"), END)
    assert decoded.events[2:4] == [JSONDelta(0, "{} "), JSONDelta(0, "x")]


def test_empty_object_in_two_fragments_is_no_placeholder() -> None:
    assert arguments("{", "}") == "{}"


def test_resent_arguments_are_ignored_and_noted() -> None:
    decoded = decode(*pieces('{"a"', ":1}", A), END)
    assert [event for event in decoded.events if isinstance(event, JSONDelta)] == [
        *(JSONDelta(0, '{"a"'), JSONDelta(0, ":1}")),
    ]
    assert decoded.notes == (Note("resent_arguments", "tool call"),)


def test_resent_arguments_of_a_stopped_call_are_ignored() -> None:
    decoded = decode(*pieces(A), content("hi"), *pieces(A)[1:], END)
    assert message(*pieces(A), content("hi"), *pieces(A)[1:], END).blocks == (
        *(ToolCall("x", "f", A), Text("hi")),
    )
    assert decoded.notes == (Note("resent_arguments", "tool call"),)


def test_white_space_after_a_stopped_call_is_ignored() -> None:
    decoded = decode(*pieces(A), content("hi"), *pieces("\n ")[1:], END)
    assert [event for event in decoded.events if isinstance(event, JSONDelta)] == [JSONDelta(0, A)]


def test_fragment_that_repeats_incomplete_arguments_is_appended() -> None:
    assert arguments('{"a":"', "xx", "xx", '"}') == '{"a":"xxxx"}'


def test_arguments_of_a_stopped_call_are_malformed() -> None:
    events, _, _ = decode(*pieces(A), content("hi"), *pieces(',"b":2}')[1:], END)
    assert events[-1] == StreamError("malformed", "arguments of a tool call that has stopped")


def test_second_object_after_complete_arguments_is_malformed() -> None:
    events, _, _ = decode(*pieces(A, " ", " " + B), END)
    assert events[-1] == StreamError("malformed", "a second object as arguments of one tool call")


@pytest.mark.parametrize("text", ['{"a":1', "{a:1}", "not json", "null", '{"a":1}}', '{"a":1} x'])
def test_arguments_that_are_no_json_are_kept(text: str) -> None:
    assert arguments(text[:2], text[2:]) == text


COMPLETE = [
    A,
    "[]",
    "[1,2]",
    '"text"',
    '{"a":"}"}',
    '{"a":"\\""}',
    '{"a":"\\\\"}',
    ' {"a":[{}]} \n',
]
INCOMPLETE = [
    '\\"',
    '[\\"]',
    "{",
    '{"a":"}',
    '{"a":"\\"}',
    "[[]",
    '"',
    "1",
    "{a:1}",
    '{"a":1}}',
    "{}",
    " {} ",
]


@pytest.mark.parametrize("text", COMPLETE)
def test_complete_call_stops_when_another_block_starts(text: str) -> None:
    decoded = decode(*pieces(text), content("hi"), END)
    assert decoded.events[3:5] == [BlockStop(0), BlockStart(1, Text())]


@pytest.mark.parametrize("text", INCOMPLETE)
def test_incomplete_call_is_open_until_the_end(text: str) -> None:
    decoded = decode(*pieces(text), content("hi"), END)
    assert BlockStart(1, Text()) in decoded.events[2:4]
    assert decoded.events[-3:-1] == [BlockStop(0), BlockStop(1)]


@pytest.mark.parametrize("text", COMPLETE)
def test_followed_call_stops_once_it_is_complete(text: str) -> None:
    text = text.strip()
    whole = pieces(*text)
    decoded = decode(*whole[:2], content("hi"), *whole[2:], content("!"), END)
    last = [n for n, event in enumerate(decoded.events) if isinstance(event, JSONDelta)][-1]
    assert decoded.events[last + 1] == BlockStop(0)


def test_complete_call_stays_open_until_another_block_starts() -> None:
    decoded = decode(*pieces(A, " "), END)
    assert decoded.events[2:5] == [JSONDelta(0, A), JSONDelta(0, " "), BlockStop(0)]


def test_surrogate_after_complete_arguments_is_kept() -> None:
    events = decode(*pieces("["), content("hi"), *pieces("]\ud83d")[1:], END).events
    deltas = [event for event in events if isinstance(event, JSONDelta)]
    assert deltas == [JSONDelta(0, "["), JSONDelta(0, "]"), JSONDelta(0, "�")]


def test_surrogate_pair_split_over_fragments_is_joined() -> None:
    assert arguments('{"a":"\ud83d', '\ude00"}') == '{"a":"😀"}'
    assert arguments('{"a":"\ud83d', 'x"}') == '{"a":"�x"}'
    assert arguments('{"a":"\ud83d') == '{"a":"�'


def test_surrogate_pair_split_around_another_call_is_joined() -> None:
    frames = [
        calls(call(0, "x", "f", '["\ud83d'), call(1, "y", "g", '["\ud83d')),
        calls(call(1, arguments='\ude01"]')),
        calls(call(0, arguments='\ude00"]')),
    ]
    assert [tool.arguments for tool in message(*frames, END).tool_calls] == ['["😀"]', '["😁"]']


def test_escapes_within_arguments_are_kept() -> None:
    assert arguments('{"a":"\\ud83d', '\\ude00"}') == '{"a":"\\ud83d\\ude00"}'


@given(draws(60))
def test_completeness_does_not_depend_on_the_fragments(d: Draws) -> None:
    value = d.pick(([d.text(), {d.text(): d.text(0)}], {"a": [d.text()]}, d.text(), {"b": {}}))
    text = json.dumps(value, ensure_ascii=d.flag())
    read = Arguments(StoredBytes())
    seen = ""
    for piece in d.cut(text, 6):
        read.append(piece)
        seen += piece
        if d.flag():
            assert read.is_complete() is (seen == text)
    assert read.is_complete()
    assert read.text() == text


def _seen(call: Call) -> list[object]:
    """Return all that others learn of a call's arguments."""
    arguments = call.arguments
    asked = [arguments.is_complete(), arguments.is_whole(), arguments.closes_object()]
    return [arguments.size, arguments.text(), arguments.stored.left, *asked]


@given(draws(80))
def test_inner_fragment_is_one_that_the_call_would_take_unseen(d: Draws) -> None:
    """What the delta run appends by itself, `try_append` would have taken, with equal effects."""
    checked, unseen = (Call("x", "f", Arguments(StoredBytes()), index=0) for _ in range(2))
    marks = (
        *("{", "}", '"', " ", "\n", "l", "a", "nul", ":", "\u3000", "\u1680", "\xa0", "é", "ह"),
        *("文", "[", "]", "{}"),
    )
    for number in range(40):
        text = "".join(d.pick(marks) for _ in range(1 + d.below(3)))
        if d.flag(8):  # all of it once more
            text = checked.arguments.text() or text
        fresh = unseen.arguments.fresh
        if unseen.is_appendable and fresh is not None and is_inner(text, fresh):
            assert _append(checked, text) == text
            fresh.append(text)
            assert checked.is_appendable
        else:
            emitted = _append(checked, text)
            assert _append(unseen, text) == emitted
            if emitted is None:
                return
        if number == 9:
            checked.followed = unseen.followed = d.flag()
        if d.flag(4):
            assert _seen(checked) == _seen(unseen)
    assert _seen(checked) == _seen(unseen)


def _append(call: Call, text: str) -> str | None:
    """Append a fragment; return the part of it to emit, None if it breaks the call."""
    if call.try_append(text):
        return text
    try:
        return call.append(text, lambda _code, _where: None, cumulative=False)
    except Fatal:
        return None
    finally:
        call.update_appendable()


def test_stopped_call_takes_no_further_fragments_unseen() -> None:
    call = Call("x", "f", Arguments(StoredBytes()), index=0)
    call.arguments.append('{"a":')
    fresh = call.arguments.fresh
    assert fresh is not None
    fresh += ["1", "2"]
    call.stop()
    assert len(fresh) == MAX_FRESH
    assert call.arguments.text() == '{"a":12'


def test_fragments_taken_unseen_stand_before_those_that_follow() -> None:
    arguments = Arguments(StoredBytes())
    arguments.append('{"a":{}')
    fresh = arguments.fresh
    assert fresh is not None
    assert arguments.closes_object()
    fresh.append(',"b":')
    assert not arguments.closes_object()
    fresh.append("1")
    arguments.append("2}")
    assert arguments.text() == '{"a":{},"b":12}'


def test_call_with_half_a_character_takes_no_fragments_unseen() -> None:
    call = Call("x", "f", Arguments(StoredBytes()), index=0)
    call.arguments.append('{"a":')
    call.update_appendable()
    fresh = call.arguments.fresh
    call.carry = "\ud83d"
    call.update_appendable()
    assert fresh is not None
    assert len(fresh) == MAX_FRESH


def test_no_fragments_are_taken_unseen_near_the_bound() -> None:
    stored = StoredBytes(1024 * 1024 + 9)
    arguments = Arguments(stored)
    assert arguments.append_if_bounded('{"a":')
    fresh = arguments.fresh
    assert fresh == []
    fresh.extend(["12", "345"])
    assert arguments.text() == '{"a":12345'
    assert (stored.left, len(fresh), arguments.fresh) == (1024 * 1024 - 1, MAX_FRESH, None)


def test_text_that_is_no_object_has_no_inner_fragments() -> None:
    arguments = Arguments(StoredBytes())
    assert arguments.fresh is None
    arguments.append(" ")
    arguments.append('{"a":')
    assert arguments.fresh is None


def test_complete_arguments_of_every_length_stop_their_calls() -> None:
    frames = [piece for n in range(6) for piece in (calls(call(n, f"{n}", "f", f"[{'1' * n}]")),)]
    events: list[Event] = decode(*frames, END).events
    stops = [n for n, event in enumerate(events) if isinstance(event, BlockStop)]
    starts = [n for n, event in enumerate(events) if isinstance(event, BlockStart)]
    assert [start - 1 for start in starts[1:]] == stops[:-1]


def test_complete_arguments_are_broken_by_what_follows() -> None:
    read = Arguments(StoredBytes())
    read.append("[1]")
    assert read.is_complete()
    read.append(" \n")
    assert read.is_complete()
    assert read.is_whole()
    read.append("]")
    assert not read.is_complete()
    assert not read.is_whole()
    read.append(" ")
    assert not read.is_complete()


def test_arguments_that_go_on_after_a_fragment_asked_whether_they_are_complete() -> None:
    frames = [
        calls(call(0, "x", "f", "[1]")),
        calls(call(arguments=" ")),
        calls(call(0, arguments="]")),
    ]
    decoded = decode(*frames, END)
    assert decoded.notes == (Note("unfinished_arguments", "tool call"),)
