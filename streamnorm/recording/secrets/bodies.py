"""The credentials in the body of a request, whatever its format and its content coding."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import chain, pairwise
from typing import NamedTuple
from urllib.parse import unquote_plus

from streamnorm._core.json import InvalidJSON, decode_any
from streamnorm._core.limits import Limits
from streamnorm.http.codings import CONTENT_ENCODING, CodingDecoder, CodingError, content_codings
from streamnorm.recording.secrets.credentials import find_in_header, find_in_json, is_secret_field

# Providers refuse larger requests; a few compressed bytes may stand for a gigabyte.
_MAX_DECODED_BYTES = 32 * 1024 * 1024
_MAX_DEPTH = Limits().max_json_depth

_GZIP_MAGIC = b"\x1f\x8b"
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

# The quantifiers are possessive, so that each text is read once.
_JSON_FIELD = re.compile(r'"([A-Za-z][A-Za-z0-9_-]{0,63})"\s*+:\s*+"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_FORM = re.compile(r"[^\s=&]+=[^\s&]*(?:&[^\s&]*)*")
_FORM_FIELD = re.compile(r"(?:^|&)([^=&]*)=([^&]*)")
_BOUNDARY = re.compile(r'boundary="?([^\s";,]{1,70})', re.IGNORECASE)
_PART_NAME = re.compile(r'(?:^|[;\s])name="?([^";]{1,200})', re.IGNORECASE)
_END_OF_HEADERS = re.compile(r"\r?\n\r?\n")


class Field(NamedTuple):
    """A credential in a text.

    Attributes:
        start: Offset at which it is spelt.
        end: Offset behind it; equal to `start` if the value is only to be searched for.
        value: The credential, decoded.
    """

    start: int
    end: int
    value: str


def text_of(body: bytes, headers: Iterable[tuple[str, str]]) -> tuple[str, bool]:
    """Return the text of a body without its content codings, and whether it is the whole body.

    It is not for a body that is no text, that is damaged, or that is too large once decoded:
    then the text serves only to search for credentials.
    """
    names = ",".join(value for name, value in headers if name.lower() == CONTENT_ENCODING)
    is_whole = True
    # Without a header, a body may be compressed all the same.
    for coding in reversed(content_codings(names) or ["gzip"]):
        if coding not in ("deflate", "gzip"):
            is_whole = False
            continue
        body, is_complete = _decode(body, coding)
        is_whole &= is_complete
    encoding = "utf-16" if body.startswith(_UTF16_MARKS) else "utf-8-sig"
    try:
        return body.decode(encoding), is_whole
    except UnicodeDecodeError:
        return body.decode(encoding, "replace"), False


def _decode(body: bytes, coding: str) -> tuple[bytes, bool]:
    """Return a body without a coding, and whether that is the whole body.

    Some clients name a coding that they do not use: a body that has none is returned as it is.
    """
    if coding == "gzip" and not body.startswith(_GZIP_MAGIC):
        return body, True
    decoder = CodingDecoder(coding, _MAX_DECODED_BYTES)
    content = BytesIO()
    try:
        content.writelines(decoder.feed(body))
        decoder.close()
    except CodingError as exc:
        if coding == "deflate" and exc.fault == "corrupt":
            return body, False
        return content.getvalue(), exc.fault == "trailing"
    return content.getvalue(), True


def find_in_text(text: str, kind: str) -> Iterator[Field]:
    """Yield the credentials in a text that is not one JSON value; they may overlap.

    Args:
        text: The body of a request.
        kind: Its content type.
    """
    kind_name = kind.partition(";")[0].strip().lower()
    boundary = _BOUNDARY.search(kind) if kind_name.startswith("multipart/") else None
    if boundary is not None:
        yield from _find_in_parts(text, boundary[1])
    elif kind_name.endswith("form-urlencoded") or (not kind and _FORM.fullmatch(text)):
        yield from _find_fields(_FORM_FIELD, text, unquote_plus)
    yield from _find_in_lines(text)
    yield from _find_fields(_JSON_FIELD, text, _unquote)


def _find_fields(
    pattern: re.Pattern[str], text: str, decode: Callable[[str], str]
) -> Iterator[Field]:
    for match in pattern.finditer(text):
        if is_secret_field(decode(match[1])):
            yield Field(*match.span(2), decode(match[2]))


def _find_in_parts(text: str, boundary: str) -> Iterator[Field]:
    """Yield the credentials in the parts of `multipart/form-data` and the like (RFC 7578)."""
    delimiters = (match.span() for match in re.finditer(re.escape(f"--{boundary}"), text))
    # A line end belongs to the delimiter behind it.
    last = (len(text) + len("\r\n"), 0)
    for (_, start), (next_start, _) in pairwise(chain(delimiters, [last])):
        end = next_start - len("\r\n")
        headers_end = _END_OF_HEADERS.search(text, start, next_start)
        if headers_end is not None:
            yield from _find_in_part(text, start, headers_end, max(end, headers_end.end()))


def _find_in_part(text: str, start: int, headers_end: re.Match[str], end: int) -> Iterator[Field]:
    content_start = headers_end.end()
    for line in text[start : headers_end.start()].splitlines():
        name, _, value = line.partition(":")
        for credential in find_in_header(name.strip(), value.strip()):
            yield Field(0, 0, credential)
        part_name = _PART_NAME.search(value)
        if name.strip().lower() != "content-disposition" or part_name is None:
            continue
        if is_secret_field(part_name[1].strip()):
            yield Field(content_start, end, text[content_start:end])


def _find_in_lines(text: str) -> Iterator[Field]:
    """Yield the credentials in lines of JSON (NDJSON, JSON Lines), up to one that is no JSON."""
    for line in text.splitlines():
        if not line.strip():
            continue
        try:
            value = decode_any(line, max_depth=_MAX_DEPTH)
        except InvalidJSON:
            return
        for credential in find_in_json(value):
            yield Field(0, 0, credential)


def _unquote(quoted: str) -> str:
    """Return the meaning of a JSON string without its quotes; itself if it is no JSON."""
    try:
        value = decode_any(f'"{quoted}"', max_depth=1)
    except InvalidJSON:
        return quoted
    return str(value)
