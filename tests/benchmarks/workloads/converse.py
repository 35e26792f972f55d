"""Streams of Amazon Bedrock's Converse."""

from __future__ import annotations

from streamnorm.eventstream import encode_message
from workloads.text import cut_anywhere, dumps, text_pieces, tool_arguments

__all__ = ["call", "frames", "text"]

_PADDING = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_END = {
    "metrics": {"latencyMs": 1234},
    "usage": {"inputTokens": 120, "outputTokens": 200, "totalTokens": 320},
}

_Event = tuple[str, dict[str, object]]


def frames(payloads: list[bytes]) -> list[bytes]:
    """Return payloads as messages named after their distinctive member."""
    return [
        encode_message(
            {
                ":event-type": _name_of(payload),
                ":content-type": "application/json",
                ":message-type": "event",
            },
            payload,
        )
        for payload in payloads
    ]


def _name_of(payload: bytes) -> str:
    names = {
        b'"delta":': "contentBlockDelta",
        b'"start":': "contentBlockStart",
        b'"role":': "messageStart",
        b'"stopReason":': "messageStop",
        b'"usage":': "metadata",
    }
    return next((name for mark, name in names.items() if mark in payload), "contentBlockStop")


def text(deltas: int) -> list[bytes]:
    """Return a stream of text only."""
    pieces = text_pieces(deltas, least=1, most=5, seed="converse")
    return _message([_delta({"text": piece}) for piece in pieces], "end_turn")


def call(deltas: int) -> list[bytes]:
    """Return a stream of one call."""
    pieces = ["", *cut_anywhere(tool_arguments(6 * deltas), least=1, most=11, seed="converse")]
    start = {"toolUse": {"name": "get_weather", "toolUseId": "tooluse_kZJMlvQmRJ6eAyJE5GIl7Q"}}
    begun: dict[str, object] = {"contentBlockIndex": 0, "start": start}
    deltas_of = [_delta({"toolUse": {"input": piece}}) for piece in pieces]
    return _message([begun, *deltas_of], "tool_use")


def _delta(delta: dict[str, object]) -> dict[str, object]:
    return {"contentBlockIndex": 0, "delta": delta}


def _message(events: list[dict[str, object]], reason: str) -> list[bytes]:
    stop: dict[str, object] = {"contentBlockIndex": 0}
    end: list[dict[str, object]] = [stop, {"stopReason": reason}, dict(_END)]
    padded = [{"role": "assistant"}, *events, *end]
    # The padding of Amazon changes its length from event to event.
    return [
        dumps({**event, "p": _PADDING[: 2 + 7 * place % 60]}) for place, event in enumerate(padded)
    ]
