"""The checker of blocks: their order, their deltas, and their assembled content."""

from __future__ import annotations

import pytest
from support.anthropic.violations import (
    CODE,
    STOP,
    TEXT,
    THINKING,
    TOOL,
    Event,
    begin,
    delta,
    end,
    ending,
    message,
    server,
    sse,
    started,
    text,
    tool,
    whole,
)

from streamnorm.validation import Violation, validate

LEGAL: dict[str, list[Event | str]] = {
    "thinking, then text": message(
        begin(0, THINKING),
        delta(0, "thinking_delta", thinking="hm", estimated_tokens=None),
        delta(0, "signature_delta", signature="S"),
        end(0),
        *text(1),
    ),
    "thinking that is not shown": message(
        begin(0, THINKING), delta(0, "signature_delta", signature="S"), end(0), *text(1)
    ),
    "unsigned thinking": message(
        begin(0, THINKING), delta(0, "thinking_delta", thinking="hm"), end(0), *text(1)
    ),
    "redacted thinking": message(*whole(0, "redacted_thinking", data="R"), *text(1)),
    "tools": message(
        *tool(0, "", '{"a"', ": 1}"),
        *tool(1, id="toolu_2", caller={"type": "direct"}),
        *tool(2, "", id="toolu_3", caller=None),
        reason="tool_use",
    ),
    "tool that code called": message(
        begin(0, {**TOOL, "input": {"a": 1}, "caller": CODE}), end(0), reason="tool_use"
    ),
    "white space between texts": message(*text(0, "a"), *text(1, "\n\n"), *text(2, " ", "b")),
    "text after an empty delta": message(*text(0, "", "a")),
    "arguments that tokens cut short": message(*text(), *tool(1, '{"a'), reason="max_tokens"),
    "arguments that the window cut short": message(
        *tool(0, '{"a'), reason="model_context_window_exceeded"
    ),
    "arguments that a refusal cut short": message(*tool(0, '{"a'), reason="refusal"),
    "tools of servers": message(
        *server(0, "srvtoolu_1"), *server(1, "mcptoolu_1", "mcp_tool_use", server_name="s")
    ),
    "compaction with its delta": message(
        begin(0, {"type": "compaction"}),
        delta(0, "compaction_delta", content="so far", encrypted_content=None),
        end(0),
        *text(1),
    ),
}


@pytest.mark.parametrize("events", LEGAL.values(), ids=LEGAL)
def test_legal_stream_has_no_violation(events: list[Event | str]) -> None:
    assert validate(sse(*events), "anthropic") == []


BROKEN: dict[str, tuple[list[Event | str], int, str]] = {
    "empty text in message_start": (
        [started(content=[TEXT], stop_reason="end_turn"), STOP],
        *(0, "block 0 is an empty text, expected text or no block"),
    ),
    "index of a block of message_start again": (
        [started(content=[{"type": "text", "text": "a"}]), *text(), ending(), STOP],
        *(1, "block 0 starts, expected 1"),
    ),
    "first index": (message(*text(1)), 1, "block 1 starts, expected 0"),
    "gap": (message(*text(), *text(2)), 4, "block 2 starts, expected 1"),
    "index again": (message(*text(), *text()), 4, "block 0 starts, expected 1"),
    "index again, then the next": (
        message(*text(), *text(), *text(1)),
        *(4, "block 0 starts, expected 1"),
    ),
    "out of order": (message(*text(1), *text(0)), 1, "block 1 starts, expected 0"),
    "two blocks open": (
        message(
            *(begin(0, TEXT), begin(1, {**TOOL}), delta(0, "text_delta", text="a")),
            *(end(1), end(0)),
            reason="tool_use",
        ),
        *(2, "content_block_start while block 0 is open, expected content_block_stop"),
    ),
    "delta of no block": (
        message(delta(0, "text_delta", text="a")),
        *(1, "content_block_delta of block 0, expected an open block"),
    ),
    "delta of a closed block": (
        message(*text(), delta(0, "text_delta", text="a")),
        *(4, "content_block_delta of block 0, expected an open block"),
    ),
    "stop of no block": (
        message(*text(), end(1)),
        *(4, "content_block_stop of block 1, expected an open block"),
    ),
    "stop twice": (
        message(*text(), end(0)),
        *(4, "content_block_stop of block 0, expected an open block"),
    ),
    "stop missing": (
        message(*text()[:2]),
        *(3, "message_delta while block 0 is open, expected content_block_stop"),
    ),
    "stop missing of a message without message_delta": (
        [
            started(content=[{"type": "text", "text": "a"}], stop_reason="end_turn"),
            *text(1)[:2],
            STOP,
        ],
        *(3, "message_stop while block 1 is open, expected content_block_stop"),
    ),
    "id that the API refuses": (
        message(*tool(id="functions.look:0"), reason="tool_use"),
        *(1, "id of block 0 in 16 characters, expected letters, digits, _ and -"),
    ),
    "id again": (
        message(*tool(), *tool(1), reason="tool_use"),
        *(3, "id of block 1 is that of another, expected its own"),
    ),
    "text that starts filled": (
        message(begin(0, {"type": "text", "text": "hi"}), *text()[1:]),
        *(1, "block 0 starts with text of 2 characters, expected none"),
    ),
    "thinking that starts filled": (
        message(begin(0, {**THINKING, "thinking": "hm"}), end(0)),
        *(1, "block 0 starts with thinking of 2 characters, expected none"),
    ),
    "thinking that starts signed": (
        message(begin(0, {**THINKING, "signature": "S"}), end(0)),
        *(1, "block 0 starts with signature of 1 characters, expected none"),
    ),
    "tool that starts filled": (
        message(*tool(input={"a": 1}), reason="tool_use"),
        *(1, "block 0 starts with input of 1 keys, expected none"),
    ),
    "tool that starts filled for a client": (
        message(*tool(input={"a": 1}, caller={"type": "direct"}), reason="tool_use"),
        *(1, "block 0 starts with input of 1 keys, expected none"),
    ),
    "text in a tool": (
        message(begin(0, TOOL), delta(0, "text_delta", text="a"), end(0), reason="tool_use"),
        *(2, "text_delta in block 0, expected a delta of tool_use"),
    ),
    "input in a text": (
        message(*text()[:2], delta(0, "input_json_delta", partial_json="{"), end(0)),
        *(3, "input_json_delta in block 0, expected a delta of text"),
    ),
    "delta in a block that is whole": (
        message(
            begin(0, {"type": "redacted_thinking", "data": "R"}),
            delta(0, "signature_delta", signature="S"),
            end(0),
        ),
        *(2, "signature_delta in block 0, expected a delta of redacted_thinking"),
    ),
    "thinking after its signature": (
        message(
            begin(0, THINKING),
            delta(0, "signature_delta", signature="S"),
            delta(0, "thinking_delta", thinking="hm"),
            end(0),
        ),
        *(3, "thinking_delta of block 0 after its signature, expected content_block_stop"),
    ),
    "signature twice": (
        message(begin(0, THINKING), *[delta(0, "signature_delta", signature="S")] * 2, end(0)),
        *(3, "signature_delta of block 0 after its signature, expected content_block_stop"),
    ),
    "empty text": (
        message(begin(0, TEXT), end(0), *text(1)),
        *(2, "block 0 is an empty text, expected text or no block"),
    ),
    "text of empty deltas": (
        message(*text(0, ""), *text(1)),
        *(3, "block 0 is an empty text, expected text or no block"),
    ),
    "white space as all the text": (
        message(*text(0, "\n", " "), *tool(1), reason="tool_use"),
        *(7, "block 0 is white space, all the text there is, expected none"),
    ),
    "input cut short": (
        message(*tool(0, "", '{"a'), reason="tool_use"),
        *(5, "input of block 0 in 3 characters is no JSON object, expected one"),
    ),
    "input that is no object": (
        message(*tool(0, "[", "]"), reason="tool_use"),
        *(5, "input of block 0 in 2 characters is no JSON object, expected one"),
    ),
    "input with NaN": (
        message(*tool(0, '{"a": NaN}'), reason="tool_use"),
        *(4, "input of block 0 in 10 characters is no JSON object, expected one"),
    ),
    "input of white space": (
        message(*tool(0, " "), reason="tool_use"),
        *(4, "input of block 0 in 1 characters is no JSON object, expected one"),
    ),
    "input of a server tool cut short": (
        message(
            begin(0, {**TOOL, "type": "server_tool_use"}),
            *(delta(0, "input_json_delta", partial_json="{"), end(0)),
        ),
        *(4, "input of block 0 in 1 characters is no JSON object, expected one"),
    ),
    "input cut short before the last block": (
        message(*tool(0, '{"a'), *text(1), reason="max_tokens"),
        *(7, "input of block 0 in 3 characters is no JSON object, expected one"),
    ),
}


@pytest.mark.parametrize(("events", "position", "message"), BROKEN.values(), ids=BROKEN)
def test_violation_is_reported_once_at_its_frame(
    events: list[Event | str], position: int, message: str
) -> None:
    assert validate(sse(*events), "anthropic") == [Violation(position, message)]


def test_start_at_an_open_index_is_two_violations() -> None:
    body = sse(*message(begin(0, TEXT), *text()))
    assert validate(body, "anthropic") == [
        Violation(2, "block 0 starts, expected 1"),
        Violation(2, "content_block_start while block 0 is open, expected content_block_stop"),
    ]
