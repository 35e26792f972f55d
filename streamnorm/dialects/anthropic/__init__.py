"""Anthropic Messages."""

import msgspec
from msgspec import Struct

from streamnorm._core.codec import Dialect, on_first_use
from streamnorm._core.json import FAST_ERRORS
from streamnorm.dialects.anthropic.capabilities import CAPABILITIES
from streamnorm.dialects.anthropic.endpoints import ENDPOINTS, OVERLOADED_STATUS, is_terminal
from streamnorm.sse import Frame

__all__ = ["DIALECT"]

_TYPES = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
        "error",
    }
)


class _Marks(Struct):
    type: str | None = None


_MARKS: msgspec.json.Decoder[_Marks] = msgspec.json.Decoder(_Marks)


def _recognises(frame: Frame) -> bool:
    """Tell whether a frame's payload names one of the dialect's events."""
    try:
        return _MARKS.decode(frame.data).type in _TYPES
    except FAST_ERRORS:
        return False


DIALECT = Dialect(
    name="anthropic",
    aliases=("claude",),
    recognises=_recognises,
    is_terminal=is_terminal,
    decoder=on_first_use("streamnorm.dialects.anthropic.decode", "AnthropicDecoder"),
    encoder=on_first_use("streamnorm.dialects.anthropic.encode", "AnthropicEncoder"),
    checker=on_first_use("streamnorm.dialects.anthropic.check", "AnthropicChecker"),
    capabilities=CAPABILITIES,
    endpoints=ENDPOINTS,
    overloaded_status=OVERLOADED_STATUS,
)
