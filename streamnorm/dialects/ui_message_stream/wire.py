"""Wire structs and chunk helpers of the UI message stream.

npm `ai` 7.0.173, 6.0.326 and 5.0.277, `src/ui-message-stream/ui-message-chunks.ts` (read
2026-11-23).  The schema refuses a whole stream for one chunk: an unknown type, a `null` in an
optional field.  An absent field is therefore left out.
"""

from __future__ import annotations

from typing import Any, final

import msgspec
from msgspec import Struct

from streamnorm._core.failures import malformed
from streamnorm._core.json import FAST_ERRORS, compact, dumps, is_object
from streamnorm._core.shapes import found

DIALECT = "ui_message_stream"

DONE_FRAME = b"data: [DONE]\n\n"

OWN = "streamnorm"
"""Key of `providerMetadata` for what the keys of the AI SDK's own providers do not hold."""

Chunk = dict[str, Any]


def chunk(fields: Chunk) -> bytes:
    """Return the frame of a chunk."""
    return b"data: %b\n\n" % dumps(fields)


def with_metadata(fields: Chunk, metadata: dict[str, Any]) -> Chunk:
    """Return the fields of a chunk, with `providerMetadata` if it is not empty."""
    return {**fields, "providerMetadata": metadata} if metadata else fields


def is_refused(value: object) -> bool:
    """Return whether the client refuses a value because of a key such as `__proto__`.

    `secure-json-parse.ts` of `@ai-sdk/provider-utils` 5.0.81 does so for a key that reaches a
    prototype.
    """
    left = [value]
    while left:
        found = left.pop()
        if is_object(found):
            owner = found.get("constructor")
            if "__proto__" in found or (is_object(owner) and "prototype" in owner):
                return True
            left += found.values()
        elif isinstance(found, list):
            left += found
    return False


def text_field(value: Chunk, name: str) -> str:
    """Return a text field, which may end in half a surrogate pair.

    Raises:
        Fatal: The field is absent or has another type.
    """
    text = value.get(name)
    if isinstance(text, str):
        return text
    raise malformed(f"{name} is {found(text)}, expected a string")


# Only these have structs: nearly every chunk of a stream is one of them.
class TextDelta(Struct, gc=False, tag="text-delta"):
    """A `text-delta` chunk."""

    id: str
    delta: str
    providerMetadata: Any = None  # noqa: N815 - the protocol's


class ReasoningDelta(Struct, gc=False, tag="reasoning-delta"):
    """A `reasoning-delta` chunk."""

    id: str
    delta: str
    providerMetadata: Any = None  # noqa: N815 - the protocol's


@final
class InputDelta(Struct, gc=False, tag="tool-input-delta"):
    """A `tool-input-delta` chunk."""

    toolCallId: str  # noqa: N815 - the protocol's
    inputTextDelta: str  # noqa: N815 - the protocol's


class _Input(Struct):
    input: msgspec.Raw


_DELTA: msgspec.json.Decoder[TextDelta | ReasoningDelta | InputDelta] = msgspec.json.Decoder(
    TextDelta | ReasoningDelta | InputDelta
)
decode_delta = _DELTA.decode
_INPUT: msgspec.json.Decoder[_Input] = msgspec.json.Decoder(_Input)

DELTA_TEXT_FIELDS = frozenset({"delta", "inputTextDelta"})
"""Fields whose text may end in half a surrogate pair."""


def input_text(data: str, value: object) -> str:
    """Return the JSON text of a chunk's `input`, byte for byte.

    Args:
        data: The chunk.
        value: The decoded `input`.
    """
    try:
        return bytes(_INPUT.decode(data).input).decode()
    except FAST_ERRORS:  # a lone surrogate
        return compact(value)
