"""JSON of many megabytes: split, decoded and written in pieces, and its values counted."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnorm._core import json as core_json
from streamnorm._core.json import (
    PIECE_BYTES,
    decode_pieces,
    decode_utf8,
    encode_pieces,
    has_more_values,
    split,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('a"\\,[{\n\u20ac'),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab,"), inner, max_size=4),
    max_leaves=30,
)


def values_in(value: Any) -> int:
    """Count a value and those that it holds, an object as three."""
    if isinstance(value, dict):
        return 3 + sum(map(values_in, value.values()))
    return 1 + (sum(map(values_in, value)) if isinstance(value, list) else 0)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make texts of a few bytes large ones, and let three bytes be counted at a time."""
    monkeypatch.setattr("streamnorm._core.json.PIECE_BYTES", 4)
    monkeypatch.setattr("streamnorm._core.json._COUNTED_BYTES", 3)


@pytest.mark.usefixtures("small_pieces")
@given(JSON, st.sampled_from([None, 1]))
def test_pieces_are_decoded_as_the_whole_is(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    assert decode_pieces(text) == decode_pieces(text.encode()) == value


@given(JSON)
def test_pieces_are_written_as_the_whole_is(value: Any) -> None:
    assert encode_pieces(value, PIECE_BYTES + 1) == msgspec.json.encode(value)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 7, 8, 9, 10, 11])
@pytest.mark.parametrize("last", ["a", "\u20ac", "\U0001f600", '"', "\\", "\n", "\x01"])
def test_long_texts_are_written_in_slices(
    size: int, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamnorm._core.json._MAX_TEXT_CHARS", 4)
    monkeypatch.setattr("streamnorm._core.json._MIN_CACHED_CHARS", 2)
    text = 'a"' * size + last
    assert encode_pieces({text: [text]}, PIECE_BYTES + 1) == msgspec.json.encode({text: [text]})


def test_half_of_a_pair_is_no_text_to_write() -> None:
    with pytest.raises(UnicodeEncodeError):
        encode_pieces(["a" * 2000 + "\ud83d"], PIECE_BYTES + 1)


@pytest.mark.parametrize("chars", [100_000, 4_000_000])
def test_texts_that_were_written_take_no_more_memory(chars: int) -> None:
    texts = ["a" * chars + chr(0x20AC + each) for each in range(4_000_000 // chars)]
    tracemalloc.start()
    try:
        written = encode_pieces(texts, 4_000_000)
        assert tracemalloc.get_traced_memory()[0] < 1.2 * len(written)
    finally:
        tracemalloc.stop()


def test_pieces_may_be_larger_than_what_they_were_made_of() -> None:
    value = ["a" * PIECE_BYTES] * 3
    written = b"[" + b",".join([b'"%s"' % (b"a" * PIECE_BYTES)] * 3) + b"]"
    assert encode_pieces(value, PIECE_BYTES + 1) == written


def test_empty_array_of_white_space_is_an_array() -> None:
    assert decode_pieces(b"[" + b" " * PIECE_BYTES + b"]") == []
    assert decode_pieces(b"{" + b" " * PIECE_BYTES + b"}") == {}


def test_no_text_beyond_the_bound_is_decoded_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded: list[bytes] = []

    class Decoder:
        def decode(self, text: bytes | msgspec.Raw) -> Any:
            decoded.append(bytes(memoryview(text)))
            return msgspec.json.decode(text)

    monkeypatch.setattr("streamnorm._core.json._ANY", Decoder())
    long = "x" * (2 * PIECE_BYTES)
    body = {"messages": [{"content": [{"text": "y" * 1000}] * 400}] * 2, "system": long}
    assert decode_pieces(json.dumps(body).encode()) == body
    assert all(len(text) <= PIECE_BYTES for text in decoded)


# Strings that slices of 16 bytes end in: escapes, pairs, half pairs, characters of many bytes.
STRINGS = st.lists(
    st.sampled_from(
        [*"ab", r"\\", r"\"", r"\n", r"\u0041", r"\ud83d", r"\ude00", "\u20ac", "\U0001f600", r"\x"]
    )
    | st.text(max_size=9).map(lambda text: json.dumps(text)[1:-1]),
    max_size=40,
).map("".join)


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make strings of a few bytes long ones."""
    monkeypatch.setattr("streamnorm._core.json.PIECE_BYTES", 4)
    monkeypatch.setattr("streamnorm._core.json.SLICE_CHARS", 16)


@pytest.mark.usefixtures("small_slices")
@given(STRINGS)
def test_long_string_is_decoded_as_the_whole_is(inner: str) -> None:
    text = f'["{inner}"]'.encode()
    try:
        expected = msgspec.json.decode(text)
    except msgspec.DecodeError:
        with pytest.raises(msgspec.DecodeError):
            decode_pieces(text)
    else:
        assert decode_pieces(text) == expected


@pytest.mark.usefixtures("small_slices")
def test_long_string_that_is_no_utf8_is_refused() -> None:
    for invalid in (b"\x80" * 20, b"a" * 15 + b"\xe2\x82", b"\xff" * 40):
        with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
            decode_pieces(b'["%b"]' % invalid)


@pytest.mark.usefixtures("small_slices")
@given(st.lists(st.sampled_from(["a", "\u00e9", "\u20ac", "\U0001f600"])).map("".join))
def test_utf8_is_decoded_in_slices_without_characters_of_four_bytes(text: str) -> None:
    decoded = decode_utf8(f'["{text}"] '.encode())
    assert json.loads(decoded) == [text]
    assert max(decoded) <= "\uffff"


@pytest.mark.usefixtures("small_slices")
@given(st.integers(0, 40), st.sampled_from(["a", "\u20ac", "\U0001f600"]))
def test_invalid_utf8_is_found_at_its_offset(before: int, character: str) -> None:
    data = character.encode() * before
    with pytest.raises(UnicodeDecodeError) as caught:
        decode_utf8(data + b"\xff" + b"a" * 20)
    assert caught.value.start == len(data)


@pytest.mark.usefixtures("small_slices")
def test_bytes_without_the_start_of_a_character_are_cut_anywhere() -> None:
    with pytest.raises(UnicodeDecodeError):
        decode_utf8(b"a" * 10 + b"\x80" * 20)


def test_repeated_name_is_a_part_of_its_own_and_the_last_one_counts() -> None:
    text = b'{"a":1,"b":2,"a":%s}' % (b" " * PIECE_BYTES + b"3")
    parts = split(text)
    assert parts is not None
    assert parts.names == ["a", "b", "a"]
    assert [*decode_pieces(text).items()] == [("a", 3), ("b", 2)]


@pytest.mark.parametrize("text", [b"{}", b'"a"', b'"' + b"a" * PIECE_BYTES + b'"'])
def test_small_text_and_a_string_are_not_split(text: bytes) -> None:
    assert split(text) is None


def test_nesting_is_split_eight_times_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each level scans the rest of the text again, which a hundred levels would pay for."""
    splits = 0
    splitter = core_json._SPLITTER

    class Splitter:
        def decode(self, text: bytes) -> Any:
            nonlocal splits
            splits += 1
            return splitter.decode(text)

    monkeypatch.setattr("streamnorm._core.json._SPLITTER", Splitter())
    decode_pieces(b"[" * 50 + b'"%s"' % (b"a" * PIECE_BYTES) + b"]" * 50)
    assert splits == 8


@pytest.mark.usefixtures("small_pieces")
@given(JSON, st.sampled_from([None, 1]))
def test_values_are_counted_outside_strings(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent).encode()
    count = values_in(value)
    # An empty object or array counts as if it held a value.
    empty = text.count(b"{}") + text.count(b"[]") if not isinstance(value, str) else 0
    assert not has_more_values(text, count + empty)
    assert has_more_values(text, count - 1) or count == 1


@pytest.mark.parametrize("text", [b'"', b"\\", b'\\"[,', b'{"a\\', b"[" * 9])
def test_text_that_is_no_json_is_counted_all_the_same(text: bytes) -> None:
    assert has_more_values(text, 100) is False


def test_text_of_code_is_no_more_than_one_value() -> None:
    text = json.dumps({"a": 'f(a, [b], {"c": "\\"}),' * 1000}).encode()
    assert not has_more_values(text, 4)
    assert has_more_values(text, 3)
