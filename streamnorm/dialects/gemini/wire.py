"""Wire structs of Gemini: chunks of text, and the JSON text of tool arguments.

https://ai.google.dev/api/generate-content (read 2026-11-22).  Other chunks come a few times
a message and are read as plain JSON, so that unknown fields are kept.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct

from streamnorm._core.events import StreamError
from streamnorm._core.failures import Fatal

DIALECT = "gemini"

Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Counts(Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """Token counts of a chunk; fields that hardly ever change stay JSON text."""

    prompt_token_count: Count | None = None
    candidates_token_count: Count | None = None
    total_token_count: Count | None = None
    thoughts_token_count: Count | None = None
    cached_content_token_count: Count | None = None
    tool_use_prompt_token_count: Count | None = None
    # By modality: equal from chunk to chunk, so that comparing their text is enough.
    prompt_tokens_details: Raw = Raw()
    candidates_tokens_details: Raw = Raw()
    cache_tokens_details: Raw = Raw()
    tool_use_prompt_tokens_details: Raw = Raw()
    traffic_type: Raw = Raw()
    service_tier: Raw = Raw()


class TextPart(Struct, gc=False, forbid_unknown_fields=True):
    """A fragment of text or of a thought."""

    text: str
    thought: bool = False


class TextContent(Struct, gc=False, forbid_unknown_fields=True):
    """Content of exactly one part."""

    parts: tuple[TextPart]
    role: str | None = None


class TextCandidate(Struct, gc=False, forbid_unknown_fields=True):
    """A candidate without a finish reason."""

    content: TextContent
    # Left out by protobuf, since it is 0.
    index: Literal[0] = 0


class TextChunk(Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """Payload of a frame that only extends text.

    A chunk with any other field is read in full, which is slow: a field that a server adds to
    every chunk must be listed here.
    """

    candidates: tuple[TextCandidate]
    usage_metadata: Counts | None = None
    model_version: str | None = None
    response_id: str | None = None
    # Vertex AI, in every chunk.
    create_time: str | None = None
    prompt_feedback: None = None
    error: None = None


_TEXT: msgspec.json.Decoder[TextChunk] = msgspec.json.Decoder(TextChunk)
decode_text = _TEXT.decode


class RawCall(Struct):
    """A call with the JSON text of its arguments."""

    args: Raw = Raw()


class RawPart(Struct, rename="camel"):
    """A part with the JSON text of its calls."""

    function_call: RawCall | None = None
    tool_call: Raw = Raw()
    executable_code: Raw = Raw()


class RawContent(Struct):
    """Content of a candidate."""

    parts: list[RawPart] | None = None


class RawCandidate(Struct):
    """A candidate of a chunk."""

    content: RawContent | None = None


class RawChunk(Struct):
    """A chunk."""

    candidates: list[RawCandidate] | None = None


class RawFrame(RawChunk):
    """Payload of a frame: a chunk, or Code Assist's envelope around one."""

    response: RawChunk | None = None


_RAW: msgspec.json.Decoder[RawFrame] = msgspec.json.Decoder(RawFrame)


def raw_parts(data: str) -> list[list[RawPart]]:
    """Return the parts of each candidate of a frame.

    Raises:
        msgspec.MsgspecError: The frame has another structure.
    """
    frame = _RAW.decode(data)
    candidates = frame.candidates
    # Code Assist's envelope (code-assist/wrapped).
    if candidates is None:
        candidates = frame.response.candidates if frame.response is not None else None
    contents = [candidate.content for candidate in candidates or ()]
    return [(content.parts or []) if content is not None else [] for content in contents]


_DATA = frozenset(
    {"text", "functionCall", "functionResponse", "toolCall", "toolResponse", "executableCode"}
    | {"codeExecutionResult", "inlineData", "fileData"}
)
"""Data fields, of which a part has one."""
MODIFIERS = frozenset(
    {"thought", "thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution"}
)
"""Fields of a part that modify its data."""


def data_field(part: dict[str, Any]) -> str:
    """Return the name of a part's data field.

    Raises:
        Fatal: The part has several data fields.
    """
    fields = [key for key in part if key not in MODIFIERS and part[key] is not None]
    data = [key for key in fields if key in _DATA and (key != "text" or part[key] != "")]
    if len(data) > 1:
        raise Fatal(StreamError("malformed", f"part with {' and '.join(data)}, expected one"))
    return (data or fields or ["text"])[0]


PIECES = frozenset(
    {"response", "candidates", "content", "parts", "text"}
    | {"functionCall", "partialArgs", "stringValue"}
)
"""Keys whose strings are fragments of a longer text, and the keys on the way to them.

Half of a surrogate pair at the end of such a string is joined with its other half.  In the text
field of a server that is missing here, characters that are cut in two are lost."""


def raw_json(text: str) -> Raw:
    """Return JSON text to be embedded in a payload unchanged, on one line."""
    # JSON has line ends only between its tokens.
    return Raw(text.replace("\r", " ").replace("\n", " ").encode("utf-8", "replace"))
