"""Wire structs and field names of Gemini.

https://ai.google.dev/api/generate-content (read 2026-11-22).  Other chunks come a few times
a message and are read as plain JSON, so that unknown fields are kept.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct

from streamnorm._core.errors import DecodeError
from streamnorm._core.events import StreamError
from streamnorm._core.failures import Fatal
from streamnorm._core.json import encode_line, is_object

DIALECT = "gemini"

Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Counts(Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """Token counts of a chunk; rarely changing fields are not decoded."""

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
    """A candidate of text that has no `finishReason` yet."""

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
    """A tool call, with its arguments as undecoded JSON."""

    args: Raw = Raw()


class RawPart(Struct, rename="camel"):
    """A part, with its tool call as undecoded JSON."""

    function_call: RawCall | None = None
    tool_call: Raw = Raw()
    executable_code: Raw = Raw()


class RawContent(Struct):
    """The content of a candidate, with its tool calls as undecoded JSON."""

    parts: list[RawPart] | None = None


class RawCandidate(Struct):
    """A candidate, with its tool calls as undecoded JSON."""

    content: RawContent | None = None


class RawChunk(Struct):
    """A chunk, with its tool calls as undecoded JSON."""

    candidates: list[RawCandidate] | None = None


class RawFrame(RawChunk):
    """The payload of a frame: a chunk, with or without Code Assist's envelope."""

    response: RawChunk | None = None


_RAW: msgspec.json.Decoder[RawFrame] = msgspec.json.Decoder(RawFrame)


def raw_parts(data: str) -> list[list[RawPart]]:
    """Return the parts of each candidate, with tool calls as undecoded JSON.

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
    """Return JSON text on one line, to embed in a payload unchanged."""
    return Raw(encode_line(text))


# Names of fields in bodies.  Readers accept `lowerCamelCase` and the `snake_case` of the protocol
# buffers (https://protobuf.dev/programming-guides/json/, read 2026-11-23); several clients mix
# both in one request.  An unknown field of an inner object stands in `extra` under its path, such
# as `generationConfig.speechConfig`, so that a loss names the field.

_INNER = frozenset(
    {"functionCall", "functionResponse", "inlineData", "fileData", "streamableHttpTransport"}
    | {"generationConfig", "toolConfig", "functionCallingConfig"}
)
"""Inner objects whose unknown fields stand in `extra` under a path."""
_MAX_STEPS = 2  # from the outer object: a client may give a field of its own a dotted name
_SNAKE = re.compile(r"_([a-z0-9])")
_SNAKE_NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")


def to_camel(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object with its field names in `lowerCamelCase`; inner objects stay unchanged.

    Raises:
        DecodeError: A field is present in both spellings.
    """
    for name in value:
        if "_" in name:
            return _convert_names(value)
    return value


def wrap_singles(wire: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return `wire` with a single object in a repeated field wrapped in an array.

    The API accepts one object for an array of one; the vendor's examples write `contents` and
    `parts` so (https://ai.google.dev/gemini-api/docs/system-instructions, read 2026-11-23).

    Args:
        wire: The object.
        names: Names of its repeated fields.
    """
    single = {name: [wire[name]] for name in names if is_object(wire.get(name))}
    return {**wire, **single} if single else wire


def _convert_names(value: dict[str, Any]) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    for name, item in value.items():
        spelt = _SNAKE.sub(_to_upper, name) if _SNAKE_NAME.fullmatch(name) else name
        if spelt in converted:
            raise DecodeError("field in both spellings, expected one", path=f"$.{spelt}")
        converted[spelt] = item
    return converted


def _to_upper(match: re.Match[str]) -> str:
    return match[1].upper()


def extra_of(fields: dict[str, Any]) -> dict[str, dict[str, Any]] | None:
    """Return unknown fields as `extra`; None if there are none."""
    return {DIALECT: fields} if fields else None


def add_extra(wire: dict[str, Any], extra: dict[str, dict[str, Any]] | None) -> dict[str, Any]:
    """Add the unknown fields in `extra` to `wire`; return `wire`."""
    return add_fields(wire, extra.get(DIALECT, {})) if extra else wire


def add_fields(wire: dict[str, Any], unknown: dict[str, Any]) -> dict[str, Any]:
    """Add unknown fields to `wire`, without replacing existing fields; return `wire`."""
    for path, item in unknown.items():
        holder, name = wire, path
        for _ in range(_MAX_STEPS):
            outer, dot, inner = name.partition(".")
            found = holder.setdefault(outer, {}) if dot and outer in _INNER else None
            if not is_object(found):
                break
            holder, name = found, inner
        holder.setdefault(name, item)
    return wire
