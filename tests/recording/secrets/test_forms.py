"""The search for known values: which spans are found, and where they may start."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from streamnorm.recording.secrets.patterns import Forms, Span, find_fields, find_tokens

VALUE = "k3y/of é"
ESCAPED = {
    "unicode": r"\u006b3y/of \u00e9",
    "first character": r"\u006b3y/of é",
    "last character": r"k3y/of \u00e9",
    "slash": r"k3y\/of é",
    "in JSON in JSON": r"k3y\\/of \\u00e9",
    "url": quote(VALUE, safe=""),
    "url, throughout": "".join(f"%{octet:02x}" for octet in VALUE.encode()),
    "url, twice": quote(quote(VALUE, safe=""), safe=""),
    "form": "k3y/of+é",
    "raw": VALUE,
}


def spans(data: bytes, low: int = 0, high: int | None = None) -> set[Span]:
    found = Forms([VALUE]).find(data, low, len(data) if high is None else high)
    return set(found)


@pytest.mark.parametrize("form", ESCAPED)
@pytest.mark.parametrize("before", ["", "x", r"\u0041", "%41%42", r"\/", "é"])
@pytest.mark.parametrize("after", ["", "y", r"\u0041", "%41", r"\/"])
def test_span_is_that_of_the_form_alone(form: str, before: str, after: str) -> None:
    text = ESCAPED[form].encode()
    data = before.encode() + text + after.encode()
    start = len(before.encode())
    assert spans(data) == {(start, start + len(text))}


@pytest.mark.parametrize("form", ESCAPED)
def test_each_of_several_forms_is_found(form: str) -> None:
    text = ESCAPED[form].encode()
    size = len(text)
    assert spans(text * 3) == {(0, size), (size, 2 * size), (2 * size, 3 * size)}


@pytest.mark.parametrize("form", ESCAPED)
def test_span_starts_within_the_window(form: str) -> None:
    text = ESCAPED[form].encode()
    data = b"-" * 20 + text + b"-" * 20
    span = (20, 20 + len(text))
    assert spans(data, 20, 21) == {span}
    assert spans(data, 0, 21) == {span}
    assert spans(data, 0, 20) == set()
    assert spans(data, 21, len(data)) == set()


def test_repeated_value_is_found_without_overlap() -> None:
    assert list(Forms(["abab"]).find(b"abababab", 0, 8)) == [(0, 4), (4, 8)]


def test_surrogate_pair_is_found_as_an_escape() -> None:
    data = b"<" + json.dumps("\U0001f511key").encode().strip(b'"') + b">"
    assert set(Forms(["\U0001f511key"]).find(data, 0, len(data))) == {(1, len(data) - 1)}


def test_short_base64_is_not_searched_for() -> None:
    # Of three bytes, four characters of base64 depend on the value alone; of five, six.
    assert list(Forms(["abc"]).find(b"YWJj", 0, 4)) == []
    assert list(Forms(["abcde"]).find(b"YWJjZGU=", 0, 8)) == [(0, 6)]


def test_long_value_is_found_in_pieces_of_256_bytes() -> None:
    value = "".join(f"{number:04}" for number in range(100))
    data = value.encode()
    assert set(Forms([value]).find(data, 0, 400)) == {(0, 256), (144, 400)}
    assert set(Forms([value[:256]]).find(data, 0, 400)) == {(0, 256)}


def test_no_values_are_found_nowhere() -> None:
    assert list(Forms([]).find(rb"\u0041 %41", 0, 10)) == []


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        (b"gsk_0123456789abcdefghij", 0, 24),
        (b"github_pat_0123456789abcdefghij", 0, 31),
        (b"AIza0123456789abcdefghijABCDEFGHIJ0123", 0, 38),
        (b"Bearer 0123456789abcdefghij", 7, 27),
        (b"-----BEGIN PRIVATE KEY-----\n" + b"Ab3+" * 8, 28, 60),
    ],
)
def test_token_starts_within_the_window(text: bytes, start: int, end: int) -> None:
    """What counts is the start of the pattern, also where the secret begins behind it."""
    data = b"-" * 19 + b" " + text + b";" * 20
    span = (20 + start, 20 + end)
    for low, high in ((20, 21), (0, 21), (20, len(data))):
        assert [found[:2] for found in find_tokens(data, low, high)] == [span]
    for low, high in ((0, 20), (21, len(data))):
        assert list(find_tokens(data, low, high)) == []


def test_field_starts_within_the_window() -> None:
    data = b'---{"password": "abc", "password": "def"}'
    assert [found[:2] for found in find_fields(data, 0, len(data))] == [(17, 20), (36, 39)]
    assert [found[:2] for found in find_fields(data, 5, 6)] == [(17, 20)]
    assert list(find_fields(data, 0, 5)) == []
    assert [found[:2] for found in find_fields(data, 6, len(data))] == [(36, 39)]
