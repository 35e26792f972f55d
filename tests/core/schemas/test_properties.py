"""Names of a tool's properties that a vendor refuses: legal ones in schema and calls, and back."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnorm._core.schemas.properties import (
    ArgumentsRenamer,
    legal_properties,
    rename_arguments,
    rename_schema,
)

LEGAL = re.compile("[a-zA-Z0-9_.-]{1,64}")
TEXT = {"type": "string"}


def with_properties(*names: str, **keywords: Any) -> dict[str, Any]:
    return {"type": "object", "properties": dict.fromkeys(names, TEXT), **keywords}


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("filter[id]", "filter_id"),
        ("filter[a][b]", "filter_a_b"),
        ("$top", "top"),
        ("Account Number", "Account_Number"),
        ("größe", "gr_e"),
        ("年", "value"),
        ("", "value"),
        ("_[]", "value"),
        ("a" * 65, "a" * 64),
    ],
)
def test_illegal_name_gets_a_legal_one(name: str, legal: str) -> None:
    assert legal_properties(with_properties("ok", name), LEGAL) == {name: legal}


def test_legal_names_stay() -> None:
    assert legal_properties(with_properties("a", "a.b", "a-b", "_a", "a" * 64), LEGAL) == {}
    assert legal_properties({"type": "object"}, LEGAL) == {}
    assert legal_properties({"properties": ["$a"]}, LEGAL) == {}


def test_no_name_is_given_twice() -> None:
    schema = with_properties("$top", "top", "[top]", "top_2", "a" * 64, "a" * 64 + "[")
    assert legal_properties(schema, LEGAL) == {
        "$top": "top_3",
        "[top]": "top_4",
        "a" * 64 + "[": "a" * 62 + "_2",
    }


def test_properties_of_alternatives_count_as_those_of_the_root() -> None:
    schema = with_properties("$a", allOf=[with_properties("$b"), True], anyOf=[{}], oneOf="no")
    assert legal_properties(schema, LEGAL) == {"$a": "a", "$b": "b"}


def test_schema_has_the_legal_names() -> None:
    schema = {
        "type": "object",
        "properties": {"$a": TEXT, "b": with_properties("$a", required=["$a"])},
        "required": ["$a", "b", 1],
        "dependentRequired": {"b": ["$a"], "$a": ["b"], "c": "no"},
        "dependentSchemas": {"$a": {"required": ["$a"]}},
    }
    before = json.dumps(schema)
    assert rename_schema(schema, {"$a": "a"}) == {
        "type": "object",
        "properties": {"a": TEXT, "b": with_properties("$a", required=["$a"])},
        "required": ["a", "b", 1],
        "dependentRequired": {"b": ["a"], "a": ["b"], "c": "no"},
        "dependentSchemas": {"a": {"required": ["a"]}},
    }
    assert json.dumps(schema) == before


def test_what_the_arguments_match_too_has_the_legal_names() -> None:
    part = {"required": ["$a"], "properties": {"$a": {"const": 1}}}
    schema = {
        "properties": {"$a": TEXT},
        "allOf": [part, True],
        "anyOf": [part],
        "oneOf": [part],
        "if": part,
        "then": part,
        "else": part,
        "not": part,
        "dependencies": {"$a": ["b"], "b": part},
        "propertyNames": {"enum": ["$a", "b"], "maxLength": 5},
    }
    renamed = {"required": ["a"], "properties": {"a": {"const": 1}}}
    assert rename_schema(schema, {"$a": "a"}) == {
        "properties": {"a": TEXT},
        "allOf": [renamed, True],
        "anyOf": [renamed],
        "oneOf": [renamed],
        **dict.fromkeys(("if", "then", "else", "not"), renamed),
        "dependencies": {"a": ["b"], "b": renamed},
        "propertyNames": {"enum": ["a", "b"], "maxLength": 5},
    }


def test_references_to_properties_follow_them() -> None:
    def pointing(name: str) -> dict[str, Any]:
        return {"items": [{"$ref": f"#/properties/{name}"}, {"$ref": "#/$defs/$a"}, {"$ref": 1}]}

    names = {"$a": "a", "b/c~d": "b_c_d", "e f": "e_f"}
    for old, new in (("$a", "a"), ("b~1c~0d/items", "b_c_d/items"), ("e%20f", "e_f"), ("g", "g")):
        schema = {"properties": {"x": pointing(old)}}
        assert rename_schema(schema, names) == {"properties": {"x": pointing(new)}}


def test_referenced_and_nested_properties_count_as_those_of_the_root() -> None:
    schema = {
        "$ref": "#/$defs/Node",
        "anyOf": [{"allOf": [with_properties("a b")]}],
        "$defs": {"Node": {**with_properties("$a"), "$ref": "#/$defs/Node"}, "O": {}},
    }
    assert legal_properties(schema, LEGAL) == {"$a": "a", "a b": "a_b"}
    assert legal_properties({"$ref": "https://h", "allOf": [{"$ref": "#/x"}]}, LEGAL) == {}


def test_chain_of_references_is_followed_within_a_bound() -> None:
    defs: dict[str, Any] = {str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(200)}
    schema = {"$ref": "#/$defs/0", "$defs": {**defs, "50": with_properties("$a")}}
    assert legal_properties(schema, LEGAL) == {"$a": "a"}
    schema = {"$ref": "#/$defs/0", "$defs": {**defs, "150": with_properties("$a")}}
    assert legal_properties(schema, LEGAL) == {}


def test_two_members_never_get_one_name() -> None:
    arguments = '{"$a":1,"a":2}'
    assert rename_arguments(arguments, {"$a": "a"}) == arguments
    assert rename_arguments(arguments, {"a": "$a"}) == arguments


def test_schema_without_members_stays() -> None:
    for schema in ({"type": "object"}, {"properties": [], "required": "a"}):
        assert rename_schema(schema, {"a": "b"}) == schema


def test_values_of_arguments_keep_their_bytes() -> None:
    arguments = '{"$a": [1.50, {"$a" :2}], "b":"\\u00e9", "n":12345678901234567890123}'
    renamed = rename_arguments(arguments, {"$a": "a"})
    assert renamed == '{"a":[1.50, {"$a" :2}],"b":"\\u00e9","n":12345678901234567890123}'


@pytest.mark.parametrize("arguments", ["", "{", '{"$a": 1', "[]", "null", '{"b": 1}', "\ud800"])
def test_other_arguments_stay_as_they_are(arguments: str) -> None:
    assert rename_arguments(arguments, {"$a": "a"}) == arguments


@given(
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=6),
    st.lists(st.integers(0, 30), max_size=3),
)
def test_arguments_come_back_in_any_pieces(value: dict[str, int], cuts: list[int]) -> None:
    names = legal_properties(with_properties(*value), LEGAL)
    assert all(map(LEGAL.fullmatch, names.values()))
    sent = rename_arguments(json.dumps(value), names)
    assert json.loads(sent) == {names.get(name, name): member for name, member in value.items()}
    renamer = ArgumentsRenamer({new: old for old, new in names.items()})
    ends = [0, *sorted(cuts), None]
    assert [renamer.feed(sent[at:end]) for at, end in pairwise(ends)] == ["" for _ in ends[1:]]
    assert json.loads(renamer.close()) == value
