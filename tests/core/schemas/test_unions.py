"""Unions, schemas that are valid together, and the root of a tool's schema."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm._core.losses import Losses
from streamnorm._core.schemas.simplify import simplify_schema

Schema = dict[str, Any]


def simplified(schema: Schema) -> tuple[Schema, dict[str, str]]:
    """Return the simplified schema, and the results of the losses by their feature."""
    losses = Losses()
    simple = simplify_schema(schema, losses, path="tools[0]")
    return simple, {loss.feature.removeprefix("schema."): loss.detail for loss in losses.list()}


def of_property(schema: Any) -> tuple[Any, dict[str, str]]:
    """Return the schema of one property simplified, and the losses."""
    simple, losses = simplified({"type": "object", "properties": {"p": schema}})
    return simple["properties"]["p"], losses


@pytest.mark.parametrize(
    ("schema", "simple"),
    [
        # The same branch twice, one branch, and unions of unions.
        ({"anyOf": [{"type": "null"}, {"type": "null"}]}, {"type": "null"}),
        (
            {"anyOf": [{"type": "string", "description": "in"}], "description": "out"},
            {"type": "string", "description": "out"},
        ),
        (
            {"anyOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "boolean"}]},
            {"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "boolean"}]},
        ),
        # Any value is valid.
        ({"anyOf": [{"type": "string"}, {}]}, {}),
        ({"anyOf": [{"type": "string"}, {"description": "or not"}]}, {}),
        # No value is valid of a branch, or of all.
        ({"anyOf": [False, {"type": "string"}]}, {"type": "string"}),
        ({"anyOf": []}, {}),
        ({"anyOf": "x"}, {}),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, {"type": "string", "enum": ["a", "b"]}),
        (
            {"oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]},
            {
                "anyOf": [
                    {"type": "string", "enum": ["a"], "title": "A"},
                    {"type": "string", "enum": ["b"], "title": "B"},
                ]
            },
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "null"}], "anyOf": [{"type": "string"}]},
            {"type": "string"},
        ),
        # Constraints beside a union win; a type beside it is one of all branches.
        (
            {"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]},
            {"type": "object", "properties": {"a": {}}},
        ),
        (
            {"type": "string", "anyOf": [{"format": "date"}, {"format": "time"}]},
            {"anyOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "time"}]},
        ),
        (
            {"type": ["integer", "string"], "anyOf": [{"minimum": 1}, {"type": "null"}]},
            {"type": "integer", "minimum": 1},
        ),
        (
            {"type": "number", "anyOf": [{"type": "integer"}, {"type": "null"}]},
            {"type": "integer"},
        ),
        ({"type": "string", "anyOf": [{"type": "null"}]}, {"type": "string"}),
        (
            {"type": "string", "anyOf": [{"anyOf": [{"type": "string"}], "title": "t"}]},
            {"type": "string", "title": "t"},
        ),
        (
            {"anyOf": [{"type": "string"}, {"type": "integer"}], "nullable": True},
            {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        ),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}], "nullable": True},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
        ),
    ],
)
def test_union_has_different_branches_and_no_constraint_beside(
    schema: Schema, simple: Schema
) -> None:
    found, lost = of_property(schema)
    assert found == simple
    assert lost


@pytest.mark.parametrize(
    ("schemas", "simple", "dropped"),
    [
        ([{"type": "string"}, {"description": "d"}], {"type": "string", "description": "d"}, []),
        ([{"description": "d"}, {"description": "e"}], {"description": "d"}, ["description"]),
        ([{"type": "number"}, {"type": "integer"}], {"type": "integer"}, []),
        ([{"type": ["null", "integer"]}, {"type": ["number"]}], {"type": "integer"}, []),
        ([{"type": "string"}, {"type": "null"}], {"type": "string"}, ["type"]),
        (
            [{"enum": ["a", "b", 1]}, {"enum": [True, "b"]}],
            {"type": "string", "enum": ["b"]},
            [],
        ),
        ([{"enum": ["a"]}, {"enum": ["b"]}], {"type": "string", "enum": ["a"]}, ["enum"]),
        (
            [{"minimum": 1, "maximum": 3}, {"minimum": 2, "maximum": 2}],
            {"type": "number", "minimum": 2, "maximum": 2},
            [],
        ),
        (
            [{"properties": {"a": {}, "b": {"type": "null"}}}, {"properties": {"b": {}, "c": {}}}],
            {"type": "object", "properties": {"b": {"type": "null"}, "c": {}, "a": {}}},
            ["properties"],
        ),
        (
            [{"properties": {"a": {}, "b": {}}, "required": ["b"]}, {"required": ["a", "b"]}],
            {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["b", "a"]},
            [],
        ),
        (
            [{"items": {"type": "string"}}, {"items": {}}],
            {"type": "array", "items": {"type": "string"}},
            ["items"],
        ),
        (
            [{"properties": {"a": {}}}, {"properties": {"b": {}, "a": {}}}],
            {"type": "object", "properties": {"a": {}, "b": {}}},
            [],
        ),
        ([{"title": "t"}, {"title": "t", "type": "null"}], {"type": "null", "title": "t"}, []),
    ],
)
def test_schemas_that_are_valid_together_become_one(
    schemas: list[Schema], simple: Schema, dropped: list[str]
) -> None:
    found, lost = of_property({"allOf": schemas})
    assert found == simple
    assert lost["allOf"] == "merged"
    assert [keyword for keyword, result in lost.items() if result == "dropped"] == dropped


def test_properties_of_several_schemas_stand_in_the_order_of_the_first() -> None:
    found, _ = of_property({"allOf": [{"properties": {n: {}}} for n in "cab"]})
    assert [*found["properties"]] == ["c", "a", "b"]


def test_what_can_never_be_valid_is_not_offered() -> None:
    for never in (False, {"allOf": [False]}, {"anyOf": [False]}, {"oneOf": [{"allOf": [False]}]}):
        schema = {"type": "object", "properties": {"a": never, "b": {}}, "required": ["a", "b"]}
        simple, lost = simplified(schema)
        assert simple == {"type": "object", "properties": {"b": {}}, "required": ["b"]}
        assert lost["false"] == "property dropped" or lost["false"] == "branch dropped"


@pytest.mark.parametrize(
    ("schema", "simple"),
    [
        ({}, {"type": "object"}),
        ({"type": "string", "description": "d"}, {"type": "object", "description": "d"}),
        ({"allOf": [False]}, {"type": "object"}),
        (
            {"type": ["object", "null"], "properties": {"a": {}}, "required": ["a"], "title": "t"},
            {"type": "object", "title": "t", "properties": {"a": {}}, "required": ["a"]},
        ),
        (
            {
                "oneOf": [
                    {
                        "type": "object",
                        "properties": {"op": {"const": "get"}, "key": {"type": "string"}},
                        "required": ["op", "key"],
                    },
                    {
                        "type": "object",
                        "properties": {"op": {"const": "list"}, "key": {"type": "null"}},
                        "required": ["op"],
                    },
                    {"type": "string"},
                ]
            },
            {
                "type": "object",
                "properties": {
                    "op": {"type": "string", "enum": ["get", "list"]},
                    "key": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                },
                "required": ["op"],
            },
        ),
        (
            {"anyOf": [{"type": "object"}, {"type": "object", "properties": {"a": {}}}]},
            {"type": "object", "properties": {"a": {}}},
        ),
    ],
)
def test_root_is_always_one_object(schema: Schema, simple: Schema) -> None:
    found, lost = simplified(schema)
    assert found == simple
    assert lost


def test_union_of_objects_at_the_root_is_merged() -> None:
    """Beside the union itself, that of each property is one of a single branch."""
    text = {"type": "string"}
    objects = [{"type": "object", "properties": {name: text}} for name in "ab"]
    losses = Losses()
    simple = simplify_schema({"anyOf": objects}, losses, path="tools[0]")
    assert simple == {"type": "object", "properties": {"a": text, "b": text}}
    assert [(each.feature, each.detail, each.count) for each in losses.list()] == [
        ("schema.anyOf", "merged", 3)
    ]
