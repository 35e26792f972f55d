"""HAR 1.2: import of entries, and export of recordings.

Two custom fields, with an underscore as the format demands, hold what HAR cannot: `_chunks`
the reads of a body, as `+35 36` (milliseconds since the read before, bytes), and
`_streamnorm` the rest of the recording's companion.

Source, read 2026-11-22: http://www.softwareishard.com/blog/har-12-spec/
"""

from __future__ import annotations

import binascii
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from http.client import responses
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec
from msgspec import UNSET, Struct, field, structs

import streamnorm
from streamnorm._core.errors import RecordingError
from streamnorm._core.json import InvalidJSON, convert, is_object
from streamnorm._core.limits import Limits
from streamnorm.recording.conversations import SWITCHED
from streamnorm.recording.files import replace_file
from streamnorm.recording.format import (
    CONTENT_TYPES,
    RecordedRead,
    RecordedRequest,
    WireRequest,
    check_path,
    content_type_of,
    decode_companion,
)
from streamnorm.recording.importing.entries import (
    ForeignExchange,
    Unreadable,
    check_exchange,
    decode_base64,
)
from streamnorm.recording.recording import Recording, companion_of

# HAR requires a date; recordings have none, and exports must be reproducible.
_DATE = "1970-01-01T00:00:00.000Z"
_COMMENT = "recordings keep no dates: each startedDateTime stands for an unknown one"
# URL of a recording without a request.
_UNKNOWN_URL = "http://unknown.invalid/"
_FORM = "application/x-www-form-urlencoded"
_NO_KIND = "x-unknown"  # written by browsers

_SCHEME = re.compile("([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_BLOCKED = 0  # written by browsers for a request that was blocked, failed or cancelled
_NOT_MODIFIED = 304


class _HARHeader(Struct):
    name: str
    value: str = ""


class _HARParameter(Struct):
    name: str
    value: str = ""


class _HARPostData(Struct):
    mime_type: str = field(name="mimeType", default="")
    text: str | None = None
    encoding: str | None = None
    params: list[_HARParameter] = []


class _HARRequest(Struct):
    method: str
    url: str
    headers: list[_HARHeader] = []
    post_data: _HARPostData | None = field(name="postData", default=None)


class _HARContent(Struct):
    size: int = 0
    mime_type: str = field(name="mimeType", default="")
    text: str | None = None
    encoding: str | None = None


class _HARResponse(Struct):
    status: int
    content: _HARContent
    headers: list[_HARHeader] = []


class _HAREntry(Struct):
    request: _HARRequest
    response: _HARResponse
    chunks: Any = field(name="_chunks", default=None)
    companion: Any = field(name="_streamnorm", default=None)


class _HARLog(Struct):
    entries: list[_HAREntry]


class _HAR(Struct):
    log: _HARLog


def read_har(
    value: dict[str, Any], path: Path, limits: Limits, on_skipped: Callable[[int, str], None]
) -> Iterator[ForeignExchange]:
    """Yield the exchanges of a HAR file, in its order.

    Args:
        value: The content of the file.
        path: The file, for messages.
        limits: `max_recording_bytes` bounds all bodies together.
        on_skipped: Called with the number and the reason of each entry that is not yielded.

    Raises:
        Unreadable: It is no HAR file, an entry is damaged, or all entries are skipped.
        RecordingError: The custom fields of an entry are damaged.
    """
    try:
        har = convert(value, _HAR)
    except InvalidJSON as exc:
        raise Unreadable(f"no HAR: {exc}") from exc
    size = 0
    skipped: Counter[str] = Counter()
    for number, item in enumerate(har.log.entries):
        where = f"log.entries[{number}]"
        if (reason := _find_reason_to_skip(item)) is not None:
            skipped[reason] += 1
            on_skipped(number, reason)
            continue
        try:
            exchange = _restore_companion(_read_entry(item), item, Path(f"{path}: {where}"), limits)
        except Unreadable as exc:
            raise Unreadable(f"{where}: {exc}") from exc
        size += len(exchange.body)
        if size > limits.max_recording_bytes:
            raise Unreadable(f"{where}: bodies of more than {limits.max_recording_bytes} bytes")
        yield exchange
    if skipped and skipped.total() == len(har.log.entries):
        found = ", ".join(f"{count} ({reason})" for reason, count in skipped.items())
        raise Unreadable(f"no entry that can be replayed, expected one: {found}")


def _find_reason_to_skip(item: _HAREntry) -> str | None:
    """Return why an entry is no HTTP exchange that can be replayed; None for any other entry.

    Browsers write such entries in ordinary use.  A damaged entry is not one of them.
    """
    status, content = item.response.status, item.response.content
    has_body = bool(content.text) or content.size > 0
    if item.companion is None:  # which has the URL and the status of an exported recording
        scheme = _SCHEME.match(item.request.url)
        if scheme is not None and scheme[1].lower() not in ("http", "https"):
            # `wss:`, or what the browser answers itself, such as `data:` and `blob:`.
            return "no http or https URL"
        if status == SWITCHED:
            return "a WebSocket"
        if status == _BLOCKED:
            return "no response"
        if status == _NOT_MODIFIED and has_body:
            return "a body from the cache"
    return "a body that the file does not hold" if has_body and content.text is None else None


def _read_entry(item: _HAREntry) -> ForeignExchange:
    asked, content = item.request, item.response.content
    headers = _read_headers(item.response.headers, content.mime_type)
    body = _decode_text(content.text or "", content.encoding)
    # Some tools write the type of a form here alone; it decides where secrets stand in the body.
    posted_type = "" if asked.post_data is None else asked.post_data.mime_type
    request_headers = _read_headers(asked.headers, posted_type)
    request = WireRequest(asked.method, asked.url, request_headers, _read_posted_body(asked))
    posted = [] if asked.post_data is None else asked.post_data.params
    fields = tuple((each.name, each.value) for each in posted)
    return ForeignExchange(request, item.response.status, headers, body, fields=fields)


def _read_headers(headers: list[_HARHeader], mime_type: str) -> tuple[tuple[str, str], ...]:
    """Return headers as pairs, with the MIME type of the body if they have no content type."""
    pairs = tuple((header.name, header.value) for header in headers)
    if content_type_of(pairs) or mime_type in ("", _NO_KIND):
        return pairs
    return (*pairs, ("content-type", mime_type))


def _read_posted_body(request: _HARRequest) -> bytes | None:
    data = request.post_data
    if data is None:
        return b""
    if data.text is None and data.mime_type.startswith(_FORM):
        return urlencode([(each.name, each.value) for each in data.params]).encode()
    if data.text is None:
        return None  # an upload, of which only the form fields are stored
    return _decode_text(data.text, data.encoding)


def _decode_text(text: str, encoding: str | None) -> bytes:
    return decode_base64(text, "a body") if encoding == "base64" else text.encode()


def _restore_companion(
    exchange: ForeignExchange, item: _HAREntry, where: Path, limits: Limits
) -> ForeignExchange:
    """Return an exchange with the companion and reads in the custom fields of `export_har`."""
    if item.companion is None:
        return check_exchange(exchange)
    if not is_object(item.companion):
        raise Unreadable("_streamnorm that is no object")
    text = msgspec.json.encode({**item.companion, "chunks": item.chunks})
    companion, reads = decode_companion(text, where, limits)
    if reads is not None and sum(read.size for read in reads) != len(exchange.body):
        raise Unreadable("_chunks of another size than the body")
    return structs.replace(exchange, companion=companion, reads=reads)


def export_har(recordings: Iterable[Recording], path: Path | str) -> None:
    """Write recordings to one HAR file, in order.

    `import_file` restores the same recordings.  The same recordings give the same bytes.

    Raises:
        RecordingError: The file cannot be written.
    """
    path = check_path(path)
    text = encode_har(recordings)
    try:
        replace_file(path, lambda out: out.write(text))
    except OSError as exc:
        raise RecordingError(f"{path}: {exc.strerror}") from exc


def encode_har(recordings: Iterable[Recording]) -> bytes:
    """Return the HAR file that `export_har` writes."""
    log = {
        "version": "1.2",
        "creator": {"name": "streamnorm", "version": streamnorm.__version__},
        "entries": [_describe_exchange(recording) for recording in recordings],
        "comment": _COMMENT,
    }
    return msgspec.json.format(msgspec.json.encode({"log": log}), indent=2) + b"\n"


def _describe_exchange(recording: Recording) -> dict[str, Any]:
    reads = recording.reads
    companion: dict[str, Any] = msgspec.to_builtins(companion_of(recording))
    del companion["chunks"]
    gaps_ms = [read.gap_ms for read in reads or [RecordedRead(0, 0)]] or [0]
    entry: dict[str, Any] = {
        "startedDateTime": _DATE,
        "time": sum(gaps_ms),
        "request": _describe_request(recording.request),
        "response": _describe_response(recording),
        "cache": {},
        "timings": {"send": 0, "wait": gaps_ms[0], "receive": sum(gaps_ms[1:])},
        "_streamnorm": companion,
    }
    if reads is not None:
        entry["_chunks"] = [str(read) for read in reads]
    return entry


def _describe_request(request: RecordedRequest | None) -> dict[str, Any]:
    request = request or RecordedRequest("POST", _UNKNOWN_URL, {})
    body = request.text
    if request.body is not UNSET:
        body = msgspec.json.encode(request.body).decode()
    query = request.url.partition("#")[0].partition("?")[2]
    fields: dict[str, Any] = {
        "method": request.method,
        "url": request.url,
        "httpVersion": "unknown",
        "cookies": [],
        "headers": _describe_pairs(request.headers.items()),
        "queryString": _describe_pairs(parse_qsl(query, keep_blank_values=True)),
        "headersSize": -1,
        "bodySize": len((body or "").encode()) if request.bytes is None else request.bytes,
    }
    if body is not None:
        kind = request.headers.get("content-type", "application/json")
        fields["postData"] = {"mimeType": kind, "text": body}
    return fields


def _describe_response(recording: Recording) -> dict[str, Any]:
    response = recording.response
    kind = response.headers.get("content-type", CONTENT_TYPES[response.body])
    content: dict[str, Any] = {"size": len(recording.body), "mimeType": kind}
    try:
        content["text"] = recording.body.decode()
    except UnicodeDecodeError:
        content["text"] = binascii.b2a_base64(recording.body, newline=False).decode()
        content["encoding"] = "base64"
    return {
        "status": response.status,
        "statusText": responses.get(response.status, ""),
        "httpVersion": "unknown",
        "cookies": [],
        "headers": _describe_pairs(response.headers.items()),
        "content": content,
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": -1,
    }


def _describe_pairs(pairs: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in pairs]
