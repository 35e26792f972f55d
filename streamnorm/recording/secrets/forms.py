"""The forms in which a known value may stand in a body: raw, base64, url- or JSON-escaped."""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TypeAlias

__all__ = ["Forms", "Span"]

Span: TypeAlias = tuple[int, int]
"""Where something starts in bytes, and where it ends."""

# A longer value is looked for in pieces, so that no form of it is longer than the look-ahead
# of a `Scrubber`: 342 characters of base64, each escaped by at most thirteen bytes.
_MAX_PIECE = 256
# Shorter base64 stands in ordinary base64 by chance.
_MIN_BASE64 = 6
# JSON in JSON in JSON: each level doubles the backslashes.  A bound, so that a run of
# backslashes is read in linear time.
_BACKSLASHES = rb"\\{1,8}"
_SHORT = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_MEANT = {short.encode(): meant.encode() for meant, short in _SHORT.items()}


class Forms:
    """Find known values in bytes, whatever form they stand in.

    Args:
        values: What to find.
    """

    def __init__(self, values: Iterable[str]) -> None:
        texts = {text for value in values for text in _texts(value)}
        # The same order in every run, whatever the seed of the hashes.
        self._needles = sorted(text.encode() for text in texts)
        self._escapes = _Escapes(frozenset("".join(texts))) if texts else None

    def find(self, data: bytes, low: int, high: int) -> Iterator[Span]:
        """Yield where values stand that start from `low` and before `high`."""
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
    """The escapes that may stand for a character of known values, and for no other."""

    def __init__(self, characters: frozenset[str]) -> None:
        text = "".join(sorted(characters))
        units = text.encode("utf-16-be").hex(" ", 2).encode().split()
        octets = sorted({b"%02x" % octet for octet in text.encode()})
        short = "".join(_SHORT[character] for character in text if character in _SHORT)
        # Each begins with fixed bytes, which makes it fast to find that none is there.
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
        """Tell whether one of them stands there."""
        return any(gate.search(data, low) is not None for gate in self._gates) or any(
            data.find(pair, low) >= 0 for pair in self._pairs
        )


class _Unescaped:
    """Bytes with escapes resolved, and where each of them came from."""

    def __init__(self, data: bytes, low: int, pattern: re.Pattern[bytes]) -> None:
        pieces: list[bytes] = []
        self._starts = [0]  # of each escape: where its meaning starts,
        self._ends = [0]  # where that ends,
        self._origins = [(low, low)]  # and the bytes that it was
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
        """Return the bytes that a part of `data` came from."""
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
            yield piece.replace(" ", "+")  # as in a query
        yield from _base64_of(piece.encode())


def _pieces(value: str) -> Iterator[str]:
    if len(value) <= _MAX_PIECE:
        yield value
        return
    for start in range(0, len(value), _MAX_PIECE):
        # The last one overlaps that before it: a short piece would stand anywhere.
        yield value[min(start, len(value) - _MAX_PIECE) :][:_MAX_PIECE]


def _base64_of(value: bytes) -> Iterator[str]:
    """Yield the characters that a value alone decides, for each way it may be aligned."""
    for shift in range(3):
        first, last = (shift * 8 + 5) // 6, (shift + len(value)) * 8 // 6
        if last - first < _MIN_BASE64:
            continue
        for encode in (b64encode, urlsafe_b64encode):
            yield encode(bytes(shift) + value)[first:last].decode()
