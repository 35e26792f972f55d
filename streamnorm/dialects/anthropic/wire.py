"""The shape of what comes often in an Anthropic stream: pieces of a block.

https://docs.anthropic.com/en/docs/build-with-claude/streaming (read 2026-11-21).  All
else comes a few times a message and is read as plain JSON, so that fields nobody knows
yet are kept.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct, field

__all__ = [
    "PIECES",
    "InputJSONDelta",
    "TextDelta",
    "ThinkingDelta",
    "decode_delta",
    "decode_raw_message",
    "decode_raw_start",
]


class TextDelta(Struct, gc=False, tag_field="type", tag="text_delta"):
    """More text."""

    text: str


class InputJSONDelta(Struct, gc=False, tag_field="type", tag="input_json_delta"):
    """More of a tool's input."""

    text: str = field(name="partial_json")


class ThinkingDelta(Struct, gc=False, tag_field="type", tag="thinking_delta"):
    """More thinking."""

    text: str = field(name="thinking")


Delta: TypeAlias = TextDelta | InputJSONDelta | ThinkingDelta


class ContentBlockDelta(Struct, gc=False, tag_field="type", tag="content_block_delta"):
    """A piece of a block, of the kinds that come often."""

    index: int
    delta: Delta


_DELTA: msgspec.json.Decoder[ContentBlockDelta] = msgspec.json.Decoder(ContentBlockDelta)
decode_delta = _DELTA.decode


class RawBlock(Struct):
    """A block's start, for the text of its input as it stands on the wire."""

    input: msgspec.Raw = msgspec.Raw()


class RawBlockStart(Struct):
    """The payload around it."""

    content_block: RawBlock


_RAW_START: msgspec.json.Decoder[RawBlockStart] = msgspec.json.Decoder(RawBlockStart)
decode_raw_start = _RAW_START.decode


class RawMessage(Struct):
    """A message that comes with its content."""

    content: list[RawBlock] = []


class RawMessageStart(Struct):
    """The payload around it."""

    message: RawMessage


_RAW_MESSAGE: msgspec.json.Decoder[RawMessageStart] = msgspec.json.Decoder(RawMessageStart)
decode_raw_message = _RAW_MESSAGE.decode

PIECES = frozenset({"delta", "text", "thinking", "partial_json"})
"""The keys whose strings are pieces of a longer text, and those on the way to them."""
