"""Search for known values in a body, in every encoding: raw, base64, URL- or JSON-escaped."""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TypeAlias

__all__ = ["Forms", "Span"]

Span: TypeAlias = tuple[int, int]
"""Start and end of a match, as offsets in bytes."""

# A longer value is searched for in pieces, so that no form of it is longer than the look-ahead
# of a `Scrubber`: 342 characters of base64, each escaped by at most thirteen bytes.
_MAX_PIECE = 256
# Shorter base64 occurs in ordinary base64 by chance.
_MIN_BASE64 = 6
# JSON in JSON in JSON: each level doubles the backslashes.  A bound, so that a run of
# backslashes is read in linear time.
_BACKSLASHES = rb"\\{1,8}"
_SHORT = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_MEANT = {short.encode(): meant.encode() for meant, short in _SHORT.items()}


class Forms:
    """Finds known values in bytes, in any of their forms.

    Args:
        values: The values to find.
    """

    def __init__(self, values: Iterable[str]) -> None:
        texts = {text for value in values for text in _texts(value)}
        # The same order in every run, whatever the hash seed.
        self._needles = sorted(text.encode() for text in texts)
        self._escapes = _Escapes(frozenset("".join(texts))) if texts else None

    def find(self, data: bytes, low: int, high: int) -> Iterator[Span]:
        """Yield the spans of values that start at or after `low` and before `high`."""
        yield from self._raw(data, low, high)
        if self._escapes is not None and self._escapes.stand_in(data, low):
            plain = _Unescaped(data, low, self._escapes.pattern)
            for start, end in self._raw(plain.data, 0, len(plain.data)):
                span = plain.origin(start, end)
                if span[0] < high:
                    yield span

    def _raw(self, data: bytes, low: int, high: int) -> Iterator[Span]:
        for needle in self._needles:
            size = len(needle)
            start = data.find(needle, low, high + size - 1)
            while start >= 0:
                yield start, start + size
                start = data.find(needle, start + size, high + size - 1)


class _Escapes:
    """A pattern of the escapes of the characters in known values."""

    def __init__(self, characters: frozenset[str]) -> None:
        text = "".join(sorted(characters))
        units = text.encode("utf-16-be").hex(" ", 2).encode().split()
        octets = sorted({b"%02x" % octet for octet in text.encode()})
        short = "".join(_SHORT[character] for character in text if character in _SHORT)
        # Cheap searches that most bodies fail, so that `pattern` need not run.
        common = b"00" if all(unit.startswith(b"00") for unit in units) else b""
        self._gates = (
            re.compile(rb"\\u%b(?i:%b)" % (common, _any(u.removeprefix(common) for u in units))),
            re.compile(rb"%%(?:25){0,3}(?i:%b)" % _any(octets)),
        )
        self._pairs = [b"\\" + character.encode() for character in short]
        named = rb"|[%b]" % re.escape(short.encode()) if short else b""
        self.pattern = re.compile(
            rb"%(s)b(?:(?:u(?i:(d[89ab]..)%(s)bu(d[c-f]..)|(%(units)b)))%(named)b)"
            rb"|%%(?:25){0,3}((?i:%(octets)b))"
            % {
                b"s": _BACKSLASHES,
                b"units": _any(units),
                b"named": named,
                b"octets": _any(octets),
            },
            re.DOTALL,
        )

    def stand_in(self, data: bytes, low: int) -> bool:
        """Return whether `data` may contain such an escape from `low` on."""
        return any(gate.search(data, low) is not None for gate in self._gates) or any(
            data.find(pair, low) >= 0 for pair in self._pairs
        )


class _Unescaped:
    """Bytes with escapes resolved, and a map from their offsets to the original ones."""

    def __init__(self, data: bytes, low: int, pattern: re.Pattern[bytes]) -> None:
        pieces: list[bytes] = []
        self._starts = [0]  # start of each resolved escape in `data`
        self._ends = [0]  # its end in `data`
        self._origins = [(low, low)]  # span of the escape in the original bytes
        at, size = low, 0
        for match in pattern.finditer(data, low):
            meant = _meaning(match)
            pieces += (data[at : match.start()], meant)
            size += match.start() - at
            self._starts.append(size)
            size += len(meant)
            self._ends.append(size)
            self._origins.append(match.span())
            at = match.end()
        pieces.append(data[at:])
        self.data = b"".join(pieces)

    def origin(self, start: int, end: int) -> Span:
        """Return the span in the original bytes of a span in `data`."""
        first = bisect_right(self._starts, start) - 1
        last = bisect_right(self._starts, end - 1) - 1
        inside = start < self._ends[first]
        before = self._origins[first]
        behind = max(0, end - self._ends[last])
        return (
            before[0] if inside else before[1] + start - self._ends[first],
            self._origins[last][1] + behind,
        )


def _meaning(match: re.Match[bytes]) -> bytes:
    high, low, unit, octet = match.groups()
    if octet:
        return bytes.fromhex(octet.decode())
    if unit or high:
        units = bytes.fromhex((unit or high + low).decode())
        return units.decode("utf-16-be", "replace").encode()
    return _MEANT[match[0][-1:]]


def _any(words: Iterable[bytes]) -> bytes:
    return b"|".join(sorted(set(words)))


def _texts(value: str) -> Iterator[str]:
    for piece in _pieces(value):
        yield piece
        if " " in piece:
            yield piece.replace(" ", "+")  # as in a query string
        yield from _base64_of(piece.encode())


def _pieces(value: str) -> Iterator[str]:
    if len(value) <= _MAX_PIECE:
        yield value
        return
    for start in range(0, len(value), _MAX_PIECE):
        # The last piece overlaps the one before: a short piece would match anywhere.
        yield value[min(start, len(value) - _MAX_PIECE) :][:_MAX_PIECE]


def _base64_of(value: bytes) -> Iterator[str]:
    """Yield the base64 characters that depend on the value alone, for each alignment."""
    for shift in range(3):
        first, last = (shift * 8 + 5) // 6, (shift + len(value)) * 8 // 6
        if last - first < _MIN_BASE64:
            continue
        for encode in (b64encode, urlsafe_b64encode):
            yield encode(bytes(shift) + value)[first:last].decode()
