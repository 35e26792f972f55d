"""An exchange of a foreign file, and the recording made of it."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from urllib.parse import urlsplit

from msgspec import UNSET, Struct, json, structs

from streamnorm._core.json import is_json
from streamnorm.recording.exchange import WireRequest
from streamnorm.recording.format import (
    Companion,
    RecordedRead,
    RecordedRequest,
    RecordedResponse,
    Suffix,
)
from streamnorm.recording.importing.yaml_reader import Unreadable
from streamnorm.recording.operations import dialect_of, server_of
from streamnorm.recording.recording import Recording
from streamnorm.recording.secrets import Secrets

__all__ = ["Entry", "checked", "decoded", "kind_of", "recording_of"]

_GZIP_MAGIC = b"\x1f\x8b"
_ZLIB_STARTS = (b"\x18", b"\x28", b"\x38", b"\x48", b"\x58", b"\x68", b"\x78")
_EVENT_START = re.compile(rb"(?:\xef\xbb\xbf)?(?:data|event|id|retry)?:")


class Entry(Struct, frozen=True):
    """An exchange of a foreign file, credentials included.

    Attributes:
        request: The request.
        status: HTTP status.
        headers: Headers of the response.
        body: Body of the response, after content decoding.
        companion: The companion, if `export_har` wrote the file; it takes precedence.
        reads: The reads of the body, if `export_har` wrote the file.
    """

    request: WireRequest
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    companion: Companion | None = None
    reads: list[RecordedRead] | None = None

    def __repr__(self) -> str:
        return f"Entry({self.request!r}, {self.status}, …)"


def checked(entry: Entry) -> Entry:
    """Return an entry after checking that it is an HTTP exchange.

    Raises:
        Unreadable: It is none.
    """
    request = entry.request
    try:
        url = urlsplit(request.url)
        is_http = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:  # a port that is no number, a bracket that is not closed
        is_http = False
    if not is_http:
        raise Unreadable("no http or https URL")
    if not (request.method.isascii() and request.method.isalpha()):
        raise Unreadable("no HTTP method")
    if not 100 <= entry.status <= 999:
        raise Unreadable("no HTTP status of three digits")
    return entry


def recording_of(entry: Entry) -> Recording:
    """Return the recording of an exchange, without its secrets."""
    secrets = Secrets()
    if entry.companion is not None:
        return _restored(entry, entry.companion, secrets)
    request = secrets.request(entry.request)
    headers = secrets.response_headers(entry.headers)
    body = secrets.scrub(entry.body)
    response = RecordedResponse(entry.status, headers, _suffix(kind_of(entry.headers), body))
    url = entry.request.url
    companion = Companion(1, dialect_of(url), server_of(url), "recorded", request, response)
    return Recording(body, structs.replace(companion, redacted=secrets.count))


def _restored(entry: Entry, companion: Companion, secrets: Secrets) -> Recording:
    """Return a recording that was exported; secrets are removed, as the file may be edited."""
    asked = companion.request
    request = None if asked is None else _scrubbed(asked, secrets)
    headers = secrets.response_headers(companion.response.headers.items())
    response = structs.replace(companion.response, headers=headers)
    body = secrets.scrub(entry.body)
    # A field named as a secret counts again although its value was replaced before.
    if (request, response, body) == (asked, companion.response, entry.body):
        return Recording(body, companion, reads=entry.reads)
    redacted = companion.redacted + secrets.count
    changed = structs.replace(companion, request=request, response=response, redacted=redacted)
    return Recording(body, changed, reads=entry.reads)


def _scrubbed(request: RecordedRequest, secrets: Secrets) -> RecordedRequest:
    text = request.text or ""
    body = text.encode() if request.body is UNSET else json.encode(request.body)
    headers = tuple(request.headers.items())
    clean = secrets.request(WireRequest(request.method, request.url, headers, body))
    if request.body is not UNSET:
        return clean
    text = secrets.scrub(text.encode()).decode(errors="replace")
    kept = None if request.text is None else text
    return structs.replace(clean, body=UNSET, text=kept, bytes=request.bytes)


def kind_of(headers: Iterable[tuple[str, str]]) -> str:
    """Return the content type of headers, in lower case without parameters; empty if none."""
    for name, value in headers:
        if name.lower() == "content-type":
            return value.partition(";")[0].strip().lower()
    return ""


def _suffix(kind: str, body: bytes) -> Suffix:
    """Return the suffix of a body, by its content type or else by its content."""
    if kind == "text/event-stream" or (not kind and _EVENT_START.match(body)):
        return ".sse"
    is_json_type = kind == "application/json" or kind.endswith("+json")
    if is_json_type or (not kind and is_json(body.decode(errors="replace"))):
        return ".body.json"
    return ".body.bin"


def decoded(body: bytes, headers: Iterable[tuple[str, str]], max_bytes: int) -> bytes:
    """Return a body without the content codings of its headers.

    Some tools decode the body and leave the header: a body without gzip's magic number is
    not decoded.

    Raises:
        Unreadable: The coding is unknown, or the body is damaged or too large.
    """
    values = [value for name, value in headers if name.lower() == "content-encoding"]
    codings = [coding.strip().lower() for coding in ",".join(values).split(",")]
    for coding in reversed(codings):
        match coding:
            case "" | "identity":
                pass
            case "gzip" | "x-gzip":
                body = _inflated(body, max_bytes) if body.startswith(_GZIP_MAGIC) else body
            case "deflate":
                body = _inflated(body, max_bytes)
            case _:
                raise Unreadable("a body of another content coding than gzip and deflate")
    return body


def _inflated(body: bytes, max_bytes: int) -> bytes:
    """Return the decoded content of a gzip member or a deflated body."""
    # Some servers send deflate without the zlib header.
    bare = not body.startswith(_GZIP_MAGIC) and body[:1] not in _ZLIB_STARTS
    inflater = zlib.decompressobj(-zlib.MAX_WBITS if bare else zlib.MAX_WBITS | 32)
    try:
        data = inflater.decompress(body, max_bytes + 1)
    except zlib.error as exc:
        raise Unreadable("a compressed body that is damaged") from exc
    if len(data) > max_bytes:
        raise Unreadable(f"bodies of more than {max_bytes} bytes")
    if not inflater.eof or inflater.unused_data:
        raise Unreadable("a compressed body that ends early, or has more behind its end")
    return data
