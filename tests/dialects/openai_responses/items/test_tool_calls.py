"""Function calls and custom tool calls."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_chat.chunks import anonymous
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
    is_malformed,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    JSONDelta,
    Limits,
    MessageStop,
    Note,
    StreamError,
    ToolCall,
)

ITEM_ADDED = added(0, "function_call", **call())
STARTED = BlockStart(0, ToolCall("call_1", "f"), extra={"item_id": "fc_1"})
ALL = "response.function_call_arguments.done"


def test_argument_deltas_pass_unchanged() -> None:
    frames = [ITEM_ADDED, args('{"a"'), args(":1} "), done(0, "function_call", **call('{"a":1} '))]
    assert body(*frames) == [*(STARTED, JSONDelta(0, '{"a"'), JSONDelta(0, ":1} "), BlockStop(0))]


@pytest.mark.parametrize(
    "end",
    [
        event(ALL, output_index=0, arguments='{"a":1}'),
        done(0, "function_call", **call('{"a":1}')),
        completed({"type": "function_call", **call('{"a":1}')}),
    ],
)
@pytest.mark.parametrize(("pieces", "rest"), [((), '{"a":1}'), (('{"a"',), ":1}")])
def test_each_done_event_adds_what_no_delta_carried(
    end: bytes, pieces: tuple[str, ...], rest: str
) -> None:
    events = decode(START, ITEM_ADDED, *map(args, pieces), end, completed()).events
    deltas = [JSONDelta(0, piece) for piece in (*pieces, rest)]
    assert events[1:-1] == [STARTED, *deltas, BlockStop(0)]


@pytest.mark.parametrize("pieces", ['{"a":1}', '{"a":tru', '{"b": 1}', '{"a": true}', '{"a": 1.0}'])
@pytest.mark.parametrize("type", ["arguments.done", "output_item.done", "completed"])
def test_complete_arguments_that_contradict_the_deltas_are_malformed(
    type: str, pieces: str
) -> None:
    whole = '{"a": 1}'
    ends = {
        "arguments.done": event(ALL, output_index=0, arguments=whole),
        "output_item.done": done(0, "function_call", **call(whole)),
        "completed": completed({"type": "function_call", **call(whole)}),
    }
    decoded = decode(START, ITEM_ADDED, args(pieces), ends[type], completed())
    if pieces == '{"a":1}':  # the same value
        assert decoded.events[1:-1] == [STARTED, JSONDelta(0, pieces), BlockStop(0)]
        assert Note("resent_arguments", "ToolCall", 1) in decoded.notes
        return
    sizes = f"8 characters that contradict {len(pieces)} of deltas"
    message = f"complete arguments of {sizes}, expected the same"
    assert decoded.events[-1] == StreamError("malformed", message)


def test_each_statement_of_the_arguments_may_have_a_spelling_of_its_own() -> None:
    spellings = ('{"a": 1, "b": 2}', '{"b":2,"a":1}', '{"a":1,"b":2}')
    whole = event(ALL, output_index=0, arguments=spellings[0])
    item = done(0, "function_call", **call(spellings[1]))
    end = completed({"type": "function_call", **call(spellings[2])})
    frames = [START, ITEM_ADDED, args('{"a": 1,"b": 2}'), whole, item, end]
    expected = [STARTED, JSONDelta(0, '{"a": 1,"b": 2}'), BlockStop(0)]
    assert decode(*frames).events[1:-1] == expected
    other = completed({"type": "function_call", **call('{"a":2,"b":1}')})
    assert is_malformed(decode(*frames[:-1], other))


def test_call_named_at_its_end_may_have_no_arguments() -> None:
    frames = [added(0, "function_call", **call(name=None)), done(0, "function_call", **call())]
    assert body(*frames) == [STARTED, BlockStop(0)]


def test_empty_complete_arguments_contradict_deltas() -> None:
    empty = done(0, "function_call", **call(""))
    assert is_malformed(decode(START, ITEM_ADDED, args('{"a":1}'), empty, completed()))
    assert body(ITEM_ADDED, args("{}"), empty) == [STARTED, JSONDelta(0, "{}"), BlockStop(0)]


def test_complete_item_without_arguments_says_nothing_of_them() -> None:
    item = {key: value for key, value in call().items() if key != "arguments"}
    expected = [STARTED, JSONDelta(0, '{"a":1}'), BlockStop(0)]
    assert body(ITEM_ADDED, args('{"a":1}'), done(0, "function_call", **item)) == expected


def test_arguments_may_be_an_object() -> None:
    item = {**call(), "arguments": {"a": 1}}
    expected = [STARTED, JSONDelta(0, '{"a":1}'), BlockStop(0)]
    assert body(done(0, "function_call", **item)) == expected


@pytest.mark.parametrize("type", ["custom_tool_call", "function_call"])
def test_only_arguments_of_functions_are_compared_as_json(type: str) -> None:
    key = "input" if type == "custom_tool_call" else "arguments"
    item = {"id": "x", "call_id": "c", "name": "f"}
    fragment = "custom_tool_call_input" if key == "input" else "function_call_arguments"
    frames = [
        added(0, type, **item),
        delta(fragment, "[1]"),
        done(0, type, **{**item, key: "[ 1]"}),
    ]
    assert is_malformed(decode(START, *frames, completed())) == (key == "input")


@pytest.mark.parametrize(
    "again",
    [
        event(ALL, output_index=0, arguments='{"a":12}'),
        event(ALL, output_index=0, arguments='{"a":1}', name="g"),
        done(0, "function_call", **call("")),
        done(0, "function_call", **call('{"a":1}', name="g")),
        done(0, "custom_tool_call", **call(input='{"a":1}')),
        completed({"type": "function_call", **call('{"a":2}')}),
        completed({"type": "function_call", **call('{"a":1}', name="g")}),
        completed({"type": "function_call", **call('{"a":2}', id="fc_2", call_id="call_2")}),
        completed({"type": "message", "content": []}),
    ],
)
@pytest.mark.parametrize("is_done", [False, True])
def test_second_statement_that_contradicts_the_first_is_malformed(
    again: bytes, *, is_done: bool
) -> None:
    end = done(0, "function_call", **call('{"a":1}')) if is_done else b""
    frames = [ITEM_ADDED, args('{"a":1}'), event(ALL, output_index=0, arguments='{"a":1}'), end]
    assert is_malformed(decode(START, *frames, again, completed()))


def test_terminal_may_have_ids_of_its_own() -> None:
    """As vLLM's does."""
    entry = {"type": "function_call", **call("{}", id="fc_2", call_id="call_2")}
    frames = [ITEM_ADDED, args("{}"), done(0, "function_call", **call("{}"))]
    decoded = decode(START, *frames, completed(entry))
    assert decoded.events[1:-1] == [STARTED, JSONDelta(0, "{}"), BlockStop(0)]
    assert decoded.notes == (Note("id_changed", "tool call", 1),)


def test_arguments_do_not_go_on_under_another_id() -> None:
    entry = {"type": "function_call", **call('{"a":1}', id="fc_2", call_id="call_2")}
    assert is_malformed(decode(START, ITEM_ADDED, args('{"a"'), completed(entry)))
    entry["call_id"] = "call_1"
    assert is_malformed(decode(START, ITEM_ADDED, args('{"a"'), completed(entry)))


@pytest.mark.parametrize("deltas", ['{"a":1}', '{"a": 1}', '{"a":1} '])
def test_arguments_of_the_start_may_be_repeated(deltas: str) -> None:
    begun = added(0, "function_call", **call('{"a":1}'))
    assert body(begun, args(deltas)) == [STARTED, JSONDelta(0, deltas), BlockStop(0)]


@pytest.mark.parametrize(
    ("pieces", "emitted"),
    [
        (['ty":"x"}'], ['{"city":"x"}']),  # deltas that continue the start
        (['t', 'y":"x"}'], ['{"cit', 'y":"x"}']),
        (['{"city":"x"}'], ['{"city":"x"}']),  # deltas that repeat it
        (['{"', 'ci', 'ty":"x"}'], ['{"ci', 'ty":"x"}']),
        ([], ['{"city":"x"}']),
    ],
)  # fmt: skip
def test_arguments_that_begin_in_the_start_are_whole(pieces: list[str], emitted: list[str]) -> None:
    begun = added(0, "function_call", **call('{"ci'))
    whole = done(0, "function_call", **call('{"city":"x"}'))
    expected = [STARTED, *(JSONDelta(0, text) for text in emitted), BlockStop(0)]
    assert body(begun, *map(args, pieces), whole) == expected
    if pieces:
        assert body(begun, *map(args, pieces)) == expected


def test_deltas_that_may_repeat_the_start_continue_it_where_that_is_whole() -> None:
    begun = added(0, "function_call", **call('[{"a":{'))
    expected = [STARTED, JSONDelta(0, '[{"a":{}}]'), BlockStop(0)]
    assert body(begun, args("}}]")) == expected
    nested = added(0, "function_call", **call("[1,["))
    assert body(nested, args("["), args("]]]")) == [
        STARTED,
        JSONDelta(0, "[1,[[]]]"),
        BlockStop(0),
    ]
    # The deltas are a beginning of the start, and with it a whole.
    again = added(0, "function_call", **call('{"}":"'))
    assert body(again, args('{"}'))[1] == JSONDelta(0, '{"}":"{"}')
    short = added(0, "function_call", **call('["'))
    held = decode(START, short, args("["), completed(status="incomplete"))
    assert held.events[1:-1] == [STARTED, JSONDelta(0, '["'), BlockStop(0)]


def test_start_of_a_custom_call_is_continued() -> None:
    begun = added(0, "custom_tool_call", **call(input="ab"))
    more = delta("custom_tool_call_input", "cd")
    events = body(begun, more, done(0, "custom_tool_call", **call(input="abcd")))
    assert events[1:] == [JSONDelta(0, "abcd"), BlockStop(0)]


def test_arguments_that_contradict_their_start_are_malformed() -> None:
    begun = added(0, "function_call", **call('{"a":1}'))
    assert is_malformed(decode(START, begun, args('{"b":1}'), completed()))
    assert is_malformed(decode(START, begun, done(0, "function_call", **call("{}")), completed()))


def test_second_call_with_one_id_is_malformed() -> None:
    first, second = call("{}"), call("{}", id="fc_2")
    message = "second call with one id, expected another"
    frames = [done(0, "function_call", **first), added(1, "function_call", **second)]
    assert decode(START, *frames).events[-1] == StreamError("malformed", message)
    assert is_malformed(decode(START, frames[0], done(1, "function_call", **second)))


@pytest.mark.parametrize("status", ["completed", "incomplete"])
@pytest.mark.parametrize("pieces", ["{", "tru", " ", '{"a":1}x'])
def test_arguments_that_are_no_whole_json_are_a_note(pieces: str, status: str) -> None:
    decoded = decode(START, ITEM_ADDED, args(pieces), completed(status=status))
    assert decoded.events[-2] == BlockStop(0)
    assert Note("unfinished_arguments", "tool call", 1) in decoded.notes


def test_other_arguments_are_finished() -> None:
    custom = done(1, "custom_tool_call", **call(id="c", call_id="c", input="{"))
    empty = done(2, "function_call", **call(id="e", call_id="e"))
    decoded = decode(START, ITEM_ADDED, args("null"), custom, empty, completed())
    assert {note.kind for note in decoded.notes} == {"missing_item_done"}


def test_call_of_which_nothing_came_is_malformed_in_a_complete_response() -> None:
    message = "call without arguments or an end, expected one of them"
    last = decode(START, ITEM_ADDED, completed()).events[-1]
    assert last == StreamError("malformed", message)
    end = completed(status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    decoded = decode(START, ITEM_ADDED, end)
    assert decoded.events[-1] == MessageStop("max_tokens", "max_output_tokens")


def test_stored_arguments_are_bounded() -> None:
    item = len("fc_1" + "function_call" + "f" + "call_1")
    limits = Limits(max_accumulated_bytes=199 + item)
    frames = [ITEM_ADDED, *(args('"' + "a" * 98) for _ in range(2)), args('"'), args('"')]
    for count, kind in ((4, None), (5, "too_large")):
        last = decode(START, *frames[:count], completed(), limits=limits).events[-1]
        assert getattr(last, "kind", None) == kind


def test_call_without_deltas_is_emitted_whole() -> None:
    whole = [STARTED, JSONDelta(0, "{}"), BlockStop(0)]
    assert body(done(0, "function_call", **call("{}"))) == whole


def test_call_that_is_never_done_has_the_arguments_of_its_start() -> None:
    decoded = decode(START, added(0, "function_call", **call("{}")), completed())
    assert decoded.events[1:-1] == [STARTED, JSONDelta(0, "{}"), BlockStop(0)]
    assert decoded.notes == (Note("missing_item_done", "function_call", 1),)


def test_call_that_is_never_done_has_its_deltas() -> None:
    assert body(added(0, "function_call", **call("{}")), args("{")) == [
        *(STARTED, JSONDelta(0, "{"), BlockStop(0))
    ]


def test_unmapped_fields_are_extra() -> None:
    more = {"caller": {"type": "direct"}, "async": True, "x": None}
    start = body(added(0, "function_call", **call(status="in_progress", **more)))[0]
    kept = {"item_id": "fc_1", "caller": {"type": "direct"}, "async": True}
    assert start == BlockStart(0, ToolCall("call_1", "f"), extra=kept)


@pytest.mark.parametrize("type", ["function_call", "custom_tool_call"])
def test_namespace_of_the_tool_belongs_to_the_call(type: str) -> None:
    start = body(added(0, type, id="fc_1", call_id="c", name="get", namespace="crm"))[0]
    assert isinstance(start, BlockStart)
    assert isinstance(start.block, ToolCall)
    assert (start.block.namespace, start.extra) == ("crm", {"item_id": "fc_1"})


@pytest.mark.parametrize("none", [None, "", 1])
def test_namespace_that_is_no_name_is_none(none: Any) -> None:
    item = {"type": "function_call", **call(), "namespace": none}
    frame = event("response.output_item.added", output_index=0, item=item)
    assert body(frame)[0] == STARTED


@pytest.mark.parametrize("namespace", [None, "crm"])
def test_complete_call_of_another_namespace_is_malformed(namespace: str | None) -> None:
    """Else the tool of another group would be executed."""
    first = call() if namespace is None else call(namespace=namespace)
    last = done(0, "function_call", **call("{}", namespace="mail"))
    assert is_malformed(decode(START, added(0, "function_call", **first), last, completed()))


def test_namespace_that_is_not_repeated_stays() -> None:
    frames = [
        added(0, "function_call", **call(namespace="crm")),
        done(0, "function_call", **call()),
    ]
    start, stop = body(*frames)
    assert isinstance(start, BlockStart)
    assert start.block == ToolCall("call_1", "f", namespace="crm")
    assert stop == BlockStop(0)


def test_call_named_only_at_its_end_is_emitted_whole_there() -> None:
    frames = [added(0, "function_call", id="fc_1", call_id="call_1"), args('{"a')]
    end = done(0, "function_call", **call('{"a":1}'))
    assert body(*frames, end) == [STARTED, JSONDelta(0, '{"a":1}'), BlockStop(0)]


def test_call_without_a_start_is_emitted_whole_at_its_end() -> None:
    decoded = decode(START, args('{"a'), done(0, "function_call", **call('{"a":1}')), completed())
    assert decoded.events[1:-1] == [STARTED, JSONDelta(0, '{"a":1}'), BlockStop(0)]
    assert decoded.notes == (
        Note("missing_item", "function_call", 1),
        Note("completed_by_whole", "ToolCall", 1),
    )


def test_deltas_of_a_call_without_a_name_are_its_arguments() -> None:
    item = {key: value for key, value in call().items() if key != "arguments"}
    frames = [args('{"a'), args('":1}'), done(0, "function_call", **item)]
    assert body(*frames) == [STARTED, JSONDelta(0, '{"a":1}'), BlockStop(0)]
    assert is_malformed(
        decode(START, *frames[:2], done(0, "function_call", **call("")), completed())
    )
    assert is_malformed(decode(START, *frames[:2], completed()))


@pytest.mark.parametrize("type", ["function_call", "custom_tool_call"])
def test_call_without_a_name_is_malformed(type: str) -> None:
    error = StreamError("malformed", f"{type} without a name, expected one")
    assert decode(START, done(0, type, **call(name=""))).events[-1] == error
    assert decode(START, added(0, type, **call(name=None)), completed()).events[-1] == error


def test_arguments_after_the_end_of_the_call_are_malformed() -> None:
    frames = [ITEM_ADDED, args("{}"), done(0, "function_call", **call("{}"))]
    assert decode(START, *frames, args(" \n"), completed()).events[-1] == MessageStop(
        "tool_use", "completed"
    )
    message = "arguments of a call that is complete, expected an open one"
    assert decode(START, *frames, args("x")).events[-1] == StreamError("malformed", message)
    again = decode(START, *frames, args("{}"), completed())
    assert again.notes == (Note("resent_arguments", "ToolCall", 1),)


def test_arguments_after_their_done_event_are_malformed() -> None:
    frames = [ITEM_ADDED, args("{}"), event(ALL, output_index=0, arguments="{}"), args("x")]
    assert is_malformed(decode(START, *frames, completed()))


def test_item_id_replaces_a_missing_call_id() -> None:
    decoded = decode(START, done(0, "function_call", **call("{}", call_id=None)), completed())
    assert decoded.events[1] == BlockStart(0, ToolCall("fc_1", "f"), extra={"item_id": "fc_1"})
    assert decoded.notes == (Note("minted_id", "tool call", 1),)


def test_missing_id_is_minted() -> None:
    start = body(done(0, "function_call", name="f", arguments="{}"))[0]
    assert isinstance(start, BlockStart)
    assert isinstance(start.block, ToolCall)
    assert anonymous(start.block.id)


def test_half_a_surrogate_pair_waits_for_the_other_half() -> None:
    assert body(ITEM_ADDED, args("\ud83c"), args("\udf0a"))[1:-1] == [JSONDelta(0, "🌊")]


def test_half_a_surrogate_pair_at_the_end_is_replaced() -> None:
    assert body(ITEM_ADDED, args("{\ud83c"))[1:] == [
        *(JSONDelta(0, "{"), JSONDelta(0, "\ufffd"), BlockStop(0))
    ]


@pytest.mark.parametrize("delta_first", [False, True])
def test_complete_item_with_the_name_of_another_tool_is_malformed(delta_first: bool) -> None:
    deltas = [args("{}")] if delta_first else []
    frames = [added(0, "function_call", **call()), *deltas]
    decoded = decode(START, *frames, done(0, "function_call", **call("{}", name="g")), completed())
    message = "event with the name of another tool, expected that of its call"
    assert decoded.events[-1] == StreamError("malformed", message)
