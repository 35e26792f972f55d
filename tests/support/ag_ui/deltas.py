"""Streams of consecutive deltas of AG-UI."""

from __future__ import annotations

from typing import Any

from support.streams.delta_pieces import DeltaStream, Make, arguments, frame, texts

__all__ = ["AG_UI_DELTAS"]

_RUN = {"threadId": "t", "runId": "r"}


def _event(type: str, **fields: Any) -> bytes:
    return frame({"type": type, **fields})


_START, _FINISH = _event("RUN_STARTED", **_RUN), _event("RUN_FINISHED", **_RUN)


def _texts(count: int, ids: list[str]) -> DeltaStream:
    return DeltaStream(
        "ag_ui",
        [_START, *(_event("TEXT_MESSAGE_START", messageId=id, role="assistant") for id in ids)],
        [
            _event("TEXT_MESSAGE_CONTENT", messageId=id, delta=text)
            for text in texts(count)
            for id in ids
        ],
        [*(_event("TEXT_MESSAGE_END", messageId=id) for id in ids), _FINISH],
    )


def _reasoning(count: int) -> DeltaStream:
    return DeltaStream(
        "ag_ui",
        [
            _START,
            _event("REASONING_START", messageId="s"),
            _event("REASONING_MESSAGE_START", messageId="h", role="reasoning"),
        ],
        [_event("REASONING_MESSAGE_CONTENT", messageId="h", delta=text) for text in texts(count)],
        [
            _event("REASONING_MESSAGE_END", messageId="h"),
            _event("REASONING_END", messageId="s"),
            _FINISH,
        ],
    )


def _calls(count: int, calls: int) -> DeltaStream:
    ids = [f"c{number}" for number in range(calls)]
    return DeltaStream(
        "ag_ui",
        [_START, *(_event("TOOL_CALL_START", toolCallId=id, toolCallName="f") for id in ids)],
        [
            _event("TOOL_CALL_ARGS", toolCallId=id, delta=piece)
            for piece in arguments(count)
            for id in ids
        ],
        [*(_event("TOOL_CALL_END", toolCallId=id) for id in ids), _FINISH],
    )


AG_UI_DELTAS: dict[str, Make] = {
    "ag-ui text": lambda count: _texts(count, ["m"]),
    "ag-ui texts, interleaved": lambda count: _texts(count, ["m", "n"]),
    "ag-ui reasoning": _reasoning,
    "ag-ui call": lambda count: _calls(count, 1),
    "ag-ui calls, interleaved": lambda count: _calls(count, 3),
}
"""Functions that return a stream of a number of deltas, by its content."""
