"""A tool's schema in the keywords that all servers accept: each keyword, and its loss."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from streamnorm import EncodeError, LossyEncoding
from streamnorm._core.losses import Losses
from streamnorm._core.schemas.simplify import simplify_schema

Schema = dict[str, Any]


def simplified(schema: Schema) -> tuple[Schema, dict[str, str]]:
    """Return the simplified schema, and the results of the losses by their feature."""
    losses = Losses()
    before = copy.deepcopy(schema)
    simple = simplify_schema(schema, losses, path="tools[0]")
    assert schema == before
    assert all(loss.where == "tools" for loss in losses.list())
    return simple, {loss.feature.removeprefix("schema."): loss.detail for loss in losses.list()}


def of_property(schema: Any) -> tuple[Any, dict[str, str]]:
    """Return the schema of one property simplified, and the losses."""
    simple, losses = simplified({"type": "object", "properties": {"p": schema}})
    return simple["properties"]["p"], losses


SIMPLE: list[Schema] = [
    {"type": "object"},
    {"type": "object", "properties": {}},
    {"type": "object", "properties": {"a": {}}, "required": []},
    {
        "type": "object",
        "title": "T",
        "description": "what it is",
        "properties": {
            "text": {"type": "string", "format": "date-time", "description": "when"},
            "word": {"enum": ["a", "b"], "type": "string"},
            "count": {"type": "integer", "minimum": 0, "maximum": 9, "enum": [1, 2]},
            "size": {"type": "number", "minimum": 0.5},
            "flag": {"type": "boolean"},
            "none": {"type": "null"},
            "list": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
            "any": {},
            "said": {"description": "anything"},
            "one": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "or none"},
        },
        "required": ["text", "one"],
    },
]


@pytest.mark.parametrize("schema", SIMPLE)
def test_simple_schema_stays_the_same_object(schema: Schema) -> None:
    losses = Losses(strict=True)
    assert simplify_schema(schema, losses, path="tools[0]") is schema
    assert losses.list() == ()


@pytest.mark.parametrize(
    ("schema", "simple", "losses"),
    [
        # Types.
        (
            {"type": ["string", "null"], "description": "d"},
            {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "d"},
            {"type": "written as anyOf"},
        ),
        ({"type": ["string"]}, {"type": "string"}, {"type": "written as text"}),
        (
            {"type": ["integer", "string"], "minimum": 1, "format": "date"},
            {"anyOf": [{"type": "string", "format": "date"}, {"type": "integer", "minimum": 1}]},
            {"type": "written as anyOf"},
        ),
        ({"type": ["integer", "number"]}, {"type": "number"}, {"type": "merged"}),
        (
            {"type": "string", "nullable": True},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            {"nullable": "written as anyOf", "type": "written as anyOf"},
        ),
        (
            {"type": ["string", "null"], "nullable": True},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            {"nullable": "written as anyOf", "type": "written as anyOf"},
        ),
        ({"type": "string", "nullable": False}, {"type": "string"}, {"nullable": "dropped"}),
        ({"nullable": True}, {}, {"nullable": "written as anyOf"}),
        ({"type": "any"}, {}, {"type": "dropped"}),
        ({"type": ["string", "any"]}, {}, {"type": "dropped"}),
        ({"type": [1]}, {}, {"type": "dropped"}),
        ({"type": 1}, {}, {"type": "dropped"}),
        # Constraints of another type, or of none.
        (
            {"type": "string", "properties": {"a": {}}},
            {"type": "string"},
            {"properties": "dropped"},
        ),
        ({"type": "object", "items": {}}, {"type": "object"}, {"items": "dropped"}),
        (
            {"properties": {"a": {"type": "string"}}},
            {"type": "object", "properties": {"a": {"type": "string"}}},
            {"type": "added"},
        ),
        ({"items": {}}, {"type": "array", "items": {}}, {"type": "added"}),
        ({"type": "array"}, {"type": "array", "items": {}}, {"items": "added"}),
        ({"minimum": 1}, {"type": "number", "minimum": 1}, {"type": "added"}),
        # Required properties that there are none of.
        (
            {"type": "object", "properties": {"a": {}}, "required": ["b", "a"]},
            {"type": "object", "properties": {"a": {}}, "required": ["a"]},
            {"required": "dropped"},
        ),
        ({"type": "object", "required": ["a"]}, {"type": "object"}, {"required": "dropped"}),
        ({"type": "object", "required": True}, {"type": "object"}, {"required": "dropped"}),
        # Bounds.
        (
            {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9.5},
            {"type": "integer", "minimum": 1, "maximum": 9},
            {
                "exclusiveMinimum": "written as minimum",
                "exclusiveMaximum": "written as maximum",
            },
        ),
        (
            {"type": "integer", "exclusiveMaximum": 9, "maximum": 5},
            {"type": "integer", "maximum": 5},
            {"exclusiveMaximum": "written as maximum"},
        ),
        (
            {"type": "number", "exclusiveMinimum": 0, "minimum": -1},
            {"type": "number", "minimum": 0},
            {"exclusiveMinimum": "written as minimum"},
        ),
        (
            {"type": "integer", "exclusiveMinimum": 1e300, "exclusiveMaximum": 1e301},
            {"type": "integer", "minimum": 1e300, "maximum": 1e301},
            {
                "exclusiveMinimum": "written as minimum",
                "exclusiveMaximum": "written as maximum",
            },
        ),
        # The form of draft 4.
        (
            {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
            {"type": "integer", "minimum": 0},
            {"exclusiveMinimum": "dropped"},
        ),
        ({"type": "number", "minimum": float("inf")}, {"type": "number"}, {"minimum": "dropped"}),
        ({"type": "number", "minimum": 10**400}, {"type": "number"}, {"minimum": "dropped"}),
        ({"type": "number", "minimum": 2**63}, {"type": "number"}, {"minimum": "dropped"}),
        (
            {"type": "array", "items": {}, "minItems": -1, "maxItems": True},
            {"type": "array", "items": {}},
            {"minItems": "dropped", "maxItems": "dropped"},
        ),
        (
            {"type": "array", "items": {}, "minItems": 0, "maxItems": 0},
            {"type": "array", "items": {}, "minItems": 0, "maxItems": 0},
            {},
        ),
        # Enumerations.
        (
            {"const": "a"},
            {"type": "string", "enum": ["a"]},
            {"const": "written as enum", "type": "added"},
        ),
        (
            {"type": "string", "const": "a"},
            {"type": "string", "enum": ["a"]},
            {"const": "written as enum"},
        ),
        ({"const": {"a": 1}}, {}, {"const": "dropped"}),
        (
            {"enum": ["a", None, 1]},
            {
                "anyOf": [
                    {"type": "string", "enum": ["a"]},
                    {"type": "null"},
                    {"type": "integer", "enum": [1]},
                ]
            },
            {"type": "written as anyOf"},
        ),
        (
            {"type": ["string", "null"], "enum": ["a", None]},
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
            {"type": "written as anyOf"},
        ),
        (
            {"type": ["string", "null"], "enum": ["a"]},
            {"type": "string", "enum": ["a"]},
            {"type": "written as anyOf"},
        ),
        (
            {"type": "string", "enum": ["a"], "nullable": True},
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
            {"nullable": "written as anyOf", "type": "written as anyOf"},
        ),
        (
            {"type": "string", "enum": ["a", 1]},
            {"type": "string", "enum": ["a"]},
            {"enum": "dropped"},
        ),
        (
            {"type": "string", "enum": ["a", "a"]},
            {"type": "string", "enum": ["a"]},
            {"enum": "merged"},
        ),
        ({"type": "string", "enum": [1]}, {"type": "string"}, {"enum": "dropped"}),
        ({"type": "number", "enum": [1, 1.5]}, {"type": "number", "enum": [1, 1.5]}, {}),
        ({"type": "boolean", "enum": [True]}, {"type": "boolean"}, {"enum": "dropped"}),
        ({"type": "null", "enum": [None]}, {"type": "null"}, {"enum": "dropped"}),
        ({"type": "string", "enum": []}, {"type": "string"}, {"enum": "dropped"}),
        ({"type": "string", "enum": "ab"}, {"type": "string"}, {"enum": "dropped"}),
        ({"enum": [["a"]]}, {}, {"enum": "dropped"}),
        # Formats and all the rest.
        ({"type": "string", "format": "uri"}, {"type": "string"}, {"format": "dropped"}),
        ({"type": "integer", "format": "int32"}, {"type": "integer"}, {"format": "dropped"}),
        (
            {
                "type": "object",
                "$schema": "http://json-schema.org/draft-07/schema#",
                "additionalProperties": False,
                "patternProperties": {},
                "minProperties": 1,
                "x-order": 3,
            },
            {"type": "object"},
            {
                "$schema": "dropped",
                "additionalProperties": "dropped",
                "patternProperties": "dropped",
                "minProperties": "dropped",
                "keyword": "dropped",
            },
        ),
        (
            {"type": "string", "title": 1, "description": None, "pattern": "^a", "default": "a"},
            {"type": "string"},
            {
                "title": "dropped",
                "description": "dropped",
                "pattern": "dropped",
                "default": "dropped",
            },
        ),
        # Schemas that are no object.
        (True, {}, {"true": "written as {}"}),
        (None, {}, {"keyword": "written as {}"}),
        ([], {}, {"keyword": "written as {}"}),
    ],
)
def test_keyword_is_written_in_those_that_are_kept(
    schema: Any, simple: Schema, losses: dict[str, str]
) -> None:
    found, lost = of_property(schema)
    assert found == simple
    assert lost == losses


@pytest.mark.parametrize(
    ("schema", "simple"),
    [
        ({"prefixItems": [{"type": "string"}, {"type": "null"}]}, {"items": {}}),
        (
            {"prefixItems": [{"type": "string"}, {"type": "null"}], "items": False},
            {"maxItems": 2, "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        ),
        (
            {"prefixItems": [{"type": "string"}], "items": {"type": "null"}, "maxItems": 9},
            {"maxItems": 9, "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        ),
        ({"items": [{"type": "string"}]}, {"items": {}}),
        (
            {"items": [{"type": "string"}], "additionalItems": False},
            {"items": {"type": "string"}, "maxItems": 1},
        ),
        ({"items": {"type": "string"}, "additionalItems": False}, {"items": {"type": "string"}}),
        ({"items": False}, {"items": {}, "maxItems": 0}),
        ({"items": False, "maxItems": 5}, {"items": {}, "maxItems": 0}),
        ({"prefixItems": "x"}, {"items": {}}),
        ({"prefixItems": []}, {"items": {}}),
    ],
)
def test_items_of_a_tuple_are_one_union(schema: Schema, simple: Schema) -> None:
    found, lost = of_property({"type": "array", **schema})
    assert found == {"type": "array", **simple}
    assert lost


def test_items_that_may_not_be_are_a_bound_of_their_number() -> None:
    _, lost = of_property({"type": "array", "prefixItems": [{"type": "string"}], "items": False})
    assert lost["items"] == "written as maxItems"


def test_exclusive_union_is_written_as_a_union() -> None:
    _, lost = of_property({"oneOf": [{"type": "string"}, {"type": "null"}]})
    assert lost["oneOf"] == "written as anyOf"


def test_keyword_of_the_wrong_type_is_dropped() -> None:
    for keyword in ("properties", "allOf"):
        found, lost = of_property({"type": "object", keyword: 1})
        assert (found, lost) == ({"type": "object"}, {keyword: "dropped"})


def test_each_change_is_counted() -> None:
    losses = Losses()
    schema = {
        "properties": {name: {"type": ["string", "null"]} for name in "abc"},
        "type": "object",
    }
    simplify_schema(schema, losses, path="tools[0]")
    assert [(loss.feature, loss.count) for loss in losses.list()] == [("schema.type", 3)]


def test_strict_losses_raise_at_the_first_change() -> None:
    with pytest.raises(LossyEncoding, match=r"schema\.\$schema in tools would be lost"):
        simplify_schema({"$schema": "x"}, Losses(strict=True), path="tools[0]")


def test_keyword_of_the_author_is_not_named() -> None:
    losses = Losses()
    simplify_schema({"type": "object", "secret": 1, "other": 2}, losses, path="tools[0]")
    assert [(loss.feature, loss.count) for loss in losses.list()] == [("schema.keyword", 2)]


def test_nesting_is_bounded() -> None:
    deep: Schema = {"type": "string"}
    for _ in range(200):
        deep = {"type": "array", "items": deep}
    with pytest.raises(EncodeError, match=r"^tools\[0\]: a schema nested deeper than 100"):
        simplified({"type": "object", "properties": {"p": deep}})


def test_number_of_subschemas_is_bounded() -> None:
    wide = {"type": "object", "properties": {f"p{n}": {} for n in range(5000)}}
    with pytest.raises(EncodeError, match="more than 5000 subschemas, expected at most that"):
        simplified(wide)
    wide["properties"].popitem()
    assert simplified(wide)[0] is wide
