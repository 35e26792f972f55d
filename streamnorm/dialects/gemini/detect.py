"""By what a frame is known to be of this dialect."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from streamnorm._core.json import FAST_ERRORS
from streamnorm.sse import Frame

__all__ = ["recognises"]


class _Candidate(Struct):
    """An answer, whatever it holds."""


class _Marks(Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    usage_metadata: dict[str, object] | None = None
    prompt_feedback: dict[str, object] | None = None
    response: _Marks | None = None


_MARKS: msgspec.json.Decoder[_Marks] = msgspec.json.Decoder(_Marks)


def recognises(frame: Frame) -> bool:
    """Return whether a payload has one of the fields that all chunks have."""
    try:
        marks = _MARKS.decode(frame.data)
    except FAST_ERRORS:
        return False
    while marks.response is not None:
        marks = marks.response
    told = (marks.candidates, marks.usage_metadata, marks.prompt_feedback)
    return any(part is not None for part in told)
