"""JSON of many megabytes, decoded and encoded by calls that are each short.

A call of msgspec holds the interpreter's lock until it returns, also in a thread: one that decodes
32 MB keeps an event loop waiting for 50 ms or more.  A large text is therefore split into its
fields and items, down to texts of `PIECE_BYTES`, and written item by item.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw

from streamnorm._core.json import PIECE_BYTES, dumps, is_array, is_object

__all__ = ["Parts", "decode_pieces", "encode_pieces", "has_more_values", "split"]

_COUNTED_BYTES = 1024 * 1024  # of which one call counts the values
_MAX_SPLITS = 8  # each level scans what is left of a large text again
_MAX_WRITTEN_LEVELS = 4  # down to the parts of messages, and the declarations of tools
_BEFORE = (b",", b"[", b"{")  # what stands before each value but the first
# All but these and the quotes of strings, in which they mean nothing.
_OTHER_BYTES = bytes(set(range(256)) - set(b'"[{,'))

_JSON: TypeAlias = "bytes | str | Raw"


class _Name:
    """The name of a field, equal to no other, so that repeated names are all decoded."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


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
    if size <= PIECE_BYTES:
        return None
    value = _SPLITTER.decode(text)
    if isinstance(value, dict):
        return Parts([name.text for name in value], [*value.values()])
    return Parts(None, value) if isinstance(value, list) else None


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
    values = [decode_pieces(part, splits - 1) for part in parts.texts]
    return values if parts.names is None else dict(zip(parts.names, values, strict=True))


def encode_pieces(value: Any, size: int) -> bytes:
    """Return a value of any size as JSON, as `dumps` writes it.

    Args:
        value: A decoded JSON value.
        size: Bytes of what it was made of; a small value is written by one call.
    """
    if size <= PIECE_BYTES:
        return dumps(value)
    return b"".join(_written(value, _MAX_WRITTEN_LEVELS))


def _written(value: Any, levels: int) -> Iterator[bytes]:
    if not levels or not value:
        yield dumps(value)
    elif is_object(value):
        fields = ([dumps(name), b":", *_written(item, levels - 1)] for name, item in value.items())
        yield from _between(b"{}", fields)
    elif is_array(value):
        yield from _between(b"[]", (_written(item, levels - 1) for item in value))
    else:
        yield dumps(value)


def _between(brackets: bytes, items: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    separator = brackets[:1]
    for item in items:
        yield separator
        yield from item
        separator = b","
    yield brackets[1:]


def has_more_values(text: bytes, most: int) -> bool:
    """Return whether JSON text has more values than `most`, by its bytes alone.

    Each value follows a comma or an opening bracket, besides the first.  In text that is no JSON
    something is counted.
    """
    starts = range(0, len(text), _COUNTED_BYTES)
    # Commas and brackets in strings are counted, too, as long as there are few.
    if len(text) < most or most > sum(
        text.count(byte, start, start + _COUNTED_BYTES) for start in starts for byte in _BEFORE
    ):
        return False
    count, rest, is_string = 1, b"", False
    for start in starts:
        piece = rest + text[start : start + _COUNTED_BYTES]
        piece = piece.replace(rb"\\", b"")  # what is left of backslashes escapes the next byte
        rest = piece[len(piece.rstrip(b"\\")) :]
        piece = piece[: len(piece) - len(rest)].replace(rb"\"", b"")
        between = piece.translate(None, _OTHER_BYTES).split(b'"')
        count += sum(map(len, between[is_string::2]))
        is_string ^= len(between) % 2 == 0
        if count > most:
            return True
    return False
