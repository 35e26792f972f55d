"""JSON in pieces: where it stops being JSON, and how little that disturbs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from math import isinf

import pytest
from hypothesis import example, given
from support.bodies.json_texts import NEAR_JSON, exactly, within

from streamnorm import ArgumentsError
from streamnorm._core.json import InvalidJSON, decode_any
from streamnorm.partial_json import PartialJSON, check_arguments, decode_arguments

_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")


def read(fragments: Iterable[str], *, max_depth: int = 128) -> PartialJSON:
    parser = PartialJSON(max_depth=max_depth)
    for fragment in fragments:
        parser.feed(fragment)
    return parser


@given(NEAR_JSON)
@example("1" * 5000)
@example("-" + "1" * 5000)
@example("[" + "1" * 4300 + "]")
def test_exactly_invalid_json_is_an_error(text: str) -> None:
    parser = read([text])
    parser.close()
    try:
        value = decode_any(text, max_depth=128)
    except InvalidJSON:
        assert parser.error is not None
        assert 0 <= parser.error.position <= len(text)
    else:
        if parser.error is not None:
            assert "within range" in str(parser.error)
            assert any(isinf(float(number)) for number in _NUMBERS.findall(text))
            return
        assert exactly(parser.value) == exactly(value)


@given(NEAR_JSON)
def test_text_before_the_error_position_is_valid(text: str) -> None:
    """Text before it is a beginning of JSON: it could have gone on."""
    parser = read([text])
    parser.close()
    if parser.error is not None:
        before = read([text[: parser.error.position]])
        assert before.error is None
        assert before.value is None or within(before.value, parser.value)


# No JSON, the character that does not fit, and what would have.
ERRORS: list[tuple[str, int, str]] = [
    ("x", 0, "a value"),
    ("\ufeff{}", 0, "a value"),
    ("{}{", 2, "the end of the text"),
    ("{} x", 3, "the end of the text"),
    ("{}\u00a0", 2, "the end of the text"),
    ("{a", 1, "a key or }"),
    ("{,", 1, "a key or }"),
    ("{]", 1, "a key or }"),
    ('{"a":1,}', 7, "a key"),
    ('{"a"}', 4, "a colon"),
    ('{"a" 1', 5, "a colon"),
    ('{"a":}', 5, "a value"),
    ('{"a":1]', 6, "a comma or }"),
    ('{"a":1 "', 7, "a comma or }"),
    ("[,", 1, "a value or ]"),
    ("[}", 1, "a value or ]"),
    ("[1,]", 3, "a value"),
    ("[1}", 2, "a comma or ]"),
    ("[1 2", 3, "a comma or ]"),
    ("['", 1, "a value or ]"),
    ("[+1", 1, "a value or ]"),
    ("[.5", 1, "a value or ]"),
    ("[NaN", 1, "a value or ]"),
    ("[1e999]", 1, "a number within range"),
    ('{"a":-1e400}', 5, "a number within range"),
    ("[Infinity", 1, "a value or ]"),
    ("[-Infinity", 2, "a number"),
    ("[01]", 2, "a number"),
    ("[-]", 2, "a number"),
    ("[1.]", 3, "a number"),
    ("[1.e5]", 3, "a number"),
    ("[1e+]", 4, "a number"),
    ("[1e5.]", 4, "a number"),
    ("[1-2]", 2, "a number"),
    ("[12O]", 3, "a comma or ]"),
    ("1{", 1, "the end of the text"),
    ("[" + "1" * 4301 + "]", 1, "a shorter number"),
    ("[True", 1, "a value or ]"),
    ("[nulL", 4, "null"),
    ("[nul]", 4, "null"),
    ("[fa ", 3, "false"),
    ("[truey", 5, "a comma or ]"),
    ('"a\x1f', 2, "a character of a string"),
    ('"a\n', 2, "a character of a string"),
    ('"\\x', 2, "a character of a string"),
    ('"\\u12g4', 5, "a character of a string"),
    ('{"a\t', 3, "a character of a string"),
]


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize(("text", "position", "expected"), ERRORS)
def test_unexpected_character_is_an_error_at_its_position(
    text: str, position: int, expected: str, *, cut: bool
) -> None:
    parser = read(text if cut else [text])
    assert parser.error is not None
    assert parser.error.position == position
    assert str(parser.error) == f"character {position} does not fit, expected {expected}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "a value"),
        (" ", "a value"),
        ("[", "a value or ]"),
        ('{"a"', "a colon"),
        ('{"a":1,', "a key"),
        ("[[]", "a comma or ]"),
        ('"a', "more"),
        ('"a\\u12', "more"),
        ('{"a', "more"),
        ("[tru", "more"),
        ("[12", "more"),
    ],
)
def test_end_within_a_value_is_an_error_at_the_end(text: str, expected: str) -> None:
    parser = read([text])
    before = exactly(parser.value)
    assert parser.error is None
    parser.close()
    assert parser.error is not None
    assert parser.error.position == len(text)
    assert str(parser.error) == f"text ends at character {len(text)}, expected {expected}"
    assert exactly(parser.value) == before


def test_number_alone_ends_with_the_text() -> None:
    parser = read(["-1", "2"])
    assert (parser.value, parser.complete) == (None, False)
    parser.close()
    assert (parser.value, parser.complete, parser.error) == (-12, True, None)


def test_half_a_number_alone_is_an_error_at_the_end() -> None:
    parser = read(["1."])
    parser.close()
    assert parser.error is not None
    assert (parser.error.position, parser.value) == (2, None)


def test_fragments_after_an_error_are_ignored() -> None:
    parser = read(["[1,x", "2]"])
    error = parser.error
    parser.feed("]")
    parser.close()
    assert parser.error is error
    assert (parser.value, parser.complete) == ([1], False)


@pytest.mark.parametrize(("opening", "position"), [("[", 3), ('{"a":', 11)])
def test_nesting_beyond_the_bound_is_an_error(opening: str, position: int) -> None:
    assert read([opening * 2 + "1,"], max_depth=2).error is None
    assert read([opening * 2 + opening[0]], max_depth=2).error is None
    parser = read([opening * 3 + "1"], max_depth=2)
    assert parser.error is not None
    assert parser.error.position == position
    assert str(parser.error).endswith("at this depth")


def test_empty_container_is_allowed_at_the_deepest_level() -> None:
    assert read(["[[[]"], max_depth=2).value == [[[]]]
    assert read(["[[{}"], max_depth=2).error is None


def test_unbounded_nesting_does_not_use_the_stack() -> None:
    parser = read(["[" * 100_000])
    assert parser.error is not None
    assert parser.error.position == 129
    assert repr(parser.value) == "[" * 129 + "]" * 129


def test_closed_containers_do_not_count_as_depth() -> None:
    assert read(["[" + "[]," * 1000 + "[]]"], max_depth=1).complete


def test_errors_quote_no_content() -> None:
    for text in (
        '{"secret":"secret\x01',
        "[secret",
        '{"secret" secret',
        '{"secret":secret',
        '"secret',
    ):
        parser = read([text])
        parser.close()
        assert "secret" not in str(parser.error)
        assert "secret" not in repr(parser.error)


@pytest.mark.parametrize("text", ["", '{"a":1}', '{"a":"NaN"}', '{"a":"Infinity"}'])
def test_complete_arguments_are_decoded_at_once(text: str) -> None:
    assert decode_arguments(text) == json.loads(text or "{}")


@pytest.mark.parametrize(("text", "position"), [(" []", 1), ('{"a":NaN}', 5), ("{} {}", 3)])
def test_complete_arguments_fail_at_the_same_position_as_fragments(
    text: str, position: int
) -> None:
    with pytest.raises(ArgumentsError) as caught:
        decode_arguments(text)
    assert caught.value.position == position


@pytest.mark.parametrize("number", ["1e999", "-1E+400", "1" * 310 + ".0", "[1e309]"])
def test_arguments_hold_no_infinity(number: str) -> None:
    """Python reads a number out of range as infinity, which a tool would be called with."""
    with pytest.raises(ArgumentsError, match="expected a number within range"):
        decode_arguments(f'{{"a":{number}}}')


def test_arguments_hold_the_largest_numbers() -> None:
    text = '{"a":1e308,"b":-1.7e+308,"c":1e-999,"d":%s}' % ("1" * 400)
    assert decode_arguments(text) == json.loads(text)


@pytest.mark.parametrize("before", [0, 256 * 1024 - 14, 256 * 1024 - 12, 1024 * 1024])
def test_large_number_is_found_wherever_it_stands_in_long_arguments(before: int) -> None:
    """They are searched a piece at a time, and a number may stand across the end of one."""
    text = '{"a":"' + "x" * before + '","b":1e999}'
    check_arguments(text)
    with pytest.raises(ArgumentsError, match="expected a number within range"):
        decode_arguments(text)
