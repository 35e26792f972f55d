"""Fragments that contradict what is known of the calls, or name none of them."""

from __future__ import annotations

import pytest
from support.openai_chat.chunks import DONE, call, calls, chunk, content, decode, frame, message

from streamnorm import Completed, Limits, Note, StreamError, ToolCall

END = chunk({}, "tool_calls") + DONE
A, B = '{"a":1}', '{"b":2}'

Piece = dict[str, object]


def problem(*frames: bytes) -> str:
    """Return what is wrong with a stream that contradicts itself."""
    events, _, _ = decode(*frames, END)
    error = events[-1]
    assert isinstance(error, StreamError)
    assert error.kind == "malformed"
    return error.message


def of_chunk(id: str | None, *pieces: Piece) -> bytes:
    delta = {"tool_calls": list(pieces)}
    return frame({"id": id, "model": "gpt", "choices": [{"index": 0, "delta": delta}]})


DRIFT = [calls(call(0, "x", "f", A[:3])), calls(call(5, arguments=A[3:5]))]


def test_drift_of_an_index_is_noted_and_may_go_on() -> None:
    decoded = decode(*DRIFT, calls(call(6, arguments=A[5:])), END)
    assert decoded.notes == (Note("index_drift", "tool call", 2),)
    assert message(*DRIFT, calls(call(6, arguments=A[5:])), END).tool_calls == (
        ToolCall("x", "f", A),
    )


def test_index_that_appears_in_the_middle_of_a_call_is_a_drift() -> None:
    frames = [calls(call(None, "x", "f", A[:3])), calls(call(0, arguments=A[3:]))]
    assert decode(*frames, END).notes == (Note("index_drift", "tool call"),)


@pytest.mark.parametrize(
    "pieces",
    [
        [call(0, "x", "f", A)],  # complete
        [call(0, "x", "f")],  # perhaps without arguments
        [call(0, "x", "f", "{}")],
        [call(0, "x", "f", A), call(1, "y", "g")],
        [call(0, "x", "f", A[:3]), call(1, "y", "g", B[:3])],  # of either
        [{"index": 0, "id": "x", "type": "custom", "custom": {"name": "f", "input": "a"}}],
    ],
)
def test_arguments_at_an_index_without_a_call_are_malformed(pieces: list[Piece]) -> None:
    assert problem(calls(*pieces), calls(call(5, arguments=B))) == (
        "arguments at index 5, where no tool call has begun"
    )


@pytest.mark.parametrize("piece", [call(0, arguments=A[5:]), call(0, "x"), call(0, "y", "g", B)])
def test_index_that_comes_again_after_a_drift_is_malformed(piece: Piece) -> None:
    assert problem(*DRIFT, calls(piece)) == "tool call index 0 again after it had drifted"


@pytest.mark.parametrize("piece", [call(5, "y", "g", B), call(5, "y")])
def test_call_that_begins_where_another_drifted_to_is_malformed(piece: Piece) -> None:
    assert problem(*DRIFT, calls(piece)) == (
        "a tool call begins at index 5, to which another had drifted"
    )


def test_drifted_call_goes_on_by_its_id() -> None:
    assert message(*DRIFT, calls(call(5, "x", None, A[5:])), END).tool_calls == (
        ToolCall("x", "f", A),
    )


@pytest.mark.parametrize("index", [0, None])
def test_arguments_before_any_call_are_malformed(index: int | None) -> None:
    expected = "arguments at index 0, where no tool call has begun"
    if index is None:
        expected = "arguments before the id and the name of their tool call"
    assert problem(calls(call(index, arguments=A))) == expected


def test_arguments_without_index_of_either_call_are_malformed() -> None:
    frames = [calls(call(0, "x", "f", A[:3]), call(1, "y", "g", B[:3]))]
    assert problem(*frames, calls(call(arguments="1}"))) == (
        "arguments of any of 2 open tool calls, expected an index"
    )


def test_call_without_arguments_that_another_followed_cannot_grow() -> None:
    frames = [calls(call(0, "x", "f"), call(1, "y", "g", "{}")), calls(call(2, "z", "h"))]
    assert message(*frames, calls(call(arguments=A)), END).tool_calls == (
        *(ToolCall("x", "f"), ToolCall("y", "g", "{}"), ToolCall("z", "h", A)),
    )


def test_arguments_without_index_after_complete_calls_may_only_repeat() -> None:
    frames = [calls(call(None, "x", "f", A)), calls(call(None, "y", "g", B))]
    for again in (B, " \n"):
        assert isinstance(decode(*frames, calls(call(arguments=again)), END).outcome, Completed)
    for other in ("}", A):
        assert problem(*frames, calls(call(arguments=other))) == (
            "arguments of no tool call: all of them are complete"
        )


def test_id_of_one_call_at_the_index_of_another_is_malformed() -> None:
    frames = [calls(call(0, "x", "f", A[:3]), call(1, "y", "g", B[:3]))]
    assert problem(*frames, calls(call(1, "x", None, A[3:]))) == (
        "a fragment with the id of one tool call and the index of another"
    )


def test_two_calls_with_one_id_are_malformed() -> None:
    assert problem(calls(call(0, "x", "f"), call(1, "x", "g", B))) == "two tool calls with one id"


def test_id_repeated_at_an_index_without_a_call_is_that_of_its_call() -> None:
    frames = [calls(call(0, "x", "f", A[:3])), calls(call(4, "x", "f", A[3:]))]
    assert message(*frames, END).tool_calls == (ToolCall("x", "f", A),)


def test_name_that_goes_on_after_its_block_has_started_is_malformed() -> None:
    frames = [calls(call(0, "x", "edit_ex")), content("hm")]
    assert problem(*frames, calls(call(0, None, "isting"))) == (
        "the name of a tool call goes on after its start"
    )
    assert message(*frames, calls(call(0, None, "edit_ex")), END).tool_calls[0].name == "edit_ex"


def test_last_part_of_a_name_may_come_again_after_the_start() -> None:
    frames = [calls(call(0, "x", "edit_")), calls(call(0, None, "file")), content("hm")]
    assert message(*frames, calls(call(0, None, "file")), END).tool_calls[0].name == "edit_file"


def test_call_that_goes_on_in_a_chunk_of_another_id_is_malformed() -> None:
    for piece in (call(0, arguments=A[3:]), call(0, "x", "f", A[3:]), call(arguments=A[3:])):
        assert problem(of_chunk("a", call(0, "x", "f", A[:3])), of_chunk("b", piece)) == (
            "a tool call goes on in a chunk of another id"
        )


def test_call_may_begin_in_a_chunk_of_another_id() -> None:
    frames = [of_chunk("a", call(0, "x", "f", A)), of_chunk("b", call(1, "y", "g", B))]
    decoded = decode(*frames, of_chunk("b"), END)
    assert isinstance(decoded.outcome, Completed)
    assert decoded.notes == (Note("id_changed", "chunk"),)


@pytest.mark.parametrize("first", ["", None, "a"])
@pytest.mark.parametrize("second", ["", None])
def test_empty_id_of_a_chunk_is_none(first: str | None, second: str | None) -> None:
    frames = [of_chunk(first, call(0, "x", "f", A[:5])), of_chunk(second, call(0, arguments="1"))]
    decoded = decode(*frames, of_chunk("a", call(0, arguments="}")), chunk({}, id="a"), DONE)
    assert decoded.notes == ()


def test_id_that_comes_late_is_that_of_the_call() -> None:
    frames = [of_chunk("", call(0, "x", "f", A[:5])), of_chunk("a", call(0, arguments="1"))]
    assert problem(*frames, of_chunk("b", call(0, arguments="}"))) == (
        "a tool call goes on in a chunk of another id"
    )


def test_two_choices_without_an_index_in_one_chunk_are_malformed() -> None:
    parts: list[Piece] = [
        {"delta": {"tool_calls": [call(0, "x", "f", A)]}},
        {"delta": {"content": "a"}},
    ]
    wire = {"id": "chatcmpl-1", "model": "gpt"}
    assert problem(frame({**wire, "choices": parts})) == (
        "2 choices in one chunk, expected their indexes"
    )
    parts[1]["index"] = 1
    decoded = decode(frame({**wire, "choices": parts}), chunk({}, "stop", 1), END)
    assert isinstance(decoded.outcome, Completed)


@pytest.mark.parametrize("lost", ['{"city":"Tok', ' {"', "{"])
def test_fragment_that_may_begin_a_call_is_no_drift(lost: str) -> None:
    half = calls(call(0, "x", "f", '{"city":"Par'))
    rest = calls(call(1, arguments='yo"}'))
    assert problem(half, calls(call(1, arguments=lost)), rest) == (
        "arguments at index 1, where no tool call has begun"
    )


@pytest.mark.parametrize(
    "piece",
    [call(0, arguments=A[3:]), call(None, arguments=A[3:]), call(6, arguments=A[3:])],
    ids=["its old index", "no index", "another index"],
)
def test_call_goes_on_at_the_index_of_a_blank_fragment_alone(piece: Piece) -> None:
    """Or the blank belongs to another call, whose start was lost or comes later."""
    blank = calls(call(5, arguments=" "))
    assert problem(DRIFT[0], blank, calls(piece)) == (
        "a blank fragment at index 5, where no tool call goes on"
    )
    begun = calls(call(5, "y", "g", B))
    assert problem(DRIFT[0], blank, begun) == (
        "a blank fragment at index 5, where no tool call goes on"
    )


def test_index_may_drift_with_a_blank_fragment() -> None:
    blanks = [calls(call(5, arguments=blank)) for blank in (" ", "", "  ")]
    decoded = decode(DRIFT[0], *blanks, calls(call(5, arguments=A[3:])), END)
    assert decoded.notes == (Note("index_drift", "tool call"),)
    assert message(DRIFT[0], *blanks, calls(call(5, arguments=A[3:])), END).tool_calls == (
        ToolCall("x", "f", A[:3] + "   " + A[3:]),
    )


def test_empty_fragment_at_an_unknown_index_moves_no_call() -> None:
    empty = calls(call(5, arguments=""))
    assert message(DRIFT[0], empty, calls(call(0, arguments=A[3:])), END).tool_calls == (
        ToolCall("x", "f", A),
    )


def test_indexes_of_drifting_calls_are_bounded() -> None:
    frames = [*DRIFT, calls(call(6, arguments=A[5:])), END]
    for bound, kind in ((300, "too_large"), (460, None)):
        last = decode(*frames, limits=Limits(max_accumulated_bytes=bound)).events[-1]
        assert getattr(last, "kind", None) == kind
