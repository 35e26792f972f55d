"""Streams of consecutive deltas of Anthropic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from support.streams.delta_pieces import DeltaStream, Make, arguments, frame, texts

__all__ = ["ANTHROPIC_DELTAS"]


def _anthropic(type: str, **fields: Any) -> bytes:
    return frame({"type": type, **fields}, type)


def _anthropic_blocks(
    blocks: list[dict[str, Any]], deltas: Iterable[tuple[int, dict[str, str]]], reason: str
) -> DeltaStream:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-1"}
    rest = {"content": [], "stop_reason": None, "usage": {"input_tokens": 9, "output_tokens": 1}}
    starts = [
        _anthropic("content_block_start", index=index, content_block=block)
        for index, block in enumerate(blocks)
    ]
    stops = [_anthropic("content_block_stop", index=index) for index in range(len(blocks))]
    return DeltaStream(
        "anthropic",
        [_anthropic("message_start", message={**message, **rest}), *starts],
        [_anthropic("content_block_delta", index=index, delta=delta) for index, delta in deltas],
        [
            *stops,
            _anthropic("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 4}),
            _anthropic("message_stop"),
        ],
    )


def _anthropic_text(count: int) -> DeltaStream:
    deltas = [(0, {"type": "text_delta", "text": text}) for text in texts(count)]
    return _anthropic_blocks([{"type": "text", "text": ""}], deltas, "end_turn")


def _anthropic_padded_text(count: int) -> DeltaStream:
    stream = _anthropic_text(count)
    padded = [
        delta.replace(b"}\n\n", b" " * (3 * at % 17) + b"}\n\n")
        for at, delta in enumerate(stream.deltas)
    ]
    return stream._replace(deltas=padded)


def _anthropic_thinking(count: int) -> DeltaStream:
    deltas = [(0, {"type": "thinking_delta", "thinking": text}) for text in texts(count)]
    return _anthropic_blocks([{"type": "thinking", "thinking": ""}], deltas, "end_turn")


def _anthropic_calls(count: int, calls: int) -> DeltaStream:
    blocks = [{"type": "tool_use", "id": f"t{n}", "name": "f", "input": {}} for n in range(calls)]
    deltas = [
        (n, {"type": "input_json_delta", "partial_json": piece})
        for piece in arguments(count)
        for n in range(calls)
    ]
    return _anthropic_blocks(blocks, deltas, "tool_use")


def _anthropic_turn(count: int) -> DeltaStream:
    """Return thinking, text and a call, one after another."""
    streams = [_anthropic_thinking(count), _anthropic_text(count), _anthropic_calls(count, 1)]
    deltas: list[bytes] = []
    for index, stream in enumerate(streams):
        block = [stream.opening[1], *stream.deltas, stream.closing[0]]
        deltas += [event.replace(b'"index":0', b'"index":%d' % index) for event in block]
    last = streams[-1]
    return last._replace(opening=last.opening[:1], deltas=deltas, closing=last.closing[1:])


ANTHROPIC_DELTAS: dict[str, Make] = {
    "anthropic text": _anthropic_text,
    "anthropic text, padded": _anthropic_padded_text,
    "anthropic thinking": _anthropic_thinking,
    "anthropic call": lambda count: _anthropic_calls(count, 1),
    "anthropic thinking, text and call": _anthropic_turn,
    "anthropic calls, interleaved": lambda count: _anthropic_calls(count, 3),
}
"""Functions that return a stream of a number of deltas, by its content."""
