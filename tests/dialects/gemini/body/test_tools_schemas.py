"""Gemini's `Schema` as JSON Schema."""

from __future__ import annotations

from typing import Any

import pytest

import streamnorm
from streamnorm import DecodeError
from streamnorm.dialects.gemini.body.tools import json_schema


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "STRING"}, {"type": "string"}),
        ({"type": "string", "minLength": "3"}, {"type": "string", "minLength": 3}),
        ({"type": ["STRING", "null"]}, {"type": ["STRING", "null"]}),
        ({"type": "TYPE_UNSPECIFIED", "title": "A"}, {"title": "A"}),
        (
            {"type": 6, "properties": {"a": {"type": 0}, "b": {"type": 9}, "c": {"type": True}}},
            {"type": "object", "properties": {"a": {}, "b": {"type": 9}, "c": {"type": True}}},
        ),
        ({"type": "STRING", "format": "enum", "enum": ["a"]}, {"type": "string", "enum": ["a"]}),
        ({"type": "STRING", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "STRING", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "STRING", "nullable": False}, {"type": "string"}),
        ({"type": "null", "nullable": True}, {"type": "null"}),
        ({"nullable": True}, {}),
        (
            {"type": "STRING", "enum": ["a"], "nullable": True},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        (
            {"any_of": [{"type": "STRING"}, {"type": "NUMBER"}], "nullable": True},
            {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
        ),
        (
            {
                "type": "OBJECT",
                "properties": {"max_items": {"type": "INTEGER"}, "type": {"type": "STRING"}},
                "propertyOrdering": ["type", "max_items"],
                "additional_properties": False,
                "required": ["type"],
            },
            {
                "type": "object",
                "properties": {"max_items": {"type": "integer"}, "type": {"type": "string"}},
                "propertyOrdering": ["type", "max_items"],
                "additionalProperties": False,
                "required": ["type"],
            },
        ),
        (
            {"type": "ARRAY", "items": {"type": "NUMBER"}, "max_items": "5", "minItems": 1},
            {"type": "array", "items": {"type": "number"}, "maxItems": 5, "minItems": 1},
        ),
        (
            {"additionalProperties": {"type": "STRING"}, "description": None},
            {"additionalProperties": {"type": "string"}},
        ),
        (
            {"ref": "#/$defs/a", "defs": {"a": {"type": "STRING"}}},
            {"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}},
        ),
        ({"maxLength": "many", "minItems": "9" * 20}, {"maxLength": "many", "minItems": "9" * 20}),
        ({"oneOf": [{"type": "STRING"}], "x-a": 1}, {"oneOf": [{"type": "STRING"}], "x-a": 1}),
        ({"properties": [], "anyOf": {}}, {"properties": [], "anyOf": {}}),
    ],
    ids=repr,
)
def test_a_schema_is_read_as_json_schema(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert json_schema(schema) == expected


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"items": []}, "$.items"),
        ({"properties": {"a": {"items": "string"}}}, "$.properties.a.items"),
        ({"anyOf": [{}, 1]}, "$.anyOf[1]"),
        ({"defs": {"a": 1}}, "$.defs.a"),
    ],
    ids=repr,
)
def test_a_schema_within_that_is_no_object_is_refused(schema: dict[str, Any], path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        json_schema(schema)
    assert caught.value.path == path


def test_names_of_types_in_a_json_schema_are_read_in_either_case() -> None:
    """Gemini CLI 0.61 asks its classifier so."""
    shown = {"type": "OBJECT", "enum": ["STRING"]}
    schema = {
        "type": "OBJECT",
        "properties": {
            "type": {"type": "STRING", "enum": ["OBJECT", "b"], "default": {"type": "STRING"}},
            "parts": {"type": "ARRAY", "items": {"anyOf": [{"type": "NUMBER"}, {"type": "null"}]}},
            "odd": {"type": ["STRING", "NULL"], "title": "STRING", "const": shown},
            "none": True,
        },
        "required": ["type"],
        "$defs": {"OBJECT": {"type": "Object"}},
    }
    expected = {
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["OBJECT", "b"], "default": {"type": "STRING"}},
            "parts": {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "null"}]}},
            "odd": {"type": ["string", "null"], "title": "STRING", "const": shown},
            "none": True,
        },
        "required": ["type"],
        "$defs": {"OBJECT": {"type": "Object"}},
    }
    output = {"responseMimeType": "application/json", "responseJsonSchema": schema}
    declaration = {"name": "f", "parametersJsonSchema": schema}
    contents = [{"role": "user", "parts": [{"text": "Hi"}]}]
    body = {
        "contents": contents,
        "generationConfig": output,
        "tools": [{"functionDeclarations": [declaration]}],
    }
    request = streamnorm.decode_request(body, "gemini", path="/v1beta/models/m:generateContent")
    assert request.output is not None
    assert request.output.schema == expected
    assert request.tools[0].input_schema == expected
