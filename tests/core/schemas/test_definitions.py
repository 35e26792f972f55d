"""References of a schema that lead to its `$defs`, with only notes beside them."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm import EncodeError
from streamnorm._core.schemas.simplify import MISSING, define_targets, pointer_to, resolve_pointer

NOTES = frozenset({"$defs", "default", "description"})
TEXT = {"type": "string"}


def defined(schema: dict[str, Any], beside: frozenset[str] | None = NOTES) -> dict[str, Any] | None:
    return define_targets(schema, "tools[0]", beside=beside)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"properties": {"a": {"$ref": "#/$defs/A", "description": "d"}}, "$defs": {"A": TEXT}},
        {"properties": {"a": {"$ref": "#"}}, "definitions": {"A": TEXT}},
        {"$ref": "#/$defs/A~1B", "$defs": {"A/B": True}},
    ],
)
def test_schema_with_such_references_stays_the_same(schema: dict[str, Any]) -> None:
    assert defined(schema) is schema


def test_definitions_of_earlier_drafts_become_those_of_the_latest() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/definitions/A"}},
        "definitions": {"A": {"items": {"$ref": "#/definitions/B"}}, "B": TEXT, "C": TEXT},
    }
    assert defined(schema) == {
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"items": {"$ref": "#/$defs/B"}}, "B": TEXT},
    }


def test_other_targets_become_definitions_with_names_of_their_own() -> None:
    schema = {
        "properties": {
            "from": {"type": "object", "properties": {"x/y": TEXT}},
            "to": {"$ref": "#/properties/from"},
            "also": {"$ref": "#/properties/from"},
            "x": {"$ref": "#/properties/from/properties/x~1y"},
        },
        "$defs": {"from": TEXT, "from_2": TEXT},
    }
    made = defined(schema)
    assert made is not None
    assert made["$defs"] == {
        "from": TEXT,
        "from_2": TEXT,
        "from_3": {"type": "object", "properties": {"x/y": TEXT}},
        "from_properties_x~1y": TEXT,
    }
    assert made["properties"] == {
        "from": {"type": "object", "properties": {"x/y": TEXT}},
        "to": {"$ref": "#/$defs/from_3"},
        "also": {"$ref": "#/$defs/from_3"},
        "x": {"$ref": "#/$defs/from_properties_x~01y"},
    }


def test_keywords_beside_a_reference_stand_beside_a_union_of_it() -> None:
    schema = {"$ref": "#/$defs/A", "type": "string", "description": "d", "$defs": {"A": TEXT}}
    assert defined(schema) == {
        "type": "string",
        "description": "d",
        "$defs": {"A": TEXT},
        "anyOf": [{"$ref": "#/$defs/A"}],
    }
    assert defined(schema, None) is schema
    bare = {"properties": {"a": {"$ref": "#", "default": 1}}}
    assert defined(bare, frozenset()) == {
        "properties": {"a": {"default": 1, "anyOf": [{"$ref": "#"}]}}
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"allOf": [{"$ref": "#"}]}),
        ({"allOf": [{}]}, {"allOf": [{}, {"$ref": "#"}]}),
        ({"allOf": 7}, {"allOf": [{"$ref": "#"}]}),
    ],
)
def test_reference_beside_a_union_is_part_of_an_intersection(before: Any, after: Any) -> None:
    schema = {"not": {"anyOf": [TEXT], "$ref": "#", **before}}
    assert defined(schema) == {"not": {"anyOf": [TEXT], **after}}


@pytest.mark.parametrize("reference", ["#/$defs/B", "#anchor", "other.json#/a", 7, "#/$defs/N"])
def test_other_references_are_not_resolved(reference: object) -> None:
    schema = {"items": {"$ref": reference}, "$defs": {"A": {"$anchor": "anchor"}, "N": 1}}
    assert defined(schema) is None


def test_targets_within_each_other_have_a_bound() -> None:
    schema: dict[str, Any] = {}
    for _ in range(90):
        schema = {"items": schema, "allOf": [{}] * 2}
    properties = {f"p{n}": {"$ref": "#/not" + "/items" * n} for n in range(60)}
    with pytest.raises(EncodeError, match="more than 5000 subschemas of references") as info:
        defined({"not": schema, "properties": properties})
    assert info.value.path == "tools[0]"


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("#", {"a": [1, {"b/c": 2}]}),
        ("#/a/0", 1),
        ("#/a/1/b~1c", 2),
        ("#/a/2", MISSING),
        ("#/a/²", MISSING),
        ("#/a/x", MISSING),
        ("#/a/000000001", {"b/c": 2}),
        # Longer than any index: no number of a thousand digits is converted.
        ("#/a/0000000001", MISSING),
        ("#/a/0/x", MISSING),
        ("#/b", MISSING),
        ("a", MISSING),
    ],
)
def test_pointer_leads_to_a_part(pointer: str, value: object) -> None:
    assert resolve_pointer({"a": [1, {"b/c": 2}]}, pointer) == value


def test_pointer_to_a_definition_escapes_its_name() -> None:
    assert pointer_to("a/b~c") == "#/$defs/a~1b~0c"
