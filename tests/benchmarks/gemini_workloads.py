"""The streams that are measured, made of payloads as Gemini sends them."""

from __future__ import annotations

import json

from workloads import Payloads

__all__ = ["frames", "text", "thought_text_and_calls"]

_PROMPT = [{"modality": "TEXT", "tokenCount": 120}]
_WORDS = " some twenty words of an answer, of which a chunk of this API has more than others have"


def frames(payloads: Payloads) -> list[bytes]:
    """Return payloads as one event a chunk."""
    return [f"data: {payload}\r\n\r\n".encode() for payload in payloads]


def text(deltas: int, *, counting: bool = True) -> Payloads:
    """Return a stream of text alone.

    Args:
        deltas: How many chunks.
        counting: Whether each tells how many tokens it is by now, or all the same number.
    """
    said = [_text(n, n if counting else 0) for n in range(deltas)]
    return [*said, _chunk([{"text": ""}], deltas, finish="STOP")]


def thought_text_and_calls(deltas: int) -> Payloads:
    """Return thoughts, text, and four calls."""
    half = deltas // 2
    calls = [
        {"functionCall": {"name": "search", "args": {"key": f"value {n}"}, "id": f"call_{n}"}}
        for n in range(4)
    ]
    return [
        *(_text(n, n, thought=True) for n in range(half)),
        *(_text(n, n + half) for n in range(half)),
        *(_chunk([call], deltas) for call in calls),
        _chunk([{"text": ""}], deltas, finish="STOP"),
    ]


def _text(number: int, tokens: int, **more: object) -> str:
    return _chunk([{"text": f" {number:04}{_WORDS}", **more}], tokens)


def _chunk(parts: list[dict[str, object]], tokens: int, finish: str | None = None) -> str:
    candidate = {"content": {"parts": parts, "role": "model"}}
    if finish is not None:
        candidate["finishReason"] = finish  # type: ignore[assignment]
    usage = {
        "promptTokenCount": 120,
        "candidatesTokenCount": 20 + tokens,
        "totalTokenCount": 140 + tokens,
        "promptTokensDetails": _PROMPT,
    }
    return json.dumps(
        {
            "candidates": [{**candidate, "index": 0}],
            "usageMetadata": usage,
            "modelVersion": "gemini-2.5-flash",
            "responseId": "m1vgaOa0AeSN_PUP5LeaoQw",
        },
        separators=(",", ": "),
    )
