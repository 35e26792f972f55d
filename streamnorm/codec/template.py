"""Frames that are known but for their text.

Nearly every frame of a stream has the bytes of the one before, with another text.  Once a
frame has been decoded and accepted, its bytes before and behind the text can be compared
instead of decoded again; the string between them is always decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import msgspec

from streamnorm._json import FAST_ERRORS

__all__ = [
    "Surroundings",
    "Template",
    "constant_template",
    "decode_string",
    "padded_template",
    "string_pattern",
    "surroundings",
]

Template: TypeAlias = Callable[[bytes], str | None]
"""Return the text of a frame that is known but for that; None of any other."""

_MAX_BYTES = 4096  # of a frame that is worth knowing

_DECODER: msgspec.json.Decoder[str] = msgspec.json.Decoder(str)
decode_string = _DECODER.decode


class Surroundings(NamedTuple):
    """What stands around the text of a frame.

    Attributes:
        head: The bytes before it, its opening quote included.
        tail: The bytes behind it, from its closing quote on.
    """

    head: bytes
    tail: bytes


def string_pattern(*keys: str) -> re.Pattern[bytes]:
    """Return a pattern of a member with one of some keys and a string, which is group 1."""
    names = "|".join(keys).encode()
    return re.compile(rb'"(?:%b)"[ \t]*:[ \t]*"((?:[^"\\]|\\.)*)"' % names)


def surroundings(
    raw: bytes, member: re.Pattern[bytes], reads_as: Callable[[bytes], bool]
) -> Surroundings | None:
    """Return what stands around the text of a frame, if that can be told.

    Args:
        raw: A frame that was accepted.
        member: The pattern of the text.
        reads_as: Whether a frame that has `?` as text is accepted, and has that text: then
            the text is what the pattern has found, and nothing else of the frame is.
    """
    found = list(member.finditer(raw)) if len(raw) <= _MAX_BYTES else []
    if len(found) != 1:
        return None
    head, tail = raw[: found[0].start(1)], raw[found[0].end(1) :]
    return Surroundings(head, tail) if reads_as(head + b"?" + tail) else None


def constant_template(head: bytes, tail: bytes) -> Template:
    """Return a template of frames that have the same bytes around their text."""
    start, stop = len(head), -len(tail)

    def read(raw: bytes) -> str | None:
        if raw[:start] != head or raw[stop:] != tail:
            return None
        try:
            return decode_string(raw[start - 1 : stop + 1])
        except FAST_ERRORS:
            return None

    return read


def padded_template(head: bytes, middle: bytes, tail: bytes) -> Template:
    """Return a template of frames with letters and digits, which mean nothing, behind the text.

    Args:
        head: The bytes before the text.
        middle: Those between the text and the padding.
        tail: Those behind the padding.
    """
    start, skip, stop = len(head), len(middle), -len(tail)

    def read(raw: bytes) -> str | None:
        if raw[:start] != head or raw[stop:] != tail:
            return None
        end = raw.rfind(middle)
        padding = raw[end + skip : stop]
        if padding and not padding.isalnum():
            return None
        try:
            return decode_string(raw[start - 1 : end + 1])
        except FAST_ERRORS:
            return None

    return read
