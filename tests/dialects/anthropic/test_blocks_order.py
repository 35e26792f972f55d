"""Blocks that overlap, use an index twice or lack their stop, and deltas that went astray."""

from __future__ import annotations

import pytest
from support.anthropic.frames import STOP, block, body, decode, delta, end, start, stop, text

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Event,
    JSONDelta,
    Reasoning,
    ReasoningDelta,
    ServerToolCall,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
)


def call(index: int, *pieces: str, **fields: object) -> bytes:
    """Return a client's call."""
    named = {"id": f"toolu_{index}", "name": "find", "input": {}, **fields}
    deltas = [delta(index, "input_json_delta", partial_json=piece) for piece in pieces]
    return b"".join([block(index, "tool_use", **named), *deltas, stop(index)])


def notes(*frames: bytes) -> dict[str, int]:
    """Return what was forgiven in a stream's blocks."""
    return {note.kind: note.count for note in decode(start(), *frames, end(), STOP).notes}


def test_interleaved_blocks_keep_their_own_deltas() -> None:
    assert body(
        *(block(0, "text", text=""), block(1, "tool_use", id="c", name="f")),
        *(delta(1, "input_json_delta", partial_json="["), delta(0, "text_delta", text="a")),
        *(delta(1, "input_json_delta", partial_json="]"), delta(0, "text_delta", text="b")),
        *(stop(0), stop(1)),
    ) == [
        *(BlockStart(0, Text()), BlockStart(1, ToolCall("c", "f"))),
        *(JSONDelta(1, "["), TextDelta(0, "a"), JSONDelta(1, "]"), TextDelta(0, "b")),
        *(BlockStop(0), BlockStop(1)),
    ]


def test_wire_indexes_are_only_keys() -> None:
    assert [getattr(event, "index", None) for event in body(text(7, "a"), text(3, "b"))] == [
        *(0, 0, 0, 1, 1, 1),
    ]
    assert notes(text(7, "a"), text(3, "b"), text(7, "c")) == {}


def test_start_at_an_open_index_stops_the_open_block() -> None:
    frames = [
        *(block(0, "text", text="a"), block(0, "tool_use", id="c", name="f")),
        *(delta(0, "input_json_delta", partial_json="{}"), stop(0)),
    ]
    assert body(*frames) == [
        *(BlockStart(0, Text()), TextDelta(0, "a"), BlockStop(0)),
        *(BlockStart(1, ToolCall("c", "f")), JSONDelta(1, "{}"), BlockStop(1)),
    ]
    assert notes(*frames) == {"reused_index": 1}


def test_unstopped_blocks_stop_at_the_end_in_block_order() -> None:
    frames = [
        *(block(4, "text", text="a"), block(2, "thinking", thinking="b", signature="c2ln")),
        *(block(9, "tool_use", id="c", name="f", input={"q": 1}),),
    ]
    assert body(*frames)[-5:] == [
        *(BlockStop(0), SignatureDelta(1, "c2ln", "anthropic"), BlockStop(1)),
        *(JSONDelta(2, '{"q": 1}'), BlockStop(2)),
    ]
    assert notes(*frames) == {"missing_block_stop": 3}


def test_stop_without_an_open_block_is_a_note() -> None:
    frames = [text(0, "a"), stop(0), stop(7)]
    assert body(*frames) == body(text(0, "a"))
    assert notes(*frames) == {"extra_block_stop": 2}


MISPLACED: dict[str, tuple[list[bytes], list[Event]]] = {
    "text at a wrong index": (
        [block(0, "text", text=""), delta(5, "text_delta", text="a"), stop(0)],
        [BlockStart(0, Text()), TextDelta(0, "a"), BlockStop(0)],
    ),
    "text without an index": (
        [block(0, "text", text=""), delta(None, "text_delta", text="a"), stop(0)],
        [BlockStart(0, Text()), TextDelta(0, "a"), BlockStop(0)],
    ),
    "source at a wrong index": (
        [block(0, "text", text=""), delta(5, "citations_delta", citation={"type": "k"}), stop(0)],
        [BlockStart(0, Text()), CitationDelta(0, Citation("k")), BlockStop(0)],
    ),
    "text at the index of a call": (
        [
            *(block(0, "text", text=""), block(1, "tool_use", id="c", name="f")),
            *(delta(1, "text_delta", text="a"), stop(1), stop(0)),
        ],
        [
            *(BlockStart(0, Text()), BlockStart(1, ToolCall("c", "f")), TextDelta(0, "a")),
            *(BlockStop(1), BlockStop(0)),
        ],
    ),
    "arguments at the index of a text": (
        [
            *(block(0, "tool_use", id="c", name="f"), block(1, "text", text="")),
            *(delta(1, "input_json_delta", partial_json="{}"), stop(1), stop(0)),
        ],
        [
            *(BlockStart(0, ToolCall("c", "f")), BlockStart(1, Text()), JSONDelta(0, "{}")),
            *(BlockStop(1), BlockStop(0)),
        ],
    ),
    "arguments go to the latest call": (
        [
            *(block(0, "tool_use", id="c", name="f"), block(1, "mcp_tool_use", id="m", name="g")),
            *(delta(None, "input_json_delta", partial_json="{}"), stop(1), stop(0)),
        ],
        [
            BlockStart(0, ToolCall("c", "f")),
            BlockStart(1, ServerToolCall("m", "g", kind="mcp_tool_use")),
            *(JSONDelta(1, "{}"), BlockStop(1), BlockStop(0)),
        ],
    ),
    "signature at a wrong index": (
        [block(0, "thinking", thinking=""), delta(5, "signature_delta", signature="s"), stop(0)],
        [BlockStart(0, Reasoning()), SignatureDelta(0, "s", "anthropic"), BlockStop(0)],
    ),
    "text without a block ends where another starts": (
        [*(delta(0, "text_delta", text=t) for t in "ab"), text(1, "c")],
        [
            *(BlockStart(0, Text()), TextDelta(0, "a"), TextDelta(0, "b"), BlockStop(0)),
            *(BlockStart(1, Text()), TextDelta(1, "c"), BlockStop(1)),
        ],
    ),
    "thinking without a block, then text without one": (
        [delta(0, "thinking_delta", thinking="a"), delta(0, "text_delta", text="b")],
        [
            *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), BlockStop(0)),
            *(BlockStart(1, Text()), TextDelta(1, "b"), BlockStop(1)),
        ],
    ),
    "block without an index": (
        [block(None, "text", text="a"), delta(0, "text_delta", text="b"), stop(0)],
        [BlockStart(0, Text()), TextDelta(0, "a"), TextDelta(0, "b"), BlockStop(0)],
    ),
}


@pytest.mark.parametrize(("frames", "events"), MISPLACED.values(), ids=MISPLACED)
def test_misplaced_delta_extends_the_last_open_block_of_its_kind(
    frames: list[bytes], events: list[Event]
) -> None:
    assert body(*frames) == events
    assert "misplaced_delta" in notes(*frames)


def test_empty_misplaced_delta_is_ignored() -> None:
    empty = [
        *(delta(5, "text_delta", text=""), delta(5, "thinking_delta", thinking="")),
        *(delta(5, "input_json_delta", partial_json=""), delta(5, "signature_delta", signature="")),
    ]
    assert body(*empty) == []
    assert notes(*empty) == {}


def test_input_without_an_open_call_is_malformed() -> None:
    lost = delta(0, "input_json_delta", partial_json="{")
    for frames in ([lost], [text(0, "a"), lost], [call(0, "{}"), lost]):
        error = decode(start(), *frames, end(), STOP).events[-1]
        assert error == StreamError("malformed", "input of no open tool call, expected one")
