"""Typed access to fields, with the path of what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamnorm import DecodeError
from streamnorm._core.bodies import fields
from streamnorm._core.json import InvalidJSON, convert

Reader = Callable[[dict[str, Any], str], object]

READERS: list[tuple[Reader, object, object, str]] = [
    (fields.get_str, "a", 1, "an integer, expected a string"),
    (fields.get_bool, True, "a", "a string of 1 characters, expected a boolean"),
    (fields.get_number, 1.5, True, "a boolean, expected a number"),
    (fields.get_number, 1, "1", "a string of 1 characters, expected a number"),
    (fields.get_int, 1, 1.5, "a decimal number, expected an integer"),
    (fields.get_int, -1, False, "a boolean, expected an integer"),
    (fields.get_object, {"a": 1}, [], "an array, expected an object"),
    (fields.get_array, [1], {}, "an object, expected an array"),
]


@pytest.mark.parametrize(("read", "good", "bad", "error"), READERS)
def test_a_field_is_of_its_type_or_absent(
    read: Reader, good: object, bad: object, error: str
) -> None:
    assert read({"x": good}, "x") == good
    assert read({"x": None}, "x") is None
    assert read({}, "x") is None
    with pytest.raises(DecodeError, match=error) as caught:
        read({"x": bad}, "x")
    assert caught.value.path == "$.x"


def test_texts_are_an_array_of_strings() -> None:
    assert fields.get_strings({"x": ["a", ""]}, "x") == ("a", "")


def test_a_required_text_must_be_there() -> None:
    with pytest.raises(DecodeError, match=r"^\$\.x: missing, expected a string$"):
        fields.require_str({}, "x")
    with pytest.raises(DecodeError, match=r"^\$\.x: null, expected a string$"):
        fields.require_str({"x": None}, "x")


def test_arrays_name_the_item_that_does_not_fit() -> None:
    assert list(fields.get_objects({"x": [{}, {"a": 1}]}, "x")) == [
        ("$.x[0]", {}),
        ("$.x[1]", {"a": 1}),
    ]
    assert list(fields.get_objects({}, "x")) == []
    with pytest.raises(DecodeError, match=r"^\$\.x\[1\]: null, expected an object$"):
        list(fields.get_objects({"x": [{}, None]}, "x"))
    assert fields.get_strings({}, "x") is None
    with pytest.raises(DecodeError, match=r"^\$\.x\[1\]: an integer, expected a string$"):
        fields.get_strings({"x": ["a", 1]}, "x")


def test_an_error_of_a_part_is_put_within_the_whole() -> None:
    error = fields.unexpected(1, "a string", "$.content[0].text")
    assert str(fields.prefix_path(error, "$.messages[3]")) == (
        "$.messages[3].content[0].text: an integer, expected a string"
    )


@pytest.mark.parametrize(("value", "path"), [([1, []], "$[1]"), (5, "$")])
def test_what_a_type_refuses_is_an_error_at_its_path(value: object, path: str) -> None:
    with pytest.raises(InvalidJSON) as refused:
        convert(value, list[int])
    error = fields.conversion_error(refused.value)
    assert error.path == path
    assert " - at " not in error.args[0]
    assert error.args[0].count("`") % 2 == 0


def test_the_rest_are_the_fields_without_a_place() -> None:
    assert fields.unknown_fields({"a": 1}, {"a", "b"}) == {}
    assert fields.unknown_fields({"a": None, "c": None}, {"a", "b"}) == {"c": None}


@pytest.mark.parametrize(
    ("value", "problem"),
    [({}, "missing, expected a string"), ({"a": None}, "null, expected a string")],
    ids=repr,
)
def test_required_text_is_there(value: dict[str, Any], problem: str) -> None:
    with pytest.raises(DecodeError) as caught:
        fields.require_str(value, "a")
    assert (caught.value.path, caught.value.args[0]) == ("$.a", problem)
    assert fields.require_str({"a": "b"}, "a") == "b"


def test_fields_that_are_not_mapped_or_null_are_unmapped() -> None:
    known = {"a", "b"}
    assert fields.unknown_fields({"a": 1, "b": 0}, known, with_nulls=True) == {}
    assert fields.unknown_fields({"a": None, "b": 1}, known, with_nulls=True) == {"a": None}
    assert fields.unknown_fields({"a": 1, "c": 2}, known, with_nulls=True) == {"c": 2}
