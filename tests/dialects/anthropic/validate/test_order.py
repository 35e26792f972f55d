"""The checker of a stream: order and names of events, and the end."""

from __future__ import annotations

import json

import pytest
from support.anthropic.violations import (
    CODE,
    OVERLOADED,
    PING,
    START,
    STOP,
    TEXT,
    TOOL,
    Event,
    begin,
    delta,
    end,
    ending,
    message,
    named,
    server,
    sse,
    started,
    text,
    tool,
    without,
)

from streamnorm.validation import Violation, validate

LEGAL: dict[str, list[Event | str]] = {
    "text": message(PING, *text()),
    "no block": message(),
    "pings anywhere": [
        *(PING, START, PING, begin(0, TEXT), PING, delta(0, "text_delta", text="a"), PING),
        *(end(0), PING, ending(), PING, STOP),
    ],
    "stop sequence": [START, *text(), ending("stop_sequence", "END"), STOP],
    "pause": message(*server(0, "srvtoolu_1"), reason="pause_turn"),
    "compaction": message(
        *[begin(0, {"type": "compaction", "content": None}), end(0)], reason="compaction"
    ),
    "two message_deltas": [START, *text(), ending(None), ending(), STOP],
    "whole message in message_start": [
        started(content=[{**TOOL, "input": {"a": 1}, "caller": CODE}], stop_reason="tool_use"),
        STOP,
    ],
    "whole text in message_start, more behind it": [
        started(content=[{"type": "text", "text": "a"}]),
        *text(1),
        ending(),
        STOP,
    ],
    "error first": [OVERLOADED],
    "error in a block": [START, begin(0, TEXT), {**OVERLOADED, "request_id": "r"}],
    "error before the end": [START, *text(), OVERLOADED],
}


@pytest.mark.parametrize("events", LEGAL.values(), ids=LEGAL)
def test_legal_stream_has_no_violation(events: list[Event | str]) -> None:
    assert validate(sse(*events), "anthropic") == []


BROKEN: dict[str, tuple[list[Event | str], int, str]] = {
    "no event line": (
        *(message(f"data: {json.dumps(PING)}\n\n"), 1),
        "no event line, or one that says message, expected ping",
    ),
    "another event line": (
        message(*text()[:2], named(end(0), "ping")),
        *(3, "event line says ping, expected content_block_stop"),
    ),
    "unknown event line": (
        message(named(PING, "keepalive")),
        *(1, "event line says 9 characters, expected ping"),
    ),
    "no type": (message("event: ping\ndata: {}\n\n"), 1, "type is missing, expected a string"),
    "type of another kind": (
        message('event: ping\ndata: {"type": ["ping"]}\n\n'),
        *(1, "type is an array, expected a string"),
    ),
    "unknown event": (
        message({"type": "vertex_event"}),
        *(1, "type is unknown in 12 characters, expected one of the protocol"),
    ),
    "no JSON": (
        message(*text()[:2], "event: content_block_delta\ndata: {\n\n", end(0)),
        *(3, "no JSON in 1 characters, expected an object"),
    ),
    "half a character": (
        message(*text(0, "a\ud83d")),
        *(2, "escape of a lone surrogate in the payload, expected pairs"),
    ),
    "message_start missing": (
        [*text(), ending(), STOP],
        *(0, "content_block_start comes first, expected message_start"),
    ),
    "message_start late": (
        [begin(0, TEXT), START, *text()[1:], ending(), STOP],
        *(0, "content_block_start comes first, expected message_start"),
    ),
    "message_start twice": (message(START), 1, "second message_start, expected one"),
    "message_start twice, the second one whole": (
        message(started(content=[{"type": "text", "text": "a"}], stop_reason="refusal"), *text()),
        *(1, "second message_start, expected one"),
    ),
    "reason at the start": (
        [started(stop_reason="end_turn"), *text(), ending(), STOP],
        *(0, "message.stop_reason without content, expected null"),
    ),
    "message_delta missing": (
        [START, *text(), STOP],
        *(4, "message_stop without a stop_reason, expected a message_delta with one"),
    ),
    "null reason": (
        [START, *text(), ending(None), STOP],
        *(5, "message_stop without a stop_reason, expected a message_delta with one"),
    ),
    "reason taken back": (
        [START, *text(), ending(), ending(None), STOP],
        *(6, "message_stop without a stop_reason, expected a message_delta with one"),
    ),
    "tool_use without a tool": (
        message(*text(), reason="tool_use"),
        *(4, "stop_reason is tool_use without a tool_use block, expected another"),
    ),
    "tool_use with the tool of a server": (
        message(*server(0, "srvtoolu_1"), reason="tool_use"),
        *(4, "stop_reason is tool_use without a tool_use block, expected another"),
    ),
    "tool_use without a tool in message_start": (
        [started(content=[{"type": "text", "text": "a"}], stop_reason="tool_use"), STOP],
        *(1, "stop_reason is tool_use without a tool_use block, expected another"),
    ),
    "end_turn with a tool": (
        message(*tool()),
        *(3, "stop_reason is end_turn with a tool_use block, expected tool_use"),
    ),
    "stop sequence without its text": (
        message(*text(), reason="stop_sequence"),
        *(4, "no delta.stop_sequence, expected the one that stop_reason says was met"),
    ),
    "stop sequence of another reason": (
        [START, *text(), ending("end_turn", "END"), STOP],
        *(4, "delta.stop_sequence is a string of 3 characters, expected null by stop_reason"),
    ),
    "block after message_delta": (
        [START, ending(), begin(0, {"type": "container_upload", "file_id": "f"}), OVERLOADED],
        *(2, "content_block_start after message_delta, expected message_stop"),
    ),
    "message_stop missing": (message()[:-1], 2, "no message_stop, expected it last"),
    "ping after message_stop": (
        [*message(), PING],
        *(3, "frame after message_stop, expected nothing"),
    ),
    "[DONE] after message_stop": (
        [*message(), "data: [DONE]\n\n"],
        *(3, "frame after message_stop, expected nothing"),
    ),
    "frame after an error": ([OVERLOADED, PING], 1, "frame after error, expected nothing"),
    "error without type": (
        [named(without(OVERLOADED, "type"), "error")],
        *(0, "type is missing, expected a string"),
    ),
    "error that is no JSON": (
        ["event: error\ndata: overloaded\n\n"],
        *(0, "no JSON in 10 characters, expected an object"),
    ),
    "nothing but pings": ([PING, PING], 2, "no message_start, expected it first"),
}


@pytest.mark.parametrize(("events", "position", "message"), BROKEN.values(), ids=BROKEN)
def test_violation_is_reported_once_at_its_frame(
    events: list[Event | str], position: int, message: str
) -> None:
    assert validate(sse(*events), "anthropic") == [Violation(position, message)]


def test_cut_stream_reports_all_missing_events() -> None:
    assert validate(sse(START, begin(0, TEXT), PING), "anthropic") == [
        Violation(3, "the stream ends while block 0 is open, expected content_block_stop"),
        Violation(3, "no stop_reason, expected a message_delta with one"),
        Violation(3, "no message_stop, expected it last"),
    ]


def test_unreadable_first_frame_counts_as_its_event_line() -> None:
    body = sse("event: message_start\ndata: {\n\n", *text(), ending(), STOP)
    assert validate(body, "anthropic") == [
        Violation(0, "no JSON in 1 characters, expected an object")
    ]


def test_unreadable_last_frame_counts_as_its_event_line() -> None:
    body = sse(*message()[:-1], "event: message_stop\ndata: stop\n\n", PING)
    assert validate(body, "anthropic") == [
        Violation(2, "no JSON in 4 characters, expected an object"),
        Violation(3, "frame after message_stop, expected nothing"),
    ]
