"""Decoding of untrusted JSON that msgspec's typed fast path refuses, and tests of its values.

msgspec rejects `NaN` and lone surrogate escapes, which providers do send: one half of a surrogate
pair ends a delta, the other half begins the next.  It also raises RecursionError and
UnicodeDecodeError, which are no `MsgspecError`.
"""

from __future__ import annotations

import json
import json.decoder
import json.scanner
import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from math import isfinite
from typing import Any, TypeAlias, TypeGuard, TypeVar

import msgspec

from streamnorm._core.errors import EncodeError
from streamnorm._core.limits import Limits

_Scan: TypeAlias = Callable[[str, int], tuple[Any, int]]

# Functions that `JSONDecoder` itself calls; the stubs of the standard library have none of them.
_PARSING: Any = json.decoder
_SCANNING: Any = json.scanner
_scanstring: Callable[[str, int, bool], tuple[str, int]] = _PARSING.scanstring

# Levels of a request: the body, its messages, a message, its content, a part of the content.
_LEVELS = 5
_SLICE_CHARS = 1024 * 1024
# The rest of a string after its first quote.
_STRING = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_HIGH = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}")
_LOW = re.compile(r"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_ESCAPE_CHARS = 6  # length of the longest escape, \uXXXX

T = TypeVar("T")

PIECE_BYTES = 2 * 1024 * 1024
"""Size up to which one call decodes a text, which takes a few milliseconds.

Splitting a larger text costs a quarter of its translation.
"""

FAST_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeError)
"""Exceptions that `msgspec.json.Decoder.decode` raises for untrusted input."""

dumps = msgspec.json.Encoder().encode
"""Serialize a value as compact JSON bytes; a lone surrogate raises `UnicodeEncodeError`."""

_ANY = msgspec.json.Decoder[Any]()


def _finite(number: str) -> float | None:
    value = float(number)
    # JSON has no infinity, and no encoder here can write one.
    return value if isfinite(value) else None


def _discard_constant(_constant: str) -> None:
    return None


_GENERAL = json.JSONDecoder(parse_constant=_discard_constant, parse_float=_finite)
_TOO_MANY = 2**63
_CONTAINERS = frozenset({dict, list})
# Characters that one call cleans; if all are lone surrogates, it takes 10 ms.
_CLEANED_CHARS = 64 * 1024
# Surrogates that are not part of a pair.
_LONE_SURROGATE = re.compile(
    "[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]"
)


class InvalidJSON(Exception):
    """Text is not the expected JSON.

    Attributes:
        too_deep: Whether the text is JSON that nests deeper than the bound.
    """

    def __init__(self, message: str, *, too_deep: bool = False) -> None:
        super().__init__(message)
        self.too_deep = too_deep


def decode_any(text: str, *, max_depth: int, pieces: frozenset[str] = frozenset()) -> Any:
    """Decode JSON text; `NaN` and numbers that are not finite become None.

    Args:
        text: One JSON value.
        max_depth: Bound on the nesting.
        pieces: Keys whose strings are pieces of a longer text, and the keys that lead to them.
            A lone surrogate in such a string is left for `rejoin`; in others it becomes U+FFFD.

    Raises:
        InvalidJSON: The text is no JSON, or nests too deep.
    """
    try:
        value = _ANY.decode(text)
    except FAST_ERRORS:
        return decode_refused(text, max_depth=max_depth, pieces=pieces)
    # msgspec raises RecursionError at a depth that depends on the caller's stack, so that the bound
    # is checked here.
    if _may_nest(text, max_depth) and too_deep(value, max_depth):
        raise InvalidJSON(f"nested deeper than {max_depth}", too_deep=True)
    return value  # msgspec lets no lone surrogate pass


def decode_refused(text: str, *, max_depth: int, pieces: frozenset[str] = frozenset()) -> Any:
    """Decode JSON text that msgspec has refused, as `decode_any` does."""
    value = _general(text, max_depth)
    if _may_nest(text, max_depth) and too_deep(value, max_depth):
        raise InvalidJSON(f"nested deeper than {max_depth}", too_deep=True)
    return clean_tree(value, pieces)


def _may_nest(text: str, depth: int) -> bool:
    """Return whether text has more opening brackets than `depth`; most long texts have few."""
    for bracket in "{[":
        place = text.find(bracket)
        while place >= 0:
            depth -= 1
            if depth < 0:
                return True
            place = text.find(bracket, place + 1)
    return False


def _general(text: str, max_depth: int) -> Any:
    try:
        return (_GENERAL if len(text) <= PIECE_BYTES else _STEPWISE).decode(text)
    except RecursionError as exc:
        raise InvalidJSON(f"nested deeper than {max_depth}", too_deep=True) from exc
    except ValueError as exc:  # JSONDecodeError, and integers of more than 4,300 digits
        raise InvalidJSON(f"no JSON in {len(text)} characters") from exc


def convert(value: Any, type: type[T]) -> T:
    """Convert a decoded JSON value to `type`, leniently: numbers in strings are accepted.

    Raises:
        InvalidJSON: The value does not fit the type.
    """
    try:
        return msgspec.convert(value, type, strict=False)
    except msgspec.ValidationError as exc:
        # The text has types and a path, never the value.
        raise InvalidJSON(str(exc)[:1].lower() + str(exc)[1:]) from exc
    except UnicodeEncodeError as exc:  # a lone surrogate where no string fits
        raise InvalidJSON("lone surrogate in a string, expected no string") from exc


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a decoded JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Return whether a decoded JSON value is an array."""
    return isinstance(value, list)


def object_in(text: str) -> dict[str, Any]:
    """Decode a JSON object, within the default depth; {} for any other text."""
    try:
        value = decode_any(text, max_depth=Limits().max_json_depth)
    except InvalidJSON:
        return {}
    return value if is_object(value) else {}


def is_json(text: str) -> bool:
    """Return whether text is one JSON value."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except FAST_ERRORS:
        return False
    return True


def count_of(value: object) -> int | None:
    """Return a decoded JSON value as a count, or None: 12 and 12.0 are counts, true and -1 not."""
    # Some servers write counts as floats, and JSON's `true` is an `int` for Python.
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return int(value) if 0 <= value < _TOO_MANY and value == value // 1 else None
    return None


def too_deep(value: Any, limit: int) -> bool:
    """Return whether lists and dictionaries nest deeper than `limit`."""
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(limit):
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if type(child) in _CONTAINERS
        ]
        if not level:
            return False
    return any(level)


def string_of(value: dict[str, Any], key: str) -> str:
    """Return a string field without lone surrogates; "" for any other value."""
    text = value.get(key)
    return clean(text) if isinstance(text, str) else ""


def objects_at(value: object, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of an array, each with its path; nothing for any other value."""
    for number, item in enumerate(value if is_array(value) else ()):
        if is_object(item):
            yield f"{path}[{number}]", item


def objects_of(value: object) -> list[dict[str, Any]]:
    """Return the objects of an array; [] for any other value."""
    return [item for item in value if is_object(item)] if is_array(value) else []


def compact(value: Any) -> str:
    """Encode a JSON value or a struct as JSON text without white space or lone surrogates."""
    try:
        return dumps(value).decode()
    except UnicodeEncodeError:
        return dumps(clean_tree(msgspec.to_builtins(value))).decode()


def clean(text: str) -> str:
    """Return text with surrogate pairs joined and lone surrogates as U+FFFD."""
    if text.isascii():
        return text
    if len(text) > _CLEANED_CHARS:
        carry, parts = "", list[str]()
        for start in range(0, len(text), _CLEANED_CHARS):
            part, carry = rejoin(carry, text[start : start + _CLEANED_CHARS])
            parts.append(part)
        return "".join(parts) + clean(carry)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def rejoin(carry: str, text: str) -> tuple[str, str]:
    """Join the high surrogate at the end of one delta to the text of the next.

    Returns:
        Text that encodes to UTF-8, and the high surrogate at its end, or "".
    """
    text = carry + text
    carry = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
    return clean(text[: len(text) - len(carry)]), carry


def lone_surrogate_path(value: object, path: str = "") -> str | None:
    """Return the path of the first text with a lone surrogate, or None.

    Args:
        value: A decoded JSON value of bounded nesting.
        path: Path of the value; a key is reported with the path of its object.
    """
    if isinstance(value, str):
        return path if _LONE_SURROGATE.search(value) else None
    if is_object(value):
        for name, item in value.items():
            if _LONE_SURROGATE.search(name):
                return path
            if (found := lone_surrogate_path(item, f"{path}.{name}" if path else name)) is not None:
                return found
    for number, item in enumerate(value) if is_array(value) else ():
        if (found := lone_surrogate_path(item, f"{path}[{number}]")) is not None:
            return found
    return None


def _is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether a value is an array, or a tuple as `msgspec.to_builtins` leaves it."""
    return isinstance(value, (list, tuple))


def clean_tree(value: Any, pieces: frozenset[str] = frozenset()) -> Any:
    """Return a decoded JSON value whose texts have no lone surrogates.

    Args:
        value: The value.
        pieces: As for `decode_any`.
    """
    if isinstance(value, str):
        return clean(value)
    if _is_sequence(value):
        return [clean_tree(item, pieces) for item in value]
    if is_object(value):
        return {
            clean(key): clean_tree(item, frozenset())
            if key not in pieces
            else item
            if isinstance(item, str)
            else clean_tree(item, pieces)
            for key, item in value.items()
        }
    return value


def json_value(text: str, what: str, path: str = "") -> Any:
    """Decode JSON text that a user of the library put into a block.

    Args:
        text: The text.
        what: Name of the field, for the error.
        path: Path of the block, for the error.

    Raises:
        EncodeError: The text is no JSON, or nests too deep.
    """
    try:
        return decode_any(text, max_depth=Limits().max_json_depth)
    except InvalidJSON as exc:
        message = f"{what} of {len(text)} characters: {exc}, expected JSON"
        raise EncodeError(message, path=path) from exc


class StepwiseDecoder(json.JSONDecoder):
    """A `json.JSONDecoder` that parses the outer five levels in Python and all others in C.

    No single call then holds the interpreter's lock for long.  Results and errors are the same.
    """

    scan_once: _Scan

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        scan_value, strict = self.scan_once, self.strict

        def scan_part(text: str, index: int) -> tuple[Any, int]:
            if text[index : index + 1] == '"':
                return _parse_string(text, index + 1, strict)
            return scan_value(text, index)

        self.scan_once = scan_part
        for _ in range(_LEVELS):
            self.scan_once = self._around(self.scan_once)

    def _around(self, scan_part: _Scan) -> _Scan:
        """Return a scanner that parses one more level in Python."""
        parse_any_array, parse_any_object = _PARSING.JSONArray, _PARSING.JSONObject
        make_scanner: Callable[[Any], _Scan] = _SCANNING.py_make_scanner

        def parse_array(start: Any, _scan: _Scan) -> Any:
            return parse_any_array(start, scan_part)

        def parse_object(start: Any, strict: bool, _scan: _Scan, *options: Any) -> Any:
            return parse_any_object(start, strict, scan_part, *options)

        level: Any = copy(self)
        level.parse_array, level.parse_object = parse_array, parse_object
        level.parse_string = _parse_string
        return make_scanner(level)


def _parse_string(text: str, begin: int, strict: bool = True) -> tuple[str, int]:
    """Parse a string as `scanstring` does, a long one in slices.

    Args:
        text: The JSON text.
        begin: Index of the first character after the quote.
        strict: Whether control characters are refused.
    """
    if _STRING.match(text, begin, begin + _SLICE_CHARS):
        return _scanstring(text, begin, strict)
    parts: list[str] = []
    position = begin
    try:
        while position + _SLICE_CHARS < len(text):
            end = _between_escapes(text, position, position + _SLICE_CHARS)
            part, stop = _scanstring(f'{text[position:end]}"', 0, strict)
            parts.append(part)
            if position + stop <= end:
                return "".join(parts), position + stop
            position = end
        part, stop = _scanstring(text, position, strict)
    except json.JSONDecodeError:
        # Raises again, with the position in the whole text.
        parts, (part, stop) = [], _scanstring(text, begin, strict)
    return "".join([*parts, part]), stop


def _between_escapes(text: str, start: int, end: int) -> int:
    """Return an index at or just before `end` that cuts no escape and no escaped surrogate pair."""
    last = text.rfind("\\", max(start, end - _ESCAPE_CHARS), end)
    if last < 0:
        return end
    before = text[start : last + 1]
    if (len(before) - len(before.rstrip("\\"))) % 2:  # an unescaped backslash begins an escape
        size = _ESCAPE_CHARS if text[last + 1 : last + 2] == "u" else 2
        is_whole = last + size <= end
        end = end if is_whole else last
    high = end - _ESCAPE_CHARS
    splits_pair = high >= start and _HIGH.match(text, high, end) and _LOW.match(text, end)
    return high if splits_pair else end


_STEPWISE = StepwiseDecoder(parse_constant=_discard_constant, parse_float=_finite)
