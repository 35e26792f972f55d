"""Deltas of open items in the API's form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamnorm import JSONDelta, ReasoningDelta, TextDelta
from support.openai_responses.frames import added, call, part_added
from support.streams.delta_runs import Reading, read_chunks

__all__ = [
    "ARGUMENTS",
    "MAKE",
    "MESSAGE",
    "OPENING",
    "OTHER",
    "REASONING",
    "SUMMARY",
    "TEXT",
    "each_delta_type",
    "item_delta",
    "numbered",
    "read",
]

TEXT = "response.output_text.delta"
ARGUMENTS = "response.function_call_arguments.delta"
SUMMARY = "response.reasoning_summary_text.delta"
REASONING = "response.reasoning_text.delta"

MESSAGE = added(0, "message", id="m") + part_added({"type": "output_text", "text": ""})
OPENING = {
    TEXT: MESSAGE,
    ARGUMENTS: added(0, "function_call", **call(id="m")),
    SUMMARY: added(0, "reasoning", id="m"),
    REASONING: added(0, "reasoning", id="m"),
}
PART = {TEXT: "content_index", SUMMARY: "summary_index", REASONING: "content_index"}
MAKE: dict[str, Any] = {
    TEXT: TextDelta,
    ARGUMENTS: JSONDelta,
    SUMMARY: ReasoningDelta,
    REASONING: ReasoningDelta,
}
OTHER: dict[str, Any] = {"item_id": "n", "output_index": 1}
"""Id and index of another item, `n`."""

each_delta_type = pytest.mark.parametrize(
    "delta_type", OPENING, ids=lambda delta_type: delta_type.split(".")[1]
)


def item_delta(delta_type: str, text: str, number: int | None = None, **fields: Any) -> bytes:
    """Return a delta of item `m`, or of the item that `fields` name."""
    part_index = {PART[delta_type]: 0} if delta_type in PART else {}
    logprobs: dict[str, Any] = {"logprobs": []} if delta_type == TEXT else {}
    payload: dict[str, Any] = {
        "delta": text,
        "item_id": "m",
        "output_index": 0,
        **part_index,
        **logprobs,
        **fields,
    }
    if number is not None:
        payload["sequence_number"] = number
    data = json.dumps({"type": delta_type, **payload}, separators=(",", ":"), ensure_ascii=False)
    return f"event: {delta_type}\ndata: {data}\n\n".encode()


def numbered(delta_type: str, *texts: str, first: int = 0, **fields: Any) -> list[bytes]:
    """Return numbered deltas of one text."""
    return [
        item_delta(delta_type, text, number, **fields) for number, text in enumerate(texts, first)
    ]


def read(*chunks: bytes, **options: Any) -> Reading:
    """Decode chunks of Responses on every path."""
    return read_chunks("openai_responses", *chunks, **options)
