"""A text that arrives in many small pieces."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from support.draws import Draws, draws

from streamnorm import LimitExceeded
from streamnorm._core.json import dumps
from streamnorm._core.limits import StoredBytes
from streamnorm._core.text import BATCH, LONG_CHARS, TextBuffer

ALPHABET = "ab é😀\ud83d\ude00"


@given(draws(400))
def test_text_joins_all_pieces(d: Draws) -> None:
    buffer, whole, seen = TextBuffer(first := d.text(0, 3, ALPHABET)), first, ""
    for _ in range(d.below(200)):
        piece = d.text(0, 2, ALPHABET)
        whole += piece
        if d.flag(8):
            buffer.pack()
            buffer.fresh += [piece, ""]
            assert buffer.pack() == len(piece.encode("utf-8", "surrogatepass"))
        else:
            buffer.append(piece)
        if d.flag(8):
            assert buffer.text() == whole
        if d.flag(8):
            seen += buffer.unread()
            assert seen == whole
        assert buffer.size == len(whole)
    assert buffer.text() == whole


def test_text_is_counted_in_batches() -> None:
    stored = StoredBytes(2 * BATCH + 8)
    buffer = TextBuffer(stored=stored)
    for _ in range(BATCH):
        buffer.append("é")
    assert (stored.left, buffer.counted) == (8, 2 * BATCH)
    buffer.append("ab")
    assert stored.left == 8
    assert buffer.text() == "é" * BATCH + "ab"
    assert stored.left == 6
    with pytest.raises(LimitExceeded, match=f"max_accumulated_bytes of {2 * BATCH + 8} passed"):
        buffer.append("a" * (LONG_CHARS + 1))
    buffer.release()
    assert stored.left == 2 * BATCH + 8


def test_text_without_a_counter_is_not_counted() -> None:
    buffer = TextBuffer("a" * 300)
    buffer.release()
    assert (buffer.counted, buffer.size) == (0, 300)


def test_unread_text_is_returned_once() -> None:
    buffer = TextBuffer()
    buffer.append("a")
    assert (buffer.unread(), buffer.unread()) == ("a", "")
    buffer.append("b")
    assert buffer.unread() == "b"
    assert buffer.text() == "ab"


def test_text_of_several_chunks_is_read_whole_and_in_parts() -> None:
    buffer, unread, whole = TextBuffer("begin"), "", "begin"
    for number in range(3000):
        whole += f",{number}"
        buffer.append(f",{number}")
        if number % 700 == 0:
            unread += buffer.unread()
            assert unread == whole
    assert buffer.text() == whole
    assert buffer.size == len(whole)
    assert unread + buffer.unread() == whole


def test_text_is_written_as_json() -> None:
    buffer, whole = TextBuffer(), ""
    assert buffer.json() == b'""'
    for number in range(3000):
        piece = f'"\\\n\x00é\u2028😀{number}'
        whole += piece
        buffer.append(piece)
        if number in (1, 2000, 2999):
            assert msgspec.json.decode(buffer.json(), type=str) == whole
            assert buffer.json() == dumps(whole)
    assert buffer.text() == whole


@pytest.mark.parametrize("size", [0, 10_000])
def test_lone_surrogate_is_not_written_as_json(size: int) -> None:
    buffer = TextBuffer("x" * size + "\ud83d")
    with pytest.raises(UnicodeEncodeError):
        buffer.json()
