"""Differences that the assertions accept, and the messages of those that fail."""

from __future__ import annotations

import pytest

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    Message,
    MessageStart,
    MessageStop,
    Reasoning,
    ServerToolCall,
    Text,
    TextDelta,
    ToolCall,
    Usage,
)
from streamnorm._core.text import mint_id
from streamnorm.testing import assert_grammatical, assert_same_message

WHOLE = [
    MessageStart("m1", "model"),
    BlockStart(0, Text()),
    TextDelta(0, "Guten Tag"),
    BlockStop(0),
    MessageStop("end_turn"),
]


def test_whole_stream_is_grammatical() -> None:
    assert_grammatical(iter(WHOLE))


def test_every_violation_is_listed_with_its_position() -> None:
    stray = TextDelta(1, "never shown")
    with pytest.raises(AssertionError) as raised:
        assert_grammatical([*WHOLE[:3], stray, *WHOLE[3:4]])
    lines = str(raised.value).split("\n")
    assert lines[0] == "events against the grammar:"
    assert lines[1].startswith("  event 3: text_delta of block 1")
    assert lines[2].startswith("  event 5: ")  # of five, the stop is missing
    assert len(lines) == 3
    assert "never shown" not in str(raised.value)


def message(*blocks: object, **fields: object) -> Message:
    return Message(blocks=blocks, **fields)  # type: ignore[arg-type]


MINTED = mint_id("seed", 1)
SAME = {
    "head": (Message(id="a", model="x"), Message(id="b", model="y")),
    "raw reason": (Message(raw_stop_reason="stop"), Message(raw_stop_reason="end")),
    "extras": (
        Message(extra={"a": 1}, stop_extra={"b": 1}, block_extras=({"c": 1},)),
        Message(),
    ),
    "usage of one": (Message(usage=Usage(1, 2)), Message()),
    "count of one": (Message(usage=Usage(1, 2, 3)), Message(usage=Usage(1, None, 3, 4))),
    "usage extra": (Message(usage=Usage(extra={"a": 1})), Message(usage=Usage(extra={"a": 2}))),
    "stop sequence of one": (Message(stop_sequence="###"), Message()),
    "minted id": (message(ToolCall(MINTED, "f")), message(ToolCall("toolu_1", "f"))),
    "minted id expected": (message(ToolCall("toolu_1", "f")), message(ToolCall(MINTED, "f"))),
    "no arguments": (message(ToolCall("a", "f")), message(ToolCall("a", "f", "{}"))),
    "no server arguments": (
        message(ServerToolCall("a", "f", "{}")),
        message(ServerToolCall("a", "f")),
    ),
    "citation extra": (
        message(Text("a", (Citation("url", extra={"x": 1}),))),
        message(Text("a", (Citation("url"),))),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_messages_with_equal_content_pass(name: str) -> None:
    assert_same_message(*SAME[name])


OTHER = {
    "text": (message(Text("a")), message(Text("b"))),
    "kind": (message(Text("a")), message(Reasoning(("a",)))),
    "order": (message(Text("a"), Text("b")), message(Text("b"), Text("a"))),
    "more blocks": (message(Text("a"), Text("b")), message(Text("a"))),
    "fewer blocks": (message(Text("a")), message(Text("a"), Text("b"))),
    "signature": (message(Reasoning(("a",), "s")), message(Reasoning(("a",), "t"))),
    "citation": (message(Text("a", (Citation("url", "x"),))), message(Text("a"))),
    "id": (message(ToolCall("a", "f")), message(ToolCall("b", "f"))),
    "minted id of another block": (
        message(ToolCall("a", "f"), ToolCall(MINTED, "f")),
        message(ToolCall("b", "f"), ToolCall(MINTED, "f")),
    ),
    "minted id without a counterpart": (message(ToolCall(MINTED, "f")), message()),
    "name": (message(ToolCall(MINTED, "f")), message(ToolCall(MINTED, "g"))),
    "arguments": (message(ToolCall("a", "f", '{"a":1}')), message(ToolCall("a", "f", "{}"))),
    "custom input": (
        message(ToolCall("a", "f", "", "custom")),
        message(ToolCall("a", "f", "{}", "custom")),
    ),
    "stop reason": (Message(stop_reason="end_turn"), Message(stop_reason="max_tokens")),
    "no stop reason": (Message(), Message(stop_reason="end_turn")),
    "stop sequence": (Message(stop_sequence="a"), Message(stop_sequence="b")),
    **{
        f"count {n}": (Message(usage=Usage(*[1] * n)), Message(usage=Usage(*[1] * (n - 1), 2)))
        for n in range(1, 6)
    },
}


@pytest.mark.parametrize("name", OTHER)
def test_messages_that_differ_fail(name: str) -> None:
    with pytest.raises(AssertionError, match="messages differ"):
        assert_same_message(*OTHER[name])


def test_diff_is_by_lines_of_the_text() -> None:
    got = message(Text('first\nsecond "quoted" \\n\nthird'))
    expected = message(Text('first\nzweite "quoted" \\n\nthird'))
    with pytest.raises(AssertionError) as raised:
        assert_same_message(got, expected)
    lines = str(raised.value).split("\n")
    assert lines[:3] == ["messages differ:", "--- expected", "+++ got"]
    changed = [line for line in lines[3:] if line[0] in "+-"]
    assert [line[0] + line[1:].strip() for line in changed] == [
        '-zweite \\"quoted\\" \\\\n\\n',
        '+second \\"quoted\\" \\\\n\\n',
    ]
