"""Bodies as JSON text, and the bounds that they must stay within."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from streamnorm import DecodeError, Limits
from streamnorm._core.bodies.fields import CleanedBody, body_object, lone_surrogate_in

FEW = Limits(max_event_bytes=12, max_json_depth=2)


@pytest.mark.parametrize("body", [{"a": 1}, '{"a":1}', b'{"a":1}', b' {"a":1}\r\n'])
def test_body_is_an_object_in_every_form(body: dict[str, Any] | bytes | str) -> None:
    assert body_object(body, Limits()) == {"a": 1}


def test_decoded_object_is_the_one_that_was_given() -> None:
    body = {"a": 1}
    assert body_object(body, Limits()) is body


def test_last_of_duplicate_keys_counts() -> None:
    assert body_object('{"a":1,"a":2}', Limits()) == {"a": 2}


def test_what_only_lenient_parsers_read_is_read() -> None:
    """Half a surrogate pair becomes U+FFFD, and what is no finite number null."""
    body = '{"a":"\\ud83d","b":NaN,"c":1e999,"d":12345678901234567890123}'
    expected = {"a": "\ufffd", "b": None, "c": None, "d": 12345678901234567890123}
    assert body_object(body, Limits()) == body_object(body.encode(), Limits()) == expected


NOT_FINITE = "NaN, Infinity or a number beyond a double, expected a finite number"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1E+999"])
def test_request_has_no_number_that_is_not_finite(number: str) -> None:
    """RFC 8259, section 6: such numbers are not permitted, or beyond what a double holds."""
    for text, path in (
        (f'{{"temperature":{number}}}', "$.temperature"),
        (f'{{"a":[1,{{"b":null}},{{"c":{{"d":{number}}}}}]}}', "$.a[2].c.d"),
    ):
        for body in (text, text.encode(), json.loads(text)):
            with pytest.raises(DecodeError) as caught:
                body_object(body, Limits(), finite=True)
            assert (caught.value.path, caught.value.args[0]) == (path, NOT_FINITE)


def test_decoded_request_is_searched_in_tuples() -> None:
    with pytest.raises(DecodeError) as caught:
        body_object({"a": (1, math.nan)}, Limits(), finite=True)
    assert (caught.value.path, caught.value.args[0]) == ("$.a[1]", NOT_FINITE)


@pytest.mark.parametrize("value", [{"\ud800"}, frozenset({"a\ud800"})])
def test_half_of_a_pair_where_json_has_no_place_is_refused(value: object) -> None:
    with pytest.raises(DecodeError, match="a value that JSON does not have"):
        body_object({"a": value}, Limits())


@pytest.mark.parametrize(
    "text",
    [
        '{"a":"NaN and 1e400"}',
        '{"a":[null,1.5,{"b":true}],"c":1e308,"d":12345678901234567890123}',
    ],
)
def test_other_requests_are_read_as_ever(text: str) -> None:
    expected = json.loads(text)
    for body in (text, text.encode(), expected):
        assert body_object(body, Limits(), finite=True) == expected
    lenient = '{"a":"\\ud83d"}'
    assert body_object(lenient, Limits(), finite=True) == {"a": "\ufffd"}


@pytest.mark.parametrize("body", ["[]", "null", "1", '"a"', b"[{}]"])
def test_other_value_is_refused(body: bytes | str) -> None:
    with pytest.raises(DecodeError, match=r"^\$: no JSON object, expected one$"):
        body_object(body, Limits())


@pytest.mark.parametrize("body", ["", "{", '{"a":1}{}', b"data: {}\n\n"])
def test_text_that_is_no_json_is_refused(body: bytes | str) -> None:
    message = rf"^\$: no JSON in {len(body)} characters, expected a JSON object$"
    with pytest.raises(DecodeError, match=message):
        body_object(body, Limits())


def test_bytes_that_are_no_utf_8_are_refused() -> None:
    with pytest.raises(DecodeError, match=r"^\$: byte 2 is not UTF-8, expected JSON$"):
        body_object(b'{"\xff":1}', Limits())


def test_size_is_bounded() -> None:
    body = b'{"a":"12345"}'
    assert body_object(body[:-3] + b'"}', FEW) == {"a": "1234"}
    for form in (body, body.decode()):
        with pytest.raises(DecodeError, match=r"^\$: 13 bytes, expected at most 12$"):
            body_object(form, FEW)


def test_depth_is_bounded() -> None:
    nested: dict[str, Any] = {"a": [1]}
    for form in (nested, '{"a":[1]}'):
        assert body_object(form, FEW) == nested
    message = r"^\$: nested deeper than 2, expected at most that$"
    for form in ({"a": [[1]]}, '{"a":[[1]]}'):
        with pytest.raises(DecodeError, match=message):
            body_object(form, FEW)


def test_depth_at_which_parsers_give_up_is_refused() -> None:
    with pytest.raises(DecodeError, match="nested deeper than 128, expected a JSON object"):
        body_object("[" * 100_000, Limits())


def test_half_of_a_character_in_a_decoded_object_becomes_the_replacement_character() -> None:
    body = {"a": ["\ud83d"], "\ude00": 1}
    assert body_object(body, Limits()) == {"a": ["\ufffd"], "\ufffd": 1}
    assert body == {"a": ["\ud83d"], "\ude00": 1}


@pytest.mark.parametrize(
    ("body", "is_cleaned"),
    [
        (b'{"a":"\\ud83d"}', True),
        ('{"a":"\ud83d"}', True),
        ({"a": "\ud83d"}, True),
        ({"a": {"\udfff": 1}}, True),
        (b'{"a":NaN}', False),
        (b'{"a":"\\ud83d\\ude00"}', False),
        ('{"a":"\ud83d\ude00"}', False),
        ({"a": "\ud83d\ude00"}, False),
        ({"a": "\U0001f600"}, False),
    ],
)
def test_body_that_had_half_a_surrogate_pair_is_known(
    body: dict[str, Any] | bytes | str, is_cleaned: bool
) -> None:
    assert isinstance(body_object(body, Limits()), CleanedBody) is is_cleaned


def test_value_that_json_does_not_have_is_refused() -> None:
    for value in (object(), {1: 2, (3,): 4}):
        with pytest.raises(DecodeError, match="a value that JSON does not have"):
            body_object({"a": value}, Limits())


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b'{"a":["b",{"c":"half \\ud83d"}]}', "a[1].c"),
        ('{"a":"half \\uDe00"}', "a"),
        ('{"a":"half \ud83d"}', "a"),
        ({"a": {"b": ["c", "half \udfff"]}}, "a.b[1]"),
        (b'{"a":{"half \\ud83d":1}}', "a"),
        (b'{"a":"whole \\ud83d\\ude00"}', None),
        (b'{"a":"\\\\ud83d"}', None),
        ({"a": "whole \U0001f600"}, None),
        ('{"a":"ascii"}', None),
    ],
)
def test_half_a_surrogate_pair_is_found(
    body: dict[str, Any] | bytes | str, path: str | None
) -> None:
    assert lone_surrogate_in(body) == path


def test_number_of_values_is_bounded() -> None:
    body = '{"a":[1,2,{"b":"c,[{\\"d"}]}'
    message = r"^\$: more than 9 JSON values, expected at most that \(max_json_values\)$"
    for form in (body, body.encode()):
        assert body_object(form, Limits(max_json_values=10))["a"][1] == 2
        with pytest.raises(DecodeError, match=message):
            body_object(form, Limits(max_json_values=9))
