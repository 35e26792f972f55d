"""Patterns of well-known keys and tokens, found without knowing their values."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamnorm.recording.secrets.forms import Span

__all__ = ["find_fields", "find_tokens"]

# No match is longer than the look-ahead of a `Scrubber`, hence the upper bounds.
_ESCAPE_BEFORE = rb"(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})"
_ALONE = rb"(?:(?<![A-Za-z0-9_-])|" + _ESCAPE_BEFORE + rb")"
# For shapes that may occur in base64 by chance: signatures must stay intact.
_NOT_IN_BASE64 = rb"(?:(?<![A-Za-z0-9_+/.-])|" + _ESCAPE_BEFORE + rb")"
_END = rb"(?![A-Za-z0-9_-])"
_DIGIT = rb"(?=[A-Za-z_-]{0,64}[0-9])"
# Eight letters and digits in a row: hyphenated words have shorter numbers.
_RANDOM = rb"(?=[A-Za-z0-9_-]{0,80}?(?=[A-Za-z]{0,7}[0-9])[A-Za-z0-9]{8})"


def _token(prefix: bytes, least: int, most: int) -> re.Pattern[bytes]:
    return re.compile(
        _ALONE + re.escape(prefix) + _DIGIT + rb"[A-Za-z0-9]{%d,%d}" % (least, most) + _END
    )


# By three bytes of the prefix: their offset in the match, and its pattern.
_TOKENS = {
    b"sk-": (0, re.compile(_ALONE + rb"sk-" + _RANDOM + rb"[A-Za-z0-9_-]{16,400}" + _END)),
    b"sk_": (1, _token(b"gsk_", 20, 200)),
    b"ai-": (1, _token(b"xai-", 20, 200)),
    b"hf_": (0, _token(b"hf_", 20, 100)),
    b"hp_": (1, _token(b"ghp_", 20, 100)),
    b"lx-": (2, _token(b"pplx-", 20, 200)),
    b"rg-": (1, _token(b"org-", 16, 64)),
    b"oj_": (2, _token(b"proj_", 16, 64)),
    b"at_": (
        8,
        re.compile(_ALONE + rb"github_pat_" + _DIGIT + rb"[A-Za-z0-9_]{20,200}" + _END),
    ),
    b"a29": (1, re.compile(_ALONE + rb"ya29\.[A-Za-z0-9_-]{20,4000}")),
    b"KIA": (1, re.compile(_NOT_IN_BASE64 + rb"AKIA[0-9A-Z]{16}(?![A-Za-z0-9_+=-])")),
    # JSON Web Token: two objects in base64, and a signature.
    b"eyJ": (
        0,
        re.compile(
            _NOT_IN_BASE64
            + rb"eyJ[A-Za-z0-9_-]{8,1500}\.eyJ[A-Za-z0-9_-]{8,4500}\.[A-Za-z0-9_-]{8,1500}"
        ),
    ),
}
_GOOGLE = re.compile(_NOT_IN_BASE64 + rb"AIza[A-Za-z0-9_-]{30,60}(?![A-Za-z0-9_+=-])")
_BEARER = re.compile(
    rb"(?<![A-Za-z])[Bb]earer +((?=[A-Za-z._~+/-]{0,64}[0-9])[A-Za-z0-9._~+/-]{16,4000}=*)"
)

# Searching for the three bytes of each prefix in turn would cost twelve searches.  Mapping
# all first bytes to 1, second to 2 and third to 3 makes one search find all, and little else.
_CLASSES = {b"shalroeK": 1, b"kfpxgjity2I": 2, b"-_J9A": 3}
_TO_CLASS = bytes(
    next((number for letters, number in _CLASSES.items() if octet in letters), 0)
    for octet in range(256)
)
_PREFIX = bytes((1, 2, 3))

_FIELD_NAMES = (
    b"access_token",
    b"apiKey",
    b"api_key",
    b"client_secret",
    b"password",
    b"private_key",
    b"refresh_token",
)
_FIELD = re.compile(
    rb'(?<=[A-Za-z])(?:"\s*:\s*"((?:[^"\\\0]|\\.){1,6000})"'
    # The same in a string of JSON, where each quote has backslashes before it.
    rb'|(\\{1,8})"\s*:\s*\2"((?:[^"\\\0]|(?!\2")\\{1,8}[^\\\0]){1,6000})\2")',
    re.DOTALL,
)


def find_tokens(data: bytes, low: int, high: int) -> Iterator[Span]:
    """Yield the spans of typical secrets that start at or after `low` and before `high`."""
    classes = data.translate(_TO_CLASS)
    at = classes.find(_PREFIX, low, high + 16)
    while at >= 0:
        offset, pattern = _TOKENS.get(data[at : at + 3], (0, None))
        if pattern is not None and low <= at - offset < high:
            match = pattern.match(data, at - offset)
            if match is not None:
                yield match.span()
        at = classes.find(_PREFIX, at + 1, high + 16)
    for start in _all(b"AIza", data, low, high):
        match = _GOOGLE.match(data, start)
        if match is not None:
            yield match.span()
    for start in _all(b"earer ", data, low + 1, high + 1):
        match = _BEARER.match(data, start - 1)
        if match is not None:
            yield match.span(1)


def find_fields(data: bytes, low: int, high: int) -> Iterator[Span]:
    """Yield the spans of the values of JSON fields with secret names."""
    for name in _FIELD_NAMES:
        for start in _all(name, data, low, high):
            match = _FIELD.match(data, start + len(name))
            if match is not None:
                yield match.span(1 if match[1] is not None else 3)


def _all(word: bytes, data: bytes, low: int, high: int) -> Iterator[int]:
    start = data.find(word, low, high + len(word) - 1)
    while start >= 0:
        yield start
        start = data.find(word, start + 1, high + len(word) - 1)
