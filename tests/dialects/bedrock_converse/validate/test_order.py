"""Strict validator of `ConverseStream`."""

from __future__ import annotations

import pytest
from support.bedrock_converse.frames import (
    START,
    delta,
    end,
    event,
    exception,
    metadata,
    payload,
    start,
    stop,
    text,
    tool,
    tool_input,
)

from streamnorm import Limits
from streamnorm._registry import checker
from streamnorm.codec import EVENTSTREAM
from streamnorm.eventstream import EventStreamDecoder
from streamnorm.sse import Frame

STOPPED = event("messageStop", stopReason="end_turn")
TOOL_USE = end("tool_use")


def problems(*messages: bytes) -> list[str]:
    """Return the problems of a stream, its missing parts included."""
    judge = checker("bedrock_converse")
    found: list[str] = []
    for message in EventStreamDecoder(max_message_bytes=Limits().max_event_bytes).feed(
        b"".join(messages)
    ):
        name = message.text(":event-type") or message.text(":exception-type")
        found += judge.check(Frame(name, message.payload.decode()))
    return found + judge.missing()


LEGAL = {
    "text": (START, text(0, "a"), text(0, ""), stop(0), end()),
    "gap": (START, text(3, "a"), stop(3), text(9, "b"), stop(9), end()),
    "reasoning": (
        START,
        delta(0, reasoningContent={"text": "a"}),
        delta(0, reasoningContent={"signature": "S"}),
        stop(0),
        delta(1, reasoningContent={"redactedContent": "AA=="}),
        stop(1),
        end(),
    ),
    "tools": (
        *(START, tool(0), tool_input(0, '{"a"'), tool_input(0, ":1}"), stop(0)),
        *(tool(1, "b", type="tool_use"), stop(1), TOOL_USE),
    ),
    "server tool": (
        *(START, tool(0, type="server_tool_use"), tool_input(0, "{}"), stop(0)),
        start(1, toolResult={"toolUseId": "tooluse_1", "type": "x_result", "status": "success"}),
        *(delta(1, toolResult=[{"text": "a"}, {"json": {"b": 1}}]), stop(1), end()),
    ),
    "image": (
        START,
        start(0, image={"format": "png"}),
        delta(0, image={"source": {"bytes": "AA=="}}),
        *(stop(0), end()),
    ),
    "citation first": (
        START,
        delta(0, citation={"title": "t", "location": {"web": {"url": "u"}}}),
        *(text(0, "a"), stop(0), end()),
    ),
    "cut input": (START, tool(0), tool_input(0, '{"a'), stop(0), end("max_tokens")),
    "exception": (START, text(0, "a"), exception("throttlingException", message="m")),
    "exception first": (exception("validationException", message="m"),),
    "exception last": (START, STOPPED, exception("internalServerException", message="m")),
}


@pytest.mark.parametrize("name", LEGAL)
def test_legal_stream_has_no_problem(name: str) -> None:
    assert problems(*LEGAL[name]) == []


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ((), ["no messageStart, expected it first"]),
        ((START,), ["no messageStop, expected one", "no metadata, expected it last"]),
        ((START, STOPPED), ["no metadata, expected it last"]),
        (
            (START, text(0, "a")),
            [
                "the stream ends while block 0 is open, expected contentBlockStop",
                "no messageStop, expected one",
                "no metadata, expected it last",
            ],
        ),
        (
            (text(0, "a"), stop(0), end()),
            ["contentBlockDelta comes first, expected messageStart"],
        ),
        ((end(),), ["messageStop comes first, expected messageStart"]),
        ((START, START, end()), ["second messageStart, expected one"]),
        (
            (START, metadata(), STOPPED),
            ["metadata before messageStop, expected it last"],
        ),
        (
            (metadata(),),
            [
                "metadata comes first, expected messageStart",
                "no messageStop, expected one",
                "no metadata, expected it last",
            ],
        ),
        (
            (START, metadata(), START),
            [
                "metadata before messageStop, expected it last",
                "second messageStart, expected one",
                "no messageStop, expected one",
            ],
        ),
        ((START, end(), metadata()), ["frame after metadata, expected nothing"]),
        (
            (exception("throttlingException"), START),
            ["frame after an exception, expected nothing"],
        ),
        (
            (START, STOPPED, text(0, "a"), metadata()),
            ["contentBlockDelta after messageStop, expected metadata"],
        ),
        (
            (START, event("newer"), end()),
            ["event is unknown in 5 characters, expected one of the protocol"],
        ),
        (
            (START, STOPPED, payload("metadata", b"{")),
            ["no JSON in 1 characters, expected an object"],
        ),
        (
            (START, text(0, "a"), end()),
            ["messageStop while block 0 is open, expected contentBlockStop"],
        ),
        (
            (START, text(0, "a"), text(1, "b"), stop(0), stop(1), end()),
            ["contentBlockDelta while block 0 is open, expected contentBlockStop"],
        ),
        (
            (START, text(1, "a"), stop(1), text(0, "b"), stop(0), end()),
            ["block 0 begins, expected at least 2"],
        ),
        ((START, stop(0), end()), ["contentBlockStop of block 0, expected an open block"]),
        (
            (START, tool_input(0, "{}"), stop(0), end()),
            ["toolUse in block 0 without a start, expected contentBlockStart"],
        ),
        (
            (START, text(0, "a"), delta(0, reasoningContent={"text": "b"}), stop(0), end()),
            ["reasoningContent in block 0, expected a delta of text"],
        ),
        (
            (
                START,
                delta(0, reasoningContent={"signature": "S"}),
                delta(0, reasoningContent={"text": "b"}),
                *(stop(0), end()),
            ),
            ["reasoningContent of block 0 after its signature, expected contentBlockStop"],
        ),
        (
            (START, tool(0), tool_input(0, "[]"), stop(0), TOOL_USE),
            ["input of block 0 in 2 characters is no JSON object, expected one"],
        ),
        (
            (START, tool(0), tool_input(0, "{"), stop(0), text(1, "a"), stop(1), end("max_tokens")),
            ["input of block 0 in 1 characters is no JSON object, expected one"],
        ),
        (
            (START, tool(0), stop(0), end()),
            ["stopReason is end_turn with a toolUse of the client, expected tool_use"],
        ),
        (
            (START, tool(0, "a|b"), stop(0), tool(1, "a|b"), stop(1), TOOL_USE),
            [
                "id of block 0 in 3 characters, expected at most 64 of its pattern",
                "id of block 1 in 3 characters, expected at most 64 of its pattern",
                "id of block 1 is that of another, expected its own",
            ],
        ),
        (
            (START, tool(0, ""), stop(0), TOOL_USE),
            ["start.toolUse.toolUseId is an empty string, expected a string that is not empty"],
        ),
        ((START, start(0), stop(0), end()), ["start has 0 members, expected one"]),
        (
            (START, start(0, newer=1), delta(0, newer=1), text(0, "a"), stop(0), end()),
            [
                "start is unknown in 5 characters, expected a member of the union",
                "delta is unknown in 5 characters, expected a member of the union",
            ],
        ),
        (
            (START, delta(0, text="a", image={}), end()),
            ["delta has 2 members, expected one"],
        ),
        (
            (START, delta(0, text=1), stop(0), end()),
            ["delta.text is an integer, expected a string"],
        ),
        (
            (START, tool(0), delta(0, toolUse={"input": 1}), stop(0), TOOL_USE),
            ["delta.toolUse.input is an integer, expected a string"],
        ),
        (
            (START, start(0, toolUse=1), stop(0), end("tool_use")),
            ["start.toolUse is an integer, expected an object"],
        ),
        (
            (START, event("contentBlockStop", contentBlockIndex=-1), end()),
            ["contentBlockIndex is a negative integer, expected an integer from 0"],
        ),
        (
            (START, event("messageStop", stopReason="stop"), metadata()),
            [
                "stopReason is a string of 4 characters, expected end_turn or tool_use or"
                " max_tokens or stop_sequence or guardrail_intervened or content_filtered or"
                " malformed_model_output or malformed_tool_use or model_context_window_exceeded"
            ],
        ),
        (
            (START, STOPPED, event("metadata", usage={"inputTokens": 1, "outputTokens": 1})),
            [
                "usage.totalTokens is missing, expected an integer from 0",
                "metrics is missing, expected an object",
            ],
        ),
        (
            (event("messageStart", role="user"), end()),
            ["role is a string of 4 characters, expected assistant"],
        ),
    ],
)
def test_departure_is_a_problem(messages: tuple[bytes, ...], expected: list[str]) -> None:
    assert problems(*messages) == expected


def test_framing_hides_no_problem() -> None:
    splitter = EVENTSTREAM.splitter(Limits())
    judge = checker("bedrock_converse")
    body = b"".join(LEGAL["text"])
    frames = [frame for raw in splitter.split(body) for frame in splitter.parse(raw)]
    assert [
        problem for frame in frames if isinstance(frame, Frame) for problem in judge.check(frame)
    ] == []
    assert judge.missing() == []
