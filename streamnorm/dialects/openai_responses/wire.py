"""Delta events of a Responses stream.

https://platform.openai.com/docs/api-reference/responses-streaming (read 2026-11-21).  All
other events come a few times a response and are read as plain JSON, so that unknown fields
are kept.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import msgspec
from msgspec import Struct, field

from streamnorm.dialects.openai_responses.items import types

DIALECT = "openai_responses"

ENCRYPTED_REASONING = "reasoning.encrypted_content"
"""Entry of `include` that asks for reasoning which can be sent back without being stored."""


class _Delta(Struct, gc=False, tag_field="type"):
    delta: str
    output_index: int | None = None
    item_id: str | None = None
    sequence_number: int | None = None


class OutputTextDelta(_Delta, tag=types.OUTPUT_TEXT.delta):
    """A delta of an `output_text` part."""

    part: int | None = field(default=None, name=types.OUTPUT_TEXT.index_key)
    logprobs: tuple[()] | None = ()  # others fail to decode, so that the frame is read in full


class ArgumentsDelta(_Delta, tag=types.ARGUMENTS.delta):
    """A delta of the arguments of a function call."""

    part: ClassVar[None] = None  # a call has no parts


class SummaryTextDelta(_Delta, tag=types.SUMMARY_TEXT.delta):
    """A delta of a reasoning summary."""

    part: int | None = field(default=None, name=types.SUMMARY_TEXT.index_key)


class ReasoningTextDelta(_Delta, tag=types.REASONING_TEXT.delta):
    """A delta of a `reasoning_text` part."""

    part: int | None = field(default=None, name=types.REASONING_TEXT.index_key)


DeltaEvent: TypeAlias = OutputTextDelta | ArgumentsDelta | SummaryTextDelta | ReasoningTextDelta

DELTA_TYPES: dict[type[DeltaEvent], str] = {
    OutputTextDelta: types.OUTPUT_TEXT.delta,
    ArgumentsDelta: types.ARGUMENTS.delta,
    SummaryTextDelta: types.SUMMARY_TEXT.delta,
    ReasoningTextDelta: types.REASONING_TEXT.delta,
}
"""Event types of the structs; the event line of their frames has the same value."""

_DELTA: msgspec.json.Decoder[DeltaEvent] = msgspec.json.Decoder(DeltaEvent)
decode_delta = _DELTA.decode

DELTA_KEYS = frozenset({"delta"})
"""Keys whose strings may end in half a surrogate pair."""
