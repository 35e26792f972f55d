"""Wire structs and field sets of Anthropic's streams.

https://docs.anthropic.com/en/docs/build-with-claude/streaming (read 2026-11-21).  Only
deltas, of which most of a stream consists, and the source text of tool input have
structs.  All other payloads are decoded as plain JSON, so that unknown fields are kept.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field

from streamnorm._core.events import StreamError
from streamnorm._core.failures import Fatal
from streamnorm._core.shapes import found

DIALECT = "anthropic"

DELTA_TEXT_FIELDS = frozenset({"delta", "text", "thinking", "partial_json"})
"""Fields whose text may end in half a surrogate pair, and the field that leads to them."""

STOP_FIELDS = ("stop_reason", "stop_sequence", "stop_details")
MESSAGE_FIELDS = frozenset({"id", "type", "role", "model", "content", "usage", *STOP_FIELDS})


def unknown_fields(value: dict[str, Any], mapped: Container[str] = ()) -> dict[str, Any]:
    """Return an object's non-null fields that are not `mapped` to a unified field."""
    return {key: item for key, item in value.items() if key not in mapped and item is not None}


def text_of(value: dict[str, Any], field: str) -> str:
    """Return a text field, which may end in half a surrogate pair; "" for null.

    Some servers send null for an empty delta.

    Raises:
        Fatal: The field has another type.
    """
    text = value.get(field)
    # proxy/null-deltas: the Python SDK raises at null, the TypeScript SDK appends the word `null`.
    if text is None or isinstance(text, str):
        return text or ""
    raise Fatal(StreamError("malformed", f"{field} is {found(text)}, expected a string"))


class TextDelta(Struct, gc=False, tag_field="type", tag="text_delta"):
    """A delta of a text block."""

    text: str


class InputJSONDelta(Struct, gc=False, tag_field="type", tag="input_json_delta"):
    """A delta of a call's input."""

    text: str = field(name="partial_json")


class ThinkingDelta(Struct, gc=False, tag_field="type", tag="thinking_delta"):
    """A delta of a thinking block, with text only.

    The beta `thinking-token-count-2026-05-13` adds an estimate to some deltas, which are
    therefore read in full.
    """

    text: str = field(name="thinking")
    estimated_tokens: None = None


Delta: TypeAlias = TextDelta | InputJSONDelta | ThinkingDelta


class ContentBlockDelta(Struct, gc=False, tag_field="type", tag="content_block_delta"):
    """A `content_block_delta` with text, tool input or thinking."""

    index: int
    delta: Delta


_DELTA: msgspec.json.Decoder[ContentBlockDelta] = msgspec.json.Decoder(ContentBlockDelta)
decode_delta = _DELTA.decode


class RawBlock(Struct):
    """A content block with its input as JSON text."""

    input: msgspec.Raw = msgspec.Raw()


class RawBlockStart(Struct):
    """A `content_block_start` with the block's input as JSON text."""

    content_block: RawBlock


_RAW_START: msgspec.json.Decoder[RawBlockStart] = msgspec.json.Decoder(RawBlockStart)
decode_raw_start = _RAW_START.decode


class RawMessage(Struct):
    """The message in a `message_start`, with its blocks' inputs as JSON text."""

    content: list[RawBlock] = []


class RawMessageStart(Struct):
    """A `message_start` with the blocks' inputs as JSON text."""

    message: RawMessage


_RAW_MESSAGE: msgspec.json.Decoder[RawMessageStart] = msgspec.json.Decoder(RawMessageStart)
decode_raw_message = _RAW_MESSAGE.decode
