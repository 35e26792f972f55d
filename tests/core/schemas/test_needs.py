"""What servers want of a schema beyond JSON Schema."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm import EncodeError
from streamnorm._core.losses import Losses
from streamnorm._core.schemas.strict import SchemaNeed, fit_needs

TEXT = {"type": "string"}


def fitted(schema: dict[str, Any], *needs: SchemaNeed) -> tuple[dict[str, Any], list[str]]:
    losses = Losses()
    made = fit_needs(
        schema, frozenset(needs), frozenset({"anyOf"}), losses, where="tools", path="tools[0]"
    )
    return made, [f"{loss.feature} {loss.detail}" for loss in losses.list()]


def test_schema_that_needs_nothing_stays_the_same() -> None:
    schema = {"anyOf": [{"type": "array"}], "properties": []}
    assert fitted(schema) == (schema, [])
    assert fitted(schema)[0] is schema


def test_object_at_the_root_is_one_need() -> None:
    assert fitted({"anyOf": [{"properties": {"a": TEXT}}]}, "object") == (
        {"type": "object", "properties": {"a": TEXT}},
        ["schema.anyOf merged"],
    )


def test_arrays_get_items() -> None:
    schema = {
        "properties": {
            "a": {"type": ["null", "array"]},
            "b": {"type": "array", "prefixItems": [TEXT]},
            "c": {"anyOf": [TEXT, {"type": "array", "items": {"type": "array"}}]},
        },
        "additionalProperties": {"type": "array"},
        "required": ["a"],
    }
    made = {
        "properties": {
            "a": {"type": ["null", "array"], "items": {}},
            "b": {"type": "array", "prefixItems": [TEXT], "items": {}},
            "c": {"anyOf": [TEXT, {"type": "array", "items": {"type": "array", "items": {}}}]},
        },
        "additionalProperties": {"type": "array", "items": {}},
        "required": ["a"],
    }
    assert fitted(schema, "items") == (made, [])
    assert fitted(made, "items")[0] is made


def test_root_gets_properties_and_odd_ones_become_an_object() -> None:
    assert fitted({"type": "object"}, "properties") == ({"type": "object", "properties": {}}, [])
    assert fitted({"properties": {"a": {"properties": []}}}, "property_maps") == (
        {"properties": {"a": {"properties": {}}}},
        ["schema.properties dropped"],
    )


def test_items_are_a_schema() -> None:
    schema = {
        "properties": {
            "a": {"items": [TEXT, True, {"type": "null"}]},
            "b": {"items": False},
            "c": {"items": TEXT},
        }
    }
    made = {
        "properties": {
            "a": {"items": {"anyOf": [TEXT, {"type": "null"}]}},
            "b": {"items": {}},
            "c": {"items": TEXT},
        }
    }
    assert fitted(schema, "item_schemas") == (made, ["schema.items merged"])


def test_types_stand_in_the_branches_of_unions() -> None:
    schema = {
        "properties": {
            "a": {"type": "string", "anyOf": [{"minLength": 2}, {"type": "null"}, True]},
            "b": {"type": "string", "anyOf": [{"$ref": "#"}], "title": "B"},
            "c": {"type": "string", "anyOf": 7},
            "d": {"anyOf": [TEXT]},
        }
    }
    made = {
        "properties": {
            "a": {"anyOf": [{"type": "string", "minLength": 2}, {"type": "null"}, True]},
            "b": {"anyOf": [{"$ref": "#"}], "title": "B"},
            "c": {"anyOf": []},
            "d": {"anyOf": [TEXT]},
        }
    }
    assert fitted(schema, "branch_types") == (made, ["schema.type written in the branches"])


@pytest.mark.parametrize(
    ("spelt", "made"),
    [
        ({"items": [TEXT, {}]}, {"prefixItems": [TEXT, {}]}),
        (
            {"items": [TEXT], "additionalItems": False},
            {"prefixItems": [TEXT], "items": False},
        ),
        (
            {"items": [{"items": [TEXT]}], "additionalItems": {"items": [{}]}},
            {"prefixItems": [{"prefixItems": [TEXT]}], "items": {"prefixItems": [{}]}},
        ),
        ({"items": [], "additionalItems": TEXT}, {"items": TEXT}),
        ({"items": [], "additionalItems": 1}, {}),
        ({"items": [{}], "prefixItems": [TEXT]}, {"prefixItems": [TEXT]}),
        ({"minimum": 0, "exclusiveMinimum": True}, {"exclusiveMinimum": 0}),
        ({"maximum": 9, "exclusiveMaximum": True}, {"exclusiveMaximum": 9}),
        ({"minimum": 0, "exclusiveMinimum": False}, {"minimum": 0}),
        ({"exclusiveMaximum": True}, {}),
        (
            {"minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": True},
            {"exclusiveMinimum": 0, "exclusiveMaximum": 9},
        ),
    ],
)
def test_earlier_drafts_are_spelt_as_the_latest(spelt: Any, made: Any) -> None:
    """It says the same, so that nothing is lost."""
    assert fitted({"properties": {"p": spelt}}, "draft_2020") == ({"properties": {"p": made}}, [])


@pytest.mark.parametrize(
    ("spelt", "made"),
    [
        ({"items": "TEXT", "minItems": 1}, {"minItems": 1}),
        ({"items": None}, {}),
        ({"exclusiveMinimum": None, "exclusiveMaximum": "9"}, {}),
        ({"minimum": "0", "exclusiveMinimum": True}, {}),
    ],
)
def test_what_no_draft_allows_is_dropped(spelt: Any, made: Any) -> None:
    schema, lost = fitted({"properties": {"p": spelt}}, "draft_2020")
    assert schema == {"properties": {"p": made}}
    assert lost == ["schema.keyword dropped"]


@pytest.mark.parametrize(
    "schema",
    [
        {"items": TEXT, "additionalItems": False, "minimum": 0},
        {"items": False, "prefixItems": [TEXT]},
        {"minimum": 0, "exclusiveMinimum": 1, "exclusiveMaximum": 1.5},
    ],
)
def test_schema_of_the_latest_draft_stays_the_same(schema: dict[str, Any]) -> None:
    assert fitted(schema, "draft_2020")[0] is schema


def test_order_of_properties_is_that_of_the_object() -> None:
    schema = {
        "properties": {"a": TEXT, "b": {"propertyOrdering": ["x"], "properties": 7}, "c": TEXT},
        "propertyOrdering": ["c", 1, "x", "b", "c"],
    }
    made, lost = fitted(schema, "ordered_properties")
    assert made == {"properties": {"c": TEXT, "b": {"properties": 7}, "a": TEXT}}
    assert [*made["properties"]] == ["c", "b", "a"]
    assert lost == ["schema.propertyOrdering written as the order of the properties"]


def test_references_lead_to_definitions() -> None:
    schema = {"properties": {"a": {"$ref": "#/properties/b", "title": "A"}, "b": TEXT}}
    made = {
        "properties": {"a": {"title": "A", "anyOf": [{"$ref": "#/$defs/b"}]}, "b": TEXT},
        "$defs": {"b": TEXT},
    }
    assert fitted(schema, "definitions") == (made, [])


def test_reference_to_an_anchor_is_inlined() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#text"}},
        "$defs": {"A": {"$anchor": "text", **TEXT}},
    }
    assert fitted(schema, "definitions") == (
        {"type": "object", "properties": {"a": TEXT}},
        ["schema.$defs dropped", "schema.$ref inlined", "schema.$anchor dropped"],
    )


def test_reference_that_leads_nowhere_is_an_error() -> None:
    with pytest.raises(EncodeError, match=r"a \$ref that leads nowhere") as info:
        fitted({"properties": {"a": {"$ref": "#/$defs/A"}}}, "definitions")
    assert info.value.path == "tools[0]"


def test_schema_that_nests_too_deep_is_an_error() -> None:
    schema: dict[str, Any] = {"type": "array"}
    for _ in range(101):
        schema = {"not": schema}
    with pytest.raises(EncodeError, match="nested deeper than 100, expected at most that") as info:
        fitted(schema, "items")
    assert info.value.path == "tools[0]"
    assert fitted(schema["not"], "items")[1] == []
