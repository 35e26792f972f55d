"""Schemas within what a provider enforces."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm._core.schemas.strict import (
    EnforcedSchemas,
    NotEnforced,
    fit_enforced,
    free_properties,
)

TEXT = {"type": "string"}


def of(**properties: Any) -> dict[str, Any]:
    """Return the schema of a closed object whose properties are all required."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def fitted(schema: Any, **form: Any) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    return fit_enforced(schema, EnforcedSchemas(**form), "tools[0]")


def reason(schema: Any, **form: Any) -> str:
    """Return why a schema is not enforced."""
    with pytest.raises(NotEnforced) as info:
        fitted(schema, **form)
    return str(info.value)


def test_schema_within_the_form_stays_the_same() -> None:
    schema = of(a=TEXT, b={"type": ["null", "object"], "additionalProperties": False})
    made, lost = fitted(schema, refused=frozenset({"not"}), all_required=True, typed=True)
    assert made is schema
    assert lost == []


def test_keywords_are_removed() -> None:
    names = frozenset({"minimum", "not"})
    schema = of(a={"type": "integer", "minimum": 1, "maximum": 2, "not": {"minimum": 3}})
    assert fitted(schema, refused=names, removed=names) == (
        of(a={"type": "integer", "maximum": 2}),
        [("minimum", "dropped"), ("minimum", "dropped"), ("not", "dropped")],
    )


def test_refused_keyword_that_is_not_removed_is_the_reason() -> None:
    assert reason(of(a={"minLength": 1}), refused=frozenset({"minLength"})) == "`minLength`"


def test_one_of_is_written_as_any_of() -> None:
    names = frozenset({"oneOf"})
    schema = of(a={"oneOf": [TEXT, {"type": "null"}]})
    assert fitted(schema, refused=names, removed=names) == (
        of(a={"anyOf": [TEXT, {"type": "null"}]}),
        [("oneOf", "written as anyOf")],
    )
    both = of(a={"oneOf": [TEXT], "anyOf": [{"minLength": 1}]})
    assert fitted(both, refused=names, removed=names) == (
        of(a={"anyOf": [{"minLength": 1}]}),
        [("oneOf", "dropped")],
    )


@pytest.mark.parametrize(("value", "is_known"), [("date", True), ("uri", False), (["date"], False)])
def test_formats_are_those_that_are_known(value: object, is_known: bool) -> None:
    schema = of(a={"type": "string", "format": value})
    made, lost = fitted(schema, formats=frozenset({"date"}))
    assert made == (schema if is_known else of(a=TEXT))
    assert lost == ([] if is_known else [("format", "dropped")])


@pytest.mark.parametrize(
    ("value", "is_known"), [(0, True), (1, True), (1.0, True), (2, False), (True, False)]
)
def test_least_number_of_items_has_a_bound(value: object, is_known: bool) -> None:
    schema = of(a={"type": "array", "items": TEXT, "minItems": value})
    made, lost = fitted(schema, most_min_items=1)
    assert ("minItems" in made["properties"]["a"]) is is_known
    assert lost == ([] if is_known else [("minItems", "dropped")])
    assert fitted(schema)[0] is schema


@pytest.mark.parametrize(
    "others", [{}, {"additionalProperties": True}, {"additionalProperties": {}}]
)
def test_objects_are_closed(others: dict[str, Any]) -> None:
    inner = {"type": "object", "properties": {"b": TEXT}, "required": ["b"], **others}
    assert fitted(of(a=inner)) == (
        of(a={**inner, "additionalProperties": False}),
        [("additionalProperties", "written as false")],
    )
    schema = of(a=inner)
    assert fitted(schema, closed=False)[0] is schema


@pytest.mark.parametrize(
    "inner",
    [
        {"type": "object"},
        {"type": ["object", "null"], "additionalProperties": True},
        {"type": "object", "additionalProperties": TEXT},
        {"type": "object", "properties": {"b": TEXT}, "additionalProperties": TEXT},
    ],
)
def test_maps_are_not_enforced(inner: dict[str, Any]) -> None:
    assert reason(of(a=inner)) == "an object with properties of any name"


OPEN_A = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}
OPEN_B = {"type": "object", "properties": {"b": TEXT}}


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [OPEN_A, OPEN_B]},
        {**OPEN_A, "allOf": [OPEN_B]},
        {**OPEN_A, "anyOf": [OPEN_B, {"type": "null"}]},
        {**OPEN_A, "oneOf": [{"$ref": "#/$defs/B"}], "$defs": {"B": OPEN_B}},
        {"allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}], "$defs": {"A": OPEN_A, "B": {}}},
        {"allOf": [of(a=TEXT), OPEN_B]},
        {**OPEN_A, "allOf": [{"anyOf": [OPEN_B]}]},
        of(inner={"allOf": [OPEN_A, OPEN_B]}),
    ],
    ids=repr,
)
def test_parts_of_one_object_are_not_closed_against_each_other(schema: dict[str, Any]) -> None:
    """No value would be valid: each part refuses the properties of the others."""
    assert reason(schema) == "an object of several parts"
    assert fitted(schema, closed=False) == (schema, [])


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [OPEN_A]},
        {"allOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": OPEN_A}},
        {"anyOf": [OPEN_A, OPEN_B]},
        {**OPEN_A, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {**OPEN_A, "allOf": [{"required": ["a"]}, {"allOf": []}, 5]},
        {"allOf": [of(a=TEXT), of(b=TEXT)]},
        of(allOf=OPEN_A, anyOf=OPEN_B),
    ],
    ids=repr,
)
def test_object_of_one_part_is_closed(schema: dict[str, Any]) -> None:
    made, _ = fitted(schema)
    assert str(made).count("'additionalProperties': False") == str(made).count("'properties'")


def test_property_that_is_not_required_is_a_reason() -> None:
    schema = {**of(a=TEXT, b=TEXT), "required": ["a", 1]}
    assert reason(schema, all_required=True) == "a property that is not required"
    assert reason({**schema, "required": "a"}, all_required=True) == (
        "a property that is not required"
    )
    assert fitted(schema)[0] is schema


@pytest.mark.parametrize(
    "schema",
    [
        of(a={"description": "any"}),
        # `true` is the JSON Schema of any value, as `{}` is.
        of(a=True),
        of(a={"type": "array", "items": True}),
        of(a={"anyOf": [TEXT, True]}),
        {**of(a={"$ref": "#/$defs/any"}), "$defs": {"any": True}},
    ],
    ids=repr,
)
def test_part_without_a_type_is_a_reason(schema: dict[str, Any]) -> None:
    assert reason(schema, typed=True) == "a part without a type"
    assert fitted(schema)[0] is schema


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"const": "a"}, "string"),
        ({"const": None}, "null"),
        ({"enum": ["a", "b"]}, "string"),
        ({"enum": [True, False]}, "boolean"),
        ({"enum": [1, 2]}, "integer"),
        ({"enum": [1, 2.5]}, "number"),
        ({"enum": [2.5, 1]}, "number"),
        ({"enum": ["a", None, 1]}, ["string", "null", "integer"]),
    ],
)
def test_enumerated_scalars_get_their_type(values: dict[str, Any], kind: Any) -> None:
    schema = of(a={"description": "d", **values})
    assert fitted(schema, typed=True) == (of(a={"description": "d", **values, "type": kind}), [])
    assert fitted(schema)[0] is schema


@pytest.mark.parametrize(
    "values", [{"const": {}}, {"enum": []}, {"enum": "a"}, {"enum": ["a", ["b"]]}]
)
def test_type_that_no_values_give_is_a_reason(values: dict[str, Any]) -> None:
    assert reason(of(a=values), typed=True) == "a part without a type"


@pytest.mark.parametrize("pattern", ["(?=a)", "(?!a)", "(?<=a)", "(?<!a)"])
def test_pattern_that_looks_around_is_a_reason(pattern: str) -> None:
    schema = of(a={"type": "string", "pattern": pattern})
    assert reason(schema, lookaround=False) == "a pattern that looks around"
    assert fitted(schema)[0] is schema
    plain = of(a={"type": "string", "pattern": "(?:a)"})
    assert fitted(plain, lookaround=False)[0] is plain


def test_nothing_stands_beside_a_bare_reference() -> None:
    schema = {**of(a={"$ref": "#/$defs/A", "description": "d"}), "$defs": {"A": TEXT}}
    made = of(a={"description": "d", "anyOf": [{"$ref": "#/$defs/A"}]})
    assert fitted(schema, bare_references=True) == ({**made, "$defs": {"A": TEXT}}, [])
    assert fitted(schema)[0] is schema


def test_reference_out_of_the_schema_is_a_reason() -> None:
    assert reason(of(a={"$ref": "other.json"})) == "a reference out of the schema"


@pytest.mark.parametrize(
    ("schema", "is_recursive"),
    [
        (of(a={"anyOf": [{"$ref": "#"}, TEXT]}), True),
        ({**of(a={"$ref": "#/$defs/A"}), "$defs": {"A": of(a={"$ref": "#/$defs/A"})}}, True),
        ({**of(a=TEXT), "$defs": {"A": of(a={"$ref": "#"})}}, True),
        (
            {
                **of(a={"$ref": "#/$defs/A"}),
                "$defs": {
                    "A": of(b={"$ref": "#/$defs/B"}, c={"$ref": "#/$defs/C"}),
                    "B": of(c={"$ref": "#/$defs/C"}, t={"$ref": "#/$defs/T"}),
                    "C": TEXT,
                    "T": True,
                },
            },
            False,
        ),
        (
            {
                **of(a=TEXT),
                "$defs": {"A": of(b={"$ref": "#/$defs/B"}), "B": of(a={"$ref": "#/$defs/A"})},
            },
            True,
        ),
        ({**of(a=TEXT), "$defs": []}, False),
    ],
)
def test_recursive_reference_is_a_reason(schema: Any, is_recursive: bool) -> None:
    if is_recursive:
        assert reason(schema, recursive=False) == "a recursive reference"
    else:
        assert fitted(schema, recursive=False)[0] is schema
    assert fitted(schema)[0] is schema


@pytest.mark.parametrize(
    ("bounds", "is_too_large"),
    [
        ({"most_properties": 3, "most_levels": 2, "most_chars": 6, "most_values": 2}, False),
        ({"most_properties": 2}, True),
        ({"most_levels": 1}, True),
        ({"most_properties": 3, "most_chars": 5}, True),
        ({"most_properties": 3, "most_values": 1}, True),
    ],
)
def test_schema_has_a_size(bounds: dict[str, int], is_too_large: bool) -> None:
    schema = {
        **of(a=of(b={"type": "string", "enum": ["xyz", 1]})),
        "$defs": {"D": of(c={"type": "object", "additionalProperties": False})},
    }
    if is_too_large:
        assert reason(schema, **bounds) == "too many parts"
    else:
        assert fitted(schema, **bounds)[0] is schema


def test_levels_of_a_definition_are_counted_from_its_own() -> None:
    schema = {**of(a=TEXT), "$defs": {"D": of(b=of(c=TEXT))}}
    assert fitted(schema, most_levels=2)[0] is schema
    assert reason(schema, most_levels=1) == "too many parts"


def test_free_properties_and_unions_are_counted_outside_definitions() -> None:
    schema = {
        "properties": {
            "a": {"anyOf": [TEXT]},
            "b": {"type": ["string", "null"]},
            "c": {"items": {"properties": {"d": TEXT, "e": True}, "required": ["d"]}},
        },
        "required": ["b"],
        "$defs": {"A": {"properties": {"f": {"anyOf": []}}}},
    }
    assert free_properties(schema) == (3, 2)
