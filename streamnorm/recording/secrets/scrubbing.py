"""The streaming redactor: secrets in a body that arrives in chunks are replaced by "x"."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from streamnorm.recording.secrets.forms import Forms, Span
from streamnorm.recording.secrets.patterns import find_fields, find_tokens

__all__ = ["Finder", "Scrubber"]

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

_OPEN_ESCAPE = re.compile(rb"(?<!\\)(?:\\\\)*(\\(?:u[0-9A-Fa-f]{0,3})?)\Z")


class Finder:
    """Finds secrets in bytes.

    Args:
        forms: The known secrets.
        patterns: Regular expressions of further secrets.
    """

    def __init__(self, forms: Forms, patterns: Sequence[re.Pattern[str]]) -> None:
        self._forms = forms
        self._patterns = patterns

    def find(self, data: bytes, low: int, high: int, *, fields: bool) -> list[Span]:
        """Return the spans of secrets, in order; they may overlap.

        Args:
            data: The bytes, with context before `low` and after `high`.
            low: Offset at which the first secret may start.
            high: Offset before which every secret starts.
            fields: Whether to include the values of JSON fields with secret names.
        """
        spans = list(self._forms.find(data, low, high))
        spans += [(start, end) for start, end, _ in find_tokens(data, low, high)]
        if fields:
            spans += [(start, end) for start, end, _ in find_fields(data, low, high)]
        if self._patterns:
            spans += self._matches(data, low, high)
        return sorted((_outside_escape(data, start), end) for start, end in spans)

    def _matches(self, data: bytes, low: int, high: int) -> Iterator[Span]:
        text = data[low:].decode("utf-8", "surrogateescape")
        before = data[:low].decode("utf-8", "surrogateescape")
        for pattern in self._patterns:
            at, chars = low, len(before)
            for match in pattern.finditer(before + text, len(before)):
                at += _size(match.string[chars : match.start()])
                chars = match.start()
                if at >= high:
                    break
                if match[0]:
                    yield at, at + _size(match[0])


class Scrubber:
    """Replaces each byte of a secret by "x" in a body that arrives in chunks.

    The output has the same length as the input, and does not depend on the chunks.  At most
    56 KiB are held back; secrets of up to 8 KiB are found.

    Args:
        finder: Returns the finder; called for each stride, as secrets may be added meanwhile.
        found: Called for each secret that is replaced.
    """

    def __init__(self, finder: Callable[[], Finder], found: Callable[[], None]) -> None:
        self._finder = finder
        self._found = found
        self._held = bytearray()
        self._context = 0  # held bytes that were returned already
        self._settled = 0  # bytes returned in all
        # Offsets of both are relative to the bytes returned.
        self._open: list[Span] = []  # spans that reach beyond the bytes returned
        self._covered = -1  # end of the last span

    def feed(self, data: bytes) -> bytes:
        """Add a chunk; return the bytes that are settled."""
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
        """Return the rest."""
        settled: list[bytes] = []
        while rest := len(self._held) - self._context:
            settled.append(self._settle(min(rest, _STRIDE)))
        return b"".join(settled)

    def _settle(self, size: int) -> bytes:
        """Return the next bytes, without secrets."""
        start, end = self._context, self._context + size
        data = bytes(self._held[: end + _LOOKAHEAD])
        first = start + _SHIFT if self._settled else start
        fields = self._settled < _FIELDS_BYTES
        spans = self._finder().find(data, first, end + _SHIFT, fields=fields)
        piece = self._replace(data[start:end], [(low - start, high - start) for low, high in spans])
        self._settled += size
        self._context = min(_CONTEXT, end)
        del self._held[: end - self._context]
        return piece

    def _replace(self, piece: bytes, spans: list[Span]) -> bytes:
        """Return a stride with its spans replaced; store the spans that reach beyond it."""
        size = len(piece)
        for start, end in spans:
            # Overlapping and adjacent spans count as one secret.
            if start > self._covered:
                self._found()
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


def _outside_escape(data: bytes, start: int) -> int:
    r"""Return a start that splits no escape: `\n` before a secret must not become `\x`."""
    if b"\\" not in data[max(0, start - 5) : start]:
        return start
    match = _OPEN_ESCAPE.search(data, max(0, start - 64), start)
    return start if match is None else match.start(1)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
