"""The streams that are measured, made of payloads as Anthropic sends them."""

from __future__ import annotations

import json

from workloads import Payloads

__all__ = ["frames", "text", "thinking_text_and_tools"]

_USAGE = {
    "input_tokens": 120,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 1,
    "service_tier": "standard",
}


def frames(payloads: Payloads) -> list[bytes]:
    """Return payloads as one event a chunk."""
    return [
        f"event: {json.loads(payload)['type']}\ndata: {payload}\n\n".encode()
        for payload in payloads
    ]


def text(deltas: int) -> Payloads:
    """Return a stream of text alone."""
    return [_start(), *_text(0, deltas), *_end("end_turn")]


def thinking_text_and_tools(deltas: int) -> Payloads:
    """Return thinking that is signed, text, and two tool calls, an equal part each."""
    quarter = deltas // 4
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    signed = _payload("content_block_delta", 0, delta={"type": "signature_delta", "signature": "E"})
    return [
        _start(),
        _payload("content_block_start", 0, content_block=thinking),
        *(_delta(0, n, "thinking_delta", "thinking", f" think {n:04}") for n in range(quarter)),
        signed,
        _payload("content_block_stop", 0),
        *_text(1, quarter),
        *_call(2, quarter),
        *_call(3, quarter),
        *_end("tool_use"),
    ]


def _text(index: int, deltas: int) -> Payloads:
    return [
        _payload("content_block_start", index, content_block={"type": "text", "text": ""}),
        *(_delta(index, n, "text_delta", "text", f" word {n:04}") for n in range(deltas)),
        _payload("content_block_stop", index),
    ]


def _call(index: int, deltas: int) -> Payloads:
    tool = {"type": "tool_use", "id": f"toolu_{index:024}", "name": "search", "input": {}}
    inner = [f'"key {n:04}": "value {n:04}", ' for n in range(deltas - 3)]
    pieces = ["", "{", *inner, f'"call": {index}}}']
    return [
        _payload("content_block_start", index, content_block=tool),
        *(
            _delta(index, n, "input_json_delta", "partial_json", piece)
            for n, piece in enumerate(pieces)
        ),
        _payload("content_block_stop", index),
    ]


def _start() -> str:
    message = {
        "model": "claude-sonnet-5",
        "id": "msg_01ABCDEFGHIJKLMNOPQRSTUV",
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _USAGE,
    }
    return _dumps({"type": "message_start", "message": message})


def _end(reason: str) -> Payloads:
    delta = {"stop_reason": reason, "stop_sequence": None}
    usage = {**_USAGE, "output_tokens": 2000}
    return [
        _dumps({"type": "message_delta", "delta": delta, "usage": usage}),
        _dumps({"type": "message_stop"}),
    ]


def _delta(index: int, number: int, type: str, field: str, text: str) -> str:
    payload = _payload("content_block_delta", index, delta={"type": type, field: text})
    # The API pads its events with up to a line of spaces, against traffic analysis.
    return f"{payload[:-1]}{' ' * (number * 7 % 16)}}}"


def _payload(type: str, index: int, **fields: object) -> str:
    return _dumps({"type": type, "index": index, **fields})


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
