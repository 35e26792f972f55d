"""Streams of consecutive deltas of the UI message stream."""

from __future__ import annotations

from typing import Any

from support.streams.delta_pieces import DeltaStream, Make, arguments, frame, texts

__all__ = ["UI_DELTAS"]

_OPENING = [frame({"type": "start", "messageId": "m"}), frame({"type": "start-step"})]


def _chunk(type: str, **fields: Any) -> bytes:
    return frame({"type": type, **fields})


def _closing(reason: str) -> list[bytes]:
    finish = _chunk("finish", finishReason=reason) + b"data: [DONE]\n\n"
    return [_chunk("finish-step"), finish]


def _parts(kind: str, ids: list[str], count: int) -> DeltaStream:
    return DeltaStream(
        "ui_message_stream",
        [*_OPENING, *(_chunk(f"{kind}-start", id=id) for id in ids)],
        [_chunk(f"{kind}-delta", id=id, delta=text) for text in texts(count) for id in ids],
        [*(_chunk(f"{kind}-end", id=id) for id in ids), *_closing("stop")],
    )


def _both(count: int) -> DeltaStream:
    """Return text and reasoning parts that share one id."""
    text, thought = _parts("text", ["0"], count), _parts("reasoning", ["0"], count)
    pairs = zip(text.deltas, thought.deltas, strict=True)
    return text._replace(
        opening=[*text.opening, thought.opening[-1]],
        deltas=[delta for pair in pairs for delta in pair],
        closing=[thought.closing[0], *text.closing],
    )


def _calls(count: int, calls: int) -> DeltaStream:
    ids = [f"c{number}" for number in range(calls)]
    pieces = arguments(count)
    whole = _chunk("tool-input-available", toolCallId="?", toolName="f", input=None)
    ends = [whole.replace(b'"?"', f'"{id}"'.encode()) for id in ids]
    return DeltaStream(
        "ui_message_stream",
        [*_OPENING, *(_chunk("tool-input-start", toolCallId=id, toolName="f") for id in ids)],
        [
            _chunk("tool-input-delta", toolCallId=id, inputTextDelta=piece)
            for piece in pieces
            for id in ids
        ],
        [
            *(end.replace(b'"input":null', f'"input":{"".join(pieces)}'.encode()) for end in ends),
            *_closing("tool-calls"),
        ],
    )


UI_DELTAS: dict[str, Make] = {
    "ui text": lambda count: _parts("text", ["0"], count),
    "ui texts, interleaved": lambda count: _parts("text", ["0", "1"], count),
    "ui reasoning": lambda count: _parts("reasoning", ["0"], count),
    "ui text and reasoning of one id": _both,
    "ui call": lambda count: _calls(count, 1),
    "ui calls, interleaved": lambda count: _calls(count, 3),
}
"""Functions that return a stream of a number of deltas, by its content."""
