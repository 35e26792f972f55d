"""Decoding of a request's body to the text that is searched for credentials."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from io import BytesIO

from streamnorm.http.codings import CONTENT_ENCODING, CodingDecoder, CodingError, content_codings

# Providers refuse larger requests; a few compressed bytes may stand for a gigabyte.
_MAX_DECODED_BYTES = 32 * 1024 * 1024

_GZIP_MAGIC = b"\x1f\x8b"
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_CONTROL_CHARACTER = re.compile(_CONTROL.pattern.decode())


def text_of(body: bytes, headers: Iterable[tuple[str, str]]) -> tuple[str, bool]:
    """Return a body's decoded text, and whether it is complete.

    It is not for a body that is no text, that is damaged, or that is too large once decoded:
    then the text serves only to search for credentials.
    """
    names = ",".join(value for name, value in headers if name.lower() == CONTENT_ENCODING)
    is_whole = True
    # Without a header, a body may be compressed all the same.
    for coding in reversed(content_codings(names) or ["gzip"]):
        body, is_complete = _decode_body(body, coding)
        is_whole &= is_complete
    encoding = "utf-16" if body.startswith(_UTF16_MARKS) else "utf-8-sig"
    try:
        return body.decode(encoding), is_whole
    except UnicodeDecodeError:
        return body.decode(encoding, "replace"), False


def has_control_characters(text: str) -> bool:
    """Return whether a text has control characters, as a binary file does that is UTF-8 by chance.

    In JSON, each is an escape of six characters.
    """
    return _CONTROL_CHARACTER.search(text) is not None


def _decode_body(body: bytes, coding: str) -> tuple[bytes, bool]:
    """Return a body without one content coding, and whether it is complete.

    Some clients name a coding that they do not use: a body that has none is returned as it is.
    """
    if coding == "gzip" and not body.startswith(_GZIP_MAGIC):
        return body, True
    try:
        decoder = CodingDecoder(coding, _MAX_DECODED_BYTES)
    except (ModuleNotFoundError, ValueError):  # it is unknown, or its package is not installed
        return body, False
    content = BytesIO()
    try:
        content.writelines(decoder.feed(body))
        decoder.close()
    except CodingError as exc:
        # Deflate and br have no magic number: some of a text may decode to anything.
        if is_text(body):
            return body, False
        return content.getvalue(), exc.fault == "trailing"
    return content.getvalue(), True


def is_text(body: bytes) -> bool:
    """Return whether a body is UTF-8 without control characters.

    A compressed body of more than a few bytes is not, as its codes and checksums are any bytes.
    """
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return not _CONTROL.search(body)
