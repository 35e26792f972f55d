"""Decoding and encoding of JSON of many megabytes, in short calls.

A call of msgspec holds the interpreter's lock until it returns, even in a thread: decoding 32 MB
blocks an event loop for 50 ms or more.  A large text is therefore split into its fields and
items, down to texts of `PIECE_BYTES`, and written item by item.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import Raw

from streamnorm._core.json import PIECE_BYTES, dumps, is_array, is_object

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

_JSON: TypeAlias = "bytes | str | Raw"


class _Name(str):
    """The name of a field, unequal to any other, so that repeated fields are all decoded.

    A `str`, unlike an object that holds one, is not tracked by the garbage collector.
    """

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Parts(NamedTuple):
    """An object or array whose members are not decoded.

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
_ANY = msgspec.json.Decoder[Any]()


def split(text: _JSON) -> Parts | None:
    """Return the parts of a large object or array; None for any other text.

    Raises:
        MsgspecError: The text is no JSON.  Errors within a part may appear when it is decoded.
        RecursionError: The text nests too deep.
    """
    size = memoryview(text).nbytes if isinstance(text, Raw) else len(text)
    if size <= PIECE_BYTES or (isinstance(text, Raw) and memoryview(text)[0] == _QUOTE):
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
        return _ANY.decode(text)
    if parts.names is None:
        return [decode_pieces(part, splits - 1) for part in parts.texts]
    return {
        name: decode_pieces(part, splits - 1)
        for name, part in zip(parts.names, parts.texts, strict=True)
    }


def encode_pieces(value: Any, size: int) -> bytes:
    """Encode a value of any size, with the same bytes as `dumps`.

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
    """Write a value; the members of its outer levels are written one by one."""
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
    """Write a string, a long one in slices.

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
    """Return whether JSON text has more values than `most`, without decoding it.

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
