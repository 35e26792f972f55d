"""What a server says that its scripts returned: of any shape, and our own errors."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnorm.state import StoreError
from streamnorm.state.redis import Entry, add_contents, batches_of, found_in, read_reply

WHOLE = struct.pack(">iiIi", 2, 2, 9, 4) + b"r2" + b"r1" + b"text"
BARE = struct.pack(">iiIi", 2, -1, 9, -1) + b"r1"


def test_reply_is_read() -> None:
    entries = [Entry(b"r2", b"r1", 9, b"text"), Entry(b"r1", None, 9, None)]
    holders = struct.pack(">II", 2, 0)
    assert read_reply([WHOLE + BARE, 1, holders, None], 2) == (entries, 1, [2, 0])
    entries[0].body = b"{}"
    assert read_reply([WHOLE + BARE, 1, holders, b"{}"], 2) == (entries, 1, [2, 0])


@pytest.mark.parametrize(
    "reply",
    [
        None,
        [b"", 0, b""],
        [b"", "0", b"", None],
        [b"", 1, b"", b""],
        [BARE, -1, b"", b""],
        [BARE, 1, b"", 5],
        [BARE[:-1], 1, b"", None],
        [BARE[:10], 1, b"", None],
        [struct.pack(">iiIi", -2, -1, 0, -1), 1, b"", None],
        [struct.pack(">iiIi", 2**31 - 1, -1, 0, -1), 1, b"", None],
        [BARE, 1, b"\0\0\0\1", None],
        [BARE, 1, b"\0\0", None],
    ],
)
def test_other_reply_is_an_error(reply: object) -> None:
    with pytest.raises(StoreError, match=r"^the store holds data of another application$"):
        read_reply(reply, 0)


def test_holder_that_was_not_found_is_an_error() -> None:
    with pytest.raises(StoreError):
        read_reply([BARE, 1, b"\0\0\0\2", None], 1)


@given(
    st.binary(max_size=60),
    st.integers(),
    st.binary(max_size=8),
    st.none() | st.binary(max_size=4),
    st.integers(0, 2),
)
def test_any_reply_is_read_or_an_error(
    data: bytes, length: int, holders: bytes, body: bytes | None, n: int
) -> None:
    with suppress(StoreError):
        entries, length, numbers = read_reply([data, length, holders, body], n)
        found_in(entries, length, {str(at): number for at, number in enumerate(numbers)})


@pytest.mark.parametrize(("left", "sizes"), [(9, [[5], [5]]), (10, [[5, 5]]), (4, [[5], [5]])])
def test_entries_without_content_are_read_in_batches(left: int, sizes: list[list[int]]) -> None:
    entries = [Entry(b"1", None, 5, None), Entry(b"2", None, 5, b"x"), Entry(b"3", None, 5, None)]
    assert [[entry.size for entry in batch] for batch in batches_of(entries, left)] == sizes


def test_contents_are_added() -> None:
    entries = [Entry(b"1", None, 5, None), Entry(b"2", None, 5, None)]
    add_contents(entries, struct.pack(">i", 4) + b"text" + struct.pack(">i", -1))
    assert [entry.content for entry in entries] == [b"text", None]


@pytest.mark.parametrize("reply", [None, b"", b"\0\0\0\1", b"\xff\xff\xff\xfe", [b""]])
def test_other_contents_are_an_error(reply: Any) -> None:
    with pytest.raises(StoreError):
        add_contents([Entry(b"1", None, 5, None)], reply)


def test_response_that_expired_meanwhile_ends_the_chain() -> None:
    content = b"\x93\xc4\x00\x90\x91\x92\xc4\x01x\xc4\x01x"
    entries = [
        Entry(b"r3", b"r2", 9, content),
        Entry(b"r2", b"r1", 9, None),
        Entry(b"r1", None, 9, content),
    ]
    found = found_in(entries, 3, {"x": 2, "y": 3})
    assert [response.id for response in found.chain] == ["r3"]
    assert found.items == {}
    assert found_in(entries, 3, {"x": 1}).items.keys() == {"x"}
