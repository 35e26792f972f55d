"""Masking of the gateway's keys in the answers of upstreams.

Some servers quote the key that they refuse, and proxies quote headers.  Clients must not learn the
gateway's keys.
"""

from __future__ import annotations

import re

from streamnorm._upstream.requests import Upstream

_BEARER = "Bearer "
# A shorter key is a placeholder, as of a server that checks none.
_MIN_CHARS = 8
_MAX_ESCAPE_BYTES = 6  # \u002f
_BACKSLASH = 0x5C
_SHORT_ESCAPES = frozenset('"/\\')  # characters that a JSON string may have behind a backslash


class UpstreamKey:
    """An upstream's API key, which is found and masked in text and in JSON strings.

    Args:
        key: The key, of printable ASCII.
    """

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._mask = b"x" * len(self._key)
        self._spellings = [_spellings(char) for char in key]
        self._pattern = re.compile(b"".join(map(_pattern, key)))
        self._has_short_escape = not _SHORT_ESCAPES.isdisjoint(key)
        self._max_bytes = _MAX_ESCAPE_BYTES * len(self._key)

    def __repr__(self) -> str:
        return "UpstreamKey(…)"

    @classmethod
    def of(cls, upstream: Upstream) -> UpstreamKey | None:
        """Return the API key of an upstream; None without a key, or if the key is a placeholder."""
        for name in upstream.dialect_record.endpoints.key_headers:
            key = upstream.headers.get(name, "").removeprefix(_BEARER)
            if len(key) >= _MIN_CHARS:
                return cls(key)
        return None

    def replace(self, data: bytes) -> bytes:
        """Return bytes with `x` in place of the key, of the same length."""
        data = data.replace(self._key, self._mask)
        # Escapes of ASCII are rare: the pattern, which is slow, is not tried on other text.
        if b"\\u00" in data or (self._has_short_escape and b"\\" in data):
            data = self._pattern.sub(lambda found: b"x" * len(found[0]), data)
        return data

    def replace_in_header(self, value: str) -> str:
        """Return a header's value with `x` in place of the key."""
        return self.replace(value.encode("utf-8", "surrogateescape")).decode(
            "utf-8", "surrogateescape"
        )

    def start_in(self, data: bytes) -> int:
        """Return the offset of a possible beginning of the key at the end of `data`."""
        for at in range(max(0, len(data) - self._max_bytes), len(data)):
            if data[at] in (self._key[0], _BACKSLASH) and self._may_go_on(data, at):
                return at
        return len(data)

    def _may_go_on(self, data: bytes, at: int) -> bool:
        for spellings in self._spellings:
            rest = data[at : at + _MAX_ESCAPE_BYTES].lower()
            spelling = next((each for each in spellings if rest.startswith(each)), None)
            if spelling is None:
                return any(each.startswith(rest) for each in spellings)  # the end of the data
            at += len(spelling)
        return False


class KeyMask:
    """Masks an upstream's key in the answer, even where the key is split between chunks.

    Args:
        key: The key.
    """

    def __init__(self, key: UpstreamKey) -> None:
        self._key = key
        self._held = b""  # at most the longest spelling of the key

    def feed(self, data: bytes) -> bytes:
        """Return bytes with the key masked; a possible beginning of the key is held."""
        if self._held:
            data, self._held = self._held + data, b""
        data = self._key.replace(data)
        # An event ends in a line feed, which no key has: nothing is held back of it.
        if data[-1:] != b"\n":
            at = self._key.start_in(data)
            data, self._held = data[:at], data[at:]
        return data

    def close(self) -> bytes:
        """Return the held bytes."""
        held, self._held = self._held, b""
        return held


def _spellings(char: str) -> tuple[bytes, ...]:
    """Return the lower-case spellings of a character in a JSON string."""
    escaped, plain = b"\\u%04x" % ord(char), char.lower().encode()
    return (escaped, b"\\" + plain, plain) if char in _SHORT_ESCAPES else (escaped, plain)


def _pattern(char: str) -> bytes:
    """Return a pattern of all spellings of a character in a JSON string."""
    digits = "".join(f"[{digit}{digit.upper()}]" for digit in f"{ord(char):04x}")
    plain = re.escape(char)
    short = rf"|\\{plain}" if char in _SHORT_ESCAPES else ""
    return rf"(?:\\u{digits}{short}|{plain})".encode()
