"""Statements of a stream that contradict each other, and repetitions that do not."""

from __future__ import annotations

from typing import Any

import pytest
from support.anthropic.frames import (
    STOP,
    block,
    body,
    call,
    decode,
    delta,
    end,
    event,
    notes,
    start,
    stop,
    text,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    JSONDelta,
    Note,
    Opaque,
    OpaqueBlock,
    StreamError,
    TextDelta,
    ToolCall,
    Truncated,
    Usage,
)

PARIS, ROME = '{"city":"Paris"}', '{"city":"Rome"}'


def args(index: int | None, text: Any) -> bytes:
    return delta(index, "input_json_delta", partial_json=text)


def tool(index: int, **fields: Any) -> bytes:
    return block(index, "tool_use", **{"id": f"toolu_{index}", "name": "find", **fields})


def error_of(*frames: bytes) -> str:
    """Return the message of the error that ends a stream as malformed."""
    error = decode(start(), *frames, end(), STOP).events[-1]
    assert isinstance(error, StreamError)
    assert error.kind == "malformed"
    return error.message


# A piece goes where it says, or nowhere


def test_input_for_a_stopped_call_is_malformed() -> None:
    message = "delta of no open tool_use block, expected one at its index"
    for other in (tool(1), block(1, "server_tool_use", id="s", name="search", input={})):
        assert error_of(tool(0), args(0, PARIS[:5]), stop(0), other, args(0, PARIS[5:])) == message


def test_input_at_an_unknown_index_is_malformed() -> None:
    message = "delta of no open tool_use block, expected one at its index"
    assert error_of(tool(0), args(1, PARIS)) == message
    assert error_of(tool(0), tool(1), args(2, PARIS)) == message
    assert error_of(text(0, "a"), args(0, PARIS)) == message
    assert error_of(args(0, PARIS)) == message


def test_input_without_an_index_needs_exactly_one_open_call() -> None:
    message = "delta of no open tool_use block, expected one at its index"
    assert error_of(tool(0), tool(1), args(None, PARIS)) == message
    assert error_of(args(None, PARIS)) == message
    assert body(tool(0), stop(0), tool(1), args(None, "{}"), stop(1))[3] == JSONDelta(1, "{}")


@pytest.mark.parametrize(
    ("index", "found"),
    [
        ("0", "a string of 1 characters"),
        (0.0, "a decimal number"),
        (True, "a boolean"),
        ([0], "an array"),
    ],
)
def test_index_of_another_type_is_malformed(index: object, found: str) -> None:
    message = f"index is {found}, expected an integer"
    for name, fields in (
        ("content_block_start", {"content_block": {"type": "text", "text": ""}}),
        ("content_block_delta", {"delta": {"type": "text_delta", "text": "a"}}),
        ("content_block_stop", {}),
    ):
        opening = [] if name.endswith("start") else [block(0, "text", text="")]
        assert error_of(*opening, event(name, index=index, **fields)) == message


@pytest.mark.parametrize(
    ("index", "other"),
    [(1, "text"), (0, "thinking"), (9, "thinking")],
    ids=["of a text", "stopped", "unknown"],
)
def test_signature_that_names_no_open_thinking_is_malformed(index: int, other: str) -> None:
    first = [block(0, "thinking", thinking="a"), delta(0, "signature_delta", signature="s")]
    later = [block(1, other, **{other: "b"}), delta(index, "signature_delta", signature="t")]
    message = "delta of no open thinking block, expected one at its index"
    assert error_of(*first, stop(0), *later) == message


def test_text_and_thinking_for_a_stopped_block_are_malformed() -> None:
    for kind, field in (("text", "text"), ("thinking", "thinking")):
        for other in (b"", block(1, kind, **{field: "b"})):
            late = delta(0, f"{kind}_delta", **{field: "c"})
            assert error_of(block(0, kind, **{field: "a"}), stop(0), other, late).endswith("index")


def test_text_at_the_index_of_a_whole_block_is_malformed() -> None:
    for whole in (
        block(0, "redacted_thinking", data="ZGF0YQ=="),
        block(0, "web_search_tool_result", tool_use_id="s", content=[]),
    ):
        assert error_of(whole, delta(0, "text_delta", text="a")).endswith("at its index")


def test_delta_of_an_unknown_block_is_passed_on_as_it_came() -> None:
    for kind, field in (("text_delta", "text"), ("input_json_delta", "partial_json")):
        piece = delta(0, kind, **{field: "a"})
        events = body(block(0, "sketch"), piece, piece, stop(0))
        assert events[0] == BlockStart(0, OpaqueBlock("anthropic", "sketch", '{"type":"sketch"}'))
        assert [type(event) for event in events[1:-1]] == [Opaque, Opaque]
        assert events[-1] == BlockStop(0)


# Repetitions


def test_repetition_of_what_a_stopped_block_holds_is_a_note() -> None:
    rows = {
        "ToolCall": [call(0, PARIS[:5], PARIS[5:]), args(0, PARIS)],
        "Text": [block(0, "text", text="a"), stop(0), delta(0, "text_delta", text="a")],
        "Reasoning": [
            block(0, "thinking", thinking="a"),
            *(delta(0, "signature_delta", signature="s"), stop(0)),
            delta(0, "signature_delta", signature="s"),
        ],
    }
    for kind, (*frames, again) in rows.items():
        decoded = decode(start(), *frames, again, again, end(), STOP)
        assert decoded.events == decode(start(), *frames, end(), STOP).events
        assert decoded.notes == (Note("resent_delta", kind, 2),)


def test_start_repeated_right_after_itself_is_a_note() -> None:
    once = [tool(0), args(0, PARIS), stop(0)]
    for between in (b"", event("ping")):
        frames = [tool(0), between, *once]
        assert [e for e in body(*frames) if type(e).__name__ != "Ping"] == body(*once)
        assert notes(*frames) == {"repeated_block_start": 1}


@pytest.mark.parametrize(
    "frames",
    [
        [tool(0), args(0, PARIS), tool(0)],
        [tool(0), args(0, PARIS), args(0, " "), tool(0)],
        [tool(0), tool(0, name="other")],
        [tool(0), stop(0), tool(0)],
        [text(0, "a"), tool(0)],
        [block(0, "compaction", content=None), tool(0)],
    ],
    ids=["after a delta", "after deltas", "another", "stopped", "reused", "of a held block"],
)
def test_start_at_a_used_index_is_malformed(frames: list[bytes]) -> None:
    assert error_of(*frames) == "content_block_start at an index in use, expected a new index"


def test_second_call_of_one_id_is_malformed() -> None:
    message = "second call of one id, expected another id"
    assert error_of(tool(0), stop(0), tool(1, id="toolu_0")) == message
    served = block(1, "server_tool_use", id="toolu_0", name="search", input={})
    assert error_of(tool(0), stop(0), served) == message


def test_repeated_message_start_may_lack_its_id() -> None:
    decoded = decode(start(), start(id=""), text(0, "a"), start(), end(), STOP)
    assert decoded.outcome == Completed("end_turn", Usage())
    assert decoded.notes == (Note("repeated_message_start", "message", 2),)


def test_blocks_again_after_a_second_message_start_are_malformed() -> None:
    again = error_of(text(0, "a"), start(), text(0, "a"))
    assert again == "content_block_start at an index in use, expected a new index"


def test_second_message_start_with_other_content_is_malformed() -> None:
    whole = start(content=[{"type": "text", "text": "a"}])
    other = start(content=[{"type": "text", "text": "b"}])
    message = "second message_start with other content, expected the same"
    for first, second in ((whole, other), (start(), whole), (whole, start())):
        assert decode(first, second, end(), STOP).events[-1] == StreamError("malformed", message)
    assert decode(whole, whole, end(), STOP).notes == (Note("repeated_message_start", "message"),)


# Two statements about one thing


def test_input_of_the_start_must_be_that_of_the_deltas() -> None:
    told = tool(0, input={"city": "Paris"})
    message = "deltas of another input than that of the start, expected the same"
    for frames in ([args(0, ROME), stop(0)], [args(0, ROME)], [args(0, PARIS[:5]), stop(0)]):
        assert error_of(told, *frames) == message
    assert body(told, args(0, PARIS), stop(0))[1:] == [JSONDelta(0, PARIS), BlockStop(0)]


def test_text_that_is_no_string_is_malformed() -> None:
    message = "partial_json is an object, expected a string"
    assert error_of(tool(0), args(0, {"city": "Paris"})) == message
    assert error_of(block(0, "text", text=["a"])) == "text is an array, expected a string"
    assert error_of(block(0, "thinking", thinking=1)) == "thinking is an integer, expected a string"


def test_second_stop_reason_must_be_the_first() -> None:
    message = "second stop reason, expected one"
    assert error_of(text(0, "a"), end("max_tokens")) == message
    assert decode(start(), end(), end(None), end(), STOP).outcome == Completed("end_turn", Usage())
    later = [start(), end("max_tokens"), text(0, "a"), end(), STOP]
    assert decode(*later).outcome == Completed("end_turn", Usage())


# The end


def test_stop_reason_in_message_start_is_no_finish() -> None:
    whole = start(content=[{"type": "text", "text": "a"}], stop_reason="end_turn")
    for frames in ([start(stop_reason="end_turn"), text(0, "a")], [whole]):
        assert isinstance(decode(*frames).outcome, Truncated)
    assert decode(whole, STOP).outcome == Completed("end_turn", Usage())
    lenient = decode(start(stop_reason="max_tokens"), text(0, "a"), STOP)
    assert lenient.outcome == Completed("end_turn", Usage(), ("no_finish",))


@pytest.mark.parametrize(
    "frames",
    [
        [block(0, "text", text="a"), end()],
        [block(0, "text", text="a"), end(), stop(0)],
        [text(0, "a"), end(), text(1, "b")],
        [text(0, "a"), end(), block(1, "text", text="")],
    ],
    ids=["open", "stopped later", "another block", "another start"],
)
def test_cut_is_no_success_if_a_block_was_open_or_came_after_the_stop_reason(
    frames: list[bytes],
) -> None:
    assert isinstance(decode(start(), *frames).outcome, Truncated)


def test_message_stop_in_an_open_block_needs_a_stop_reason() -> None:
    message = "message_stop in an open block, expected its stop or a reason"
    for last in (b"", end(None)):
        decoded = decode(start(), tool(0), args(0, PARIS[:5]), last, STOP)
        assert decoded.events[-1] == StreamError("malformed", message)


@pytest.mark.parametrize("spaces", [b" \n", b" ", b"\t\n", b" \n \n"])
@pytest.mark.parametrize("cut", [0, 1])
def test_line_of_spaces_is_no_blank_line_in_any_chunking(spaces: bytes, cut: int) -> None:
    """`decode` compares chunkings; an event that is whole may lack its blank line."""
    last = end()[: len(end()) - cut] + spaces
    decoded = decode(start(), text(0, "a"), last)
    lenient = ("no_message_stop", "unterminated") if cut else ("no_message_stop",)
    if not cut and spaces == b" ":
        assert isinstance(decoded.outcome, Truncated)
        return
    assert decoded.outcome == Completed("end_turn", Usage(), lenient)


# Unfinished arguments


@pytest.mark.parametrize(
    ("frames", "count"),
    [
        ([call(0)], 0),
        ([call(0, PARIS)], 0),
        ([call(0, PARIS[:5])], 1),
        ([call(0, PARIS[:5]), call(1, PARIS), call(2, PARIS[5:])], 2),
        ([tool(0), args(0, PARIS[:5])], 1),
        ([tool(0, input=PARIS[:5]), stop(0)], 1),
        ([block(0, "server_tool_use", id="s", name="f"), args(0, "{"), stop(0)], 0),
    ],
)
def test_unfinished_arguments_of_client_calls_are_noted_at_the_end(
    frames: list[bytes], count: int
) -> None:
    assert notes(*frames).get("unfinished_arguments", 0) == count
    decoded = decode(start(), *frames, end("tool_use"), STOP)
    assert isinstance(decoded.outcome, Completed)
    assert all(note.where == "tool call" for note in decoded.notes if note.kind[:3] == "unf")
    assert "unfinished_arguments" not in {n.kind for n in decode(start(), *frames).notes}


def test_pieces_stay_in_their_calls() -> None:
    events = body(tool(0), tool(1), args(1, ROME[:4]), args(0, PARIS), args(1, ROME[4:]))
    assert events[:5] == [
        *(BlockStart(0, ToolCall("toolu_0", "find")), BlockStart(1, ToolCall("toolu_1", "find"))),
        *(JSONDelta(1, ROME[:4]), JSONDelta(0, PARIS), JSONDelta(1, ROME[4:])),
    ]
    assert body(text(0, "a"))[1] == TextDelta(0, "a")
