"""The shape of what comes often in a Responses stream: pieces of an item.

https://platform.openai.com/docs/api-reference/responses-streaming (read 2026-11-21).  All
else comes a few times a response and is read as plain JSON, so that fields nobody knows
yet are kept.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import msgspec
from msgspec import Struct, field

__all__ = [
    "NAMES",
    "PIECES",
    "ArgumentsDelta",
    "Piece",
    "ReasoningTextDelta",
    "SummaryTextDelta",
    "TextDelta",
    "decode_piece",
]


class TextDelta(Struct, gc=False, tag_field="type", tag="response.output_text.delta"):
    """More text of a content part."""

    delta: str
    output_index: int | None = None
    item_id: str | None = None
    part: int | None = field(default=None, name="content_index")
    sequence_number: int | None = None
    logprobs: tuple[()] | None = ()  # nearly nobody asks for them


class ArgumentsDelta(
    Struct, gc=False, tag_field="type", tag="response.function_call_arguments.delta"
):
    """More arguments of a function call."""

    part: ClassVar[None] = None  # there is but one

    delta: str
    output_index: int | None = None
    item_id: str | None = None
    sequence_number: int | None = None


class SummaryTextDelta(
    Struct, gc=False, tag_field="type", tag="response.reasoning_summary_text.delta"
):
    """More of a summary of reasoning."""

    delta: str
    output_index: int | None = None
    item_id: str | None = None
    part: int | None = field(default=None, name="summary_index")
    sequence_number: int | None = None


class ReasoningTextDelta(Struct, gc=False, tag_field="type", tag="response.reasoning_text.delta"):
    """More of the reasoning itself."""

    delta: str
    output_index: int | None = None
    item_id: str | None = None
    part: int | None = field(default=None, name="content_index")
    sequence_number: int | None = None


Piece: TypeAlias = TextDelta | ArgumentsDelta | SummaryTextDelta | ReasoningTextDelta

NAMES: dict[type[Piece], str] = {
    TextDelta: "response.output_text.delta",
    ArgumentsDelta: "response.function_call_arguments.delta",
    SummaryTextDelta: "response.reasoning_summary_text.delta",
    ReasoningTextDelta: "response.reasoning_text.delta",
}
"""Their types, which the names of their events are, too."""

_PIECE: msgspec.json.Decoder[Piece] = msgspec.json.Decoder(Piece)
decode_piece = _PIECE.decode

PIECES = frozenset({"delta"})
"""The keys whose strings are pieces of a longer text."""
