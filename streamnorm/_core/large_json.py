"""JSON of many megabytes, decoded and encoded by calls that are each short.

A call of msgspec holds the interpreter's lock until it returns, also in a thread: one that decodes
32 MB keeps an event loop waiting for 50 ms or more.  A large text is therefore split into its
fields and items, down to texts of `PIECE_BYTES`, and written item by item.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import Raw

from streamnorm._core.json import PIECE_BYTES, dumps, is_array, is_object

_COUNTED_BYTES = 1024 * 1024  # of which one call counts the values
_MAX_SPLITS = 8  # each level scans what is left of a large text again
_MAX_WRITTEN_LEVELS = 7  # down to the texts in results of tools
_MAX_TEXT_CHARS = 256 * 1024  # of a text that one call writes
_MIN_CACHED_CHARS = 1024
# What stands before each value but the first, and how many values it counts for.
_COUNTED = ((b",", 1), (b"[", 1), (b"{", 3))
# All but these and the quotes of strings, in which they mean nothing.
_OTHER_BYTES = bytes(set(range(256)) - set(b'"[{,'))

_QUOTE = ord('"')

_JSON: TypeAlias = "bytes | str | Raw"


class _Name(str):
    """The name of a field, equal to no other, so that repeated names are all decoded.

    Unlike an object that holds the name, it does not make the garbage collector work.
    """

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Parts(NamedTuple):
    """An object or an array whose parts are not decoded.

    Attributes:
        names: Names of the fields, also repeated ones; None of an array.
        texts: The values of the fields, or the items.
    """

    names: list[str] | None
    texts: list[Raw]


_SPLITTER = msgspec.json.Decoder[Any](
    dict[_Name, Raw] | list[Raw] | str | int | float | bool | None,
    dec_hook=lambda _, name: _Name(name),
)
_ANY = msgspec.json.Decoder[Any]()


def split(text: _JSON) -> Parts | None:
    """Return the parts of a large object or array; None for a text that is not to be split.

    Raises:
        MsgspecError: It is no JSON.  What is wrong with a part may be found only by decoding it.
        RecursionError: It nests too deep.
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
    while fields:  # a large dictionary is freed by one call, or name by name
        name, part = fields.popitem()
        names.append(str(name))
        texts.append(part)
    return Parts(names[::-1], texts[::-1])


def decode_pieces(text: _JSON, splits: int = _MAX_SPLITS) -> Any:
    """Return the value of JSON text of any size.

    Args:
        text: One JSON value.
        splits: How often a part may be split again.

    Raises:
        MsgspecError: It is no JSON; also `RecursionError` and `UnicodeError`, as for
            `FAST_ERRORS`.
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
    """Return a value of any size as JSON, as `dumps` writes it.

    Args:
        value: A decoded JSON value.
        size: Bytes of what it was made of; a small value is written by one call.
    """
    if size <= PIECE_BYTES:
        return dumps(value)
    written = BytesIO()  # which returns what it holds without copying it
    # Its memory is taken at once: each growth would leave a hole that nothing as large fits in.
    # One history is up to 3 % larger in another dialect.
    written.seek(size + size // 16)
    written.write(b"\0")
    written.seek(0)
    _write(value, written.write, _MAX_WRITTEN_LEVELS)
    written.truncate()
    return written.getvalue()


def _write(value: Any, write: Callable[[bytes | memoryview], object], levels: int) -> None:
    """Write a value, of its outer levels one part after the other."""
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
    """Write a text, a long one in slices.

    A string beyond ASCII keeps the UTF-8 that it is written as (`PyUnicode_AsUTF8AndSize`) for as
    long as it lives, a slice of it not for long.
    """
    size, is_cached = len(text), not text.isascii()
    if size <= (_MIN_CACHED_CHARS if is_cached else _MAX_TEXT_CHARS):
        write(dumps(text))
        return
    step = min(_MAX_TEXT_CHARS, (size + 1) // 2)  # a slice of all would be the string itself
    write(b'"')
    for start in range(0, size, step):
        write(memoryview(dumps(text[start : start + step]))[1:-1])
    write(b'"')


def has_more_values(text: bytes, most: int) -> bool:
    """Return whether JSON text has more values than `most`, by its bytes alone.

    Each value follows a comma or an opening bracket, besides the first.  An object counts as
    three values.  In text that is no JSON something is counted.
    """
    starts = range(0, len(text), _COUNTED_BYTES)
    # Commas and brackets in strings are counted, too, as long as there are few.
    if most > sum(
        text.count(byte, start, start + _COUNTED_BYTES) * times
        for start in starts
        for byte, times in _COUNTED
    ):
        return False
    count, rest, is_string = 1, b"", False
    for start in starts:
        piece = rest + text[start : start + _COUNTED_BYTES]
        piece = piece.replace(rb"\\", b"")  # what is left of backslashes escapes the next byte
        rest = piece[len(piece.rstrip(b"\\")) :]
        piece = piece[: len(piece) - len(rest)].replace(rb"\"", b"")
        between = piece.translate(None, _OTHER_BYTES).split(b'"')
        outside = between[is_string::2]
        count += sum(map(len, outside)) + 2 * sum([text.count(b"{") for text in outside])
        is_string ^= len(between) % 2 == 0
        if count > most:
            return True
    return False
