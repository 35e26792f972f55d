"""Chunks of Responses that are pieces of a text, and how they are read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from responses_frames import added, call, part_added

from streamnorm import Event, JSONDelta, Limits, ReasoningDelta, TextDelta
from streamnorm.dialects.openai_responses.decode import ResponsesDecoder
from streamnorm.sse import Frame, SSEDecoder

__all__ = [
    "ARGUMENTS",
    "MAKE",
    "MESSAGE",
    "OPENING",
    "OTHER",
    "SUMMARY",
    "TEXT",
    "THOUGHT",
    "Counting",
    "each_kind",
    "fed",
    "numbered",
    "piece",
]

TEXT = "response.output_text.delta"
ARGUMENTS = "response.function_call_arguments.delta"
SUMMARY = "response.reasoning_summary_text.delta"
THOUGHT = "response.reasoning_text.delta"

DEFAULT = Limits()
MESSAGE = added(0, "message", id="m") + part_added({"type": "output_text", "text": ""})
OPENING = {
    TEXT: MESSAGE,
    ARGUMENTS: added(0, "function_call", **call(id="m")),
    SUMMARY: added(0, "reasoning", id="m"),
    THOUGHT: added(0, "reasoning", id="m"),
}
PART = {TEXT: "content_index", SUMMARY: "summary_index", THOUGHT: "content_index"}
MAKE: dict[str, Any] = {
    TEXT: TextDelta,
    ARGUMENTS: JSONDelta,
    SUMMARY: ReasoningDelta,
    THOUGHT: ReasoningDelta,
}
OTHER: dict[str, Any] = {"item_id": "n", "output_index": 1}
"""Where the pieces of an item `n` belong."""

each_kind = pytest.mark.parametrize("kind", OPENING, ids=lambda kind: kind.split(".")[1])


def piece(kind: str, text: str, number: int | None = None, **fields: Any) -> bytes:
    """Return a piece of the item `m`, or of another one, as the API writes it."""
    places = {PART[kind]: 0} if kind in PART else {}
    logprobs: dict[str, Any] = {"logprobs": []} if kind == TEXT else {}
    told: dict[str, Any] = {
        "delta": text,
        "item_id": "m",
        "output_index": 0,
        **places,
        **logprobs,
        **fields,
    }
    if number is not None:
        told["sequence_number"] = number
    data = json.dumps({"type": kind, **told}, separators=(",", ":"), ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()


def numbered(kind: str, *texts: str, first: int = 0, **fields: Any) -> list[bytes]:
    """Return the pieces of one text."""
    return [piece(kind, text, number, **fields) for number, text in enumerate(texts, first)]


class Framing(SSEDecoder):
    """Count the frames that were cut from bytes."""

    cut = 0

    def feed(self, data: bytes) -> list[Frame]:
        frames = super().feed(data)
        self.cut += len(frames)
        return frames


class Counting(ResponsesDecoder):
    """Count the chunks that were read without their frame."""

    def __init__(self, *, limits: Limits = DEFAULT, **options: Any) -> None:
        super().__init__(limits=limits, **options)
        self._sse = self.framing = Framing(
            max_event_bytes=limits.max_event_bytes, max_stray_bytes=limits.max_error_body_bytes
        )

    @property
    def short(self) -> int:
        return self.frames - self.framing.cut


def fed(*chunks: bytes, **options: Any) -> tuple[list[list[Event]], Counting]:
    """Return what each chunk gives, which is what its frames do.

    The same is read in pieces that are no event: each chunk in two.
    """
    reader, framed = Counting(**options), Counting(**options)
    given: list[list[Event]] = []
    for chunk in chunks:
        given.append(reader.feed(chunk))
        assert given[-1] == framed.feed(chunk[:1]) + framed.feed(chunk[1:])
        assert reader.notes == framed.notes
        assert (reader.outcome, reader.frames) == (framed.outcome, framed.frames)
    assert framed.short == 0
    return given, reader
