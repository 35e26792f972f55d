"""Structs of deltas: the payloads that they accept and those read on the slow path."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.anthropic.frames import STOP, block, decode, end, start, stop
from support.openai_chat.chunks import frame

from streamnorm import JSONDelta, ReasoningDelta, TextDelta
from streamnorm._core.json import FAST_ERRORS
from streamnorm.dialects.anthropic import wire


def payload(kind: str, **fields: Any) -> str:
    return json.dumps(
        {"type": "content_block_delta", "index": 3, "delta": {"type": kind, **fields}}
    )


@pytest.mark.parametrize(
    ("data", "delta"),
    [
        (payload("text_delta", text="a"), wire.TextDelta("a")),
        (payload("thinking_delta", thinking="a", estimated_tokens=None), wire.ThinkingDelta("a")),
        (payload("input_json_delta", partial_json=""), wire.InputJSONDelta("")),
        (payload("text_delta", text="é").replace("}}", "}  } "), wire.TextDelta("é")),
    ],
)
def test_delta_with_unknown_fields_is_decoded(data: str, delta: object) -> None:
    event = wire.decode_delta(data)
    assert (event.index, event.delta) == (3, delta)


@pytest.mark.parametrize(
    "data",
    [
        payload("text_delta", text=None),
        payload("text_delta", text="\ud83d"),
        payload("text_delta"),
        payload("signature_delta", signature="s"),
        payload("thinking_delta", thinking="", estimated_tokens=3),
        payload("text_delta", text="a").replace("3", '"3"'),
        payload("text_delta", text="a").replace('"index": 3, ', ""),
        '{"type":"content_block_stop","index":3}',
        "[DONE]",
        "",
    ],
)
def test_other_payload_is_rejected(data: str) -> None:
    with pytest.raises(FAST_ERRORS):
        wire.decode_delta(data)


def test_slow_path_reads_the_same() -> None:
    """A lone surrogate anywhere in a payload rules out the structs."""
    events = []
    for odd in ({}, {"odd": "\ud83d"}):
        frames = [
            frame({**json.loads(data), **odd}, "content_block_delta")
            for data in (
                payload("text_delta", text="a").replace("3", "0"),
                payload("thinking_delta", thinking="b").replace("3", "1"),
                payload("input_json_delta", partial_json="{}").replace("3", "2"),
            )
        ]
        starts = [block(0, "text"), block(1, "thinking"), block(2, "tool_use", id="c", name="f")]
        stops = [stop(index) for index in range(3)]
        events.append(decode(start(), *starts, *frames, *stops, end(), STOP).events)
    assert events[0] == events[1]
    assert events[0][4:7] == [TextDelta(0, "a"), ReasoningDelta(1, "b"), JSONDelta(2, "{}")]
