"""Search for keys and tokens by their shape, and for known values in any encoding."""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

# No match is longer than the look-ahead of a `Scrubber`, hence the upper bounds.
_ESCAPE_BEFORE = rb"(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})"
_ALONE = rb"(?:(?<![A-Za-z0-9_-])|" + _ESCAPE_BEFORE + rb")"
# For shapes that may occur in base64 by chance: signatures must stay intact.
_NOT_IN_BASE64 = rb"(?:(?<![A-Za-z0-9_+/.-])|" + _ESCAPE_BEFORE + rb")"
_END = rb"(?![A-Za-z0-9_-])"
_DIGIT = rb"(?=[A-Za-z_-]{0,64}[0-9])"
# Eight letters and digits in a row: hyphenated words have shorter numbers.
_RANDOM = rb"(?=[A-Za-z0-9_-]{0,80}?(?=[A-Za-z]{0,7}[0-9])[A-Za-z0-9]{8})"


# A line end, also as an escape in JSON or in JSON in JSON, or a space where lines were joined.
_LINE_END = rb"(?:\r?\n|\\{1,8}[nr]| )"
_PEM_HEADER = rb"[A-Z][A-Za-z-]{1,20}: [^\s\\\"]{1,80}(?: [^\s\\\"]{1,40}){0,4}?" + _LINE_END
# A private key with its markers, escapes included; an RSA key of 8192 bits has 6,500.
_MAX_MATCH = 8000

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


class Secret(NamedTuple):
    """A secret found in bytes.

    Attributes:
        start: Offset of its first byte.
        end: Offset behind its last byte.
        kind: Kind of the secret, such as `AWS access key`.
    """

    start: int
    end: int
    kind: str


class _Shape(NamedTuple):
    """The shape of a kind of secret.

    Attributes:
        kind: Kind of the secret, such as `AWS access key`.
        offset: Offset in the match of the bytes that are searched for.
        pattern: Matches the secret, which is the group if there is one.
    """

    kind: str
    offset: int
    pattern: re.Pattern[bytes]


def _compile_token(prefix: bytes, least: int, most: int, offset: int = 0) -> _Shape:
    word = re.escape(prefix) + _DIGIT + rb"[A-Za-z0-9]{%d,%d}" % (least, most)
    return _Shape(f"{prefix.decode()} key", offset, re.compile(_ALONE + word + _END))


def _compile_random_token(prefix: bytes, least: int, most: int, offset: int = 0) -> _Shape:
    word = re.escape(prefix) + _RANDOM + rb"[A-Za-z0-9_-]{%d,%d}" % (least, most)
    return _Shape(f"{prefix.decode()} key", offset, re.compile(_ALONE + word + _END))


def _compile(kind: str, pattern: bytes, offset: int = 0) -> _Shape:
    return _Shape(kind, offset, re.compile(pattern))


# By three bytes of the prefix, at the offset of the shape; each has to be in its set of `_CLASSES`.
_BY_PREFIX: dict[bytes, tuple[_Shape, ...]] = {
    b"sk-": (_compile_random_token(b"sk-", 16, 400), _compile_token(b"csk-", 20, 200, 1)),
    b"sk_": (_compile_token(b"gsk_", 20, 200, 1),),
    b"ai-": (_compile_token(b"xai-", 20, 200, 1),),
    b"hf_": (_compile_token(b"hf_", 20, 100),),
    b"hp_": (_compile_token(b"ghp_", 20, 100, 1),),
    b"lx-": (_compile_token(b"pplx-", 20, 200, 2),),
    b"r8_": (_compile_token(b"r8_", 20, 100),),
    b"rg-": (_compile_token(b"org-", 16, 64, 1),),
    b"oj_": (_compile_token(b"proj_", 16, 64, 2),),
    b"at_": (
        _compile("github_pat_ key", _ALONE + rb"github_pat_" + _DIGIT + rb"\w{20,200}" + _END, 8),
    ),
    b"at-": (
        _compile(
            "glpat- key",
            # With a version and a checksum, where GitLab has several cells.
            _ALONE + rb"glpat-" + _RANDOM + rb"[\w-]{16,300}(?:\.\w{2}\.\w{6,12})?" + _END,
            3,
        ),
    ),
    b"a29": (_compile("Google OAuth token", _ALONE + rb"ya29\.[A-Za-z0-9_-]{20,4000}", 1),),
    b"KIA": (
        _compile("AWS access key", _NOT_IN_BASE64 + rb"AKIA[0-9A-Z]{16}(?![A-Za-z0-9_+=-])", 1),
    ),
    # Two objects in base64, and a signature.
    b"eyJ": (
        _compile(
            "JSON Web Token", _NOT_IN_BASE64 + rb"eyJ[\w-]{8,1500}\.eyJ[\w-]{8,4500}\.[\w-]{8,1500}"
        ),
    ),
}
# By the bytes at the offset of the shape: prefixes whose bytes fit in none of `_CLASSES`.
_BY_WORD: tuple[tuple[bytes, _Shape], ...] = (
    (b"AIza", _compile("Google API key", _NOT_IN_BASE64 + rb"AIza[\w-]{30,60}(?![A-Za-z0-9_+=-])")),
    (b"AQ.", _compile_random_token(b"AQ.", 20, 400)),
    (b"ASIA", _compile("AWS access key", _NOT_IN_BASE64 + rb"ASIA[0-9A-Z]{16}(?![A-Za-z0-9_+=-])")),
    (b"ek_", _compile_random_token(b"ek_", 16, 400)),
    (b"fw_", _compile_token(b"fw_", 20, 100)),
    *((prefix, _compile_token(prefix, 20, 300)) for prefix in (b"gho_", b"ghr_", b"ghs_", b"ghu_")),
    (b"nvapi-", _compile_random_token(b"nvapi-", 20, 200)),
    (
        b"xox",
        _compile("Slack token", _ALONE + rb"xox[abeprs]-(?=[0-9])[A-Za-z0-9-]{16,300}" + _END),
    ),
    (
        b"earer ",
        _compile(
            "bearer token",
            rb"(?<![A-Za-z])[Bb]earer +"
            rb"((?=[A-Za-z._~+/-]{0,64}[0-9])[A-Za-z0-9._~+/-]{16,4000}=*)",
            1,
        ),
    ),
    (
        b"-----BEGIN ",
        _compile(
            "private key",
            rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            rb"%(n)b{0,4}(?:%(header)b%(n)b{0,3}){0,4}"
            rb"(?=[A-Za-z0-9+/]{32})((?:[A-Za-z0-9+/=]|%(n)b)+)"
            % {b"n": _LINE_END, b"header": _PEM_HEADER},
        ),
    ),
)

# Searching for the three bytes of each prefix in turn would cost as many searches.  Mapping
# all first bytes to 1, second to 2 and third to 3 makes one search find all, and little else.
_CLASSES = {b"shalroeK": 1, b"kfpxgjity2I8": 2, b"-_J9A": 3}
_TO_CLASS = bytes(
    next((number for letters, number in _CLASSES.items() if octet in letters), 0)
    for octet in range(256)
)
_PREFIX = bytes((1, 2, 3))
_LONGEST_PREFIX = 16

_LINE = re.compile(rb"[^\r\n]+")

_FIELD_NAMES = (
    b"access_token",
    b"apiKey",
    b"api_key",
    b"client_secret",
    b"password",
    b"private_key",
    b"refresh_token",
    b"signing_secret",  # of a webhook of OpenAI
    b"tunnel_token",  # of a tunnel of Anthropic
)
# The value may stand in an object, unless that is a schema.
_FIELD = re.compile(
    rb'(?<=[A-Za-z])(?:"\s*:\s*(?:\{\s*"(?!type"|name"|title"|description")\w{1,40}"\s*:\s*)?'
    rb'"((?:[^"\\\0]|\\.){1,6000})"'
    # The same in a string of JSON, where each quote has backslashes before it.
    rb'|(\\{1,8})"\s*:\s*(?:\{\s*\2"(?!(?:type|name|title|description)\\)\w{1,40}\2"\s*:\s*)?'
    rb'\2"((?:[^"\\\0]|(?!\2")\\{1,8}[^\\\0]){1,6000})\2")',
    re.DOTALL,
)


def find_tokens(data: bytes, low: int, high: int) -> Iterator[Secret]:
    """Yield the secrets of known shapes that start in a range of offsets."""
    for start, shape in _find_candidates(data, low, high):
        match = shape.pattern.match(data, start, start + _MAX_MATCH)
        if match is not None:
            yield from _split_lines(data, *match.span(shape.pattern.groups), shape.kind)


def _find_candidates(data: bytes, low: int, high: int) -> Iterator[tuple[int, _Shape]]:
    """Yield each offset at which a secret may start, with the shape of the secret."""
    classes = data.translate(_TO_CLASS)
    at = classes.find(_PREFIX, low, high + _LONGEST_PREFIX)
    while at >= 0:
        for shape in _BY_PREFIX.get(data[at : at + 3], ()):
            if low <= at - shape.offset < high:
                yield at - shape.offset, shape
        at = classes.find(_PREFIX, at + 1, high + _LONGEST_PREFIX)
    for word, shape in _BY_WORD:
        for start in _find_all(word, data, low + shape.offset, high + shape.offset):
            yield start - shape.offset, shape


def _split_lines(data: bytes, start: int, end: int, kind: str) -> Iterator[Secret]:
    """Yield the lines of a multi-line secret, without line ends."""
    for line in _LINE.finditer(data, start, end):
        yield Secret(*line.span(), kind)


def find_fields(data: bytes, low: int, high: int) -> Iterator[Secret]:
    """Yield the values of JSON fields with secret names."""
    for name in _FIELD_NAMES:
        for start in _find_all(name, data, low, high):
            match = _FIELD.match(data, start + len(name))
            if match is not None:
                yield Secret(*match.span(1 if match[1] is not None else 3), "secret field")


def _find_all(word: bytes, data: bytes, low: int, high: int) -> Iterator[int]:
    start = data.find(word, low, high + len(word) - 1)
    while start >= 0:
        yield start
        start = data.find(word, start + 1, high + len(word) - 1)


class Forms:
    """Searches bytes for known values in any encoding.

    Args:
        values: The values to find.
    """

    def __init__(self, values: Iterable[str]) -> None:
        texts = {text for value in values for text in _spell(value)}
        # The same order in every run, whatever the hash seed.
        self._needles = sorted(text.encode() for text in texts)
        self._escapes = _Escapes(frozenset("".join(texts))) if texts else None

    def find(self, data: bytes, low: int, high: int) -> Iterator[Span]:
        """Yield the spans of known values that start in a range of offsets."""
        yield from self._find_plain(data, low, high)
        if self._escapes is not None and self._escapes.occur_in(data, low):
            plain = _Unescaped(data, low, self._escapes.pattern)
            for start, end in self._find_plain(plain.data, 0, len(plain.data)):
                span = plain.locate(start, end)
                if span[0] < high:
                    yield span

    def _find_plain(self, data: bytes, low: int, high: int) -> Iterator[Span]:
        for needle in self._needles:
            size = len(needle)
            start = data.find(needle, low, high + size - 1)
            while start >= 0:
                yield start, start + size
                start = data.find(needle, start + size, high + size - 1)


class _Escapes:
    """Pattern of the escape sequences for the characters in known values."""

    def __init__(self, characters: frozenset[str]) -> None:
        text = "".join(sorted(characters))
        units = text.encode("utf-16-be").hex(" ", 2).encode().split()
        octets = sorted({b"%02x" % octet for octet in text.encode()})
        short = "".join(_SHORT[character] for character in text if character in _SHORT)
        # Cheap searches that most bodies fail, so that `pattern` need not run.
        common = b"00" if all(unit.startswith(b"00") for unit in units) else b""
        self._gates = (
            re.compile(rb"\\u%b(?i:%b)" % (common, _join(u.removeprefix(common) for u in units))),
            re.compile(rb"%%(?:25){0,3}(?i:%b)" % _join(octets)),
        )
        self._pairs = [b"\\" + character.encode() for character in short]
        named = rb"|[%b]" % re.escape(short.encode()) if short else b""
        self.pattern = re.compile(
            rb"%(s)b(?:(?:u(?i:(d[89ab]..)%(s)bu(d[c-f]..)|(%(units)b)))%(named)b)"
            rb"|%%(?:25){0,3}((?i:%(octets)b))"
            % {
                b"s": _BACKSLASHES,
                b"units": _join(units),
                b"named": named,
                b"octets": _join(octets),
            },
            re.DOTALL,
        )

    def occur_in(self, data: bytes, low: int) -> bool:
        """Return whether `data` may contain an escape of the characters, from offset `low` on."""
        return any(gate.search(data, low) is not None for gate in self._gates) or any(
            data.find(pair, low) >= 0 for pair in self._pairs
        )


class _Unescaped:
    """Bytes with escapes decoded, and a map of offsets to the original bytes."""

    def __init__(self, data: bytes, low: int, pattern: re.Pattern[bytes]) -> None:
        pieces: list[bytes] = []
        self._starts = [0]  # start of each resolved escape in `data`
        self._ends = [0]  # its end in `data`
        self._origins = [(low, low)]  # span of the escape in the original bytes
        at, size = low, 0
        for match in pattern.finditer(data, low):
            meant = _decode_escape(match)
            pieces += (data[at : match.start()], meant)
            size += match.start() - at
            self._starts.append(size)
            size += len(meant)
            self._ends.append(size)
            self._origins.append(match.span())
            at = match.end()
        pieces.append(data[at:])
        self.data = b"".join(pieces)

    def locate(self, start: int, end: int) -> Span:
        """Return the span in the original bytes of a span in the decoded bytes."""
        first = bisect_right(self._starts, start) - 1
        last = bisect_right(self._starts, end - 1) - 1
        inside = start < self._ends[first]
        before = self._origins[first]
        behind = max(0, end - self._ends[last])
        return (
            before[0] if inside else before[1] + start - self._ends[first],
            self._origins[last][1] + behind,
        )


def _decode_escape(match: re.Match[bytes]) -> bytes:
    high, low, unit, octet = match.groups()
    if octet:
        return bytes.fromhex(octet.decode())
    if unit or high:
        units = bytes.fromhex((unit or high + low).decode())
        return units.decode("utf-16-be", "replace").encode()
    return _MEANT[match[0][-1:]]


def _join(words: Iterable[bytes]) -> bytes:
    return b"|".join(sorted(set(words)))


def _spell(value: str) -> Iterator[str]:
    for piece in _cut(value):
        yield piece
        if " " in piece:
            yield piece.replace(" ", "+")  # as in a query string
        yield from _base64_of(piece.encode())


def _cut(value: str) -> Iterator[str]:
    if len(value) <= _MAX_PIECE:
        yield value
        return
    for start in range(0, len(value), _MAX_PIECE):
        # The last piece overlaps the one before: a short piece would match anywhere.
        yield value[min(start, len(value) - _MAX_PIECE) :][:_MAX_PIECE]


def _base64_of(value: bytes) -> Iterator[str]:
    """Yield a value's Base64 in each alignment, without alignment-dependent characters."""
    for shift in range(3):
        first, last = (shift * 8 + 5) // 6, (shift + len(value)) * 8 // 6
        if last - first < _MIN_BASE64:
            continue
        for encode in (b64encode, urlsafe_b64encode):
            yield encode(bytes(shift) + value)[first:last].decode()
