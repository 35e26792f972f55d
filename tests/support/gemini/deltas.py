"""Streams of consecutive deltas of Gemini."""

from __future__ import annotations

from typing import Any

from support.streams.delta_pieces import DeltaStream, Make, frame, texts

__all__ = ["GEMINI_DELTAS"]


def _gemini_chunk(
    part: dict[str, Any], at: int, finish: str | None = None, index: int = 0, end: str = "\r\n"
) -> bytes:
    answer: dict[str, Any] = {"content": {"parts": [part], "role": "model"}}
    answer |= {"finishReason": finish} if finish else {}
    counts = {"promptTokenCount": 9, "candidatesTokenCount": at, "totalTokenCount": 9 + at}
    details = [{"modality": "TEXT", "tokenCount": 9}]
    whole = {
        "candidates": [{**answer, "index": index}],
        "usageMetadata": {**counts, "promptTokensDetails": details},
        "modelVersion": "gemini-1",
        "responseId": "resp-1",
    }
    return frame(whole, end=end)


def _gemini(count: int, *, end: str = "\r\n", choices: int = 1, **fields: Any) -> DeltaStream:
    deltas = [
        _gemini_chunk({"text": text, **fields}, at, index=n, end=end)
        for at, text in enumerate(texts(count))
        for n in range(choices)
    ]
    ends = [_gemini_chunk({"text": ""}, count, "STOP", n, end) for n in range(choices)]
    # Templates are learned from the deltas behind many.
    opening = [_gemini_chunk({"text": text, **fields}, 0, end=end) for text in ["H", *[""] * 16]]
    return DeltaStream("gemini", opening if choices == 1 else [], deltas, ends)


def _gemini_array(count: int) -> DeltaStream:
    """Return a text stream as a JSON array, as sent without `alt=sse`."""
    stream = _gemini(count)
    chunks = [event[6:].strip() for event in stream.events]
    elements = [chunk + b"\n,\n" for chunk in chunks[:-1]]
    start = len(stream.opening)
    opening, deltas = [b"[", *elements[:start]], elements[start:]
    return stream._replace(opening=opening, deltas=deltas, closing=[chunks[-1] + b"\n]\n"])


def _gemini_wrapped(count: int) -> DeltaStream:
    """Return a text stream in Code Assist's envelope."""
    stream = _gemini(count)
    wrapped = [b'data: {"response":%b}\r\n\r\n' % event[6:].strip() for event in stream.events]
    deltas = wrapped[len(stream.opening) : -1]
    return stream._replace(opening=[], deltas=deltas, closing=wrapped[-1:])


def _gemini_arguments(count: int) -> DeltaStream:
    def call(**fields: Any) -> dict[str, Any]:
        return {"functionCall": {**fields, "willContinue": True}}

    pieces = [
        call(partialArgs=[{"jsonPath": "$.city", "stringValue": text, "willContinue": True}])
        for text in texts(count)
    ]
    last = call(partialArgs=[{"jsonPath": "$.city", "stringValue": ""}])
    return DeltaStream(
        "gemini",
        [_gemini_chunk(call(name="f"), 0)],
        [_gemini_chunk(piece, at) for at, piece in enumerate(pieces)],
        [_gemini_chunk(last, count), _gemini_chunk({"functionCall": {}}, count, "STOP")],
    )


GEMINI_DELTAS: dict[str, Make] = {
    "gemini text": _gemini,
    "gemini text, LF": lambda count: _gemini(count, end="\n"),
    "gemini text of two candidates": lambda count: _gemini(count, choices=2),
    "gemini text in an array": _gemini_array,
    "gemini text, wrapped": _gemini_wrapped,
    "gemini thought": lambda count: _gemini(count, thought=True),
    "gemini arguments": _gemini_arguments,
}
"""Streams by what they hold, of as many pieces as are asked for."""
