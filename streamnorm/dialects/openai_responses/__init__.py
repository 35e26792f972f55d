"""OpenAI Responses."""

import msgspec
from msgspec import Struct

from streamnorm._core.codec import Dialect, on_first_use
from streamnorm._core.json import FAST_ERRORS
from streamnorm.dialects.openai_responses.capabilities import CAPABILITIES
from streamnorm.dialects.openai_responses.endpoints import (
    ENDPOINTS,
    error_body,
    is_terminal,
    overloaded_frames,
)
from streamnorm.sse import Frame

__all__ = ["DIALECT"]


class _Marks(Struct):
    type: str | None = None
    sequence_number: int | None = None


_MARKS: msgspec.json.Decoder[_Marks] = msgspec.json.Decoder(_Marks)


def _recognises(frame: Frame) -> bool:
    """Tell whether a frame's payload names one of the dialect's events."""
    try:
        marks = _MARKS.decode(frame.data)
    except FAST_ERRORS:
        return False
    kind = marks.type or ""
    # Other dialects have errors, too, but do not number them.
    return kind.startswith("response.") or (kind == "error" and marks.sequence_number is not None)


DIALECT = Dialect(
    name="openai_responses",
    aliases=("responses",),
    recognises=_recognises,
    is_terminal=is_terminal,
    decoder=on_first_use("streamnorm.dialects.openai_responses.decode", "ResponsesDecoder"),
    encoder=on_first_use("streamnorm.dialects.openai_responses.encode", "ResponsesEncoder"),
    checker=on_first_use("streamnorm.dialects.openai_responses.check", "ResponsesChecker"),
    capabilities=CAPABILITIES,
    endpoints=ENDPOINTS,
    error_body=error_body,
    overloaded_frames=overloaded_frames,
)
