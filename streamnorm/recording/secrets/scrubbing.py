"""Replacing secrets in bytes that come in pieces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from streamnorm.recording.secrets.forms import Forms, Span
from streamnorm.recording.secrets.shapes import find_fields, find_shapes

__all__ = ["Finder", "Scrubber"]

# What is searched at once.  Always the same pieces of the body, wherever it was cut when it
# came, so that the same body gives the same bytes.
_STRIDE = 48 * 1024
# How much of what follows must be there: no form or shape of a secret is longer.
_LOOKAHEAD = 8 * 1024
# How much of what went before is kept, for what must not stand before a secret.
_CONTEXT = 128
# What is found may turn out to start a little earlier, inside of an escape.
_SHIFT = 8
# A body that hands out credentials in fields is a document; what comes later is a model's.
_FIELDS_BYTES = 1024 * 1024

_OPEN_ESCAPE = re.compile(rb"(?<!\\)(?:\\\\)*(\\(?:u[0-9A-Fa-f]{0,3})?)\Z")


class Finder:
    """Find secrets in bytes.

    Args:
        forms: Those that are known.
        patterns: What others look like.
    """

    def __init__(self, forms: Forms, patterns: Sequence[re.Pattern[str]]) -> None:
        self._forms = forms
        self._patterns = patterns

    def find(self, data: bytes, low: int, high: int, *, fields: bool) -> list[Span]:
        """Return where secrets stand that start from `low` and before `high`, in order.

        They may overlap.

        Args:
            data: What surrounds them, too.
            low: Where the first may start.
            high: Where none starts any more.
            fields: Whether the values of JSON fields that are named so are secrets.
        """
        spans = [*find_shapes(data, low, high), *self._forms.find(data, low, high)]
        if fields:
            spans += find_fields(data, low, high)
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
    """Replace secrets in a body that comes in pieces, each byte of them by an "x".

    The bytes that come out are the same however the body is cut, and as many as went in.
    At most 56 KiB are held back; a secret is found if it is no longer than 8 KiB.

    Args:
        finder: Gives what finds them; asked each time, as more may be learnt meanwhile.
        found: Called for each secret that is replaced.
    """

    def __init__(self, finder: Callable[[], Finder], found: Callable[[], None]) -> None:
        self._finder = finder
        self._found = found
        self._held = bytearray()
        self._context = 0  # how many of the held bytes have gone out
        self._settled = 0  # how many bytes have gone out in all
        # Both counted from what has gone out.
        self._open: list[Span] = []  # what was found and has not gone out
        self._covered = -1  # where the last of it ends

    def feed(self, data: bytes) -> bytes:
        """Take a piece; return what is settled."""
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
        """Return a piece without what stands in it, and keep what reaches behind it."""
        size = len(piece)
        for start, end in spans:
            # What overlaps or continues another is one with it.
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
    r"""Return where to start so that no escape is torn: `\n` before `otebook` is no `\x`."""
    if b"\\" not in data[max(0, start - 5) : start]:
        return start
    match = _OPEN_ESCAPE.search(data, max(0, start - 64), start)
    return start if match is None else match.start(1)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
