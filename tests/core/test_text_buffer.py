"""Text in many pieces."""

from __future__ import annotations

from hypothesis import given
from support.seeded import Draws, draws

from streamnorm._core.text_buffer import TextBuffer

ALPHABET = "ab é😀\ud83d\ude00"


@given(draws(400))
def test_appended_texts_are_joined(d: Draws) -> None:
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


def test_unread_text_is_returned_once() -> None:
    buffer = TextBuffer()
    buffer.append("a")
    assert (buffer.unread(), buffer.unread()) == ("a", "")
    buffer.append("b")
    assert buffer.unread() == "b"
    assert buffer.text() == "ab"


def test_buffer_accepts_an_initial_text_and_many_appends() -> None:
    buffer = TextBuffer("begin")
    for number in range(300):
        buffer.append(f",{number}")
    assert buffer.text() == "begin" + "".join(f",{number}" for number in range(300))
    assert buffer.size == len(buffer.text())
