"""JSON of peers: tolerant decoding, type tests, and processing of large texts in pieces.

msgspec rejects `NaN` and lone surrogate escapes, which providers do send: one half of a surrogate
pair ends a delta, the other half begins the next.  It also raises RecursionError and
UnicodeDecodeError, which are no `MsgspecError`.

A call of msgspec holds the interpreter's lock until it returns, even in a thread: decoding 32 MB
blocks an event loop for 50 ms or more.  A large text is therefore split into its fields and
items, down to texts of `PIECE_BYTES` and slices of strings, and written item by item.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from math import isfinite, isnan
from typing import Any, NamedTuple, TypeAlias, TypeGuard, TypeVar, cast

import msgspec
from msgspec import Raw

from streamnorm._core.errors import EncodeError
from streamnorm._core.limits import Limits
from streamnorm._core.stepwise_json import (
    ESCAPE_CHARS,
    SLICE_CHARS,
    StepwiseDecoder,
    find_cut,
)

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

_COUNTED_BYTES = 1024 * 1024  # bytes whose values one call counts
_MAX_SPLITS = 8  # each level scans the large parts of a text again
_MAX_WRITTEN_LEVELS = 7  # the depth of texts in tool results
_MAX_TEXT_CHARS = 256 * 1024  # characters that one call writes
_MIN_CACHED_CHARS = 1024
# Bytes before each value but the first, and the number of values to count for each.
_COUNTED = ((b",", 1), (b"[", 1), (b"{", 3))
# All other bytes but the quotes of strings, within which the three have no meaning.
_OTHER_BYTES = bytes(set(range(256)) - set(b'"[{,'))

_QUOTE = ord('"')
_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")

_JSON: TypeAlias = "bytes | str | Raw"


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
        return clean_tree(decode_uncleaned(text, max_depth=max_depth), pieces)
    # msgspec raises RecursionError at a depth that depends on the caller's stack, so that the bound
    # is checked here.
    if _may_nest(text, max_depth) and too_deep(value, max_depth):
        raise InvalidJSON(f"nested deeper than {max_depth}", too_deep=True)
    return value  # msgspec lets no lone surrogate pass


def decode_uncleaned(text: str, *, max_depth: int) -> Any:
    """Decode JSON text that msgspec has rejected; leave lone surrogates as they are.

    Raises:
        InvalidJSON: The text is no JSON, or nests too deep.
    """
    value = _general(text, max_depth)
    if _may_nest(text, max_depth) and too_deep(value, max_depth):
        raise InvalidJSON(f"nested deeper than {max_depth}", too_deep=True)
    return value


def _may_nest(text: str, depth: int) -> bool:
    """Return whether text has more than `depth` opening brackets."""
    return text.count("{") + text.count("[") > depth


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


# `isinstance` with one argument, in C: bodies and unknown fields have a test at every value, which
# as a function of Python took two and a half times as long.
is_object: Callable[[object], TypeGuard[dict[str, Any]]] = dict.__instancecheck__  # type: ignore[assignment]
"""Return whether a decoded JSON value is an object."""
is_array: Callable[[object], TypeGuard[list[Any]]] = list.__instancecheck__  # type: ignore[assignment]
"""Return whether a decoded JSON value is an array."""


def object_in(text: str) -> dict[str, Any]:
    """Decode a JSON object within the default depth; {} if the text is no object."""
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
    if type(value) is int:
        return value if 0 <= value < _TOO_MANY else None
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
    if isinstance(text, str):
        return text if text.isascii() else clean(text)
    return ""


def objects_at(value: object, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects in an array with their paths; nothing for any other value."""
    for number, item in enumerate(value if is_array(value) else ()):
        if is_object(item):
            yield f"{path}[{number}]", item


def objects_of(value: object) -> list[dict[str, Any]]:
    """Return the objects in an array; [] for any other value."""
    return [item for item in value if is_object(item)] if is_array(value) else []


def compact(value: Any) -> str:
    """Encode a JSON value or a struct as JSON text without white space or lone surrogates."""
    try:
        return dumps(value).decode()
    except UnicodeEncodeError:
        return dumps(clean_tree(msgspec.to_builtins(value))).decode()


def name_numbers(value: Any) -> Any:
    """Return a JSON value with `NaN` and infinities as their names: null says no number."""
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list | tuple):  # of which a type checker knows no items
        return [name_numbers(item) for item in cast("Sequence[Any]", value)]
    return {key: name_numbers(value[key]) for key in value} if is_object(value) else value


def encode_line(text: str) -> bytes:
    """Return JSON text as bytes that are one line of a frame.

    JSON has line ends only between its tokens, where white space means nothing.
    """
    return text.replace("\r", " ").replace("\n", " ").encode("utf-8", "replace")


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
    try:
        text.encode()  # in a tenth of the time of the two below
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def rejoin(carry: str, text: str) -> tuple[str, str]:
    """Join a high surrogate at the end of one delta to the text of the next delta.

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
        return path if _has_lone_surrogate(value) else None
    if is_object(value):
        for name, item in value.items():
            if _has_lone_surrogate(name):
                return path
            if (found := lone_surrogate_path(item, f"{path}.{name}" if path else name)) is not None:
                return found
    for number, item in enumerate(value) if is_array(value) else ():
        if (found := lone_surrogate_path(item, f"{path}[{number}]")) is not None:
            return found
    return None


def _has_lone_surrogate(text: str) -> bool:
    if text.isascii():
        return False
    # A long text is searched in slices, so that no call holds the interpreter's lock for long.
    for start in range(0, len(text), _CLEANED_CHARS):
        end = start + _CLEANED_CHARS
        try:
            text[start:end].encode()  # much faster than the pattern
        except UnicodeEncodeError:
            # The character behind the slice may be the other half of its last one.
            found = _LONE_SURROGATE.search(text, start, end + 1)
            if found is not None and found.start() < end:
                return True
    return False


def _is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether a value is an array, or a tuple as `msgspec.to_builtins` leaves it."""
    return isinstance(value, (list, tuple))


def clean_tree(value: Any, pieces: frozenset[str] = frozenset()) -> Any:
    """Return a decoded JSON value with U+FFFD in place of lone surrogates.

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
    """Decode JSON text from a block that a user of the library built.

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


_STEPWISE = StepwiseDecoder(parse_constant=_discard_constant, parse_float=_finite)


class _Name(str):
    """A field name that equals no other field name, so that repeated fields are all decoded.

    A `str`, unlike an object that holds one, is not tracked by the garbage collector.
    """

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Parts(NamedTuple):
    """An object or array whose members are still JSON text.

    Attributes:
        names: Names of the fields, repeated ones included; None for an array.
        texts: JSON of the values or items.
    """

    names: list[str] | None
    texts: list[Raw]


_SPLITTER = msgspec.json.Decoder[Any](
    dict[_Name, Raw] | list[Raw] | str | int | float | bool | None,
    dec_hook=lambda _, name: _Name(name),
)


def split(text: _JSON) -> Parts | None:
    """Split a large object or array into its members; None for any other text.

    Raises:
        MsgspecError: The text is no JSON.  Errors within a part may appear when it is decoded.
        RecursionError: The text nests too deep.
    """
    size = memoryview(text).nbytes if isinstance(text, Raw) else len(text)
    if size <= PIECE_BYTES or _is_long_string(text):
        return None
    value: Any = _SPLITTER.decode(text)
    if type(value) is list:
        return Parts(None, value)
    if type(value) is not dict:
        return None
    fields = cast("dict[_Name, Raw]", value)
    names, texts = list[str](), list[Raw]()
    while fields:  # freeing a large dictionary is one call, too: it is emptied name by name
        name, part = fields.popitem()
        names.append(str(name))
        texts.append(part)
    return Parts(names[::-1], texts[::-1])


def decode_pieces(text: _JSON, splits: int = _MAX_SPLITS) -> Any:
    """Decode JSON text of any size.

    Args:
        text: One JSON value.
        splits: Levels of parts that may be split again.

    Raises:
        MsgspecError: The text is no JSON.  `RecursionError` and `UnicodeError` are raised as
            well (`FAST_ERRORS`).
    """
    parts = split(text) if splits else None
    if parts is None:
        return _decode_string(memoryview(text)) if _is_long_string(text) else _ANY.decode(text)
    if parts.names is None:
        return [decode_pieces(part, splits - 1) for part in parts.texts]
    return {
        name: decode_pieces(part, splits - 1)
        for name, part in zip(parts.names, parts.texts, strict=True)
    }


def _is_long_string(text: _JSON) -> TypeGuard[Raw]:
    """Return whether a part is a string of more than `PIECE_BYTES`."""
    if not isinstance(text, Raw):
        return False
    view = memoryview(text)
    return view.nbytes > PIECE_BYTES and view[0] == _QUOTE


def _decode_string(text: memoryview) -> str:
    """Decode a quoted JSON string slice by slice."""
    parts: list[str] = []
    position, last = 1, text.nbytes - 1
    while position < last:
        end = min(position + SLICE_CHARS, last)
        if end < last:
            near = str(text[position : end + ESCAPE_CHARS], "latin-1")  # one character a byte
            end = position + find_cut(near, 0, end - position)
            end = _character_start(text, end)
        parts.append(_ANY.decode(b"".join((b'"', text[position:end], b'"'))))
        position = end
    return "".join(parts)


def decode_utf8(data: bytes) -> str:
    """Decode the UTF-8 of a JSON text; decode a large text slice by slice.

    Characters beyond U+FFFF are escaped in a large text: one of them makes a string four times
    as large, and getting that memory takes 50 ms.

    Raises:
        UnicodeDecodeError: The bytes are no UTF-8; its `start` is the offset in all of them.
    """
    if len(data) <= PIECE_BYTES:
        return data.decode()
    view, parts, position = memoryview(data), list[str](), 0
    while position < len(data):
        end = position + SLICE_CHARS
        if end < len(data):
            end = _character_start(view, end)
        try:
            part = str(view[position:end], "utf-8")
        except UnicodeDecodeError as exc:
            exc.start += position
            raise
        parts.append(part if part.isascii() else _BEYOND_BMP.sub(_escape, part))
        position = end
    return "".join(parts)


def _escape(character: re.Match[str]) -> str:
    return json.dumps(character[0])[1:-1]


def _character_start(data: memoryview, index: int) -> int:
    """Return the index at or before `index` at which a character of UTF-8 begins.

    Bytes that are no UTF-8 may have none within three bytes; the result is `index` then.
    """
    for before in range(4):
        if data[index - before] & 0xC0 != 0x80:  # no continuation byte (RFC 3629, section 3)
            return index - before
    return index


def encode_pieces(value: Any, size: int) -> bytes:
    """Encode a value of any size to the same bytes as `dumps`.

    Args:
        value: A decoded JSON value.
        size: Approximate bytes of the JSON; a small value is written by one call.
    """
    if size <= PIECE_BYTES:
        return dumps(value)
    written = BytesIO()  # its `getvalue` does not copy
    # Reserve the memory at once: each growth would leave a hole in the heap that no larger buffer
    # fits into.  A history is up to 3 % larger in another dialect.
    written.seek(size + size // 16)
    written.write(b"\0")
    written.seek(0)
    _write(value, written.write, _MAX_WRITTEN_LEVELS)
    written.truncate()
    return written.getvalue()


def _write(value: Any, write: Callable[[bytes | memoryview], object], levels: int) -> None:
    """Write a JSON value; write the members of the outer nesting levels one by one."""
    if isinstance(value, str):
        _write_text(value, write)
    elif not (levels and value):
        write(dumps(value))
    elif is_object(value):
        separator = b"{"
        for name, item in value.items():
            write(separator + dumps(name) + b":")
            _write(item, write, levels - 1)
            separator = b","
        write(b"}")
    elif is_array(value):
        separator = b"["
        for item in value:
            write(separator)
            _write(item, write, levels - 1)
            separator = b","
        write(b"]")
    else:
        write(dumps(value))


def _write_text(text: str, write: Callable[[bytes | memoryview], object]) -> None:
    """Write a JSON string; write a long string slice by slice.

    A string beyond ASCII caches its UTF-8 (`PyUnicode_AsUTF8AndSize`) as long as it lives; a
    slice is freed at once.
    """
    size, is_cached = len(text), not text.isascii()
    if size <= (_MIN_CACHED_CHARS if is_cached else _MAX_TEXT_CHARS):
        write(dumps(text))
        return
    step = min(_MAX_TEXT_CHARS, (size + 1) // 2)  # a slice of everything is the string itself
    write(b'"')
    for start in range(0, size, step):
        write(memoryview(dumps(text[start : start + step]))[1:-1])
    write(b'"')


def has_more_values(text: bytes, most: int) -> bool:
    """Return whether JSON text has more than `most` values, without decoding it.

    Each value but the first follows a comma or an opening bracket.  An object counts as three
    values.  The result for invalid JSON is arbitrary.
    """
    starts = range(0, len(text), _COUNTED_BYTES)
    # A first, fast count includes commas and brackets in strings.
    if most > sum(
        text.count(byte, start, start + _COUNTED_BYTES) * times
        for start in starts
        for byte, times in _COUNTED
    ):
        return False
    count, rest, is_string = 1, b"", False
    for start in starts:
        piece = rest + text[start : start + _COUNTED_BYTES]
        piece = piece.replace(rb"\\", b"")  # the remaining backslashes escape the next byte
        rest = piece[len(piece.rstrip(b"\\")) :]
        piece = piece[: len(piece) - len(rest)].replace(rb"\"", b"")
        between = piece.translate(None, _OTHER_BYTES).split(b'"')
        outside = between[is_string::2]
        count += sum(map(len, outside)) + 2 * sum([text.count(b"{") for text in outside])
        is_string ^= len(between) % 2 == 0
        if count > most:
            return True
    return False
