"""Chunks that are known but for their text.

Nearly every chunk of a stream has the bytes of the one before, with another text.  Once a
chunk has been read, its bytes before and behind the text can be compared instead of
decoded again, which takes a third of the time; the string between them is always decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from streamnorm._core.json import FAST_ERRORS

__all__ = ["Template", "learn_template"]

Template: TypeAlias = Callable[[bytes], str | None]
"""Return the text of a chunk that is known but for that; None of any other."""

_MAX_BYTES = 4096  # of a chunk that is worth knowing
_PROBE = "?"
# What OpenAI and Mistral add against traffic analysis: other letters in each chunk.
_PADDING = re.compile(rb'"(?:obfuscation|p)" *: *"([0-9A-Za-z]*)"')

_STRING: msgspec.json.Decoder[str] = msgspec.json.Decoder(str)
_decode_string = _STRING.decode
_encode_string = msgspec.json.encode


def learn_template(
    payload: bytes, text: str, peek: Callable[[bytes], str | None]
) -> Template | None:
    """Return a template of the chunks that are like one that was read; None if that is not safe.

    Args:
        payload: The chunk.
        text: Its text.
        peek: Returns the text of a chunk, if that may be another in each; it changes nothing.
    """
    literal = _encode_string(text)
    if len(payload) > _MAX_BYTES or payload.count(literal) != 1:
        return None
    head, _, tail = payload.partition(literal)
    padding = _PADDING.search(tail)
    middle, end = (tail[: padding.start(1)], tail[padding.end(1) :]) if padding else (b"", tail)
    try:
        # The string is the text, then, whatever it is, and nothing else changes with it.
        if peek(head + _encode_string(_PROBE) + middle + end) != _PROBE:
            return None
    except FAST_ERRORS:
        return None
    if middle:
        return _template(head + b'"', b'"' + middle, end)
    return _template(head + b'"', b"", b'"' + end)


def _template(head: bytes, middle: bytes, end: bytes) -> Template:
    """Return a template of chunks that have the same bytes around their text.

    Args:
        head: Those before it.
        middle: Those between it and padding; nothing if there is none.
        end: Those behind that.
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
