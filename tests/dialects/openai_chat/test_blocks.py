"""The blocks of a choice: their starts and stops, and the quirks of servers."""

from __future__ import annotations

import pytest
from support.openai_chat.chunks import (
    DONE,
    call,
    calls,
    chunk,
    content,
    decode,
    detail,
    message,
    reasoning,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    JSONDelta,
    MessageStop,
    Note,
    Reasoning,
    ReasoningDelta,
    Refusal,
    RefusalDelta,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
)

END = chunk({}, "stop") + DONE
A = '{"a":1}'
CUMULATIVE = [calls(call(0, "x", "f", text)) for text in ('{"', '{"a":"', '{"a":"x"}', '{"a":"x"}')]


def refusal(text: str) -> bytes:
    return chunk({"refusal": text})


def test_consecutive_text_deltas_share_a_block() -> None:
    assert decode(content("a"), content("b"), END).events[1:-1] == [
        *(BlockStart(0, Text()), TextDelta(0, "a"), TextDelta(0, "b"), BlockStop(0)),
    ]


def test_text_block_stops_right_before_the_next_block_starts() -> None:
    decoded = decode(reasoning("r"), content("t"), refusal("n"), reasoning("s"), content("u"), END)
    assert decoded.events[1:-1] == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "r"), BlockStop(0)),
        *(BlockStart(1, Text()), TextDelta(1, "t"), BlockStop(1)),
        *(BlockStart(2, Refusal()), RefusalDelta(2, "n"), BlockStop(2)),
        *(BlockStart(3, Reasoning()), ReasoningDelta(3, "s"), BlockStop(3)),
        *(BlockStart(4, Text()), TextDelta(4, "u"), BlockStop(4)),
    ]


def test_text_between_arguments_of_an_open_call_stays_in_its_block() -> None:
    decoded = decode(
        *(calls(call(0, "x", "f", A[:3])), content("a"), calls(call(0, arguments=A[3:6]))),
        *(content("b"), calls(call(0, arguments=A[6:])), content("c"), END),
    )
    assert decoded.events[1:-1] == [
        *(BlockStart(0, ToolCall("x", "f")), JSONDelta(0, A[:3]), BlockStart(1, Text())),
        *(TextDelta(1, "a"), JSONDelta(0, A[3:6]), TextDelta(1, "b"), JSONDelta(0, A[6:])),
        *(BlockStop(0), TextDelta(1, "c"), BlockStop(1)),
    ]


def test_text_after_a_call_is_a_new_block() -> None:
    assert message(content("a"), calls(call(0, "x", "f", A)), content("b"), END).blocks == (
        *(Text("a"), ToolCall("x", "f", A), Text("b")),
    )


def test_blocks_that_stop_together_stop_in_index_order() -> None:
    decoded = decode(
        *(calls(call(0, "x", "f", "[")), content("a"), calls(call(0, arguments="]"), call(1, "y"))),
        *(calls(call(1, None, "g", A)), END),
    )
    stops = [event for event in decoded.events if isinstance(event, BlockStop)]
    assert stops == [BlockStop(0), BlockStop(1), BlockStop(2)]


def test_reasoning_after_a_signature_starts_a_new_block() -> None:
    signed = detail(type="reasoning.text", signature="s", format="anthropic-claude-v1")
    decoded = decode(reasoning("r"), signed, reasoning("q"), END)
    assert decoded.events[1:-1] == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "r"), SignatureDelta(0, "s", "anthropic")),
        *(BlockStop(0), BlockStart(1, Reasoning()), ReasoningDelta(1, "q"), BlockStop(1)),
    ]


def test_signature_without_open_reasoning_is_a_block_of_its_own() -> None:
    signed = detail(type="reasoning.text", signature="s", format="anthropic-claude-v1")
    assert message(content("a"), signed, content("b"), END).blocks == (
        *(Text("a"), Reasoning((), "s", "anthropic"), Text("b")),
    )


def test_blocks_and_stops_carry_their_choice() -> None:
    decoded = decode(
        *(content("a", choice=1), content("b"), calls(call(0, "x", "f", A), choice=1)),
        *(chunk({}, "stop"), chunk({}, "tool_calls", 1), DONE),
    )
    assert decoded.events[1:] == [
        *(BlockStart(0, Text(), 1), TextDelta(0, "a"), BlockStart(1, Text()), TextDelta(1, "b")),
        *(BlockStop(0), BlockStart(2, ToolCall("x", "f"), 1), JSONDelta(2, A)),
        *(BlockStop(1), BlockStop(2)),
        *(MessageStop("end_turn", "stop"), MessageStop("tool_use", "tool_calls", choice=1)),
    ]


def test_choices_do_not_stop_each_others_blocks() -> None:
    frames = (content("a"), content("x", choice=1), content("b"), content("y", choice=1))
    ends = (chunk({}, "stop"), chunk({}, "stop", 1), DONE)
    assert message(*frames, *ends).blocks == (Text("ab"),)
    assert message(*frames, *ends, choice=1).blocks == (Text("xy"),)


def test_stream_without_choice_0_is_malformed() -> None:
    events, _, _ = decode(content("a", "stop", 1), DONE)
    assert events[-1] == StreamError("malformed", "choice 1 alone, expected choice 0")


@pytest.mark.parametrize("make", [content, reasoning, refusal])
def test_surrogate_pair_split_over_two_chunks_is_joined(make: object) -> None:
    assert callable(make)
    decoded = decode(make("a\ud83d"), make("\ude00b"), END)
    texts = [event.text for event in decoded.events if hasattr(event, "text")]
    assert texts == ["a", "😀b"]


def test_high_surrogate_alone_starts_its_block_and_is_held() -> None:
    decoded = decode(content("\ud83d"), content(""), content("\ude00"), content("b"), END)
    assert decoded.events[1:-1] == [
        *(BlockStart(0, Text()), TextDelta(0, "😀"), TextDelta(0, "b"), BlockStop(0)),
    ]


def test_lone_surrogate_becomes_a_replacement_character() -> None:
    assert message(content("a\ud83d"), content("b"), END).text == "a�b"
    assert message(content("a\ud83d"), END).text == "a�"
    assert message(content("\ude00"), END).text == "�"


def test_held_surrogate_is_replaced_before_the_next_block() -> None:
    frames = (content("a\ud83d"), calls(call(0, "x", "f", A)), content("\ude00"), END)
    assert message(*frames).blocks == (Text("a�"), ToolCall("x", "f", A), Text("�"))


def test_held_surrogate_is_replaced_before_a_signature() -> None:
    decoded = decode(reasoning("r\ud83d"), detail(type="reasoning.text", signature="s"), END)
    assert decoded.events[2:5] == [
        *(ReasoningDelta(0, "r"), ReasoningDelta(0, "�"), SignatureDelta(0, "s")),
    ]


def test_stream_without_content_has_no_blocks() -> None:
    assert decode(chunk({"role": "assistant", "content": ""}), END).events[1:] == [
        MessageStop("end_turn", "stop")
    ]


def test_cumulative_arguments_are_emitted_once_for_a_server_with_the_quirk() -> None:
    decoded = decode(*CUMULATIVE, END, server="qianfan")
    assert decoded.events[1:6] == [
        *(BlockStart(0, ToolCall("x", "f")), JSONDelta(0, '{"'), JSONDelta(0, 'a":"')),
        *(JSONDelta(0, 'x"}'), BlockStop(0)),
    ]
    assert decoded.notes == (Note("cumulative_arguments", "tool call", 3),)


@pytest.mark.parametrize("server", [None, "openai"])
def test_fragment_that_begins_alike_is_appended_without_the_quirk(server: str | None) -> None:
    (tool,) = message(*CUMULATIVE[:2], END, server=server).tool_calls
    assert tool.arguments == '{"{"a":"'


def test_cumulative_call_still_stops_when_it_is_complete() -> None:
    decoded = decode(*CUMULATIVE, content("hi"), END, server="qianfan")
    assert decoded.events[5:7] == [BlockStop(0), BlockStart(1, Text())]


def test_cumulative_arguments_after_the_stop_are_malformed() -> None:
    late = calls(call(0, "x", None, '{"a":"x"}y'))
    decoded = decode(*CUMULATIVE, content("hi"), late, END, server="qianfan")
    assert decoded.events[-1] == StreamError(
        "malformed", "arguments of a tool call that has stopped"
    )


def test_cumulative_arguments_may_begin_with_a_placeholder() -> None:
    frames = [calls(call(0, "x", "f", text)) for text in ("{}", '{"a"', '{"a":1}')]
    (tool,) = message(*frames, END, server="qianfan").tool_calls
    assert tool.arguments == '{"a":1}'
