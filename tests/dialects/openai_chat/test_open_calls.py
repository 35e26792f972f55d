"""The call that a fragment belongs to."""

from __future__ import annotations

import pytest
from support.openai_chat.chunks import DONE, anonymous, call, calls, chunk, content, decode, message

from streamnorm import (
    BlockStart,
    BlockStop,
    JSONDelta,
    Message,
    Note,
    SignatureDelta,
    StreamError,
    Text,
    ToolCall,
)
from streamnorm._core.text import mint_id

END = chunk({}, "tool_calls") + DONE
A, B = '{"a":1}', '{"b":2}'


def tools(*frames: bytes) -> list[tuple[str, str, str]]:
    """Return id, name and arguments of the calls of a stream that ends well."""
    read: Message = message(*frames, END)
    assert read.stop_reason == "tool_use"
    return [(tool.id, tool.name, tool.arguments) for tool in read.tool_calls]


def test_index_missing_and_ids_new() -> None:
    assert tools(
        *(calls(call(None, "x", "f", A[:3])), calls(call(None, "", None, A[3:], type=""))),
        calls(call(None, "y", "g", B)),
    ) == [("x", "f", A), ("y", "g", B)]


def test_index_missing_and_no_id_but_a_name() -> None:
    first, second = tools(calls(call(name="f", arguments=A)), calls(call(name="g", arguments=B)))
    assert (first[1:], second[1:]) == (("f", A), ("g", B))
    assert anonymous(first[0])
    assert anonymous(second[0])
    assert first[0] != second[0]


def test_index_missing_and_the_same_tool_called_twice_without_ids() -> None:
    frames = [calls(call(name="f", arguments=A)), calls(call(name="f", arguments=B))]
    assert [tool[1:] for tool in tools(*frames)] == [("f", A), ("f", B)]


def test_index_missing_and_the_name_repeated_while_arguments_go_on() -> None:
    frames = [calls(call(name="f", arguments=A[:3])), calls(call(name="f", arguments=A[3:]))]
    assert [tool[1:] for tool in tools(*frames)] == [("f", A)]


def test_index_missing_and_arguments_repeated_whole() -> None:
    frames = [calls(call(name="f", arguments=A)), calls(call(name="f", arguments=A))]
    assert [tool[1:] for tool in tools(*frames)] == [("f", A)]


def test_index_always_zero_with_different_ids() -> None:
    assert tools(
        calls(call(0, "x", "f", A)),
        calls(call(0, "y", "g", B[:2])),
        calls(call(0, None, None, B[2:])),
    ) == [("x", "f", A), ("y", "g", B)]


def test_index_always_zero_and_fragments_matched_by_id() -> None:
    assert tools(
        *(calls(call(0, "x", "f", A[:2])), calls(call(0, "y", "g", B[:2]))),
        *(calls(call(0, "x", None, A[2:])), calls(call(0, "y", None, B[2:]))),
    ) == [("x", "f", A), ("y", "g", B)]


def test_second_object_at_a_used_index_without_id_and_name_is_malformed() -> None:
    events, _, _ = decode(calls(call(0, "x", "f", A)), calls(call(0, None, None, B)), END)
    assert events[-1] == StreamError("malformed", "a second object as arguments of one tool call")


def test_index_minus_one_is_no_index() -> None:
    assert tools(
        *(calls(call(-1, "x", "f", A[:3])), calls(call(-1, None, None, A[3:]))),
        calls(call(-1, "y", "g", B)),
    ) == [("x", "f", A), ("y", "g", B)]


def test_indexes_with_another_base_and_gaps_are_only_keys() -> None:
    decoded = decode(
        *(calls(call(7, "x", "f", A[:3])), calls(call(3, "y", "g", B[:3]))),
        *(calls(call(7, None, None, A[3:])), calls(call(3, None, None, B[3:])), END),
    )
    assert decoded.events[1:] == [
        *(BlockStart(0, ToolCall("x", "f")), JSONDelta(0, A[:3])),
        *(BlockStart(1, ToolCall("y", "g")), JSONDelta(1, B[:3])),
        *(JSONDelta(0, A[3:]), BlockStop(0), JSONDelta(1, B[3:]), BlockStop(1)),
        decoded.events[-1],
    ]


def test_index_that_drifts_within_a_call_continues_it() -> None:
    assert tools(
        *(calls(call(0, "x", "f", A[:3])), calls(call(1, None, None, A[3:]))),
        *(calls(call(2, "y", "g", B[:3])), calls(call(3, None, None, B[3:]))),
    ) == [("x", "f", A), ("y", "g", B)]


def test_id_repeated_in_every_fragment() -> None:
    pieces = [call(0, "x", "f", A[:3]), call(0, "x", None, A[3:5]), call(0, "x", None, A[5:])]
    assert tools(*map(calls, pieces)) == [("x", "f", A)]


def test_id_empty_and_type_repeated_in_later_fragments() -> None:
    piece = call(0, "", None, A[3:], type="function")
    assert tools(calls(call(0, "x", "f", A[:3])), calls(piece)) == [("x", "f", A)]


def test_id_and_name_null_in_later_fragments() -> None:
    piece = {"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": A[3:]}}
    assert tools(calls(call(0, "x", "f", A[:3])), calls(piece)) == [("x", "f", A)]


def test_id_never_sent_is_minted_and_noted() -> None:
    frames = (calls(call(0, None, "f", A), call(1, None, "g", B)), calls(call(name="f"), choice=1))
    decoded = decode(*frames, chunk({}, "tool_calls", 1), END)
    ids = [event.block.id for event in decoded.events if isinstance(event, BlockStart)]
    places = [(0, 0), (0, 1), (1, 2)]  # choice and block
    assert ids == [mint_id("chatcmpl-1", "gpt", None, *place) for place in places]
    assert decoded.notes == (Note("minted_id", "tool call", 3),)


def test_numeric_id_becomes_its_digits() -> None:
    assert tools(calls(call(0, 17, "f", A))) == [("17", "f", A)]


def test_id_null_as_text_is_absent() -> None:
    pieces = [call(0, "null", "f", A[:3]), call(0, "null", None, A[3:])]
    ((id, name, arguments),) = tools(*map(calls, pieces))
    assert anonymous(id)
    assert (name, arguments) == ("f", A)


def test_name_repeated_in_every_fragment() -> None:
    pieces = [call(0, "x", "f", ""), call(0, None, "f", A[:3]), call(0, None, "f", A[3:])]
    assert tools(*map(calls, pieces)) == [("x", "f", A)]


def test_name_in_fragments_is_joined_before_arguments_begin() -> None:
    pieces = [call(0, "x", "edit_ex"), call(0, None, "isting_file"), call(0, None, None, A)]
    assert tools(*map(calls, pieces)) == [("x", "edit_existing_file", A)]


def test_name_in_fragments_is_not_noted() -> None:
    frames = [
        calls(call(0, "x", "edit_")),
        calls(call(0, None, "file")),
        calls(call(0, None, None, A)),
    ]
    assert decode(*frames, END).notes == ()


def test_names_in_fragments_of_parallel_calls_are_joined() -> None:
    pieces = [call(0, "x", "get_"), call(1, "y", "set_"), call(0, None, "a"), call(1, None, "b")]
    assert tools(*map(calls, pieces)) == [("x", "get_a", ""), ("y", "set_b", "")]


def test_name_fragment_after_the_start_is_ignored_and_noted() -> None:
    frames = (calls(call(0, "x", "edit", A[:3])), calls(call(0, None, "or", A[3:])), END)
    decoded = decode(*frames)
    assert decoded.events[1] == BlockStart(0, ToolCall("x", "edit"))
    assert Note("late_name", "tool call") in decoded.notes


def test_name_fragment_after_arguments_is_noted_even_for_a_held_call() -> None:
    pieces = [call(0, "x"), call(1, "y", "g", A[:3]), call(1, None, "h", A[3:]), call(0, None, "f")]
    decoded = decode(*map(calls, pieces), END)
    assert [event.block.name for event in decoded.events if isinstance(event, BlockStart)] == [
        "f",
        "g",
    ]
    assert decoded.notes == (Note("late_name", "tool call"),)


def test_name_empty_in_later_fragments() -> None:
    assert tools(
        calls(call(0, "x", "f", A[:3])),
        calls({"index": 0, "function": {"name": "", "arguments": A[3:]}}),
    ) == [("x", "f", A)]


def test_name_after_the_id_holds_the_start() -> None:
    decoded = decode(
        *(calls(call(0, "x")), calls(call(0, None, "f")), calls(call(0, None, None, A)), END)
    )
    assert decoded.events[1:3] == [BlockStart(0, ToolCall("x", "f")), JSONDelta(0, A)]


def test_name_after_arguments_holds_the_start() -> None:
    pieces = [call(0, "x", None, A[:3]), call(0, None, None, A[3:]), call(0, None, "f")]
    decoded = decode(*map(calls, pieces), END)
    assert decoded.events[1:3] == [BlockStart(0, ToolCall("x", "f")), JSONDelta(0, A)]


def test_call_without_a_name_is_malformed() -> None:
    events, _, _ = decode(calls(call(0, "x", None, A)), content("text"), END)
    assert events[1:] == [StreamError("malformed", "tool call without a name, expected one")]


@pytest.mark.parametrize(
    "piece",
    [{"index": 0}, {"index": 0, "type": "function", "function": {}}, {"function": {"name": ""}}],
)
def test_empty_fragment_begins_no_call(piece: dict[str, object]) -> None:
    assert message(calls(piece), content("hi", "stop"), DONE).blocks == (Text("hi"),)


def test_several_calls_in_one_chunk() -> None:
    assert tools(calls(call(0, "x", "f", A), call(1, "y", "g", B))) == [
        *(("x", "f", A), ("y", "g", B)),
    ]


def test_whole_call_in_one_chunk() -> None:
    decoded = decode(calls(call(0, "x", "f", A)), END)
    assert decoded.events[1:4] == [BlockStart(0, ToolCall("x", "f")), JSONDelta(0, A), BlockStop(0)]


def test_arguments_in_the_last_chunk() -> None:
    frames = (
        calls(call(0, "x", "f", A[:3])),
        calls(call(0, None, None, A[3:]), finish="tool_calls"),
    )
    assert message(*frames, DONE).tool_calls == (ToolCall("x", "f", A),)


@pytest.mark.parametrize("id", ["functions.get_weather:0", "D681PevKs", "a/b c"])
def test_id_is_never_rewritten(id: str) -> None:
    assert tools(calls(call(0, id, "f", A))) == [(id, "f", A)]


def test_late_id_is_that_of_its_call() -> None:
    pieces = [call(0, None, "f"), call(0, "x"), call(0, None, None, A)]
    assert tools(*map(calls, pieces)) == [("x", "f", A)]


def test_id_after_the_start_does_not_replace_the_minted_one() -> None:
    pieces = [call(0, None, "f", A[:3]), call(0, "x", None, A[3:])]
    ((id, name, arguments),) = tools(*map(calls, pieces))
    assert anonymous(id)
    assert (name, arguments) == ("f", A)


def test_second_id_after_a_late_id_is_a_new_call() -> None:
    pieces = [call(0, None, "f", A), call(0, "x"), call(0, "y", "f", B)]
    assert [tool[1:] for tool in tools(*map(calls, pieces))] == [("f", A), ("f", B)]


def test_late_id_with_another_name_is_a_new_call() -> None:
    pieces = [call(0, None, "f", A), call(0, "y", "g", B)]
    assert [tool[1:] for tool in tools(*map(calls, pieces))] == [("f", A), ("g", B)]


def test_fragments_without_index_go_to_the_one_call_that_can_grow() -> None:
    pieces = [call(0, "x", "f", A[:2]), call(1, "y", "g", B), call(None, None, None, A[2:])]
    assert tools(*map(calls, pieces)) == [("x", "f", A), ("y", "g", B)]


def signed(signature: object) -> dict[str, object]:
    return {"google": {"thought_signature": signature}}


def test_signature_of_a_call_is_read() -> None:
    assert message(calls(call(0, "x", "f", A, extra_content=signed("s=="))), END).tool_calls == (
        ToolCall("x", "f", A, signature="s==", issuer="google"),
    )


def test_signature_in_a_fragment_of_its_own_belongs_to_its_call() -> None:
    frames = (calls(call(0, "x", "f", A)), calls(call(0, extra_content=signed("s"))))
    assert message(*frames, END).tool_calls[0].signature == "s"


def test_signature_of_a_held_call_is_in_its_start() -> None:
    decoded = decode(calls(call(0, "x", "f", extra_content=signed("s"))), END)
    assert decoded.events[1:3] == [
        BlockStart(0, ToolCall("x", "f", signature="s", issuer="google")),
        BlockStop(0),
    ]


def test_signature_of_a_started_call_is_not_held() -> None:
    frames = [calls(call(0, "x", "f", A)), calls(call(1, "y", "g"))]
    decoded = decode(*frames, calls(call(0, extra_content=signed("s"))), END)
    assert decoded.events[1:6] == [
        *(BlockStart(0, ToolCall("x", "f")), JSONDelta(0, A), SignatureDelta(0, "s", "google")),
        *(BlockStop(0), BlockStart(1, ToolCall("y", "g"))),
    ]


def test_signature_of_a_nameless_call_is_in_its_start() -> None:
    pieces = [call(0, "x", None, A), call(1, "y", "g", B, extra_content=signed("t"))]
    late = [call(0, extra_content=signed("s")), call(0, None, "f")]
    decoded = decode(*map(calls, pieces + late), END)
    assert decoded.events[1:-1] == [
        BlockStart(0, ToolCall("x", "f", signature="s", issuer="google")),
        *(JSONDelta(0, A), BlockStop(0)),
        BlockStart(1, ToolCall("y", "g", signature="t", issuer="google")),
        *(JSONDelta(1, B), BlockStop(1)),
    ]


def test_signature_of_a_stopped_call_is_malformed() -> None:
    frames = [calls(call(0, "x", "f", A)), content("a"), calls(call(0, extra_content=signed("s")))]
    events, _, _ = decode(*frames, END)
    assert events[-1] == StreamError("malformed", "signature of a tool call that has stopped")


@pytest.mark.parametrize(
    "extra", [{"google": 1}, {"google": {"thought_signature": ""}}, {"x": "y"}]
)
def test_other_extra_content_of_a_call_is_opaque(extra: dict[str, object]) -> None:
    decoded = decode(calls(call(0, "x", "f", A, extra_content=extra)), END)
    assert [event.name for event in decoded.events if hasattr(event, "name")] == ["extra_content"]
    assert message(calls(call(0, "x", "f", A, extra_content=extra)), END).tool_calls == (
        ToolCall("x", "f", A),
    )


def test_legacy_function_call_is_a_call() -> None:
    frames = [
        chunk({"function_call": {"name": "f", "arguments": ""}}),
        chunk({"function_call": {"arguments": A[:3]}}),
        chunk({"function_call": {"name": None, "arguments": A[3:]}}),
        chunk({}, "function_call"),
    ]
    read = message(*frames, DONE)
    assert [(tool.name, tool.arguments) for tool in read.tool_calls] == [("f", A)]
    assert read.stop_reason == "tool_use"


def test_empty_legacy_function_call_is_no_call() -> None:
    frames = (chunk({"function_call": {}}), chunk({"function_call": {"name": None}}))
    assert message(*frames, content("hi", "stop"), DONE).blocks == (Text("hi"),)


def test_custom_tool_takes_free_text() -> None:
    frames = [
        calls({"index": 0, "id": "x", "type": "custom", "custom": {"name": "f", "input": '{"a"'}}),
        calls({"index": 0, "custom": {"input": "} plus"}}),
        calls(call(1, "y", "g", A)),
        calls({"index": 0, "custom": {"input": "}"}}),
    ]
    decoded = decode(*frames, END)
    assert decoded.events[1:-1] == [
        *(BlockStart(0, ToolCall("x", "f", kind="custom")), JSONDelta(0, '{"a"')),
        *(JSONDelta(0, "} plus"), BlockStart(1, ToolCall("y", "g")), JSONDelta(1, A)),
        *(JSONDelta(0, "}"), BlockStop(0), BlockStop(1)),
    ]
