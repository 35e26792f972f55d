"""Templates of chunks that differ in their text alone.

Nearly every chunk of a stream equals the one before but for its text.  Once a chunk has been
read, the bytes before and after its text are compared instead of decoded, in a third of the
time; the string between them is always decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from streamnorm._core.json import FAST_ERRORS

__all__ = ["Template", "learn_template"]

Template: TypeAlias = Callable[[bytes], str | None]
"""Returns the text of a chunk that fits the template; None for any other chunk."""

_MAX_BYTES = 4096  # of a chunk that a template is learned from
_PROBE = "?"
# OpenAI and Mistral pad each chunk with random letters against traffic analysis.
_PADDING = re.compile(rb'"(?:obfuscation|p)" *: *"([0-9A-Za-z]*)"')

_STRING: msgspec.json.Decoder[str] = msgspec.json.Decoder(str)
_decode_string = _STRING.decode
_encode_string = msgspec.json.encode


def learn_template(
    payload: bytes, text: str, peek: Callable[[bytes], str | None]
) -> Template | None:
    """Return a template of the chunks that differ from one in their text; None if unsafe.

    Args:
        payload: A chunk that was read.
        text: Its text.
        peek: Returns the text of a chunk that has no other effect, without reading it.
    """
    literal = _encode_string(text)
    if len(payload) > _MAX_BYTES or payload.count(literal) != 1:
        return None
    head, _, tail = payload.partition(literal)
    padding = _PADDING.search(tail)
    middle, end = (tail[: padding.start(1)], tail[padding.end(1) :]) if padding else (b"", tail)
    try:
        # With another string in its place that string is the text, and nothing else changes.
        if peek(head + _encode_string(_PROBE) + middle + end) != _PROBE:
            return None
    except FAST_ERRORS:
        return None
    if middle:
        return _template(head + b'"', b'"' + middle, end)
    return _template(head + b'"', b"", b'"' + end)


def _template(head: bytes, middle: bytes, end: bytes) -> Template:
    """Return a template of chunks with the same bytes around their text.

    Args:
        head: Bytes before the text.
        middle: Bytes between text and padding; empty if there is no padding.
        end: Bytes after the padding, or after the text.
    """
    start, skip, stop = len(head), len(middle), -len(end)

    def read(payload: bytes) -> str | None:
        if payload[:start] != head or payload[stop:] != end:
            return None
        at = stop
        if skip:
            at = payload.rfind(middle)
            padding = payload[at + skip : stop]
            if padding and not padding.isalnum():
                return None
        try:
            return _decode_string(payload[start - 1 : at + 1])
        except FAST_ERRORS:
            return None

    return read
