"""Custom tool calls: calls with free text."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_responses.frames import (
    START,
    added,
    args,
    body,
    call,
    completed,
    decode,
    delta,
    done,
    event,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    JSONDelta,
    MessageStop,
    ToolCall,
)

ITEM_ADDED = added(0, "function_call", **call())


CUSTOM: dict[str, Any] = {"id": "ctc_1", "call_id": "c", "name": "f"}


@pytest.mark.parametrize(
    ("ends", "status", "is_unfinished"),
    [
        (
            [done(0, "custom_tool_call", input="ab", status="completed", **CUSTOM)],
            "completed",
            False,
        ),
        (
            [done(0, "custom_tool_call", input="ab", status="incomplete", **CUSTOM)],
            "incomplete",
            True,
        ),
        ([], "incomplete", True),
        ([], "completed", False),
        (
            [event("response.custom_tool_call_input.done", output_index=0, input="ab")],
            "incomplete",
            False,
        ),
    ],
)
def test_custom_call_is_unfinished_if_it_was_cut_before_its_end(
    ends: list[bytes], status: str, *, is_unfinished: bool
) -> None:
    """Free text cannot show it, as JSON does."""
    start = added(0, "custom_tool_call", input="", status="in_progress", **CUSTOM)
    frames = [start, delta("custom_tool_call_input", "ab"), *ends, completed(status=status)]
    events = decode(START, *frames).events
    assert events[-2] == BlockStop(0, is_unfinished)
    assert isinstance(events[-1], MessageStop)


def test_function_call_is_never_marked_as_unfinished() -> None:
    frames = [ITEM_ADDED, args('{"a'), done(0, "function_call", **call('{"a', status="incomplete"))]
    assert decode(START, *frames, completed(status="incomplete")).events[-2] == BlockStop(0)


def test_custom_call_has_free_text_as_arguments() -> None:
    item: dict[str, Any] = {"id": "ctc_1", "call_id": "c", "name": "f"}
    frames = [
        added(0, "custom_tool_call", input="", **item),
        delta("custom_tool_call_input", "it's\n"),
        event("response.custom_tool_call_input.done", output_index=0, input="it's\nall"),
        done(0, "custom_tool_call", input="it's\nall", **item),
    ]
    assert body(*frames) == [
        BlockStart(0, ToolCall("c", "f", kind="custom"), extra={"item_id": "ctc_1"}),
        *(JSONDelta(0, "it's\n"), JSONDelta(0, "all"), BlockStop(0)),
    ]
