"""The root of a tool's schema as one object, without the unions that servers refuse there."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm import EncodeError
from streamnorm._core.schemas.simplify import object_root

UNIONS = frozenset({"allOf", "anyOf", "oneOf"})
TEXT = {"type": "string"}
COUNT = {"type": "integer"}


def fitted(
    schema: dict[str, Any], refused: frozenset[str] = UNIONS
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the schema with an object at its root, and what was lost."""
    lost: list[tuple[str, str]] = []
    made = object_root(schema, refused, lambda *loss: lost.append(loss), "tools[0]")
    return made, lost


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize("schema", [{"type": "object"}, of(a=TEXT), {**of(), "not": {}}])
def test_object_stays_the_same(schema: dict[str, Any]) -> None:
    made, lost = fitted(schema)
    assert made is schema
    assert lost == []


def test_root_without_a_type_is_an_object() -> None:
    assert fitted({"properties": {"a": TEXT}}) == (of(a=TEXT), [])
    assert fitted({}) == ({"type": "object"}, [])


@pytest.mark.parametrize("kind", ["array", ["object", "null"], 1])
def test_other_type_of_the_root_is_lost(kind: object) -> None:
    schema = {"title": "T", "type": kind}
    made = {"type": "object", "title": "T"}
    assert fitted(schema) == (made, [("type", "written as object")])


def test_branches_of_a_union_become_one_object() -> None:
    """What all require is required, and a property of several is the union of theirs."""
    schema = {
        "description": "A shape",
        "anyOf": [
            {**of(kind={"const": "circle"}, radius=COUNT), "required": ["kind", "radius"]},
            {**of(kind={"const": "text"}, text=TEXT), "required": ["text", "kind"]},
            {"type": "null"},
            True,
        ],
    }
    made = {
        "type": "object",
        "description": "A shape",
        "properties": {
            "kind": {"anyOf": [{"const": "circle"}, {"const": "text"}]},
            "radius": COUNT,
            "text": TEXT,
        },
        "required": ["kind"],
    }
    assert fitted(schema) == (made, [("anyOf", "merged")])


def test_root_keeps_its_own_beside_a_union() -> None:
    schema = {
        **of(a=TEXT, b=TEXT, c=COUNT),
        "required": ["c"],
        "additionalProperties": False,
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        "$schema": "https://json-schema.org/draft/2020-12/schema",
    }
    made = {name: value for name, value in schema.items() if name != "oneOf"}
    assert fitted(schema) == (made, [("oneOf", "merged")])


def test_union_of_closed_objects_is_closed() -> None:
    closed = {"additionalProperties": False}
    schema = {"type": "object", "anyOf": [{**of(a=TEXT), **closed}, {**of(b=TEXT), **closed}]}
    assert fitted(schema)[0] == {**of(a=TEXT, b=TEXT), **closed}
    schema["anyOf"] = [{**of(a=TEXT), **closed}, of(b=TEXT)]
    assert fitted(schema)[0] == of(a=TEXT, b=TEXT)


def test_parts_of_an_intersection_are_all_valid() -> None:
    schema = {
        "$defs": {"A": {**of(a=TEXT, x=TEXT), "required": ["a"], "title": "An A"}},
        "allOf": [
            {"$ref": "#/$defs/A"},
            {**of(b=COUNT, x={"minLength": 1}), "required": ["b", "a"]},
        ],
    }
    made = {
        "type": "object",
        "$defs": schema["$defs"],
        "properties": {"a": TEXT, "x": {"allOf": [TEXT, {"minLength": 1}]}, "b": COUNT},
        "required": ["a", "b"],
        "title": "An A",
    }
    assert fitted(schema) == (made, [])


def test_parts_that_disagree_on_other_properties_leave_them_open() -> None:
    schema = {
        "allOf": [
            {**of(a=TEXT), "additionalProperties": False},
            {**of(b=TEXT), "additionalProperties": TEXT},
        ]
    }
    assert fitted(schema) == (of(a=TEXT, b=TEXT), [])


def test_unions_within_unions_are_joined() -> None:
    schema = {
        "oneOf": [
            {"anyOf": [of(a=TEXT), of(b=TEXT)]},
            {"type": ["object", "null"], "allOf": [of(c=TEXT)]},
        ]
    }
    assert fitted(schema) == (of(a=TEXT, b=TEXT, c=TEXT), [("oneOf", "merged")])


def test_reference_at_the_root_is_resolved() -> None:
    """`zod-to-json-schema` writes the whole schema as a definition."""
    schema = {
        "$ref": "#/definitions/Args",
        "definitions": {"Args": {**of(a=TEXT), "title": "Args", "minProperties": 1}},
        "$schema": "http://json-schema.org/draft-07/schema#",
    }
    made = {
        "type": "object",
        "definitions": schema["definitions"],
        "$schema": schema["$schema"],
        "properties": {"a": TEXT},
        "title": "Args",
    }
    assert fitted(schema) == (made, [("minProperties", "dropped")])


def test_reference_into_a_branch_becomes_one_to_a_definition() -> None:
    schema = {"anyOf": [of(a=TEXT), of(b={"$ref": "#/anyOf/0/properties/a"})]}
    made = {
        "type": "object",
        "$defs": {"0_properties_a": TEXT},
        "properties": {"a": TEXT, "b": {"$ref": "#/$defs/0_properties_a"}},
    }
    assert fitted(schema) == (made, [("anyOf", "merged")])


def test_reference_into_a_branch_that_leads_nowhere_stays() -> None:
    schema = {"anyOf": [of(b={"$ref": "#/anyOf/7"})]}
    assert fitted(schema)[0] == of(b={"$ref": "#/anyOf/7"})


@pytest.mark.parametrize("value", [[], {}, None, ["x", 1, True]])
def test_union_of_no_objects_leaves_the_root(value: object) -> None:
    assert fitted({**of(a=TEXT), "anyOf": value}) == (of(a=TEXT), [("anyOf", "merged")])


@pytest.mark.parametrize("reference", ["#", "#/$defs/B", "#/$defs/T", "other.json", 7])
def test_reference_at_the_root_without_an_object_is_left_out(reference: object) -> None:
    schema = {"$ref": reference, "$defs": {"T": True}, "properties": {"a": TEXT}}
    made = {"type": "object", "$defs": {"T": True}, "properties": {"a": TEXT}}
    assert fitted(schema) == (made, [])


def test_other_refused_keywords_are_dropped() -> None:
    refused = frozenset({"enum", "not"})
    schema = {**of(a=TEXT), "enum": [{}], "not": {}, "anyOf": []}
    assert fitted(schema, refused) == (
        {**of(a=TEXT), "anyOf": []},
        [("enum", "dropped"), ("not", "dropped")],
    )


def test_odd_properties_and_requirements_are_left_out() -> None:
    schema = {"properties": ["a"], "required": ["b", 1, None], "oneOf": [{"required": "c"}]}
    assert fitted(schema)[0] == {"type": "object", "required": ["b"]}


def test_definitions_that_are_each_other_are_an_error() -> None:
    schema = {"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}] * 2}}}
    with pytest.raises(EncodeError, match="more than 1000 branches, expected at most that") as info:
        fitted(schema)
    assert info.value.path == "tools[0]"
