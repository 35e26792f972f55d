"""OpenAI Chat Completions, and what compatible servers make of it."""

import msgspec
from msgspec import Struct

from streamnorm._json import FAST_ERRORS
from streamnorm.codec import Dialect
from streamnorm.dialects.openai_chat.decode import ChatDecoder
from streamnorm.sse import Frame

__all__ = ["DIALECT"]


class _Marks(Struct):
    choices: list[object] | None = None
    object: str | None = None
    type: str | None = None
    error: dict[str, object] | str | None = None


_MARKS: msgspec.json.Decoder[_Marks] = msgspec.json.Decoder(_Marks)


def _recognises(frame: Frame) -> bool:
    """Tell whether a frame is a chunk, the terminal, or an error without a type of its own."""
    if frame.data.startswith("[DONE]"):
        return True
    try:
        marks = _MARKS.decode(frame.data)
    except FAST_ERRORS:
        return False
    if marks.choices is not None or (marks.object or "").startswith("chat.completion"):
        return True
    return bool(marks.error) and marks.type is None


DIALECT = Dialect(
    name="openai_chat",
    aliases=("openai", "chat"),
    recognises=_recognises,
    decoder=ChatDecoder,
)
