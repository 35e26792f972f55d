"""Streams of Gemini."""

from __future__ import annotations

import random

from workloads.text import dumps, text_pieces

__all__ = ["frames", "text"]

_PROMPT_TOKENS = 120
_THOUGHT_TOKENS = 85


def frames(payloads: list[bytes]) -> list[bytes]:
    """Return payloads as frames with CRLF line ends."""
    return [b"data: %b\r\n\r\n" % payload for payload in payloads]


def text(chunks: int) -> list[bytes]:
    """Return a stream of text: each chunk has about a sentence, and token counts."""
    rng = random.Random("counts")  # noqa: S311 - a seed is the point
    payloads: list[bytes] = []
    tokens = 0
    for piece in text_pieces(chunks, least=6, most=40):
        tokens += rng.randint(6, 40)
        payloads.append(_chunk(piece, tokens))
    return [*payloads, _chunk("", tokens, finish="STOP")]


def _chunk(piece: str, tokens: int, finish: str | None = None) -> bytes:
    candidate: dict[str, object] = {"content": {"parts": [{"text": piece}], "role": "model"}}
    if finish is not None:
        candidate["finishReason"] = finish
    usage = {
        "promptTokenCount": _PROMPT_TOKENS,
        "candidatesTokenCount": tokens,
        "totalTokenCount": _PROMPT_TOKENS + tokens + _THOUGHT_TOKENS,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": _PROMPT_TOKENS}],
        "thoughtsTokenCount": _THOUGHT_TOKENS,
    }
    chunk = {
        "candidates": [{**candidate, "index": 0}],
        "usageMetadata": usage,
        "modelVersion": "gemini-2.5-flash",
        "responseId": "t4XaZ8nRk2PwQ7m9Lb0Vcg0",
    }
    return dumps(chunk, separators=(",", ": "))
