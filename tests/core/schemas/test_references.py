"""References in a tool's schema are inlined."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from streamnorm import EncodeError
from streamnorm._core.losses import Losses
from streamnorm._core.schemas.simplify import simplify_schema

Schema = dict[str, Any]


def simplified(schema: Schema) -> tuple[Schema, dict[str, str]]:
    losses = Losses()
    simple = simplify_schema(schema, losses, path="tools[3]")
    return simple, {loss.feature: loss.detail for loss in losses.list()}


def of_property(schema: Schema, definitions: Schema) -> Schema:
    whole = {"type": "object", "properties": {"p": schema}, "$defs": definitions}
    found: Schema = simplified(whole)[0]["properties"]["p"]
    return found


TEXT = {"type": "string", "description": "a text"}


def test_reference_is_inlined_and_the_definitions_are_dropped() -> None:
    simple, lost = simplified(
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/Text"}, "b": {"$ref": "#/$defs/Text"}},
            "$defs": {"Text": TEXT, "Unused": {}},
        }
    )
    assert simple == {"type": "object", "properties": {"a": TEXT, "b": TEXT}}
    assert lost == {"schema.$ref": "inlined", "schema.$defs": "dropped"}


@pytest.mark.parametrize(
    ("reference", "definitions"),
    [
        ("#/$defs/a~1b", {"a/b": TEXT}),
        ("#/$defs/a%20b", {"a b": TEXT}),
        ("#/$defs/list/prefixItems/1", {"list": {"prefixItems": [{}, TEXT]}}),
        ("#text", {"x": {"$anchor": "text", **TEXT}}),
        ("https://example.com/text", {"x": {"$id": "https://example.com/text", **TEXT}}),
        ("#/$defs/first", {"first": {"$ref": "#/$defs/second"}, "second": TEXT}),
    ],
)
def test_reference_leads_to_a_part_of_the_schema(reference: str, definitions: Schema) -> None:
    assert of_property({"$ref": reference}, definitions) == TEXT


def test_references_of_an_embedded_schema_are_relative_to_it() -> None:
    embedded = {
        "$id": "https://example.com/embedded",
        "type": "array",
        "items": {"$ref": "#/$defs/Text"},
        "$defs": {"Text": TEXT},
    }
    definitions = {"Text": {"type": "null"}, "x": embedded}
    found = of_property({"$ref": "https://example.com/embedded"}, definitions)
    assert found == {"type": "array", "items": TEXT}


def test_reference_of_the_older_drafts_is_inlined() -> None:
    simple, _ = simplified(
        {"properties": {"p": {"$ref": "#/definitions/Text"}}, "definitions": {"Text": TEXT}}
    )
    assert simple["properties"]["p"] == TEXT


def test_keywords_beside_a_reference_win() -> None:
    found = of_property({"$ref": "#/$defs/Text", "description": "mine"}, {"Text": TEXT})
    assert found == {"type": "string", "description": "mine"}


def test_reference_to_what_can_never_be_valid() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/no"}, "b": {"$ref": "#/$defs/yes"}},
        "$defs": {"no": False, "yes": True},
    }
    assert simplified(schema)[0] == {"type": "object", "properties": {"b": {}}}


def test_recursion_is_cut_where_it_begins_again() -> None:
    node = {
        "type": "object",
        "description": "a node",
        "properties": {
            "value": TEXT,
            "children": {"type": "array", "items": {"$ref": "#/$defs/N"}},
        },
        "required": ["value"],
    }
    simple, lost = simplified({"$ref": "#/$defs/N", "$defs": {"N": node}})
    assert simple == {
        "type": "object",
        "description": "a node",
        "properties": {
            "value": TEXT,
            "children": {"type": "array", "items": {"type": "object", "description": "a node"}},
        },
        "required": ["value"],
    }
    assert lost["schema.$ref"] == "recursion cut"


def test_recursion_through_the_root_is_cut() -> None:
    simple, _ = simplified({"type": "object", "properties": {"next": {"$ref": "#"}}})
    assert simple == {"type": "object", "properties": {"next": {"type": "object"}}}


def test_recursion_without_an_end_is_any_value() -> None:
    assert of_property({"$ref": "#/$defs/a"}, {"a": {"$ref": "#/$defs/a"}}) == {}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/none"},
        {"$ref": "#none"},
        {"$ref": "https://example.com/else"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "http://["},
        {"$ref": "#/required/x", "required": ["a"]},
        {"$ref": 1},
        {"$ref": None},
        {"$ref": {}},
        {"$ref": "#none", "$id": 1},
        {"$ref": "#none", "properties": 1},
        {"$ref": "#none", "$defs": {"a": {"$id": []}}},
    ],
)
def test_reference_that_leads_nowhere_is_an_error(schema: Schema) -> None:
    with pytest.raises(
        EncodeError,
        match=r"^tools\[3\]: a \$ref that leads nowhere, expected one within the schema$",
    ):
        simplified(schema)


def test_reference_to_no_schema_is_any_value() -> None:
    simple, lost = simplified(
        {"type": "object", "properties": {"p": {"$ref": "#/title"}}, "title": "t"}
    )
    assert simple["properties"]["p"] == {}
    assert lost["schema.keyword"] == "written as {}"


def test_references_are_an_error_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "referencing", None)
    with pytest.raises(
        EncodeError,
        match=r"no referencing, which inlines a \$ref, expected the extra `schemas`: ",
    ):
        simplified({"$ref": "#/$defs/Text", "$defs": {"Text": TEXT}})
    assert simplified({"type": ["object", "null"]})[0] == {"type": "object", "properties": {}}


def test_definitions_that_multiply_are_bounded() -> None:
    twice = {
        f"d{n}": {"type": "array", "prefixItems": [{"$ref": f"#/$defs/d{n + 1}"}] * 2}
        for n in range(13)
    }
    with pytest.raises(EncodeError, match="more than 5000 subschemas"):
        of_property({"$ref": "#/$defs/d0"}, {**twice, "d13": TEXT})


@pytest.mark.parametrize("keyword", ["enum", "required"])
def test_values_that_multiply_are_bounded(keyword: str) -> None:
    values = {keyword: [f"v{n}" for n in range(1000)]}
    branches = [{"$ref": "#/$defs/d"}] * 100
    of_property({"anyOf": branches}, {"d": values})
    with pytest.raises(EncodeError, match="more than 100000 values, expected at most that"):
        of_property({"anyOf": [*branches, values]}, {"d": values})


def test_long_chain_of_references_is_bounded() -> None:
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(3000)}
    with pytest.raises(EncodeError, match="nested deeper than 100"):
        of_property({"$ref": "#/$defs/d0"}, {**chain, "d3000": TEXT})
