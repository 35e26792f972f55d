"""Redaction of the secrets in one exchange.

Each is replaced by "x", also in a body that arrives in chunks.  `credentials` finds them in
headers, URLs and JSON, `patterns` finds keys and tokens of known shapes, and known values in any
form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple, Protocol, TypeVar, cast
from urllib.parse import unquote_plus, urljoin, urlsplit

import msgspec
from msgspec import UNSET, structs

from streamnorm._core.codec.framing import SSE, Framing, Rewriter
from streamnorm._core.json import InvalidJSON, decode_any, is_object
from streamnorm._core.limits import Limits
from streamnorm.eventstream import EventStreamDecoder
from streamnorm.http.codings import CONTENT_ENCODING
from streamnorm.recording.format import RecordedRequest, WireRequest, find_content_length
from streamnorm.recording.secrets.credentials import (
    Position,
    find_in_header,
    find_in_json,
    find_in_string,
    find_in_url,
    is_secret_field,
    strip_url,
    visit_strings,
)
from streamnorm.recording.secrets.decoding import has_control_characters, text_of
from streamnorm.recording.secrets.patterns import Forms, Span, find_fields, find_tokens

T = TypeVar("T")

_MAX_DEPTH = Limits().max_json_depth

# The quantifiers are possessive, so that each text is read once.
_JSON_FIELD = re.compile(r'"([A-Za-z][A-Za-z0-9_-]{0,63})"\s*+:\s*+"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_FORM = re.compile(r"[^\s=&]+=[^\s&]*(?:&[^\s&]*)*")
_FORM_FIELD = re.compile(r"(?:^|&)([^=&]*)=([^&]*)")
_BOUNDARY = re.compile(r'boundary="?([^\s";,]{1,70})', re.IGNORECASE)
_PART_NAME = re.compile(r'(?:^|[;\s])name="?([^";]{1,200})', re.IGNORECASE)
_END_OF_HEADERS = re.compile(r"\r?\n\r?\n")

# Bytes behind a wrong message that are searched: base64 in them has no known end.
_MAX_REST_BYTES = 16 * 1024 * 1024
# The longest secret of a known shape, in base64.
_MAX_SECRET_BYTES = 16 * 1024

_REQUEST_HEADERS = frozenset(
    {"accept", "anthropic-beta", "anthropic-version", "content-type", "openai-beta"}
)
# The latter are those by which clients of AWS read an answer, and google-genai that of an upload.
_RESPONSE_HEADERS = frozenset(
    {"content-type", "retry-after", "retry-after-ms", "x-should-retry"}
    | {"x-amzn-bedrock-content-type", "x-amzn-errortype", "x-goog-upload-status"}
)
# Where google-genai sends the bytes of a file (resumable uploads of Google's Files API).
_UPLOAD_URL = "x-goog-upload-url"

# A shorter value occurs in many texts where it is no secret.
_MIN_CHARS = 6
# Keys for servers that need none; some occur in bodies, for example in `fp_ollama`.
_PLACEHOLDERS = frozenset(
    {"anything", "api-key", "api_key", "apikey", "bearer", "lm-studio", "no-key", "not-needed"}
    | {"ollama", "placeholder", "sk-no-key-required", "unused"}
)
# A server must not make the search of its body slow.
_MAX_RESPONSE_VALUES = 256

# Bytes searched at once.  The strides are the same however the body is cut into chunks, so
# that the same body gives the same bytes.
_STRIDE = 48 * 1024
# Bytes that must follow a stride: no form or shape of a secret is longer.
_LOOKAHEAD = 8 * 1024
# Bytes kept before a stride, for the lookbehinds of the patterns.
_CONTEXT = 128
# A match may start up to this much earlier, inside an escape.
_SHIFT = 8
# Only a JSON document has credentials in fields; a longer body is a model's output.
_FIELDS_BYTES = 1024 * 1024

_MASK = "xxxxxxxx"  # for a secret of any length, in what is digested
_OPEN_ESCAPE = re.compile(rb"(?<!\\)(?:\\\\)*(\\(?:u[0-9A-Fa-f]{0,3})?)\Z")


class Field(NamedTuple):
    """A credential's value and its span in a text.

    Attributes:
        start: Offset at which it is spelt.
        end: Offset behind it; equal to `start` if the value is only to be searched for.
        value: The credential, decoded.
    """

    start: int
    end: int
    value: str


def find_in_text(text: str, kind: str) -> Iterator[Field]:
    """Yield the credentials in a text that is not a single JSON value; they may overlap.

    Args:
        text: The body of a request.
        kind: The content type.
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
    """Yield the credentials in the parts of a multipart body (RFC 7578)."""
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
    """Yield the credentials in lines of JSON, up to the first invalid line."""
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
    """Decode the inside of a JSON string; return it unchanged if it is invalid."""
    try:
        value = decode_any(f'"{quoted}"', max_depth=1)
    except InvalidJSON:
        return quoted
    return str(value)


class _Secrets(Protocol):
    def scrub_all(self, texts: Sequence[bytes]) -> list[bytes]: ...


class MessageScrubber:
    """Redacts the binary messages of a body that arrives in chunks.

    The output has the same length as the input.  A message is held until its end arrives, and so
    are up to 16 MiB of what follows a wrong message, where no reader finds another one.  All bytes
    behind these are replaced: where a secret begins and ends in them is unknown.

    Args:
        secrets: The known secrets, read for each message, as some may be added meanwhile.
        rewriter: Replaces texts in the messages of the framing.
    """

    def __init__(self, secrets: _Secrets, rewriter: Rewriter) -> None:
        self._replace: Callable[[list[bytes]], list[bytes]] = secrets.scrub_all
        self._rewriter = rewriter
        self._messages = EventStreamDecoder()
        self._held = bytearray()
        self._is_blind = False  # whether all further bytes are replaced

    def feed(self, data: bytes) -> bytes:
        """Add a chunk, and return the redacted bytes that are final."""
        if self._is_blind:
            return b"x" * len(data)
        self._held += data
        messages = self._messages.feed(data)
        if messages:
            del self._held[: sum(len(message.raw) for message in messages)]
            return b"".join(self._rewriter.rewrite(messages, self._replace))
        if self._messages.failure is None or len(self._held) <= _MAX_REST_BYTES:
            return b""
        self._is_blind = True
        rest = self.close()
        # A secret may end behind them.
        replaced = min(len(rest), len(rest) - _MAX_REST_BYTES + _MAX_SECRET_BYTES)
        return rest[: len(rest) - replaced] + b"x" * replaced

    def close(self) -> bytes:
        """Return the remaining bytes."""
        rest = bytes(self._held)
        self._held.clear()
        return self._rewriter.rewrite_rest(rest, self._replace)


class Secrets:
    """The secrets of one exchange, collected as its parts are redacted.

    Args:
        redact: Further secrets: literal texts, and regular expressions.

    Attributes:
        count: Number of secrets replaced so far.
    """

    def __init__(self, redact: Sequence[str | re.Pattern[str]] = ()) -> None:
        self.count = 0
        texts = [item.rstrip("\\") for item in redact if isinstance(item, str)]
        self._values = dict.fromkeys(text for text in texts if text)
        self._patterns = [item for item in redact if not isinstance(item, str)]
        self._forms: Forms | None = None

    def scrub_request(self, request: WireRequest) -> RecordedRequest:
        """Collect the credentials in a request, and return it redacted."""
        for name, value in request.headers:
            self._learn(find_in_header(name, value))
        self._learn(find_in_url(request.url))
        # First, because the body may hold credentials that URL and headers repeat.
        recorded = self._record_body(request)
        return structs.replace(
            recorded,
            url=self.scrub_text(strip_url(request.url)),
            headers=self._scrub_headers(request.headers, _REQUEST_HEADERS),
        )

    def learn_fields(self, fields: Iterable[tuple[str, str]]) -> None:
        """Collect the credentials in fields of a form whose body is not known."""
        self._learn(value for name, value in fields if is_secret_field(name))

    def scrub_recorded(self, request: RecordedRequest) -> RecordedRequest:
        """Collect the credentials in a recorded request, and return it redacted."""
        body: bytes | None = (request.text or "").encode(errors="replace")
        if request.body is not UNSET:
            body = msgspec.json.encode(request.body)
        headers = tuple(request.headers.items())
        scrubbed = self.scrub_request(WireRequest(request.method, request.url, headers, body))
        sent = [structs.replace(each, data=self._scrub_json(each.data)) for each in request.sent]
        digest = request.sha256 or scrubbed.sha256
        return structs.replace(scrubbed, bytes=request.bytes, sha256=digest, sent=sent)

    def scrub_response_headers(self, headers: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Collect the credentials in response headers; return the public headers, redacted."""
        headers = list(headers)
        found = chain.from_iterable(find_in_header(name, value) for name, value in headers)
        self._learn(islice(found, _MAX_RESPONSE_VALUES))
        return self._scrub_headers(headers, _RESPONSE_HEADERS)

    def scrub_targets(
        self, status: int, headers: Iterable[tuple[str, str]], url: str
    ) -> dict[str, str]:
        """Return the URLs in a response's headers that its client asks next, redacted.

        Without the host if a redirect stays at that of `url`, the URL of the request.
        """
        targets: dict[str, str] = {}
        for name, target in headers:
            name = name.lower()
            with suppress(ValueError):  # no URL
                if name == _UPLOAD_URL:
                    targets.setdefault(name, self.scrub_text(strip_url(target)))
                elif name == "location" and 300 <= status <= 399:
                    targets.setdefault(name, self._scrub_redirect(target, url))
        return targets

    def _scrub_redirect(self, target: str, url: str) -> str:
        joined = urljoin(url, target)
        host, own = (urlsplit(each).netloc for each in (joined, url))
        kept = self.scrub_text(strip_url(joined))
        # A client would otherwise leave the replay.
        return kept.partition(f"//{host}")[2] or "/" if host and host == own else kept

    def scrub(self, data: bytes, framing: Framing = SSE) -> bytes:
        """Return a complete body with "x" for each byte of a secret."""
        scrubber = self.open_scrubber(framing)
        return scrubber.feed(data) + scrubber.close()

    def scrub_all(self, texts: Sequence[bytes]) -> list[bytes]:
        """Redact many texts together, which is faster than one by one."""
        # A pattern must match within one text, and not across two.
        special = {text for text in texts if any(p.search(_decode(text)) for p in self._patterns)}
        pieces = [b"" if text in special else text for text in texts]
        scrubber = Scrubber(self, ())
        # No secret contains a NUL.
        joined = b"\0".join(pieces)
        replaced = scrubber.feed(joined) + scrubber.close()
        scrubbed: list[bytes] = []
        at = 0
        for text, piece in zip(texts, pieces, strict=True):
            plain = replaced[at : at + len(piece)]
            scrubbed.append(self.scrub(text) if text in special else plain)
            at += len(piece) + 1
        return scrubbed

    def open_scrubber(self, framing: Framing = SSE) -> Scrubber | MessageScrubber:
        """Return a scrubber of a body in chunks; it also redacts secrets collected later."""
        rewriter = framing.layout.rewriter
        if rewriter is not None:
            return MessageScrubber(self, rewriter)
        return Scrubber(self, self._patterns)

    def find(
        self, data: bytes, low: int, high: int, patterns: Sequence[re.Pattern[str]], *, fields: bool
    ) -> list[Span]:
        """Return the spans of secrets, in order; they may overlap.

        Args:
            data: The bytes, with context before `low` and after `high`.
            low: Offset at which the first secret may start.
            high: Offset before which every secret starts.
            patterns: Regular expressions of further secrets.
            fields: Whether to include the values of JSON fields with secret names.
        """
        if self._forms is None:
            self._forms = Forms(self._values)
        spans = list(self._forms.find(data, low, high))
        spans += [(start, end) for start, end, _ in find_tokens(data, low, high)]
        if fields:
            spans += [(start, end) for start, end, _ in find_fields(data, low, high)]
        if patterns:
            spans += _find_matches(patterns, data, low, high)
        return sorted((_leave_escape(data, start), end) for start, end in spans)

    def _learn(self, values: Iterable[str]) -> None:
        for value in values:
            # JSON doubles a trailing backslash, and one of the two would remain.
            text = value.strip().rstrip("\\")
            if len(text) < _MIN_CHARS or not text.strip("x") or text.lower() in _PLACEHOLDERS:
                continue
            if text not in self._values:
                self._values[text] = None
                self._forms = None

    def _scrub_headers(
        self, headers: Iterable[tuple[str, str]], allowed: frozenset[str]
    ) -> dict[str, str]:
        kept: dict[str, str] = {}
        for name, value in headers:
            name = name.lower()
            if name in allowed:
                value = self.scrub_text(value)
                kept[name] = f"{kept[name]}, {value}" if name in kept else value
        return kept

    def _record_body(self, request: WireRequest) -> RecordedRequest:
        """Return a request without URL and headers; its body is JSON, text, or a size."""
        recorded = RecordedRequest(request.method, "", {})
        if request.body is None:  # an upload, which is sent as it is read
            return structs.replace(recorded, bytes=find_content_length(request.headers))
        if not request.body:
            return recorded
        text, is_whole = text_of(request.body, request.headers)
        if is_whole:
            try:
                value = decode_any(text, max_depth=_MAX_DEPTH)
            except InvalidJSON:
                pass
            else:
                return structs.replace(recorded, body=self._scrub_json(value))
        kinds = [value for name, value in request.headers if name.lower() == "content-type"]
        kind = ", ".join(kinds)
        fields = sorted(find_in_text(text, kind))
        self._learn(field.value for field in fields)
        if not is_whole or has_control_characters(text):
            # Not of a coded body: where its decoder is installed, it is compared decoded.
            is_coded = any(name.lower() == CONTENT_ENCODING for name, _ in request.headers)
            digest = None if is_coded else self._digest(request.body, kind)
            return structs.replace(recorded, bytes=len(request.body), sha256=digest)
        text = self.scrub_text(_hide_fields(fields, text, self._hide))
        return structs.replace(recorded, text=text)

    def _digest(self, body: bytes, kind: str) -> str:
        """Return the SHA-256 of a body that is not stored, equal for each client and key.

        Clients make up a boundary for each upload, and a short secret could be guessed from the
        digest of an otherwise known body.

        Args:
            body: The body.
            kind: The content type.
        """
        text = _decode(body)  # with each byte that is no text
        text = _hide_fields(sorted(find_in_text(text, kind)), text, lambda _: _MASK)
        boundary = _BOUNDARY.search(kind) if kind.lower().startswith("multipart/") else None
        if boundary is not None:
            text = text.replace(f"--{boundary[1]}", "--boundary")
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, _MASK)
        for pattern in self._patterns:
            text = pattern.sub(lambda match: _MASK if match[0] else "", text)
        return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()

    def _scrub_json(self, value: Any) -> Any:
        """Collect the credentials in decoded JSON, and return it redacted."""
        texts: list[str] = []

        def collect(position: Position, name: str, text: str) -> str:
            self._learn(find_in_string(position, name, text))
            if position is Position.SECRET:
                return self._hide(text)
            texts.append(text)
            return text

        value = visit_strings(value, collect)
        scrubbed = self._scrub_texts(texts)
        if scrubbed is texts:
            return value
        remaining = iter(scrubbed)

        def replace(position: Position, _name: str, text: str) -> str:
            return text if position is Position.SECRET else next(remaining)

        return visit_strings(value, replace)

    def _scrub_texts(self, texts: list[str]) -> list[str]:
        """Return texts redacted; the same list if they have no secrets."""
        pieces = [_encode(text) for text in texts]
        scrubbed = self.scrub_all(pieces)
        if scrubbed == pieces:
            return texts
        return [piece.decode("utf-8", "replace") for piece in scrubbed]

    def _hide(self, text: str) -> str:
        self.count += bool(text)
        return "x" * len(_encode(text))

    def scrub_text(self, text: str) -> str:
        """Return a complete text with "x" for each byte of a secret."""
        # A match may end inside a character where a long text is cut.
        return self.scrub(_encode(text)).decode("utf-8", "replace")


def _hide_fields(fields: Iterable[Field], text: str, hide: Callable[[str], str]) -> str:
    """Return a text with the spans of credentials hidden."""
    pieces: list[str] = []
    at = 0
    for start, end, _ in fields:
        if end > at:
            pieces += (text[at:start], hide(text[max(at, start) : end]))
            at = end
    return "".join([*pieces, text[at:]])


def redact_struct(value: T) -> T:
    """Return a struct, such as the report of a stream, with the secrets in its texts redacted."""
    fields = _map_strings(msgspec.to_builtins(value), Secrets().scrub_text)
    return msgspec.convert(fields, type(value))


def _map_strings(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if is_object(value):
        return {change(name): _map_strings(item, change) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)  # of a value whose type is not known
        return [_map_strings(item, change) for item in items]
    return value


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _find_matches(
    patterns: Iterable[re.Pattern[str]], data: bytes, low: int, high: int
) -> Iterator[Span]:
    text, before = _decode(data[low:]), _decode(data[:low])
    for pattern in patterns:
        at, chars = low, len(before)
        for match in pattern.finditer(before + text, len(before)):
            at += _size_of(match.string[chars : match.start()])
            chars = match.start()
            if at >= high:
                break
            if match[0]:
                yield at, at + _size_of(match[0])


class Scrubber:
    """Redacts a body that arrives in chunks.

    The output has the same length as the input, and does not depend on the chunks.  At most
    56 KiB are held back; secrets of up to 8 KiB are found.

    Args:
        secrets: The known secrets, read for each stride, as some may be added meanwhile.
        patterns: Regular expressions of further secrets.
    """

    def __init__(self, secrets: Secrets, patterns: Sequence[re.Pattern[str]]) -> None:
        self._secrets = secrets
        self._patterns = patterns
        self._held = bytearray()
        self._context = 0  # held bytes that were returned already
        self._settled = 0  # bytes returned in all
        # Offsets of both are relative to the bytes returned.
        self._open: list[Span] = []  # spans that reach beyond the bytes returned
        self._covered = -1  # end of the last span

    def feed(self, data: bytes) -> bytes:
        """Add a chunk, and return the redacted bytes that are final."""
        if len(self._held) - self._context + len(data) < _STRIDE + _LOOKAHEAD:
            self._held += data
            return b""
        settled: list[bytes] = []
        for start in range(0, len(data), _STRIDE):
            self._held += data[start : start + _STRIDE]
            if len(self._held) - self._context >= _STRIDE + _LOOKAHEAD:
                settled.append(self._settle(_STRIDE))
        return b"".join(settled)

    def close(self) -> bytes:
        """Return the remaining bytes."""
        settled: list[bytes] = []
        while rest := len(self._held) - self._context:
            settled.append(self._settle(min(rest, _STRIDE)))
        return b"".join(settled)

    def _settle(self, size: int) -> bytes:
        """Return the next final bytes, redacted."""
        start, end = self._context, self._context + size
        data = bytes(self._held[: end + _LOOKAHEAD])
        first = start + _SHIFT if self._settled else start
        fields = self._settled < _FIELDS_BYTES
        spans = self._secrets.find(data, first, end + _SHIFT, self._patterns, fields=fields)
        piece = self._replace(data[start:end], [(low - start, high - start) for low, high in spans])
        self._settled += size
        self._context = min(_CONTEXT, end)
        del self._held[: end - self._context]
        return piece

    def _replace(self, piece: bytes, spans: list[Span]) -> bytes:
        """Return a piece of the body with secrets masked; store spans that end beyond the piece."""
        size = len(piece)
        for start, end in spans:
            # Overlapping and adjacent spans count as one secret.
            self._secrets.count += start > self._covered
            self._covered = max(self._covered, end)
        self._covered -= size
        spans = self._open + spans
        if not spans:
            return piece
        self._open = [(start - size, end - size) for start, end in spans if end > size]
        out = bytearray(piece)
        for start, end in spans:
            _cover(out, start, end)
        return bytes(out)


def _cover(out: bytearray, start: int, end: int) -> None:
    start, end = max(0, start), min(end, len(out))
    if start < end:
        out[start:end] = b"x" * (end - start)


def _leave_escape(data: bytes, start: int) -> int:
    r"""Return the start of a mask, moved so that it splits no escape: `\n` must not become `\x`."""
    if b"\\" not in data[max(0, start - 5) : start]:
        return start
    match = _OPEN_ESCAPE.search(data, max(0, start - 64), start)
    return start if match is None else match.start(1)


def _size_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
