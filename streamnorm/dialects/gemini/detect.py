"""Detection of Gemini frames."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from streamnorm._core.json import FAST_ERRORS
from streamnorm.sse import Frame

__all__ = ["recognises"]


class _Candidate(Struct):
    """A candidate, whatever its fields."""


class _Chunk(Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    usage_metadata: dict[str, object] | None = None
    prompt_feedback: dict[str, object] | None = None
    response: _Chunk | None = None


_CHUNK: msgspec.json.Decoder[_Chunk] = msgspec.json.Decoder(_Chunk)


def recognises(frame: Frame) -> bool:
    """Return whether a payload is a chunk, bare or within Code Assist's `response`."""
    try:
        chunk = _CHUNK.decode(frame.data)
    except FAST_ERRORS:
        return False
    while chunk.response is not None:
        chunk = chunk.response
    fields = (chunk.candidates, chunk.usage_metadata, chunk.prompt_feedback)
    return any(field is not None for field in fields)
