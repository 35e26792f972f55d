"""Streams of Anthropic Messages."""

from __future__ import annotations

import random

from workloads.text import cut_anywhere, dumps, text_pieces, tool_arguments

__all__ = ["call", "frames", "mixed", "text"]

_USAGE = {
    "input_tokens": 120,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 64,
    "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
    "output_tokens": 1,
    "service_tier": "standard",
}

_PING = {"type": "ping"}

_Event = dict[str, object]


def frames(payloads: list[bytes]) -> list[bytes]:
    """Return payloads as frames with their types as event names."""
    names = [payload.split(b'"', 4)[3] for payload in payloads]  # the type is the first member
    return [b"event: %b\ndata: %b\n\n" % pair for pair in zip(names, payloads, strict=True)]


def text(deltas: int) -> list[bytes]:
    """Return a stream of text only."""
    return _padded([_start(), *_text(0, deltas), *_end("end_turn")])


def call(deltas: int) -> list[bytes]:
    """Return a stream of one call."""
    return _padded([_start(), *_call(0, deltas), *_end("tool_use")])


def mixed(deltas: int) -> list[bytes]:
    """Return a stream of signed thinking, text and two calls, a quarter each."""
    quarter = deltas // 4
    return _padded(
        [
            _start(),
            *_thinking(0, quarter),
            *_text(1, quarter),
            *_call(2, quarter),
            *_call(3, quarter),
            *_end("tool_use"),
        ]
    )


def _thinking(index: int, deltas: int) -> list[_Event]:
    block = {"type": "thinking", "thinking": "", "signature": ""}
    pieces = text_pieces(deltas, least=1, most=5, seed="thought")
    signature = {"type": "signature_delta", "signature": "Eo4B" + "q7Zk" * 90}
    return [
        *_block(index, block),
        *(_delta(index, {"type": "thinking_delta", "thinking": piece}) for piece in pieces),
        _delta(index, signature),
        _stop(index),
    ]


def _text(index: int, deltas: int) -> list[_Event]:
    pieces = text_pieces(deltas, least=1, most=5)
    return [
        *_block(index, {"type": "text", "text": ""}),
        *(_delta(index, {"type": "text_delta", "text": piece}) for piece in pieces),
        _stop(index),
    ]


def _call(index: int, deltas: int) -> list[_Event]:
    tool = {"type": "tool_use", "id": f"toolu_{index:024}", "name": "plan_route", "input": {}}
    # The API cuts fragments at any character, within keys and escapes too.
    arguments = tool_arguments(6 * deltas, index)
    pieces = ["", *cut_anywhere(arguments, least=1, most=11, seed=f"call {index}")]
    return [
        *_block(index, tool),
        *(_delta(index, {"type": "input_json_delta", "partial_json": piece}) for piece in pieces),
        _stop(index),
    ]


def _start() -> _Event:
    message = {
        "model": "claude-sonnet-4-5-20250929",
        "id": "msg_01Xw7RkPz4LmQ9TnVb2HsYcD",
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _USAGE,
    }
    return {"type": "message_start", "message": message}


def _end(reason: str) -> list[_Event]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    usage = {**_USAGE, "output_tokens": 1000}
    return [
        {"type": "message_delta", "delta": delta, "usage": usage},
        {"type": "message_stop"},
    ]


def _block(index: int, block: _Event) -> list[_Event]:
    started = {"type": "content_block_start", "index": index, "content_block": block}
    return [started, _PING] if index == 0 else [started]


def _delta(index: int, delta: _Event) -> _Event:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _stop(index: int) -> _Event:
    return {"type": "content_block_stop", "index": index}


def _padded(events: list[_Event]) -> list[bytes]:
    """Return payloads padded with up to 15 spaces, as the API hides text lengths."""
    rng = random.Random("padding")  # noqa: S311 - a seed is the point
    payloads: list[bytes] = []
    for event in events:
        if event is _PING:
            payloads.append(b'{"type": "ping"}')
        else:
            payloads.append(dumps(event)[:-1] + b" " * rng.randrange(16) + b"}")
    return payloads
