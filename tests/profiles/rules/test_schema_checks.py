"""The kinds of checks of schemas, beyond what the shipped rules use of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from support.bodies.schema_strategies import junk
from support.draws import Draws, draws

from streamnorm._core.codec import Finding, RequestFacts
from streamnorm._core.errors import ProfileError
from streamnorm._core.schemas.simplify import MISSING, resolve_pointer
from streamnorm.profiles.rules import read_request_rules, shipped_rules
from streamnorm.profiles.rules.schema_checks import (
    SchemaNode,
    nodes_of,
    recursive_reference,
)

RULE = """
[[rule]]
id = "own.rule"
dialect = "openai_chat"
summary = "a rule"
says = "No."
check = { kind = "%s", %s }
"""
TEXT = {"type": "string"}


def found(kind: str, parameters: str, schema: Any) -> list[Finding]:
    """Return what a check finds in the schema of a tool."""
    [rule] = read_request_rules(RULE % (kind, f'at = ["tools.schema"], {parameters}'), "own.toml")
    return [*rule.check(RequestFacts({"tools": [{"name": "f", "schema": schema}]}))]


def paths(kind: str, parameters: str, schema: Any) -> list[str]:
    """Return where a check finds something in a schema."""
    return [each.path.removeprefix("tools[0].schema") for each in found(kind, parameters, schema)]


def test_subschemas_come_in_the_order_of_the_text() -> None:
    schema = {
        "properties": {"a": {"items": [TEXT, 1]}, "b": True},
        "$defs": {"A": {"properties": {"c": TEXT}}},
        "not": {"anyOf": [TEXT, {"additionalProperties": TEXT}]},
        "default": {"properties": {"d": TEXT}},
        "enum": [{"items": TEXT}],
    }
    assert [(node.steps, node.objects) for node in nodes_of(schema)] == [
        ((), 0),
        (("properties", "a"), 1),
        (("properties", "a", "items", 0), 1),
        (("$defs", "A"), 0),
        (("$defs", "A", "properties", "c"), 1),
        (("not",), 1),
        (("not", "anyOf", 0), 1),
        (("not", "anyOf", 1), 1),
        (("not", "anyOf", 1, "additionalProperties"), 1),
    ]


def test_schema_that_nests_without_end_is_walked() -> None:
    schema: dict[str, Any] = {}
    for _ in range(5_000):
        schema = {"items": schema}
    walked = sum(1 for _ in nodes_of(schema["items"]))
    assert walked == 5_000


@pytest.mark.parametrize(
    ("schema", "types", "properties"),
    [
        ({"type": "STRING"}, ("string",), {}),
        ({"type": ["null", 1, "array"], "properties": []}, ("null", "array"), {}),
        ({"properties": {"a": 1}}, (), {"a": 1}),
    ],
)
def test_node_has_types_and_properties(schema: Any, types: Any, properties: Any) -> None:
    assert (SchemaNode(schema).types, SchemaNode(schema).properties) == (types, properties)


@pytest.mark.parametrize(
    ("reference", "is_there"),
    [
        ("#", True),
        ("#/$defs/a~1b", True),
        ("#/$defs/a~1b/items/1", True),
        ("#/$defs/a~1b/items/2", False),
        ("#/$defs/a~1b/items/x", False),
        ("#/$defs/c", False),
        ("#/$defs/a~1b/type/x", False),
    ],
)
def test_target_of_a_reference_is_found(reference: str, is_there: bool) -> None:
    schema = {"$defs": {"a/b": {"type": "array", "items": [{}, {}]}}}
    assert (resolve_pointer(schema, reference) is not MISSING) is is_there


@pytest.mark.parametrize(
    ("schema", "steps"),
    [
        ({"properties": {"a": {"$ref": "#"}}}, ("properties", "a")),
        (
            {"properties": {"a": {"items": {"$ref": "#/properties/a"}}}},
            ("properties", "a", "items"),
        ),
        (
            {
                "$defs": {
                    "A": {"items": {"$ref": "#/$defs/B"}},
                    "B": {"not": {"$ref": "#/$defs/A"}},
                },
                "$ref": "#/$defs/A",
            },
            (),
        ),
        (
            {
                "$defs": {
                    "A": {"items": {"$ref": "#/$defs/B"}, "not": {"$ref": "#/$defs/C"}},
                    "B": TEXT,
                    "C": {"items": {"$ref": "#/$defs/D"}},
                    "D": {"items": {"$ref": "#/$defs/C"}},
                },
            },
            ("$defs", "A", "not"),
        ),
        ({"$defs": {"A": {"items": {"$ref": "#/$defs/B"}}, "B": TEXT}, "$ref": "#/$defs/A"}, None),
        ({"properties": {"a": TEXT, "b": {"$ref": "#/properties/a"}, "c": {"$ref": 1}}}, None),
        ({"$ref": "#/$defs/A", "allOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": TEXT}}, None),
        ({"$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/C"}, "C": {}}}, None),
        (
            {
                "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/C"}, "C": {}},
                "$ref": "#/$defs/A",
            },
            None,
        ),
    ],
)
def test_recursive_reference_is_found(schema: Any, steps: Any) -> None:
    leading = recursive_reference(schema)
    assert (None if leading is None else leading[0].steps) == steps


def test_root_has_types_and_keywords() -> None:
    parameters = 'types = ["object"], required = ["properties"], forbidden = ["not", "enum"]'
    assert paths("schema_root", parameters, {"properties": {}, "type": "object"}) == []
    assert found("schema_root", parameters, {"type": ["object"], "not": {}, "enum": []}) == [
        Finding("tools[0].schema.type", ["object"], "f", context="tools[0].schema"),
        Finding("tools[0].schema.properties", "properties", "f", context="tools[0].schema"),
        Finding("tools[0].schema.not", "not", "f", context="tools[0].schema"),
    ]


def test_keywords_are_those_of_a_type() -> None:
    schema = {"properties": {"a": {"type": "array", "x": 1}, "b": {"type": "string", "x": 1}}}
    parameters = 'of_type = ["array"], allowed = ["type", "items"]'
    assert paths("schema_keywords", parameters, schema) == [".properties.a.x"]


@pytest.mark.parametrize(
    ("value", "is_legal"),
    [("ab", True), (["a"], True), ("a(?=b)", False), ([], False), (None, False), (1.5, False)],
)
def test_keyword_has_a_value_of_some_kind(value: Any, is_legal: bool) -> None:
    parameters = 'keyword = "x", kinds = ["string", "array"], least = 1, never = ["(?="]'
    assert paths("schema_keyword", parameters, {"x": value}) == ([] if is_legal else [".x"])


def test_keyword_of_no_kind_has_one_of_some_values() -> None:
    parameters = 'keyword = "x", values = [0, 1]'
    schema = {"allOf": [{"x": 0}, {"x": 2}, {"x": True}, {"x": "0"}, {}]}
    assert paths("schema_keyword", parameters, schema) == [
        ".allOf[1].x",
        ".allOf[2].x",
        ".allOf[3].x",
    ]


def test_required_names_of_another_type_are_none() -> None:
    assert paths("schema_required", "when = []", {"properties": {"a": {}}, "required": "a"}) == [
        ".required"
    ]


@pytest.mark.parametrize(
    ("reference", "is_legal"),
    [("#", False), ("#/$defs/A", True), ("#/$defs/B", True), ("#/definitions/A", False), (1, True)],
)
def test_references_begin_with_a_prefix(reference: object, is_legal: bool) -> None:
    parameters = 'prefixes = ["#/$defs/"], resolves = false, root = false'
    schema = {"$ref": reference, "$defs": {"A": {}}}
    assert paths("schema_references", parameters, schema) == ([] if is_legal else [".$ref"])


def test_schemas_of_arrays_and_objects_are_checked_and_nothing_else() -> None:
    [rule] = read_request_rules(
        RULE % ("schema_root", 'at = ["tools.schema"], types = ["object"]'), "own.toml"
    )
    for tools in ({"schema": {}}, [1, {"schema": []}, {"name": 1, "schema": {}}]):
        [finding] = rule.check(RequestFacts({"tools": tools}))
        assert finding.name == ""
    assert [*rule.check(RequestFacts({"tools": None}))] == []


@pytest.mark.parametrize("kind", ["schema_root", "schema_totals"])
def test_conditions_hold_for_schemas_too(kind: str) -> None:
    parameters = 'at = ["t.s"], at_strict = ["t.s"], when = [{ at = "model" }]'
    bound = 'types = ["x"]' if kind == "schema_root" else "most_strict = 0"
    [rule] = read_request_rules(RULE % (kind, f"{parameters}, {bound}"), "own.toml")
    body = {"t": {"s": {}, "strict": True}}
    assert [*rule.check(RequestFacts(body))] == []
    assert [*rule.check(RequestFacts({**body, "model": "m"}))] != []


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ('at = ["schema"]', "'schema', expected the path of a field of an object"),
        ('at_strict = ["schema"]', "'schema', expected the path of a field of an object"),
        ('at = ["a.b"], names = { a = "{path}" }', "names: 'path' in '{path}', expected {holder}"),
        ('at = ["a.b"], names = { a = "{" }', "names: "),
        ('at_strict = ["a.[b"]', "'a.[b': "),
    ],
)
def test_broken_data_is_refused(parameters: str, reason: str) -> None:
    with pytest.raises(ProfileError) as info:
        read_request_rules(RULE % ("schema_typed", parameters), "own.toml")
    assert reason in str(info.value)


@given(d=draws(200))
def test_checks_of_schemas_are_total(d: Draws) -> None:
    schema = junk(d)
    tools = [
        {"type": "function", "name": "f", "strict": True, "parameters": schema},
        {"function": {"parameters": schema, "strict": True}},
        {"input_schema": schema, "strict": True},
        {"functionDeclarations": [{"parameters": schema, "parametersJsonSchema": schema}]},
    ]
    facts = RequestFacts({"tools": tools, "output_config": {"format": {"schema": schema}}})
    for rule in shipped_rules():
        if "schema" in rule.id or "strict" in rule.id or rule.id.startswith("gemini."):
            for finding in rule.check(facts):
                assert finding.path
