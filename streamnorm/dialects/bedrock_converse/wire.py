"""Wire structs and field sets of `ConverseStream`.

botocore 1.44.5, `bedrock-runtime/2023-09-30/service-2.json` (read 2026-11-23).  Only deltas of
text, reasoning and tool input have structs.  All other payloads are decoded as plain JSON, so
that unknown fields are kept.

Nearly every payload of Amazon's has padding, `p`, which is no content.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, final

import msgspec
from msgspec import Struct

from streamnorm._core.failures import malformed
from streamnorm._core.shapes import found

DIALECT = "bedrock_converse"

MESSAGE_START = "messageStart"
BLOCK_START = "contentBlockStart"
BLOCK_DELTA = "contentBlockDelta"
BLOCK_STOP = "contentBlockStop"
MESSAGE_STOP = "messageStop"
METADATA = "metadata"

INDEX = "contentBlockIndex"
REASONING = "reasoningContent"
PADDING = "p"

DELTA_TEXT_FIELDS = frozenset({"delta", "text", "toolUse", "input", "reasoningContent"})
"""Fields whose text may end in half a surrogate pair, and the fields that lead to them."""


def unknown_fields(value: dict[str, Any], *mapped: str) -> dict[str, Any]:
    """Return an object's fields that are not null, padding or mapped to a unified field."""
    return {
        key: item
        for key, item in value.items()
        if key not in mapped and key != PADDING and item is not None
    }


def text_of(value: dict[str, Any], field: str) -> str:
    """Return a text field, which may end in half a surrogate pair; "" for null.

    Raises:
        Fatal: The field has another type.
    """
    text = value.get(field)
    if text is None or isinstance(text, str):
        return text or ""
    raise malformed(f"{field} is {found(text)}, expected a string")


# A union has one member: a delta with any other field is read in full.
@final
class TextDelta(Struct, gc=False, forbid_unknown_fields=True):
    """A delta of text."""

    text: str


class ToolInput(Struct, gc=False, rename={"text": "input"}, forbid_unknown_fields=True):
    """The piece of a call's input in a delta."""

    text: str


class ToolInputDelta(Struct, gc=False, rename={"member": "toolUse"}, forbid_unknown_fields=True):
    """A delta of a call's input."""

    member: ToolInput


class ReasoningText(Struct, gc=False, forbid_unknown_fields=True):
    """The piece of reasoning in a delta."""

    text: str


class ReasoningDelta(
    Struct, gc=False, rename={"member": "reasoningContent"}, forbid_unknown_fields=True
):
    """A delta of reasoning."""

    member: ReasoningText


_Delta = TypeVar("_Delta")


class ContentBlockDelta(Struct, Generic[_Delta], gc=False, rename="camel"):
    """A `contentBlockDelta` with one kind of delta."""

    content_block_index: int
    delta: _Delta


_TEXT: msgspec.json.Decoder[ContentBlockDelta[TextDelta]] = msgspec.json.Decoder(
    ContentBlockDelta[TextDelta]
)
_INPUT: msgspec.json.Decoder[ContentBlockDelta[ToolInputDelta]] = msgspec.json.Decoder(
    ContentBlockDelta[ToolInputDelta]
)
_REASONING: msgspec.json.Decoder[ContentBlockDelta[ReasoningDelta]] = msgspec.json.Decoder(
    ContentBlockDelta[ReasoningDelta]
)
decode_text, decode_input, decode_reasoning = _TEXT.decode, _INPUT.decode, _REASONING.decode
