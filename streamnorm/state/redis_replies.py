"""Replies of the scripts of `RedisStore`."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from streamnorm._core.errors import StoreError
from streamnorm.state.packing import id_of, unpack
from streamnorm.state.stored import Found, StoredResponse

__all__ = ["Entry", "add_contents", "batches_of", "found_in", "read_reply"]

_ENTRY = struct.Struct(">iiIi")  # lengths of id, previous id and content; between them the size
_LENGTH = struct.Struct(">i")
_NUMBER = struct.Struct(">I")


class Entry(Struct):
    """A response that a script found.

    Attributes:
        id: Its id.
        previous: Id of the response that it continues.
        size: Bytes of its content.
        content: Its content; None if it was not returned.
    """

    id: bytes
    previous: bytes | None
    size: int
    content: bytes | None


def read_reply(reply: object, count: int) -> tuple[list[Entry], int, list[int]]:
    """Return what the script for a lookup returned.

    Args:
        reply: The reply.
        count: How many items were looked up.

    Returns:
        The responses; how many of them are the chain; for each item the number of the response
        that has it, from 1, or 0.

    Raises:
        StoreError: The script returned something else.
    """
    try:
        data, length, numbers = msgspec.convert(reply, tuple[bytes, int, bytes])
        holders = [number for [number] in _NUMBER.iter_unpack(numbers)]
        entries: list[Entry] = []
        at = 0
        while at < len(data):
            id_length, previous_length, size, content_length = _ENTRY.unpack_from(data, at)
            id, at = _bytes(data, at + _ENTRY.size, id_length)
            previous, at = _bytes(data, at, previous_length)
            content, at = _bytes(data, at, content_length)
            entries.append(Entry(id or b"", previous, size, content))
    except (msgspec.ValidationError, struct.error) as exc:
        raise _unexpected() from exc
    if len(holders) != count or max(holders, default=0) > len(entries):
        raise _unexpected()
    return entries, length, holders


def batches_of(entries: Sequence[Entry], max_bytes: int) -> list[list[Entry]]:
    """Return the entries without content, in batches of so many bytes or of one entry."""
    batches: list[list[Entry]] = []
    left = 0
    for entry in entries:
        if entry.content is not None:
            continue
        if not batches or entry.size > left:
            batches.append([])
            left = max_bytes
        batches[-1].append(entry)
        left -= entry.size
    return batches


def add_contents(entries: Sequence[Entry], reply: object) -> None:
    """Add the contents that a script returned to their entries.

    Raises:
        StoreError: The script returned something else.
    """
    if not isinstance(reply, bytes):
        raise _unexpected()
    at = 0
    try:
        for entry in entries:
            [length] = _LENGTH.unpack_from(reply, at)
            entry.content, at = _bytes(reply, at + _LENGTH.size, length)
    except struct.error as exc:
        raise _unexpected() from exc


def found_in(entries: Sequence[Entry], length: int, holders: Mapping[str, int]) -> Found:
    """Return what was found.

    Args:
        entries: The responses with their contents; one without has expired meanwhile.
        length: How many of them are the chain.
        holders: For each item the number of the response that has it, from 1, or 0.
    """
    unpacked: list[StoredResponse | None] = []
    for entry in entries:
        if entry.content is None:
            unpacked.append(None)
            continue
        previous = None if entry.previous is None else id_of(entry.previous)
        unpacked.append(unpack(id_of(entry.id), previous, entry.content))
    chain: list[StoredResponse] = []
    for response in unpacked[:length]:
        if response is None:
            break
        chain.append(response)
    items_of = {
        number: response.items_by_id
        for number in {*holders.values()} - {0}
        if (response := unpacked[number - 1]) is not None
    }
    items = {
        id: items_of[number][id] for id, number in holders.items() if id in items_of.get(number, ())
    }
    return Found(tuple(chain), items)


def _bytes(data: bytes, start: int, length: int) -> tuple[bytes | None, int]:
    """Return a part of a string, or None if its length is -1; and where it ends."""
    if length == -1:
        return None, start
    end = start + length
    if not start <= end <= len(data):
        raise _unexpected()
    return data[start:end], end


def _unexpected() -> StoreError:
    return StoreError("the store holds data of another application")
