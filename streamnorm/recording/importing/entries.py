"""Exchanges in other tools' files: YAML parsing, and conversion to recordings."""

from __future__ import annotations

import binascii
import importlib
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec import UNSET, Struct, structs

from streamnorm._core.codec.framing import SSE
from streamnorm._core.json import (
    InvalidJSON,
    clean,
    decode_any,
    is_array,
    is_json,
    is_object,
    too_deep,
)
from streamnorm._core.limits import Limits
from streamnorm.http.codings import CONTENT_ENCODING, CodingDecoder, CodingError, content_codings
from streamnorm.http.urls import dialect_of_url, server_of
from streamnorm.recording.format import (
    MAX_STATUS,
    MIN_STATUS,
    WITHOUT_BODY,
    Companion,
    End,
    RecordedRead,
    RecordedResponse,
    SentMessage,
    Suffix,
    WireRequest,
    content_type_of,
    find_bad_header,
    find_content_length,
    framing_name,
    framing_of,
    suffix_of,
)
from streamnorm.recording.recording import Recording
from streamnorm.recording.secrets import Secrets
from streamnorm.recording.secrets.decoding import is_text

MAX_FILE_DEPTH = Limits().max_json_depth + 16
"""Bound on the nesting of a file, which has some levels around a JSON body."""

# Bound on the expansion of all aliases together, in characters and values.
_MAX_REPEATED = 1024 * 1024

# libyaml reads ahead of its events, and gives up by itself at 1,000 levels.
_SCANNER_TOO_DEEP = "exceeded maximum nesting depth"

_TAG = "tag:yaml.org,2002:"
# Python 2 wrote the latter two; vcrpy still reads them.
_TEXT_TAGS = {None, "!", _TAG + "str", _TAG + "python/str", _TAG + "python/unicode"}
_WORD_TAGS = {_TAG + name for name in ("bool", "float", "int")}
_LIST_TAGS = {None, "!", _TAG + "seq", _TAG + "python/tuple"}
_DICT_TAGS = {None, "!", _TAG + "map"}

_NULLS = {"", "~", "null", "Null", "NULL"}
_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]{1,1000}")
# Both tools write a decimal point into each float; PyYAML reads `1e5` as text.
_FLOAT = re.compile(r"[-+]?[0-9]{1,1000}\.[0-9]{0,1000}(?:[eE][-+]?[0-9]{1,4})?")

# The first bytes of each body; br and deflate have none.  Of zstd also those of a skippable frame
# (RFC 8878, sections 3.1.1 and 3.1.2).
_MAGIC = {
    "gzip": re.compile(rb"\x1f\x8b"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),
}
_PACKAGES = {"br": "brotli>=1.2", "zstd": "backports.zstd"}
_EVENT_START = re.compile(rb"(?:\xef\xbb\xbf)?(?:data|event|id|retry)?:")


class Unreadable(Exception):
    """A file cannot be imported; the text contains neither its name nor its content."""


class PlainScalar(str):
    """An unquoted YAML scalar, which may be a number."""

    __slots__ = ()


class UnsupportedValue(Struct, frozen=True):
    """A YAML value with an unsupported tag, such as a Python object."""


def read_json(data: bytes, *, max_depth: int) -> Any:
    """Parse a JSON file.

    Raises:
        Unreadable: It is no JSON, or nests deeper.
    """
    try:
        return decode_any(data.decode("utf-8-sig"), max_depth=max_depth)
    except InvalidJSON as exc:
        raise Unreadable(str(exc)) from exc
    except UnicodeDecodeError as exc:
        raise Unreadable("no UTF-8") from exc


def read_yaml(data: bytes, *, max_depth: int) -> Any:
    """Parse a YAML file with one document.

    Scalars are `str`, plain ones `PlainScalar`; `!!binary` is bytes, a plain null is None.

    Raises:
        Unreadable: It is no YAML, nests deeper, or repeats itself too often.
        ModuleNotFoundError: PyYAML is not installed.
    """
    try:
        yaml = importlib.import_module("yaml")
    except ModuleNotFoundError as exc:
        raise ModuleNotFoundError(
            "YAML needs PyYAML, of the extra `import`: pip install pyyaml", name="yaml"
        ) from exc
    # The one in C, if PyYAML was built with it.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _DocumentBuilder(max_depth)
    try:
        for event in yaml.parse(data, Loader=loader):
            builder.take(event)
    except yaml.YAMLError as exc:
        if getattr(exc, "problem", None) == _SCANNER_TOO_DEEP:
            raise Unreadable(f"nested deeper than {max_depth}") from exc
        # Its text may quote the file.
        mark = getattr(exc, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 1}, column {mark.column + 1}"
        raise Unreadable(f"no YAML{where}") from exc
    return builder.document


def resolve_scalars(value: Any) -> Any:
    """Return a YAML value as JSON; unquoted scalars become numbers and booleans.

    Raises:
        Unreadable: It holds a value that JSON has not.
    """
    if isinstance(value, PlainScalar):
        return _resolve_scalar(value)
    if is_array(value):
        return [resolve_scalars(item) for item in value]
    if is_object(value):
        return {key: resolve_scalars(item) for key, item in value.items()}
    if isinstance(value, (bytes, UnsupportedValue)):
        raise Unreadable("a JSON body with a value that JSON has not")
    return value


def _resolve_scalar(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else str(text)


class _OpenNode(Struct):
    """An open sequence or mapping.

    Attributes:
        items: The values so far; of a mapping, alternating keys and values.
        is_mapping: Whether it is a mapping.
        is_foreign: Whether its tag is unsupported.
        anchor: The anchor, to which aliases refer.
        size_before: Size of the document before it.
    """

    items: list[Any]
    is_mapping: bool
    is_foreign: bool
    anchor: str | None
    size_before: int


class _DocumentBuilder:
    """Builds a document's value from the parser's events.

    Args:
        max_depth: Bound on nesting, aliases included.

    Attributes:
        document: The value; None before its end.
    """

    def __init__(self, max_depth: int) -> None:
        self.document: Any = None
        self._max_depth = max_depth
        self._open: list[_OpenNode] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._size = 0  # characters and values
        self._repeated = 0  # those that come from aliases
        self._documents = 0

    def take(self, event: Any) -> None:
        """Process one event of PyYAML's parser."""
        match type(event).__name__:
            case "ScalarEvent":
                self._size += 1 + len(event.value)
                self._put(_read_scalar(event), event.anchor, 1 + len(event.value))
            case "MappingStartEvent":
                self._start(event, is_mapping=True)
            case "SequenceStartEvent":
                self._start(event, is_mapping=False)
            case "MappingEndEvent" | "SequenceEndEvent":
                self._end()
            case "AliasEvent":
                self._add_alias(event.anchor or "")
            case "DocumentStartEvent":
                self._documents += 1
                if self._documents > 1:
                    raise Unreadable("several YAML documents, expected one")
            case _:  # starts and ends of stream and document
                pass

    def _start(self, event: Any, *, is_mapping: bool) -> None:
        if len(self._open) >= self._max_depth:
            raise Unreadable(f"nested deeper than {self._max_depth}")
        foreign = event.tag not in (_DICT_TAGS if is_mapping else _LIST_TAGS)
        self._open.append(_OpenNode([], is_mapping, foreign, event.anchor, self._size))
        self._size += 1

    def _end(self) -> None:
        done = self._open.pop()
        value: Any = done.items
        if done.is_foreign:
            value = UnsupportedValue()
        elif done.is_mapping:
            keys = done.items[::2]
            if not all(isinstance(key, str) for key in keys):
                raise Unreadable("a YAML mapping with a key that is no text")
            value = dict(zip(map(str, keys), done.items[1::2], strict=True))
        self._put(value, done.anchor, self._size - done.size_before)

    def _add_alias(self, anchor: str) -> None:
        """Add the value of a YAML alias; every alias adds the size of its value to the total."""
        if anchor not in self._anchors:  # unknown, or still open and would contain itself
            raise Unreadable("a YAML alias of nothing that is complete")
        value, size = self._anchors[anchor]
        self._size += size
        self._repeated += size
        if self._repeated > _MAX_REPEATED:
            raise Unreadable(f"YAML aliases repeat more than {_MAX_REPEATED} characters")
        if too_deep(value, self._max_depth - len(self._open)):
            raise Unreadable(f"nested deeper than {self._max_depth}")
        self._put(value, None, 0)

    def _put(self, value: Any, anchor: str | None, size: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, size)
        if self._open:
            self._open[-1].items.append(value)
        else:
            self.document = value


def _read_scalar(event: Any) -> Any:
    # YAML has escapes for lone surrogates, which are no characters.
    text = event.value if event.value.isascii() else clean(event.value)
    if event.tag is None and event.implicit[0]:
        return None if text in _NULLS else PlainScalar(text)
    if event.tag in _TEXT_TAGS:
        return text
    if event.tag in _WORD_TAGS:
        return PlainScalar(text)
    if event.tag == _TAG + "null":
        return None
    return decode_base64(text, "!!binary") if event.tag == _TAG + "binary" else UnsupportedValue()


def decode_base64(text: str, what: str) -> bytes:
    """Decode Base64 that may contain white space.

    Raises:
        Unreadable: `what` is no base64.
    """
    try:
        return binascii.a2b_base64("".join(text.split()), strict_mode=True)
    except ValueError as exc:  # also of text that is not ASCII
        raise Unreadable(f"{what} that is no base64") from exc


class ForeignExchange(Struct, frozen=True):
    """An exchange from another tool's file, with credentials.

    Attributes:
        request: The request.
        status: HTTP status.
        headers: Headers of the response.
        body: Body of the response, after content decoding.
        companion: The companion, if `export_har` wrote the file; it overrides the other fields.
        reads: The reads of the body, if `export_har` wrote the file.
        end: How the body ended.
        close_code: Code with which the server closed the WebSocket; None for none.
        sent: What the client sent on it besides the create.
        fields: Fields of a form, also where the file does not hold the body.
    """

    request: WireRequest
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    companion: Companion | None = None
    reads: list[RecordedRead] | None = None
    end: End = "eof"
    close_code: int | None = None
    sent: tuple[SentMessage, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"ForeignExchange({self.request!r}, {self.status}, …)"


def check_exchange(exchange: ForeignExchange) -> ForeignExchange:
    """Check that an entry is an HTTP exchange, and return it as it was sent.

    Raises:
        Unreadable: Its URL, its method or its status is not one of HTTP, or its status has no
            body.
    """
    request = exchange.request
    try:
        url = urlsplit(request.url)
        is_http = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:  # a port that is no number, a bracket that is not closed
        is_http = False
    if not is_http:
        raise Unreadable("no http or https URL")
    if not (request.method.isascii() and request.method.isalpha()):
        raise Unreadable("no HTTP method")
    # What is imported is loaded again, and an interim response (1xx) is never the last one.
    if not MIN_STATUS <= exchange.status <= MAX_STATUS:
        raise Unreadable(f"no HTTP status from {MIN_STATUS} to {MAX_STATUS}")
    if exchange.status in WITHOUT_BODY and exchange.body:
        raise Unreadable(f"{len(exchange.body)} bytes of a status {exchange.status}, expected none")
    # White space around a value is no part of it (RFC 9110 §5.5).
    headers = tuple((name, value.strip(" \t")) for name, value in exchange.headers)
    return structs.replace(exchange, headers=headers)


def make_recording(exchange: ForeignExchange) -> Recording:
    """Return the recording of an exchange, without secrets.

    Raises:
        Unreadable: It has a header that would be stored, and that HTTP cannot carry.
    """
    secrets = Secrets()
    if exchange.companion is not None:
        return _restore(exchange, exchange.companion, secrets)
    secrets.learn_fields(exchange.fields)
    request = secrets.scrub_request(exchange.request)
    if exchange.sent:
        sent = structs.replace(request, body=UNSET, text=None, sent=list(exchange.sent))
        request = structs.replace(request, sent=secrets.scrub_recorded(sent).sent)
    headers = secrets.scrub_response_headers(exchange.headers)
    headers |= secrets.scrub_targets(exchange.status, exchange.headers, request.url)
    if (number := find_bad_header(headers)) is not None:
        raise Unreadable(f"header {number} of a response is no HTTP header")
    url = exchange.request.url
    known = dialect_of_url(url)
    own = SSE if known is None else known.framing
    suffix = suffix_of(content_type_of(exchange.headers), own) or _detect_suffix(exchange.body)
    framing = own if suffix == own.suffix else SSE
    body = secrets.scrub(exchange.body, framing)
    dialect = None if known is None else known.name
    companion = Companion(
        1,
        dialect,
        framing_name(dialect, framing, suffix),
        server_of(url),
        request=request,
        response=RecordedResponse(
            exchange.status,
            headers,
            suffix,
            exchange.end,
            UNSET if exchange.close_code is None else exchange.close_code,
        ),
        redacted=secrets.count,
    )
    return Recording(body, companion)


def _restore(exchange: ForeignExchange, companion: Companion, secrets: Secrets) -> Recording:
    """Return the recording of an entry that `export_har` wrote, with any secrets redacted."""
    before = companion.request
    request = None if before is None else secrets.scrub_recorded(before)
    if before is not None and before.text is not None and request is not None:
        # Text that is JSON stays text.
        text = secrets.scrub(before.text.encode(errors="replace")).decode(errors="replace")
        request = structs.replace(request, body=UNSET, text=text)
    stored = companion.response.headers.items()
    headers = secrets.scrub_response_headers(stored)
    url = "" if request is None else request.url
    headers |= secrets.scrub_targets(companion.response.status, stored, url)
    response = structs.replace(companion.response, headers=headers)
    body = secrets.scrub(exchange.body, framing_of(companion))
    # A field named as a secret counts again although its value was replaced before.
    if (request, response, body) == (before, companion.response, exchange.body):
        return Recording(body, companion, reads=exchange.reads)
    redacted = companion.redacted + secrets.count
    changed = structs.replace(companion, request=request, response=response, redacted=redacted)
    return Recording(body, changed, reads=exchange.reads)


def _detect_suffix(body: bytes) -> Suffix:
    if _EVENT_START.match(body):
        return ".sse"
    return ".body.json" if is_json(body.decode(errors="replace")) else ".body.bin"


def decode_body(body: bytes, headers: Sequence[tuple[str, str]], max_bytes: int) -> bytes:
    """Return a body decoded by the content codings in its headers.

    vcrpy stores the body that aiohttp and requests have decoded, with the headers of the coded one.
    A body that is not of its coding counts as decoded if it lacks the magic number of the coding,
    if it is text, or if it has another size than was sent.  Any other one is damaged.

    Raises:
        Unreadable: The coding is unknown, or the body is damaged or too large.
        ModuleNotFoundError: The package that decodes it is not installed.
    """
    names = ",".join(value for name, value in headers if name.lower() == CONTENT_ENCODING)
    sent_bytes = find_content_length(headers)
    for coding in reversed(content_codings(names)):
        magic = _MAGIC.get(coding)
        if magic is not None and not magic.match(body):
            return body
        try:
            content = _decode(body, coding, max_bytes)
        except (CodingError, ModuleNotFoundError, ValueError) as exc:
            if isinstance(exc, CodingError) and exc.fault == "too_large":
                raise Unreadable(f"bodies of more than {max_bytes} bytes") from exc
            if is_text(body) or (magic is None and _was_decoded(body, sent_bytes, exc)):
                return body
            raise _explain(exc, coding) from exc
        body, sent_bytes = content, None
    return body


def _decode(body: bytes, coding: str, max_bytes: int) -> bytes:
    decoder = CodingDecoder(coding, max_bytes)
    content = b"".join(decoder.feed(body))
    decoder.close()
    return content


def _was_decoded(body: bytes, sent_bytes: int | None, exc: Exception) -> bool:
    """Return whether a body that is not of its coding has another size than the coded one had."""
    if sent_bytes is None or len(body) == sent_bytes:
        return False
    # A coded body that was cut is smaller, too.
    is_cut = isinstance(exc, CodingError) and exc.fault == "truncated"
    return len(body) > sent_bytes or not is_cut


def _explain(exc: Exception, coding: str) -> Exception:
    """Return the error for a body that `CodingDecoder` cannot decode."""
    if isinstance(exc, CodingError):
        if exc.fault == "corrupt":
            return Unreadable("a compressed body that is damaged")
        return Unreadable("a compressed body that ends early, or has more behind its end")
    package = _PACKAGES.get(coding)
    if package is None:
        return Unreadable("a body of an unknown content coding")
    name = package.partition(">")[0]
    return ModuleNotFoundError(
        f"{coding} needs {package}, of the extra `import`: pip install '{package}'", name=name
    )
