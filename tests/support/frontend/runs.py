"""Agent runs: their answers and results, and the written chunks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    Event,
    JSONDelta,
    MessageStart,
    MessageStop,
    StopReason,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
    UsageUpdate,
)
from streamnorm.frontend import Run

UI, AG = "ui_message_stream", "ag_ui"
BOTH = pytest.mark.parametrize("to", [UI, AG])


def calls(*ids: str, model: str = "m-1", usage: Usage = Usage(3, 4)) -> list[Event]:  # noqa: B008
    """Return an answer with a tool call for each id."""
    events: list[Event] = [MessageStart("msg_1", model)]
    for index, id in enumerate(ids):
        events += [
            BlockStart(index, ToolCall(id, "weather")),
            JSONDelta(index, '{"city":"Oslo"}'),
            BlockStop(index),
        ]
    return [*events, UsageUpdate(usage), MessageStop("tool_use")]


def says(
    text: str,
    reason: StopReason = "end_turn",
    model: str = "m-1",
    usage: Usage = Usage(10, 2),  # noqa: B008 - frozen
) -> list[Event]:
    """Return an answer with one text."""
    return [
        MessageStart("msg_2", model),
        BlockStart(0, Text()),
        TextDelta(0, text),
        BlockStop(0),
        UsageUpdate(usage),
        MessageStop(reason),
    ]


def result(id: str, text: str, *, is_error: bool = False) -> ToolResult:
    return ToolResult(id, (Text(text),), is_error)


def write(run: Run, *items: Any) -> list[dict[str, Any]]:
    return chunks_of(b"".join([run.write(item) for item in items]))


def whole(to: str, *items: Any, **ids: str) -> list[dict[str, Any]]:
    """Return the chunks of a complete run, checked against its protocol."""
    run = Run(to, ids=ids)
    body = b"".join([run.write(item) for item in items]) + run.finish()
    assert isinstance(run.outcome, Completed)
    return chunks_of(body)


def chunks_of(body: bytes) -> list[dict[str, Any]]:
    frames = [frame.removeprefix("data: ") for frame in body.decode().split("\n\n") if frame]
    return [json.loads(frame) for frame in frames if frame != "[DONE]"]


def types_of(chunks: list[dict[str, Any]]) -> list[str]:
    return [chunk["type"] for chunk in chunks]
