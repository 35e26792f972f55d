"""The shape of what comes often in a Gemini stream: a chunk of nothing but text.

https://ai.google.dev/api/generate-content (read 2026-11-22).  All else comes a few times
a message and is read as plain JSON, so that fields nobody knows yet are kept; only tool
arguments are taken as they stand on the wire.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct

__all__ = [
    "DIALECT",
    "PIECES",
    "Counts",
    "RawPart",
    "TextChunk",
    "decode_text",
    "raw_parts",
]

DIALECT = "gemini"

Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Counts(Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """The token counts that a chunk tells; the rest, which hardly ever changes, as it stands."""

    prompt_token_count: Count | None = None
    candidates_token_count: Count | None = None
    total_token_count: Count | None = None
    thoughts_token_count: Count | None = None
    cached_content_token_count: Count | None = None
    tool_use_prompt_token_count: Count | None = None
    prompt_tokens_details: Raw = Raw()
    candidates_tokens_details: Raw = Raw()
    cache_tokens_details: Raw = Raw()
    tool_use_prompt_tokens_details: Raw = Raw()
    traffic_type: Raw = Raw()
    service_tier: Raw = Raw()


class TextPart(Struct, gc=False, forbid_unknown_fields=True):
    """More text, or more of a thought."""

    text: str
    thought: bool = False


class TextContent(Struct, gc=False, forbid_unknown_fields=True):
    """The one part."""

    parts: tuple[TextPart]
    role: str | None = None


class TextCandidate(Struct, gc=False, forbid_unknown_fields=True):
    """One answer's part of a chunk, which does not end it."""

    content: TextContent
    index: Literal[0] = 0


class TextChunk(Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """One frame's payload."""

    candidates: tuple[TextCandidate]
    usage_metadata: Counts | None = None
    model_version: str | None = None
    response_id: str | None = None
    create_time: str | None = None
    prompt_feedback: None = None
    error: None = None


_TEXT: msgspec.json.Decoder[TextChunk] = msgspec.json.Decoder(TextChunk)
decode_text = _TEXT.decode


class RawCall(Struct):
    """A call, for the text of its arguments."""

    args: Raw = Raw()


class RawPart(Struct, rename="camel"):
    """A part, for the JSON text within it."""

    function_call: RawCall | None = None
    tool_call: Raw = Raw()
    executable_code: Raw = Raw()


class RawContent(Struct):
    """The parts."""

    parts: list[RawPart] | None = None


class RawCandidate(Struct):
    """The answer around them."""

    content: RawContent | None = None


class RawChunk(Struct):
    """The payload around it."""

    candidates: list[RawCandidate] | None = None


class RawFrame(RawChunk):
    """A payload that may stand within another, as Code Assist sends it."""

    response: RawChunk | None = None


_RAW: msgspec.json.Decoder[RawFrame] = msgspec.json.Decoder(RawFrame)


def raw_parts(data: str) -> list[list[RawPart]]:
    """Return the parts of each candidate of a frame.

    Raises:
        msgspec.MsgspecError: They have no such shape.
    """
    frame = _RAW.decode(data)
    candidates = frame.candidates
    if candidates is None:
        candidates = frame.response.candidates if frame.response is not None else None
    contents = [candidate.content for candidate in candidates or ()]
    return [(content.parts or []) if content is not None else [] for content in contents]


PIECES = frozenset(
    {"response", "candidates", "content", "parts", "text"}
    | {"functionCall", "partialArgs", "stringValue"}
)
"""The keys whose strings are pieces of a longer text, and those on the way to them."""
